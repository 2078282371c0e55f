"""One fit of given ranks and degrees."""

from __future__ import annotations

import copy
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._support._arguments import as_count, as_generator, as_number
from .._support._blas_threads import one_thread
from .._support._errors import InputError, SolverError, warn
from .._support._interrupts import INTERRUPTED
from .._support._messages import short_repr
from .._support._progress import progress_callback
from .._support._time_limit import OUT_OF_TIME, TimeLimit, now
from ..bases import LayerBasis
from ..samples._canonical import canonical_at
from ..samples._duplicates import n_originals
from ..samples._samples import Samples
from ..samples._weights import check_all_outputs_count
from ..solvers import AbstractSolver, Problem, Solution, StartRow, VarPro
from ..solvers._shape_constraints import with_shapes
from ..solvers.problem._data_summary import Extent
from ..solvers.problem._model_shape import ModelShape
from ..solvers.problem._pilot import prepared
from ..solvers.problem._rounding import exact_below
from ..solvers.problem._solution import Status
from ..solvers.problem._solver import fixed_parts, smoothing_of, with_time_limit
from ..solvers.problem._start_distributions import MOST_STARTS
from ._relative_errors import Measure
from ._result import Result
from ._settings import Settings, layer_bases, layer_shapes

_PATIENCE = 1.1  # times `max_seconds`, which solvers keep themselves: then those that do not are stopped
_BEFORE_SHAPES = 0.7  # of `max_seconds`: the rest is for the steps that give functions their shapes
_LARGEST = 1e100  # of the data: their squares are added up
_LARGE = 0.01  # squared errors below are small, whatever a start had
_WORSE = 1e4  # times the squared error of its start: digits were lost; sums that are taken otherwise differ by less
_MORE = 1.1  # times the squared error of its start: sums that are taken otherwise differ by less in all but odd cases
_REWRITTEN = 100.0  # times what rounding of the data explains: a model in other units has lost a digit
_NO_VALUES = "Only Jacobians were given: they leave the constants of the last layer open, so these are 0."


