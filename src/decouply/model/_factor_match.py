r"""Comparing two sets of factors up to everything that leaves the tensor unchanged.

A slice is a sum over paths (j_1, ..., j_L) through the layers,

.. math:: \sum_{j_1 \dots j_L} W_L[:, j_L] \, G^{(L)}_{s j_L} W_{L-1}[j_L, j_{L-1}] \cdots G^{(1)}_{s j_1} W_0[j_1, :],

and the term of a path is not changed by any diagonal or slice-wise scaling: signs and sizes cancel along it. Only the
names of the paths depend on the permutations. So two factor sets are compared by their path terms, for the best
permutation of each layer. `compare_factors` says which permutations these are, and how much the paths through each
component are alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations, product
from math import factorial, prod

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from .._support._arguments import as_points
from .._support._errors import InputError
from ._decoupling import Decoupling
from ._paratuck import ParaTuck

_ENUMERATE_UP_TO = 720
_RANDOM_STARTS = 20
_N_POINTS = 100


def factor_match(a: Decoupling | ParaTuck, b: Decoupling | ParaTuck, X: object = None) -> float:
    """Similarity of two decouplings or factor sets up to the trivial ambiguities: 1 if and only if they are the same.

    With t_a and t_b all path terms (see the module) it is 2 <t_a, t_b> / (||t_a||^2 + ||t_b||^2), for the best
    permutation of the components of each layer. A sign that does not cancel counts as a difference, as does a factor.
    Constants do not take part, since they do not enter Jacobians.

    Parameters
    ----------
    a, b : Decoupling or ParaTuck
        Of the same kind and dimensions.
    X : (S, m), optional
        Points where two decouplings are compared; by default 100 fixed points in [-1, 1]^m.

    Returns
    -------
    float
        1 if the factors are the same, 0 if they have nothing in common.

    Examples
    --------
    >>> import decouply as dc
    >>> f = dc.systems.f3()
    >>> round(dc.factor_match(f, f.scaled(1, [2, -1, 3], [1, 5, 1]).permuted(1, [2, 0, 1])), 12)
    1.0
    """
    return compare_factors(a, b, X).match


@dataclass(frozen=True, eq=False)
class FactorComparison:
    """Which internal function of one model belongs to which of another, and how well.

    Attributes
    ----------
    match : float
        `factor_match` of the two.
    order : tuple of arrays (r_l,)
        Per layer: function ``order[l][j]`` of b belongs to function j of a.
    components : tuple of arrays (r_l,)
        Per layer and function of a: 2 <t_a, t_b> / (||t_a||^2 + ||t_b||^2) over the terms of all paths through the
        pair, 1 if they are the same. It needs no choice of signs or scales.
    share : tuple of arrays (r_l,)
        Per layer and function of a: the part of ||t_a||^2 that runs through it. A poor match of a function with a small
        share matters little.

    Examples
    --------
    >>> import decouply as dc
    >>> model = dc.systems.f1()
    >>> comparison = dc.compare_factors(model, model.permuted(1, [1, 0]))
    >>> round(comparison.match, 6)
    1.0
    >>> comparison.order
    (array([1, 0]), array([0, 1]))
    """

    match: float
    order: tuple[Int[ndarray, " _"], ...]
    components: tuple[Float[ndarray, " _"], ...]
    share: tuple[Float[ndarray, " _"], ...]

    def __str__(self) -> str:
        lines = [f"match {self.match:.6g}", "layer  of a  of b  match     share"]
        for l, columns in enumerate(zip(self.order, self.components, self.share, strict=True), start=1):
            for j, (k, match, share) in enumerate(zip(*columns, strict=True), start=1):
                lines.append(f"{l:5d}  {j:4d}  {k + 1:4d}  {match:<8.6g}  {share:.3f}")
        return "\n".join(lines)


def compare_factors(a: Decoupling | ParaTuck, b: Decoupling | ParaTuck, X: object = None) -> FactorComparison:
    """Match the internal functions of two decouplings or factor sets, one by one; parameters as in `factor_match`.

    Parameters
    ----------
    a, b : Decoupling or ParaTuck
        What to compare, with equal ranks.
    X : array (S, m), optional
        Points for the functions of two decouplings.

    Returns
    -------
    FactorComparison
        The match, and which component of `b` belongs to which of `a`.

    Examples
    --------
    >>> import decouply as dc
    >>> f = dc.systems.f3()
    >>> found = dc.compare_factors(f, f.permuted(1, [2, 0, 1]))
    >>> [int(k) for k in found.order[0]]
    [1, 2, 0]
    """
    first, second = _comparable(a, b, X)
    same = _identity(first)
    inner, order = _best_order(first, second)
    norms = _inner_product(first, first, same) + _inner_product(second, second, same)
    components, share = [], []
    for l, pairs in enumerate(order):
        own, other = (np.diagonal(_gains(f, f, same, l)) for f in (first, second))
        both = _matching_pairs(_gains(first, second, order, l), pairs)
        size = own + other[pairs]
        components.append(np.where(size > 0.0, 2.0 * both / np.where(size > 0.0, size, 1.0), 1.0))
        share.append(own / (own.sum() or 1.0))
    match = float(2.0 * inner / norms) if norms > 0.0 else 1.0
    return FactorComparison(match, tuple(order), tuple(components), tuple(share))


def _comparable(a: Decoupling | ParaTuck, b: Decoupling | ParaTuck, X: object) -> tuple[ParaTuck, ParaTuck]:
    """The factors of both, at the same points, if they can be compared."""
    first, second = _factors(a, b, X)
    if first.ranks != second.ranks or [w.shape for w in first.W] != [w.shape for w in second.W]:
        raise InputError(f"`a` and `b` must have the same dimensions. Got {first!r} and {second!r}.")
    if first.n_samples != second.n_samples:
        raise InputError(f"`a` and `b` must have the same number of samples. Got {first!r} and {second!r}.")
    # All products are of one factor from each layer: in units of the largest entry, no square overflows.
    W, G = (
        [_in_common_units(*pair) for pair in zip(*of, strict=True)] for of in ((first.W, second.W), (first.G, second.G))
    )
    one, other = (ParaTuck([w[k] for w in W], [g[k] for g in G]) for k in (0, 1))
    return one, other


def _in_common_units(a: ndarray, b: ndarray) -> tuple[ndarray, ndarray]:
    largest = max(np.max(np.abs(a), initial=0.0), np.max(np.abs(b), initial=0.0)) or 1.0
    return a / largest, b / largest


def _factors(a: Decoupling | ParaTuck, b: Decoupling | ParaTuck, X: object) -> tuple[ParaTuck, ParaTuck]:
    if isinstance(a, ParaTuck) and isinstance(b, ParaTuck):
        if X is not None:
            raise InputError(
                "`X` must be left out when two factor sets are compared: they are at given points already."
            )
        return a, b
    if not (isinstance(a, Decoupling) and isinstance(b, Decoupling)):
        raise InputError(
            f"`a` and `b` must be two Decouplings or two ParaTucks. Got {type(a).__name__} and {type(b).__name__}."
        )
    if a.n_inputs != b.n_inputs:
        raise InputError(f"`a` and `b` must have the same number of inputs. Got {a.n_inputs} and {b.n_inputs}.")
    if X is None:
        X = np.random.default_rng(0).uniform(-1.0, 1.0, (_N_POINTS, a.n_inputs))
    points = as_points("X", X, a.n_inputs)
    return a.factors(points), b.factors(points)


def _best_order(a: ParaTuck, b: ParaTuck) -> tuple[float, list[ndarray]]:
    """Largest inner product of the path terms over one permutation per layer, and these permutations.

    With the others fixed, one layer is an assignment problem. All permutations of the other layers are tried if
    they are few, which gives the optimum; otherwise layers are solved in turn from several starting points.
    """
    largest = int(np.argmax(a.ranks))
    others = [l for l in range(a.n_layers) if l != largest]
    if prod(factorial(a.ranks[l]) for l in others) <= _ENUMERATE_UP_TO:
        best, chosen = -np.inf, _identity(a)
        for choice in product(*(permutations(range(a.ranks[l])) for l in others)):
            order = _identity(a)
            for l, p in zip(others, choice, strict=True):
                order[l] = np.array(p)
            order[largest] = _best_permutation(a, b, order, largest)
            value = _inner_product(a, b, order)
            if value > best:
                best, chosen = value, order
        return best, chosen
    rng = np.random.default_rng(0)
    starts = [_order_by_angle(a, b)] + [[rng.permutation(r) for r in a.ranks] for _ in range(_RANDOM_STARTS)]
    return max((_improve_order(a, b, order) for order in starts), key=lambda found: found[0])


def _improve_order(a: ParaTuck, b: ParaTuck, order: list[ndarray]) -> tuple[float, list[ndarray]]:
    value = _inner_product(a, b, order)
    while True:
        better = list(order)
        for l in range(a.n_layers):
            better[l] = _best_permutation(a, b, better, l)
        new = _inner_product(a, b, better)
        if new <= value + 1e-12 * abs(value):
            return (new, better) if new > value else (value, order)
        value, order = new, better


def _best_permutation(a: ParaTuck, b: ParaTuck, order: list[ndarray], l: int) -> ndarray:
    """The best permutation of layer l with the other layers fixed."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(_gains(a, b, order, l), maximize=True)
    return np.asarray(columns[np.argsort(rows)])


