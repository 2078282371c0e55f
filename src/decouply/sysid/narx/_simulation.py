"""Free-run simulation of NARX models: they are fed their own past outputs.

The recursion cannot be vectorised over time, so each step must be cheap: a model is written out once as straight-line
arithmetic on Python floats and compiled, about ten times faster per step than the same arithmetic in NumPy on arrays
of five numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import Monomial
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ...write._formula import formula
from ...write._source import compiled
from ..signals._records import Range, Signals
from ._regressors import Lags

Step = Callable[..., Sequence[float]]


def step_of(model: Decoupling) -> Step:
    """A decoupling as a fast function of numbers; bases that cannot be written out are evaluated as they are."""
    if all(basis.writable for g in model.g for basis in g.layer.bases):
        return compiled(formula(model.with_names(None, None), "python"))  # names of users have no place in it
    return lambda *x: model.values(np.array([x]))[0].tolist()


def free_run(
    step: Step,
    lags: Lags,
    u: Float[ndarray, "T inputs"],
    y_init: Float[ndarray, "k outputs"],
    limits: Range,
) -> tuple[Float[ndarray, "T outputs"], int | None]:
    """Outputs for all times, the first ones as given; and the time at which they left the limits, if they did.

    From that time on the outputs are NaN.
    """
    first = len(y_init)
    y = np.full((len(u), lags.n_outputs), np.nan)
    y[:first] = y_init
    windows = lags.input_windows(u, first).tolist()
    past = y_init[::-1][: lags.n_y].ravel().tolist()
    keep = len(past) - lags.n_outputs
    bounds = list(zip(limits.low.tolist(), limits.high.tolist(), strict=True))
    rows = []
    stopped = None
    with np.errstate(all="ignore"):  # what overflows inside a step is out of bounds after it
        for t, window in enumerate(windows):
            new = step(*window, *past)
            if not all(lo <= value <= hi for value, (lo, hi) in zip(new, bounds, strict=True)):  # false for NaN as well
                stopped = first + t
                break
            rows.append(new)
            if lags.n_y:
                past = [*new, *past[:keep]]
    if rows:
        y[first : first + len(rows)] = rows
    return y, stopped


def linear_model(lags: Lags, signals: Signals) -> Decoupling:
    """A linear model to compare with: least squares for y(t) on a constant and the regressors, of all records."""
    X = np.concatenate([lags.regressors(u, y) for u, y in zip(signals.u, signals.y, strict=True)])
    Y = np.concatenate([y[lags.longest :] for y in signals.y])
    middle, size = X.mean(axis=0), X.std(axis=0)
    size = np.where(size > 0.0, size, 1.0)
    slopes = np.linalg.lstsq((X - middle) / size, Y - Y.mean(axis=0), rcond=None)[0].T / size
    nothing = Functions(Monomial(1), np.zeros((1, 2)))
    return Decoupling(
        [np.zeros((1, X.shape[1])), np.zeros((Y.shape[1], 1))],
        [nothing],
        linear=slopes,
        offset=Y.mean(axis=0) - slopes @ middle,
    )
