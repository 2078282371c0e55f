r"""What the data determine: whether a decoupling is locally unique, and which of its functions are free.

Directions in which the derivatives Z of all data vanish change the parameters and not the data. Some are known: two
scalings per internal function (one if the basis has a scale), constants that no value fixes. More than
these mean that the model is one of a family; what they do to the standard writing of the model says which of its
functions are free.

That is local. Two theorems say more, if Jacobians are known:

- One layer (Kruskal, 1977). J_s = W_1 diag(g_s) W_0 has no other factors, apart from scales and order, if the Kruskal
  ranks of W_1, W_0 and G add up to 2 r + 2. The Kruskal rank is k if any k columns are independent.
- Two layers (Harshman and Lundy, 1996). The quadrics that all slices satisfy give the factors of a ParaTuck-2. There
  must be no more of them than `_tensor_decompositions` names, and no minor of W_1 may be 0. A factor per slice between
  the layers stays open. It is fixed if only one g_1 solves the linear equations of its coefficients.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...samples._samples import Samples
from ..initial._tensor_decompositions import n_products_of_entries, samples_for_paratuck2
from ..initial._two_layers import first_coefficients_triangle
from ._canonical_moves import LayerMoves, canonical_moves, function_ranges
from ._linearisation import Linearisation

_STILL = 1e-5  # of its size: what a function moves by less than that, when parameters change the data by 1, is rounding
_INDEPENDENT = 1e-7  # singular values of unit columns: above, the columns are independent whatever rounding did
_MOST_SUBSETS, MOST_PRODUCTS = 500, 700  # of columns, and of entries of a slice: more would take longer than a fit
KRUSKAL, PARATUCK = "Kruskal's theorem", "the uniqueness of ParaTuck-2"

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
    theorem : str
        What says that no other model of this shape, near or far, has the same Jacobians at the samples: "Kruskal's
        theorem" (one layer), "the uniqueness of ParaTuck-2" (two layers). Empty if nothing is known.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> result = dc.decouple(samples, ranks=2, degrees=3)
    >>> result.identifiability.locally_unique
    True
    >>> result.identifiability.theorem
    "Kruskal's theorem"
    """

    rank: int
    n_parameters: int
    n_ambiguities: int
    smallest_singular_value: float
    determined: tuple[Function, ...] = ()
    free: tuple[tuple[Function, ...], ...] = ()
    theorem: str = ""

    @property
    def locally_unique(self) -> bool:
        """Whether the data determine all parameters that scalings leave free: no other model is near this one.

        There can be others elsewhere unless a `theorem` rules them out; `Result.other_solutions` looks for them.
        """
        return self.rank >= self.n_parameters - self.n_ambiguities

    @property
    def in_words(self) -> str:
        """Which functions are free: "g_2 and g_3 can be mixed". Empty if the data determine all."""
        several = any(layer > 1 for layer, _ in (*self.determined, *(f for group in self.free for f in group)))
        named = [[f"g_{layer},{j}" if several else f"g_{j}" for layer, j in group] for group in self.free]
        said = [f"{join_names(names)} can be mixed" for names in named if names[1:]]
        if alone := [name for (name, *more) in named if not more]:
            said.append(f"{join_names(alone)} {'are' if alone[1:] else 'is'} free")
        return "; ".join(said)

    def __str__(self) -> str:
        wanted = self.n_parameters - self.n_ambiguities
        if self.locally_unique:
            everywhere = f" By {self.theorem}, no other model of this shape has the same Jacobians at the samples."
            return (
                f"Locally unique: the data determine all {wanted} parameters that scalings leave free (smallest "
                f"singular value {self.smallest_singular_value:.1e} of the largest).{everywhere * bool(self.theorem)}"
            )
        which = f": {self.in_words}" if self.free else ""
        return (
            f"Not unique: the data determine {self.rank} of {wanted} parameters; {wanted - self.rank} more can change "
            f"without changing the fit{which}. Lower the ranks or degrees, or give more samples."
        )


