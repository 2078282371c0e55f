r"""The nonlinear least-squares problem behind a decoupling, linearised for a batch of models.

Rows are samples times (value, m Jacobian entries), one column per output; each row is weighted so that the squared
residuals add up to the scale-free objective

    ||J - J_hat||^2 / ||J||^2  +  lam ||F - F_hat||^2 / ||F - mean F||^2  +  ridge ||parameters||^2,

all norms weighted like the samples. Weights that differ between outputs mix the columns of a sample by a square root of
its M_s.

`Eliminated` has everything before the last layer as unknowns. For given t_L every output is linear in its coefficients
over {1, phi_k(t_Lj)}, and over x if the model has a linear part, with one design matrix for all outputs. One QR removes
them (variable projection with Kaufman's derivative). That needs one weight per sample, the same for all outputs.
`Complete` has all parameters as unknowns, W_L, c_L with its constants and A included, and takes any weights.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...bases import LayerBasis
from ..problem._batched_linalg import combine
from ..problem._weighted_rows import Rows
from ._derivatives import Chain, adjoint, dense_derivatives, directional_derivative, run_chain
from ._levenberg_marquardt import AbstractLinearisation, Dense, MatrixFree, Preconditioner, Tall, square_weights
from ._parameters import Parameters, Unknowns, rescale_to_window
from ._roughness_penalty import Penalty

LinearMap = Callable[[ndarray], ndarray]
_RANK_RIDGE = 1e-9  # of a design matrix with unit columns: keeps its QR regular when two columns coincide


class AbstractResiduals(abc.ABC):
    """A cost for every start of a batch, and its linearisation."""

    @abc.abstractmethod
    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        """Cost at `theta` and the equations of a Gauss-Newton step."""

    @abc.abstractmethod
    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        """The parameters after a step of the unknowns, in a well-scaled writing."""


@dataclass(frozen=True)
class Eliminated(AbstractResiduals):
    """Unknowns W_0, c_1, ..., W_(L-1); the last layer and A follow from them by linear least squares."""

    rows: Rows
    layers: tuple[LayerBasis, ...]
    linear: bool
    ridge: float = 0.0
    free: ndarray | None = None  # mask over all unknowns; None frees them all
    penalty: Penalty | None = None

    @cached_property
    def unknowns(self) -> Unknowns:
        return Unknowns.of(self.layers)

    def design(self, chain: Chain) -> Float[ndarray, "B p R"]:
        """Columns, here as rows: the constant (if values are known), phi_k(t_Lj) by function, then x if asked for.

        Samples are the last axis: R counts values or inputs first, then samples.
        """
        rows = self.rows
        Phi, dPhi, V = (np.moveaxis(table[-1], 1, -1) for table in (chain.Phi, chain.dPhi, chain.V))
        B, r, d, S = Phi.shape
        o, k = int(rows.values), rows.X.shape[1] if self.linear else 0
        e = o + r * d  # where the columns of x begin
        table = np.zeros((B, e + k, rows.Y.shape[1], S))
        if rows.values:
            table[:, 0, 0] = 1.0
            table[:, 1:e, 0] = Phi.reshape(B, r * d, S)
            table[:, e:, 0] = rows.X.T[:k]
        if rows.jacobians:
            np.multiply(dPhi[:, :, :, None], V[:, :, None], out=table[:, o:e, o:].reshape(B, r, d, -1, S))
            table[:, e:, o:] = np.eye(k, V.shape[2])[..., None]
        table *= rows.weights.T
        return table.reshape(B, e + k, -1)

    def last_layer(self, chain: Chain) -> tuple[ndarray, ndarray, ndarray, ndarray]:
        """Coefficients A (B, p, n), an orthonormal basis Q of the design, residuals (B, R, n) and cost."""
        penalty = None
        if self.penalty is not None:  # constants and the linear part have none
            k = self.rows.X.shape[1] if self.linear else 0
            penalty = np.pad(self.penalty.last_rows(), ((0, 0), (int(self.rows.values), k)))
        return eliminate(self.design(chain), self.rows, self.ridge, penalty)

    def coefficients(self, chain: Chain, A: ndarray) -> Float[ndarray, "B r d n"]:
        """Those of the functions of the last layer, among all eliminated ones."""
        (B, _, n), (r, d), o = A.shape, chain.Phi[-1].shape[2:], int(self.rows.values)
        return A[:, o : o + r * d].reshape(B, r, d, n)

    def slopes(self, chain: Chain, A: ndarray, part: slice) -> tuple[ndarray, ndarray]:
        """D and E of the eliminated last layer, (B, n, r, S)."""
        coefficients = self.coefficients(chain, A).transpose(0, 1, 3, 2)  # (B, r, n, d)
        of_dPhi, of_ddPhi = (
            coefficients @ np.moveaxis(table[-1][:, part], 1, -1) for table in (chain.dPhi, chain.ddPhi)
        )
        return of_dPhi.swapaxes(1, 2), of_ddPhi.swapaxes(1, 2)

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        rows, (S, q, n) = self.rows, self.rows.Y.shape
        chain = run_chain(self.layers, theta, rows.X)
        A, Q, residual, cost = self.last_layer(chain)
        flat = self.unknowns.flatten(theta)
        cost = cost + self.ridge * np.sum(flat**2, axis=1)
        B, N = flat.shape
        if not self.rows.forms_normal_matrix(N):
            return cost, self._matrix_free(chain, theta, A, Q, residual)
        Q, residual = Q.reshape(B, q, S, -1), residual.mT.reshape(B, n, q, S)
        M, g = np.zeros((B, N, N)), np.zeros((B, N))
        QZ = np.zeros((B, N * n, Q.shape[-1]))
        for part in rows.chunks(B, N):
            D, E = self.slopes(chain, A, part)
            Z = dense_derivatives(
                chain.of_samples(part), theta, self.unknowns, D, E, values=rows.values, jacobians=rows.jacobians
            )
            Z *= rows.weights[part].T
            flat_Z = Z.reshape(B, N, -1)
            M += flat_Z @ flat_Z.mT
            g += (flat_Z @ residual[..., part].reshape(B, -1, 1))[..., 0]
            QZ += Z.reshape(B, N * n, -1) @ Q[:, :, part].reshape(B, -1, Q.shape[-1])
        QZ = QZ.reshape(B, N, -1)
        M -= QZ @ QZ.mT
        if self.penalty is not None:
            self.penalty.add(M, g, cost, theta, self.unknowns)
        return cost, _with_ridge(M, g, flat, self.ridge, self.free)

    def linearise_precisely(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        """`linearise` for one start without ridge or held parts, to more digits."""
        rows, (S, q, _) = self.rows, self.rows.Y.shape
        chain = run_chain(self.layers, theta, rows.X)
        A, Q, residual, cost = self.last_layer(chain)
        D, E = self.slopes(chain, A, slice(None))
        Z = dense_derivatives(chain, theta, self.unknowns, D, E, values=rows.values, jacobians=rows.jacobians)
        Z *= rows.weights.T
        tall = Z.reshape(1, -1, q * S)
        tall = tall - (tall @ Q) @ Q.mT
        return cost, Tall(tall.reshape(1, Z.shape[1], -1), residual.mT.reshape(1, -1))

    def _matrix_free(self, chain: Chain, theta: Parameters, A: ndarray, Q: ndarray, residual: ndarray) -> MatrixFree:
        rows, (S, q, n) = self.rows, self.rows.Y.shape
        D, E = (np.moveaxis(table, -1, 1) for table in self.slopes(chain, A, slice(None)))  # (B, S, n, r)
        B, o = A.shape[0], int(rows.values)
        V = chain.V[-1]

        def forward(flat: ndarray) -> ndarray:
            dt, dV = directional_derivative(chain, theta, self.unknowns.split(flat, theta))
            out = np.empty((B, S, q, n))
            if rows.values:
                out[:, :, 0] = np.einsum("bsnr,bsr->bsn", D, dt)
            if rows.jacobians:
                out[:, :, o:] = ((E * dt[:, :, None]) @ V + D @ dV).mT
            out *= rows.weights[:, :, None]
            tall = out.swapaxes(1, 2).reshape(B, q * S, n)
            return tall - Q @ (Q.mT @ tall)

        def backward(tall: ndarray) -> ndarray:
            # Residuals are orthogonal to Q already, up to its ridge; products of `forward` are as well.
            w = tall.reshape(B, q, S, n).swapaxes(1, 2) * rows.weights[:, :, None]
            t_bar, V_bar = np.zeros(chain.t[-1].shape), np.zeros(V.shape)
            if rows.values:
                t_bar += np.einsum("bsnr,bsn->bsr", D, w[:, :, 0])
            if rows.jacobians:
                of_J = w[:, :, o:].mT  # (B, S, n, m)
                V_bar += D.mT @ of_J
                t_bar += np.einsum("bsrm,bsrm->bsr", E.mT @ of_J, V)
            return self.unknowns.flatten(adjoint(chain, theta, t_bar, V_bar))

        flat = self.unknowns.flatten(theta)
        rough = Preconditioner.of(rows, chain, theta, D, flat.shape[1])
        return MatrixFree(forward, backward, backward(residual) - self.ridge * flat, self.ridge, self.free, rough)

    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        new = self.unknowns.after_step(theta, step)
        if self.ridge > 0.0 or self.free is not None:
            return new
        return rescale_to_window(self.rows.X, self.layers, new)


@dataclass(frozen=True)
class Complete(AbstractResiduals):
    """Unknowns W_0, c_1, W_1, ..., c_L, W_L, if c_L alone has its constants, and A if the model has one."""

    rows: Rows
    layers: tuple[LayerBasis, ...]
    linear: bool
    ridge: float = 0.0
    free: ndarray | None = None
    penalty: Penalty | None = None
    sought: Unknowns | None = None  # None: those of the layers

    @cached_property
    def unknowns(self) -> Unknowns:
        return Unknowns.of(self.layers) if self.sought is None else self.sought

    def residual(self, theta: Parameters, chain: Chain) -> Float[ndarray, "B S q n"]:
        """Weighted difference between the data and the model."""
        rows = self.rows
        C, W, A = theta.c[-1], theta.W[-1], theta.A
        G = combine(chain.dPhi[-1], C[..., 1:])
        model = np.empty((C.shape[0], *rows.Y.shape))
        if rows.values:
            model[:, :, 0] = (combine(chain.Phi[-1], C[..., 1:]) + C[:, None, :, 0]) @ W.mT
        if rows.jacobians:
            model[:, :, int(rows.values) :] = (G[..., None] * chain.V[-1]).mT @ W.mT[:, None]
        if A is not None:
            self._add_linear(model, A)
        return rows.Y - rows.weigh_rows(model)

    def _add_linear(self, table: Float[ndarray, "B S q n"], A: Float[ndarray, "B n k"]) -> None:
        """Add A x to the rows of values and A to those of Jacobians."""
        rows = self.rows
        if rows.values:
            table[:, :, 0] += rows.X @ A.mT
        if rows.jacobians:
            table[:, :, int(rows.values) :] += A.mT[:, None]

    def derivatives(self, theta: Parameters, chain: Chain, part: slice) -> Float[ndarray, "B N n q s"]:
        """Derivatives of the weighted model rows with respect to all parameters, for some of the samples."""
        rows = self.rows
        C, W, A = theta.c[-1], theta.W[-1], theta.A
        some = chain.of_samples(part)
        Phi, dPhi, V = (np.moveaxis(table[-1], 1, -1) for table in (some.Phi, some.dPhi, some.V))
        a, b = (combine(t[-1], C[..., 1:]).mT for t in (some.dPhi, some.ddPhi))  # (B, r, S)
        (B, r, e), (n, S), m, o = C.shape, (W.shape[1], a.shape[-1]), rows.X.shape[1], int(rows.values)
        last, linear = r * e + n * r, n * m if A is not None else 0
        Z = dense_derivatives(
            some,
            theta.inner,
            self.unknowns,
            W[..., None] * a[:, None],
            W[..., None] * b[:, None],
            values=rows.values,
            jacobians=rows.jacobians,
            more=last + linear,
        )
        first = Z.shape[1] - last - linear
        Z[:, first:] = 0.0
        of_C = Z[:, first : first + r * e].reshape(B, r, e, n, -1, S)
        of_W = Z[:, first + r * e : first + last].reshape(B, n, r, n, -1, S)
        of_A = Z[:, first + last :].reshape(B, n, linear // n, *Z.shape[2:])
        columns = W.mT[..., None]  # (B, r, n, 1)
        if rows.values:
            of_C[:, :, 0, :, 0] = columns
            of_C[:, :, 1:, :, 0] = columns[:, :, None] * Phi[:, :, :, None]
            z = combine(some.Phi[-1], C[..., 1:]).mT + C[:, :, :1]
            for i in range(n):
                of_W[:, i, :, i, 0] = z
                of_A[:, i, :, i, 0] = rows.X[part].T[: of_A.shape[2]]
        if rows.jacobians:
            of_C[:, :, 1:, :, o:] = columns[:, :, None, :, None] * (dPhi[:, :, :, None] * V[:, :, None])[:, :, :, None]
            P = a[:, :, None] * V
            for i in range(n):
                of_W[:, i, :, i, o:] = P
                of_A[:, i, :, i, o:] = np.eye(of_A.shape[2], m)[..., None]
        Z *= rows.weights[part].T
        if rows.mixing is not None:
            Z *= rows.mixing[part].T[:, None]
        return Z

    def linearise(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        flat = self.unknowns.flatten(theta)
        if not self.rows.forms_normal_matrix(flat.shape[1]):
            chain = run_chain(self.layers, theta.inner, self.rows.X)
            residual = self.residual(theta, chain)
            cost = np.einsum("bsqn,bsqn->b", residual, residual) + self.ridge * np.sum(flat**2, axis=1)
            return cost, self._matrix_free(chain, theta, residual)
        cost, g, M = self.normal(theta)
        cost = cost + self.ridge * np.sum(flat**2, axis=1)
        if self.penalty is not None:
            self.penalty.add(M, g, cost, theta, self.unknowns)
        return cost, _with_ridge(M, g, flat, self.ridge, self.free)

    def normal(self, theta: Parameters) -> tuple[Float[ndarray, " B"], Float[ndarray, "B N"], Float[ndarray, "B N N"]]:
        """Cost, Z^T residual and Z^T Z, without ridge and penalty: what a portion of the samples adds to them."""
        chain = run_chain(self.layers, theta.inner, self.rows.X)
        residual = self.residual(theta, chain)
        B, N = len(residual), self.unknowns.count(theta)
        M, g = np.zeros((B, N, N)), np.zeros((B, N))
        for part in self.rows.chunks(B, N):
            Z = self.derivatives(theta, chain, part).reshape(B, N, -1)
            M += Z @ Z.mT
            g += (Z @ residual[:, part].transpose(0, 3, 2, 1).reshape(B, -1, 1))[..., 0]
        return np.einsum("bsqn,bsqn->b", residual, residual), g, M

    def gradient(self, theta: Parameters) -> tuple[Float[ndarray, " B"], Float[ndarray, "B N"]]:
        """Cost and Z^T residual alone, for a part of the time."""
        chain = run_chain(self.layers, theta.inner, self.rows.X)
        residual = self.residual(theta, chain)
        return np.einsum("bsqn,bsqn->b", residual, residual), self._maps(chain, theta)[1](residual)

    def linearise_precisely(self, theta: Parameters) -> tuple[Float[ndarray, " B"], AbstractLinearisation]:
        """`linearise` for one start without ridge or held parts, to more digits."""
        chain = run_chain(self.layers, theta.inner, self.rows.X)
        residual = self.residual(theta, chain)
        Z = self.derivatives(theta, chain, slice(None))
        tall = residual.transpose(0, 3, 2, 1).reshape(1, -1)
        return np.einsum("br,br->b", tall, tall), Tall(Z.reshape(1, Z.shape[1], -1), tall)

    def _maps(self, chain: Chain, theta: Parameters) -> tuple[LinearMap, LinearMap]:
        """The derivative of the weighted model rows as a map of unknowns, and its transpose."""
        rows, o = self.rows, int(self.rows.values)
        C, W, A = theta.c[-1], theta.W[-1], theta.A
        Phi, dPhi, V = chain.Phi[-1], chain.dPhi[-1], chain.V[-1]
        z, a = combine(Phi, C[..., 1:]) + C[:, None, :, 0], combine(dPhi, C[..., 1:])
        b = combine(chain.ddPhi[-1], C[..., 1:]) if rows.jacobians else np.zeros(1)

        def forward(flat: ndarray) -> ndarray:
            change = self.unknowns.split(flat, theta)
            dC, dW, dA = change.c[-1], change.W[-1], change.A
            dt, dV = directional_derivative(chain, theta.inner, change.inner)
            out = np.empty((C.shape[0], *rows.Y.shape))
            if rows.values:
                dz = a * dt + combine(Phi, dC[..., 1:]) + dC[:, None, :, 0]
                out[:, :, 0] = dz @ W.mT + z @ dW.mT
            if rows.jacobians:
                dG = b * dt + combine(dPhi, dC[..., 1:])
                dP = dG[..., None] * V + a[..., None] * dV
                out[:, :, o:] = dP.mT @ W.mT[:, None] + (a[..., None] * V).mT @ dW.mT[:, None]
            if dA is not None:
                self._add_linear(out, dA)
            return rows.weigh_rows(out)

        def backward(table: ndarray) -> ndarray:
            w = rows.weigh_rows(table.copy())
            t_bar, V_bar = np.zeros(chain.t[-1].shape), np.zeros(V.shape)
            dC, dW = np.zeros_like(C), np.zeros_like(W)
            if rows.values:
                z_bar = w[:, :, 0] @ W
                t_bar += a * z_bar
                dC[..., 0] += z_bar.sum(axis=1)
                dC[..., 1:] += np.einsum("bsr,bsrd->brd", z_bar, Phi)
                dW += w[:, :, 0].mT @ z
            if rows.jacobians:
                of_J = w[:, :, o:]  # (B, S, m, n)
                P_bar = (of_J @ W[:, None]).mT  # (B, S, r, m)
                along_V = np.sum(P_bar * V, axis=-1)
                t_bar += b * along_V
                V_bar += a[..., None] * P_bar
                dC[..., 1:] += np.einsum("bsr,bsrd->brd", along_V, dPhi)
                dW += np.sum(of_J.mT @ (a[..., None] * V).mT, axis=1)
            dA = None if A is None else np.zeros_like(A)
            if dA is not None and rows.values:
                dA += w[:, :, 0].mT @ rows.X
            if dA is not None and rows.jacobians:
                dA += w[:, :, o:].sum(axis=1).mT
            inner = adjoint(chain, theta.inner, t_bar, V_bar)
            return self.unknowns.flatten(Parameters((*inner.W, dW), inner.b, (*inner.c, dC), dA))

        return forward, backward

    def _matrix_free(self, chain: Chain, theta: Parameters, residual: ndarray) -> MatrixFree:
        rows = self.rows
        C, W = theta.c[-1], theta.W[-1]
        forward, backward = self._maps(chain, theta)
        g = backward(residual) - self.ridge * self.unknowns.flatten(theta)
        a = combine(chain.dPhi[-1], C[..., 1:])
        slopes, last = W[:, None] * a[:, :, None], self._diagonal(theta, chain)
        rough = Preconditioner.of(rows, chain, theta.inner, slopes, g.shape[1], last)
        return MatrixFree(forward, backward, g, self.ridge, self.free, rough)

    def _diagonal(self, theta: Parameters, chain: Chain) -> Float[ndarray, " known"]:
        """That of the normal matrix, for the unknowns of the last layer and A of one start."""
        C, W, A = theta.c[-1], theta.W[-1], theta.A
        z, a = (combine(table, C[..., 1:])[0] for table in (chain.Phi[-1], chain.dPhi[-1]))
        z = z + C[0, :, 0]
        Phi, dPhi, V = chain.Phi[-1][0], chain.dPhi[-1][0], chain.V[-1][0]
        of_F, of_J = square_weights(self.rows)
        sizes = of_J[:, None] * np.einsum("srm,srm->sr", V, V)
        of_C = np.empty(C.shape[1:])
        of_C[:, 0] = of_F.sum()
        of_C[:, 1:] = np.einsum("s,srd->rd", of_F, Phi**2) + np.einsum("sr,srd->rd", sizes, dPhi**2)
        of_C *= np.sum(W[0] ** 2, axis=0)[:, None]
        of_W = np.broadcast_to(of_F @ z**2 + np.sum(sizes * a**2, axis=0), W.shape[1:])
        of_A = np.empty(0) if A is None else np.broadcast_to(of_F @ self.rows.X**2 + of_J.sum(), A.shape[1:])
        return np.concatenate([of_C.ravel(), of_W.ravel(), of_A.ravel()])

    def after_step(self, theta: Parameters, step: Float[ndarray, "B N"]) -> Parameters:
        new = self.unknowns.after_step(theta, step)
        if self.ridge > 0.0 or self.free is not None:
            return new
        new = rescale_to_window(self.rows.X, self.layers, new)
        size = np.sqrt(np.sum(new.c[-1][..., 1:] ** 2, axis=-1))
        size = np.where((size > 0.0) & np.isfinite(size), size, 1.0)
        W, c = (*new.W[:-1], new.W[-1] * size[:, None, :]), (*new.c[:-1], new.c[-1] / size[..., None])
        return Parameters(W, new.b, c, new.A)


def eliminate(
    design: Float[ndarray, "B p R"],
    rows: Rows,
    ridge: float,
    penalty: Float[ndarray, "K p"] | None = None,
    rank_ridge: float = _RANK_RIDGE,
) -> tuple[Float[ndarray, "B p n"], Float[ndarray, "B R p"], Float[ndarray, "B R n"], Float[ndarray, " B"]]:
    """Coefficients of all outputs by least squares, an orthonormal basis of the design, residuals and cost.

    `penalty` holds more rows of the design, for which 0 is wanted. R counts values or inputs first, then samples.
    """
    B, p, R = design.shape
    Y = rows.Y.swapaxes(0, 1).reshape(R, -1)
    size = np.sqrt(np.einsum("bpr,bpr->bp", design, design))
    size = np.where(size > 0.0, size, 1.0)
    broken = ~np.isfinite(size).all(axis=1)
    size[broken] = 1.0
    K = 0 if penalty is None else len(penalty)
    stacked = np.zeros((B, R + p + K, p))
    np.divide(design.mT, size[:, None, :], out=stacked[:, :R])
    stacked[:, R + np.arange(p), np.arange(p)] = rank_ridge + np.sqrt(ridge) / size
    if penalty is not None:
        stacked[:, R + p :] = penalty / size[:, None, :]
    stacked[broken] = np.eye(R + p + K, p)
    Q, triangle = np.linalg.qr(stacked)
    A = np.linalg.solve(triangle, Q[:, :R].mT @ Y) / size[..., None]
    residual = Y - design.mT @ A
    cost = np.einsum("brn,brn->b", residual, residual) + ridge * np.einsum("bpn,bpn->b", A, A)
    if penalty is not None:
        cost += np.sum((penalty @ A) ** 2, axis=(1, 2))
    cost[broken] = np.inf
    return A, Q[:, :R], residual, cost


def _with_ridge(M: ndarray, g: ndarray, flat: ndarray, ridge: float, free: ndarray | None) -> Dense:
    if ridge > 0.0:
        M = M + ridge * np.eye(M.shape[-1])
        g = g - ridge * flat
    if free is not None:
        M, g = M * (free[:, None] & free), g * free
    return Dense(M, g)
