r"""Starts that need little luck or none: inner layers read from the data.

One layer is a canonical polyadic decomposition and two layers are a ParaTuck-2: both by eigenvalue problems. If all
inner layers are polynomials, the arguments of the last layer are found by linear algebra with their slopes (see
`_parallel_gradients`). A problem of one layer less remains. If that takes too many samples, or only values are known,
everything after the first layer is relaxed to one polynomial (see `_peeling`). The first layer is found with it, and
the polynomial has slopes too.
"""

from __future__ import annotations

import copy
from itertools import pairwise
from math import prod

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..least_squares._derivatives import run_chain
from ..least_squares._fitting_problem import Core, fit_shared_functions, nearest_shared_functions
from ..least_squares._levenberg_marquardt import DescentOptions, descend
from ..least_squares._parameters import Parameters, existing_coefficients, rescale_to_window
from ..least_squares._variable_projection import Complete, Eliminated
from ..problem._batched_linalg import combine
from ..problem._start_distributions import Orthonormal
from ..problem._weighted_rows import Rows
from ._multivariate_polynomials import n_products
from ._parallel_gradients import (
    bottleneck_has_enough_equations,
    functions_at_bottleneck,
    has_enough_equations,
    slopes_of_arguments,
)
from ._peeling import COST_MET, MAX_ROUNDS, RelaxedTail, peel
from ._start_data import Budget, StartData
from ._tensor_decompositions import cpd_directions, n_products_of_entries, samples_for_paratuck2
from ._two_layers import two_layers

CPD, PARATUCK, GRADIENTS, PEELING = "CPD", "algebraic ParaTuck-2", "parallel gradients", "peeling"
BOTTLENECK = "bottleneck"
Layers = tuple[LayerBasis, ...]
_BATCH_SIZE, _RANDOM_BATCHES, _RANDOM_STEPS, _HALVINGS, _POLISHED = (
    32,
    8,
    100,
    (10, 20, 40),
    8,
)  # for what no algebra finds
# With more functions than values before them, elimination leaves a curve of directions open, along which the shared
# functions are found in a valley.
_SHARED_STEPS, _SHARED_HALVINGS = 400, (100, 200)
_COST_OF_RANDOM_MET = 1e-12  # relative: below it, steps to more digits lead on

_MAX_TAIL_SHARE = 0.8  # of the numbers given: a relaxed model with more coefficients than this tells nothing
# Coefficients of a relaxed tail beyond which the search for the whole model is faster: of two layers, and of more.
_MAX_TAIL_OF_TWO_LAYERS, _MAX_TAIL = 20, 50
_DEEPER_ROUNDS = 24  # after a first layer
_COST_NEARLY_MET = 1e-4  # relative: from here steps to more digits lead on
_SHARPENING_STEPS, _SHARPENING_DAMPING, _SHARPENING_SETTLES_AT = 40, 1e-10, 0.1


def applicable_methods(data: StartData, layers: Layers) -> list[str]:
    """The names of the ways to the inner layers of these data, those with the fewest unknowns first."""
    L, ranks = len(layers), [len(layer.bases) for layer in layers]
    (S, m), J = data.X.shape, data.J
    if L == 1:
        return [CPD] if J is not None and ranks[0] <= min(J.shape[1:]) else []
    unknowns: dict[str, float] = {}
    square = J is not None and tuple(ranks) == J.shape[:0:-1]
    if square and L == 2 and min(ranks) >= 2 and samples_for_paratuck2(*ranks) <= S:
        unknowns[PARATUCK] = n_products_of_entries(*ranks)
    if J is not None and J.shape[1] == ranks[-1] and _are_polynomials(layers[:-1]):
        degree, leads_on = _total_degree(layers[:-1]), L > 2 or ranks[0] <= ranks[1]
        if leads_on and has_enough_equations(S, m, ranks[-1], degree):
            unknowns[GRADIENTS] = ranks[-1] * n_products(m, degree)
    if (
        J is not None
        and PARATUCK not in unknowns
        and ranks[l := _bottleneck(layers)] <= J.shape[1]
        and _are_polynomials(layers[:l])
    ):
        degree = _total_degree(layers[:l])
        if bottleneck_has_enough_equations(S, m, ranks[l], degree):
            unknowns[BOTTLENECK] = n_products(m, degree)
    if ranks[0] <= m and (L > 2 or J is None) and _are_polynomials(layers[1:]) and not layers[0].free_domain.any():
        known = S * ((data.F is not None) + (0 if J is None else m))
        largest = min(_MAX_TAIL_OF_TWO_LAYERS if L == 2 else _MAX_TAIL, _MAX_TAIL_SHARE * known)
        if n_products(ranks[0], _total_degree(layers[1:])) <= largest:
            unknowns[PEELING] = np.inf  # a search
    return sorted(unknowns, key=lambda name: unknowns[name])