def fit(
    samples: Samples,
    ranks: int | Sequence[int],
    degrees: int | Sequence[int] | None,
    *,
    basis: Any,
    linear: bool,
    solver: AbstractSolver | None,
    as_given: bool,
    n_starts: int | None,
    validation: Samples | None,
    rng: int | np.random.Generator,
    progress: bool | Callable[..., None],
    max_seconds: float | None = None,
    shapes: Any = None,
) -> Result:
    """`decouple` with ranks that are known."""
    began = time.perf_counter()
    if not isinstance(samples, Samples):
        raise InputError(f"`samples` must be dc.Samples(X, F=F, J=J). Got {type(samples).__name__}.")
    if samples.n_samples < 2:
        raise InputError(
            f"`samples` must hold at least 2 points: one point tells nothing about a function. Got {samples.n_samples}."
        )
    extent = None if samples.in_memory else Extent.of(samples.data)
    check_range(samples, extent)
    _check_points(samples, extent)
    if samples.in_memory:
        check_all_outputs_count(samples.weights)
    layers = layer_bases(ranks, degrees, basis)
    method = VarPro() if solver is None else solver
    if not isinstance(method, AbstractSolver):
        raise InputError(
            f"`solver` must be a solver such as dc.Constr() or dc.TwoStage(dc.Proj()). Got {short_repr(solver)}."
        )
    seconds = math.inf if max_seconds is None else as_number("max_seconds", max_seconds, above=True)
    if max_seconds is not None:
        to_search = seconds if shapes is None else _BEFORE_SHAPES * seconds
        method = VarPro(max_seconds=to_search) if solver is None else with_time_limit(method, to_search)
    for name, value in (("linear", linear), ("as_given", as_given)):
        if not isinstance(value, bool):
            raise InputError(f"`{name}` must be True or False. Got {short_repr(value)}.")
    count = method.default_n_starts if n_starts is None else as_count("n_starts", n_starts, most=MOST_STARTS)
    generator = as_generator(rng)
    _check_validation(validation, samples)
    wishes = layer_shapes(shapes, layers)
    if wishes is not None and fixed_parts(method):
        raise InputError(f"`shapes` must be left out where the solver has fixed parts. Got {short_repr(shapes)}.")
    if wishes is not None and not samples.in_memory:
        raise InputError("`shapes` must be left out for stored samples: take some, `samples.pilot(10_000)`.")
    settings = Settings(ranks, degrees, basis, linear, as_given, count, copy.deepcopy(rng), validation, shapes)
    with one_thread():  # the problem is built by sums too
        solve = prepared(method, samples, layers, validation, extent, linear=linear, standard=not as_given)
    notes = _undetermined(samples, layers, linear=linear)
    for note in notes:
        warn(note, stacklevel=3)
    if not samples.has_values:
        notes = (*notes, _NO_VALUES)
    with progress_callback(progress, "Decoupling") as report, one_thread():
        until = now() + seconds
        limit = TimeLimit(report, None if max_seconds is None else _PATIENCE * seconds)
        solution = _solved(solve, limit, n_starts=count, rng=generator)
        del solve  # and with it the data in standard units
        model = solution.decoupling if solution.as_is else canonical_at(solution.decoupling, samples)
        if wishes is not None:
            problem = Problem.build(samples, layers, linear=linear, standard=not as_given)
            weight = solution.lam if solution.n_effective is not None and solution.lam > 0.0 else 1.0
            smooths = smoothing_of(method) is not None
            shaped = with_shapes(problem, model, wishes, lam=weight, smooths=smooths, deadline=until, progress=report)
            model = shaped.decoupling
            solution = dataclasses.replace(
                solution, notes=(*solution.notes, shaped.note), n_effective=shaped.n_effective
            )
    left = Measure.of(samples, standard=not as_given).squares(model, samples) if samples.in_memory else ()
    best = None if as_given else _chosen_row(solution, left, samples)
    cancelled = _cancellation(best, left, samples)
    for note in cancelled:
        warn(note, stacklevel=3)
    return Result(
        model,
        _honest(solution.status, left, samples),
        solution.lam,
        solution.history,
        # With shapes or validation samples, the model is not the best iterate of a start.
        _true_rows(solution.starts, best if wishes is None and validation is None else None, left, samples),
        solution.path,
        (*notes, *solution.notes, *cancelled),
        samples,
        method,
        time.perf_counter() - began,
        settings,
        solution.found_by,
        solution.ridge,
        solution.n_effective,
    )


def _solved(solve: Callable[..., Solution], limit: TimeLimit, **options: Any) -> Solution:
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


def _honest(status: Status, left: tuple[float, ...], samples: Samples) -> Status:
    """EXACT only if the model, as it is written down, meets everything that is known, whatever the solver looked at."""
    if status is not Status.EXACT or not left:
        return status
    met = [error <= _REWRITTEN * exact_below(samples) for error in left]
    if all(met):
        return status
    values_missed = samples.has_jacobians and samples.has_values and met[0]
    return Status.JACOBIANS_EXACT if values_missed else Status.CONVERGED


def _cancellation(best: StartRow | None, left: tuple[float, ...], samples: Samples) -> tuple[str, ...]:
    """A word where the model is further from the samples than the solver knew: its terms cancel each other."""
    if best is None:
        return ()
    known = _known(best, samples)
    least = _REWRITTEN * exact_below(samples)
    if not any(error > max(_WORSE * was + least, _LARGE) for error, was in zip(left, known, strict=False)):
        return ()
    return (
        f"This model is further from the samples than the solver saw: in standard units its error is {max(left):.2g}, "
        f"and its start had {np.nanmax(known):.2g}. Large terms may cancel each other: lower the ranks or degrees, or "
        "take another basis or solver.",
    )


def _chosen_row(solution: Solution, left: tuple[float, ...], samples: Samples) -> StartRow | None:
    """The start that the model comes from, where its errors and those of the model mean the same."""
    rows = [row for row in solution.starts if row.lam == solution.lam and np.isfinite(row.objective)]
    if not left or not rows or solution.ridge > 0.0 or solution.n_effective is not None or samples.weights is not None:
        return None
    return min(rows, key=lambda row: row.objective)


