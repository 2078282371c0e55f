"""Where the search for a decoupled state-space model begins: a linear model, and functions that have no weight yet."""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...bases import LayerBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions

Layers = tuple[LayerBasis, ...]
_MARGIN = 1.1  # of the range that a linear model visits: functions get room to move
_OF_INPUT = 0.3  # size of random weights of inputs beside those of states
_INTEGRATES = 1e-2  # distance of a pole from 1
_NOISE = 0.1  # of the first coefficients
_PARALLEL = 1e-6  # of its length: a row that is no farther from those before depends on them
_POINTS = 20  # per coefficient, at which functions are written in another basis


def deterministic_directions(linear: Float[ndarray, "outputs m"], n: int, rank: int) -> Float[ndarray, "k m"]:
    """What functions may be of, by physics: the outputs of the linear model and their changes; at most `rank` rows.

    With x the state, the output is C x and its change C (A - I) x: position and velocity of an oscillator. Where the
    first states integrate, changes come first: friction is of a velocity.
    """
    A, C = linear[:n, :n], linear[n:, :n]
    rows: list[ndarray] = []
    changes = C @ (A - np.eye(n))
    for row in [*changes, *C] if np.array_equal(A[:, : len(C)], np.eye(n, len(C))) else [*C, *changes]:
        basis = np.linalg.qr(np.array([*rows, row]).T)[1] if rows else np.array([[np.linalg.norm(row)]])
        if len(rows) < min(rank, n) and abs(basis[-1, -1]) > _PARALLEL * np.linalg.norm(row):
            rows.append(row)
    out = np.zeros((len(rows), linear.shape[1]))
    out[:, :n] = rows
    return out


def begin(
    linear: Decoupling,
    n: int,
    layers: Layers,
    points: Float[ndarray, "T m"],
    rng: np.random.Generator,
    *,
    deterministic: bool,
    seen: Bool[ndarray, " m"],
) -> Decoupling:
    """The linear model with functions whose weights W_L are 0, of directions by physics or at random.

    `points` are (x, u) along a run of the linear model, and `seen` says which of them functions may depend on.
    """
    assert linear.linear is not None
    rank = len(layers[0].bases)
    V = rng.standard_normal((rank, points.shape[1]))
    V[:, n:] *= _OF_INPUT
    if deterministic:
        known = deterministic_directions(linear.linear, n, rank)
        V[: len(known)] = known
    V[:, ~seen] = 0.0
    W, g, z = [V], [], points
    for l, layer in enumerate(layers):
        u = z @ W[l].T
        spread = u.std(axis=0)
        W[l] = W[l] / np.where(spread > 0.0, spread, 1.0)[:, None]
        u = z @ W[l].T
        g.append(_functions(layer, u, rng))
        z = g[-1].values(u)
        if l + 1 < len(layers):
            W.append(rng.standard_normal((len(layers[l + 1].bases), len(layer.bases))))
    W.append(np.zeros((linear.n_outputs, len(layers[-1].bases))))
    return linear.with_parts(W=W, g=g)


def _functions(layer: LayerBasis, u: Float[ndarray, "T r"], rng: np.random.Generator) -> Functions:
    """Cubic curves, as far as their bases allow: around what is visited, or of unit width where domains move."""
    low, high = u.min(axis=0), u.max(axis=0)
    middle, half = (low + high) / 2.0, (high - low) / 2.0
    # Powers around 0 stay powers when their argument is scaled.
    powers = np.array([basis.polynomial_degree is not None for basis in layer.bases])
    middle, half = np.where(powers, 0.0, middle), np.where(powers, np.maximum(-low, high), half)
    half = _MARGIN * np.maximum(half, 1e-9)
    middle, half = np.where(layer.free_domain, u.mean(axis=0), middle), np.where(layer.free_domain, 1.0, half)
    C = np.zeros((len(layer.bases), 1 + layer.size))
    t = np.cos(np.pi * (np.arange(8 * layer.size + 8) + 0.5) / (8 * layer.size + 8))
    for j, basis in enumerate(layer.bases):
        if basis.size == 1:
            C[j, 1] = 1.0
            continue
        design = np.concatenate([np.ones((len(t), 1)), basis.evaluate(t)], axis=1)
        line = basis.line()
        curve = t**3 if basis.polynomial_degree != 2 else t**2
        c = np.linalg.lstsq(design, curve, rcond=None)[0]
        c[1:] += _NOISE * np.abs(c[1:]).max() * rng.standard_normal(basis.size)
        if line is not None:
            c -= line * (c @ line) / (line @ line)
        c[0] = 0.0
        C[j, : 1 + basis.size] = c
    return Functions(layer.bases, C, np.stack([middle - half, middle + half], axis=1))


