"""Levenberg-Marquardt for a batch of starts, each with its own damping; the worst ones are dropped on the way.

Few unknowns are solved for by their normal matrix, or by the QR of their derivatives if digits count. Many unknowns are
solved for by conjugate gradients, which a rough inverse of the normal matrix makes short. A row of Jacobians is D_s W_0
with the slopes D_s of all behind W_0. So W_0, by far the most of the unknowns, has nearly the normal matrix K kron I
with K = sum_s w_s^2 D_s^T D_s. All else is scaled by its diagonal, or by the mean of that of K if it is not known.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._time_limit import now
from ..problem._batched_linalg import solve_each
from ..problem._weighted_rows import Rows
from ._derivatives import Chain
from ._parameters import Parameters

_FIRST_DAMPING, _DAMPING_GROWTH = 1e-2, 2.0
_LEAST_DAMPING, _LARGEST_DAMPING = 1e-14, 1e10
SETTLING_STEPS = 15  # steps without a relative decrease of `settles_at`: a local minimum
_SINGULAR_VALUE_OF_ROUNDING = 1e-13  # of the largest singular value
_SHARE_OF_EXACT_AT_REST = 1e-6  # of what is exact: who begins there is not moved
_MAX_PRODUCTS = 12  # of the normal matrix with a vector, for one step: more of them are not worth their time
Batch = TypeVar("Batch", Parameters, ndarray)
_DIAGONAL_FLOOR = 1e-12  # of the largest entry of a diagonal, for entries that are nearly 0


class AbstractLinearisation(abc.ABC):
    """The normal equations (Z^T Z) step = Z^T residual of a batch, in whatever form they are kept."""

    @abc.abstractmethod
    def step(self, damping: Float[ndarray, " B"]) -> tuple[Float[ndarray, "B N"], Float[ndarray, " B"]]:
        """Damped steps and the decrease of the cost that the linear model promises for them."""

    @abc.abstractmethod
    def replace_where(self, better: ndarray, other: AbstractLinearisation) -> AbstractLinearisation:
        """The equations of `other` if `better`, ours elsewhere."""

    @abc.abstractmethod
    def take(self, keep: ndarray) -> AbstractLinearisation:
        """The starts with these indices."""


@dataclass(frozen=True)
class Dense(AbstractLinearisation):
    """M = Z^T Z and g = Z^T residual as arrays. Damping is relative to the diagonal (Marquardt)."""

    M: Float[ndarray, "B N N"]
    g: Float[ndarray, "B N"]

    def step(self, damping: Float[ndarray, " B"]) -> tuple[Float[ndarray, "B N"], Float[ndarray, " B"]]:
        diagonal = np.diagonal(self.M, axis1=1, axis2=2)
        floor = _DIAGONAL_FLOOR * diagonal.max(axis=1, keepdims=True)
        scale = 1.0 / np.sqrt(np.maximum(diagonal, np.where(floor > 0.0, floor, 1.0)))
        N = self.M.shape[-1]
        scaled = self.M * scale[:, :, None] * scale[:, None, :]
        scaled[:, np.arange(N), np.arange(N)] += damping[:, None] + _LEAST_DAMPING
        broken = ~np.isfinite(scaled).all(axis=(1, 2)) | ~np.isfinite(self.g).all(axis=1)
        scaled[broken] = np.eye(N)
        g = np.where(broken[:, None], 0.0, self.g * scale)
        move = solve_each(scaled, g[..., None])[..., 0]  # where singular, the step is NaN and will be rejected
        promised = np.sum(move * g, axis=1) + damping * np.sum(move**2, axis=1)
        return move * scale, promised

    def replace_where(self, better: ndarray, other: AbstractLinearisation) -> Dense:
        assert isinstance(other, Dense)
        return Dense(np.where(better[:, None, None], other.M, self.M), np.where(better[:, None], other.g, self.g))

    def take(self, keep: ndarray) -> Dense:
        return Dense(self.M[keep], self.g[keep])


@dataclass(frozen=True)
class Tall(AbstractLinearisation):
    """Z and the residual of one start themselves, solved by QR and SVD: twice the digits of normal equations."""

    Z: Float[ndarray, "1 N R"]
    residual: Float[ndarray, "1 R"]

    def step(self, damping: Float[ndarray, " B"]) -> tuple[Float[ndarray, "B N"], Float[ndarray, " B"]]:
        Z, N = self.Z[0], self.Z.shape[1]
        if not np.all(np.isfinite(Z)):
            return np.full((1, N), np.nan), np.zeros(1)
        size = np.sqrt(np.einsum("nr,nr->n", Z, Z))
        size = np.maximum(size, 1e-6 * size.max()) if size.any() else np.ones(N)
        level = max(float(damping[0]) - _LEAST_DAMPING, 0.0)  # none at all once every step is a good one
        Q, R = np.linalg.qr(Z.T / size)
        try:
            left, singular, right = np.linalg.svd(R, full_matrices=False)
        except np.linalg.LinAlgError:  # entries so far apart that it does not converge
            return np.full((1, N), np.nan), np.zeros(1)
        turned = left.T @ (Q.T @ self.residual[0])
        # Scalings that change nothing have singular values of rounding.
        kept = singular > _SINGULAR_VALUE_OF_ROUNDING * singular[0]
        share = np.where(kept, singular, 0.0) / np.where(kept, singular**2 + level, 1.0)
        promised = np.sum(turned**2 * share * singular) + level * np.sum((share * turned) ** 2)
        return ((right.T @ (share * turned)) / size)[None], np.array([promised])

    def replace_where(self, better: ndarray, other: AbstractLinearisation) -> AbstractLinearisation:
        return other if better[0] else self

    def take(self, keep: ndarray) -> AbstractLinearisation:  # noqa: ARG002 (one start is never dropped)
        return self


@dataclass(frozen=True)
class MatrixFree(AbstractLinearisation):
    """Z and its transpose as functions, for one start with many unknowns; steps by conjugate gradients."""

    forward: Callable[[ndarray], ndarray]
    backward: Callable[[ndarray], ndarray]
    g: Float[ndarray, "1 N"]
    ridge: float
    free: ndarray | None
    rough: Preconditioner

    def step(self, damping: Float[ndarray, " B"]) -> tuple[Float[ndarray, "B N"], Float[ndarray, " B"]]:
        assert self.g.shape[0] == 1, "many unknowns are solved for one start at a time"
        g = self.g if self.free is None else self.g * self.free
        level = float(damping[0])
        inverse = self.rough.inverse(level, self.ridge)
        shift = level * self.rough.scale

        def product(v: ndarray) -> ndarray:
            out = self.backward(self.forward(v)) + (shift + self.ridge) * v
            return out if self.free is None else out * self.free

        def precondition(r: ndarray) -> ndarray:
            return inverse(r) if self.free is None else inverse(r) * self.free

        x, r = np.zeros_like(g), g.copy()
        p = precondition(r)
        size = float(np.sum(r * p))
        target = 1e-4 * size  # a relative residual of 1e-2
        for _ in range(_MAX_PRODUCTS):
            if size <= target or size == 0.0:
                break
            q = product(p)
            alpha = size / float(np.sum(p * q))
            x += alpha * p
            r -= alpha * q
            z = precondition(r)
            new = float(np.sum(r * z))
            p = z + (new / size) * p
            size = new
        # The cost falls by 2 x.g - x.M x, and M x + shift x = g - r.
        promised = float(np.sum(x * (g + r))) + float(np.sum(shift * x * x))
        return x, np.array([promised])

    def replace_where(self, better: ndarray, other: AbstractLinearisation) -> AbstractLinearisation:
        return other if better[0] else self

    def take(self, keep: ndarray) -> AbstractLinearisation:  # noqa: ARG002 (one start is never dropped)
        return self


@dataclass(frozen=True)
class Preconditioner:
    """K of W_0, which comes first in a row of all unknowns, and the diagonal of what follows."""

    K: Float[ndarray, "r r"]
    n_inputs: int
    diagonal: Float[ndarray, " rest"]

    @classmethod
    def of(
        cls,
        rows: Rows,
        chain: Chain,
        before: Parameters,
        D: Float[ndarray, "1 S n r"],
        n_unknowns: int,
        last: Float[ndarray, " known"] | None = None,
    ) -> Preconditioner:
        """For one start with slopes `D` of the last layer; `last` is the diagonal of the last unknowns."""
        for l in range(len(chain.a) - 1, -1, -1):
            D = (D @ before.W[l + 1][:, None]) * chain.a[l][:, :, None]
        of_F, of_J = square_weights(rows)
        weight = of_J + of_F * np.mean(rows.X**2)
        flat = (D[0] * np.sqrt(weight)[:, None, None]).reshape(-1, D.shape[-1])
        K, m = flat.T @ flat, rows.X.shape[1]
        mean = float(np.trace(K)) / len(K)
        diagonal = np.full(n_unknowns - len(K) * m, mean)
        if last is not None:
            diagonal[len(diagonal) - len(last) :] = last
        floor = _DIAGONAL_FLOOR * max(float(diagonal.max(initial=0.0)), mean) or 1.0
        return cls(K + floor * np.eye(len(K)), m, np.maximum(diagonal, floor))

    @property
    def scale(self) -> Float[ndarray, "1 N"]:
        """The diagonal of the whole, by which damping is measured."""
        return np.concatenate([np.repeat(np.diagonal(self.K), self.n_inputs), self.diagonal])[None]

    def inverse(self, damping: float, ridge: float) -> Callable[[ndarray], ndarray]:
        """What applies the inverse, damped and with a ridge, to one row of all unknowns."""
        r, m = len(self.K), self.n_inputs
        of_W0 = np.linalg.inv(self.K + np.diag(damping * np.diagonal(self.K) + ridge))
        of_rest = 1.0 / ((1.0 + damping) * self.diagonal + ridge)

        def apply(v: Float[ndarray, "1 N"]) -> Float[ndarray, "1 N"]:
            first = of_W0 @ v[0, : r * m].reshape(r, m)
            return np.concatenate([first.ravel(), of_rest * v[0, r * m :]])[None]

        return apply


def square_weights(rows: Rows) -> tuple[Float[ndarray, " S"], Float[ndarray, " S"]]:
    """Squared weights of the values and, on average, of the Jacobian entries of every sample; 0 if not known."""
    squares, o, none = rows.weights**2, int(rows.values), np.zeros(len(rows.weights))
    return (squares[:, 0] if rows.values else none), (squares[:, o:].mean(axis=1) if rows.jacobians else none)


@dataclass
class Descent(Generic[Batch]):
    """What became of a batch: parameters and cost of every start that was not dropped, and its index in the batch."""

    theta: Batch
    cost: Float[ndarray, " B"]
    index: ndarray
    steps: int
    settled: Bool[ndarray, " B"]
    out_of_time: bool = False
    interrupted: bool = False
    record: list[float] = field(default_factory=list)
    damping: float = _FIRST_DAMPING  # of the best start, at the end


@dataclass(frozen=True)
class DescentOptions:
    """How far a descent goes, and how.

    A start has settled when it lost less than the share `settles_at` of its cost in `settles_after` steps. With
    `to_rounding` a start whose cost is `exact` goes on as long as it improves. `first_growth` is what the damping is
    multiplied with when a step is rejected; the factor doubles with every further one. `halve_at` names steps after
    which the worse half of the starts is dropped.
    """

    max_steps: int
    exact: float
    first_damping: float = _FIRST_DAMPING
    first_growth: float = _DAMPING_GROWTH
    settles_at: float = 1e-3
    settles_after: int = SETTLING_STEPS
    to_rounding: bool = False
    halve_at: tuple[int, ...] = ()


def descend(
    linearise: Callable[[Batch], tuple[ndarray, AbstractLinearisation]],
    after_step: Callable[[Batch, ndarray], Batch],
    theta: Batch,
    options: DescentOptions,
    *,
    deadline: float,
    observe: Callable[[Batch, ndarray], bool] | None = None,
    progress: Callable[[float], None],
) -> Descent[Batch]:
    """Minimise the cost of every start until one is exact, all have settled, or steps or time are used up.

    `theta` holds the parameters of all starts: by name, or as the rows of one array.
    `deadline` is a time of `now`. `observe` is shown the parameters and costs of all starts after every step, and ends
    the descent by returning False.
    """
    with np.errstate(all="ignore"):  # a trial that overflows has a cost of infinity or NaN and is rejected
        cost, linear = linearise(theta)
        cost = np.where(np.isfinite(cost), cost, np.inf)
        index = np.arange(len(cost))
        damping, growth = np.full(len(cost), options.first_damping), np.full(len(cost), options.first_growth)
        past = [cost]
        record = [float(cost.min())]
        steps, out_of_time, interrupted = 0, False, False
        settled = np.zeros(len(cost), dtype=bool)
        for steps in range(1, options.max_steps + 1 if cost.min() > _SHARE_OF_EXACT_AT_REST * options.exact else 0):
            move, promised = linear.step(damping)
            trial = after_step(theta, move)
            new_cost, new_linear = linearise(trial)
            better = new_cost < cost
            gain = np.clip((cost - new_cost) / np.where(promised > 0.0, promised, np.inf), 0.0, 1.0)
            shrunk = damping * np.maximum(1.0 / 3.0, 1.0 - (2.0 * gain - 1.0) ** 3)
            damping = np.clip(np.where(better, shrunk, damping * growth), _LEAST_DAMPING, _LARGEST_DAMPING)
            growth = np.where(better, options.first_growth, _DAMPING_GROWTH * growth)
            theta = _choose(better, trial, theta)
            cost = np.where(better, new_cost, cost)
            linear = linear.replace_where(better, new_linear)
            record.append(float(cost.min()))
            past.append(cost)
            wanted = observe is None or observe(theta, cost)
            try:
                progress(float(cost.min()))
            except KeyboardInterrupt:
                interrupted = True
                break
            if not wanted:
                break
            halved = len(record) <= 3 or record[-1] < 0.5 * record[-4]  # within three steps
            if cost.min() <= options.exact and not (options.to_rounding and halved):
                break
            out_of_time = now() > deadline
            if out_of_time:
                break
            keep = np.ones(len(cost), dtype=bool)
            if steps in options.halve_at and len(cost) > 1:
                keep[np.argsort(cost, kind="stable")[(len(cost) + 1) // 2 :]] = False
            settled = np.zeros(len(cost), dtype=bool)
            if len(past) > options.settles_after:
                settled = past[-1] > (1.0 - options.settles_at) * past[-1 - options.settles_after]
            if settled.all():
                break
            if not keep.all():
                theta, linear = theta[keep], linear.take(keep)
                cost, index, damping, growth = cost[keep], index[keep], damping[keep], growth[keep]
                past, settled = [c[keep] for c in past], settled[keep]
    last = float(damping[np.argmin(cost)])
    return Descent(theta, cost, index, steps, settled, out_of_time, interrupted, record, last)


def _choose(better: Bool[ndarray, " B"], new: Batch, old: Batch) -> Batch:
    """The new parameters if they are better, the old ones elsewhere."""

    def choose(n: ndarray, o: ndarray) -> ndarray:
        return np.where(better.reshape(-1, *[1] * (o.ndim - 1)), n, o)

    return new.combine(choose, old) if isinstance(new, Parameters) else choose(new, old)
