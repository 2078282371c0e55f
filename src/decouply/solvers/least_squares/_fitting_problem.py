r"""A problem as VarPro solves it: its rows, its core, and its residuals with the last layer eliminated and without.

Core coordinates: r_1 inputs and r_L outputs hold all there is to find. The rows of all Jacobians lie in the span of the
rows of W_0, and the columns of J and F in that of the columns of W_L. V are the leading right singular vectors of the
stacked J, and U the leading left ones of [F, J]. The problem of x V, F U and U^T J V has the same inner layers, with
W_0 V in place of W_0. If data are noisy the core leaves out what no model of these ranks can follow; answers are
polished with all data.

The last layer: eliminating it gives every output a separate function of each argument. A decoupling has one function
per argument, shared by all outputs: coefficients W_ij c_jk instead of A_jki. The nearest product in the norm of the
coefficients may be far from the data if basis functions are nearly dependent, so it is only the first guess.
Alternating least squares over the outputs' own equations improve it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from math import comb

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..problem._prepared_samples import ROUNDINGS
from ..problem._problem import DERIVATIVE_TABLES, Problem
from ..problem._weighted_rows import MAX_DERIVATIVES, Rows, by_output
from ._derivatives import run_chain
from ._levenberg_marquardt import Dense
from ._parameters import Fixed, Parameters, Unknowns, blank_parameters, rescale_to_window
from ._roughness_penalty import Penalty
from ._variable_projection import Complete, Eliminated

_SHARED_SWEEPS = 30  # of alternating least squares for functions that all outputs share
_SHARED = 1e-8  # of a coefficient matrix: what differs between outputs by no more than this is rounding
_SHARED_RIDGE = 1e-12  # of a unit diagonal
_DERIVATIVE_SHARE = 0.25  # of a memory limit that the derivatives may take
WEIGHT_STEPS = 6  # in which weights of roughness settle


class FittingProblem:
    """The problem without its last layer in core coordinates (`eliminated`), and with all its parameters (`complete`).

    Elimination needs one design matrix for all outputs. If weights differ between outputs, the search is made with
    one factor per sample, the mean of the diagonal of M_s, and the polish with the weights themselves.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        lam: float,
        ridge: float,
        fixed: Mapping[str, object],
        penalty: Penalty | None = None,
        memory: float = np.inf,
    ) -> None:
        self.problem = problem.as_given() if fixed else problem  # given parts are in the units of the user
        self.fixed = Fixed.of(fixed, self.problem) if fixed else None
        problem = self.problem
        # So many derivatives are computed at a time that they take their share of memory at most.
        affordable = _DERIVATIVE_SHARE * memory / (8.0 * DERIVATIVE_TABLES)
        max_derivatives = int(np.clip(affordable, 1, MAX_DERIVATIVES))
        self.rows = problem.rows(lam, max_derivatives)
        self.floor = problem.prepared.rounding_floor
        self.template = blank_parameters(problem)
        self.unknowns = Unknowns.of(problem.layers)
        self.small = self.rows.forms_normal_matrix(self.unknowns.count(self.template))
        self.penalty = penalty if self.small else None  # many unknowns are solved for without a matrix to add it to
        free = self.unknowns.mask(self.template, fixed) if fixed else None
        inner = self.unknowns.mask(self.template.inner, fixed) if fixed else None
        searched = self.rows
        if self.rows.mixing is not None:
            by_sample = problem.prepared.with_sample_weights()
            searched = by_sample.rows(by_sample.row_scaling(lam), max_derivatives)
        ranks = problem.dims[1:-1]
        # A linear part has every rank, and given parts are in the coordinates of the user.
        whole = problem.linear or fixed
        self.core = Core(None, None) if whole else Core.of(searched, ranks[0], ranks[-1])
        self.eliminated = Eliminated(
            self.core.rows(searched), problem.layers, problem.linear, ridge, inner, self.penalty
        )
        self._of_all_data = Eliminated(searched, problem.layers, problem.linear, ridge, inner, self.penalty)
        self.complete = Complete(self.rows, problem.layers, problem.linear, ridge, free, self.penalty)

    def with_last_layer(self, core_inner: Parameters, *, is_known: bool = False) -> Parameters:
        """Append c_L and W_L: one function per argument if elimination had one for every output.

        Inner layers that are known, and no point on the way, are worth an exact last layer.
        """
        inner = self.core.expand(core_inner)
        chain = run_chain(self.problem.layers, inner, self.rows.X)
        A, *_ = self._of_all_data.last_layer(chain)
        free = self._of_all_data.coefficients(chain, A)
        B, r, d, _ = free.shape
        o = int(self.rows.values)
        c, W_L, shared = nearest_shared_functions(free)
        if not shared and np.all(np.isfinite(A)):
            design = self._of_all_data.design(chain)
            gram = design @ design.mT
            if is_known and r > self.problem.dims[-3]:
                c, W_L = functions_of_dependent_arguments(free, gram, A, o, self.problem.dims[-3])
            c, W_L, A = fit_shared_functions(c, W_L, gram, A, o)
        constants = np.zeros((B, r, 1))
        if self.rows.values:
            constants = np.linalg.pinv(W_L) @ A[:, 0, :, None]
        c_L = np.concatenate([constants, c], axis=-1)
        linear = A[:, o + r * d :].mT if self.problem.linear else None
        return Parameters((*inner.W, W_L), inner.b, (*inner.c, c_L), linear)

    def errors(self, theta: Parameters) -> tuple[float, float]:
        """Error(J) and Error(F) of one model, from the residual rows."""
        rows, problem = self.rows, self.problem
        chain = run_chain(problem.layers, theta.inner, rows.X)
        residual = self.complete.residual(theta, chain)[0] / np.where(rows.weights > 0, rows.weights, 1)[..., None]
        weights = problem.weights
        w = np.ones(len(residual)) if weights is None or by_output(weights) else weights
        o = int(rows.values)
        of_F = float(w @ np.sum(residual[:, :o] ** 2, axis=(1, 2))) / (problem.size_F or 1.0)
        of_J = float(w @ np.sum(residual[:, o:] ** 2, axis=(1, 2))) / (problem.size_J or 1.0)
        return (of_J if rows.jacobians else float("nan")), (of_F if rows.values else float("nan"))

    def model(self, theta: Parameters, *, with_domain_of_data: bool = True) -> Decoupling:
        """A batch of one as a model of the given data, its domains at the range that the samples visit if wanted."""
        return model_of(self.problem, theta, self.rows.X if with_domain_of_data else None, self.fixed)


