r"""The simulation of a state-space model over whole records, and the exact derivatives of its errors.

With (x(t+1), y(t)) = f(x(t), u(t), theta), the sensitivities s(t) = d x(t) / d theta obey

    s(t+1) - F_x(t) s(t) = d f_x / d theta,      s(0) = d x(0) / d theta,

a unit lower-triangular banded system: one LAPACK call for all parameters and some thousand times, in blocks that fit
the cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray
from scipy.linalg.lapack import dtbtrs

from ...solvers.least_squares._levenberg_marquardt import Dense
from ..signals._records import RecordBatch
from ._recursion import Recursion
from ._step import FreeParameters, StepArrays, StepJacobians

_BLOCK_SIZE = 400_000  # numbers of a block of sensitivities: 3 MB
_CORRECTION_RIDGE = 1e-10  # of the largest entry: directions that a window does not see are left alone
_LARGEST_STATE = 1e6  # in units of the training standard deviation: only unstable models reach it


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """A run over all records: (x, u) at all times, and outputs and their errors if they were measured."""

    points: Float[ndarray, "T m"]
    y: Float[ndarray, "S outputs"]
    residuals: Float[ndarray, "S outputs"]

    @classmethod
    def at(cls, step: StepArrays, batch: RecordBatch, states: Float[ndarray, "T n"]) -> SimulationResult:
        """With these states at all times: those of a simulation, or measured ones for predictions one step ahead."""
        points = np.concatenate([states, batch.all_u], axis=1)
        y = step.values(points[batch.measured_times])[:, states.shape[1] :]
        return cls(points, y, batch.all_y - y)

    @property
    def mean_square(self) -> float:
        return float(np.mean(self.residuals**2))


def simulate(
    step: StepArrays, batch: RecordBatch, x0: Float[ndarray, "records n"], recursion: Recursion | None = None
) -> SimulationResult | None:
    """Run over all records from these states; None if a state leaves all bounds.

    `recursion` is that of all models of this shape.
    """
    recursion = Recursion(step, x0.shape[1], {}) if recursion is None else recursion
    found = []
    for u, x in zip(batch.input_lists, x0.tolist(), strict=True):
        states = recursion.states(step, u, x)
        if len(states) < len(u) or not np.all(np.abs(states) < _LARGEST_STATE):
            return None
        found.append(states)
    return SimulationResult.at(step, batch, np.concatenate(found))


def sensitivities(
    parameters: FreeParameters,
    step: StepArrays,
    points: Float[ndarray, "T m"],
    before: Float[ndarray, "P n"],
    every: int,
    *,
    recursive: bool = True,
) -> tuple[Float[ndarray, "P S outputs"], Float[ndarray, "P n"]]:
    """d y / d (theta, x(0)) at every `every`-th of consecutive points, and d x / d (theta, x(0)) after the last.

    `before` is d x / d (theta, x(0)) at the first point. Without `recursive`, states do not depend on anything.
    """
    T, (P, n) = len(points), before.shape
    p = step.n_outputs - n
    right = np.zeros((P, T, n))
    direct = np.zeros((P, len(range(0, T, every)), p))
    last = np.zeros((P, n))
    along = StepJacobians(step, points)
    for k, (rows, column) in enumerate(parameters.derivative_columns(along)):
        if rows is None:
            right[k, 1:] = column[:n, :-1].T
            last[k] = column[:n, -1]
            direct[k] = column[n:, ::every].T
            continue
        for row in rows:
            if row < n:
                right[k, 1:, row] = column[0, :-1]
                last[k, row] = column[0, -1]
            else:
                direct[k, :, row - n] = column[0, ::every]
    if not (recursive and n):
        return direct, before
    right[:, 0] = before
    J = along.state_jacobian(n)
    band = np.zeros((2 * n, T * n), order="F")  # band[d, c] is the entry in column c and row c + d
    band[0] = 1.0
    columns = np.arange(T - 1) * n
    for i in range(n):
        for q in range(n):
            band[n + i - q, columns + q] = -J[i, q, :-1]
    solved, _ = dtbtrs(band, right.reshape(P, T * n).T, uplo="L", diag="U", overwrite_b=1)
    s = solved.T.reshape(P, T, n)
    measured, H = s[:, ::every], J[n:, :, ::every]
    for o in range(p):
        for i in range(n):
            direct[:, :, o] += measured[:, :, i] * H[o, i]
    return direct, s[:, -1] @ J[:n, :, -1].T + last


def normal_equations(
    parameters: FreeParameters,
    step: StepArrays,
    batch: RecordBatch,
    result: SimulationResult,
    *,
    known_x0: bool = False,
    recursive: bool = True,
) -> Dense:
    """Z^T Z and Z^T e of theta and, unless they are known, the initial states of all records, as a batch of one."""
    P, M, n = parameters.count, batch.oversample, result.points.shape[1] - batch.u[0].shape[1]
    k = 0 if known_x0 else n  # unknowns of each record
    N = P + k * len(batch)
    G_all, h_all = np.zeros((N, N)), np.zeros(N)
    residuals = np.split(result.residuals, np.cumsum([len(y) for y in batch.y])[:-1])
    block = max(1, _BLOCK_SIZE // ((P + n) * max(n, 1) * M)) * M
    for record, (begin, u, e) in enumerate(zip(batch.offsets.tolist(), batch.u, residuals, strict=True)):
        s = np.concatenate([np.zeros((P, n)), np.eye(n)[:k]])
        G, h = np.zeros((P + k, P + k)), np.zeros(P + k)
        for at in range(0, len(u), block):
            points = result.points[begin + at : begin + min(at + block, len(u))]
            Z, s = sensitivities(parameters, step, points, s, M, recursive=recursive)
            z = Z.reshape(P + k, -1)
            G += z @ z.T
            h += z @ e[at // M : at // M + Z.shape[1]].ravel()
        own = slice(P + k * record, P + k * (record + 1))
        G_all[:P, :P] += G[:P, :P]
        G_all[:P, own], G_all[own, :P], G_all[own, own] = G[:P, P:], G[P:, :P], G[P:, P:]
        h_all[:P] += h[:P]
        h_all[own] = h[P:]
    size = result.residuals.size
    return Dense(G_all[None] / size, h_all[None] / size)


def one_step_corrections(step: StepArrays, n: int, run: SimulationResult, window: int) -> Float[ndarray, "T outputs"]:
    """What the outputs of a simulation change by when its state meets the `window` outputs before best, to first order.

    Along the run, d x(t+1) = F(t) d x(t) and d y(t) = H(t) d x(t). For every t the change of x(t - window) that
    explains the residuals from there to t - 1 best is carried on to t.
    """
    J = np.moveaxis(StepJacobians(step, run.points).state_jacobian(n), 2, 0)  # (T, n + outputs, n)
    F, H = J[:, :n], J[:, n:]
    count = len(run.points) - window
    carried = np.broadcast_to(np.eye(n), (count, n, n))  # d x(t - window + k) / d x(t - window)
    M, g = np.zeros((count, n, n)), np.zeros((count, n))
    for k in range(window):
        O = H[k : k + count] @ carried
        M += O.mT @ O
        g += np.einsum("toi,to->ti", O, run.residuals[k : k + count])
        carried = F[k : k + count] @ carried
    ridge = _CORRECTION_RIDGE * np.abs(M).max(axis=(1, 2), keepdims=True) + 1e-300
    change = np.linalg.solve(M + ridge * np.eye(n), g[..., None])
    corrections = np.zeros_like(run.residuals)
    corrections[window:] = (H[window:] @ carried @ change)[..., 0]
    return corrections
