r"""Starts that need little luck or none: inner layers read from the data.

One layer is a canonical polyadic decomposition and two layers are a ParaTuck-2: both by eigenvalue problems. Deeper
models, and those known by values only, are peeled: the first layer is found with everything after it relaxed to one
polynomial (see `_relaxed`); that polynomial has slopes too, so what is left is a smaller problem of the same kind.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from math import prod

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..bases import Chebyshev, LayerBasis
from ._algebraic import cpd_directions
from ._chain import Parameters
from ._core import Core
from ._levenberg import descend
from ._parameters import exists
from ._paratuck2 import decompose, needed_samples
from ._placed import placed
from ._relaxed import Relaxed, n_products
from ._rows import Rows
from ._starts import Orthonormal
from ._window import visited_range

_BATCH = 16  # starts of a relaxed search that run side by side
_STEPS, _HALVINGS = 60, (10, 20, 40)
_NEAR, _MET = 1e-8, 1e-23  # relaxed costs: worth more steps, and below which a first layer is believed
_ELITE = 6  # minima of a relaxed search that children are drawn from
_LEAST_SIZE = 1e-6  # of the mean, for a sample that is nearly 0
_SAME = 1e-2  # costs within this relative distance are the same minimum
_AGREEING, _LEAST_ROUNDS, _MOST_ROUNDS = 3, 40, 400
_NOISY, _NOISY_ROUNDS = 1e-6, 15  # poor minima of exact data are rarely so high
_SHARE = 0.8  # of the numbers given: a relaxed model with more coefficients than this tells nothing
# Coefficients of a relaxed tail beyond which the search for the whole model is faster: of two layers, and of more.
_TAIL_OF_TWO, _TAIL_UP_TO = 20, 50
_DEEPER_ROUNDS = 24  # after a first layer
_STAND_IN = 16  # largest degree of polynomials that stand in for other functions


@dataclass(frozen=True)
class Sampled:
    """Points with values or Jacobians or both."""

    X: Float[ndarray, "S m"]
    F: Float[ndarray, "S n"] | None
    J: Float[ndarray, "S n m"] | None

    @classmethod
    def of(cls, rows: Rows) -> Sampled:
        """What the rows were before they were weighted."""
        o = int(rows.values)
        Y = rows.Y / np.where(rows.weights > 0.0, rows.weights, 1.0)[..., None]
        return cls(rows.X, Y[:, 0] if rows.values else None, Y[:, o:].mT if rows.jacobians else None)

    def rows(self) -> Rows:
        """Rows in which every sample counts: polynomials of high degree are large in few corners only."""
        parts = [] if self.F is None else [(self.F - self.F.mean(axis=0))[:, None]]
        parts += [] if self.J is None else [self.J.mT]
        powers = [np.sum(part**2, axis=(1, 2)) for part in parts]
        size = sum(power / (power.sum() or 1.0) for power in powers)
        factor = (size / (np.mean(size) or 1.0) + _LEAST_SIZE) ** -0.25
        weights = [
            np.repeat(factor[:, None] / (np.sqrt(factor**2 @ power) or 1.0), part.shape[1], axis=1)
            for part, power in zip(parts, powers, strict=True)
        ]
        if self.F is not None:
            parts[0] = self.F[:, None]
        table = np.concatenate(weights, axis=1)
        Y = np.concatenate(parts, axis=1) * table[..., None]
        return Rows(self.X, Y, table, self.F is not None, self.J is not None)


@dataclass(frozen=True)
class Budget:
    """When to give up, and whom to tell."""

    deadline: float
    progress: Callable[[float], None]

    def over(self) -> bool:
        return time.perf_counter() > self.deadline


def way(data: Sampled, layers: tuple[LayerBasis, ...]) -> str | None:
    """The name of the way to the inner layers of these data, None where there is none."""
    L, ranks = len(layers), [len(layer.bases) for layer in layers]
    (S, m), J = data.X.shape, data.J
    if L == 1:
        return "CPD" if J is not None and ranks[0] <= min(J.shape[1:]) else None
    if L == 2 and J is not None and tuple(ranks) == J.shape[:0:-1] and min(ranks) >= 2 and needed_samples(*ranks) <= S:
        return "algebraic ParaTuck-2"
    degrees = [basis.polynomial_degree for layer in layers[1:] for basis in layer.bases]
    if None in degrees or (L == 2 and J is not None) or layers[0].free_domain.any():
        return None
    count = n_products(ranks[0], _tail_degree(layers))
    known = S * ((data.F is not None) + (0 if J is None else m))
    largest = min(_TAIL_OF_TWO if L == 2 else _TAIL_UP_TO, _SHARE * known)
    return "peeling" if ranks[0] <= m and count <= largest else None


def _tail_degree(layers: tuple[LayerBasis, ...]) -> int:
    return prod(layer.size for layer in layers[1:])


def inner_layers(
    data: Sampled, layers: tuple[LayerBasis, ...], rng: np.random.Generator, budget: Budget, rounds: int = _MOST_ROUNDS
) -> Parameters | None:
    """[W_0, c_1, W_1, ..., W_(L-1)], matrices with b as their last column; None where the way leads nowhere."""
    name = way(data, layers)
    if name == "CPD":
        assert data.J is not None
        W = cpd_directions(data.J, len(layers[0].bases), rng)
        return None if W is None else [_with_offset(W)]
    if name == "algebraic ParaTuck-2":
        return _two_layers(data, layers, rng)
    return _peeled(data, layers, rng, budget, rounds) if name == "peeling" else None


def _two_layers(data: Sampled, layers: tuple[LayerBasis, ...], rng: np.random.Generator) -> Parameters | None:
    """W_0 and W_1 by algebra; then c_1 from diagonals that are known up to one factor per sample: one null vector.

    That needs domains. Functions of the first layer that have none yet are polynomials at first, whose slopes tell
    where the domains are; with the first layer known, the slopes of the second tell the same of its own.
    """
    assert data.J is not None
    factors = decompose(data.J, rng)
    if factors is None:
        return None
    layer = layers[0]
    unplaced = layer.free_domain.any()
    fitted = LayerBasis.of(Chebyshev(_stand_in(len(data.X), len(layer.bases))), len(layer.bases)) if unplaced else layer
    u = data.X @ factors.C.T
    middle, half = (a[0] for a in visited_range(u[None], fitted, exactly=True))
    W = _on(_with_offset(factors.C), middle, half)
    t = (u - middle) / half
    c = _coefficients(fitted.derivative(t), factors.h, exists(fitted, fitted.size)) * half[:, None]  # slopes by t
    if unplaced:
        W, c = _placed_layer(layer, W, t, np.einsum("srd,rd->sr", fitted.derivative(t), c))
    V = _with_offset(factors.B)
    if layers[1].free_domain.any():
        t = data.X @ W[:, :-1].T + W[:, -1]
        h = np.einsum("srd,rd->sr", layer.derivative(t), c) * _scales(W, factors.C)
        factor = np.einsum("sr,sr->s", h, factors.h)[:, None]
        g = factors.g / np.where(factor != 0.0, factor, 1.0)
        z = np.einsum("srd,rd->sr", layer.evaluate(t), c)
        V, _ = _placed_layer(layers[1], V, z @ factors.B.T, g)
    inner = [W, c, V]
    return inner if all(np.all(np.isfinite(p)) for p in inner) else None


def _stand_in(S: int, r: int) -> int:
    """The degree of polynomials in place of functions whose domains are not known."""
    return int(np.clip(S // (2 * r), 3, _STAND_IN))


def _coefficients(slopes: Float[ndarray, "S r d"], h: Float[ndarray, "S r"], there: ndarray) -> Float[ndarray, "r d"]:
    """(I - h h^T) g' = 0 at every sample, and g'_j = sum_k c_jk phi'_k; the rows h have unit length."""
    S, r, d = slopes.shape
    table = -h[:, :, None, None] * (h[:, None, :, None] * slopes[:, None])
    table[:, np.arange(r), np.arange(r)] += slopes
    triangle = np.linalg.qr(table.reshape(S * r, r * d)[:, there.ravel()], mode="r")
    c = np.zeros((r, d))
    c[there] = np.linalg.svd(triangle)[2][-1]
    return c


