"""Choosing ranks and degrees: a scan with cross-validated errors, a table, a recommendation and its reason."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from ..._support._arguments import as_count, as_counts, as_generator, is_word
from ..._support._errors import InputError, SolverError, short_repr
from ..._support._machine import one_thread
from ..._support._progress import progress_callback
from ...bases import AbstractBasis, Monomial
from ...bases._abstract import MOST_FUNCTIONS
from ...samples._duplicates import n_originals
from ...samples._samples import Samples
from ...solvers import AbstractSolver, Problem, VarPro
from ...solvers.problem._prepared_samples import PreparedSamples
from ...solvers.problem._solution import Status, when_late
from ...solvers.problem._solver import check_problem, fixed_parts, given_start, smoothing_of, with_start
from .._fit_one_shape import check_range, fit_one_shape
from .._result import Result
from .._settings import Settings, layer_bases
from ._candidates import Candidate, Limits, in_words
from ._growth import Growth
from ._scan import OutOfTimeError, Scan
from ._selection import Selection, SelectionRow, pareto_alternatives, pareto_front, reason_for

EFFORTS = ("thorough", "quick")
MAX_RANK, MAX_DEGREE = 4, 5  # unless the user says otherwise
N_FOLDS = 5
SECONDS = 120.0  # for a scan
_LARGEST_RANK, _LARGEST_DEGREE = 50, 20
_PILOT = 2000  # samples of a store on which shapes are compared ...
_MANY = 5000  # samples in memory that a quick scan is made on
_AGAIN = 32  # ... and starts of the fit of the best one to all, of which the first is known


def select(
    samples: Samples,
    max_ranks: int | Sequence[int] = (MAX_RANK, MAX_RANK),
    max_degrees: int | Sequence[int] = MAX_DEGREE,
    *,
    degrees: int | Sequence[int] | None = None,
    n_folds: int = N_FOLDS,
    basis: Any = None,
    linear: bool = False,
    solver: AbstractSolver | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
    max_seconds: float | None = None,
    effort: Literal["thorough", "quick"] = "thorough",
) -> Selection:
    """Find ranks and degrees for `decouple` by trying shapes, from the ranks that singular values suggest.

    Parameters
    ----------
    samples : Samples
        Points with values, Jacobians or both.
    max_ranks : int or sequence of int
        The largest ranks (r_1, ..., r_L), from input to output. Models with fewer layers are tried as well, with up to
        the largest of these numbers per layer.
    max_degrees : int or sequence of int
        The largest degree, or one per layer.
    degrees : int or sequence of int, optional
        Degrees (d_1, ..., d_L) that are known: only ranks of models with these L layers are tried.
    n_folds : int
        Into how many parts the samples are cut for cross-validation.
    basis : basis, basis class or sequence, optional
        A basis class that is given the degrees, `dc.Monomial` if it is left out, or one basis for all layers, whose
        size is the degree.
    linear : bool
        Whether the models have a linear part besides.
    solver : AbstractSolver, optional
        The method. By default `VarPro()`, which starts every fit at the one before. Others start anew each time.
    rng : int or numpy Generator
        Seed or generator: the same seed gives the same choice, unless `max_seconds` cuts the scan short.
    progress : bool or callable
        True shows a bar on a terminal once two seconds have passed. Or give a callable that takes named values.
    max_seconds : float, optional
        Approximate time limit in seconds: the scan then returns the best shape so far, as it does when it is
        interrupted (Ctrl-C). By default 120 seconds. With effort="quick" the limits of the solver.
    effort : "thorough" or "quick"
        "quick" takes about as long as a few fits. If neither `basis` nor `degrees` are given, it chooses the
        functions as well: exact polynomials, a straight line, or one layer of splines or polynomials. Errors on
        validation samples are estimated to first order. It is what `dc.decouple(samples)` and `DecouplingRegressor` do.

    Returns
    -------
    Selection
        The recommended `ranks` and `degrees`, the `reason`, a `table` of all sizes that were tried, and the `result` of
        the recommended one. Print it or `plot` it.

    See Also
    --------
    decouple : fit one size, or let the data choose in one call.

    Notes
    -----
    Errors are relative, in percent, and weighted like the samples. They are the root of the mean of ||J - J_hat||^2 /
    ||J||^2 and ||F - F_hat||^2 / ||F - mean F||^2, as far as these are known.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> f = dc.systems.random_system((3, 2, 3), (3,), rng=3)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    >>> choice = dc.select(dc.Samples(X, F=f(X), J=f.jacobian(X)), max_ranks=4, max_degrees=4)
    >>> choice.ranks, choice.degrees
    ((2,), (3,))
    """
    limits = limits_of(max_ranks, max_degrees, degrees, basis)
    seconds = SECONDS if max_seconds is None and effort == "thorough" else max_seconds
    known = Monomial if basis is None and effort != "quick" else basis
    settings = Settings(None, degrees, known, linear, solver, rng=rng, max_seconds=seconds)
    return select_shape(samples, settings, limits, effort=effort, n_folds=n_folds, progress=progress)


def select_shape(
    samples: Samples,
    settings: Settings,
    limits: Limits,
    *,
    effort: str,
    n_folds: int = N_FOLDS,
    progress: bool | Callable[..., None] = True,
) -> Selection:
    """`select` within limits; the settings lack only the ranks."""
    began = time.perf_counter()
    if not is_word(effort, EFFORTS):
        raise InputError(f"`effort` must be one of {', '.join(EFFORTS)}. Got {short_repr(effort)}.")
    _check(samples, settings, n_folds if effort == "thorough" else 2)
    if not samples.in_memory or (effort == "quick" and samples.n_samples > _MANY):
        return _select_stored(samples, settings, limits, effort=effort, n_folds=n_folds, progress=progress)
    check_range(PreparedSamples.of(samples))
    notes: list[str] = []
    ended: Status | None = None
    with progress_callback(progress, "Selecting") as report, one_thread():
        scan: Scan | Growth
        if effort == "quick":
            scan = Growth(samples, settings, limits, report=report)
        else:
            scan = Scan(samples, settings, limits, n_folds=n_folds, report=report)
            _check_scan(scan)
        try:
            scan.run()
        except OutOfTimeError:
            ended = Status.OUT_OF_TIME
            notes.append(
                f"`max_seconds` = {settings.seconds:g} was reached: this is the best of the shapes tried so far "
                f"({len(scan.found)}). Raise it to look further."
            )
        except KeyboardInterrupt:
            if not scan.found:
                raise
            ended = Status.INTERRUPTED
            notes.append(f"The scan was interrupted: this is the best of the shapes tried so far ({len(scan.found)}).")
    if not scan.found:
        raise SolverError(
            "No shape could be fitted: all starts became NaN or infinite. Scale the inputs to about [-1, 1], or lower "
            "`max_degrees`."
        )
    return _selection(scan, notes, time.perf_counter() - began, ended)


def choose_functions(samples: Samples, settings: Settings, *, progress: bool | Callable[..., None] = True) -> Result:
    """A fit of given ranks, with polynomials or splines as the data ask for."""
    settings.check()
    for name, value in (
        ("as_given", settings.as_given or None),
        ("validation", settings.validation),
        ("solver", None if settings.solver is None or smoothing_of(settings.solver) == "auto" else settings.solver),
    ):
        if value is not None:
            raise InputError(
                f"`degrees` must be given with `{name}`, since polynomials and splines are compared without it: one "
                f"number per layer, such as (3, 3). Got None and {name}={short_repr(value)}."
            )
    ranks = as_counts("ranks", settings.ranks, most=MOST_FUNCTIONS)
    if isinstance(samples, Samples) and max(ranks) > max(n_originals(samples), 1):
        raise InputError(
            f"`ranks` must not be above the number of different samples, {n_originals(samples)}. Got "
            f"{short_repr(settings.ranks)}: leave `ranks` out, and the data choose the number of functions."
        )
    limits = Limits(ranks, (MAX_DEGREE,) * len(ranks), fixed_degrees=False)
    return select_shape(samples, settings, limits, effort="quick", progress=progress).result


def _select_stored(samples: Samples, settings: Settings, limits: Limits, **options: Any) -> Selection:
    """The shape that some of the samples recommend, fitted to all of them."""
    rng = as_generator(settings.rng)
    few = samples.pilot(_PILOT, rng=rng)
    settings = dataclasses.replace(settings, rng=rng)
    selection = select_shape(few, settings, limits, **options)
    note = f"Shapes were compared on {len(few)} of {len(samples)} samples; the recommended one was fitted to all."
    solver = VarPro() if settings.solver is None else settings.solver
    settings = dataclasses.replace(
        settings,
        ranks=selection.ranks,
        degrees=None,
        basis=[g.layer.bases for g in selection.result.decoupling.g],
        solver=with_start(solver, selection.result.decoupling) or solver,
        n_starts=_AGAIN if "many starts" in solver.supports else None,
        max_seconds=None,
    )
    result = fit_one_shape(samples, settings, progress=options["progress"])
    result = dataclasses.replace(
        result,
        status=_status(result.status, selection.result.status),
        notes=(selection.reason, note, *selection.notes, *result.notes),
    )
    return dataclasses.replace(selection, result=result, notes=(note, *selection.notes))


def limits_of(max_ranks: Any, max_degrees: Any, degrees: Any, basis: Any) -> Limits:
    ranks = as_counts("max_ranks", max_ranks, most=MOST_FUNCTIONS)
    if max(ranks) > _LARGEST_RANK:
        raise InputError(
            f"`max_ranks` must not be above {_LARGEST_RANK}: every smaller rank may be tried. Got {max(ranks)}: begin "
            "with small ones, such as (4, 4)."
        )
    basis = Monomial if basis is None else basis
    if isinstance(basis, AbstractBasis):
        if degrees is None:
            return Limits(ranks, (basis.size,) * len(ranks), fixed_degrees=True)
    elif not (isinstance(basis, type) and issubclass(basis, AbstractBasis)):
        raise InputError(f"`basis` must be a basis class such as dc.Monomial, or one basis. Got {short_repr(basis)}.")
    if degrees is not None:
        known = as_counts("degrees", degrees)
        if len(known) != len(ranks):
            raise InputError(
                f"`degrees` must have one number per layer, like `max_ranks`: {len(ranks)}. Got {len(known)}."
            )
        return Limits(ranks, known, fixed_degrees=True, fewest_layers=len(ranks))
    top = as_counts("max_degrees", max_degrees, most=MOST_FUNCTIONS)
    top = top * len(ranks) if len(top) == 1 else top
    if len(top) != len(ranks):
        raise InputError(
            f"`max_degrees` must be one number, or one per layer, like `max_ranks`: {len(ranks)}. Got {len(top)}."
        )
    if max(top) > _LARGEST_DEGREE:
        raise InputError(f"`max_degrees` must not be above {_LARGEST_DEGREE}. Got {max(top)}: begin with 5.")
    return Limits(ranks, top, fixed_degrees=False)


def _check(samples: Any, settings: Settings, n_folds: Any) -> None:
    if not isinstance(samples, Samples):
        raise InputError(f"`samples` must be dc.Samples(X, F=F, J=J). Got {type(samples).__name__}.")
    settings.check()
    different = n_originals(samples)
    if different < 2:
        raise InputError("`samples` must have at least 2 different samples, to leave some out. Got copies of one.")
    if as_count("n_folds", n_folds, least=2) > different:
        things = "samples" if different == samples.n_samples else "different samples"
        raise InputError(
            f"`n_folds` must not be above the number of {things}: {different}. Got {short_repr(n_folds)}: lower it, "
            "or give "
            "more samples."
        )
    solver = settings.method
    if fixed_parts(solver) or given_start(solver) is not None:
        raise InputError(
            "`solver` must leave all parts of the model free, since their shapes change. Got `fixed` or a Decoupling "
            "as `start`: leave these out."
        )


def _check_scan(scan: Scan) -> None:
    """The solver must take every number of layers, and at least one shape must be smaller than the data."""
    for L in scan.limits.n_layers():
        layers = layer_bases((1,) * L, scan.limits.least_degrees(L), scan.settings.basis)
        check_problem(scan.solver, Problem.build(scan.samples, layers, linear=scan.settings.linear))
    L = scan.limits.n_layers()[0]
    ranks, degrees = (1,) * L, scan.limits.least_degrees(L)
    if not scan.is_determined(ranks, degrees):
        raise InputError(
            f"`samples` must hold more numbers than the smallest model has free parameters, "
            f"{scan.n_free(ranks, degrees)}, with one of the {len(scan.folds)} folds left out. Got "
            f"{sum(scan.measure.counts):.0f} in all: give more samples, or leave inputs out."
        )


def _status(status: Status, ended: Status | None) -> Status:
    """That of a model whose scan may have been ended."""
    if ended is Status.OUT_OF_TIME:
        return when_late(status)
    return Status.INTERRUPTED if ended is Status.INTERRUPTED else status


def _selection(scan: Scan | Growth, notes: list[str], seconds: float, ended: Status | None) -> Selection:
    """What a scan has found; `ended` is what ended it before its time."""
    candidates = sorted(scan.found.values(), key=lambda c: (c.n_parameters, c.score))
    chosen = scan.choice()
    front = pareto_front(candidates)
    rows = tuple(
        SelectionRow(
            c.ranks,
            c.degrees,
            c.n_parameters,
            100.0 * c.error,
            100.0 * c.spread,
            100.0 * c.training_error,
            c.score,
            c.seconds,
            pareto=c in front,
            chosen=c is chosen,
            decoupling=c.result.decoupling,
        )
        for c in candidates
    )
    reason = reason_for(chosen, candidates, scan.allowed_error())
    notes = [*notes, *(_limits_met(scan, chosen) if isinstance(scan, Scan) else [])]
    result = dataclasses.replace(
        chosen.result,
        status=_status(chosen.result.status, ended),
        notes=(reason, *notes, *chosen.result.notes),
        seconds=seconds,
        alternatives=pareto_alternatives(rows),
    )
    return Selection(
        chosen.ranks, chosen.degrees, reason, rows, scan.hints, result, tuple(notes), len(scan.folds), seconds
    )


def _limits_met(scan: Scan, chosen: Candidate) -> list[str]:
    """What to know about the limits that the user set."""
    L = len(chosen.ranks)
    top, least, notes = scan.limits.ranks(L), scan.hints.least_ranks(L), []
    if least is not None and any(r > t for r, t in zip(least, top, strict=True)):
        notes.append(
            f"The singular values ask for ranks of at least {in_words(least)}: raise `max_ranks`, {in_words(top)} here."
        )
    elif not chosen.exact and any(r == t for r, t in zip(chosen.ranks, top, strict=True)):
        notes.append(
            f"The ranks are at the limit {in_words(top)}: raise `max_ranks` to see whether larger ones are better."
        )
    if not chosen.exact and not scan.limits.fixed_degrees:
        degrees = scan.limits.degrees(L)
        if any(d == t for d, t in zip(chosen.degrees, degrees, strict=True)):
            notes.append(
                f"The degrees are at the limit {in_words(degrees)}: raise `max_degrees` to see whether more are better."
            )
    return notes
