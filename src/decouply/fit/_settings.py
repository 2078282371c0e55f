"""The bases of every layer, from the arguments that people give.

The shape of every function, from the argument that people give.

What `decouple` was asked, beside the samples and the solver: enough to ask it again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support._arguments import as_counts, is_word
from .._support._errors import InputError
from .._support._messages import short_repr
from ..bases import AbstractBasis, LayerBasis
from ..bases._abstract import ALL_SHAPES, MOST_FUNCTIONS
from ..samples._samples import Samples
from ..solvers._shape_constraints import Shapes


def layer_bases(ranks: Any, degrees: Any, basis: Any) -> tuple[LayerBasis, ...]:
    """The bases of every layer, as the arguments of `decouple` describe them."""
    ranks = as_counts("ranks", ranks, most=MOST_FUNCTIONS)
    sizes = None if degrees is None else as_counts("degrees", degrees, most=MOST_FUNCTIONS)
    if sizes is not None and len(sizes) != len(ranks):
        raise InputError(
            f"`degrees` must have one number per layer, like `ranks`: {len(ranks)}. Got {len(sizes)}: "
            f"{short_repr(degrees)}."
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


def layer_shapes(shapes: Any, layers: tuple[LayerBasis, ...]) -> Shapes | None:
    """A word or None for every function, layer by layer; None where nothing is asked for.

    One word holds for all functions. Else there is one entry per function of a single layer, or one per layer, each a
    word, None or one entry per function.
    """
    if shapes is None:
        return None
    if isinstance(shapes, str):
        per_layer: Sequence[Any] = [shapes] * len(layers)
    elif not isinstance(shapes, Sequence):
        raise InputError(f'`shapes` must be a word such as "increasing" or a list of them. Got {short_repr(shapes)}.')
    elif len(layers) == 1 and not any(isinstance(entry, Sequence) and not isinstance(entry, str) for entry in shapes):
        per_layer = [shapes]
    else:
        per_layer = shapes
    if len(per_layer) != len(layers):
        raise InputError(
            f"`shapes` must have one entry per layer, {len(layers)} here. Got {len(per_layer)}: {short_repr(shapes)}."
        )
    found = tuple(_of_layer(entry, layer) for entry, layer in zip(per_layer, layers, strict=True))
    for wishes, layer in zip(found, layers, strict=True):
        for wish, basis in zip(wishes, layer.bases, strict=True):
            if wish is not None:
                basis.shaped(wish)  # refuses what it cannot guarantee
    return found if any(wish is not None for wishes in found for wish in wishes) else None


def _of_layer(entry: Any, layer: LayerBasis) -> tuple[str | None, ...]:
    rank = len(layer.bases)
    wishes = (entry,) * rank if entry is None or isinstance(entry, str) else tuple(entry)
    if len(wishes) != rank:
        raise InputError(f"`shapes` must have one entry per function of a layer, {rank} here. Got {len(wishes)}.")
    for wish in wishes:
        if wish is not None and not is_word(wish, ALL_SHAPES):
            raise InputError(f"`shapes` must be None or words among {', '.join(ALL_SHAPES)}. Got {short_repr(wish)}.")
    return wishes


@dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of one call of `decouple`.

    Attributes
    ----------
    ranks, degrees, basis
        As they were given.
    linear
        Whether the model has a linear part.
    as_given
        Whether the solver worked on the data as given.
    n_starts
        The number of starts that was allowed, also where it was left to the solver.
    rng
        The seed; or, where a generator was given, a copy of it as it was before the first random number was drawn.
    validation
        The samples to judge by, if there were any.
    shapes
        As they were given.
    """

    ranks: Any
    degrees: Any
    basis: Any
    linear: bool
    as_given: bool
    n_starts: int
    rng: int | np.random.Generator
    validation: Samples | None
    shapes: Any = None