def _gains(a: ParaTuck, b: ParaTuck, order: list[ndarray], l: int) -> ndarray:
    """Inner products of all paths of a through component j of layer l with those of b through k: (r_l, r_l)."""
    below = a.W[0] @ b.W[0].T  # (r_1, r_1), then (S, r, r) further up
    for i in range(l):
        pair = _matching_pairs(below, order[i]) * a.G[i] * b.G[i][:, order[i]]  # (S, r_i)
        below = np.einsum("ji,si,ki->sjk", a.W[i + 1], pair, b.W[i + 1][:, order[i]], optimize=True)
    above = a.W[-1].T @ b.W[-1]
    for i in range(a.n_layers - 1, l, -1):
        pair = _matching_pairs(above, order[i]) * a.G[i] * b.G[i][:, order[i]]
        above = np.einsum("ij,si,ik->sjk", a.W[i], pair, b.W[i][order[i]], optimize=True)
    pairs = a.G[l][:, :, None] * b.G[l][:, None, :]  # (S, r_l, r_l)
    return np.asarray(np.sum(np.broadcast_to(below * above, pairs.shape) * pairs, 0))


def _inner_product(a: ParaTuck, b: ParaTuck, order: list[ndarray]) -> float:
    gains = _gains(a, b, order, 0)
    return float(gains[np.arange(len(order[0])), order[0]].sum())


def _matching_pairs(pairs: ndarray, order: ndarray) -> ndarray:
    return pairs[..., np.arange(len(order)), order]


def _identity(a: ParaTuck) -> list[ndarray]:
    return [np.arange(r) for r in a.ranks]


def _order_by_angle(a: ParaTuck, b: ParaTuck) -> list[ndarray]:
    """First guess: match the directions of W_0 and of W_L, whatever their sign, and leave inner layers as they are."""
    from scipy.optimize import linear_sum_assignment

    order = _identity(a)
    for l, first, second in ((0, a.W[0], b.W[0]), (a.n_layers - 1, a.W[-1].T, b.W[-1].T)):
        sizes = np.outer(np.linalg.norm(first, axis=1), np.linalg.norm(second, axis=1))
        cosines = np.abs(first @ second.T) / np.where(sizes > 0.0, sizes, 1.0)
        order[l] = np.asarray(linear_sum_assignment(cosines, maximize=True)[1])
    return order
