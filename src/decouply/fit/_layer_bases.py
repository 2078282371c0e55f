"""The bases of every layer, from the arguments that people give."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .._support._checks import as_counts
from .._support._errors import InputError
from .._support._shown import short_repr
from ..bases import AbstractBasis, LayerBasis
from ..bases._abstract import MOST_FUNCTIONS


def layer_bases(ranks: Any, degrees: Any, basis: Any) -> tuple[LayerBasis, ...]:
    """The bases of every layer, as the arguments of `decouple` describe them."""
    ranks = as_counts("ranks", ranks, most=MOST_FUNCTIONS)
    sizes = None if degrees is None else as_counts("degrees", degrees, most=MOST_FUNCTIONS)
    if sizes is not None and len(sizes) != len(ranks):
        raise InputError(
            f"`degrees` must have one number per layer, like `ranks`: {len(ranks)}. Got {len(sizes)}: {short_repr(degrees)}."
        )
    if isinstance(basis, type) and issubclass(basis, AbstractBasis):
        if sizes is None and needs_degree(basis):
            raise InputError(
                "`degrees` must be given with a basis class: one number per layer, such as (3, 3). Got None."
            )
        per_layer: Sequence[Any] = [basis()] * len(ranks) if sizes is None else [_make_basis(basis, d) for d in sizes]
    elif isinstance(basis, AbstractBasis):
        per_layer = [basis] * len(ranks)
    elif isinstance(basis, Sequence) and not isinstance(basis, str) and len(basis) == len(ranks):
        per_layer = [
            _make_basis(b, sizes[l]) if isinstance(b, type) and sizes is not None else b for l, b in enumerate(basis)
        ]
    else:
        raise InputError(
            f"`basis` must be a basis class, a basis, or one entry per layer ({len(ranks)}). Got {short_repr(basis)}."
        )
    layers = tuple(LayerBasis.of(b, r) for b, r in zip(per_layer, ranks, strict=True))
    found = tuple(layer.size for layer in layers)
    if sizes is not None and found != sizes:
        raise InputError(
            f"`degrees` must agree with `basis`, which has sizes {found}. Got {sizes}: leave `degrees` out."
        )
    return layers


def needs_degree(basis: type[AbstractBasis]) -> bool:
    """Whether a class cannot make a basis without being told a degree."""
    fields = inspect.signature(basis).parameters.values()
    return any(field.default is field.empty for field in fields)


def _make_basis(basis: Callable[[int], AbstractBasis], degree: int) -> AbstractBasis:
    try:
        return basis(degree)
    except TypeError as error:
        raise InputError(
            f"`basis` must be a class that takes the degree alone, or a basis made from it. Got "
            f"{short_repr(basis)}: {error}."
        ) from error
