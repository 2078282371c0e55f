r"""Functions that must rise, fall, bend one way or be symmetric: the nearest ones that do, then the best ones that do.

A basis writes all coefficients of a shape as c = T s (`AbstractBasis.shaped`), with s >= 0 if the shape asks for it. So
a shape is guaranteed. A model that a solver has found is brought there function by function, in the way that changes
its values at the samples least. Then all parameters go on together by projected Gauss-Newton steps. Unknowns that stand
at 0 and would become negative are held. The others take a damped step, and what becomes negative is put to 0.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from .._support._time_limit import now
from ..bases import LayerBasis
from ..bases._abstract import SYMMETRIES
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from .least_squares._derivatives import run_chain
from .least_squares._fitting_problem import FittingProblem
from .least_squares._levenberg_marquardt import Dense
from .least_squares._parameters import Parameters, Unknowns, parameters_of
from .least_squares._roughness_penalty import FIRST_WEIGHT, Penalty
from .problem._problem import Problem

Shapes = tuple[tuple[str | None, ...], ...]  # of every function, layer by layer
_MAX_PHASES, _PHASE_STEPS = 4, 15
_FIRST_DAMPING, _MIN_DAMPING, _MAX_DAMPING = 1e-3, 1e-9, 1e9
_DAMPING_SHRINKAGE, _DAMPING_GROWTH = 0.3, 5.0
_SCALE_CURVATURE = 1e3  # of the largest curvature
_MIN_DECREASE = 1e-7  # relative decrease of the cost below which a phase ends
_CONTRADICTION = 1.5  # times the error without shapes: the samples contradict them


@dataclass(frozen=True)
class ConstrainedModel:
    """A model whose functions have their shapes, the effective number of parameters, and what there is to say."""

    decoupling: Decoupling
    n_effective: float | None
    note: str


def with_shapes(
    problem: Problem,
    model: Decoupling,
    shapes: Shapes,
    *,
    lam: float,
    smooths: bool,
    deadline: float,
    progress: Callable[..., None],
) -> ConstrainedModel:
    """The best model near `model` whose functions have the shapes, smoothed as VarPro does if `smooths`.

    The order of functions that share a basis is arbitrary, so they are matched with the shapes. After
    `deadline`, a time of `now`, no further step is taken; the shapes are kept all the same.
    """
    penalty = Penalty.of(problem.layers, FIRST_WEIGHT, everything=False) if smooths else None
    equations = FittingProblem(problem, lam=lam, ridge=0.0, fixed={}, penalty=penalty)
    theta = parameters_of(problem, model)
    before = _misfit(equations, theta)
    spaces = tuple(
        tuple(None if shape is None else basis.shaped(shape) for basis, shape in zip(layer.bases, wishes, strict=True))
        for layer, wishes in zip(problem.layers, shapes, strict=True)
    )
    for l in range(len(shapes)):
        theta = _match_functions_to_shapes(equations, theta, l, shapes[l])
        theta = _project_functions(equations, theta, l, spaces[l])
    n_effective = None
    if equations.small:
        # With symmetric functions the places they are symmetric about are sought, too.
        symmetric = [any(wish in SYMMETRIES for wish in wishes) for wishes in shapes]
        offsets = Unknowns.of(problem.layers).offsets
        unknowns = Unknowns(tuple(a or b for a, b in zip(offsets, symmetric, strict=True)))
        theta, n_effective = _descend_projected(equations, theta, spaces, unknowns, deadline, progress)
    after = _misfit(equations, theta)
    answer = _raise_to_nonnegative(
        _continue_linearly(equations.model(theta, with_domain_of_data=False), shapes), shapes
    )
    note = f"The shapes that were asked for change the relative error from {100 * before:.3g} to {100 * after:.3g} %"
    met = after <= _CONTRADICTION * before or after <= 1e-6
    note += "." if met else ": the samples contradict them. Ask for fewer, or for shapes of other functions."
    return ConstrainedModel(answer, n_effective if smooths else None, note)


def _misfit(equations: FittingProblem, theta: Parameters) -> float:
    """The root of the objective without a penalty: a relative error."""
    chain = run_chain(equations.problem.layers, theta.inner, equations.rows.X)
    return float(np.sqrt(np.sum(equations.complete.residual(theta, chain) ** 2)))


# Function by function


def _basis_table(equations: FittingProblem, theta: Parameters, l: int) -> Float[ndarray, "S r d"]:
    """The basis functions of a layer at the samples."""
    return run_chain(equations.problem.layers, theta.inner, equations.rows.X).Phi[l][0]


def _match_functions_to_shapes(
    equations: FittingProblem, theta: Parameters, l: int, wishes: tuple[str | None, ...]
) -> Parameters:
    """The functions of a layer in the order in which they have the shapes most nearly."""
    from scipy.optimize import linear_sum_assignment

    layer: LayerBasis = equations.problem.layers[l]
    if layer.shared is None or len(set(wishes)) == 1:
        return theta
    Phi, c = _basis_table(equations, theta, l), theta.c[l][0, :, -layer.size :]
    weight = np.linalg.norm(theta.W[l + 1][0], axis=0)
    spaces = {wish: layer.shared.shaped(wish) for wish in set(wishes) if wish is not None}
    cost = np.zeros((len(wishes), len(wishes)))
    for k, wish in enumerate(wishes):
        if wish is not None:
            for j in range(len(wishes)):
                cost[k, j] = weight[j] * min(
                    _nearest_of_shape(Phi[:, j], sign * c[j], *spaces[wish])[1] for sign in (1.0, -1.0)
                )
    order = linear_sum_assignment(cost)[1]
    out = theta.copy()
    for own, ordered in ((out.W[l], theta.W[l]), (out.b[l], theta.b[l]), (out.c[l], theta.c[l])):
        own[:] = ordered[:, order]
    out.W[l + 1][:] = theta.W[l + 1][..., order]
    return out


def _project_functions(
    equations: FittingProblem, theta: Parameters, l: int, spaces: tuple[tuple[ndarray, ndarray] | None, ...]
) -> Parameters:
    """Every function of a layer, or its negative, as the nearest one of its shape; means over the samples are kept."""
    out = theta.copy()
    layer, last = equations.problem.layers[l], l == len(equations.problem.layers) - 1
    Phi = _basis_table(equations, theta, l)
    for j, space in enumerate(spaces):
        if space is None:
            continue
        size = layer.sizes[j]
        own = slice(int(last), int(last) + size)
        c = out.c[l][0, j, own]
        tries = [(*_nearest_of_shape(Phi[:, j, :size], sign * c, *space), sign) for sign in (1.0, -1.0)]
        nearest, _, sign = min(tries, key=lambda one: one[1])
        shift = float(np.mean(Phi[:, j, :size] @ (sign * c - nearest)))
        out.c[l][0, j] *= sign
        out.c[l][0, j, own] = nearest
        out.W[l + 1][0, :, j] *= sign
        if last:
            out.c[l][0, j, 0] += shift
        else:
            out.b[l + 1][0] += out.W[l + 1][0, :, j] * shift
    return out


def _nearest_of_shape(
    Phi: Float[ndarray, "S d"], c: Float[ndarray, " d"], T: Float[ndarray, "d q"], bounded: Bool[ndarray, " q"]
) -> tuple[Float[ndarray, " d"], float]:
    """The function of a shape whose values at the samples are nearest up to a constant, and how far they are."""
    from scipy.optimize import lsq_linear

    centred = Phi - Phi.mean(axis=0)
    found = lsq_linear(centred @ T, centred @ c, bounds=(np.where(bounded, 0.0, -np.inf), np.inf))
    return T @ np.where(bounded, np.maximum(found.x, 0.0), found.x), float(np.sqrt(2.0 * found.cost))


# All parameters together


def _descend_projected(
    equations: FittingProblem,
    theta: Parameters,
    spaces: tuple[tuple[tuple[ndarray, ndarray] | None, ...], ...],
    unknowns: Unknowns,
    deadline: float,
    progress: Callable[..., None],
) -> tuple[Parameters, float]:
    """Projected Gauss-Newton steps, in phases with new weights of roughness if there is a penalty."""
    penalty, used = equations.penalty, 0.0
    T, bounded = _shape_map(unknowns, theta, spaces)
    for phase in range(_MAX_PHASES if penalty is not None else 1):
        complete = dataclasses.replace(equations.complete, penalty=penalty, sought=unknowns)
        damping = _FIRST_DAMPING
        cost, at = complete.linearise(theta)
        s = np.linalg.lstsq(T, complete.unknowns.flatten(theta)[0], rcond=None)[0]
        s[bounded] = np.maximum(s[bounded], 0.0)
        for step in range(_PHASE_STEPS):
            progress(
                stage="shapes",
                done=phase * _PHASE_STEPS + step,
                total=_MAX_PHASES * _PHASE_STEPS,
                objective=float(cost[0]),
            )
            assert isinstance(at, Dense)
            M, g = T.T @ (at.M[0] + _scale_stiffness(unknowns, theta, at.M[0])) @ T, T.T @ at.g[0]
            better = None
            while better is None and damping <= _MAX_DAMPING:
                new = _projected_step(M, g, s, bounded, damping)
                moved = complete.unknowns.after_step(theta, (T @ (new - s))[None])
                new_cost, new_at = complete.linearise(moved)
                if new_cost[0] < cost[0]:
                    better = moved, new_cost, new_at, new
                damping *= _DAMPING_SHRINKAGE if better is not None else _DAMPING_GROWTH
            damping = max(damping, _MIN_DAMPING)
            if better is None:
                break
            gain = 1.0 - float(better[1][0] / cost[0])
            theta, cost, at, s = better
            if gain < _MIN_DECREASE or now() > deadline:
                break
        if penalty is not None:
            plain_cost, plain = dataclasses.replace(complete, penalty=None).linearise(theta)
            assert isinstance(plain, Dense)
            misfit, count = float(plain_cost[0]), equations.rows.n_numbers
            improved, used = penalty.improve_weights(plain.M[0], misfit, count, theta, complete.unknowns)
            penalty = improved
        if now() > deadline:
            break
    out = unknowns.split((T @ s)[None], theta)  # once more from T s: sums of many steps have errors of rounding
    for own, b, is_sought in zip(out.b, theta.b, unknowns.offsets, strict=True):
        if not is_sought:
            own[:] = b
    return out, used


def _scale_stiffness(unknowns: Unknowns, theta: Parameters, M: Float[ndarray, "N N"]) -> Float[ndarray, "N N"]:
    """What keeps steps from scaling arguments: domains stay, so that functions would run out of them."""
    begins, more = unknowns.first_positions(theta), np.zeros_like(M)
    stiff = _SCALE_CURVATURE * float(np.diagonal(M).max(initial=0.0))
    for l in range(len(unknowns.offsets)):
        for j, w in enumerate(theta.W[l][0]):
            at = begins[f"W{l}"] + j * len(w) + np.arange(len(w))
            more[np.ix_(at, at)] = stiff * np.outer(w, w) / max(float(w @ w), 1e-300)
    return more


def _projected_step(
    M: Float[ndarray, "q q"],
    g: Float[ndarray, " q"],
    s: Float[ndarray, " q"],
    bounded: Bool[ndarray, " q"],
    damping: float,
) -> Float[ndarray, " q"]:
    """s after a damped step of what is free to move, with nothing below its bound."""
    free = ~(bounded & (s <= 0.0) & (g <= 0.0))
    A = M[np.ix_(free, free)].copy()
    diagonal = np.diagonal(A)
    np.fill_diagonal(A, diagonal + damping * (diagonal + 1e-9 * max(float(diagonal.max(initial=0.0)), 1e-300)))
    new = s.copy()
    new[free] += np.linalg.solve(A, g[free])
    new[bounded] = np.maximum(new[bounded], 0.0)
    return new


def _shape_map(
    unknowns: Unknowns, theta: Parameters, spaces: tuple[tuple[tuple[ndarray, ndarray] | None, ...], ...]
) -> tuple[Float[ndarray, "N q"], Bool[ndarray, " q"]]:
    """T of all unknowns of the model: that of its shape for the coefficients of a function, 1 for everything else."""
    L = len(spaces)
    N, begins = unknowns.count(theta), unknowns.first_positions(theta)
    plain = np.ones(N, dtype=bool)
    blocks = []
    for l, layer in enumerate(spaces):
        e, last = theta.c[l].shape[2], int(l == L - 1)
        for j, space in enumerate(layer):
            if space is not None:
                at = begins[f"g{l + 1}"] + j * e + last + np.arange(len(space[0]))
                plain[at] = False
                blocks.append((at, *space))
    width = int(plain.sum())
    T = np.zeros((N, width + sum(block.shape[1] for _, block, _ in blocks)))
    T[np.flatnonzero(plain), np.arange(width)] = 1.0
    bounded = np.zeros(T.shape[1], dtype=bool)
    for at, block, bound in blocks:
        T[at, width : width + block.shape[1]] = block
        bounded[width : width + block.shape[1]] = bound
        width += block.shape[1]
    return T, bounded


# The answer


def _continue_linearly(model: Decoupling, shapes: Shapes) -> Decoupling:
    """Beyond their domains functions of a layer with shapes continue linearly, which keeps every shape.

    A function whose domain was found is defined beyond it too, so that a layer with such a one stays as it is.
    """
    layers = []
    for g, wishes in zip(model.g, shapes, strict=True):
        stays = g.layer.free_domain.any() or all(wish is None for wish in wishes)
        layers.append(g if stays else Functions(g.layer.bases, g.C, g.domain, "linear"))
    return model.with_parts(g=layers)


def _raise_to_nonnegative(model: Decoupling, shapes: Shapes) -> Decoupling:
    """Constants that make functions nonnegative on their domains; what comes after them takes the same off."""
    W, g, offset = model.W, list(model.g), model.offset
    for l, wishes in enumerate(shapes):
        C = g[l].C.copy()
        for j, wish in enumerate(wishes):
            if wish == "nonnegative":
                basis = g[l].layer.bases[j]
                C[j, 0] = max(C[j, 0], -basis.least_value(C[j, 1 : 1 + basis.size]))
        more = W[l + 1] @ (C[:, 0] - g[l].C[:, 0])
        g[l] = g[l].with_coefficients(C)
        if np.any(more) and l + 1 < len(g):
            g[l + 1] = g[l + 1].shifted(-more)
        elif np.any(more):
            offset = -more if offset is None else offset - more
    return model.with_parts(g=g) if offset is None else model.with_parts(g=g, offset=offset)