def _placed_layer(
    layer: LayerBasis, W: Float[ndarray, "r k1"], t: Float[ndarray, "S r"], slopes: Float[ndarray, "S r"]
) -> tuple[Float[ndarray, "r k1"], Float[ndarray, "r d"]]:
    """W with domains that meet the slopes g'(t), for functions that have to find theirs, and all coefficients."""
    middle, half = np.zeros(len(W)), np.ones(len(W))
    c = np.zeros((len(W), layer.size))
    for j, basis in enumerate(layer.bases):
        found = placed(basis, t[:, j], slopes[:, j]) if basis.free_domain else None
        if found is None:
            c[j, : basis.size] = np.linalg.lstsq(basis.derivative(t[:, j]), slopes[:, j], rcond=None)[0]
        else:
            middle[j], half[j], c[j, : basis.size] = found
    return _on(W, middle, half), c


def _on(W: Float[ndarray, "r k1"], middle: Float[ndarray, " r"], half: Float[ndarray, " r"]) -> ndarray:
    """W with b as its last column, for arguments (t - middle) / half."""
    return np.concatenate([W[:, :-1], W[:, -1:] - middle[:, None]], axis=1) / half[:, None]


def _scales(W: Float[ndarray, "r k1"], C: Float[ndarray, "r k"]) -> Float[ndarray, " r"]:
    """By how much the rows of W are longer than those of C, whose directions they have."""
    return np.einsum("rk,rk->r", W[:, :-1], C) / np.einsum("rk,rk->r", C, C)


