r"""Starts that need little luck or none: inner layers read from the data.

One layer is a canonical polyadic decomposition and two layers are a ParaTuck-2: both by eigenvalue problems. Where all
inner layers are polynomials, the arguments of the last layer are found by linear algebra with their slopes (see
`_parallel_gradients`): what is left is a problem of one layer less. Where that takes too many samples, and where only
values are known, the first layer is found with everything after it relaxed to one polynomial (see `_peeling`), which
has slopes too.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...bases import LayerBasis
from ..least_squares._derivatives import Parameters, run_chain
from ..least_squares._fitting_problem import Core, shared_functions
from ..least_squares._levenberg_marquardt import descend
from ..least_squares._rescaling import on_window
from ..least_squares._variable_projection import Eliminated
from ._multivariate_polynomials import n_products
from ._parallel_gradients import slopes_of_arguments, solvable
from ._peeling import MOST_ROUNDS, Relaxed, peeled
from ._start_data import Budget, Sampled, with_offset
from ._tensor_decompositions import cpd_directions, n_products_of_entries, needed_samples
from ._two_layers import two_layers

CPD, PARATUCK, GRADIENTS, PEELING = "CPD", "algebraic ParaTuck-2", "parallel gradients", "peeling"
Layers = tuple[LayerBasis, ...]

_SHARE = 0.8  # of the numbers given: a relaxed model with more coefficients than this tells nothing
# Coefficients of a relaxed tail beyond which the search for the whole model is faster: of two layers, and of more.
_TAIL_OF_TWO, _TAIL_UP_TO = 20, 50
_DEEPER_ROUNDS = 24  # after a first layer
# Costs of data that are nearly met, and met; steps from one to the other, and their damping.
_NEAR, _MET, _STEPS, _SHARP, _SETTLED = 1e-4, 1e-23, 40, 1e-10, 0.1


def ways(data: Sampled, layers: Layers) -> list[str]:
    """The names of the ways to the inner layers of these data, those with the fewest unknowns first."""
    L, ranks = len(layers), [len(layer.bases) for layer in layers]
    (S, m), J = data.X.shape, data.J
    if L == 1:
        return [CPD] if J is not None and ranks[0] <= min(J.shape[1:]) else []
    unknowns: dict[str, float] = {}
    if J is not None and L == 2 and min(ranks) >= 2 and tuple(ranks) == J.shape[:0:-1] and needed_samples(*ranks) <= S:
        unknowns[PARATUCK] = n_products_of_entries(*ranks)
    if J is not None and J.shape[1] == ranks[-1] and _polynomials(layers[:-1]):
        degree, leads_on = _degree(layers[:-1]), L > 2 or ranks[0] <= ranks[1]
        if leads_on and solvable(S, m, ranks[-1], degree):
            unknowns[GRADIENTS] = ranks[-1] * n_products(m, degree)
    if ranks[0] <= m and (L > 2 or J is None) and _polynomials(layers[1:]) and not layers[0].free_domain.any():
        known = S * ((data.F is not None) + (0 if J is None else m))
        largest = min(_TAIL_OF_TWO if L == 2 else _TAIL_UP_TO, _SHARE * known)
        if n_products(ranks[0], _degree(layers[1:])) <= largest:
            unknowns[PEELING] = np.inf  # a search
    return sorted(unknowns, key=lambda name: unknowns[name])


def _polynomials(layers: Layers) -> bool:
    return all(basis.polynomial_degree is not None for layer in layers for basis in layer.bases)


def _degree(layers: Layers) -> int:
    return prod(layer.size for layer in layers)


def inner_layers(
    name: str, data: Sampled, layers: Layers, rng: np.random.Generator, budget: Budget, rounds: int = MOST_ROUNDS
) -> Parameters | None:
    """[W_0, c_1, W_1, ..., W_(L-1)], matrices with b as their last column; None where this way leads nowhere."""
    if name == CPD:
        assert data.J is not None
        W = cpd_directions(data.J, len(layers[0].bases), rng)
        return None if W is None else [with_offset(W)]
    if name == PARATUCK:
        return two_layers(data, layers, rng)
    if name == GRADIENTS:
        return _before_the_last(data, layers, rng, budget)
    relaxed = Relaxed(data.rows(), layers[0], _degree(layers[1:]))
    return peeled(relaxed, lambda theta: _after(relaxed, theta, layers[1:], rng, budget), rng, budget, rounds)


def _by_any_way(
    data: Sampled, layers: Layers, rng: np.random.Generator, budget: Budget, rounds: int = MOST_ROUNDS
) -> Parameters | None:
    for name in ways(data, layers):
        inner = inner_layers(name, data, layers, rng, budget, rounds)
        if inner is not None:
            return inner
    return None


def _finite(inner: Parameters) -> Parameters | None:
    return inner if all(np.all(np.isfinite(p)) for p in inner) else None


def _before_the_last(data: Sampled, layers: Layers, rng: np.random.Generator, budget: Budget) -> Parameters | None:
    """The arguments of the last layer by their slopes, then all layers that lead to them."""
    assert data.J is not None
    slopes = slopes_of_arguments(data.X, data.J, _degree(layers[:-1]), rng, budget)
    if slopes is None:
        return None
    before = layers[:-1]
    rows = Sampled(data.X, None, slopes).rows()
    core = Core.of(rows, len(before[0].bases), len(before[-1].bases))
    inner = _by_any_way(Sampled.of(core.rows(rows)), before, rng, budget)
    if inner is None:
        return None
    batch = on_window(data.X, before, [p[None] for p in core.leave(inner)], exactly=True)
    eliminated, chain = Eliminated(rows, before, linear=False), run_chain(before, batch, data.X)
    A, *_ = eliminated.last_layer(chain)
    if not np.all(np.isfinite(A)):
        return None
    c, W, _ = shared_functions(eliminated.coefficients(chain, A))
    found = _finite([*batch, c, with_offset(W[0])[None]])
    return None if found is None else [p[0] for p in _sharpened(data, layers, found, budget)]


def _sharpened(data: Sampled, layers: Layers, batch: Parameters, budget: Budget) -> Parameters:
    """Steps that keep many digits, on data in which every sample counts; only where they are nearly met."""
    eliminated = Eliminated(data.rows(), layers, linear=False)
    end = descend(
        eliminated.precisely,
        eliminated.moved,
        on_window(data.X, layers, batch, exactly=True),
        first_damping=_SHARP,
        max_steps=_STEPS,
        exact=_MET,
        settles_at=_SETTLED,
        deadline=budget.deadline,
        observe=lambda _, cost: bool(cost[0] <= _NEAR),
        progress=budget.progress,
    )
    return end.theta


def _after(
    relaxed: Relaxed, theta: Parameters, layers: Layers, rng: np.random.Generator, budget: Budget
) -> Parameters | None:
    """The layers after a first one, from the polynomial in their place, at more points than there are samples."""
    z = relaxed.tail(theta, np.zeros((0, len(relaxed.layer.bases))))[0]
    ranks = [len(layer.bases) for layer in layers]
    wanted = 2 * needed_samples(*ranks) if len(layers) == 2 else 0
    missing = max(0, wanted - len(z))
    i, j = rng.integers(len(z), size=(2, missing))
    part = rng.uniform(size=(missing, 1))
    z, h, slopes = relaxed.tail(theta, part * z[i] + (1.0 - part) * z[j])
    rows = Sampled(z, h, slopes).rows()
    core = Core.of(rows, ranks[0], ranks[-1])
    inner = _by_any_way(Sampled.of(core.rows(rows)), layers, rng, budget, _DEEPER_ROUNDS)
    return None if inner is None else core.leave(inner)
