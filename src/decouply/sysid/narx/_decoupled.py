"""A NARX model whose map from regressors to output is a decoupling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count, is_word
from ..._support._errors import InputError, pluralised, short_repr
from ..._support._progress import progress_callback
from ..._support._time_limit import TimeLimit
from ...fit._result import Result
from ...model._decoupling import Decoupling
from ...model._functions import Outside
from ...solvers.problem._solver import fixed_parts
from ...write._model_file import Known, model_of, model_record, result_of, result_record
from ...write._record_file import Record, with_infinities
from ..free_run._dynamic_model import AbstractDynamicModel, PageContent, with_visited_domains
from ..free_run._step import StepArrays
from ..signals._records import Range, Signals, held_back
from ._narx import AbstractNARX, Step, Training, as_state_space, linear_model, step_of
from ._refine import NARXInStandardUnits, RefineRow, refine

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST = 1e100  # outputs of a model whose functions do not go on beyond their domains


@dataclass(frozen=True, eq=False)
class DecoupledNARX(AbstractNARX, AbstractDynamicModel):
    """A NARX model in layers of univariate functions, as `PolynomialNARX.decouple` returns it.

    It is y(t) = W_L g_L(... g_1(W_0 x(t))), with or without a linear part.

    Attributes
    ----------
    result : Result
        What `dc.decouple` returned: the decoupling of the polynomial, with its samples and its errors on them. It is
        the record of that fit and stays as it is when the model is refined.
    decoupling : Decoupling
        The map from regressors to outputs, as measured: that of `result`, until `refine` or `with_outside` changes it.
    training : record
        Lags, regressors and ranges of the records that the polynomial was fitted to.
    refinement : tuple of RefineRow
        One row per step of `refine`; empty before.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 200)
    >>> y = np.zeros(200)
    >>> for t in range(1, 200):
    ...     y[t] = 0.5 * y[t - 1] + u[t] - 0.2 * y[t - 1] ** 3
    >>> model = dc.sysid.PolynomialNARX(n_u=0, n_y=1, degree=3).fit(u, y)
    >>> decoupled = model.decouple(ranks=1, linear=True)
    >>> decoupled.decoupling.ranks, decoupled.lags.names
    ((1,), ('u(t)', 'y(t-1)'))
    """

    result: Result
    decoupling: Decoupling
    training: Training
    refinement: tuple[RefineRow, ...] = ()
    kind: ClassVar = "a NARX model"
    page_title: ClassVar = "Decoupling of a NARX model"
    in_file: ClassVar = "narx"

    @property
    def trained_on(self) -> Training:
        return self.training

    @property
    def limits(self) -> Range:
        """Ten times the range of the training outputs; none if no function goes on beyond its domain."""
        if any(g.outside == "extend" for g in self.decoupling.g):
            return self.training.y.believable
        largest = np.full(self.lags.n_outputs, _LARGEST)
        return Range(-largest, largest)

    @property
    def n_parameters(self) -> int:
        """Numbers that training determines."""
        return self.decoupling.n_parameters

    def __call__(self, X: object) -> Float[ndarray, "S n"]:
        return self.decoupling(X)

    def jacobian(self, X: object) -> Float[ndarray, "S n m"]:
        return self.decoupling.jacobian(X)

    def _step(self) -> Step:
        return step_of(self.decoupling)

    @property
    def n_states(self) -> int:
        """Past inputs and outputs that the model looks back on: the states of `step`."""
        return self.lags.n_states

    @property
    def step(self) -> Decoupling:
        """One step (x, u) -> (x+, y) of the same model as a state space, for `DecoupledStateSpace.fit(start=)`."""
        lags, names = self.lags, self.lags.names
        states = names[lags.n_inputs :]
        step = as_state_space(StepArrays.of(self.decoupling), lags)
        return step.decoupling(
            (*states, *names[: lags.n_inputs]), (*(f"next {name}" for name in states), *lags.output_names)
        )

    @property
    def is_causal(self) -> bool:
        return True

    @property
    def training_records(self) -> None:
        return None

    @property
    def channel_names(self) -> None:
        return None

    # Other models

    def with_outside(self, outside: Outside) -> DecoupledNARX:
        """The same model on the range of the training regressors, and beyond what `outside` says; see `dc.Functions`.

        Polynomials grow without bounds, and so may a simulation whose input is larger than any in training. With
        "constant" the outputs are bounded, whatever the input is; a linear part must be stable for that. With "linear"
        the model becomes piecewise linear far away, which most often stays finite and means more.

        The domains become the range that the training regressors visit, as far as the basis can be written on
        another domain.
        """
        bounded = with_visited_domains(self.decoupling, self.training.X, outside)
        return dataclasses.replace(self, decoupling=bounded)

    def refine(
        self,
        u: object,
        y: object,
        *,
        on: Literal["simulation", "prediction"] = "simulation",
        validation: Any = 0.25,
        max_steps: int = 100,
        max_seconds: float | None = None,
        n_init: int | None = None,
        progress: bool | Callable[..., None] = True,
    ) -> DecoupledNARX:
        """Fit all weights and coefficients to the records themselves, and return the better model.

        Levenberg-Marquardt steps with exact derivatives of the simulation (or of the one-step predictions).
        Of all iterates the one with the smallest error on the validation record is kept, also on Ctrl-C. Parts that
        the solver held fixed stay as they are.

        Parameters
        ----------
        u, y : array (T, n_u), array (T, n_y), or lists of them
            One record, or lists of records.
        on : "simulation" or "prediction"
            "simulation": the error of the simulation. "prediction": of one step ahead.
        validation : tuple (u, y), optional
            The share of the longest record that is held back at its end, or a separate record (u, y).
        max_steps : int
            At most this many steps. It stops earlier when neither training nor validation get better.
        max_seconds : float, optional
            Ends it in time, with the best so far. No limit by default.
        n_init : int, optional
            Measured outputs that each simulation begins with. By default the longest lag.
        """
        if not is_word(on, ("simulation", "prediction")):
            raise InputError(f'`on` must be "simulation" or "prediction". Got {short_repr(on)}.')
        limit, longest = as_count("max_steps", max_steps), self.lags.longest
        k = max(longest, 1) if n_init is None else as_count("n_init", n_init)
        if k < longest:
            raise InputError(f"`n_init` must be at least the longest lag, {longest}. Got {k}.")
        records = held_back(self._read(u, y), validation, k + 1)
        shortest = min(len(record) for record in records[0].u)
        if shortest <= k:
            raise InputError(
                f"`u` must be longer than the {k} outputs that a simulation begins with. Got {shortest} samples beside "
                "those for validation: give longer records, or `validation`."
            )
        fixed = tuple(fixed_parts(self.result.solver))
        narx = NARXInStandardUnits(self.decoupling, self.training, fixed)
        with progress_callback(progress, "Refining") as report:
            fitted, judged = (
                narx.objective(signals, k, self.limits, simulated=on == "simulation") for signals in records
            )
            model, rows = refine(narx, fitted, judged, limit, TimeLimit(report, max_seconds))
        if not fixed:
            model = model.canonical(self.result.samples.X)
        return dataclasses.replace(self, decoupling=model, refinement=rows)

    # For people

    def file_record(self) -> Record:
        result = (model_record(self.result.decoupling) | result_record(self.result, samples=True)).under("result")
        rows = Record.of({}, refinement=[dataclasses.asdict(row) for row in self.refinement])
        return self.training.record() | rows | result

    @classmethod
    def of_record(cls, decoupling: Decoupling, record: Record, bases: Known) -> DecoupledNARX:
        of_result = record.inside("result")
        rows = tuple(RefineRow(**with_infinities(row)) for row in record["refinement"])
        return cls(result_of(of_result, model_of(of_result, bases), None), decoupling, Training.of_record(record), rows)

    def plot(self, *, dark: bool = False) -> Figure:
        """Draw the block diagram from u(t), u(t-1), ..., y(t-1), ... to y(t), as measured.

        Bands of 95 % belong to the fit to the polynomial: after `refine` there are none.
        """
        if self.decoupling is self.result.decoupling:
            return self.result.plot(dark=dark)
        return self.decoupling.plot(self.result.samples.X, dark=dark)

    def page_content(self, signals: Signals) -> PageContent:
        """Beside a linear model with the same lags that is fitted to the record one step ahead."""
        lags, X, step = self.lags, self.training.X, self.step.with_names(None, None)
        m, order = lags.n_inputs, f"{pluralised(lags.n_u, 'past input')} and {pluralised(lags.n_y, 'past output')}"
        points = np.concatenate([X[:, m:], X[:, :m]], axis=1)
        refined = ", and the decoupling was refined on the records." if self.refinement else "."
        return PageContent(
            step.net_of_linear(points) if step.n_layers == 1 else step,
            points,
            self.simulate,
            dataclasses.replace(self, decoupling=linear_model(lags, signals)).simulate,
            facts=[("looks back on", order), ("parameters", f"{self.n_parameters}")],
            linear_name=f"a linear model with {order}, fitted to this record,",
            starts=[],
            init_sentence="The run begins with the {first} not count in the errors.",
            how=f"A polynomial was fitted one step ahead and decoupled{refined}",
        )

    def __repr__(self) -> str:
        chosen = next((row.step for row in self.refinement if row.chosen), 0)
        refined = f", refined in {chosen} steps" if self.refinement else ""
        return f"DecoupledNARX(n_u={self.lags.n_u}, n_y={self.lags.n_y}, {self.decoupling!r}{refined})"