def meets_rounding(complete: Complete, theta: Parameters, cost: float, floor: float) -> bool:
    """Whether rounding explains the cost of one model: that of the data (`floor`), or of its parameters."""
    if cost <= floor:
        return True
    flat = complete.unknowns.flatten(theta)[0]
    if not np.isfinite(cost) or not complete.rows.forms_normal_matrix(len(flat)):
        return False
    _, at = complete.linearise(theta)
    assert isinstance(at, Dense)
    # What rounding of the parameters alone can cause, by the diagonal of the normal matrix: if large terms cancel each
    # other, a model cannot meet its data better than this.
    with np.errstate(over="ignore"):
        rounding = (ROUNDINGS * np.finfo(float).eps) ** 2 * (np.diagonal(at.M[0]) @ flat**2)
    return cost <= float(rounding)


def model_of(problem: Problem, theta: Parameters, X: Float[ndarray, "S k"] | None, fixed: Fixed | None) -> Decoupling:
    """Parameters (a batch of one) as a model of the given data, its domains at the range of the points X, if given."""
    if fixed is None and X is not None:
        theta = rescale_to_window(X, problem.layers, theta, exactly=True)
    g = []
    for layer, b, c in zip(problem.layers, theta.b, theta.c, strict=True):
        C = np.zeros((len(layer.bases), 1 + layer.size))
        C[:, 1:] = c[0, :, -layer.size :]
        if c.shape[2] > layer.size and (problem.F is not None or fixed is not None):  # Jacobians leave constants open
            C[:, 0] = c[0, :, 0]
        g.append(Functions(layer.bases, C, np.array([-1.0, 1.0]) - b[0, :, None]))
    model = problem.model([W[0] for W in theta.W], g, None if theta.A is None else theta.A[0])
    return model if fixed is None else fixed.restore_in(model)


