r"""How many pieces a spline has if nobody says so, and the criterion that chooses.

More pieces are tried if the residuals of a fit still depend on the arguments u of its functions, by a lack-of-fit test
in bins of u. This happens if functions bend sharper than their pieces can. Models are compared by Schwarz's
criterion with McQuarrie's correction for few samples, on the values:

    N log(e) + p log(N) N / (N - p - 2),

with N values, their mean squared error e relative to the standard deviation, and p the degrees of freedom that the
*values* lost to the parameters. Jacobians share in the parameters, so that they do not count as more evidence than they
are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._support._arguments import as_generator
from .._support._errors import silenced
from .._support._time_limit import now
from ..bases import AbstractBasis, LayerBasis
from ..model._canonical_form import resize_model
from ..samples._duplicates import n_originals
from ..samples._samples import Samples
from ..solvers.inference._linearisation import is_quick
from ..solvers.inference._uncertainty import leave_one_out
from ..solvers.problem._prepared_samples import PreparedSamples
from ..solvers.problem._solution import Status
from ..solvers.problem._solver import with_start
from ._fit_one_shape import fit_one_shape
from ._relative_errors import Measure
from ._result import Result
from ._settings import Settings
from .quality._noise_tests import CHANCE, lack_of_fit

PIECES = (8, 32, 64)  # that are tried in this order ...
_SHARE = 0.5  # of the number of samples: more pieces than that are not tried
_STEPS = 10  # from fewer pieces to more, before smoothing
MANY = 100  # ... from the second on, if there are as many samples: smoothing decides, and a search has 8 in any case


@dataclass(frozen=True)
class Judgement:
    """A fit by its samples.

    Attributes
    ----------
    criterion
        Lower is better.
    squares
        Relative squared errors of Jacobians and values, as far as these are known.
    left_out
        Relative errors of Jacobians and values at samples that are left out, as far as these are known; NaN if the
        samples tell nothing about it.
    is_exact
        Whether the errors are rounding.
    """

    criterion: float
    squares: tuple[float, ...]
    left_out: tuple[float, ...]
    is_exact: bool

    @classmethod
    def of(cls, result: Result, measure: Measure, rounding: float, whole: Samples | None = None) -> Judgement:
        """Judge a fit by all samples that there are, if it is of a part of what is known of them."""
        model, samples = result.decoupling, result.samples
        squares = measure.squares(model, samples if whole is None else whole)
        N = measure.counts[-1] * n_originals(samples) / samples.n_samples  # a copy is no evidence
        e = max(squares[-1], rounding)
        if max(squares) <= rounding:
            return cls(N * float(np.log(e)), squares, _roots(squares), True)
        if is_quick(model, samples):
            left_out = leave_one_out(result.linearisation)
            p, rise = float(np.sum(left_out.used)), float(np.sqrt(np.mean(left_out.rise**2)))
        else:  # so many samples hardly feel one that is left out
            p = float(result.n_effective or model.n_parameters)
            rise = 1.0 / max(1.0 - p / samples.n_numbers, np.finfo(float).eps)
        criterion = N * np.log(e) + p * np.log(N) * N / max(N - p - 2.0, 1.0)
        return cls(float(criterion), squares, _roots(squares, rise), False)


def _roots(squares: tuple[float, ...], factor: float = 1.0) -> tuple[float, ...]:
    return tuple(factor * float(np.sqrt(square)) for square in squares)


def fit_with_pieces(samples: Samples, settings: Settings, *, progress: bool | Callable[..., None] = True) -> Result:
    """Fit given ranks; splines without a number of pieces get as many as the data can use."""
    if not any(basis.is_open for layer in settings.layers for basis in layer.bases):
        return fit_one_shape(samples, settings, progress=progress)
    known = PreparedSamples.of(samples)  # held here, so that all fits share it
    measure, rounding, began = Measure.of(samples), known.rounding_floor, now()
    best, judged = choose_pieces(samples, settings, measure, rounding, progress)
    left = settings.seconds - (now() - began)
    if judged.is_exact or best.status is Status.INTERRUPTED or left <= 0.0:
        return best
    fewer = _refit(samples, settings, best, PIECES[0], left, progress)
    return fewer if Judgement.of(fewer, measure, rounding).criterion < judged.criterion else best


def choose_pieces(
    samples: Samples,
    settings: Settings,
    measure: Measure,
    rounding: float,
    progress: bool | Callable[..., None],
    whole: Samples | None = None,
) -> tuple[Result, Judgement]:
    """Fit with more pieces as long as the residuals ask for them and the criterion falls."""
    deadline = now() + settings.seconds
    best: tuple[Result, Judgement] | None = None
    for pieces in PIECES[1:] if samples.n_samples >= MANY else PIECES:
        if best is None:
            asked = dataclasses.replace(settings, degrees=None, basis=_with_pieces(settings, pieces))
            result = fit_one_shape(samples, asked, progress=progress)
        else:
            left = deadline - now()
            if left <= 0.0 or not has_room(samples, pieces * len(settings.layers[0].bases)):
                break
            result = _refit(samples, settings, best[0], pieces, left, progress)
        judged = Judgement.of(result, measure, rounding, whole)
        if best is not None and judged.criterion >= best[1].criterion:
            break
        best = result, judged
        is_open = any(basis.is_open for layer in settings.layers for basis in layer.bases)
        if not is_open or judged.is_exact or samples.F is None or result.status is Status.INTERRUPTED:
            break
        residual = np.asarray(samples.F) - result.decoupling.values(samples.X)
        if lack_of_fit(residual, result.decoupling.arguments(samples.X)[0])[0] > CHANCE:
            break
    assert best is not None
    return best


def has_room(samples: Samples, n_pieces: int) -> bool:
    """Whether this many pieces of all functions together are worth a try."""
    return n_pieces <= max(_SHARE * samples.n_samples, PIECES[1])


def _with_pieces(settings: Settings, pieces: int) -> list[tuple[AbstractBasis, ...]]:
    return [tuple(basis.with_pieces(pieces) for basis in layer.bases) for layer in settings.layers]


def _refit(
    samples: Samples,
    settings: Settings,
    best: Result,
    pieces: int,
    seconds: float,
    progress: bool | Callable[..., None],
) -> Result:
    """A fit with this many pieces that begins at one with others, if the solver can."""
    bases = _with_pieces(settings, pieces)
    limit = None if settings.max_seconds is None else seconds
    asked = dataclasses.replace(settings, degrees=None, basis=bases, max_seconds=limit)
    start = resize_model(best.decoupling, tuple(map(LayerBasis, bases)), samples.X, as_generator(0))
    there = with_start(settings.method, start, max_steps=_STEPS)
    if there is not None:
        asked = dataclasses.replace(asked, solver=there, n_starts=1)
    with silenced():
        result = fit_one_shape(samples, asked, progress=progress)
    if there is None:
        return result
    asked = dataclasses.replace(result.settings, solver=best.settings.solver, n_starts=best.settings.n_starts)
    seconds = best.seconds + result.seconds
    return dataclasses.replace(result, settings=asked, starts=best.starts, found_by=best.found_by, seconds=seconds)
