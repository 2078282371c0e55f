r"""A ridge chosen from the misfit: what keeps a model from following noise.

Where data are noisy, the lowest minimum lies below the truth: it follows the noise, with large weights that cancel each
other at the samples and nowhere else. A ridge of 30 c / N, with c the cost without a ridge and N the numbers that are
fitted, was the best of those compared (docs/recovery.md): restricted maximum likelihood and generalised
cross-validation, which look at one minimum at a time, choose too little. The more numbers, the smaller it is. It is
taken only if the data allow it: the true model has the misfit N / (N - p) times that of a fit of p parameters, so a
ridge that raises the misfit much above that distorts the model, and a third of it is tried.
"""

from __future__ import annotations

from collections.abc import Iterator

_FACTOR = 30.0  # of the cost per number
_ALLOWED = 2.5  # times the rise p / (N - p) of the misfit that the truth would show
_SMALLER, _TRIES = 3.0, 4
_NO_RIDGE = 1e-13  # that changes no digit that counts


def ridges(cost: float, n_numbers: int) -> Iterator[float]:
    """Ridges to try, largest first."""
    for k in range(_TRIES):
        ridge = _FACTOR * cost / n_numbers / _SMALLER**k
        if ridge > _NO_RIDGE:
            yield ridge


def allowed_misfit(cost: float, n_numbers: int, n_free: int, nothing: float) -> float:
    """The misfit up to which a model with a ridge may be as good as the truth; `nothing` is that of the model 0.

    At least half of what was explained stays explained, so that no ridge leads to the model 0.
    """
    as_the_truth = cost * (1.0 + _ALLOWED * n_free / max(n_numbers - n_free, 1))
    return min(as_the_truth, (cost + nothing) / 2.0)