@dataclass(frozen=True)
class Core:
    """Orthonormal directions of inputs and outputs; None keeps them as they are."""

    V: Float[ndarray, "m k"] | None
    U: Float[ndarray, "n l"] | None

    @classmethod
    def of(cls, rows: Rows, n_inputs: int, n_outputs: int) -> Core:
        """The core of this many inputs and outputs, if that is fewer than there are."""
        m, n = rows.X.shape[1], rows.Y.shape[2]
        V = U = None
        if rows.jacobians and n_inputs < m:
            stacked = rows.Y[:, int(rows.values) :].swapaxes(0, 1).reshape(m, -1)
            V = _leading_singular_vectors(stacked, n_inputs)
        if n_outputs < n:
            U = _leading_singular_vectors(rows.Y.reshape(-1, n).T, n_outputs)
        return cls(V, U)

    def rows(self, rows: Rows) -> Rows:
        """The same data in core coordinates; weights must be the same for all outputs."""
        assert rows.mixing is None
        X, Y, weights, o = rows.X, rows.Y, rows.weights, int(rows.values)
        if self.U is not None:
            Y = Y @ self.U
        if self.V is not None:
            k = self.V.shape[1]
            X, weights = X @ self.V, weights[:, : o + k]  # the rows of a Jacobian have the same weight
            Y = np.concatenate([Y[:, :o], self.V.T @ Y[:, o:]], axis=1)
        return dataclasses.replace(rows, X=X, Y=Y, weights=weights)

    def compress(self, inner: Parameters) -> Parameters:
        """Inner layers in core coordinates."""
        return inner if self.V is None else dataclasses.replace(inner, W=(inner.W[0] @ self.V, *inner.W[1:]))

    def expand(self, inner: Parameters) -> Parameters:
        """Inner layers of the core as those of all inputs."""
        return inner if self.V is None else dataclasses.replace(inner, W=(inner.W[0] @ self.V.T, *inner.W[1:]))

    def expand_outputs(self, W_L: Float[ndarray, "B l r"]) -> Float[ndarray, "B n r"]:
        """The last weights of the core as those of all outputs."""
        return W_L if self.U is None else self.U @ W_L


def _leading_singular_vectors(wide: Float[ndarray, "k R"], count: int) -> Float[ndarray, "k c"]:
    """The leading left singular vectors; a triangle is as good as a long table."""
    triangle = np.linalg.qr(wide.T, mode="r") if wide.shape[1] > wide.shape[0] else wide.T
    return np.linalg.svd(triangle, full_matrices=True)[2][:count].T


def nearest_shared_functions(
    free: Float[ndarray, "B r d n"],
) -> tuple[Float[ndarray, "B r d"], Float[ndarray, "B n r"], bool]:
    """Coefficients and weights of the nearest products, and whether the outputs share their functions exactly."""
    U, sizes, Vt = np.linalg.svd(free)
    c = U[..., 0] * np.sqrt(sizes[..., :1])
    W = (Vt[:, :, 0] * np.sqrt(sizes[..., :1])).mT
    return c, W, bool(np.all(sizes[..., 1:] <= _SHARED * sizes[..., :1]))


def functions_of_dependent_arguments(
    free: Float[ndarray, "B r d n"],
    gram: Float[ndarray, "B p p"],
    A: Float[ndarray, "B p n"],
    first: int,
    width: int,
) -> tuple[Float[ndarray, "B r d"], Float[ndarray, "B n r"]]:
    """Coefficients and weights of functions whose arguments are sums of fewer values, `width` of them.

    Sums of their linear parts are then 0, so that elimination leaves these open, and powers with fewer products than
    functions as well. Weights follow from the other coefficients, and all coefficients from the weights.
    """
    B, r, d, n = free.shape
    steep = next((k for k in range(1, d) if comb(width + k, k + 1) >= r), d - 1)
    _, W, _ = nearest_shared_functions(free[:, :, steep:])
    inside, p = np.arange(first, first + r * d), A.shape[1]
    rest = np.setdiff1d(np.arange(p), inside)
    # What is linear in c and in the columns that every output has of its own.
    k = len(rest) * n
    M = np.zeros((B, r * d + k, r * d + k))
    block = gram[:, inside[:, None], inside].reshape(B, r, d, r, d)
    M[:, : r * d, : r * d] = (block * (W.mT @ W)[:, :, None, :, None]).reshape(B, r * d, r * d)
    both = np.einsum("bnj,bjkq->bjkqn", W, gram[:, inside[:, None], rest].reshape(B, r, d, -1)).reshape(B, r * d, k)
    M[:, : r * d, r * d :], M[:, r * d :, : r * d] = both, both.mT
    M[:, r * d :, r * d :] = np.kron(gram[:, rest[:, None], rest], np.eye(n)[None])
    target = gram @ A
    of_c = np.einsum("bnj,bjkn->bjk", W, target[:, inside].reshape(B, r, d, n)).reshape(B, -1)
    right = np.concatenate([of_c, target[:, rest].reshape(B, k)], axis=1)
    return _solve_scaled(M, right[..., None])[:, : r * d, 0].reshape(B, r, d), W


