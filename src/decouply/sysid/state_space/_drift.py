"""Drift: whether a straight line in time explains outputs that inputs and states do not.

The line is one more input of a linear model. A model without it spends a slow pole on a drift, so that one with the
line is also compared with one that has a state more.
"""

from __future__ import annotations

import numpy as np

from ..._support._errors import InputError
from ..free_run._linear import fit_linear
from ..free_run._step import spectral_radius
from ..signals._records import RecordBatch

_SAMPLES = 8192  # that are looked at
_CLEARLY_BETTER, _AS_GOOD = 0.8, 1.02  # errors with the line relative to those without it
_TIME_CONSTANTS = 20.0  # that the record must hold: the answer of a slower system looks like a drift


def remarks_on_drift(batch: RecordBatch, begins: tuple[int, ...], n: int) -> list[str]:
    """What a user should know if outputs drift; nothing if they do not.

    `begins` are the times at which the records begin, by default 0, and `n` is the number of states that they need.
    """
    part = batch.first_samples(_SAMPLES)
    times = [
        begin + np.arange(len(u), dtype=float) for begin, u in zip(begins or (0,) * len(part), part.u, strict=False)
    ]
    every = np.concatenate(times)
    lines = [((t - every.mean()) / every.std())[:, None] for t in times]
    timed = RecordBatch(tuple(np.concatenate([u, t], axis=1) for u, t in zip(part.u, lines, strict=True)), part.y)
    fewer = max(n - 1, 1)
    try:
        without, with_line = (
            {k: fit_linear(records, records, k, feedthrough=True) for k in (fewer, n)} for records in (part, timed)
        )
    except InputError:  # too short for one more input
        return []

    def explains(k: int) -> bool:
        is_slow = spectral_radius(with_line[k].step, k) > 1.0 - _TIME_CONSTANTS / len(every)
        return with_line[k].rmse < _CLEARLY_BETTER * without[k].rmse and not is_slow

    if explains(fewer) and with_line[fewer].rmse < _AS_GOOD * without[n].rmse:
        n = fewer
    elif not explains(n):
        return []
    return [
        f"The output drifts: a straight line in time lowers the error of a linear model from "
        f"{100 * without[n].rmse:.3g} % to {100 * with_line[n].rmse:.3g} % of the signal. If the line is no part of "
        "the system, subtract it from `y`."
    ]