def _known(row: StartRow, samples: Samples) -> list[float]:
    """What a solver said of a start: the errors of Jacobians and of values, where there are such."""
    terms = ((samples.has_jacobians, row.error_jacobian), (samples.has_values, row.error_values))
    return [error for there, error in terms if there]


def _true_rows(
    starts: tuple[StartRow, ...], best: StartRow | None, left: tuple[float, ...], samples: Samples
) -> tuple[StartRow, ...]:
    """The table of starts, with the errors of the model where it is further off than its start: digits were lost."""
    if best is None:
        return starts
    names = [*(["error_jacobian"] if samples.has_jacobians else []), *(["error_values"] if samples.has_values else [])]
    least = _REWRITTEN * exact_below(samples)
    known = zip(names, left, _known(best, samples), strict=False)
    worse = {name: error for name, error, was in known if error > _MORE * was + least}
    true = dataclasses.replace(
        best,
        error_jacobian=worse.get("error_jacobian", best.error_jacobian),
        error_values=worse.get("error_values", best.error_values),
    )
    return tuple(true if row is best else row for row in starts)


def _check_points(samples: Samples, extent: Extent | None) -> None:
    """One point tells nothing about a function, however often it is repeated."""
    widths = np.ptp(samples.X, axis=0) if extent is None else extent.high_X - extent.low_X
    if not np.any(widths):
        raise InputError(
            f"`samples` must hold at least 2 different points: one point tells nothing about a function. Got the same "
            f"point {samples.n_samples} times."
        )


def check_range(samples: Samples, extent: Extent | None) -> None:
    """Squares of the data must be numbers."""
    names = ["X", *(["F"] if samples.has_values else []), *(["J"] if samples.has_jacobians else [])]
    if extent is not None:
        sizes = {name: extent.largest(name) for name in names}
    else:
        sizes = {"X": float(np.abs(samples.X).max())}
        if samples.F is not None:
            sizes["F"] = float(np.abs(samples.F).max())
        if samples.J is not None:
            sizes["J"] = float(np.abs(samples.J).max())
        if samples.weights is not None:
            sizes["weights"] = float(np.abs(samples.weights).max())
    for name, largest in sizes.items():
        if largest > _LARGEST or 0.0 < largest < 1.0 / _LARGEST:
            raise InputError(
                f"`{name}` must have a largest entry between {1.0 / _LARGEST:g} and {_LARGEST:g}. Got {largest:.3g}: "
                "scale it, for example to about 1, and scale the result back."
            )


def _check_validation(validation: Samples | None, samples: Samples) -> None:
    if validation is None:
        return
    if not isinstance(validation, Samples):
        raise InputError(f"`validation` must be dc.Samples. Got {type(validation).__name__}.")
    wanted, got = (samples.n_inputs, samples.n_outputs), (validation.n_inputs, validation.n_outputs)
    if wanted != got:
        raise InputError(
            f"`validation` must have {wanted[0]} inputs and {wanted[1]} outputs, like `samples`. Got {got}."
        )


def _undetermined(samples: Samples, layers: tuple[LayerBasis, ...], *, linear: bool) -> tuple[str, ...]:
    """Sentences about ranks and degrees that these samples cannot determine."""
    m, n, S = samples.n_inputs, samples.n_outputs, n_originals(samples)
    different = "" if samples.n_samples == S else "different "
    ranks = [len(layer.bases) for layer in layers]
    unknowns = ModelShape.of(samples, layers, linear=linear).n_free(values=samples.has_values)
    equations = S * n * (samples.has_jacobians * m + samples.has_values)
    notes = []
    degree = max(layer.size for layer in layers)
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
    if len(ranks) == 1 and not linear and ranks[0] > m * n:
        notes.append(
            f"`ranks` must not be above m n = {m * n} for unique slopes. Got {ranks[0]}: straight lines can be moved "
            "from one function to the others. Give linear=True, which takes them out of the functions."
        )
    if len(ranks) == 1 and linear and ranks[0] > n * m * (m + 1) // 2:
        notes.append(
            f"`ranks` must not be above n m (m + 1) / 2 = {n * m * (m + 1) // 2} for unique bends. Got {ranks[0]}: "
            "parabolas can be moved from one function to the others."
        )
    return tuple(notes)