def fit_shared_functions(
    c: Float[ndarray, "B r d"],
    W: Float[ndarray, "B n r"],
    gram: Float[ndarray, "B p p"],
    A: Float[ndarray, "B p n"],
    first: int,
) -> tuple[Float[ndarray, "B r d"], Float[ndarray, "B n r"], Float[ndarray, "B p n"]]:
    """Improve c and W on the equations with this Gram matrix of the design and best free coefficients `A`.

    The functions' columns begin at `first`; all other columns (constants, linear part) stay free for every output and
    are returned in their places.
    """
    (B, r, d), p = c.shape, A.shape[1]
    inside = np.arange(first, first + r * d)
    rest = np.setdiff1d(np.arange(p), inside)
    target = gram @ A  # the right-hand sides of all outputs
    block = gram[:, inside[:, None], inside].reshape(B, r, d, r, d)
    for _ in range(_SHARED_SWEEPS):
        # Weights and free columns for these functions.
        mix = np.zeros((B, r + len(rest), p))
        mix[:, np.repeat(np.arange(r), d), inside] = c.reshape(B, -1)
        mix[:, r + np.arange(len(rest)), rest] = 1.0
        found = _solve_scaled(mix @ gram @ mix.mT, mix @ target)
        W, others = found[:, :r].mT, found[:, r:]
        # Functions for these weights.
        left = target[:, inside] - gram[:, inside[:, None], rest] @ others
        M = block * (W.mT @ W)[:, :, None, :, None]
        right = np.einsum("bnj,bjkn->bjk", W, left.reshape(B, r, d, -1))
        c = _solve_scaled(M.reshape(B, r * d, r * d), right.reshape(B, -1, 1)).reshape(B, r, d)
        size = np.linalg.norm(c, axis=-1, keepdims=True)
        size = np.where(size > 0.0, size, 1.0)
        c, W = c / size, W * size.mT
    whole = np.zeros_like(A)
    whole[:, rest] = others
    return c, W, whole


def _solve_scaled(M: Float[ndarray, "B k k"], right: Float[ndarray, "B k i"]) -> Float[ndarray, "B k i"]:
    diagonal = np.diagonal(M, axis1=1, axis2=2)
    scale = 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = M * scale[:, :, None] * scale[:, None, :] + _SHARED_RIDGE * np.eye(M.shape[-1])
    return scale[..., None] * np.linalg.solve(scaled, scale[..., None] * right)


def smoothing_weights_at(equations: FittingProblem, theta: Parameters, *, chosen: bool = True) -> tuple[Penalty, float]:
    """The weights that the data ask for at a model that stays as it is, and its effective number of parameters."""
    penalty, used = equations.penalty, 0.0
    assert penalty is not None
    misfit, plain = dataclasses.replace(equations.complete, penalty=None).linearise(theta)
    assert isinstance(plain, Dense)
    for phase in range(WEIGHT_STEPS if chosen else 1):
        better, used = penalty.improve_weights(
            plain.M[0], float(misfit[0]), equations.rows.n_numbers, theta, equations.unknowns
        )
        if phase < WEIGHT_STEPS - 1 and chosen:
            penalty = better
    return penalty, used


def effective_note(used: float, whole: int) -> str:
    """What smoothing has come to."""
    return f"Smoothing leaves {used:.1f} effective parameters of {whole}."
