"""One fit of given ranks and bases: samples and settings in, result out."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from .._support._arguments import as_generator
from .._support._errors import InputError, SolverError, warn
from .._support._interrupts import INTERRUPTED
from .._support._machine import one_thread
from .._support._progress import progress_callback
from .._support._time_limit import OUT_OF_TIME, TimeLimit, now
from ..model._decoupling import Decoupling
from ..samples._array_checks import check_all_outputs_count
from ..samples._duplicates import n_originals
from ..samples._model_errors import canonical_at
from ..samples._samples import Samples
from ..solvers import Problem, Solution, StartRow
from ..solvers._shape_constraints import with_shapes
from ..solvers.inference._uniqueness import identifiability_of_shape
from ..solvers.problem._prepared_samples import ROUNDING, PreparedSamples
from ..solvers.problem._problem import ModelShape
from ..solvers.problem._solution import Status
from ..solvers.problem._solver import prepare_solve, smoothing_of
from ._relative_errors import Measure
from ._result import BORDER, OPEN, Result
from ._settings import Settings

_PATIENCE = 1.1  # times `max_seconds`, which solvers keep themselves: those that do not are stopped then
_LARGEST_ENTRY = 1e100  # of the data: their squares are added up
_SMALL_SQUARE = 0.01  # relative squared errors below are small, whatever a start had
_DIGITS_LOST = 1e4  # times the squared error of a start: the model has lost digits
_OTHER_SUMMATION = 1.1  # times the squared error of a start: sums in another order differ by less in all but odd cases
_OTHER_UNITS = 100.0  # times what rounding of the data explains: a model in other units has lost a digit
_BORDER_RATIO, _SAME_ARGUMENT = 1e3, 1e-6  # a size against that of a sum, and 1 less a correlation of arguments
_NO_VALUES = "Only Jacobians were given: they leave the constants of the last layer open, so these are 0."


def fit_one_shape(samples: Samples, settings: Settings, *, progress: bool | Callable[..., None] = True) -> Result:
    """`decouple` with ranks that are known."""
    began = time.perf_counter()
    settings.check()
    known = check_samples(samples, standard=not settings.as_given)  # held here, so that all who ask for it share it
    _check_together(samples, settings)
    method, layers, wishes, linear = settings.method, settings.layers, settings.wishes, settings.linear
    record, generator, standard = settings.recorded(), as_generator(settings.rng), not settings.as_given
    assert record.n_starts is not None

    with one_thread():  # the problem is built by sums too
        solve = prepare_solve(method, known, layers, settings.validation, linear=linear)
    notes = _identifiability_notes(samples, settings)
    for note in notes:
        warn(note, stacklevel=3)
    free = "" if notes else _free_functions_note(samples, settings)
    notes = (free,) if free else notes

    with progress_callback(progress, "Decoupling") as report, one_thread():
        until = now() + settings.seconds
        limit = TimeLimit(report, None if settings.max_seconds is None else _PATIENCE * settings.seconds)
        solution = _solve_in_time(solve, limit, n_starts=record.n_starts, rng=generator)
        del solve  # and with it the data in standard units
        model = solution.decoupling if solution.as_is else canonical_at(solution.decoupling, samples)
        if wishes is not None:
            problem = Problem(known, layers, linear=linear)
            weight = solution.lam if solution.n_effective is not None and solution.lam > 0.0 else 1.0
            smooths = smoothing_of(method) is not None
            shaped = with_shapes(problem, model, wishes, lam=weight, smooths=smooths, deadline=until, progress=report)
            model = shaped.decoupling
            solution = dataclasses.replace(
                solution, notes=(*solution.notes, shaped.note), n_effective=shaped.n_effective
            )

    # Errors are computed again from the model: digits can be lost on its way from the solver.
    errors = Measure.of(samples, standard=standard).squares(model, samples) if samples.in_memory else ()
    rounding = _OTHER_UNITS * known.rounding_floor if errors else 0.0
    row = None if settings.as_given else _winning_row(solution, errors, samples)
    cancellation = () if row is None else _cancellation_notes(row, errors, samples, rounding)
    for note in cancellation:
        warn(note, stacklevel=3)
    if free and solution.ridge > 0.0:
        notes = (f"{free} The ridge decides between them here.",)
    starts = solution.starts
    if row is not None and wishes is None and settings.validation is None:  # otherwise it is not the best of a start
        starts = _corrected_rows(starts, row, errors, samples, rounding)
    return Result(
        decoupling=model,
        status=_checked_status(solution.status, errors, samples, rounding, _OTHER_UNITS * known.ranges.slope_floor),
        lam=solution.lam,
        history=solution.history,
        starts=starts,
        path=solution.path,
        notes=(
            *notes,
            *(() if samples.has_values else (_NO_VALUES,)),
            *solution.notes,
            *cancellation,
            *_border_notes(model, samples),
        ),
        samples=samples,
        seconds=time.perf_counter() - began,
        settings=record,
        found_by=solution.found_by,
        ridge=solution.ridge,
        n_effective=solution.n_effective,
    )


# Checks


def check_samples(samples: Any, *, standard: bool) -> PreparedSamples:
    """Raise `InputError` for samples that no model can be fitted to; prepare those that are fine."""
    if not isinstance(samples, Samples):
        raise InputError(f"`samples` must be dc.Samples(X, F=F, J=J). Got {type(samples).__name__}.")
    if samples.n_samples < 2:
        raise InputError(
            f"`samples` must hold at least 2 points: one point tells nothing about a function. Got {samples.n_samples}."
        )
    known = PreparedSamples.of(samples, standard=standard)
    check_range(known)
    if not np.any(known.ranges.high_X - known.ranges.low_X):
        raise InputError(
            f"`samples` must hold at least 2 different points: one point tells nothing about a function. Got the same "
            f"point {samples.n_samples} times."
        )
    if samples.in_memory:
        check_all_outputs_count(samples.weights)
    return known


def check_range(known: PreparedSamples) -> None:
    """Squares of the data must be numbers."""
    with one_thread():
        largest_entries = known.ranges.largest
    for name, largest in largest_entries.items():
        if largest > _LARGEST_ENTRY or 0.0 < largest < 1.0 / _LARGEST_ENTRY:
            raise InputError(
                f"`{name}` must have a largest entry between {1.0 / _LARGEST_ENTRY:g} and {_LARGEST_ENTRY:g}. Got "
                f"{largest:.3g}: scale it, for example to about 1, and scale the result back."
            )


def _check_together(samples: Samples, settings: Settings) -> None:
    """Raise for settings that do not suit these samples."""
    if settings.validation is not None:
        wanted, got = ((data.n_inputs, data.n_outputs) for data in (samples, settings.validation))
        if wanted != got:
            raise InputError(
                f"`validation` must have {wanted[0]} inputs and {wanted[1]} outputs, like `samples`. Got {got}."
            )
    if settings.wishes is not None and not samples.in_memory:
        raise InputError("`shapes` must be left out for stored samples: take some, `samples.pilot(10_000)`.")


def _identifiability_notes(samples: Samples, settings: Settings) -> tuple[str, ...]:
    """Sentences about ranks and degrees that these samples cannot determine."""
    m, n, S = samples.n_inputs, samples.n_outputs, n_originals(samples)
    different = "" if samples.n_samples == S else "different "
    ranks = [len(layer.bases) for layer in settings.layers]
    unknowns = settings.n_free(samples)
    equations = S * n * (samples.has_jacobians * m + samples.has_values)
    notes = []
    degree = max(layer.size for layer in settings.layers)
    if degree > S:
        notes.append(
            f"`degrees` must not be above the number of {different}samples to determine the functions. Got {degree} "
            f"and {S} {different}samples: lower the degrees or give more samples."
        )
    if unknowns > equations:
        notes.append(
            f"`ranks` {tuple(ranks)} ask for {unknowns} free parameters, but the samples give {equations} "
            f"{different}numbers: the answer is one of many. Lower the ranks or degrees, or give more samples."
        )
    if len(ranks) == 1 and not settings.linear and ranks[0] > m * n:
        notes.append(
            f"`ranks` must not be above m n = {m * n} for unique slopes. Got {ranks[0]}: straight lines can be moved "
            "from one function to the others. Give linear=True, which takes them out of the functions."
        )
    if len(ranks) == 1 and settings.linear and ranks[0] > n * m * (m + 1) // 2:
        notes.append(
            f"`ranks` must not be above n m (m + 1) / 2 = {n * m * (m + 1) // 2} for unique bends. Got {ranks[0]}: "
            "parabolas can be moved from one function to the others."
        )
    return tuple(notes)


def _free_functions_note(samples: Samples, settings: Settings) -> str:
    """Which functions no data determine in a model of this shape; empty if there are none or nothing is known."""
    shape = ModelShape.of(samples, settings.layers, linear=settings.linear)
    found = None if settings.fixed else identifiability_of_shape(shape)
    if found is None or found.locally_unique or not found.free:
        return ""
    return (
        f"{OPEN}: {found.in_words}, without a change of the fit. Lower "
        "`ranks` or raise `degrees`; `result.identifiability` says which functions are determined."
    )


# The solver's answer


def _solve_in_time(solve: Callable[..., Solution], limit: TimeLimit, **options: Any) -> Solution:
    """The answer of a solver; one that does not look at the clock itself is stopped as by Ctrl-C."""
    try:
        solution = solve(**options, progress=limit)
    except KeyboardInterrupt:
        if not limit.is_over:
            raise
        raise SolverError("`max_seconds` passed before a first model was found: raise it.") from None
    if solution.status is not Status.INTERRUPTED or not limit.is_over:
        return solution
    notes = tuple(OUT_OF_TIME if note == INTERRUPTED else note for note in solution.notes)
    return dataclasses.replace(solution, status=Status.OUT_OF_TIME, notes=notes)


def _checked_status(
    status: Status, errors: tuple[float, ...], samples: Samples, rounding: float, of_slopes: float
) -> Status:
    """EXACT only if the model, as it is written down, meets everything that is known, whatever the solver looked at.

    Values far from 0 are known to fewer digits of their standard deviation; Jacobians are not, and are met to
    `ROUNDING` at least.
    """
    if status is not Status.EXACT or not errors:
        return status
    floors = [max(of_slopes, ROUNDING**2)] * samples.has_jacobians + [rounding] * samples.has_values
    met = [error <= floor for error, floor in zip(errors, floors, strict=True)]
    if all(met):
        return status
    values_missed = samples.has_jacobians and samples.has_values and met[0]
    return Status.JACOBIANS_EXACT if values_missed else Status.CONVERGED


def _winning_row(solution: Solution, errors: tuple[float, ...], samples: Samples) -> StartRow | None:
    """The start that the model comes from, if its errors and those of the model mean the same."""
    rows = [row for row in solution.starts if row.lam == solution.lam and np.isfinite(row.objective)]
    penalised = solution.ridge > 0.0 or solution.n_effective is not None
    if not errors or not rows or penalised or samples.weights is not None:
        return None
    return min(rows, key=lambda row: row.objective)


def _solver_errors(row: StartRow, samples: Samples) -> dict[str, float]:
    """What a solver said of a start: the errors of Jacobians and of values, as far as there are such."""
    terms = (("error_jacobian", samples.has_jacobians), ("error_values", samples.has_values))
    return {name: getattr(row, name) for name, there in terms if there}


def _cancellation_notes(row: StartRow, errors: tuple[float, ...], samples: Samples, rounding: float) -> tuple[str, ...]:
    """A sentence if the model is further from the samples than the solver knew: its terms cancel each other."""
    known = list(_solver_errors(row, samples).values())
    if not any(e > max(_DIGITS_LOST * was + rounding, _SMALL_SQUARE) for e, was in zip(errors, known, strict=False)):
        return ()
    return (
        f"This model is further from the samples than the solver saw: in standard units its error is "
        f"{max(errors):.2g}, and its start had {np.nanmax(known):.2g}. Large terms may cancel each other: lower the "
        "ranks or degrees, or take another basis or solver.",
    )


def _border_notes(model: Decoupling, samples: Samples) -> tuple[str, ...]:
    """A sentence if two functions of nearly the same argument grow large and cancel each other.

    The best models then have a limit that is none of this shape: such a pair tends to a derivative of one function, as
    x^2 y, which is no sum of two cubes, is the limit of such sums.
    """
    X = samples.shown.X
    with np.errstate(all="ignore"):
        u = model.arguments(X)
        following = [*u[1:], model.values(X)]
        for l, (g, argument, W, after) in enumerate(zip(model.g, u, model.W[1:], following, strict=True), start=1):
            sizes = np.abs(W) * np.ptp(g.values(argument), axis=0)  # of every function in every sum that it is part of
            share = sizes / np.maximum(np.ptp(after, axis=0), np.finfo(float).tiny)[:, None]
            if g.rank < 2 or not np.isfinite(share).all():
                continue
            centred = argument - argument.mean(axis=0)
            unit = centred / np.maximum(np.linalg.norm(centred, axis=0), np.finfo(float).tiny)
            for j, k in combinations(range(g.rank), 2):
                ratio = float(np.max(np.minimum(share[:, j], share[:, k])))
                if ratio > _BORDER_RATIO and abs(unit[:, j] @ unit[:, k]) > 1.0 - _SAME_ARGUMENT:
                    names = " and ".join(f"g_{l},{i + 1}" if len(model.g) > 1 else f"g_{i + 1}" for i in (j, k))
                    return (
                        f"{BORDER}: {names} have nearly the same argument, and each is {ratio:.0f} times as large as "
                        "what they add up to. Models of this shape may come ever nearer to the data and never reach "
                        "them. Try one more function, or a ridge.",
                    )
    return ()


def _corrected_rows(
    starts: tuple[StartRow, ...], row: StartRow, errors: tuple[float, ...], samples: Samples, rounding: float
) -> tuple[StartRow, ...]:
    """The table of starts, with the errors of the model if it is further off than its start: digits were lost."""
    known = zip(_solver_errors(row, samples).items(), errors, strict=False)
    worse: dict[str, Any] = {name: error for (name, was), error in known if error > _OTHER_SUMMATION * was + rounding}
    corrected = dataclasses.replace(row, **worse)
    return tuple(corrected if other is row else other for other in starts)
