r"""What the data determine: whether a decoupling is locally unique, and which of its functions are free.

Directions in which the derivatives Z of all data vanish change the parameters and not the data. Some are known: two
scalings per internal function (one if the basis has a scale), constants that no value fixes. More than
these mean that the model is one of a family; what they do to the standard writing of the model says which of its
functions are free.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ._canonical_moves import LayerMoves, canonical_moves, function_ranges
from ._linearisation import Linearisation

_STILL = 1e-5  # of its size: what a function moves by less than that, when parameters change the data by 1, is rounding


Function = tuple[int, int]  # layer and place, both from 1


@dataclass(frozen=True)
class Identifiability:
    """What the data determine of a model, near this model.

    Parts that were held fixed are not counted.

    Attributes
    ----------
    rank : int
        Of the derivatives of all data with respect to all parameters.
    n_parameters, n_ambiguities : int
        Free parameters, and how many of these scalings and constants leave open in any case.
    smallest_singular_value : float
        Of the derivatives, as a share of the largest: how well the least determined parameter is known.
    determined : tuple of (layer, place)
        The functions whose curves the data determine, by layer and place from 1.
    free : tuple of groups of (layer, place)
        Groups of functions whose curves can change together without a change of the data.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3)
    >>> result.identifiability.locally_unique
    True
    """

    rank: int
    n_parameters: int
    n_ambiguities: int
    smallest_singular_value: float
    determined: tuple[Function, ...] = ()
    free: tuple[tuple[Function, ...], ...] = ()

    @property
    def locally_unique(self) -> bool:
        """Whether the data determine all parameters that scalings leave free: no other model is near this one.

        There can be others elsewhere, see `Result.other_solutions`.
        """
        return self.rank >= self.n_parameters - self.n_ambiguities

    @property
    def in_words(self) -> str:
        """Which functions are free: "g_2 and g_3 can be mixed". Empty if the data determine all."""
        several = any(layer > 1 for layer, _ in (*self.determined, *(f for group in self.free for f in group)))
        named = [[f"g_{layer},{j}" if several else f"g_{j}" for layer, j in group] for group in self.free]
        said = [f"{listed(names)} can be mixed" for names in named if names[1:]]
        if alone := [name for (name, *more) in named if not more]:
            said.append(f"{listed(alone)} {'are' if alone[1:] else 'is'} free")
        return "; ".join(said)

    def __str__(self) -> str:
        wanted = self.n_parameters - self.n_ambiguities
        if self.locally_unique:
            return (
                f"Locally unique: the data determine all {wanted} parameters that scalings leave free (smallest "
                f"singular value {self.smallest_singular_value:.1e} of the largest)."
            )
        which = f": {self.in_words}" if self.free else ""
        return (
            f"Not unique: the data determine {self.rank} of {wanted} parameters; {wanted - self.rank} more can change "
            f"without changing the fit{which}. Lower the ranks or degrees, or give more samples."
        )


def listed(names: list[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def identifiability(at: Linearisation) -> Identifiability:
    """Compare the rank of the derivatives, without penalties, with the number of free parameters less ambiguities.

    What holds functions smooth also decides what they are away from the samples, so it counts for which ones are free.
    """
    plain = at.unpenalised()
    n_parameters, n_ambiguities = int(at.free.sum()), _n_ambiguities(at.model, at.samples, at.fixed)
    last = min(n_parameters - n_ambiguities, len(plain.singular)) - 1
    smallest = float(plain.singular[last] / plain.singular[0]) if plain.rank and last >= 0 else 0.0
    groups = _free_groups(at)
    moving = {function for group in groups for function in group}
    every = [(l, j) for l, r in enumerate(at.model.ranks, start=1) for j in range(1, r + 1)]
    determined = tuple(one for one in every if one not in moving)
    return Identifiability(plain.rank, n_parameters, n_ambiguities, smallest, determined, groups)


def undetermined_functions(at: Linearisation) -> tuple[Bool[ndarray, " _"], ...]:
    """Which functions of every layer can change their curves without a change of the data."""
    moving = {function for group in _free_groups(at) for function in group}
    return tuple(np.array([(l, j) in moving for j in range(1, r + 1)]) for l, r in enumerate(at.model.ranks, start=1))


def free_moves(at: Linearisation) -> tuple[Float[ndarray, "k N"], list[LayerMoves]]:
    """Moves of the parameters that change no data, smoothed as the fit was, and what they do to every layer."""
    plain = at.without_ridge()
    return plain.null_space, canonical_moves(plain, plain.moves(plain.null_space))


def _free_groups(at: Linearisation) -> tuple[tuple[Function, ...], ...]:
    """The functions that move with each other when the data do not."""
    _, layers = free_moves(at)
    blocks: dict[Function, ndarray] = {}
    for l, (layer, (_, size)) in enumerate(
        zip(layers, function_ranges(at.problem.layers, at.theta, at.chain), strict=True)
    ):
        for j in range(len(size)):
            if size[j] <= np.finfo(float).tiny:  # a function that does nothing could be any
                blocks[l + 1, j + 1] = np.zeros((len(layer.curves), 0))
                continue
            turns, sizes, _ = np.linalg.svd(
                layer.curves[:, :, j] / (size[j] * np.sqrt(layer.curves.shape[1])), full_matrices=False
            )
            moved = sizes > _STILL
            if moved.any():
                blocks[l + 1, j + 1] = turns[:, moved] * sizes[moved]
    return _connected(blocks)


def _connected(blocks: dict[Function, Float[ndarray, "k _"]]) -> tuple[tuple[Function, ...], ...]:
    """Groups of functions, one block of columns each, such that what the rows span is the sum of its parts.

    It is if the projection onto it joins no two of the groups.
    """
    owner = [function for function, block in blocks.items() for _ in range(block.shape[1])]
    group = {function: {function} for function in blocks}
    if owner:
        _, sizes, right = np.linalg.svd(np.concatenate(list(blocks.values()), axis=1), full_matrices=False)
        spanned = right[sizes > _STILL]
        for i, j in zip(*np.nonzero(np.abs(spanned.T @ spanned) > _STILL), strict=True):
            together = group[owner[i]] | group[owner[j]]
            group |= dict.fromkeys(together, together)
    return tuple(sorted({tuple(sorted(members)) for members in group.values()}))


def _n_ambiguities(model: Decoupling, samples: Samples, fixed: Collection[str]) -> int:
    """Scalings of functions none of whose neighbours is held, constants that no value fixes, lines that A can take."""
    held, L = set(fixed), len(model.g)
    total = 0
    for l, g in enumerate(model.g, start=1):
        free = g.layer.free_domain
        if not held & {f"W{l - 1}", f"g{l}"}:
            # Where the middle of a domain is an unknown, so it is for functions that need none.
            total += int(np.sum(~free)) * (2 if free.any() else 1)
        if not held & {f"g{l}", f"W{l}"}:
            total += g.rank
    if f"g{L}" not in held:
        r = model.ranks[-1]
        total += r if not samples.has_values else r - int(np.linalg.matrix_rank(model.W[-1], rtol=1e-10))
        if model.linear is not None and L == 1:
            total += sum(basis.line() is not None for basis in model.g[0].layer.bases)
    return total
