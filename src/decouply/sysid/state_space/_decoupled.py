r"""Decoupled state space: linear dynamics plus a decoupling, fitted to the simulation.

    x(t+1) = A x(t) + B u(t) + W_x g(V x(t) + V_u u(t)),      y(t) = C x(t) + D u(t) + c_y + W_y g(...)

One step (x, u) -> (x+, y) is a `Decoupling` with a linear part: files, formulas, source code, ONNX and pictures of
decouplings are those of one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count, as_generator
from ..._support._errors import InputError, SolverError, pluralised, warn
from ..._support._machine import one_thread
from ..._support._progress import progress_callback
from ..._support._time_limit import TimeLimit
from ...bases import Monomial
from ...model._decoupling import Decoupling
from ...model._functions import Outside
from ...solvers.problem._start_distributions import MOST_STARTS
from ...write._model_file import Known
from ...write._record_file import Record
from ..free_run._dynamic_model import AbstractDynamicModel, PageContent, with_visited_domains
from ..free_run._fit import InitialStatePrior, fit_initial_states
from ..free_run._linear import LinearStateSpace
from ..free_run._recursion import Recursion
from ..free_run._simulation import one_step_corrections, simulate
from ..free_run._step import StepArrays
from ..signals._records import Signals, SignalUnits, held_back, warn_of_escape, with_channels
from ._search import SearchOptions, StateSpaceFit, StateSpaceStart, variable_names
from ._search import search as search_model
from ._structure import StateSpaceStructure, canonical_form, read_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OF_FIT = ("layers", "fixed_functions")  # fields of a structure that are not options in a file
_VALIDATION_SAMPLES_PER_STATE = 4  # the initial state is found from some, the others judge


@dataclass(frozen=True, eq=False, init=False, repr=False)
class DecoupledStateSpace(AbstractDynamicModel):
    """A state-space model of linear dynamics plus a decoupling, fitted to the simulation.

    x+ = A x + B u + W_x g(V x + V_u u), y = C x + D u + c_y + W_y g(V x + V_u u).

    A new object says what is asked for. `fit` returns another one, which is fitted; no method changes its object.

    Parameters
    ----------
    n_states : int
        The number n of states.
    functions : sequence of bases, optional
        The internal functions of one layer: a basis for each, or `StateFunction` of one.
    ranks, degrees, basis : optional
        Instead of `functions`: as for `dc.decouple`, for one or more layers. By default two polynomials of degree 3.
    oversample : int
        Steps of the recursion per sample. Inputs in between are interpolated with limited bandwidth, which looks ahead,
        unless the model is to be `causal`.
    causal : bool
        Inputs in between are predicted from present and past ones, by filters that are fitted to the training inputs.
        That is nearly as good if the inputs vary slowly from sample to sample, and poor for white noise.
    feedback : bool
        Without it, functions stand between two linear blocks (Wiener-Hammerstein): the starts are the ways to share
        out the poles between them.
    feedthrough : bool
        Without it, the input and the functions do not reach the output at once: D = 0 and W_y = 0.
    integrating : bool
        Every output adds up what the other states give, as a position adds up a velocity. It is a state with
        a pole at exactly 1, and training begins at the state that the first outputs show. If such a pole and the first
        velocity are left to a fit, outputs drift away.
    stable : bool
        Every bounded input has a bounded output. Polynomials and splines become constant beyond the training data,
        other functions must be bounded, and all poles of A stay inside the unit circle.

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

    structure: StateSpaceStructure
    record: StateSpaceFit | None
    is_canonical: bool
    kind: ClassVar = "a state-space model"
    page_title: ClassVar = "Decoupled state space"
    in_file: ClassVar = "state space"

    def __init__(
        self,
        n_states: int,
        functions: Any = None,
        *,
        ranks: int | Sequence[int] | None = None,
        degrees: int | Sequence[int] | None = None,
        basis: Any = None,
        oversample: int = 1,
        feedback: bool = True,
        feedthrough: bool = True,
        integrating: bool = False,
        stable: bool = False,
        causal: bool = False,
    ) -> None:
        as_count("n_states", n_states)
        layers, state_only = read_layers(functions, ranks, degrees, Monomial if basis is None else basis)
        structure = StateSpaceStructure(
            n_states, layers, state_only, oversample, feedback, feedthrough, integrating, stable=stable, causal=causal
        )
        self.__dict__.update(structure=structure, record=None, is_canonical=False)

    @classmethod
    def of(
        cls, structure: StateSpaceStructure, record: StateSpaceFit | None = None, *, is_canonical: bool = False
    ) -> DecoupledStateSpace:
        """A model of a structure, fitted if there is the record of a fit."""
        model = object.__new__(cls)
        model.__dict__.update(structure=structure, record=record, is_canonical=is_canonical)
        return model

    # Training

    def fit(
        self,
        u: object,
        y: object,
        *,
        n_starts: int = 5,
        validation: Any = 0.25,
        search: SearchOptions | None = None,
        max_seconds: float | None = None,
        rng: int | np.random.Generator = 0,
        progress: bool | Callable[..., None] = True,
    ) -> DecoupledStateSpace:
        """Fit the simulation of one record, or of lists of records, and return the fitted model.

        A linear model comes first, then every start on the beginning of the records; the start with the smallest error
        on the validation record is finished on all data. Ctrl-C keeps the best so far.

        Parameters
        ----------
        u, y : array (T, n_u), array (T, n_y), or lists of them
            Records of shape (T,) or (T, channels), or lists of them.
        n_starts : int
            The first start is deterministic: functions of the outputs of the linear model and of their changes. The
            others are random. Without feedback, a third as many for each way to share out the poles.
        validation : tuple (u, y), optional
            The share of the longest record that is held back at its end, or a separate record (u, y).
        search : SearchOptions, optional
            `SearchOptions`: another model to begin with, windows for multiple shooting, the number of steps.
        max_seconds : float, optional
            Ends the fit in time, with the best so far: starts that were not reached are left out, and the chosen one is
            not finished. No limit by default.
        """
        signals, starts = Signals.read(u, y), as_count("n_starts", n_starts, most=MOST_STARTS)
        options, structure, n = SearchOptions() if search is None else search, self.structure, self.n_states
        if not isinstance(options, SearchOptions):
            raise InputError(f"`search` must be dc.sysid.SearchOptions. Got {type(options).__name__}.")
        if options.window is not None:
            as_count("window", options.window, least=2 * n + 2)
        units = SignalUnits.of(signals, structure.oversample, causal=structure.causal)
        for remark in () if all(structure.state_only) else signals.remarks():
            warn(remark)
        split = held_back(signals, validation, _VALIDATION_SAMPLES_PER_STATE * n)
        if (k := structure.n_integrators(signals.n_outputs)) >= n:
            raise InputError(f"`n_states` must be above the number of outputs, {k} here, with `integrating`. Got {n}.")
        start = None if options.start is None else self._start(options.start, signals).in_standard_units(units)
        with progress_callback(progress, "Identifying") as report, one_thread(), np.errstate(all="ignore"):
            record = search_model(
                structure, units, signals, split, replace(options, start=start), starts, rng=as_generator(rng),
                report=TimeLimit(report, max_seconds),
            )  # fmt: skip
        before = None if self.record is None else self.record.step
        if before is not None and (before.n_inputs, before.n_outputs) == (record.step.n_inputs, record.step.n_outputs):
            record = record.with_names(before.inputs, before.outputs)
        return self.of(structure, record)

    def _start(self, model: Any, signals: Signals) -> StepArrays:
        """One step of a model to begin with, in measured units."""
        structure, n = self.structure, self.n_states
        if not isinstance(model, AbstractDynamicModel) or not structure.feedback:
            raise InputError(
                "`start` must be a model with `n_states` and `step`, such as a DecoupledNARX, and needs `feedback`. "
                f"Got {model!r} and feedback={structure.feedback}."
            )
        step = StepArrays.of(model.step)
        sizes, wanted = (step.n_inputs, step.n_outputs), (n + signals.n_inputs, n + signals.n_outputs)
        if model.n_states != n or sizes != wanted or step.layers != structure.layers:
            mine, its = ([b for layer in some for b in layer.bases] for some in (structure.layers, step.layers))
            raise InputError(
                f"`start` must have {n} states, {signals.n_inputs} inputs, {signals.n_outputs} outputs and the "
                f"functions {mine}. Got {model.n_states} states, a step from {sizes[0]} to {sizes[1]} numbers, and "
                f"{its}."
            )
        return step

    # What it is

    @property
    def fitted(self) -> StateSpaceFit:
        """What the fit has found: starts, errors, the linear model beside it."""
        if self.record is None:
            raise InputError("The model must be fitted first: call fit(u, y), which returns it.")
        return self.record

    @property
    def n_states(self) -> int:
        """The number n of states."""
        return self.structure.n_states

    @property
    def step(self) -> Decoupling:
        """One step (x, u) -> (x+, y) as a decoupling, in measured units."""
        return self.fitted.step

    @property
    def decoupling(self) -> Decoupling:
        """The same as `step`."""
        return self.step

    @property
    def initial_states(self) -> Float[ndarray, " n"]:
        """The states that the first training record begins with."""
        return self.fitted.x0[0]

    @property
    def sampling_time(self) -> float | None:
        """Seconds between samples, if `identify` knew them."""
        return self.fitted.sampling_time

    @property
    def steps_per_sample(self) -> int:
        """The same as `oversample`."""
        return self.structure.oversample

    @property
    def is_causal(self) -> bool:
        """Whether outputs depend on past and present inputs alone."""
        return self.structure.oversample == 1 or self.structure.causal

    @property
    def training_records(self) -> Signals | None:
        return self.fitted.records

    @property
    def channel_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Names of inputs and outputs."""
        n, step = self.n_states, self.step
        return (step.inputs or ())[n:], (step.outputs or ())[n:]

    @property
    def starts(self) -> tuple[StateSpaceStart, ...]:
        """The linear model and all starts, with their errors."""
        return self.fitted.starts

    @property
    def n_parameters(self) -> int:
        """Numbers that the fit was free to move; in canonical form those that are left when redundant ones are fixed.

        Initial states do not count.
        """
        return self.n_canonical if self.is_canonical else self.fitted.n_free

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

    # Other models

    def linear_twin(self) -> DecoupledStateSpace:
        """The linear model that was fitted to the same records, as a model that can be simulated."""
        fitted = self.fitted
        return self.of(self.structure, replace(fitted, step=fitted.linear, x0=np.zeros_like(fitted.x0)))

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
        record = replace(fitted, step=step, x0=fitted.x0 @ back.T, points=points)
        return self.of(self.structure, record, is_canonical=True)

    def with_names(
        self, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
    ) -> DecoupledStateSpace:
        """The same model with these names of inputs and outputs in formulas, pictures, pages and files."""
        n, step = self.n_states, self.step
        names = variable_names(n, step.n_inputs - n, step.n_outputs - n, inputs, outputs)
        return self.of(self.structure, self.fitted.with_names(*names), is_canonical=self.is_canonical)

    def with_outside(self, outside: Outside) -> DecoupledStateSpace:
        """The same model on the range of the training data, and beyond what `outside` says; see `dc.Functions`."""
        step = with_visited_domains(self.step, self.fitted.points, outside)
        return self.of(self.structure, replace(self.fitted, step=step), is_canonical=self.is_canonical)

    # What it computes

    def simulate(self, u: object, y_init: Any = None) -> ndarray:
        """Run freely from the state that fits the first outputs best.

        Parameters
        ----------
        u : (T,) or (T, inputs)
            Inputs, from the time of the first entry of `y_init` on.
        y_init : (k,) or (k, outputs), optional
            The first measured outputs, at least as many as states; 50 are common. Without them the run begins at the
            state of the first training record.

        Returns
        -------
        (T,) or (T, outputs)
            Outputs of the model at all times. When they leave ten times the training range, the simulation stops with
            a warning that names the step, and the rest is NaN.
        """
        fitted, n = self.fitted, self.n_states
        inputs = with_channels("u", u, len(fitted.units.u_mean))
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
        y = with_channels("y_init", y_init, len(fitted.units.y_mean))
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

    def _shaped(self, y: Float[ndarray, "T outputs"]) -> ndarray:
        return y[:, 0] if self.fitted.flat else y

    def predict_one_step(self, u: object, y: object, *, window: int | None = None) -> ndarray:
        """Predict every y(t) from u up to t and the measured outputs before t.

        The model has no noise model. The state at each time is that of the simulation, corrected so that the
        last `window` outputs are met best, to first order; by default twice as many as states. Fewer follow
        disturbances of the state, more average noise of the measurement. The first outputs, which have no such past,
        are those of the simulation.
        """
        fitted, n = self.fitted, self.n_states
        if self.steps_per_sample > 1:
            raise InputError(
                f"`predict_one_step` must have a model with `oversample` 1. This one has {self.steps_per_sample}."
            )
        signals = Signals.read(u, y)
        if len(signals.u) > 1:
            raise InputError(f"`u` and `y` must be one record here. Got {len(signals.u)}: predict each on its own.")
        with_channels("u", u, len(fitted.units.u_mean))
        with_channels("y", y, len(fitted.units.y_mean))
        k = 2 * n if window is None else as_count("window", window, least=n)
        if len(signals.y[0]) <= k:
            raise InputError(f"`y` must hold more than `window` outputs, {k} here. Got {len(signals.y[0])}.")
        batch = fitted.units.batch(signals)
        step = StepArrays.of(fitted.step).in_standard_units(fitted.units)
        with one_thread(), np.errstate(all="ignore"):
            run = simulate(step, batch, fit_initial_states(step, n, batch).x0)
            if run is None:
                raise SolverError(
                    "The simulation of the model diverges on this record, so there is no state to correct."
                )
            ahead = run.y + one_step_corrections(step, n, run, k)
        return self._shaped(ahead * fitted.units.y_size + fitted.units.y_mean)

    # Files and screens

    def file_record(self) -> Record:
        structure = self.structure
        options = {f.name: getattr(structure, f.name) for f in fields(structure) if f.name not in _OF_FIT}
        for name in ("n_delayed", "causal"):
            if not options[name]:
                del options[name]  # earlier versions read such files
        return self.fitted.file_record() | Record.of({}, structure=options, canonical=self.is_canonical)

    @classmethod
    def of_record(cls, decoupling: Decoupling, record: Record, bases: Known) -> DecoupledStateSpace:  # noqa: ARG003
        options = record["structure"] | {"state_only": tuple(record["structure"]["state_only"])}
        structure = StateSpaceStructure(layers=tuple(g.layer for g in decoupling.g), **options)
        return cls.of(structure, StateSpaceFit.of_record(decoupling, record), is_canonical=bool(record["canonical"]))

    def plot(self, *, dark: bool = False) -> Figure:
        """Draw one step as a block diagram: functions over the range that the training data visit."""
        return self.step.plot(self.fitted.points, dark=dark)

    def page_content(self, signals: Signals) -> PageContent:  # noqa: ARG002 (the linear model is that of the fit)
        """Beside the linear model with as many states that was fitted to the training records."""
        fitted, n = self.fitted, self.n_states
        counts = f"{self.n_canonical} in canonical form, {fitted.n_free} free in the fit"
        return PageContent(
            fitted.step,
            fitted.points,
            self.simulate,
            self.linear_twin().simulate,
            facts=[
                ("states", f"{n}"),
                ("parameters", counts),
                *([("sampling time", f"{fitted.sampling_time:.4g} s")] if fitted.sampling_time else []),
            ],
            linear_name=f"the linear model with {pluralised(n, 'state')}",
            starts=[(r.start, 100.0 * r.training, 100.0 * r.validation, r.steps, r.chosen) for r in fitted.starts],
            init_sentence="The initial state was found from the {first} not count in the errors.",
            how="Every start is fitted to the beginning of the training record and judged on validation data; the "
            "chosen one is finished on all training data.",
        )

    def __repr__(self) -> str:
        size = pluralised(self.n_states, "state")
        if self.record is None:
            return f"DecoupledStateSpace({size}, not fitted)"
        ranks = self.step.ranks
        functions = pluralised(ranks[0], "function") if len(ranks) == 1 else f"{'-'.join(map(str, ranks))} functions"
        return f"DecoupledStateSpace({size}, {functions}, {self.n_parameters} parameters)"
