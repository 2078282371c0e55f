"""The start of the search for a decoupled state-space model: a linear model, and functions that have no weight yet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ...bases import LayerBasis
from ...model._functions import Functions
from ..free_run._fit import FitResult, FreeRunObjective, fit_free_run
from ..free_run._linear import stabilised
from ..free_run._simulation import simulate
from ..free_run._step import FreeParameters, StepArrays
from ..signals._records import RecordBatch
from ._structure import StateSpaceStructure, free_coefficients

_MARGIN = 1.1  # of the range that a linear model visits: functions get room to move
_INPUT_WEIGHT = 0.3  # standard deviation of random weights of inputs; those of states have 1
_COEFFICIENT_NOISE = 0.1  # of the largest coefficient: equal functions would stay equal
_DEPENDENT = 1e-6  # of its length: a row that is no farther from the span of others depends on them
_NODES_PER_COEFFICIENT = 20  # at which functions are written in another basis
_NEARLY_REAL = 0.15  # radians per sample: such pairs of poles become two real ones
_POLE_DISTANCE = 0.05  # how far apart these are moved, relative to their size
_SLOWEST_POLE = 0.99
_LAG = 0.5  # pole of an input through a lag, the middle of 0 and 1
_REFIT_STEPS = 30
_LEAST_TURNS, _FASTEST_TURN = 1.2, 2.0  # revolutions of an angle in the record, and radians per sample on average
_N_RATES, _TURNING_LAGS = 200, 3
_TURNING_SHARE = 0.05  # of what a linear model leaves, below which an output is not taken for an angle


@dataclass(frozen=True, eq=False)
class Candidate:
    """A start: one step, which of its entries may move, and how many states are in front of the functions."""

    name: str
    step: StepArrays
    free: dict[str, ndarray]
    n_front: int | None = None

    def parameters(self, step: StepArrays) -> FreeParameters:
        """What may move in a model that this start has led to, whatever the bases of its functions."""
        same = step.layers == self.step.layers
        return FreeParameters(step, self.free if same else self.free | free_coefficients(step))


def candidates(
    structure: StateSpaceStructure,
    linear: StepArrays,
    points: Float[ndarray, "T m"],
    n_starts: int,
    rng: np.random.Generator,
) -> Iterator[Candidate]:
    """Starts around a linear model, whose run visits the `points`.

    With feedback the first one is deterministic. Without it, each way to share out the poles between the two linear
    blocks has a third as many starts.
    """
    n = structure.n_states
    if structure.feedback:
        for k in range(n_starts):
            physical = k == 0 and not structure.fixed_functions
            name = "physical" if physical else f"random {k}"
            yield _candidate(structure, linear, points, rng, name, deterministic=physical)
        return
    step, blocks = block_diagonal_form(linear, n, points)
    step, points = _with_refitted_outputs(step, n, points, linear)
    for size in range(1, len(blocks)):
        for chosen in combinations(range(len(blocks)), size):
            front = np.zeros(n, dtype=bool)
            for i in chosen:
                front[blocks[i]] = True
            if abs(2 * int(front.sum()) - n) > n // 3:  # filters of about the same order
                continue
            poles = np.linalg.eigvals(step.linear[:n, :n][np.ix_(front, front)]).astype(complex)
            shown = [f"{p.real:.2f}" + (f"±{p.imag:.2f}i" if p.imag else "") for p in poles if p.imag >= 0.0]
            for k in range(max(1, n_starts // 3)):
                name = f"poles {', '.join(shown)} in front, {k + 1}"
                yield _candidate(structure, step, points, rng, name, front=front)


def _candidate(
    structure: StateSpaceStructure,
    linear: StepArrays,
    points: Float[ndarray, "T m"],
    rng: np.random.Generator,
    name: str,
    *,
    deterministic: bool = False,
    front: Bool[ndarray, " n"] | None = None,
) -> Candidate:
    n, state_only = structure.n_states, np.array(structure.state_only)
    arguments = np.ones(points.shape[1], dtype=bool)
    if front is not None:
        arguments[:n] = front
    if structure.stable:
        F = linear.linear.copy()
        F[:n, :n] = stabilised(F[:n, :n])
        linear = replace(linear, linear=F)
    step = initial_model(linear, n, structure.layers, points, rng, deterministic=deterministic, arguments=arguments)
    free = structure.free_entries(step, front)
    if state_only.any():  # without inputs, and centred
        W0, g = step.W[0].copy(), step.g[0]
        W0[state_only, n:] = 0.0
        domain = np.where(state_only[:, None], g.domain - g.middle[:, None], g.domain)
        g = Functions.unchecked(g.layer, g.C, domain, "extend")
        step = replace(step, W=(W0, *step.W[1:]), g=(g, *step.g[1:]))
    if front is not None:
        step = replace(step, linear=np.where(free["linear"], step.linear, 0.0))
    return Candidate(name, step, free, None if front is None else int(front.sum()))


def initial_model(
    linear: StepArrays,
    n: int,
    layers: tuple[LayerBasis, ...],
    points: Float[ndarray, "T m"],
    rng: np.random.Generator,
    *,
    deterministic: bool,
    arguments: Bool[ndarray, " m"],
) -> StepArrays:
    """The linear model with functions whose weights W_L are 0, of directions by physics or at random.

    `points` are (x, u) along a run of the linear model, and `arguments` says which of them functions may depend on.
    """
    rank = len(layers[0].bases)
    V = rng.standard_normal((rank, points.shape[1]))
    V[:, n:] *= _INPUT_WEIGHT
    if deterministic:
        directions = physical_directions(linear.linear, n, rank)
        V[: len(directions)] = directions
    V[:, ~arguments] = 0.0
    W, g, z = [V], [], points
    for l, layer in enumerate(layers):
        spread = (z @ W[l].T).std(axis=0)
        W[l] = W[l] / np.where(spread > 0.0, spread, 1.0)[:, None]
        u = z @ W[l].T
        g.append(_cubic_functions(layer, u, rng))
        z = g[-1].values(u)
        if l + 1 < len(layers):
            W.append(rng.standard_normal((len(layers[l + 1].bases), len(layer.bases))))
    W.append(np.zeros((linear.n_outputs, len(layers[-1].bases))))
    return replace(linear, W=tuple(W), g=tuple(g))


def with_lagged_input(fit: FitResult) -> FitResult:
    """The same linear model with one more state: the inputs through a lag, which reach nothing else yet."""
    step, n, p = fit.step, fit.x0.shape[1], fit.step.n_outputs - fit.x0.shape[1]
    linear = np.insert(np.insert(step.linear, n, 0.0, axis=0), n, 0.0, axis=1)
    linear[n, n] = _LAG
    linear[n, n + 1 :] = 1.0 - _LAG
    larger = StepArrays.of_linear(
        linear[: n + 1, : n + 1], linear[: n + 1, n + 1 :], linear[-p:, : n + 1], linear[-p:, n + 1 :]
    )
    larger = replace(larger, offset=np.insert(step.offset, n, 0.0))
    return replace(fit, step=larger, x0=np.pad(fit.x0, ((0, 0), (0, 1))))


def turning_rate(batch: RecordBatch) -> float | None:
    """The a for which sin(a y) and cos(a y) explain most of what a linear model leaves of y(t+1), if y turns so.

    An angle that counts revolutions gives itself away: forces repeat with it. None if that explains little, or if the
    output does not get around once. A descent would not find the rate: the error has a minimum for every wave.
    """
    y = batch.all_y[:, 0]
    rates = np.geomspace(_LEAST_TURNS * 2.0 * np.pi / np.ptp(y), _FASTEST_TURN / np.abs(np.diff(y)).mean(), _N_RATES)
    explained, total = np.zeros(len(rates)), 0.0
    for u, z in zip(batch.u, batch.y, strict=True):
        n, T = _TURNING_LAGS, len(z)
        if 4 * n * (u.shape[1] + 1) >= T:
            continue
        lags = [s[n - i : T - i] for s in (z[:, :1], u) for i in range(n + 1)][1:]
        Q = np.linalg.qr(np.concatenate([np.ones((T - n, 1)), *lags], axis=1))[0]
        left = z[n:, 0] - Q @ (Q.T @ z[n:, 0])
        total += left @ left
        for i, rate in enumerate(rates):
            waves = np.stack([np.cos(rate * z[n - 1 : -1, 0]), np.sin(rate * z[n - 1 : -1, 0])], axis=1)
            q = np.linalg.qr(waves - Q @ (Q.T @ waves))[0]
            explained[i] += np.sum((q.T @ left) ** 2)
    best = int(np.argmax(explained))
    return float(rates[best]) if explained[best] > _TURNING_SHARE * total > 0.0 else None


def with_rate(step: StepArrays, n: int, rate: float) -> StepArrays:
    """The same start with its first function a wave of the first output, `rate` radians per unit."""
    W0, g = step.W[0].copy(), step.g[0]
    W0[0] = 0.0
    W0[0, :n] = step.linear[n, :n]
    domain = g.domain.copy()
    domain[0] = -1.0 / rate, 1.0 / rate
    return replace(
        step, W=(W0, *step.W[1:]), g=(Functions.unchecked(g.layer, g.C, domain, g.outside), *step.g[1:])
    )  # fmt: skip


def physical_directions(linear: Float[ndarray, "outputs m"], n: int, rank: int) -> Float[ndarray, "k m"]:
    """What functions may be of, by physics: the outputs of the linear model and their changes. At most `rank` rows.

    With x the state, the output is C x and its change C (A - I) x: position and velocity of an oscillator. If the
    first states integrate, changes come first: friction is of a velocity.
    """
    A, C = linear[:n, :n], linear[n:, :n]
    rows: list[ndarray] = []
    changes = C @ (A - np.eye(n))
    for row in [*changes, *C] if np.array_equal(A[:, : len(C)], np.eye(n, len(C))) else [*C, *changes]:
        basis = np.linalg.qr(np.array([*rows, row]).T)[1] if rows else np.array([[np.linalg.norm(row)]])
        if len(rows) < min(rank, n) and abs(basis[-1, -1]) > _DEPENDENT * np.linalg.norm(row):
            rows.append(row)
    out = np.zeros((len(rows), linear.shape[1]))
    out[:, :n] = rows
    return out


def _cubic_functions(layer: LayerBasis, u: Float[ndarray, "T r"], rng: np.random.Generator) -> Functions:
    """Cubic curves, as far as their bases allow: around what is visited, or of unit width if domains move."""
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
        c[1:] += _COEFFICIENT_NOISE * np.abs(c[1:]).max() * rng.standard_normal(basis.size)
        if line is not None:
            c -= line * (c @ line) / (line @ line)
        c[0] = 0.0
        C[j, : 1 + basis.size] = c
    return Functions.unchecked(layer, C, np.stack([middle - half, middle + half], axis=1), "extend")


def in_other_bases(step: StepArrays, layers: tuple[LayerBasis, ...], points: Float[ndarray, "T m"]) -> StepArrays:
    """The same step with functions in other bases: least squares over the ranges that these points visit."""
    g = []
    for layer, old, u in zip(layers, step.g, step.arguments(points), strict=True):
        C, domain = np.zeros((old.rank, 1 + layer.size)), old.domain.copy()
        for j, (basis, before) in enumerate(zip(layer.bases, old.layer.bases, strict=True)):
            if basis == before:
                C[j, : 1 + basis.size] = old.C[j, : 1 + basis.size]
                continue
            domain[j] = u[:, j].min(), u[:, j].max()
            t = np.linspace(-1.0, 1.0, _NODES_PER_COEFFICIENT * basis.size)
            at = np.zeros((len(t), old.rank))
            at[:, j] = domain[j].mean() + t * (domain[j, 1] - domain[j, 0]) / 2.0
            design = np.concatenate([np.ones((len(t), 1)), basis.evaluate(t)], axis=1)
            C[j, : 1 + basis.size] = np.linalg.lstsq(design, old.values(at)[:, j], rcond=None)[0]
        g.append(Functions.unchecked(layer, C, domain, old.outside))
    return replace(step, g=tuple(g))


def block_diagonal_form(
    linear: StepArrays, n: int, points: Float[ndarray, "T m"]
) -> tuple[StepArrays, list[list[int]]]:
    """The linear model with a block of states for each real pole and each pair of complex ones, and these blocks.

    Pairs that are nearly real become two real poles, so that they can be shared out one by one.
    """
    values, vectors = np.linalg.eig(linear.linear[:n, :n])
    columns: list[ndarray] = []
    blocks: list[list[int]] = []
    real_poles: dict[int, float] = {}
    for i in np.argsort(np.abs(np.angle(values)), kind="stable"):
        at, pole = len(columns), values[i]
        if pole.imag < 0.0:
            continue
        columns += [vectors[:, i].real] if pole.imag == 0.0 else [vectors[:, i].real, vectors[:, i].imag]
        if pole.imag and abs(np.angle(pole)) < _NEARLY_REAL:
            real_poles[at] = abs(pole) * (1.0 - _POLE_DISTANCE)
            real_poles[at + 1] = min(abs(pole) * (1.0 + _POLE_DISTANCE), _SLOWEST_POLE)
            blocks += [[at], [at + 1]]
        else:
            blocks.append(list(range(at, len(columns))))
    T = np.stack(columns, axis=1)
    step = linear.in_states(T * np.linalg.solve(T, points[:, :n].T).std(axis=1))
    F = step.linear.copy()
    within = np.zeros((n, n), dtype=bool)
    for block in blocks:
        within[np.ix_(block, block)] = True
    F[:n, :n] = np.where(within, F[:n, :n], 0.0)
    for i, pole in real_poles.items():
        F[i, i] = pole
    return replace(step, linear=F), blocks


def _with_refitted_outputs(
    step: StepArrays, n: int, points: Float[ndarray, "T m"], linear: StepArrays
) -> tuple[StepArrays, Float[ndarray, "T m"]]:
    """B, C and D for poles that have moved, from the outputs of the linear model that they have moved in."""
    record = RecordBatch((points[:, n:],), (linear.values(points)[:, n:],))
    free = np.ones(step.linear.shape, dtype=bool)
    free[:n, :n] = False
    objective = FreeRunObjective(FreeParameters(step, {"linear": free}), record, np.zeros((1, n)))
    result = fit_free_run(objective, max_steps=_REFIT_STEPS)
    run = simulate(result.step, record, result.x0)
    assert run is not None
    return result.step, run.points
