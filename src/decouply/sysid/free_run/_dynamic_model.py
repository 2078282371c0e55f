"""What all models with memory have in common: files, formulas, source code and a page, from one step of the model."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count
from ..._support._errors import InputError, ModelFileError, short_repr, silenced
from ...bases import AbstractBasis
from ...model._decoupling import Decoupling
from ...model._functions import Functions, Outside
from ...write._fmu import save_fmu
from ...write._formula import Kind
from ...write._model_file import Known, load_with_model, save_model
from ...write._record_file import Record, described_by
from ...write._step_source import as_function_name, as_language, step_source
from ..signals._records import Signals
from ..signals._residual_tests import noise_floor, percent_fit, residual_tests
from ._linear import LinearStateSpace
from ._step import StepArrays, StepJacobians

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ...report import Dynamics

_ROUNDING_OF_DOMAIN = 1e-9  # of the width of a domain: what arguments may lie beyond it by rounding
_INITIAL_OUTPUTS = 50  # that a free run begins with, as is common for benchmarks
_OPERATING_POINTS = 300  # at which the model is linearised
_MOST_LAGS = 25  # of the correlations of residuals
Model = TypeVar("Model", bound="AbstractDynamicModel")
Simulation = Callable[[ndarray, ndarray], ndarray]  # (u, y_init) -> y


@dataclass(frozen=True, eq=False)
class PageContent:
    """What a model says of itself.

    Attributes
    ----------
    step, points : Decoupling
        One step (x, u) -> (x+, y), and points (x, u) along the training records.
    simulate, simulate_linear : Simulation
        The model, and the linear model that it is compared with.
    facts : sequence of tuple
        (label, value) at the top of the table of numbers.
    linear_name : str
        What the linear model is called in a sentence.
    starts : sequence of tuple
        (name, training error in percent, validation error in percent, steps, whether it was chosen).
    init_sentence : str
        How a run begins, with the place {first} for the outputs that do not count.
    how : str
        How the model was found.
    """

    step: Decoupling
    points: Float[ndarray, "k m"]
    simulate: Simulation
    simulate_linear: Simulation
    facts: list[tuple[str, str]]
    linear_name: str
    starts: list[tuple[str, float, float, int, bool]]
    init_sentence: str
    how: str


class AbstractDynamicModel(abc.ABC):
    """A model with memory that is one step (x, u) -> (x+, y) after the other, and a decoupling inside.

    To add one, write a file with a class that derives from this one and has the members below, and add a line to
    `sysid/__init__.py`. Formulas, source code, ONNX, files, the page and both commands, `identify` apart, then know it.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + np.tanh(3 * u[t - 1])
    >>> model = dc.sysid.DecoupledStateSpace(1, [dc.bases.Tanh()], feedthrough=False).fit(u, y, n_starts=1)
    >>> isinstance(model, dc.sysid.AbstractDynamicModel), model.n_states
    (True, 1)
    """

    kinds: ClassVar[list[type[AbstractDynamicModel]]] = []  # all classes of models that files may hold
    kind: ClassVar[str]  # in messages, such as "a NARX model"
    page_title: ClassVar[str]
    in_file: ClassVar[str]  # what is beside the decoupling in a file begins so

    def __init_subclass__(cls) -> None:
        AbstractDynamicModel.kinds.append(cls)

    @property
    @abc.abstractmethod
    def n_states(self) -> int:
        """The number n of states of `step`."""

    @property
    @abc.abstractmethod
    def step(self) -> Decoupling:
        """One step (x, u) -> (x+, y), in measured units."""

    if TYPE_CHECKING:  # a property or a field, which would take an abstract property for its default

        @property
        def decoupling(self) -> Decoupling:
            """The map that formulas show and files hold: one step, or that from regressors to outputs."""

    @property
    @abc.abstractmethod
    def is_causal(self) -> bool:
        """Whether outputs depend on past and present inputs alone."""

    @property
    @abc.abstractmethod
    def training_records(self) -> Signals | None:
        """The records that the model was fitted to, if it keeps them."""

    @property
    @abc.abstractmethod
    def channel_names(self) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """Names of inputs and outputs, if the model keeps them."""

    @abc.abstractmethod
    def simulate(self, u: object, y_init: Any) -> ndarray:
        """Run freely from the state that the first outputs give."""

    @abc.abstractmethod
    def page_content(self, signals: Signals) -> PageContent:
        """What the page about a run on these records says of the model."""

    @abc.abstractmethod
    def file_record(self) -> Record:
        """What a file holds beside `decoupling`."""

    @classmethod
    @abc.abstractmethod
    def of_record(cls, decoupling: Decoupling, record: Record, bases: Known) -> Any:
        """The inverse of `file_record`, with the classes of basis by their names."""

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a .safetensors file; `dc.Decoupling.load` reads the same file as `decoupling`."""
        save_model(self.decoupling, path, self.file_record().under(self.in_file))

    @classmethod
    def load(  # noqa: PYI019 (run-time checks of annotations do not know Self)
        cls: type[Model], path: str | os.PathLike[str], *, bases: Sequence[type[AbstractBasis]] = ()
    ) -> Model:
        """Read a file written by `save`; name your own basis classes in `bases` if the model uses them."""
        decoupling, everything, known = load_with_model(path, bases)
        own = everything.inside(cls.in_file)
        if not own.texts:
            raise ModelFileError(
                f"`{path}` must hold {cls.kind}, written by {cls.__name__}.save. It holds another one: read it with "
                "dc.sysid.load_dynamic_model, or with dc.Decoupling.load."
            )
        with described_by(path, cls.kind):
            model: Model = cls.of_record(decoupling, own, known)
            return model

    # On paper and in other languages

    def formula(self, kind: Kind = "text", *, digits: int | None = None) -> Any:
        """`decoupling` written out, in measured units; see `Decoupling.formula`."""
        return self.decoupling.formula(kind, digits=digits)

    def step_source(self, language: str = "c", *, name: str = "step") -> str:
        """A function ``step(state, u)`` in C99 or MATLAB that runs the model sample by sample.

        C: ``void step(double *state, const double *u, double *y)``, which computes the outputs and overwrites the
        states. MATLAB and Octave: ``[state, y] = step(state, u)``. Simulink takes either. States are those of `step`:
        of a NARX model u(t-1), ..., u(t-n_u), y(t-1), ..., y(t-n_y). `name` is what the function is called: in MATLAB
        that of its file.
        """
        self._check_steps()
        written_in = as_language(language)
        return step_source(self.step, self.n_states, written_in, as_function_name(name, written_in))

    def save_fmu(self, path: str | os.PathLike[str], *, sampling_time: float | None = None) -> None:
        """Write an FMU, which Simulink, Modelica tools and FMPy import: FMI 2.0, co-simulation and model exchange.

        It makes one step of the model every `sampling_time` seconds, by default those of its record or 1, and holds
        inputs in between. Initial states are parameters, by default those of `initial_states`. It holds the C sources,
        and a binary for this platform if there is a C compiler.
        """
        self._check_steps()
        seconds = self.sampling_time or 1.0 if sampling_time is None else sampling_time
        save_fmu(self.step, path, states=self.initial_states, sampling_time=seconds)

    @property
    def sampling_time(self) -> float | None:
        """Seconds between samples, if the model knows them."""
        return None

    @property
    def initial_states(self) -> Float[ndarray, " n"]:
        """The states of `step` that a run begins with unless they are given: 0."""
        return np.zeros(self.n_states)

    @property
    def steps_per_sample(self) -> int:
        """How many times `step` is made from one sample to the next."""
        return 1

    def _check_steps(self) -> None:
        if self.steps_per_sample > 1:
            raise InputError(
                "`oversample` must be 1 to run a model sample by sample: its step has no inputs in between. Got more."
            )

    def save_onnx(self, path: str | os.PathLike[str], **options: Any) -> None:
        """Write `decoupling` as ONNX; options as for `Decoupling.save_onnx`."""
        self.decoupling.save_onnx(path, **options)

    # On a record

    def dynamics(self, u: object = None, y: object = None, n_init: int | None = None) -> Dynamics:
        """The simulation over a record beside that of a linear model, with errors, residuals and a verdict.

        By default it is the first training record, if the model keeps it. The run begins with the first `n_init`
        outputs, by default 50 or a quarter of the record.
        """
        from ...report import Dynamics

        if (u is None) != (y is None):
            raise InputError("`u` and `y` must be given together, or both left out.")
        signals = self.training_records if u is None else Signals.read(u, y)
        if signals is None:
            raise InputError(
                f"`u` and `y` must be given: this {type(self).__name__} does not keep the records it was fitted to."
            )
        content, inputs, outputs = self.page_content(signals), signals.u[0], signals.y[0]
        step = content.step
        n, p = step.n_outputs - outputs.shape[1], outputs.shape[1]
        k = default_n_init(len(outputs), n) if n_init is None else as_count("n_init", n_init)
        if k + 2 > len(outputs):
            raise InputError(f"`n_init` must leave at least two outputs to score. Got {k} of {len(outputs)}.")
        with silenced():  # the verdict says if a run escapes
            simulated, linear = (
                run(inputs, outputs[:k]).reshape(len(inputs), -1) for run in (content.simulate, content.simulate_linear)
            )
        e = np.nan_to_num(outputs - simulated)
        tests = residual_tests(inputs, e, min(_MOST_LAGS, len(e) // 3))
        rmse, rmse_linear = (np.sqrt(np.mean(np.nan_to_num(outputs - y)[k:] ** 2, axis=0)) for y in (simulated, linear))
        spread, floor = outputs[k:].std(axis=0), noise_floor(inputs, outputs)
        names = step.outputs[n:] if step.outputs is not None else tuple(f"y{i + 1}" if p > 1 else "y" for i in range(p))
        verdict = f"The simulation error is {100.0 * float(np.max(rmse / spread)):.2g} % of the signal"
        if floor is not None:
            verdict += f", {float(np.max(rmse / np.maximum(floor, 1e-300))):.2g} times the noise floor"
        verdict += f"; {content.linear_name} leaves {100.0 * float(np.max(rmse_linear / spread)):.2g} %."
        grade = "noise" if tests.is_white and tests.is_independent else "better"
        if not np.all(rmse < rmse_linear):
            grade = "line"
        if not np.isfinite(simulated).all():
            grade = "poor"
            verdict = "The simulation diverges on this record: errors below count only until then. " + verdict
        fit = percent_fit(outputs[k:], np.where(np.isfinite(simulated[k:]), simulated[k:], 0.0))
        facts = [
            *content.facts,
            *((f"error of {name} (RMSE)", f"{value:.4g}") for name, value in zip(names, rmse, strict=True)),
            *(
                (f"error of {name}, linear model", f"{value:.4g}")
                for name, value in zip(names, rmse_linear, strict=True)
            ),
            *((f"fit of {name}", f"{value:.4g} %") for name, value in zip(names, fit, strict=True)),
        ]
        if floor is not None:
            facts += [(f"noise floor of {name}", f"{value:.3g}") for name, value in zip(names, floor, strict=True)]
        first = "first output, which does" if k == 1 else f"first {k} outputs, which do"
        # Poles of the linear part, and of the model linearised at many points of its run.
        some = content.points[:: max(1, len(content.points) // _OPERATING_POINTS)]
        J = np.moveaxis(StepJacobians(StepArrays.of(step), some).state_jacobian(n)[:n], 2, 0)
        return Dynamics(
            names=tuple(names),
            y=outputs,
            y_hat=simulated,
            y_linear=linear,
            step=step,
            points=content.points,
            poles=LinearStateSpace.of(step, n).poles,
            moving=np.linalg.eigvals(J).astype(complex),
            auto=tests.auto,
            cross=tests.cross,
            band=tests.band,
            facts=facts,
            starts=content.starts,
            grade=grade,
            verdict=verdict,
            sentences=[content.init_sentence.format(first=first), tests.in_words()],
            how=content.how,
            sampling_time=self.sampling_time,
            steps_per_sample=self.steps_per_sample,
        )

    def plot_response(self, u: object = None, y: object = None, *, dark: bool = False) -> Figure:
        """Draw the simulation against measured outputs, with a zoom and errors; records as for `dynamics`."""
        from ...report import plot_response

        return plot_response(self.dynamics(u, y), dark=dark)

    def report(
        self,
        path: str | os.PathLike[str],
        u: object = None,
        y: object = None,
        *,
        n_init: int | None = None,
        title: str | None = None,
        command: str | None = None,
    ) -> None:
        """Write a page about the simulation on a record; `u`, `y` and `n_init` as for `dynamics`."""
        from ...report import write_dynamic_report

        if command is not None and not isinstance(command, str):
            raise InputError(f"`command` must be a text. Got {short_repr(command)}.")
        shown = self.dynamics(u, y, n_init)
        write_dynamic_report(
            shown, path, title=self.page_title if title is None else title, formula=self.formula(), command=command
        )


def load_dynamic_model(path: str | os.PathLike[str]) -> AbstractDynamicModel | None:
    """The dynamic model that a file holds, of any kind; None if it holds something else.

    Parameters
    ----------
    path : path
        A file that `save` of a dynamic model, or `decouply identify --model`, wrote.

    Returns
    -------
    AbstractDynamicModel or None
        The model; None if the file holds something else.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> import pathlib, tempfile
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + np.tanh(3 * u[t - 1])
    >>> model = dc.sysid.DecoupledStateSpace(1, [dc.bases.Tanh()], feedthrough=False).fit(u, y, n_starts=1)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> model.save(path)
    >>> dc.sysid.load_dynamic_model(path)
    DecoupledStateSpace(1 state, 1 function, 8 parameters)
    """
    for kind in AbstractDynamicModel.kinds:
        try:
            return kind.load(path)
        except ModelFileError:
            continue
    return None


def with_visited_domains(model: Decoupling, points: Float[ndarray, "S m"], outside: Outside) -> Decoupling:
    """The same model on the ranges that its functions visit at these points, and beyond them what `outside` says."""
    g = []
    for functions, u in zip(model.g, model.arguments(points), strict=True):
        low, high = u.min(axis=0), u.max(axis=0)
        slack = _ROUNDING_OF_DOMAIN * functions.half_width
        varies = high - low > slack
        domain = np.where(varies[:, None], np.stack([low, high], axis=1), functions.domain)
        try:
            functions = functions.on_domain(domain)
        except InputError as error:  # their basis is tied to the domain that it has
            beyond = varies & ((low < functions.domain[:, 0] - slack) | (high > functions.domain[:, 1] + slack))
            if outside != "extend" and beyond.any():
                j = int(np.flatnonzero(beyond)[0])
                raise InputError(
                    f'`outside` must be "extend" for functions of {functions.layer.bases[j]!r} here. Got "{outside}": '
                    f"the training regressors reach [{low[j]:.4g}, {high[j]:.4g}], beyond their domain "
                    f"[{functions.domain[j, 0]:.4g}, {functions.domain[j, 1]:.4g}], which cannot be changed."
                ) from error
        g.append(Functions(functions.layer.bases, functions.C, functions.domain, outside))
    return model.with_parts(g=g)


def default_n_init(n_samples: int, n_states: int) -> int:
    """How many outputs a simulation begins with by default: 50, or a quarter of a shorter record."""
    return max(n_states, min(_INITIAL_OUTPUTS, n_samples // 4))