def finer(step: Decoupling, layers: Layers, points: Float[ndarray, "T m"]) -> Decoupling:
    """The same step with functions in other bases: least squares over the ranges that these points visit."""
    g = []
    for layer, old, u in zip(layers, step.g, step.arguments(points), strict=True):
        C, domain = np.zeros((old.rank, 1 + layer.size)), old.domain.copy()
        for j, (basis, before) in enumerate(zip(layer.bases, old.layer.bases, strict=True)):
            if basis == before:
                C[j, : 1 + basis.size] = old.C[j, : 1 + basis.size]
                continue
            domain[j] = u[:, j].min(), u[:, j].max()
            t = np.linspace(-1.0, 1.0, _POINTS * basis.size)
            at = np.zeros((len(t), old.rank))
            at[:, j] = domain[j].mean() + t * (domain[j, 1] - domain[j, 0]) / 2.0
            design = np.concatenate([np.ones((len(t), 1)), basis.evaluate(t)], axis=1)
            C[j, : 1 + basis.size] = np.linalg.lstsq(design, old.values(at)[:, j], rcond=None)[0]
        g.append(Functions(layer.bases, C, domain, old.outside))
    return step.with_parts(g=g)


def free_parts(
    step: Decoupling,
    n: int,
    *,
    feedthrough: bool,
    front: Bool[ndarray, " n"] | None,
    n_integrators: int = 0,
) -> dict[str, ndarray]:
    """Which numbers may move.

    Straight lines belong to A, ..., D: a coefficient of a single layer that is one stays 0. The one coefficient of a
    curve is in W_L. With `front`, functions depend on those states and act on the others alone, and the others do not
    act back: no feedback around the functions. States that integrate are the
    outputs: their columns of A stay, C too, and a constant is a force on what drives them.
    """
    assert step.linear is not None
    p, L = step.n_outputs - n, step.n_layers
    linear = np.ones(step.linear.shape, dtype=bool)
    W = [np.ones(w.shape, dtype=bool) for w in step.W]
    if not feedthrough:
        linear[n:, n:] = False
        W[-1][n:] = False
    if front is not None:
        linear[:n, :n] = ~(front[:, None] & ~front)
        W[0][:, :n] = front
        W[-1][:n] = ~front[:, None]
    # Another zero of the state takes up constants of it, unless the state integrates them.
    integrates = np.abs(np.linalg.eigvals(step.linear[:n, :n]) - 1.0).min() < _INTEGRATES
    offset = np.r_[np.full(n, integrates), np.ones(p, dtype=bool)]
    if n_integrators:
        linear[:, :n_integrators] = linear[n:] = W[-1][n:] = False
        offset[:] = False
        offset[n_integrators : 2 * n_integrators] = True
    free, masks = {"linear": linear, "offset": offset}, free_coefficients(step)
    for l, functions in enumerate(step.g, start=1):
        free |= {f"W{l - 1}": W[l - 1], f"g{l}": masks[f"g{l}"], f"middle{l}": functions.layer.free_domain.copy()}
    return free | {f"W{L}": W[L]}


def free_coefficients(step: Decoupling) -> dict[str, ndarray]:
    """The part of `free_parts` that depends on the bases of the functions."""
    free = {}
    for l, functions in enumerate(step.g, start=1):
        mask = np.zeros((functions.rank, functions.degree), dtype=bool)
        for j, basis in enumerate(functions.layer.bases):
            line = basis.line()
            mask[j, : basis.size] = basis.size > 1
            if step.n_layers == 1 and line is not None and np.count_nonzero(np.abs(line) > 1e-9) == 1:
                mask[j, : basis.size] &= np.abs(line[1:]) <= 1e-9
        free[f"g{l}"] = mask
    return free
