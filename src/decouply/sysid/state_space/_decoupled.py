r"""Decoupled state space: linear dynamics plus a decoupling, fitted to the free run.

    x(t+1) = A x(t) + B u(t) + W_x g(V x(t) + V_u u(t)),      y(t) = C x(t) + D u(t) + c_y + W_y g(...)

One step (x, u) -> (x+, y) is a `Decoupling` with a linear part: files, formulas, source code, ONNX and pictures of
decouplings are those of one step.
"""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count, as_generator
from ..._support._blas_threads import one_thread
from ..._support._errors import DecouplingWarning, InputError, SolverError
from ..._support._messages import pluralised
from ..._support._progress import progress_callback
from ..._support._time_limit import TimeLimit
from ...bases import AbstractBasis, Monomial
from ...model._decoupling import Decoupling
from ...model._functions import Outside
from ...solvers.problem._start_distributions import MOST_STARTS
from ...write._formula import Kind
from ...write._function_names import as_function_name, as_language
from ...write._step_source import state_space_source
from .._files import load_state_space, save_state_space
from .._report_data import dynamics
from ..free_run._fit import InitialStatePrior, fit_initial_states
from ..free_run._free_parameters import FreeParameters
from ..free_run._linear import LinearStateSpace
from ..free_run._recursion import Recursion
from ..free_run._simulation import one_step_corrections, simulate
from ..free_run._step_arrays import StepArrays
from ..narx._decoupled import on_range
from ..narx._simulation import warn_of_escape
from ..signals._record_batch import SignalUnits
from ..signals._records import Signals, as_signal, held_back
from ._canonical import canonical_form
from ._fit_record import StateSpaceFit, in_measured_units, variable_names
from ._search import SearchData, SearchResult, StateSpaceSearch, StateSpaceStart
from ._structure import StateSpaceStructure, read_layers

