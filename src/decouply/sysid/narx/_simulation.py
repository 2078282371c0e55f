"""Free-run simulation: the model is fed its own past outputs.

The recursion cannot be vectorised over time, so each step must be cheap: a model is written out once as straight-line
arithmetic on Python floats and compiled, about ten times faster per step than the same arithmetic in NumPy on arrays
of five numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._errors import warn
from ...model._decoupling import Decoupling
from ...write._formula import formula
from ...write._source import compiled
from ..signals._records import Range
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


def warn_of_escape(name: str, stopped: int, n_steps: int, limits: Range) -> None:
    """Tell where a simulation left the range in which the model means anything."""
    ranges = ", ".join(f"[{lo:.4g}, {hi:.4g}]" for lo, hi in zip(limits.low, limits.high, strict=True))
    warn(
        f"The simulation of {name} left the range {ranges} at step {stopped} of {n_steps} and was stopped there; the "
        "outputs from that step on are NaN. The model is unstable on this input, or the input is far larger than the "
        "training data; a decoupled model stays finite with `with_outside`.",
        stacklevel=3,
    )
