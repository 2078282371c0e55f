"""A NARX model whose map from regressors to output is a decoupling."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..._support._arguments import as_count, is_word
from ..._support._errors import InputError
from ..._support._messages import short_repr
from ..._support._progress import progress_callback
from ..._support._time_limit import TimeLimit
from ...bases import AbstractBasis
from ...fit._result import Result
from ...model._decoupling import Decoupling
from ...model._functions import Functions, Outside
from ...solvers.problem._solver import fixed_parts
from ...write._formula import Kind
from ...write._function_names import as_function_name, as_language
from ...write._step_source import narx_source
from .._files import load_narx, save_narx
from .._report_data import narx_dynamics
from ..free_run._step_arrays import StepArrays
from ..signals._records import Range, held_back
from ._abstract import AbstractNARX, Training
from ._as_state_space import as_state_space
from ._refine import NARXInStandardUnits, RefineRow, refine
from ._simulation import Step, step_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LARGEST = 1e100  # outputs of a model whose functions do not go on beyond their domains
_SLACK = 1e-9  # of the width of a domain: what arguments may lie beyond it by rounding


@dataclass(frozen=True, eq=False)
class DecoupledNARX(AbstractNARX):
    """A NARX model in layers of univariate functions, as `PolynomialNARX.decouple` returns it.

    It is y(t) = W_L g_L(... g_1(W_0 x(t))), with or without a linear part.

    Attributes
    ----------
    result
        What `dc.decouple` returned: the decoupling of the polynomial, with its samples and its errors on them. It is
        the record of that fit and stays as it is when the model is refined.
    decoupling
        The map from regressors to outputs, as measured: that of `result`, until `refine` or `with_outside` changes it.
    training
        Lags, regressors and ranges of the records that the polynomial was fitted to.
    refinement
        One row per step of `refine`; empty before.
    """

    result: Result
    decoupling: Decoupling
    training: Training
    refinement: tuple[RefineRow, ...] = ()

    @property
    def trained_on(self) -> Training:
        return self.training

    @property
    def limits(self) -> Range:
        """Ten times the range of the training outputs; none where no function goes on beyond its domain."""
        if any(g.outside == "extend" for g in self.decoupling.g):
            return self.training.believable
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
        return as_state_space(StepArrays.of(self.decoupling), self.lags).decoupling()

    # Other models

    def with_outside(self, outside: Outside) -> DecoupledNARX:
        """The same model where the training regressors have been, and beyond what `outside` says; see `dc.Functions`.

        Polynomials grow without bounds, and so may a free run whose input is larger than any in training. With
        "constant" the outputs are bounded, whatever the input is; a linear part must be stable for that. With "linear"
        the model becomes piecewise linear far away, which most often stays finite and means more.

        The domains become the range that the training regressors visit, as far as the basis can be written on
        another domain.
        """
        model, X = self.decoupling, self.training.X
        g = [on_range(functions, u, outside) for functions, u in zip(model.g, model.arguments(X), strict=True)]
        return dataclasses.replace(self, decoupling=model.with_parts(g=g))

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

        Levenberg-Marquardt steps with exact derivatives of the free-run simulation (or of the one-step predictions).
        Of all iterates the one with the smallest error on the validation record is kept, also on Ctrl-C. Parts that
        the solver held fixed stay as they are.

        Parameters
        ----------
        u, y
            One record, or lists of records.
        on
            "simulation": the error of the free run; "prediction": of one step ahead.
        validation
            The share of the longest record that is held back at its end, or a record (u, y) of its own.
        max_steps
            At most so many steps; it stops earlier when neither training nor validation get better.
        max_seconds
            Ends it in time, with the best so far. No limit by default.
        n_init
            Measured outputs that each simulation begins with; by default the longest lag.
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
                "those that are held back: give longer records, or `validation`."
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

    @property
    def _is_as_fitted(self) -> bool:
        return self.decoupling is self.result.decoupling

    def formula(self, kind: Kind = "text", *, digits: int | None = None) -> Any:
        """The model written out in u(t), u(t-1), ..., y(t-1), ..., as measured; see `Decoupling.formula`."""
        return self.decoupling.formula(kind, digits=digits)

    def step_source(self, language: str = "c", *, name: str = "step") -> str:
        """A function ``step(state, u)`` in C99 or MATLAB that runs the model sample by sample.

        The state holds u(t-1), ..., u(t-n_u), y(t-1), ..., y(t-n_y), as measured. C: ``void step(double *state, const
        double *u, double *y)``; MATLAB and Octave: ``[state, y] = step(state, u)``. `name` is what the
        function is called: in MATLAB that of its file.
        """
        lags, written_in = self.lags, as_language(language)
        called = as_function_name(name, written_in)
        return narx_source(self.decoupling, lags.n_u, lags.n_y, lags.n_inputs, written_in, called)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a .safetensors file, with the result that it came from; `load` reads it again."""
        save_narx(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, bases: Sequence[type[AbstractBasis]] = ()) -> DecoupledNARX:
        """Read what `save` wrote; `bases` for basis classes of your own."""
        return cls(**load_narx(path, bases))

    def plot(self, *, dark: bool = False) -> Figure:
        """Draw the block diagram from u(t), u(t-1), ..., y(t-1), ... to y(t), as measured.

        Bands of two standard errors belong to the fit to the polynomial: after `refine` there are none.
        """
        if self._is_as_fitted:
            return self.result.plot(dark=dark)
        return self.decoupling.plot(self.result.samples.X, dark=dark)

    def report(
        self,
        path: str | os.PathLike[str],
        u: object = None,
        y: object = None,
        *,
        n_init: int | None = None,
        title: str = "Decoupling of a NARX model",
        command: str | None = None,
    ) -> None:
        """Write a page about the free run on a record, or without one about the fit to the polynomial.

        The first has the response, the functions, poles and residuals, beside those of a linear model with the same
        lags; the run begins with the first `n_init` outputs, by default 50 or a quarter. The second is that of
        `Result.report`; a model that `refine` or `with_outside` has changed is not what was fitted there, and the title
        then says that the page shows the decoupling before.
        """
        if (u is None) != (y is None):
            raise InputError("`u` and `y` must be given together, or both left out.")
        if u is None:
            changes = "refinement" if self.refinement else "`with_outside`"
            self.result.report(path, title=title if self._is_as_fitted else f"{title}, before {changes}")
            return
        from ...report import write_dynamic_report

        shown = narx_dynamics(self, u, y, n_init)
        write_dynamic_report(shown, path, title=title, formula=self.formula(), command=command)

    def __repr__(self) -> str:
        chosen = next((row.step for row in self.refinement if row.chosen), 0)
        refined = f", refined in {chosen} steps" if self.refinement else ""
        return f"DecoupledNARX(n_u={self.lags.n_u}, n_y={self.lags.n_y}, {self.decoupling!r}{refined})"


def on_range(functions: Functions, u: Float[ndarray, "S r"], outside: Outside) -> Functions:
    """The same functions on the range that their arguments visit, and beyond it what `outside` says."""
    low, high = u.min(axis=0), u.max(axis=0)
    slack = _SLACK * functions.half_width
    varies = high - low > slack
    domain = np.where(varies[:, None], np.stack([low, high], axis=1), functions.domain)
    try:
        functions = functions.on_domain(domain)
    except InputError as error:  # their basis is tied to the domain that it has
        beyond = varies & ((low < functions.domain[:, 0] - slack) | (high > functions.domain[:, 1] + slack))
        if outside != "extend" and beyond.any():
            j = int(np.flatnonzero(beyond)[0])
            raise InputError(
                f'`outside` must be "extend" for functions of {functions.layer.bases[j]!r} here. Got "{outside}": the '
                f"training regressors reach [{low[j]:.4g}, {high[j]:.4g}], beyond their domain "
                f"[{functions.domain[j, 0]:.4g}, {functions.domain[j, 1]:.4g}], which cannot be changed."
            ) from error
    return Functions(functions.layer.bases, functions.C, functions.domain, outside)