def _with_offset(W: Float[ndarray, "r k"]) -> Float[ndarray, "r k1"]:
    return np.concatenate([W, np.zeros((len(W), 1))], axis=1)


# Peeling


def _peeled(
    data: Sampled, layers: tuple[LayerBasis, ...], rng: np.random.Generator, budget: Budget, rounds: int
) -> Parameters | None:
    """Rounds of relaxed searches: new starts and children of good minima, until a first layer leads on.

    Where the best minimum is found again and again but does not meet the data, these are noisy, and it is taken.
    """
    relaxed = Relaxed(data.rows(), layers[0], _tail_degree(layers))
    elite: list[_Minimum] = []
    for count in range(1, rounds + 1):
        if budget.over():
            return None
        end = descend(
            relaxed.linearise,
            relaxed.moved,
            _drawn(relaxed, elite, rng),
            max_steps=_STEPS,
            exact=_MET,
            deadline=budget.deadline,
            halve_at=_HALVINGS,
            progress=budget.progress,
        )
        if end.interrupted:
            return None
        for i in np.argsort(end.cost, kind="stable")[:4]:
            _enter(elite, float(end.cost[i]), [p[i : i + 1] for p in end.theta])
        elite.sort(key=lambda minimum: minimum.cost)
        del elite[_ELITE:]
        for minimum in [minimum for minimum in elite if minimum.cost <= _NEAR and not minimum.tried]:
            minimum.tried = True
            theta, cost = _sharpened(relaxed, minimum.theta, budget)
            minimum.theta, minimum.cost = theta, cost
            rest = _after(relaxed, theta, layers[1:], rng, budget) if cost <= _MET else None
            if rest is not None:
                return [p[0] for p in theta] + rest
        enough = _NOISY_ROUNDS if elite and elite[0].cost > _NOISY else _LEAST_ROUNDS
        if count >= enough and elite and elite[0].found >= _AGREEING:
            best = elite[0].theta
            rest = _after(relaxed, best, layers[1:], rng, budget)
            return None if rest is None else [p[0] for p in best] + rest
    return None


@dataclass
class _Minimum:
    """Where relaxed starts have ended, how often, and whether it was followed."""

    cost: float
    theta: Parameters
    found: int = 1
    tried: bool = False


def _sharpened(relaxed: Relaxed, theta: Parameters, budget: Budget) -> tuple[Parameters, float]:
    end = descend(
        relaxed.precisely,
        relaxed.moved,
        theta,
        max_steps=_STEPS,
        exact=_MET,
        to_rounding=True,
        deadline=budget.deadline,
        progress=budget.progress,
    )
    return end.theta, float(end.cost[0])


def _drawn(relaxed: Relaxed, elite: list[_Minimum], rng: np.random.Generator) -> Parameters:
    """A batch of starts; once minima are known, three quarters are their children."""
    r, m, d = len(relaxed.layer.bases), relaxed.rows.X.shape[1], relaxed.layer.size
    W = np.stack([_with_offset(Orthonormal().draw(rng, (r, m))) for _ in range(_BATCH)])
    C = rng.normal(size=(_BATCH, r, d)) * exists(relaxed.layer, d)
    for b in range(_BATCH * 3 // 4 if elite else 0):
        parent_W, parent_C = elite[min(int(rng.exponential(1.5)), len(elite) - 1)].theta
        W[b], C[b] = _child(parent_W[0], parent_C[0], W[b], C[b], rng)
    return relaxed.on_window([W, C], exactly=True)


def _child(W: ndarray, C: ndarray, new_W: ndarray, new_C: ndarray, rng: np.random.Generator) -> tuple[ndarray, ndarray]:
    """Directions are often right where functions are not: take new coefficients for all functions, or for one; reflect
    one function; or take one function with a new direction."""
    W, C = W.copy(), C.copy()
    move, j = rng.integers(4), rng.integers(len(C))
    if move == 0:
        C = new_C
    elif move == 1:
        C[j] = new_C[j]
    elif move == 2:
        C[j, ::2] *= -1.0
    else:
        W[j], C[j] = new_W[j], new_C[j]
    return W, C


def _enter(elite: list[_Minimum], cost: float, theta: Parameters) -> None:
    """Note a minimum, or that it was found again."""
    if not np.isfinite(cost):
        return
    for known in elite:
        if abs(np.log(max(cost, 1e-300) / max(known.cost, 1e-300))) <= _SAME:
            known.found += 1
            return
    elite.append(_Minimum(cost, theta))


def _after(
    relaxed: Relaxed, theta: Parameters, layers: tuple[LayerBasis, ...], rng: np.random.Generator, budget: Budget
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
    inner = inner_layers(Sampled.of(core.rows(rows)), layers, rng, budget, _DEEPER_ROUNDS)
    return None if inner is None else core.leave(inner)