def join_names(names: list[str]) -> str:
    """ "a, b and c"."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def identifiability(at: Linearisation) -> Identifiability:
    """Compare the rank of the derivatives, without penalties, with the number of free parameters less ambiguities.

    What holds functions smooth also decides what they are away from the samples, so it counts for which ones are free.
    """
    plain = at.without_penalties()
    n_parameters, n_ambiguities = int(at.free.sum()), _n_ambiguities(at.model, at.samples, at.fixed)
    last = min(n_parameters - n_ambiguities, len(plain.singular)) - 1
    smallest = float(plain.singular[last] / plain.singular[0]) if plain.rank and last >= 0 else 0.0
    groups = _free_groups(at)
    moving = {function for group in groups for function in group}
    every = [(l, j) for l, r in enumerate(at.model.ranks, start=1) for j in range(1, r + 1)]
    determined = tuple(one for one in every if one not in moving)
    found = Identifiability(plain.rank, n_parameters, n_ambiguities, smallest, determined, groups)
    return replace(found, theorem=_theorem(at)) if found.locally_unique else found


def _theorem(at: Linearisation) -> str:
    """What says that no other model of this shape has these Jacobians at the samples; empty if nothing does."""
    model, samples, L = at.model, at.samples, len(at.model.g)
    all_count = samples.weights is None or bool(np.all(samples.weights > 0.0))
    known = samples.has_jacobians and samples.in_memory and all_count
    # Factors are unique, but curves with a place and a width may agree at all samples, as waves of two lengths do.
    placed = any(g.layer.free_domain.any() for g in model.g)
    if not known or placed or at.fixed or model.linear is not None or L > 2:
        return ""
    W, u = model.W, model.arguments(samples.X)
    G = [g.slopes(argument) for g, argument in zip(model.g, u, strict=True)]
    if L == 1:
        (r,) = model.ranks
        return KRUSKAL if r == 1 or sum(map(_kruskal_rank, (W[0].T, W[1], G[0]))) >= 2 * r + 2 else ""

    # Two layers, each slice in the coordinates of the functions: diag(g_s) W_1 diag(h_s).
    (r_1, r_2), S = model.ranks, samples.n_samples
    whole = _kruskal_rank(W[0].T) == r_1 and _kruskal_rank(W[2]) == r_2
    N = n_products_of_entries(r_1, r_2)
    if not whole or min(r_1, r_2) < 2 or N > MOST_PRODUCTS or samples_for_paratuck2(r_1, r_2) > S:
        return ""
    minors = [W[1][np.ix_(i, k)] for i in combinations(range(r_2), 2) for k in combinations(range(r_1), 2)]
    if any(_smallest_of_unit_columns(M) <= _INDEPENDENT or not M.all() for M in minors):
        return ""
    slices = (G[1][:, :, None] * W[1] * G[0][:, None, :]).reshape(S, -1)[: 2 * N]
    i, j = np.triu_indices(r_1 * r_2)
    slices = slices / np.maximum(np.linalg.norm(slices, axis=1, keepdims=True), np.finfo(float).tiny)
    products = slices[:, i] * slices[:, j]
    sizes = np.linalg.svd(products / np.linalg.norm(products, axis=0), compute_uv=False)
    rank = samples_for_paratuck2(r_1, r_2)  # all products less the quadrics
    unit = G[0] / np.maximum(np.linalg.norm(G[0], axis=1, keepdims=True), np.finfo(float).tiny)
    triangle = first_coefficients_triangle(at.problem.layers[0], at.chain.t[0][0], unit)
    alone = np.linalg.svd(triangle / np.linalg.norm(triangle, axis=0), compute_uv=False)
    return PARATUCK if sizes[rank - 1] > _INDEPENDENT * sizes[0] and alone[-2] > _INDEPENDENT * alone[0] else ""


def _kruskal_rank(columns: Float[ndarray, "p r"]) -> int:
    """The largest k such that any k columns are independent, or a smaller number where the subsets are too many."""
    p, r = columns.shape
    if min(p, r) == r and _smallest_of_unit_columns(columns) > _INDEPENDENT:
        return r
    k = 0
    while k < min(p, r) and comb(r, k + 1) <= _MOST_SUBSETS:
        if any(
            _smallest_of_unit_columns(columns[:, some]) <= _INDEPENDENT
            for some in map(list, combinations(range(r), k + 1))
        ):
            break
        k += 1
    return k


def _smallest_of_unit_columns(columns: Float[ndarray, "p k"]) -> float:
    """The smallest singular value of the columns at unit length; 0 if one of them is 0."""
    size = np.linalg.norm(columns, axis=0)
    return float(np.linalg.svd(columns / size, compute_uv=False)[-1]) if size.all() else 0.0


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
    return _connected_groups(blocks)


def _connected_groups(blocks: dict[Function, Float[ndarray, "k _"]]) -> tuple[tuple[Function, ...], ...]:
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
