"""The search for a decoupled state-space model: a linear model first, then several starts, chosen by validation."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._errors import SolverError
from ...model._decoupling import Decoupling
from ..free_run._fit import Fitted, Usual, fit_free_run
from ..free_run._free_parameters import Movable
from ..free_run._linear import best_linear
from ..free_run._simulation import Pieces, run
from ..free_run._state_coordinates import in_smaller_steps, whitening, with_state
from ._initial_models import Layers, begin, finer, free_coefficients, free_parts

_FIRST = 8192  # outputs that a start is tried on
_THEN = 16_384  # and that the best goes on with, before all
_STEPS = (30, 60)  # at most, of a start and on all data
_MOST_STEPS = 100  # of a start on few data, which cost little
_WINDOW = 50  # outputs from which the initial state of a validation record is found
_GROWTH = 4  # of windows, from stage to stage
_NEARLY_REAL = 0.15  # radians per sample
_APART = 0.05  # how far nearly equal poles are moved apart
_SLOWEST = 0.99
_SETTLED = (1e-3, 1e-4)  # of a start and of the one that is chosen: descents cross plateaus of many steps


@dataclass(frozen=True)
class StateSpaceStart:
    """One start: free-run errors on what it was fitted to and on the validation record, as a share of the spread of y.

    Attributes
    ----------
    start
        "linear" for the linear model, "physical", "random 1", ...; of a Wiener-Hammerstein model with its poles.
    training, validation
        Root mean square errors; infinite where the model is unstable.
    steps
        Levenberg-Marquardt steps.
    chosen
        Whether this one was finished on all training data.
    """

    start: str
    training: float
    validation: float
    steps: int
    chosen: bool = False


@dataclass(frozen=True)
class Shape:
    """What kind of model is looked for."""

    n_states: int
    layers: Layers
    held: tuple[bool, ...]  # functions of the first layer that are of states alone, centred, and act on states alone
    feedthrough: bool
    feedback: bool
    n_integrators: int = 0  # the first states add up and are the outputs
    fixed_functions: bool = False  # only their weights on states and outputs move

    @property
    def coarse(self) -> Shape:
        """The same with functions of fewer coefficients, which are found faster."""
        return replace(self, layers=tuple(layer.coarser() for layer in self.layers))


@dataclass(frozen=True, eq=False)
class Found:
    """The model in standard units, the linear one beside it, and how they were found."""

    fitted: Fitted
    linear: Fitted
    rows: tuple[StateSpaceStart, ...]
    n_free: int
    n_front: int | None
    interrupted: bool


@dataclass(frozen=True, eq=False)
class _Candidate:
    name: str
    step: Decoupling
    free: dict[str, ndarray]
    n_front: int | None

    def movable(self, step: Decoupling) -> Movable:
        """What may move in a model that this start has led to, whatever the bases of its functions."""
        same = all(a.layer == b.layer for a, b in zip(step.g, self.step.g, strict=True))
        return Movable(step, self.free if same else self.free | free_coefficients(step))


def search(
    shape: Shape,
    training: Pieces,
    slow: Pieces,
    judged: Pieces,
    everything: Pieces,
    *,
    n_starts: int,
    max_steps: int,
    rng: np.random.Generator,
    window: int | None,
    given: Decoupling | None = None,
    report: Callable[..., None],
) -> Found:
    """Find a model of this shape; `judged` chooses among the starts, `everything` is what the chosen one ends on.

    A model that is `given` is one more start.
    """
    n = shape.n_states
    linear = best_linear(training, slow, n, feedthrough=shape.feedthrough, n_integrators=shape.n_integrators)
    rows = [StateSpaceStart("linear", linear.rmse, validation_error(linear, judged), linear.steps)]
    # Without feedback poles are shared out, which those of interpolated outputs cannot be: steps get smaller later.
    scanned, judging, base = training, judged, linear
    if not shape.feedback and training.oversample > 1:
        scanned, judging = training.at_samples(), judged.at_samples()
        base = best_linear(scanned, scanned, n, feedthrough=shape.feedthrough)
    beginning = scanned.first(_FIRST)
    along = run(base.step, beginning, base.x0[: len(beginning)])
    if along is None:
        raise SolverError(
            "The linear model that all starts begin with is unstable on the training record: give fewer states, or "
            "records in which the outputs stay within bounds."
        )
    part = _cut(beginning, window)
    integrating = shape.n_integrators > 0
    x0 = _known(base, part, n, integrating)
    steps = min(_MOST_STEPS, _STEPS[0] * _FIRST // len(part.all_y))
    candidates = list(_candidates(shape.coarse, base.step, along.points, n_starts, rng))
    if given is not None:
        step = given if integrating else _in_usual_states(given, n, part)
        candidates.insert(0, _Candidate("given", step, _free(shape, step, None), None))
    best: tuple[float, int, Fitted, _Candidate] | None = None
    interrupted = False
    for k, candidate in enumerate(candidates):
        so_far = "" if best is None else f" (best so far: {100.0 * best[0]:.3g} %)"
        told = _teller(report, f"start {k + 1} of {len(candidates)}{so_far}", k, len(candidates) + 1)
        movable = candidate.movable(candidate.step)
        begun = initial_state(candidate.step, n, part).x0 if given is not None and k == 0 else x0
        fitted = fit_free_run(
            movable, part, begun, max_steps=steps, settles_at=_SETTLED[0], known_x0=integrating, progress=told
        )
        judgement = validation_error(fitted, judging)
        rows.append(StateSpaceStart(candidate.name, fitted.rmse, judgement, fitted.steps))
        if best is None or judgement < best[0]:
            best = (judgement, len(rows) - 1, fitted, candidate)
        interrupted = fitted.interrupted
        if interrupted:
            break
    if best is None or not math.isfinite(best[0]):
        return Found(linear, linear, tuple(rows), 0, None, interrupted)
    _, row, fitted, candidate = best
    rows[row] = replace(rows[row], chosen=True)
    fitted_in = scanned.oversample
    for pieces, limit, final in _stages(scanned, training, everything, window, max_steps):
        if interrupted:
            break
        if pieces.oversample > fitted_in:
            fitted, fitted_in = _in_smaller_steps(fitted, n, pieces.oversample), pieces.oversample
        told = _teller(report, "finishing", len(candidates), len(candidates) + 1)
        begun, step = _known(fitted, pieces, n, integrating), fitted.step
        if final:
            step = _with_fine_functions(shape, step, pieces, begun)
        longer = fit_free_run(
            candidate.movable(step),
            pieces,
            begun,
            max_steps=limit,
            settles_at=_SETTLED[1],
            known_x0=integrating,
            progress=told,
        )
        if math.isfinite(longer.rmse):  # longer windows may be more than an unstable model can cross
            fitted = longer
        interrupted = longer.interrupted
    if training.oversample > fitted_in:  # ended before
        fitted = _in_smaller_steps(fitted, n, training.oversample)
    n_free = candidate.movable(fitted.step).count
    return Found(fitted, linear, tuple(rows), n_free, candidate.n_front, interrupted)


def _in_smaller_steps(fitted: Fitted, n: int, factor: int) -> Fitted:
    return replace(fitted, step=in_smaller_steps(fitted.step, n, factor))


def _stages(
    scanned: Pieces, training: Pieces, everything: Pieces, window: int | None, max_steps: int
) -> Iterator[tuple[Pieces, int, bool]]:
    """What the chosen start goes on with, how many steps, and whether with the functions that were asked for.

    First more data, then smaller steps per sample, then windows that grow to whole records.
    """
    if len(training.all_y) > _FIRST:
        yield _cut(scanned.first(_THEN), window), max_steps, False
    if training.oversample > scanned.oversample:
        yield _cut(training.first(_THEN), window), max_steps, True
    while window is not None and window < max(len(y) for y in everything.y):
        yield everything.windows(window), _STEPS[1], True
        window *= _GROWTH
    yield everything, _STEPS[1], True


def _with_fine_functions(shape: Shape, step: Decoupling, pieces: Pieces, x0: Float[ndarray, "pieces n"]) -> Decoupling:
    """The same model with the bases of its shape, on the ranges that all data visit."""
    if tuple(g.layer for g in step.g) == shape.layers:
        return step
    along = run(step, pieces, x0)
    return step if along is None else finer(step, shape.layers, along.points)


def _cut(pieces: Pieces, window: int | None) -> Pieces:
    return pieces if window is None else pieces.windows(window)


def _teller(report: Callable[..., None], stage: str, done: int, total: int) -> Callable[[float], None]:
    """What a descent tells its mean square error to."""
    return lambda cost: report(stage=stage, done=done, total=total, objective=math.sqrt(cost))


def initial_state(
    step: Decoupling,
    n: int,
    pieces: Pieces,
    x0: Float[ndarray, "pieces n"] | None = None,
    *,
    usual: Usual | None = None,
) -> Fitted:
    """The initial states that fit the outputs of all pieces best."""
    begun = np.zeros((len(pieces), n)) if x0 is None else x0
    return fit_free_run(Movable(step, {}), pieces, begun, max_steps=30, settles_at=1e-6, usual=usual)


def _in_usual_states(step: Decoupling, n: int, pieces: Pieces) -> Decoupling:
    """The same model with states of mean 0 and unit variance along its run, where it can be run."""
    along = run(step, pieces, initial_state(step, n, pieces).x0)
    if along is None:
        return step
    states = along.points[:, :n]
    return with_state(step, whitening(states), states.mean(axis=0))


def _usual(fitted: Fitted) -> Usual:
    """States have unit variance along a run of the linear model, and about that of others."""
    n = fitted.x0.shape[1]
    return Usual(np.zeros(n), np.eye(n), fitted.rmse)


def validation_error(fitted: Fitted, judged: Pieces) -> float:
    """Root mean square error of a free run whose initial state was found from the beginning of each record."""
    if not math.isfinite(fitted.rmse):
        return math.inf
    step, n = fitted.step, fitted.x0.shape[1]
    found = run(step, judged, initial_state(step, n, _beginnings(judged, n), usual=_usual(fitted)).x0)
    return math.inf if found is None else math.sqrt(found.mean_square)


def _known(fitted: Fitted, pieces: Pieces, n: int, integrating: bool) -> Float[ndarray, "pieces n"]:
    """The initial states that a fit has found, or those that fit other pieces best.

    Of models that integrate they are those that fit the first outputs: free to fit the whole of a record, a velocity at
    the beginning would make up for drift.
    """
    if integrating:
        return initial_state(fitted.step, n, _beginnings(pieces, n), usual=_usual(fitted)).x0
    return fitted.x0 if len(fitted.x0) == len(pieces) else initial_state(fitted.step, n, pieces).x0


def _beginnings(pieces: Pieces, n: int) -> Pieces:
    """The outputs from which initial states are found."""
    return pieces.heads([min(_WINDOW, max(n, len(y) // 3)) for y in pieces.y])


def _candidates(
    shape: Shape, linear: Decoupling, points: Float[ndarray, "T m"], n_starts: int, rng: np.random.Generator
) -> Iterator[_Candidate]:
    n = shape.n_states
    if shape.feedback:
        for k in range(n_starts):
            physical = k == 0 and not shape.fixed_functions
            name = "physical" if physical else f"random {k}"
            yield _candidate(shape, linear, points, rng, name, deterministic=physical, front=None)
        return
    step, blocks = modal(linear, n, points)
    step, points = _refitted(step, n, points, linear)
    for size in range(1, len(blocks)):
        for chosen in combinations(range(len(blocks)), size):
            front = np.zeros(n, dtype=bool)
            for i in chosen:
                front[blocks[i]] = True
            if abs(2 * int(front.sum()) - n) > n // 3:  # filters of about the same order
                continue
            for k in range(max(1, n_starts // 3)):
                name = f"{_in_words(step, front, n)} in front, {k + 1}"
                yield _candidate(shape, step, points, rng, name, deterministic=False, front=front)


def _in_words(step: Decoupling, front: Bool[ndarray, " n"], n: int) -> str:
    assert step.linear is not None
    poles = np.linalg.eigvals(step.linear[:n, :n][np.ix_(front, front)])
    shown = [f"{p.real:.2f}" + (f"±{p.imag:.2f}i" if p.imag else "") for p in poles.astype(complex) if p.imag >= 0.0]
    return f"poles {', '.join(shown)}"


def _candidate(
    shape: Shape,
    linear: Decoupling,
    points: Float[ndarray, "T m"],
    rng: np.random.Generator,
    name: str,
    *,
    deterministic: bool,
    front: Bool[ndarray, " n"] | None,
) -> _Candidate:
    n, held = shape.n_states, np.array(shape.held)
    seen = np.ones(points.shape[1], dtype=bool)
    if front is not None:
        seen[:n] = front
    step = begin(linear, n, shape.layers, points, rng, deterministic=deterministic, seen=seen)
    free = _free(shape, step, front)
    if held.any():
        W0, domain, g = step.W[0].copy(), step.g[0].domain.copy(), step.g[0]
        W0[held, n:] = 0.0
        domain[held] -= g.middle[held, None]
        step = step.with_parts(W=[W0, *step.W[1:]], g=[type(g)(g.layer.bases, g.C, domain), *step.g[1:]])
    if front is not None:
        assert step.linear is not None
        step = step.with_parts(linear=np.where(free["linear"], step.linear, 0.0))
    return _Candidate(name, step, free, None if front is None else int(front.sum()))


def _free(shape: Shape, step: Decoupling, front: Bool[ndarray, " n"] | None) -> dict[str, ndarray]:
    """Which numbers of a model of this shape may move."""
    n, held = shape.n_states, np.array(shape.held)
    free = free_parts(step, n, feedthrough=shape.feedthrough, front=front, n_integrators=shape.n_integrators)
    free["W0"][held, n:] = False
    free["middle1"][held] = False
    if len(shape.layers) == 1:
        free["W1"][n:, held] = False
    if shape.fixed_functions:
        free |= {name: np.zeros_like(free[name]) for name in ("W0", "g1", "middle1")}
    return free


def modal(linear: Decoupling, n: int, points: Float[ndarray, "T m"]) -> tuple[Decoupling, list[list[int]]]:
    """The linear model with a block of states for each real pole and each pair of complex ones, and these blocks.

    Pairs that are nearly real become two real poles, so that they can be shared out one by one.
    """
    assert linear.linear is not None
    values, vectors = np.linalg.eig(linear.linear[:n, :n])
    columns: list[ndarray] = []
    blocks: list[list[int]] = []
    apart: dict[int, float] = {}
    for i in np.argsort(np.abs(np.angle(values)), kind="stable"):
        at, pole = len(columns), values[i]
        if pole.imag < 0.0:
            continue
        columns += [vectors[:, i].real] if pole.imag == 0.0 else [vectors[:, i].real, vectors[:, i].imag]
        if pole.imag and abs(np.angle(pole)) < _NEARLY_REAL:
            apart |= {at: abs(pole) * (1.0 - _APART), at + 1: min(abs(pole) * (1.0 + _APART), _SLOWEST)}
            blocks += [[at], [at + 1]]
        else:
            blocks.append(list(range(at, len(columns))))
    T = np.stack(columns, axis=1)
    step = with_state(linear, T * np.linalg.solve(T, points[:, :n].T).std(axis=1))
    assert step.linear is not None
    F = step.linear.copy()
    within = np.zeros((n, n), dtype=bool)
    for block in blocks:
        within[np.ix_(block, block)] = True
    F[:n, :n] = np.where(within, F[:n, :n], 0.0)
    for i, pole in apart.items():
        F[i, i] = pole
    return step.with_parts(linear=F), blocks


def _refitted(
    step: Decoupling, n: int, points: Float[ndarray, "T m"], linear: Decoupling
) -> tuple[Decoupling, Float[ndarray, "T m"]]:
    """B, C and D for poles that have moved, from the outputs of the linear model that they have moved in."""
    assert step.linear is not None
    record = Pieces((points[:, n:],), (linear.values(points)[:, n:],))
    free = np.ones(step.linear.shape, dtype=bool)
    free[:n, :n] = False
    fitted = fit_free_run(Movable(step, {"linear": free}), record, np.zeros((1, n)), max_steps=_STEPS[0])
    along = run(fitted.step, record, fitted.x0)
    assert along is not None
    return fitted.step, along.points