def _are_polynomials(layers: Layers) -> bool:
    return all(basis.polynomial_degree is not None for layer in layers for basis in layer.bases)


def _total_degree(layers: Layers) -> int:
    return prod(layer.size for layer in layers)


def candidate_inner_layers(
    name: str, data: StartData, layers: Layers, rng: np.random.Generator, budget: Budget, rounds: int = MAX_ROUNDS
) -> Parameters | None:
    """The inner parameters of one model; None if this way leads nowhere."""
    if name == CPD:
        assert data.J is not None
        W = cpd_directions(data.J, len(layers[0].bases), rng)
        return None if W is None else Parameters((W[None],), (np.zeros((1, len(W))),), ())
    if name == PARATUCK:
        return two_layers(data, layers, rng)
    if name == GRADIENTS:
        return _layers_before_last(data, layers, rng, budget)
    if name == BOTTLENECK:
        return _layers_around_bottleneck(data, layers, rng, budget)
    relaxed = RelaxedTail(data.rows(), layers[0], _total_degree(layers[1:]))

    def rest(theta: Parameters) -> Parameters | None:
        return _layers_after_first(relaxed, theta, layers[1:], rng, budget)

    return peel(relaxed, rest, rng, budget, rounds)


def _first_that_works(
    data: StartData, layers: Layers, rng: np.random.Generator, budget: Budget, rounds: int = MAX_ROUNDS
) -> Parameters | None:
    for name in applicable_methods(data, layers):
        inner = candidate_inner_layers(name, data, layers, rng, budget, rounds)
        if inner is not None:
            return inner
    return None


def _layers_before_last(data: StartData, layers: Layers, rng: np.random.Generator, budget: Budget) -> Parameters | None:
    """The arguments of the last layer by their slopes, then all layers that lead to them."""
    assert data.J is not None
    slopes = slopes_of_arguments(data.X, data.J, _total_degree(layers[:-1]), rng, budget)
    before = None if slopes is None else _model_of_slopes(data.X, slopes, layers[:-1], rng, budget)
    if before is None:
        return None
    inner = Parameters(before.W, (*before.b, np.zeros(before.W[-1].shape[:2])), before.c)
    return _sharpen(data, layers, inner, budget) if inner.is_finite else None


def _layers_around_bottleneck(
    data: StartData, layers: Layers, rng: np.random.Generator, budget: Budget
) -> Parameters | None:
    """The arguments of the narrowest layer up to a matrix, then the layers before it, and those from it on."""
    assert data.J is not None
    l, rng = _bottleneck(layers), copy.deepcopy(rng)  # random starts are the same whether this leads on or not
    found = functions_at_bottleneck(data.X, data.J, len(layers[l].bases), _total_degree(layers[:l]), rng)
    if found is None:
        return None
    v, slopes = found
    first = _model_of_slopes(data.X, slopes, layers[:l], rng, budget)
    second = None if first is None else _model_of_slopes(v, data.J @ np.linalg.pinv(slopes), layers[l:], rng, budget)
    if first is None or second is None:
        return None
    # v = W z + constants, so that W_l v + b_l = W_l W z + ...
    chain = run_chain(layers[:l], first, data.X)
    z = combine(chain.Phi[-1], first.c[-1])
    constants = np.mean(v - (z @ first.W[-1].mT)[0], axis=0)
    W, b = second.W[0] @ first.W[-1], second.b[0] + second.W[0] @ constants
    inner = Parameters((*first.W[:-1], W, *second.W[1:-1]), (*first.b, b, *second.b[1:]), (*first.c, *second.c[:-1]))
    return _sharpen(data, layers, inner, budget) if inner.is_finite else None


def _bottleneck(layers: Layers) -> int:
    """The layer behind the first one with the fewest functions, counted from 0."""
    return min(range(1, len(layers)), key=lambda l: len(layers[l].bases))


def _model_of_slopes(
    X: Float[ndarray, "S m"], slopes: Float[ndarray, "S n m"], layers: Layers, rng: np.random.Generator, budget: Budget
) -> Parameters | None:
    """All layers of a model with these Jacobians, without constants of the last functions."""
    rows = StartData(X, None, slopes).rows()
    core = Core.of(rows, len(layers[0].bases), len(layers[-1].bases))
    inner = _first_that_works(StartData.of(core.rows(rows)), layers, rng, budget)
    if inner is None:
        whole = _search_at_random(core.rows(rows), layers, rng, budget)
        if whole is None:
            return None
        inner, W, c = core.expand(whole.inner), core.expand_outputs(whole.W[-1]), whole.c[-1][..., 1:]
    else:
        inner = rescale_to_window(X, layers, core.expand(inner), exactly=True)
        eliminated, chain = Eliminated(rows, layers, linear=False), run_chain(layers, inner, X)
        A, *_ = eliminated.last_layer(chain)
        if not np.all(np.isfinite(A)):
            return None
        c, W, _ = nearest_shared_functions(eliminated.coefficients(chain, A))
    return Parameters((*inner.W, W), inner.b, (*inner.c, c))


