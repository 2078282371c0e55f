r"""The first answer: which functions, how many, in about the time of a few fits.

Candidates come in this order, and each is fitted only as long as it can still win:

1. If the values are a polynomial in all inputs to machine precision, the layers of polynomials that meet them exactly.
2. A straight line: a linear model.
3. One layer of splines that the data smooth, with one function more as long as the criterion of `_pieces` falls.
4. If one layer needs many functions, two layers of polynomials, and splines in place of these if they are far ahead.
5. Otherwise one layer with fewer or more pieces, polynomials in place of these splines, and more functions of the
   better kind.
6. If Jacobians are given, the best of these fitted to the values alone, from there: with many samples the values know
   better, and Jacobians were worth the start. Errors on values that are left out decide.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._support._arguments import as_generator
from ..._support._errors import SolverError, silenced
from ..._support._time_limit import now
from ...bases import LayerBasis, Monomial, Spline
from ...model._canonical_form import resize_model
from ...model._decoupling import Decoupling
from ...samples._duplicates import n_distinct_numbers
from ...samples._samples import Samples
from ...solvers import VarPro
from ...solvers.problem._prepared_samples import PreparedSamples
from ...solvers.problem._solution import Status
from ...solvers.problem._solver import with_start
from ...solvers.varpro._search import GIVEN
from .._fit_one_shape import fit_one_shape
from .._pieces import MANY, PIECES, choose_pieces, has_room
from .._relative_errors import Measure
from .._result import Result
from .._settings import Settings, layer_bases
from ._candidates import STRONG_EVIDENCE, Candidate, Limits, Shape
from ._rank_hints import as_polynomial, exact_shapes, hints_of, true_degrees
from ._scan import OutOfTimeError
from ._tails import with_believed_tails

_BOX_POINTS = 500  # corners of the box of the inputs, and as many points inside, where models must stay calm ...
_ROOM = 1.0  # ... within the range of the samples and so many ranges on either side, sqrt(m) times in corners
N_STARTS = 8  # of every shape; from a model of the same ranks there is one
_STEPS, _STEPS_AT_END = 60, 120  # of a search and of its best starts: what will win is seen by then
MIN_SECONDS = 1e-3  # of a fit
RANKS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16)  # of one layer, as long as they pay
_RANKS_OF_SPLINES = RANKS[:-3]  # more of them take long, and polynomials or two layers do as well
RANKS_OF_TWO = (2, 4, 6)  # of two layers
_SCOUTED = 4  # of these ranks are splines; if polynomials are better then, larger ranks are polynomials only
_SMALL_RANK = 3  # up to here one rank that brings nothing ends the growth; beyond, two in a row
_EXACT_SECONDS = 2.0  # for one shape that may meet the samples to rounding
_FIRST_DEGREE = 3  # of polynomials that are asked for without a degree
_DEGREES = (2, 3, 4, 5)  # of polynomials that are tried in place of splines
_HOPELESS = 10.0 * STRONG_EVIDENCE  # against more functions: still more are not tried
_AS_GOOD = 1.01  # times the lowest error on left-out samples: the smallest of these is taken
_BY_VALUES = (
    "The Jacobians gave the start only: fitted to the values alone, the model predicts values of other samples better."
)
_NUMBERS_PER_PARAMETER = 1.2  # at least, of the search with few pieces


class Growth:
    """All models that were fitted so far, and the order in which they are tried."""

    folds = ()

    def __init__(self, samples: Samples, settings: Settings, limits: Limits, *, report: Callable[..., None]) -> None:
        # All fits begin with the same random numbers.
        seed = settings.rng if isinstance(settings.rng, int) else int(as_generator(settings.rng).integers(2**31))
        self.samples, self.limits, self.report = samples, limits, report
        self.settings = dataclasses.replace(settings, rng=seed)
        self.asked = VarPro() if settings.solver is None else settings.solver
        self.solver = _solver(_STEPS) if settings.solver is None else settings.solver
        self.deadline = now() + settings.seconds
        self.prepared = PreparedSamples.of(samples)  # held here, so that all fits share it
        self.measure, self.hints, self.rounding = Measure.of(samples), hints_of(samples), self.prepared.rounding_floor
        self.spline = Spline(PIECES[samples.n_samples >= MANY])
        self.found: dict[Shape, Candidate] = {}
        self._by_values: Candidate | None = None  # fitted without Jacobians, which were worth the start
        self._calm: dict[Shape, bool] = {}
        low, high, draws = samples.X.min(axis=0), samples.X.max(axis=0), np.random.default_rng(0)
        corners = draws.integers(2, size=(_BOX_POINTS, samples.n_inputs))
        self._box = low + (high - low) * np.vstack([corners, draws.uniform(size=corners.shape)])
        # A sum of m inputs is sqrt(m) times as large in a corner as at samples. If inputs hang together, parts of the
        # box are many standard deviations away; samples are sqrt(m) of them away.
        apart = np.linalg.pinv(np.atleast_2d(np.cov(samples.X.T)), hermitian=True)
        away = self._box - samples.X.mean(axis=0)
        distance = np.sqrt(np.maximum(np.einsum("si,ij,sj->s", away, apart, away), 0.0))
        usual = np.repeat([samples.n_inputs**0.5, 1.0], _BOX_POINTS)
        self._reach = np.maximum(usual, distance / samples.n_inputs**0.5)[:, None]
        self._draws = np.random.default_rng(seed)
        self._n_numbers = n_distinct_numbers(samples)

    def run(self) -> None:
        """Try models in the order that the module describes, and ask how far the best one is believed."""
        self._try_models()
        best = self.choice()
        if best.exact or any(basis.smooths for g in best.result.decoupling.g for basis in g.layer.bases):
            return
        wider = with_believed_tails(best.result.decoupling, self.samples)
        if self._is_calm(wider):
            believed = dataclasses.replace(best, result=dataclasses.replace(best.result, decoupling=wider))
            self.found[best.shape] = believed
            self._by_values = None if self._by_values is None else believed

    def _try_models(self) -> None:
        if self.settings.ranks is not None:
            self._choose_functions(layer_bases(self.settings.ranks, None, None))
            return
        if self.settings.degrees is not None or self.settings.basis is not None:
            self._grow_as_asked()
            return
        if self._find_exact_layers():
            return
        self._fit_freely()
        if self.samples.has_jacobians and self.samples.has_values:
            self._fit_values_alone(self.choice())
        self._finish(self.choice())

    def _fit_freely(self) -> None:
        """Models of one layer, and of two if one needs many functions."""
        self._fit_lines()
        if any(one.exact for one in self.found.values()):  # as for outputs that do not vary
            return
        best = self._grow(self.spline, RANKS[:_SCOUTED])
        if best is None:  # too few samples for splines
            self._grow(Monomial(_DEGREES[0]), RANKS)
            return
        grows = best.ranks[0] == RANKS[_SCOUTED - 1] and not best.exact
        two = self._grow_two_layers() if grows else None
        if two is not None and two.score < best.score - _HOPELESS:
            self._fit(two.ranks, Spline(PIECES[0]), near=two.result)
            return
        # A function that is missing looks like a lack of pieces: more of them have to wait.
        best = self._with_other_pieces(best, PIECES[:-1] if grows else PIECES)
        polynomial = self._best_polynomial(best)
        if polynomial is not None and polynomial.score < best.score:
            self._grow(Monomial(polynomial.degrees[0]), RANKS, polynomial)
        elif grows:
            larger = self._grow(self.spline, _RANKS_OF_SPLINES, best)
            if larger is not None and larger is not best:
                self._best_polynomial(self._with_other_pieces(larger))

    def _grow_two_layers(self) -> Candidate | None:
        """The best two layers of polynomials."""
        two = self._grow(Monomial(_FIRST_DEGREE), RANKS_OF_TWO, n_layers=2)
        if two is None or two.exact:
            return two
        higher = self._fit(two.ranks, Monomial(_DEGREES[-1]), near=two.result)
        return two if higher is None or two.score <= higher.score else higher

    def _fit_lines(self) -> None:
        """A linear model, which every other one has to beat."""
        self._fit(min(self.samples.n_inputs, self.samples.n_outputs), Monomial(1))

    def _choose_functions(self, layers: tuple[LayerBasis, ...]) -> None:
        """Polynomials that are exact, or splines or polynomials, for ranks that are given."""
        ranks = tuple(len(layer.bases) for layer in layers)
        if not self._find_exact_layers(ranks):
            splines = self._fit(ranks, self.spline)
            if splines is not None:
                self._best_polynomial(self._with_other_pieces(splines))

    def _grow_as_asked(self) -> None:
        """More functions of the basis that is given, or of polynomials of the degree that is given."""
        basis, degrees = self.settings.basis, self.settings.degrees
        if basis is None or isinstance(basis, type):
            kind = Monomial if basis is None else basis
            best = self._grow(layer_bases(1, degrees or _FIRST_DEGREE, kind)[0].bases[0], RANKS)
            if degrees is None and best is not None and not best.exact:
                for degree in _DEGREES:
                    self._fit(best.ranks, layer_bases(1, degree, kind)[0].bases[0], near=best.result)
        else:
            self._grow(basis, RANKS)

    def _find_exact_layers(self, ranks: tuple[int, ...] | None = None) -> bool:
        """Layers of polynomials that meet the samples to machine precision, of given or suitable ranks."""
        known = as_polynomial(self.samples, self.rounding)
        if known is None and not self.samples.has_jacobians:
            return False
        degree, exact = (None, self.samples) if known is None else known
        count = 1 if degree is None else 2 * N_STARTS
        for shape, degrees in exact_shapes(exact, degree, ranks):
            settings = dataclasses.replace(
                self.settings, ranks=shape, degrees=None, basis=[Monomial(d) for d in degrees], solver=self.solver
            )
            settings = dataclasses.replace(settings, n_starts=count, max_seconds=min(_EXACT_SECONDS, settings.seconds))
            try:
                with silenced():
                    found = fit_one_shape(exact, settings, progress=self.report)
            except SolverError:
                continue
            if found.status is Status.INTERRUPTED:
                self._fit_lines()  # something to return
                raise KeyboardInterrupt
            if found.status is Status.EXACT:
                lower = [Monomial(d) for d in true_degrees(found.decoupling)]
                self._fit(shape, lower, near=found, n_starts=1)
                if all(one.exact for one in self.found.values()):
                    return True
                self.found.clear()
        return False

    def _best_polynomial(self, near: Candidate) -> Candidate | None:
        """Polynomials in place of the functions of a model."""
        tried = [self._fit(near.ranks, Monomial(degree), near=near.result) for degree in _DEGREES]
        return min((c for c in tried if c is not None), key=lambda c: c.score, default=None)

    def _with_other_pieces(self, best: Candidate, tried: tuple[int, ...] = PIECES) -> Candidate:
        """The same functions with as few pieces as do, or with more if fewer do not."""
        for pieces in tried:
            if best.exact or not has_room(self.samples, pieces * best.ranks[0]):
                break
            found = None
            if pieces != self.spline.pieces:
                found = self._fit(best.ranks, Spline(pieces), near=best.result, n_starts=1)
            if found is not None and found.score < best.score:
                best = found
                if pieces < self.spline.n_pieces:
                    break
        return best

    def _finish(self, best: Candidate) -> None:
        """More steps for a model that was still getting better after those of a scan."""
        if best.result.status is Status.OUT_OF_STEPS and self.settings.solver is None:
            self.solver = _solver(_STEPS_AT_END)
            self._refit(best, best.result.samples)

    def _refit(self, best: Candidate, samples: Samples) -> bool:
        """Fit the shape of a model from there, and keep what predicts values that are left out better."""
        bases = [g.layer.bases for g in best.result.decoupling.g]
        found = self._fit(best.ranks, bases, near=best.result, n_starts=1, samples=samples)
        if found is None:
            return False
        errors = found.left_out[-1], best.left_out[-1]
        is_better = errors[0] < errors[1] if np.all(np.isfinite(errors)) else found.score < best.score
        # Without Jacobians, a model whose slopes are further off than none is as far off between the samples.
        is_better &= samples is best.result.samples or found.squares[0] < 1.0
        if not is_better:
            self.found[best.shape] = best
        elif not samples.has_jacobians:
            told = dataclasses.replace(found.result, notes=(*found.result.notes, _BY_VALUES))
            self._by_values = self.found[best.shape] = dataclasses.replace(found, result=told)
        return is_better

    def _fit_values_alone(self, best: Candidate) -> None:
        """The shape of a model, fitted from there to values without Jacobians."""
        alone = Samples(
            self.samples.X,
            F=self.samples.F,
            weights=self.samples.weights,
            inputs=self.samples.inputs,
            outputs=self.samples.outputs,
        )
        self._refit(best, alone)

    def _grow(
        self,
        basis: Any,
        ranks: tuple[int, ...],
        best: Candidate | None = None,
        *,
        n_layers: int = 1,
    ) -> Candidate | None:
        """Layers of a basis, with more functions than the best so far as long as that pays."""
        idle = 0
        for rank in ranks if best is None else [rank for rank in ranks if rank > best.ranks[0]]:
            if best is not None and rank > self.limits.ranks(1)[0]:
                break
            larger = self._fit((rank,) * n_layers, basis, near=None if best is None else best.result)
            if larger is None:
                break
            if best is None or larger.score < best.score - STRONG_EVIDENCE:
                best, idle = larger, 0
            else:
                idle += 1
            again = (rank > _SMALL_RANK or n_layers > 1) and larger.score < best.score + _HOPELESS
            if best.exact or idle == 1 + again:
                break
        return best

    def choice(self) -> Candidate:
        """Of the models that stay in range, the smallest that none is strongly better than, with the best functions."""
        if self._by_values is not None:
            return self._by_values
        calm = [c for c in self.found.values() if c.exact or self._stays_in_range(c)] or list(self.found.values())
        lowest = min(c.score for c in calm)
        close = (c for c in calm if c.score <= lowest + STRONG_EVIDENCE)
        smallest = min(close, key=lambda c: (c.n_parameters, c.score))
        if smallest.degrees == (1,):  # whatever bends has not earned it
            return smallest
        # The criterion knows how many functions there are, errors on left-out samples of which kind they are.
        alike = [c for c in calm if c.ranks == smallest.ranks and c.score <= smallest.score + _HOPELESS]
        least = min(c.left_out_error for c in alike)
        if smallest.exact or not np.isfinite(least):
            return smallest
        return min((c for c in alike if c.left_out_error <= _AS_GOOD * least), key=lambda c: (c.n_parameters, c.score))

    def _stays_in_range(self, candidate: Candidate) -> bool:
        """Whether the values of a model in the box of the inputs, corners included, are like those of the samples."""
        if candidate.shape not in self._calm:
            self._calm[candidate.shape] = self._is_calm(candidate.result.decoupling)
        return self._calm[candidate.shape]

    def _is_calm(self, model: Decoupling) -> bool:
        F = self.samples.F
        if F is None:
            return True
        values, low, high = model.values(self._box), np.min(F, axis=0), np.max(F, axis=0)
        room = _ROOM * self._reach * (high - low)
        return bool(np.all((values >= low - room) & (values <= high + room)))

    def allowed_error(self) -> float:
        """No model is refused for its error on validation samples alone."""
        return np.inf

    def _fit(
        self,
        ranks: int | tuple[int, ...],
        basis: Any,
        *,
        near: Result | None = None,
        n_starts: int | None = None,
        samples: Samples | None = None,
    ) -> Candidate | None:
        """Fit one shape, from a model of other ranks or bases if there is one; None if the samples are too few."""
        samples = self.samples if samples is None else samples
        settings = dataclasses.replace(self.settings, ranks=ranks, degrees=None, basis=basis)
        seconds = self.deadline - now()
        if self.found and seconds <= 0.0:
            raise OutOfTimeError
        searched = dataclasses.replace(settings, basis=[layer.coarser().bases for layer in settings.layers])
        if self.found and _NUMBERS_PER_PARAMETER * searched.n_free(samples) > self._n_numbers:
            return None
        count, method = n_starts or settings.n_starts or N_STARTS, self.solver
        layers = settings.layers
        is_same = near is not None and near.decoupling.ranks == tuple(len(layer.bases) for layer in layers)
        # More functions of many pieces are searched with few pieces, for which a start would have to be as coarse.
        if near is not None and (is_same or layers == searched.layers):
            method = with_start(self.solver, resize_model(near.decoupling, layers, samples.X, self._draws)) or method
            count = 1 if is_same else count
        limit = None if settings.max_seconds is None else max(seconds, MIN_SECONDS)
        settings = dataclasses.replace(settings, solver=method, n_starts=count, max_seconds=limit)
        try:
            with silenced():  # a scan says at its end what it found
                result, judged = choose_pieces(
                    samples, settings, self.measure, self.rounding, self.report, self.samples
                )
        except SolverError:
            return None
        model = result.decoupling
        if not judged.is_exact and not any(b.smooths for g in model.g for b in g.layer.bases):
            model = model.with_outside("linear")  # powers explode in corners that no sample visits
        asked = dataclasses.replace(result.settings, solver=self.asked)
        by = result.found_by if near is None or result.found_by != GIVEN else near.found_by
        result = dataclasses.replace(result, decoupling=model, settings=asked, found_by=by)
        found = Candidate(
            result.decoupling.ranks,
            result.decoupling.degrees,
            result,
            judged.squares,
            self.measure.counts,
            settings.n_free(self.samples),
            np.sqrt(np.mean(np.square([judged.left_out]), axis=1)),
            self.rounding,
            result.seconds,
            judged=judged.criterion,
            left_out=judged.left_out,
        )
        self.found[found.shape] = found
        self._calm.pop(found.shape, None)
        if result.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        return found


def _solver(steps: int) -> VarPro:
    return VarPro(max_steps=steps, polish_steps=steps)
