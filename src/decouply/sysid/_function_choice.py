"""Which functions suit a record: models with several lists of them are fitted, and held-back data choose."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from .._support._errors import SolverError
from ._state_space import DecoupledStateSpace

_CLEARLY_BETTER = 0.9  # a model with more parameters must lower the validation error to this share


def fit_with_best_functions(
    u: object,
    y: object,
    n_states: int,
    lists: Mapping[str, Sequence[Any]],
    *,
    options: Mapping[str, Any],
    **fit: Any,
) -> tuple[DecoupledStateSpace, str]:
    """The model with the list whose start was best on held-back data, and the reason in one sentence.

    `options` are those of `DecoupledStateSpace`, `fit` those of its `fit`. Of two models the one with more parameters
    must be better by a tenth.
    """
    found: dict[str, tuple[DecoupledStateSpace, float]] = {}
    failed: SolverError | None = None
    for name, functions in lists.items():
        try:
            model = DecoupledStateSpace(n_states, list(functions), **options).fit(u, y, **fit)
        except SolverError as error:
            failed = error
            continue
        found[name] = (model, next((row.validation for row in model.starts if row.chosen), math.inf))
    if failed is not None and not found:
        raise failed
    by_size = sorted(found, key=lambda name: found[name][0].n_canonical)
    best = by_size[0]
    for name in by_size[1:]:
        if found[name][1] < _CLEARLY_BETTER * found[best][1]:
            best = name
    shares = {name: f"{100.0 * validation:.3g} %" for name, (_, validation) in found.items()}
    others = ", ".join(f"{share} with {name}" for name, share in shares.items() if name != best)
    reason = f"Functions: {best}; {shares[best]} of the signal on held-back data" + (f", {others}." if others else ".")
    return found[best][0], reason