def _search_at_random(rows: Rows, layers: Layers, rng: np.random.Generator, budget: Budget) -> Parameters | None:
    """Few batches of random starts: what is left has one layer less, and far fewer poor minima than the whole.

    The last layer is kept: with more functions than inputs, elimination would leave their linear parts open.
    """
    B, rng = _BATCH_SIZE, copy.deepcopy(rng)  # random starts of the whole are the same whether this leads on or not
    eliminated, complete = Eliminated(rows, layers, linear=False), Complete(rows, layers, linear=False)
    widths = [len(layer.bases) for layer in layers]
    for _ in range(_RANDOM_BATCHES):
        if budget.is_over():
            return None
        W = [
            np.stack([Orthonormal().draw(rng, (r, k)) for _ in range(B)])
            for k, r in pairwise([rows.X.shape[1], *widths])
        ]
        c = [
            rng.normal(size=(B, r, l.size)) * existing_coefficients(l, l.size)
            for r, l in zip(widths, layers[:-1], strict=False)
        ]
        starts = Parameters(tuple(W), tuple(np.zeros((B, r)) for r in widths), tuple(c))
        end = descend(
            eliminated.linearise,
            eliminated.after_step,
            rescale_to_window(rows.X, layers, starts, exactly=True),
            DescentOptions(max_steps=_RANDOM_STEPS, exact=COST_MET, halve_at=_HALVINGS),
            deadline=budget.deadline,
            progress=budget.progress,
        )
        if end.interrupted:
            return None
        # Outputs had functions of their own; with shared ones there may be more to go.
        best = end.theta[np.argsort(end.cost, kind="stable")[:_POLISHED]]
        chain = run_chain(layers, best, rows.X)
        A, *_ = eliminated.last_layer(chain)
        if not np.all(np.isfinite(A)):
            continue
        c_L, W_L, shared_exactly = nearest_shared_functions(eliminated.coefficients(chain, A))
        if not shared_exactly:
            design = eliminated.design(chain)
            c_L, W_L, _ = fit_shared_functions(c_L, W_L, design @ design.mT, A, 0)
        whole = Parameters((*best.W, W_L), best.b, (*best.c, np.pad(c_L, ((0, 0), (0, 0), (1, 0)))))
        end = descend(
            complete.linearise,
            complete.after_step,
            whole,
            DescentOptions(max_steps=_SHARED_STEPS, exact=COST_MET, halve_at=_SHARED_HALVINGS),
            deadline=budget.deadline,
            progress=budget.progress,
        )
        found = int(np.argmin(end.cost))
        if end.cost[found] <= _COST_OF_RANDOM_MET:
            return end.theta[found : found + 1]
    return None


def _sharpen(data: StartData, layers: Layers, batch: Parameters, budget: Budget) -> Parameters:
    """Steps that keep many digits, on data in which every sample counts; only if they are nearly met."""
    eliminated = Eliminated(data.rows(), layers, linear=False)
    end = descend(
        eliminated.linearise_precisely,
        eliminated.after_step,
        rescale_to_window(data.X, layers, batch, exactly=True),
        DescentOptions(
            max_steps=_SHARPENING_STEPS,
            exact=COST_MET,
            first_damping=_SHARPENING_DAMPING,
            settles_at=_SHARPENING_SETTLES_AT,
        ),
        deadline=budget.deadline,
        observe=lambda _, cost: bool(cost[0] <= _COST_NEARLY_MET),
        progress=budget.progress,
    )
    return end.theta


def _layers_after_first(
    relaxed: RelaxedTail, theta: Parameters, layers: Layers, rng: np.random.Generator, budget: Budget
) -> Parameters | None:
    """The layers after a first one, from the polynomial in their place, at more points than there are samples."""
    z = relaxed.tail(theta, np.zeros((0, len(relaxed.layer.bases))))[0]
    ranks = [len(layer.bases) for layer in layers]
    wanted = 2 * samples_for_paratuck2(*ranks) if len(layers) == 2 else 0
    missing = max(0, wanted - len(z))
    i, j = rng.integers(len(z), size=(2, missing))
    part = rng.uniform(size=(missing, 1))
    z, h, slopes = relaxed.tail(theta, part * z[i] + (1.0 - part) * z[j])
    rows = StartData(z, h, slopes).rows()
    core = Core.of(rows, ranks[0], ranks[-1])
    inner = _first_that_works(StartData.of(core.rows(rows)), layers, rng, budget, _DEEPER_ROUNDS)
    return None if inner is None else core.expand(inner)
