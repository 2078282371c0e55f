r"""The free-run error of a state-space model over whole records, and its exact derivatives.

With (x(t+1), y(t)) = f(x(t), u(t), theta), the sensitivities s(t) = d x(t) / d theta obey

    s(t+1) - F_x(t) s(t) = d f_x / d theta,      s(0) = d x(0) / d theta,

a unit lower-triangular banded system: one LAPACK call for all parameters and some thousand times, in blocks that fit
the cache. The initial state of each record is free too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray
from scipy.linalg.lapack import dtbtrs

from ...model._decoupling import Decoupling
from ...solvers.least_squares._levenberg_marquardt import Dense
from ...write._source import compiled, recursion_source
from ._free_parameters import Along, Movable

_BLOCK = 400_000  # numbers of a block of sensitivities: 3 MB
_FAR = 1e6  # states, in units of their training spread, that only an unstable model reaches


@dataclass(frozen=True, eq=False)
class Pieces:
    """Records, or windows of them, in standard units; inputs may be sampled `oversample` times as often as outputs."""

    u: tuple[Float[ndarray, "_ inputs"], ...]
    y: tuple[Float[ndarray, "_ outputs"], ...]
    oversample: int = 1

    @cached_property
    def all_u(self) -> Float[ndarray, "T inputs"]:
        return np.concatenate(self.u)

    @cached_property
    def lists(self) -> tuple[list[Any], ...]:
        """The inputs of every piece as Python numbers, or tuples of them."""
        return tuple(_as_list(u) for u in self.u)

    @cached_property
    def all_y(self) -> Float[ndarray, "S outputs"]:
        return np.concatenate(self.y)

    @cached_property
    def begins(self) -> Int[ndarray, " pieces"]:
        """Where each piece begins among all inputs."""
        return np.cumsum([0] + [len(u) for u in self.u[:-1]])

    @cached_property
    def measured(self) -> ndarray:
        """The times among all inputs at which outputs were measured."""
        return np.concatenate(
            [b + self.oversample * np.arange(len(y)) for b, y in zip(self.begins.tolist(), self.y, strict=True)]
        )

    def begun(self, n: int, n_integrators: int) -> Float[ndarray, "pieces n"]:
        """Initial states to begin with: 0, but the first outputs for states that are outputs."""
        x0 = np.zeros((len(self), n))
        x0[:, :n_integrators] = [y[0, :n_integrators] for y in self.y]
        return x0

    def at_samples(self) -> Pieces:
        """The same with inputs as often as outputs, as they were measured."""
        return self if self.oversample == 1 else Pieces(tuple(a[:: self.oversample] for a in self.u), self.y)

    def heads(self, lengths: list[int]) -> Pieces:
        """The beginning of every piece, so many outputs long."""
        u = tuple(a[: k * self.oversample] for a, k in zip(self.u, lengths, strict=True))
        return Pieces(u, tuple(b[:k] for b, k in zip(self.y, lengths, strict=True)), self.oversample)

    def first(self, count: int) -> Pieces:
        """The first `count` outputs of all pieces together, at least one piece."""
        u, y, left = [], [], count
        for a, b in zip(self.u, self.y, strict=True):
            if left <= 0:
                break
            u.append(a[: left * self.oversample])
            y.append(b[:left])
            left -= len(b)
        return Pieces(tuple(u), tuple(y), self.oversample)

    def windows(self, length: int) -> Pieces:
        """The same outputs in pieces of about this many."""
        u, y = [], []
        for a, b in zip(self.u, self.y, strict=True):
            cuts = np.linspace(0, len(b), max(1, round(len(b) / length)) + 1).round().astype(int)
            for i, j in pairwise(cuts.tolist()):
                u.append(a[i * self.oversample : j * self.oversample])
                y.append(b[i:j])
        return Pieces(tuple(u), tuple(y), self.oversample)

    def __len__(self) -> int:
        return len(self.y)


def _as_list(u: Float[ndarray, "T inputs"]) -> list[Any]:
    rows: list[Any] = (u[:, 0] if u.shape[1] == 1 else u).tolist()
    return rows


def recursion(step: Decoupling, n: int) -> Callable[[list[Any], list[float]], Float[ndarray, "_ n"]]:
    """A function of inputs and an initial state that gives the states of a free run.

    There are fewer than inputs where the model cannot be computed any more.
    """
    assert step.linear is not None
    assert step.offset is not None
    of_state = step.with_parts(
        W=[*step.W[:-1], step.W[-1][:n]], linear=step.linear[:n], offset=step.offset[:n], outputs=None, inputs=None
    )
    if all(basis.writable for g in step.g for basis in g.layer.bases):
        loop = compiled(recursion_source(of_state))

        def run_on(inputs: list[Any], x0: list[float]) -> Float[ndarray, "_ n"]:
            rows = loop(inputs, x0)
            return np.fromiter(chain.from_iterable(rows), float, n * len(rows)).reshape(-1, n)

        return run_on

    def run_slowly(inputs: list[Any], x0: list[float]) -> Float[ndarray, "_ n"]:
        rows, x = np.empty((len(inputs), n)), np.array(x0)
        for t, v in enumerate(inputs):
            rows[t] = x
            x = of_state.values(np.append(x, v)[None])[0]
        return rows

    return run_slowly


@dataclass(frozen=True, eq=False)
class Run:
    """A free run over all pieces: (x, u) at all times, and outputs where they were measured."""

    points: Float[ndarray, "T m"]
    y: Float[ndarray, "S outputs"]
    residuals: Float[ndarray, "S outputs"]

    @property
    def mean_square(self) -> float:
        return float(np.mean(self.residuals**2))


def run(step: Decoupling, pieces: Pieces, x0: Float[ndarray, "pieces n"]) -> Run | None:
    """Run over all pieces from these states; None where a state leaves all bounds."""
    n = x0.shape[1]
    found, run_on = [], recursion(step, n)
    for u, x in zip(pieces.lists, x0.tolist(), strict=True):
        rows = run_on(u, x)
        if len(rows) < len(u) or not np.all(np.abs(rows) < _FAR):
            return None
        found.append(rows)
    points = np.concatenate([np.concatenate(found), pieces.all_u], axis=1)
    y = step.values(points[pieces.measured])[:, n:]
    return Run(points, y, pieces.all_y - y)


def sensitivities(
    movable: Movable, step: Decoupling, n: int, points: Float[ndarray, "T m"], before: Float[ndarray, "P n"], every: int
) -> tuple[Float[ndarray, "P S outputs"], Float[ndarray, "P n"]]:
    """d y / d (theta, x(0)) at every `every`-th of consecutive points, and d x / d (theta, x(0)) after the last.

    `before` is d x / d (theta, x(0)) at the first point.
    """
    T, p, P = len(points), step.n_outputs - n, len(before)
    right = np.zeros((P, T, n))
    direct = np.zeros((P, len(range(0, T, every)), p))
    last = np.zeros((P, n))
    along = Along(step, points)
    for k, (only, column) in enumerate(movable.columns(along)):
        if only is None:
            right[k, 1:] = column[:n, :-1].T
            last[k] = column[:n, -1]
            direct[k] = column[n:, ::every].T
        elif only < n:
            right[k, 1:, only] = column[0, :-1]
            last[k, only] = column[0, -1]
        else:
            direct[k, :, only - n] = column[0, ::every]
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
    seen, H = s[:, ::every], J[n:, :, ::every]
    for o in range(p):
        for i in range(n):
            direct[:, :, o] += seen[:, :, i] * H[o, i]
    return direct, s[:, -1] @ J[:n, :, -1].T + last


def normal_equations(movable: Movable, step: Decoupling, pieces: Pieces, n: int, found: Run) -> Dense:
    """Z^T Z and Z^T e of theta and the initial states of all pieces, as a batch of one."""
    P, M = movable.count, pieces.oversample
    N = P + n * len(pieces)
    G_all, h_all = np.zeros((N, N)), np.zeros(N)
    residuals = np.split(found.residuals, np.cumsum([len(y) for y in pieces.y])[:-1])
    block = max(1, _BLOCK // ((P + n) * n * M)) * M
    for k, (begin, u, e) in enumerate(zip(pieces.begins.tolist(), pieces.u, residuals, strict=True)):
        s = np.concatenate([np.zeros((P, n)), np.eye(n)])
        G, h = np.zeros((P + n, P + n)), np.zeros(P + n)
        for at in range(0, len(u), block):
            end = min(at + block, len(u))
            Z, s = sensitivities(movable, step, n, found.points[begin + at : begin + end], s, M)
            z = Z.reshape(P + n, -1)
            G += z @ z.T
            h += z @ e[at // M : at // M + Z.shape[1]].ravel()
        own = slice(P + n * k, P + n * (k + 1))
        G_all[:P, :P] += G[:P, :P]
        G_all[:P, own], G_all[own, :P], G_all[own, own] = G[:P, P:], G[P:, :P], G[P:, P:]
        h_all[:P] += h[:P]
        h_all[own] = h[P:]
    size = found.residuals.size
    return Dense(G_all[None] / size, h_all[None] / size)
