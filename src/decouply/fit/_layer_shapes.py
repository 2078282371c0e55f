"""The shape of every function, from the argument that people give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._support._checks import is_word
from .._support._errors import InputError
from .._support._shown import short_repr
from ..bases import LayerBasis
from ..bases._abstract import ALL_SHAPES
from ..solvers._shapes import Shapes


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
