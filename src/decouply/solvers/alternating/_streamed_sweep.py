r"""Sweeps of alternating solvers over samples anywhere, from a model that a pilot has led to.

In memory a sweep keeps G and R from step to step. Here they are computed again from the factors (W, domains, C), which
are small, wherever a portion is: a sweep of L layers is 1 + 3 L passes, and one more for the residuals. Sums over
samples are those of `_sweep`; the refinement of factors from three layers on is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...samples._portions import HeldData, Portion, Task
from ...samples._samples import Samples
from ..problem._batched_linalg import solve_normal
from ..problem._data_summary import Frame, Whole
from ..problem._problem import Problem
from ..problem._sample_weights import weigh, weighted_gram
from ..problem._solver import ProgressCallback
from ._block_updates import (
    combine,
    diagonal_equations,
    input_products,
    left_products,
    outer,
    output_equations,
    right_products,
    update_output_factor,
)
from ._coefficient_updates import Update, with_values
from ._iterate import Iterate
from ._iterative_refinement import InRows, RightSide
from ._sweep import Surroundings, add_value_term, explicit_residual, seen, value_residual, visited_domain


@dataclass(frozen=True)
class Factors:
    """All that is remembered between passes, for one start."""

    W: tuple[Float[ndarray, "1 _ _"], ...]
    domain: tuple[Float[ndarray, "1 _ 2"], ...]
    C: tuple[Float[ndarray, "1 _ _"], ...]

    def with_layer(self, l: int, *, domain: ndarray | None = None, C: ndarray | None = None) -> Factors:
        return replace(
            self,
            domain=self.domain if domain is None else _put(self.domain, l, domain),
            C=self.C if C is None else _put(self.C, l, C),
        )

    def with_matrix(self, l: int, W: ndarray) -> Factors:
        return replace(self, W=_put(self.W, l, W))

    def iterate(self, residual_J: ndarray, residual_F: ndarray) -> Iterate:
        """The same for the loop over steps, which does not look at G and R."""
        nothing = [np.zeros((1, 0, C.shape[1])) for C in self.C]
        state = Iterate.unrated(list(self.W), list(self.domain), list(self.C), nothing, nothing[-1])
        state.residual_J, state.residual_F = residual_J, residual_F
        return state


def _put(parts: tuple[ndarray, ...], l: int, new: ndarray) -> tuple[ndarray, ...]:
    return (*parts[:l], new, *parts[l + 1 :])


@dataclass(frozen=True)
class Passes:
    """Updates of factors, each by sums over all samples; `problem` is that of a pilot, in the same units."""

    whole: Whole
    problem: Problem
    frame: Frame
    progress: ProgressCallback

    def sweep(self, old: Factors, lam: float, update: Update) -> Factors:
        """Every factor once, in the order of `sweep`: W_0, (c_1, W_1), ..., (c_L, W_L)."""
        new = self.with_input_factor(old, old)
        for l in range(len(self.whole.layers)):
            new = self.with_functions(old, new, l, lam, update)
            new = self.with_factor_behind(old, new, l, lam)
        return new

    def output_first(self, old: Factors, lam: float, update: Update) -> Factors:
        """Every factor of one layer once, in the order of `zniyed_sweep`: W_1, W_0, c_1."""
        new = self.with_factor_behind(old, old, 0, lam)
        new = self.with_input_factor(new, new)
        return self.with_functions(new, new, 0, lam, update)

    def with_input_factor(self, old: Factors, new: Factors) -> Factors:
        return new.with_matrix(0, solve_normal(*self._reduce(input_task, old)))

    def with_functions(self, old: Factors, new: Factors, l: int, lam: float, update: Update) -> Factors:
        """Domains and coefficients of layer l."""
        layers = self.whole.layers
        low, high = self._reduce(range_task, new, l, join=("min", "max"))
        domain = visited_domain(np.stack([low, high], axis=1), layers[l], around_zero=not self.frame.standard)
        new = new.with_layer(l, domain=domain)
        gram, rhs = self._reduce(coefficient_task, old, new, l, lam, update)
        values = self.whole.samples.has_values and lam > 0.0 and l == len(layers) - 1
        return new.with_layer(l, C=update.solve(gram, rhs, old.W[-1] if values else None))

    def with_factor_behind(self, old: Factors, new: Factors, l: int, lam: float) -> Factors:
        """The matrix behind layer l."""
        gram, rhs = self._reduce(factor_task, old, new, l, lam)
        if l == len(self.whole.layers) - 1:
            W = seen(self.problem, update_output_factor(gram, rhs))
        else:
            W = solve_normal(gram, rhs).reshape(1, *old.W[l + 1].shape[1:])
        return new.with_matrix(l + 1, W)

    def residuals(self, factors: Factors) -> tuple[ndarray, ...]:
        return self._reduce(residual_task, factors)

    def _reduce(self, task: Task, *small: Any, join: Any = "sum") -> tuple[ndarray, ...]:
        def between() -> None:
            self.progress(stage="all samples")

        return self.whole.samples.data.reduce(task, self.frame, self.whole.layers, *small, join=join, progress=between)


def factors_of(problem: Problem, model: Decoupling) -> Factors:
    """The factors of a model, in the units of a problem."""
    plain = problem.units.to_standard(model).without_inner_constants()
    C = [g.C[None].copy() for g in plain.g]
    if plain.offset is not None:
        C[-1][0, :, 0] += np.linalg.lstsq(plain.W[-1], plain.offset, rcond=None)[0]
    return Factors(tuple(W[None] for W in plain.W), tuple(g.domain[None] for g in plain.g), tuple(C))


# Tasks


def problem_of(portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...]) -> Problem:
    data = HeldData(portion.X, portion.F, portion.J, portion.weights)
    return Problem.in_units(frame.units, Samples.stored(data), layers, None, False, frame.standard)


def _states(
    problem: Problem, factors: Factors, upto: int | None = None
) -> tuple[list[ndarray], list[ndarray], list[ndarray]]:
    """z before every layer and after the last, u, and G, of the first layers."""
    z, u, G = [problem.X[None]], [], []
    for l, layer in enumerate(problem.layers[:upto]):
        u.append(z[-1] @ factors.W[l].mT)
        Phi, dPhi = tables_on(layer, factors.domain[l], u[-1])
        G.append(combine(dPhi, factors.C[l][..., 1:]))
        z.append(combine(Phi, factors.C[l][..., 1:]) + factors.C[l][:, None, :, 0])
    return z, u, G


def tables_on(layer: LayerBasis, domain: ndarray, u: ndarray) -> tuple[ndarray, ndarray]:
    middle, half = (domain[..., 1] + domain[..., 0]) / 2.0, (domain[..., 1] - domain[..., 0]) / 2.0
    t = (u - middle[:, None, :]) / half[:, None, :]
    return layer.evaluate(t), layer.derivative(t) / half[:, None, :, None]


def input_task(portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], old: Factors) -> tuple[ndarray, ndarray]:
    """Normal equations of W_0."""
    problem = problem_of(portion, frame, layers)
    assert isinstance(problem.J, ndarray)
    _, _, G = _states(problem, old)
    P = left_products(list(old.W), G)[0] * G[0][:, :, None, :]
    r, MP = P.shape[-1], weigh(P, problem.weights)
    flat = MP.reshape(1, -1, r).mT
    return flat @ P.reshape(1, -1, r), flat @ problem.J.reshape(-1, problem.J.shape[2])


def range_task(
    portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], new: Factors, l: int
) -> tuple[ndarray, ndarray]:
    """The smallest and largest arguments of layer l."""
    z, _, _ = _states(problem_of(portion, frame, layers), new, upto=l)
    u = z[-1] @ new.W[l].mT
    return u.min(axis=1), u.max(axis=1)


def _right_side(problem: Problem, new: Factors, l: int) -> tuple[ndarray, ndarray, ndarray, list[ndarray]]:
    """z before layer l, K and N, and G of the layers before, with factors that are updated already."""
    assert problem.J is not None
    z, _, G = _states(problem, new, upto=l)
    K, N = weigh(input_products(problem.J, new.W[0]), problem.weights), (new.W[0] @ new.W[0].mT)[:, None]
    for i in range(l):
        K, N = right_products(K * G[i][:, :, None], N * outer(G[i]), new.W[i + 1])
    return z[-1], K, N, G


def coefficient_task(
    portion: Portion,
    frame: Frame,
    layers: tuple[LayerBasis, ...],
    old: Factors,
    new: Factors,
    l: int,
    lam: float,
    update: Update,
) -> tuple[ndarray, ndarray]:
    """Normal equations of the coefficients of layer l."""
    problem = problem_of(portion, frame, layers)
    _, _, G_old = _states(problem, old)
    A = left_products(list(old.W), G_old)[l]
    z, K, N, G = _right_side(problem, new, l)
    H, b = diagonal_equations(A, weighted_gram(A, problem.weights), K, N)
    Phi, dPhi = tables_on(layers[l], new.domain[l], z @ new.W[l].mT)
    last = l == len(layers) - 1
    right = RightSide(problem, list(new.W), [*G, *G_old[l:]], l, InRows.of(problem, new.W[0], None))
    around = Surroundings(H, b, Phi, dPhi, old.W[-1] if last else None, problem.F if last else None, A, right)
    gram, rhs = update.equations(problem, around, lam)
    assert with_values(around, lam) is None or last
    return gram, rhs


def factor_task(
    portion: Portion,
    frame: Frame,
    layers: tuple[LayerBasis, ...],
    old: Factors,
    new: Factors,
    l: int,
    lam: float,
) -> tuple[ndarray, ndarray]:
    """Normal equations of the matrix behind layer l."""
    problem = problem_of(portion, frame, layers)
    z, K, N, _ = _right_side(problem, new, l)
    Phi, dPhi = tables_on(layers[l], new.domain[l], z @ new.W[l].mT)
    G = combine(dPhi, new.C[l][..., 1:])
    KD, Q = K * G[:, :, None, :], N * outer(G)
    if l == len(layers) - 1:
        R = combine(Phi, new.C[l][..., 1:]) + new.C[l][:, None, :, 0]
        return add_value_term(problem, *output_equations(KD, Q, problem.weights), R, problem.F, lam)
    _, _, G_old = _states(problem, old)
    A = left_products(list(old.W), G_old)[l + 1]
    P = A * G_old[l + 1][:, :, None, :]
    PP = weighted_gram(A, problem.weights) * outer(G_old[l + 1])
    B, S, n, q = KD.shape
    p = P.shape[-1]
    gram = PP.reshape(B, -1, p * p).mT @ Q.reshape(B, S, q * q)
    gram = gram.reshape(B, p, p, q, q).transpose(0, 1, 3, 2, 4).reshape(B, p * q, p * q)
    return gram, (P.reshape(B, -1, p).mT @ KD.reshape(B, S * n, q)).reshape(B, p * q, 1)


def residual_task(
    portion: Portion, frame: Frame, layers: tuple[LayerBasis, ...], factors: Factors
) -> tuple[ndarray, ndarray]:
    """Squared residuals of Jacobians and of values."""
    problem = problem_of(portion, frame, layers)
    z, _, G = _states(problem, factors)
    state = Iterate.unrated(list(factors.W), list(factors.domain), list(factors.C), G, z[-1])
    return explicit_residual(problem, state), value_residual(problem, state)