_VALIDATION_SAMPLES_PER_STATE = 4  # the initial state is found from some, the others judge

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DecoupledStateSpace:
    """A state-space model of linear dynamics plus a decoupling, fitted to the free run.

    x+ = A x + B u + W_x g(V x + V_u u), y = C x + D u + c_y + W_y g(V x + V_u u).

    Parameters
    ----------
    n_states
        The number n of states.
    functions
        The internal functions of one layer: a basis for each, or `StateFunction` of one.
    ranks, degrees, basis
        Instead of `functions`: as for `dc.decouple`, for one or more layers. By default two polynomials of degree 3.
    oversample
        Steps of the recursion per sample. Inputs in between are interpolated with limited bandwidth, which looks ahead:
        with more than 1 the model is not causal.
    feedback
        Without it, functions stand between two linear blocks (Wiener-Hammerstein): the starts are the ways to share
        out the poles between them.
    feedthrough
        Without it, the input and the functions do not reach the output at once: D = 0 and W_y = 0.
    integrating
        Every output adds up what the other states give, as a position adds up a velocity: it is a state of its own with
        a pole at exactly 1, and training begins where the first outputs say. Where such a pole and the first velocity
        are left to a fit, outputs drift away.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 600)
    >>> y = np.zeros(600)
    >>> for t in range(1, 600):
    ...     y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    >>> model = dc.sysid.DecoupledStateSpace(1, functions=[dc.Monomial(3)], feedthrough=False).fit(u, y, n_starts=1)
    >>> bool(np.allclose(model.simulate(u, y[:20]), y, atol=1e-6))
    True
    >>> model.n_parameters, model.canonical().n_parameters
    (9, 6)
    """

    def __init__(
        self,
        n_states: int,
        functions: Any = None,
        *,
        ranks: int | Sequence[int] | None = None,
        degrees: int | Sequence[int] | None = None,
        basis: Any = Monomial,
        oversample: int = 1,
        feedback: bool = True,
        feedthrough: bool = True,
        integrating: bool = False,
    ) -> None:
        as_count("n_states", n_states)
        layers, state_only = read_layers(functions, ranks, degrees, basis)
        self.structure = StateSpaceStructure(
            n_states, layers, state_only, oversample, feedback, feedthrough, integrating
        )
        self._fit: StateSpaceFit | None = None
        self._is_canonical = False

    # Training

    def fit(
        self,
        u: object,
        y: object,
        *,
        n_starts: int = 5,
        validation: Any = 0.25,
        window: int | None = None,
        max_steps: int = 40,
        max_seconds: float | None = None,
        start: Any = None,
        rng: int | np.random.Generator = 0,
        progress: bool | Callable[..., None] = True,
    ) -> DecoupledStateSpace:
        """Fit the free run of one record, or of lists of records, and return the model.

        A linear model comes first, then every start on the beginning of the records; the start with the smallest error
        on the validation record is finished on all data. Ctrl-C keeps the best so far.

        Parameters
        ----------
        u, y
            Records of shape (T,) or (T, channels), or lists of them.
        n_starts
            The first start is deterministic: functions of the outputs of the linear model and of their changes. The
            others are random. Without feedback, a third as many for each way to share out the poles.
        validation
            The share of the longest record that is held back at its end, or a record (u, y) of its own.
        window
            Begin with windows of so many samples, each with an initial state of its own (multiple shooting), where a
            free run over whole records drifts or is unstable; windows then grow to whole records, as far as the model
            can be run over them.
        max_steps
            Steps of the chosen start on the first 16384 samples of long records, before all data are used; fewer are
            taken where the error settles earlier.
        max_seconds
            Ends the fit in time, with the best so far: starts that were not reached are left out, and the chosen one is
            not finished. No limit by default.
        start
            A model to begin with beside the other starts: anything with `n_states` and `step` and the same functions,
            such as another `DecoupledStateSpace`, or a `DecoupledNARX`, whose states are past inputs and outputs.
        """
        signals = Signals.read(u, y)
        starts, steps = as_count("n_starts", n_starts, most=MOST_STARTS), as_count("max_steps", max_steps)
        structure, n = self.structure, self.n_states
        length = None if window is None else as_count("window", window, least=2 * n + 2)
        units = SignalUnits.of(signals, structure.oversample)
        training, validating = held_back(signals, validation, _VALIDATION_SAMPLES_PER_STATE * n)
        k = structure.n_integrators(signals.n_outputs)
        if k >= n:
            raise InputError(f"`n_states` must be above the number of outputs, {k} here, with `integrating`. Got {n}.")
        given = None if start is None else StepArrays.of(self._given(start, signals)).in_standard_units(units)
        data = SearchData(
            units.batch(training), units.interpolated_batch(training), units.batch(validating), units.batch(signals)
        )
        with progress_callback(progress, "Identifying") as report, one_thread(), np.errstate(all="ignore"):
            limit = TimeLimit(report, max_seconds)
            found = StateSpaceSearch(
                structure,
                data,
                n_starts=starts,
                max_steps=steps,
                window=length,
                given=given,
                rng=as_generator(rng),
                report=limit,
            ).run()
            if found.interrupted:
                warnings.warn(limit.reason, DecouplingWarning, stacklevel=2)
            if found.fit is found.linear and not found.interrupted:
                raise SolverError(
                    "No start gave a model whose free run stays finite on the validation record: give `window`, fewer "
                    "states or functions, or another `validation`."
                )
            before, self._fit = self._fit, in_measured_units(found, units, signals, data.everything)
        self._is_canonical = False
        if before is not None and (before.step.n_inputs, before.step.n_outputs) == (
            self.step.n_inputs,
            self.step.n_outputs,
        ):
            self._fit = self._named_as(before.step)
        return self

    def _given(self, start: Any, signals: Signals) -> Decoupling:
        """One step of a model to begin with, in measured units."""
        step, n = getattr(start, "step", None), getattr(start, "n_states", None)
        if not isinstance(step, Decoupling) or not self.structure.feedback:
            raise InputError(
                "`start` must be a model with `n_states` and `step`, such as a DecoupledNARX, and needs `feedback`. "
                f"Got {start!r} and feedback={self.structure.feedback}."
            )
        layers, sizes = tuple(g.layer for g in step.g), (step.n_inputs, step.n_outputs)
        wanted = (self.n_states + signals.n_inputs, self.n_states + signals.n_outputs)
        if n != self.n_states or sizes != wanted or layers != self.structure.layers:
            mine, its = ([b for layer in some for b in layer.bases] for some in (self.structure.layers, layers))
            raise InputError(
                f"`start` must have {self.n_states} states, {signals.n_inputs} inputs, {signals.n_outputs} outputs and "
                f"the functions {mine}. Got {n} states, a step from {sizes[0]} to {sizes[1]} numbers, and {its}."
            )
        return step

    def _with_fixed_functions(self) -> DecoupledStateSpace:
        """The same model, not fitted, whose functions stay where its starts put them."""
        other = copy.copy(self)
        other.structure, other._fit = replace(self.structure, fixed_functions=True), None
        return other

    def _with_step(self, step: Decoupling, other: StateSpaceFit) -> DecoupledStateSpace:
        """A model of this shape with this step; its errors and states are those on the records of another fit."""
        assert other.records is not None
        n, units = self.n_states, other.units
        everything = units.batch(other.records)
        arrays = StepArrays.of(step).in_standard_units(units)
        n_free = FreeParameters(arrays, self.structure.free_entries(arrays)).count
        with one_thread(), np.errstate(all="ignore"):
            fit = fit_initial_states(arrays, n, everything)
            linear = fit_initial_states(StepArrays.of(other.linear).in_standard_units(units), n, everything)
            model = copy.copy(self)
            found = SearchResult(fit, linear, other.starts, n_free, None, False)
            model._fit = in_measured_units(found, units, other.records, everything)
        return model

    # What it is

    @property
    def fitted(self) -> StateSpaceFit:
        """What the fit has found: starts, errors, the linear model beside it."""
        if self._fit is None:
            raise InputError("The model must be fitted first: call fit(u, y).")
        return self._fit

    @property
    def step(self) -> Decoupling:
        """One step (x, u) -> (x+, y) as a decoupling, in measured units."""
        return self.fitted.step

    @property
    def starts(self) -> tuple[StateSpaceStart, ...]:
        """The linear model and all starts, with their errors."""
        return self.fitted.starts

    @property
    def n_parameters(self) -> int:
        """Numbers that the fit was free to move; in canonical form those that are left when redundant ones are fixed.

        Initial states do not count.
        """
        return self.n_canonical if self._is_canonical else self.fitted.n_free

    @property
    def n_states(self) -> int:
        """The number n of states."""
        return self.structure.n_states

    @property
    def n_canonical(self) -> int:
        """Numbers that are left when redundant ones are fixed, as in `canonical`."""
        fitted = self.fitted
        return fitted.n_free - self.structure.n_redundant(len(fitted.rmse), fitted.n_front)

    def linear(self) -> LinearStateSpace:
        """The part without functions: poles, frequency response."""
        return LinearStateSpace.of(self.step, self.n_states)

    def baseline(self) -> LinearStateSpace:
        """The linear model with as many states that was fitted to the same records."""
        return LinearStateSpace.of(self.fitted.linear, self.n_states)

    def linear_twin(self) -> DecoupledStateSpace:
        """The linear model that was fitted to the same records, as a model that can be simulated."""
        other = copy.copy(self)
        other._fit = replace(self.fitted, step=self.fitted.linear, x0=np.zeros_like(self.fitted.x0))
        return other

    def canonical(self) -> DecoupledStateSpace:
        """The same model with the smallest number of parameters: states are outputs and their successors.

        The state becomes (C x, C A x, ...), which fixes n^2 numbers; weights of polynomials have a largest entry of 1,
        and so do coefficients.
        """
        fitted, n = self.fitted, self.n_states
        step, T = canonical_form(fitted.step, n, feedback=self.structure.feedback)
        back = np.linalg.inv(T)
        points = fitted.points.copy()
        points[:, :n] = points[:, :n] @ back.T
        other = copy.copy(self)
        other._fit = replace(fitted, step=step, x0=fitted.x0 @ back.T, points=points)
        other._is_canonical = True
        return other

    def with_names(
        self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> DecoupledStateSpace:
        """The same model with these names of inputs and outputs in formulas, pictures, pages and files."""
        fitted, n = self.fitted, self.n_states
        step = fitted.step.with_names(
            *variable_names(n, fitted.step.n_inputs - n, fitted.step.n_outputs - n, inputs, outputs)
        )
        other = copy.copy(self)
        other._fit = self._named_as(step)
        return other

    def _named_as(self, step: Decoupling) -> StateSpaceFit:
        """The fit with the names of another step."""
        mine, linear = (some.with_names(step.inputs, step.outputs) for some in (self.fitted.step, self.fitted.linear))
        return replace(self.fitted, step=mine, linear=linear)

    def with_outside(self, outside: Outside) -> DecoupledStateSpace:
        """The same model where the training data have been, and beyond what `outside` says; see `dc.Functions`."""
        fitted = self.fitted
        step = fitted.step
        u = step.arguments(fitted.points)
        g = [on_range(functions, a, outside) for functions, a in zip(step.g, u, strict=True)]
        other = copy.copy(self)
        other._fit = replace(fitted, step=step.with_parts(g=g))
        return other

    # What it computes

    def simulate(self, u: object, y_init: Any = None) -> ndarray:
        """Run freely from the state that fits the first outputs best.

        Parameters
        ----------
        u : (T,) or (T, inputs)
            Inputs, from the time of the first entry of `y_init` on.
        y_init : (k,) or (k, outputs), optional
            The first measured outputs, at least as many as states; 50 are common. Without them the run begins where
            the first training record did.

        Returns
        -------
        (T,) or (T, outputs)
            Outputs of the model at all times. When they leave ten times the training range, the simulation stops with
            a warning that names the step, and the rest is NaN.
        """
        fitted, n = self.fitted, self.n_states
        inputs = self._signal("u", u, len(fitted.units.u_mean))
        x0 = fitted.x0[0] if y_init is None else self._initial_state(inputs, y_init)
        M = self.structure.oversample
        fine = fitted.units.inputs(inputs) * fitted.units.u_size + fitted.units.u_mean
        with np.errstate(all="ignore"):
            rows: Any = fine[:, 0] if fine.shape[1] == 1 else fine
            step = StepArrays.of(fitted.step)
            x = Recursion(step, n, {}).states(step, rows.tolist(), x0.tolist())
            ahead = np.concatenate([x, fine[: len(x)]], axis=1)[::M]
            ahead = ahead[np.cumprod(np.isfinite(ahead).all(axis=1)).astype(bool)]
            y = np.full((len(inputs), fitted.step.n_outputs - n), np.nan)
            y[: len(ahead)] = fitted.step.values(ahead)[:, n:]
            inside = (y >= fitted.limits.low) & (y <= fitted.limits.high)
        bad = np.flatnonzero(~inside.all(axis=1))
        if bad.size:
            y[bad[0] :] = np.nan
            warn_of_escape(type(self).__name__, int(bad[0]), len(inputs), fitted.limits)
        return self._shaped(y)

    def _initial_state(self, u: Float[ndarray, "T inputs"], y_init: Any) -> Float[ndarray, " n"]:
        fitted, n = self.fitted, self.n_states
        y = self._signal("y_init", y_init, len(fitted.units.y_mean))
        if y.size < n:
            raise InputError(
                f"`y_init` must hold at least {n} numbers, one per state. Got {y.size}: give the first measured "
                "outputs, for example y[:50]."
            )
        if len(u) < len(y):
            raise InputError(f"`u` must be at least as long as `y_init`. Got {len(u)} and {len(y)} samples.")
        batch = fitted.units.batch(Signals((u[: len(y)],), (y,)))
        step = StepArrays.of(fitted.step).in_standard_units(fitted.units)
        error = float(np.sqrt(np.mean((fitted.rmse / fitted.units.y_size) ** 2)))
        prior = InitialStatePrior.of(fitted.points[:, :n], error) if np.isfinite(error) else None
        with one_thread(), np.errstate(all="ignore"):
            tried = [fit_initial_states(step, n, batch, x[None], prior=prior) for x in (np.zeros(n), fitted.x0[0])]
        return min(tried, key=lambda f: f.rmse).x0[0]

    def _signal(self, name: str, value: Any, channels: int) -> Float[ndarray, "T channels"]:
        signal = as_signal(name, value)
        if signal.shape[1] != channels:
            raise InputError(
                f"`{name}` must have {pluralised(channels, 'channel')}, as in training. Got shape {signal.shape}."
            )
        return signal

    def _shaped(self, y: Float[ndarray, "T outputs"]) -> ndarray:
        return y[:, 0] if self.fitted.flat else y

    def predict_one_step(self, u: object, y: object, *, window: int | None = None) -> ndarray:
        """Predict every y(t) from u up to t and the measured outputs before t.

        The model has no noise model of its own. The state at each time is that of the free run, corrected so that the
        last `window` outputs are met best, to first order; by default twice as many as states. Fewer follow
        disturbances of the state, more average noise of the measurement. The first outputs, which have no such past,
        are those of the free run.
        """
        fitted, n = self.fitted, self.n_states
        if self.structure.oversample > 1:
            raise InputError(
                "`predict_one_step` must have a causal model, with `oversample` 1. This one has "
                f"{self.structure.oversample}: it looks ahead."
            )
        signals = Signals.read(u, y)
        if len(signals.u) > 1:
            raise InputError(f"`u` and `y` must be one record here. Got {len(signals.u)}: predict each on its own.")
        self._signal("u", u, len(fitted.units.u_mean))
        self._signal("y", y, len(fitted.units.y_mean))
        k = 2 * n if window is None else as_count("window", window, least=n)
        if len(signals.y[0]) <= k:
            raise InputError(f"`y` must hold more than `window` outputs, {k} here. Got {len(signals.y[0])}.")
        batch = fitted.units.batch(signals)
        step = StepArrays.of(fitted.step).in_standard_units(fitted.units)
        with one_thread(), np.errstate(all="ignore"):
            run = simulate(step, batch, fit_initial_states(step, n, batch).x0)
            if run is None:
                raise SolverError("The free run of the model escapes on this record, so there is no state to correct.")
            ahead = run.y + one_step_corrections(step, n, run, k)
        return self._shaped(ahead * fitted.units.y_size + fitted.units.y_mean)

    # Files and screens

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .safetensors file; `dc.Decoupling.load` reads the same file as one step (x, u) -> (x+, y)."""
        options = {
            "n_states": self.n_states,
            "oversample": self.structure.oversample,
            "feedback": self.structure.feedback,
            "feedthrough": self.structure.feedthrough,
            "integrating": self.structure.integrating,
            "held": self.structure.state_only,
            "canonical": self._is_canonical,
        }
        save_state_space(path, self.fitted, options)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, bases: Sequence[type[AbstractBasis]] = ()) -> DecoupledStateSpace:
        """Read a file written by `save`; name your own basis classes in `bases` if the model uses them."""
        options, fields = load_state_space(path, bases)
        fit = StateSpaceFit(**fields)
        model = cls(options["n_states"])
        model.structure = StateSpaceStructure(
            options["n_states"],
            tuple(g.layer for g in fit.step.g),
            tuple(options["held"]),
            options["oversample"],
            options["feedback"],
            options["feedthrough"],
            options.get("integrating", False),
        )
        model._fit, model._is_canonical = fit, bool(options["canonical"])
        return model

    def plot(self, *, dark: bool = False) -> Figure:
        """Draw one step as a block diagram: functions over the range that the training data visit."""
        return self.step.plot(self.fitted.points, dark=dark)

    def plot_response(self, u: object = None, y: object = None, *, dark: bool = False) -> Figure:
        """Draw the free run against measured outputs, with a zoom and errors; by default on the training record."""
        from ...report import plot_response

        return plot_response(dynamics(self, u, y), dark=dark)

    def report(
        self,
        path: str | os.PathLike[str],
        u: object = None,
        y: object = None,
        *,
        n_init: int | None = None,
        title: str = "Decoupled state space",
        command: str | None = None,
    ) -> None:
        """Write a page about the model on a record, by default the first training record.

        The initial state is found from the first `n_init` outputs, by default 50 or a quarter of the record.
        """
        from ...report import write_dynamic_report

        shown = dynamics(self, u, y, n_init)
        write_dynamic_report(shown, path, title=title, formula=self.formula(), command=command)

    def formula(self, kind: Kind = "text", *, digits: int | None = None) -> Any:
        """One step written out: the next states and the output from states and input; see `Decoupling.formula`.

        "c" gives the source of ``void f(const double *x, double *y)`` with x the states and inputs, y the next states
        and outputs.
        """
        return self.step.formula(kind, digits=digits)

    def step_source(self, language: str = "c", *, name: str = "step") -> str:
        """A function ``step(state, u)`` in C99 or MATLAB that runs the model sample by sample.

        C: ``void step(double *state, const double *u, double *y)``, which computes the outputs and overwrites the
        states; MATLAB and Octave: ``[state, y] = step(state, u)``. Simulink takes either. Models with `oversample`
        above 1 look ahead and cannot be run so. `name` is what the function is called: in MATLAB that of its file.
        """
        if self.structure.oversample > 1:
            raise InputError(
                f"`oversample` must be 1 to run a model sample by sample: in between, inputs are interpolated from "
                f"later ones. Got {self.structure.oversample}."
            )
        written_in = as_language(language)
        return state_space_source(self.step, self.n_states, written_in, as_function_name(name, written_in))

    def save_onnx(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write one step as ONNX; options as for `Decoupling.save_onnx`."""
        self.step.save_onnx(path, **options)

    def __repr__(self) -> str:
        if self._fit is None:
            return f"DecoupledStateSpace({pluralised(self.n_states, 'state')}, not fitted)"
        ranks = "-".join(str(r) for r in self.step.ranks)
        functions = pluralised(self.step.ranks[0], "function") if len(self.step.ranks) == 1 else f"{ranks} functions"
        return f"DecoupledStateSpace({pluralised(self.n_states, 'state')}, {functions}, {self.n_parameters} parameters)"
