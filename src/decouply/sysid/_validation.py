"""Which part of the records is held back to choose among the starts of a fit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._support._errors import InputError
from .._support._shown import pluralised, short_repr
from ._signals import Signals


def held_back(signals: Signals, validation: Any, n: int) -> tuple[Signals, Signals]:
    """Records to fit, and records that choose among the starts."""
    if isinstance(validation, float | int) and not isinstance(validation, bool):
        if not 0.0 < validation < 1.0:
            raise InputError(
                f"`validation` must be a share between 0 and 1, or a record (u, y). Got {short_repr(validation)}."
            )
        longest = int(np.argmax([len(record) for record in signals.u]))
        cut = round((1.0 - validation) * len(signals.u[longest]))
        held = Signals((signals.u[longest][cut:],), (signals.y[longest][cut:],))
        u, y = list(signals.u), list(signals.y)
        u[longest], y[longest] = u[longest][:cut], y[longest][:cut]
        signals = Signals(tuple(u), tuple(y))
    else:
        parts = tuple(validation) if isinstance(validation, Iterable) and getattr(validation, "ndim", 1) != 0 else ()
        if len(parts) != 2:
            raise InputError(
                f"`validation` must be a share between 0 and 1, or a record (u, y). Got {short_repr(validation)}."
            )
        held = Signals.read(*parts)
        if (held.n_inputs, held.n_outputs) != (signals.n_inputs, signals.n_outputs):
            raise InputError(
                f"`validation` must have {signals.n_inputs} inputs and {signals.n_outputs} outputs, like the records. "
                f"Got {held.n_inputs} and {held.n_outputs}."
            )
    shortest = min(len(record) for record in held.u)
    if shortest < 4 * n:
        raise InputError(
            f"`validation` must leave at least {4 * n} samples for {pluralised(n, 'state')}. Got {shortest}: give longer "
            "records, a larger share, or a record of its own, or lower `n_states`."
        )
    return signals, held
