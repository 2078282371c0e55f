"""The functions of a state-space model, as people ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..._support._errors import InputError
from ..._support._messages import short_repr
from ...bases import AbstractBasis, LayerBasis
from ...fit._settings import layer_bases


@dataclass(frozen=True)
class StateFunction:
    """A function of the state alone that acts on the state alone, centred where the training data are on average.

    It has fewer numbers than a function of states and inputs that also reaches the output, and extrapolates better
    where the physics are such: friction of a velocity, a spring of a position.
    """

    basis: AbstractBasis

    def __post_init__(self) -> None:
        if not isinstance(self.basis, AbstractBasis):
            raise InputError(f"`basis` must be a basis such as dc.Tanh(). Got {short_repr(self.basis)}.")


def read_layers(
    functions: Any, ranks: Any, degrees: Any, basis: Any
) -> tuple[tuple[LayerBasis, ...], tuple[bool, ...]]:
    """The bases of all layers, and which functions of the first are `StateFunction`s."""
    if functions is not None:
        if ranks is not None or degrees is not None:
            raise InputError("`functions` must be given without `ranks` and `degrees`. Got both.")
        given = list(functions) if isinstance(functions, Sequence) and not isinstance(functions, str) else []
        if not given or not all(isinstance(f, AbstractBasis | StateFunction) for f in given):
            raise InputError(
                "`functions` must be a list with one basis per function, such as [dc.Monomial(3), dc.Tanh()]. "
                f"Got {short_repr(functions)}."
            )
        held = tuple(isinstance(f, StateFunction) for f in given)
        return (LayerBasis(tuple(f.basis if isinstance(f, StateFunction) else f for f in given)),), held
    layers = layer_bases(2 if ranks is None else ranks, 3 if ranks is None and degrees is None else degrees, basis)
    return layers, (False,) * len(layers[0].bases)
