r"""One iteration of Algorithm 1 of the paper, CMPT-L, for a batch of starts: W_0, (c_1, W_1), ..., (c_L, W_L).

With matrices and `lstsq`, the same iteration is written down in benchmarks/reference.py: read that first. Here the
least-squares problems are solved by their normal equations, which `_block_updates` forms without Kronecker products.

The factors keep the paper's scale throughout. Only the coefficients are held in another one. Functions live on the
range of u over the samples, so that compositions of high degree neither overflow nor lose their low-order terms. For
data as given that range is [-a, a] with a the largest |u|. Polynomials that vanish at 0 are the same then, and every
other quantity of the sweep is the same number as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..least_squares._parameters import WIDTH_OF_CONSTANTS
from ..problem._batched_linalg import combine, outer
from ..problem._problem import Problem
from ..problem._weighted_rows import by_output, weighted_gram, weighted_squares
from ._block_updates import (
    ReducedJacobians,
    RightSide,
    diagonal_equations,
    input_products,
    left_products,
    output_equations,
    output_gram_times,
    right_products,
    update_inner_factor,
    update_input_factor,
    update_output_factor,
)
from ._coefficient_updates import CoefficientUpdate, LayerSystem, Smoother

# Below this share of ||J||^2 the objective from Gram matrices has lost too many digits, and J - J_hat is formed.
_EXPLICIT_BELOW = 1e-6
_CHUNK_ENTRIES = 2_000_000  # of J - J_hat that are formed at a time


@dataclass
class Iterate:
    """Factors of B starts after a step; all arrays have the batch axis first.

    They are in the units of the solver: standard ones, or the data's with ``as_given=True``. Inputs may be compressed.
    An iterate is not changed once it has been handed out.

    The functions of layer l live on `domain[l - 1]`; W has the scale of the paper's algorithm (see `_sweep`).
    `A` is the linear part, if the model has one.
    `residual_J` and `residual_F` are the weighted squared residuals ||J - J_hat||^2 and ||F - F_hat||^2.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> system = dc.systems.random_system((3, 2, 3), (3,), rng=0)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    >>> shapes = []
    >>> def watch(**values):
    ...     if "iterate" in values:
    ...         shapes.append(values["iterate"].W[0].shape)
    >>> result = dc.decouple(samples, 2, 3, solver=dc.Proj(), n_starts=2, progress=watch)
    >>> shapes[0]  # starts, functions, inputs
    (2, 2, 2)
    """

    W: list[Float[ndarray, "B _ _"]]
    domain: list[Float[ndarray, "B _ 2"]]
    C: list[Float[ndarray, "B _ _"]]
    G: list[Float[ndarray, "B S _"]]
    R: Float[ndarray, "B S _"]
    A: Float[ndarray, "B n m"] | None
    residual_J: Float[ndarray, " B"]
    residual_F: Float[ndarray, " B"]

    @classmethod
    def unrated(
        cls,
        W: list[ndarray],
        domain: list[ndarray],
        C: list[ndarray],
        G: list[ndarray],
        R: ndarray,
        A: ndarray | None = None,
    ) -> Iterate:
        """Factors whose residuals are not known yet (NaN)."""
        return cls(W, domain, C, G, R, A, np.full(len(R), np.nan), np.full(len(R), np.nan))

    def take(self, rows: ndarray) -> Iterate:
        """The starts with these indices."""
        return map_arrays(self, lambda a: a[rows])


def map_arrays(state: Iterate, f: Callable[[ndarray], ndarray]) -> Iterate:
    """The same function of every array."""
    W, domain, C, G = ([f(a) for a in by_layer] for by_layer in (state.W, state.domain, state.C, state.G))
    A = None if state.A is None else f(state.A)
    return Iterate(W, domain, C, G, f(state.R), A, f(state.residual_J), f(state.residual_F))


def sweep(
    problem: Problem, state: Iterate, lam: float, update_c: CoefficientUpdate, smoother: Smoother | None = None
) -> Iterate:
    """Update every factor once: lines 3 to 9 of Algorithm 1."""
    J, weights = problem.J, problem.weights
    assert J is not None
    W, domain, C, G = list(state.W), list(state.domain), list(state.C), list(state.G)
    L = len(G)
    A = left_products(W, G)  # A[l] is everything to the left of D_(l+1), from the factors of the last sweep
    AA = [weighted_gram(a, weights) for a in A]

    # Line 3: W_0 = argmin ||unfold_2(J)^T - M_W^(0) W_0||^2.
    W[0] = update_input_factor(J, A[0] * G[0][:, :, None, :], weights, state.A)
    K, N = input_products(J, W[0], weights, state.A)
    reduced = ReducedJacobians.of(problem, W[0], state.A)
    z, F = problem.X, values_without_linear_part(problem, state.A)

    # Lines 4 to 7, and 8: the layers from input to output.
    for l in range(L):
        last = l == L - 1
        right = RightSide(problem, W, G, l, reduced)
        # Lines 5 and 8: G^(l), c_l (and R) <- Update_c, with u_l = W_(l-1) g_(l-1)(...).
        domain[l], Phi, dPhi = basis_tables(problem, l, z @ W[l].mT)
        H, b = diagonal_equations(A[l], AA[l], K, N)
        system = LayerSystem(problem, right, A[l], H, b, Phi, dPhi, W[L] if last else None, F if last else None)
        C[l] = update_c(system, lam, smoother)
        G[l], z = combine(dPhi, C[l][..., 1:]), combine(Phi, C[l][..., 1:]) + C[l][:, None, :, 0]  # X_l c_l, Y_l c_l
        KD, Q = K * G[l][:, :, None, :], N * outer(G[l])
        if not last:
            # Line 6: W_l = argmin ||vec(J) - M_W^(l) vec(W_l)||^2.
            P, PP = A[l + 1] * G[l + 1][:, :, None, :], AA[l + 1] * outer(G[l + 1])
            W[l + 1] = update_inner_factor(P, PP, KD, Q, right)
            K, N = right_products(KD, Q, W[l + 1])

    # Line 9: W_L = argmin ||unfold_1(J) - W_L M_W^(L)||^2 + lam ||F - W_L R^T||^2.
    gram_J, rhs_J = output_equations(KD, Q, weights)
    W[L] = update_output_factor(gram_J, rhs_J, weights, z, F, lam, right)
    new = Iterate.unrated(W, domain, C, G, z, state.A)
    return with_linear_part_and_residuals(problem, new, lam, gram_J, rhs_J)


def basis_tables(problem: Problem, l: int, u: Float[ndarray, "B S r"]) -> tuple[ndarray, ndarray, ndarray]:
    """Domains of the functions of a layer, and their basis functions with derivatives in u: the rows of Y_l and X_l."""
    layer = problem.layers[l]
    # The domain is the range of u over the samples, or around 0; [-1, 1] if the basis has one of its own or u vanishes.
    low, high = u.min(axis=1), u.max(axis=1)
    if not problem.standard:
        high = np.abs(u).max(axis=1)
        low = -high
    follows = (high - low > WIDTH_OF_CONSTANTS * np.abs(high)) & ~layer.free_domain
    middle = np.where(layer.free_domain, 0.0, (low + high) / 2.0)  # arguments that do not vary stay in the middle
    domain = np.where(follows[..., None], np.stack([low, high], axis=-1), middle[..., None] + np.array([-1.0, 1.0]))
    middle, half = (domain[..., 1] + domain[..., 0]) / 2.0, (domain[..., 1] - domain[..., 0]) / 2.0
    t = (u - middle[:, None, :]) / half[:, None, :]
    return domain, layer.evaluate(t), layer.derivative(t) / half[:, None, :, None]


def with_linear_part_and_residuals(
    problem: Problem, state: Iterate, lam: float, gram_J: ndarray, rhs_J: ndarray
) -> Iterate:
    """The end of a sweep: the linear part, if there is one, is updated last, and the residuals are filled in."""
    if state.A is None:
        return with_residuals(problem, state, gram_J, rhs_J)
    state.A = update_linear_part(problem, state, lam)
    state.residual_J, state.residual_F = explicit_residual(problem, state), value_residual(problem, state)
    return state


def values_without_linear_part(problem: Problem, A: Float[ndarray, "B n m"] | None) -> Float[ndarray, "*B S n"] | None:
    """What the functions have to give: F - X A^T with a linear part A."""
    return problem.F if problem.F is None or A is None else problem.F - problem.X @ A.mT


def update_linear_part(problem: Problem, state: Iterate, lam: float) -> Float[ndarray, "B n m"]:
    """A that minimises the objective, all factors held: A (sum_s w_s (I + lam x_s x_s^T)) = sum_s w_s (...)."""
    J, X = problem.J, problem.X
    assert J is not None and not by_output(problem.weights)
    w = np.ones(len(X)) if problem.weights is None else problem.weights
    P = left_products(state.W, state.G)[0] * state.G[0][:, :, None, :]
    rhs = np.tensordot(w, J, axes=1) - np.einsum("s,bsnr->bnr", w, P) @ state.W[0]
    gram = w.sum() * np.eye(X.shape[1])
    if problem.F is not None and lam > 0.0:
        gram = gram + lam * (X * w[:, None]).T @ X
        rhs = rhs + lam * (problem.F - state.R @ state.W[-1].mT).mT @ (X * w[:, None])
    return np.linalg.solve(gram, rhs.mT).mT


def with_residuals(problem: Problem, state: Iterate, gram_J: ndarray, rhs_J: ndarray) -> Iterate:
    """Fill in the squared residuals, the one of J from the normal equations of W_L unless that is too inaccurate."""
    W_L = state.W[-1]
    size = problem.size_J
    residual_J = (
        size - 2.0 * np.sum(W_L * rhs_J, axis=(1, 2)) + np.sum(output_gram_times(gram_J, W_L) * W_L, axis=(1, 2))
    )
    inaccurate = np.flatnonzero(residual_J < _EXPLICIT_BELOW * size)
    if inaccurate.size:
        residual_J[inaccurate] = explicit_residual(problem, state.take(inaccurate))
    state.residual_J = residual_J
    state.residual_F = value_residual(problem, state)
    return state


def value_residual(problem: Problem, state: Iterate) -> Float[ndarray, " B"]:
    """||F - F_hat||^2; 0 if no values are known."""
    if problem.F is None:
        return np.zeros(len(state.R))
    F = values_without_linear_part(problem, state.A)
    return weighted_squares(F - state.R @ state.W[-1].mT, problem.weights)


def explicit_residual(problem: Problem, state: Iterate) -> Float[ndarray, " B"]:
    """||J - J_hat||^2 entry by entry, a few starts at a time so that memory stays bounded."""
    assert problem.J is not None
    B = state.W[0].shape[0]
    total = np.zeros(B)
    step = max(1, _CHUNK_ENTRIES // problem.J.size)
    for starts in (slice(first, first + step) for first in range(0, B, step)):
        W, G = [w[starts] for w in state.W], [g[starts] for g in state.G]
        P = left_products(W, G)[0] * G[0][:, :, None, :]
        difference = P @ W[0][:, None]
        difference -= problem.J
        if state.A is not None:
            difference += state.A[starts, None]
        total[starts] = weighted_squares(difference, problem.weights)
    return total
