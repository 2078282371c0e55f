"""Dynamic models of many kinds, compared in simulation on data that none of them was fitted to.

A kind is a number of states and a list of functions. Validation data are the last part of the record and the part in
which the signals are largest, so that a model must reach beyond what it was fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_counts, as_flag, as_generator, as_number
from ..._support._errors import InputError, pluralised
from ..._support._machine import one_thread
from ..._support._progress import progress_callback
from ..._support._time_limit import TimeLimit, now
from ...bases import LayerBasis, Monomial
from ..free_run._fit import FitResult, FreeRunObjective, fit_free_run
from ..free_run._linear import fit_linear
from ..free_run._simulation import simulate
from ..free_run._step import StepArrays, spectral_radius
from ..signals._records import RecordBatch, Signals, SignalUnits, parted
from ._boundedness import LARGER, escape, larger_response, with_tails
from ._dead_time import dead_time, with_late_inputs
from ._decoupled import DecoupledStateSpace
from ._drift import remarks_on_drift
from ._identification import AT_ROUNDING, End, Identification, Kind
from ._initial_models import Candidate, candidates, turning_rate, with_lagged_input, with_rate
from ._search import StateSpaceStart, in_measured_units, initial_states, validation_error
from ._structure import StateSpaceStructure, Tails, functions_called, read_layers

_ORDERS = (1, 2, 3, 4, 5, 6)  # of linear models
_SCAN_SHARE = 0.65  # of the time; the rest is for the best
_SCAN_SAMPLES = 8192  # outputs that a model is tried on
_SCAN_STEPS, _LAST_STEPS = 100, 80  # of a trial, and of the best ones
_SCAN_SETTLES_AT, _LAST_SETTLES_AT = 1e-3, 1e-4
_CLEARLY_BETTER = 0.95  # functions, or a direct path, must lower the linear model's error on held-back data to this
_BETTER = 0.98  # and more parameters that of a model with functions: near the noise, misfit hides in a few percent
_WINDOWS, _OTHER_RATE, _MOST_OF_ANGLES = (30, 100, 400), 0.01, 3  # of models of angles: samples, rates, states
_AS_GOOD, _DIFFERS = 1.5, 0.2  # error relative to the chosen model's, and differences on larger inputs that are told
_SECOND_CHANCES, _FINALISTS, _MOST_RESTARTS = 8, 3, 6  # kinds with two starts, kinds with more, and how many more
_NEARLY_AS_GOOD, _MOST_ORDERS = 1.2, 4  # errors of linear models, and orders that functions are tried with
_INTEGRATES = 0.02  # distance of the slowest pole from 1 below which a model with an integrator is tried
_FIRST_LISTS = ("tanh, tanh", "cubic, cubic", "cubic, state-tanh")
_SECOND_LISTS = (
    "cubic, cubic, cubic",
    "spline, spline",
    "tanh, tanh, tanh",
    "cubic, state-tanh, state-tanh",
    "spline, state-tanh",
    "wave",
)


def identify(
    u: object,
    y: object,
    *,
    n_states: Any = None,
    functions: Any = None,
    stable: bool = False,
    sampling_time: Any = None,
    max_seconds: float | None = 30.0,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> Identification:
    """Find a dynamic model for one record, or for lists of records: the best one whose simulation can be trusted.

    Linear models of several orders come first. Then models with functions of several kinds are compared in simulation
    on data that were held back. The best one is fitted to all data and tried on larger inputs. If no model is clearly
    better than the linear one, that is the answer.

    Parameters
    ----------
    u, y : array (T,) or (T, channels), or lists of them
        Inputs and outputs. Records are cut at samples with NaN. Do not subtract means: offsets are part of the
        model.
    n_states : int or sequence of int, optional
        A number of states, or several; chosen from the data by default.
    functions : sequence of bases, optional
        A list of functions as for `DecoupledStateSpace`, if only these are to be tried; an empty one for linear models.
    stable : bool
        Only models that have a bounded output for every bounded input: a linear part with all poles inside the unit
        circle, and bounded functions. Otherwise such a model is the second choice, if the best one diverges.
    sampling_time : float or array (T,), optional
        Seconds between samples, or the times of all samples, which must be equally spaced. The model keeps it.
    max_seconds : float, optional
        About the time that it takes at most, or None for no limit. Ctrl-C ends it early, with the best so far.
    rng : int or numpy Generator
        The same seed gives the same result, if the time limit is not reached.
    progress : bool or callable
        True shows a bar on a terminal after two seconds; a callable gets named values.

    Returns
    -------
    Identification
        The model, a verdict, and the other models that were tried.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 600)
    >>> y = np.zeros(600)
    >>> for t in range(1, 600):
    ...     y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    >>> found = dc.sysid.identify(u, y, n_states=1, functions=[dc.Monomial(3)], progress=False)
    >>> bool(np.allclose(found.simulate(u, y[:20]), y, atol=1e-4)), found.is_bounded
    (True, True)
    """
    signals = Signals.without_gaps(u, y, sampling_time)
    SignalUnits.of(signals, 1)  # an error if something does not vary
    orders = _ORDERS if n_states is None else as_counts("n_states", n_states)
    only_linear = isinstance(functions, Sequence) and len(functions) == 0
    given = None if functions is None or only_linear else read_layers(functions, None, None, Monomial)
    limit = None if max_seconds is None else as_number("max_seconds", max_seconds, above=True)
    with progress_callback(progress, "Identifying") as report, one_thread(), np.errstate(all="ignore"):
        began = now()
        race = Race(signals, as_generator(rng), given, stable=as_flag("stable", stable), delay=dead_time(signals))
        seconds = None if limit is None else _SCAN_SHARE * limit
        race.run(orders, only_linear=only_linear, report=TimeLimit(report, seconds))
        left = None if limit is None else max(limit - (now() - began), 1e-3)
        return race.finish(TimeLimit(report, left))


class Race:
    """Kinds of models for some records; `run` tries them, and `finish` makes the best one that can be trusted.

    With a `delay` inputs are that many samples late in all trials, and the model that is made keeps them meanwhile.
    """

    def __init__(
        self,
        measured: Signals,
        rng: np.random.Generator,
        given: tuple[tuple[LayerBasis, ...], tuple[bool, ...]] | None,
        *,
        stable: bool,
        delay: int = 0,
    ) -> None:
        self.measured, self.rng, self.given, self.stable, self.delay = measured, rng, given, stable, delay
        self.signals = measured.without_delay(delay)
        self.units = SignalUnits.of(self.signals, 1)
        self.everything = self.units.batch(self.signals)
        self.training, self.held = parted(self.everything)
        self.part = self.training.first_samples(_SCAN_SAMPLES)
        self.linear: list[Kind] = []
        self.kinds: list[Kind] = []
        self.feedthrough, self.integrating, self.interrupted = True, False, False
        self._bases: dict[tuple[int, bool], list[FitResult]] = {}

    # Trials

    def run(self, orders: tuple[int, ...], *, only_linear: bool, report: TimeLimit) -> None:
        """Try linear models, then functions of several kinds, until the time is up."""
        try:
            self._try_linear(orders, report)
            if only_linear:
                return
            if self.given is None:
                self._try_angle(orders, report)
            for n in self._orders_with_functions(orders):
                for words in _FIRST_LISTS if self.given is None else ("",):
                    self._try(n, words, report)
            if self.given is None and (leaders := self.ranking()):
                for n in list(dict.fromkeys(kind.structure.n_states for kind in leaders))[:2]:
                    for words in _SECOND_LISTS:
                        self._try(n, words, report)
            for kind in sorted(self.kinds, key=lambda kind: kind.error)[:_SECOND_CHANCES]:
                self._start(kind, report)
            for kind in self.ranking()[:_FINALISTS]:
                self._longer(kind, kind.best, report)
            for _ in range(_MOST_RESTARTS):
                if not (leaders := self.ranking()) or leaders[0].agreement[0] > 2:
                    break
                for kind in leaders[:_FINALISTS]:
                    self._start(kind, report)
                    self._longer(kind, kind.ends[-1], report)
        except KeyboardInterrupt:
            self.interrupted = not report.is_over

    def _orders_with_functions(self, orders: tuple[int, ...]) -> list[int]:
        """The best linear model's and its neighbours, and the least: linear models use states for what functions do."""
        n, enough = self.best_linear.structure.n_states, _NEARLY_AS_GOOD * self.best_linear.error
        few = max(2, min(kind.structure.n_states for kind in self.linear if kind.error <= enough))
        wanted = (few, few + 1, n, n + 1, n - 1 if n > 2 else n + 2)
        return [n for n in dict.fromkeys(wanted) if n in orders][:_MOST_ORDERS]

    def _try_linear(self, orders: tuple[int, ...], report: TimeLimit) -> None:
        """Linear models of growing order, until two more states do not help."""
        for n in orders:
            if self.linear:  # whatever the time limit, there is one
                report(stage=f"linear model with {pluralised(n, 'state')}", done=0, total=None)
            try:
                self._add_linear(n, feedthrough=True)
            except InputError as error:
                if not self.linear:
                    held_back = "The other samples of the record are held back."
                    raise InputError(" ".join(filter(None, (str(error), held_back, self.measured.gaps)))) from error
                break  # the record is too short for more states
            best = min(self.linear, key=lambda kind: kind.error)
            if len(orders) > 1 and n >= best.structure.n_states + 2:
                break
        n, p = self.best_linear.structure.n_states, self.signals.n_outputs
        without = self._add_linear(n, feedthrough=False)
        self.feedthrough = without.error * _CLEARLY_BETTER > self.best_linear.error
        self.linear.remove(without) if self.feedthrough else None
        poles = np.linalg.eigvals(self.best_linear.best.fit.step.linear[:n, :n])
        if max(n, 2) > p and np.abs(poles - 1.0).min() < _INTEGRATES and not self.stable:
            drifting = self.best_linear.error
            with_integrator = self._add_linear(max(n, 2), feedthrough=False, integrating=True)
            if with_integrator.error < drifting:
                self.integrating, self.feedthrough = True, False
            else:
                self.linear.remove(with_integrator)

    def _add_linear(self, n: int, *, feedthrough: bool, integrating: bool = False) -> Kind:
        layers = (LayerBasis((Monomial(1),)),)
        structure = StateSpaceStructure(n, layers, (False,), feedthrough=feedthrough, integrating=integrating)
        kind = Kind("", structure)
        k = structure.n_integrators(self.signals.n_outputs)
        fit = fit_linear(self.part, self.part, n, feedthrough=feedthrough, n_integrators=k)
        free = structure.free_entries(fit.step)
        free = {name: mask if name in ("linear", "offset") else np.zeros_like(mask) for name, mask in free.items()}
        kind.ends.append(End(fit, Candidate("linear", fit.step, free), validation_error(fit, self.held)))
        self.linear.append(kind)
        return kind

    @property
    def best_linear(self) -> Kind:
        return self._smallest_good(self.linear)

    def _linear_starts(self, n: int, structure: StateSpaceStructure) -> list[FitResult]:
        """Linear models that functions are added to, the one with the smaller error on held-back data first.

        One was fitted with n states. Its last pole may be a slow drift that is not in the system, and a descent does
        not leave it. The other one is the best with a state fewer, and an input through a lag that nothing uses yet.
        """
        k = structure.n_integrators(self.signals.n_outputs)
        if (n, k > 0) not in self._bases:
            found = [fit_linear(self.part, self.part, n, feedthrough=structure.feedthrough, n_integrators=k)]
            if n > max(1, 2 * k):
                found.append(with_lagged_input(self._linear_starts(n - 1, structure)[0]))
            self._bases[n, k > 0] = sorted(found, key=lambda fit: validation_error(fit, self.held))
        return self._bases[n, k > 0]

    def _try_angle(self, orders: tuple[int, ...], report: TimeLimit) -> None:
        """An output that counts revolutions: it integrates, and a force repeats with it."""
        rate = turning_rate(self.training) if self.signals.n_outputs == 1 and not self.stable else None
        for n in orders if rate is not None else ():
            if 2 <= n <= _MOST_OF_ANGLES:
                layers, state_only = functions_called("wave")
                structure = StateSpaceStructure(n, layers, state_only, feedthrough=False, integrating=True)
                self.kinds.append(Kind("wave of the angle", structure, rate))
                self._start(self.kinds[-1], report)

    def _try(self, n: int, words: str, report: TimeLimit) -> None:
        layers, state_only = self.given or functions_called(words)
        if n <= self.signals.n_outputs and self.integrating:
            return
        structure = StateSpaceStructure(
            n, layers, state_only, feedthrough=self.feedthrough, integrating=self.integrating, stable=self.stable
        )
        words = words or ", ".join(type(basis).__name__.lower() for layer in layers for basis in layer.bases)
        kind = Kind(words, structure)
        self.kinds.append(kind)
        self._start(kind, report)

    def _start(self, kind: Kind, report: TimeLimit) -> None:
        """One more start of a kind: from each linear model a deterministic one, then random ones."""
        structure, n, count = kind.structure, kind.structure.n_states, len(kind.ends)
        try:
            linear = self._linear_starts(n, structure)
            base = linear[count % len(linear)]
        except InputError:  # too short for so many states
            self.kinds.remove(kind)
            return
        run = simulate(base.step, self.part, base.x0)
        if run is None:
            return
        *_, candidate = candidates(structure, base.step, run.points, 1 if count < len(linear) else 2, self.rng)
        fit = replace(base, step=candidate.step)
        if kind.rate is not None:  # a free run that misses a revolution is far off for good: short windows first
            other = 1.0 if count < len(linear) else 1.0 + _OTHER_RATE * self.rng.standard_normal()
            fit = replace(fit, step=with_rate(candidate.step, n, other * kind.rate))
        for window in (None,) if kind.rate is None else _WINDOWS:
            part = self.part.windows(window)
            x0 = initial_states(fit if window else base, part, structure.n_integrators(self.signals.n_outputs))
            fit = self._fit(kind, candidate, fit.step, part, x0, _SCAN_STEPS, _SCAN_SETTLES_AT, report)
        self._keep(kind, End(fit, candidate, validation_error(fit, self.held)))

    def _longer(self, kind: Kind, end: End, report: TimeLimit) -> None:
        """Take one start of a kind to the end."""
        batch = self.training
        if not math.isfinite(end.error):
            return
        x0 = initial_states(end.fit, batch, kind.structure.n_integrators(self.signals.n_outputs))
        fit = self._fit(kind, end.candidate, end.fit.step, batch, x0, _LAST_STEPS, _LAST_SETTLES_AT, report)
        if math.isfinite(fit.rmse):
            ended, where = self._with_tails(kind, fit, batch)
            larger = None if ended is None else larger_response(ended.step, ended.x0[0], self.units, self.signals)
            kind.ends.remove(end)
            self._keep(kind, End(fit, end.candidate, validation_error(fit, self.held), where, True, larger))

    def _fit(
        self,
        kind: Kind,
        candidate: Candidate,
        step: StepArrays,
        batch: RecordBatch,
        x0: ndarray,
        max_steps: int,
        settles_at: float,
        report: TimeLimit,
    ) -> FitResult:
        best = min((k.error for k in (*self.kinds, *self.linear)), default=math.inf)
        size = pluralised(kind.structure.n_states, "state")
        stage = f"{size}, {kind.words or 'linear'} (best so far: {100 * best:.3g} %)"
        done = len(self.kinds)
        objective = FreeRunObjective(
            candidate.parameters(step), batch, x0, known_x0=kind.structure.integrating, stable=kind.structure.stable
        )
        return fit_free_run(
            objective, max_steps=max_steps, settles_at=settles_at,
            progress=lambda cost: report(stage=stage, done=done, total=None, objective=math.sqrt(cost)),
        )  # fmt: skip

    def _keep(self, kind: Kind, end: End) -> None:
        """One more end of a kind; if the time was up, the trials are over."""
        kind.ends.append(end)
        if end.fit.interrupted:
            raise KeyboardInterrupt

    # The choice

    def ranking(self, *, bounded: bool = True) -> list[Kind]:
        """Kinds with functions that are clearly better than the best linear model, the best first.

        Those that run away on larger inputs are left out unless `bounded` is False.
        """
        least = self.best_linear.error * _CLEARLY_BETTER if self.best_linear.error > AT_ROUNDING else 0.0
        left = [kind for kind in self.kinds if kind.error < least and not (bounded and kind.best.escapes_on)]
        ranked = []
        while left:
            ranked.append(self._smallest_good(left))
            left.remove(ranked[-1])
        return ranked

    def _smallest_good(self, kinds: list[Kind]) -> Kind:
        """The smallest kind that no larger one is clearly better than."""
        by_size = sorted(kinds, key=lambda kind: kind.n_parameters(self.signals.n_outputs))
        best = by_size[0]
        for kind in by_size[1:]:
            if kind.error < (_BETTER if kind.words else _CLEARLY_BETTER) * best.error:
                best = kind
        return best

    def finish(self, report: TimeLimit) -> Identification:
        """The best kind that does not diverge, fitted to all data, and what is to be said of it."""
        refused: list[Kind] = []
        for kind in self.ranking(bounded=False):
            end = self._bounded(kind, report)
            if end is not None:
                chosen, fit, structure = end
                return self._outcome(chosen, fit, structure, None, refused)
            refused.append(kind)
        # Of linear models the best one that stays bounded; the best of all if none does.
        ends = []
        for kind in dict.fromkeys((self.best_linear, *sorted(self.linear, key=lambda kind: kind.error))):
            fit = self._on_everything(kind, report)
            ends.append((kind, fit, self._escape(kind, fit)))
            if ends[-1][2] is None:
                break
            kind.note = f"diverges on {ends[-1][2]}"
        kind, fit, where = ends[-1] if ends[-1][2] is None else ends[0]
        return self._outcome(kind, fit, kind.structure, where, refused)

    def _outcome(
        self, kind: Kind, fit: FitResult, structure: StateSpaceStructure, where: str | None, refused: list[Kind]
    ) -> Identification:
        kind.note = "chosen"
        rows = tuple(kind.row(self.signals.n_outputs) for kind in (*self.linear, *self.kinds) if kind.ends)
        verdict = self._verdict(kind, where, refused)
        return Identification(self._model(kind, fit, structure), rows, verdict, where is None, kind.agreement)

    def _bounded(self, kind: Kind, report: TimeLimit) -> tuple[Kind, FitResult, StateSpaceStructure] | None:
        """A kind on all data with tails that keep it bounded, or one that is by design; None if linear is better."""
        for u, y in zip(self.held.u, self.held.y, strict=True):  # one of them is louder than all training data
            part = RecordBatch((u,), (y,))
            if validation_error(kind.best.fit, part) > validation_error(self.best_linear.best.fit, part):
                kind.note = "worse than linear on a part of the validation data"
                return None
        fit = self._on_everything(kind, report)
        if fit.rmse > _CLEARLY_BETTER * max(self.best_linear.best.fit.rmse, self.best_linear.error):
            kind.note = "no better than linear on all data"
            return None
        ended, where = self._with_tails(kind, fit, self.everything)
        if ended is not None:
            return kind, ended, replace(kind.structure, layers=ended.step.layers)
        kind.note = f"diverges on {where}"
        return None if kind.structure.stable else self._bounded_by_design(kind, report)

    def _with_tails(self, kind: Kind, fit: FitResult, batch: RecordBatch) -> tuple[FitResult | None, str | None]:
        """A fit to these records with tails that keep it bounded, or on which input it runs away with all of them."""
        run, where = simulate(fit.step, batch, fit.x0), None
        if run is None:
            return None, "the record itself"
        tails: tuple[Tails, ...] = () if kind.structure.stable else ("linear", "constant")
        for end in [replace(fit, step=with_tails(fit.step, run.points, some)) for some in tails] or [fit]:
            where = self._escape(kind, end)
            if where is None:
                return end, None
        return None, where

    def _bounded_by_design(self, kind: Kind, report: TimeLimit) -> tuple[Kind, FitResult, StateSpaceStructure] | None:
        """The same kind with a stable linear part and bounded functions, if none that is bounded anyway is better."""
        stable = Kind(f"{kind.words}, stable", replace(kind.structure, stable=True))
        try:
            self._start(stable, report)
            self._longer(stable, stable.ends[-1], report)
        except KeyboardInterrupt:
            pass
        bounded = min((kind.error for kind in self.ranking()), default=_CLEARLY_BETTER * self.best_linear.error)
        if not stable.error < bounded:
            return None
        self.kinds.append(stable)
        return self._bounded(stable, report)

    def _on_everything(self, kind: Kind, report: TimeLimit) -> FitResult:
        """The best end of a kind, continued on all data."""
        fit, candidate = kind.best.fit, kind.best.candidate
        k = kind.structure.n_integrators(self.signals.n_outputs)
        x0 = initial_states(fit, self.everything, k)
        longer = self._fit(kind, candidate, fit.step, self.everything, x0, _LAST_STEPS, _LAST_SETTLES_AT, report)
        return longer if math.isfinite(longer.rmse) else replace(fit, x0=x0)

    def _escape(self, kind: Kind, fit: FitResult) -> str | None:
        n = fit.x0.shape[1]
        if self.stable and spectral_radius(fit.step, n) >= 1.0:  # linear models are fitted without that constraint
            return "a long constant input"
        return escape(fit.step, n, fit.x0[0], self.units, self.signals, self.rng, long=not kind.structure.integrating)

    def _model(self, kind: Kind, fit: FitResult, structure: StateSpaceStructure) -> DecoupledStateSpace:
        best = kind.best
        linear = fit if not kind.words else self._linear_starts(structure.n_states, structure)[0]
        rows = [StateSpaceStart("linear", linear.rmse, validation_error(linear, self.held), linear.steps)]
        for i, end in enumerate(kind.ends if kind.words else ()):
            steps, training = end.fit.steps, end.fit.rmse
            rows.append(StateSpaceStart(f"start {i + 1}", training, end.error, steps, chosen=end is best))
        count = best.candidate.parameters(best.fit.step).count
        if self.delay:
            n_delayed = self.delay * self.signals.n_inputs
            structure = replace(structure, n_states=structure.n_states + n_delayed, n_delayed=n_delayed)
            fit, linear = (with_late_inputs(some, self.delay) for some in (fit, linear))
        record = in_measured_units(fit, linear, self.units, self.measured, tuple(rows))
        return DecoupledStateSpace.of(structure, replace(record, n_free=count))

    def _difference_on_larger_input(self, kind: Kind) -> float:
        """By how much the next best models differ from this one on larger inputs, as a share of its signal."""
        mine, others = kind.best.larger, [k.best.larger for k in self.ranking() if k.error < _AS_GOOD * kind.error]
        sizes = [
            float(np.sqrt(np.mean((y - mine) ** 2)) / mine.std()) for y in others if y is not None and mine is not None
        ]
        return max(sizes, default=0.0)

    def _verdict(self, kind: Kind, where: str | None, refused: list[Kind]) -> str:
        n, linear = kind.structure.n_states, self.best_linear
        sentences = []
        if not kind.words:
            reason = (
                "no model with functions is clearly better on validation data" if self.kinds else "no other was tried"
            )
            if refused:
                reason = "models with functions diverge or are no better on all data"
            sentences.append(
                f"A linear model with {pluralised(n, 'state')} is the answer: {reason}. It leaves "
                f"{100 * kind.error:.3g} % of the signal there."
            )
        else:
            sentences.append(
                f"{pluralised(n, 'state')} and the functions {kind.words}: the simulation error is "
                f"{100 * kind.error:.3g} % of the signal on validation data, that of the best linear "
                f"model {100 * linear.error:.3g} %."
            )
            alike, count = kind.agreement
            if count > 1 and alike < 2:
                sentences.append(f"The {count} starts do not agree: a longer search may find a better model.")
            elif count > 1:
                sentences.append(f"{alike} of {count} starts agree within 5 %.")
        if where is not None:
            sentences.append(f"Its simulation diverges on {where}: do not use it for long runs.")
        elif kind.structure.stable:
            sentences.append("Every bounded input has a bounded output, by design.")
        else:
            sentences.append(f"The simulation stays bounded, also on inputs {LARGER:g} times as large.")
        if (differs := self._difference_on_larger_input(kind)) > _DIFFERS:
            sentences.append(
                f"Models that fit as well differ there by {100 * differs:.2g} % of the signal: record larger inputs "
                "before you rely on it."
            )
        if self.delay:
            seconds = self.measured.sampling_time
            delay = pluralised(self.delay, "sample") + ("" if seconds is None else f" ({seconds * self.delay:.3g} s)")
            sentences.append(f"The output follows the input after a delay of {delay}, which it includes.")
        if kind.structure.integrating:
            sentences.append("The output adds up the input, so that errors add up too.")
        sentences += self.measured.remarks()
        sentences += remarks_on_drift(self.everything, self.signals.begins, linear.structure.n_states)
        if self.interrupted:
            sentences.append("The search was interrupted.")
        return " ".join(sentences)
