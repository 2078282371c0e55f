"""A NARX model whose map from regressors to output is a decoupling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from jaxtyping import Float
from numpy import ndarray

from .._support._checks import as_points
from .._support._errors import InputError
from ..fit._result import Result, fixed_parts
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..write._formula import formula
from ._abstract import AbstractNARX, OutputRange
from ._free_run import free_run, step_of
from ._lags import Lags
from ._refine import RefineRow, refine
from ._units import Units

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class DecoupledNARX(AbstractNARX):
    """y(t) = W_L g_L(... g_1(W_0 x(t))): what `PolynomialNARX.decouple` returns.

    It computes with scaled signals inside, where offsets and units cost no digits; `decoupling` is the same map between
    signals as measured.

    Attributes
    ----------
    solution
        What `dc.decouple` returned, for scaled signals.
    fitted
        The regressors, values and Jacobians, as measured, that the solver saw.
    refinement
        One row per step of `refine`; empty before.
    """

    solution: Result
    fitted: Samples
    _lags: Lags
    _units: Units
    _range: OutputRange
    _flat: bool
    _refined: Decoupling | None = None
    refinement: tuple[RefineRow, ...] = field(default=())

    @property
    def inner(self) -> Decoupling:
        """The map between scaled signals."""
        return self.solution.decoupling if self._refined is None else self._refined

    @cached_property
    def _measured(self) -> Decoupling | None:
        model = self._units.in_measured_units(self.inner, self.lags)
        if model is None or fixed_parts(self.solution.solver):
            return model
        return model.canonical(self.fitted.X)

    @property
    def has_measured_form(self) -> bool:
        """Whether the constants of the last layer can give the centre of the outputs."""
        return self._measured is not None

    @property
    def decoupling(self) -> Decoupling:
        """The map from regressors to outputs, both as measured, in canonical form."""
        assert self._measured is not None
        return self._measured

    @property
    def result(self) -> Result:
        """`decoupling` with the record of how it was found and its errors on the samples, as measured."""
        return dataclasses.replace(self.solution, decoupling=self.decoupling, samples=self.fitted)

    @property
    def lags(self) -> Lags:
        return self._lags

    @property
    def output_range(self) -> OutputRange:
        return self._range

    @property
    def flat(self) -> bool:
        return self._flat

    @property
    def n_parameters(self) -> int:
        return self.inner.n_parameters

    def __call__(self, X: object) -> Float[ndarray, "S n"]:
        points = as_points("X", X, self.lags.n_regressors)
        scaled = self.inner(self._units.scaled_regressors(points, self.lags))
        return scaled * self._units.y_size + self._units.y_centre

    def jacobian(self, X: object) -> Float[ndarray, "S n m"]:
        points = as_points("X", X, self.lags.n_regressors)
        scaled = self.inner.jacobian(self._units.scaled_regressors(points, self.lags))
        return scaled * self._units.y_size[:, None] / self._units.size(self.lags)

    def _free_run(self, u: ndarray, y_init: ndarray) -> tuple[Float[ndarray, "T outputs"], int | None]:
        units = self._units
        low, high = ((bound - units.y_centre) / units.y_size for bound in self.output_range.widened())
        inputs, given = (u - units.u_centre) / units.u_size, (y_init - units.y_centre) / units.y_size
        scaled, stopped = free_run(step_of(self.inner), self.lags, inputs, given, low, high)
        outputs = scaled * units.y_size + units.y_centre
        outputs[: len(y_init)] = y_init  # to the last digit
        return outputs, stopped

    def formula(self, kind: Literal["text", "latex"] = "text", *, digits: int = 4) -> Any:
        """The model written out in u(t), u(t-1), ..., y(t-1), ..., as measured.

        For source code give names of your own: ``decoupling.formula("python", inputs=[...])``.
        """
        if kind not in ("text", "latex"):
            raise InputError(
                f'`kind` must be "text" or "latex" here. Got {kind!r}: use `decoupling.formula({kind!r})`.'
            )
        names, outputs = list(self.lags.names), list(self.lags.output_names)
        return formula(self.decoupling, kind, inputs=names, outputs=outputs, digits=digits)

    def plot(self, *, dark: bool = False) -> Figure:
        """Draw the block diagram from u(t), u(t-1), ..., y(t-1), ... to y(t), as measured.

        Bands of two standard errors belong to the fit to the polynomial: after `refine` there are none.
        """
        names, outputs = list(self.lags.names), list(self.lags.output_names)
        return self.result.plot(inputs=names, outputs=outputs, bands=self._refined is None, dark=dark)

    def refine(
        self,
        u: object,
        y: object,
        *,
        on: Literal["simulation", "prediction"] = "simulation",
        validation: Any = None,
        max_steps: int = 100,
        n_init: int | None = None,
        progress: bool | Callable[..., None] = True,
    ) -> DecoupledNARX:
        """Fit all weights and coefficients to the records themselves, and return the better model.

        Levenberg-Marquardt steps with exact derivatives of the free-run simulation (or of the one-step predictions).
        Of all iterates the one with the smallest error on the validation record is kept. Parts that the solver held
        fixed stay as they are.

        Parameters
        ----------
        u, y
            One record, or lists of records.
        on
            "simulation": the error of the free run; "prediction": of one step ahead.
        validation
            A record (u, y) that is not fitted. By default the last quarter of the longest record is held back.
        max_steps
            At most so many steps; it stops earlier when neither training nor validation get better.
        n_init
            Measured outputs that each simulation begins with; by default the longest lag.
        """
        model, rows = refine(
            self,
            self.inner,
            self._units,
            u,
            y,
            on,
            validation,
            max_steps,
            n_init,
            fixed_parts(self.solution.solver),
            progress,
        )
        return dataclasses.replace(self, _refined=model, refinement=rows)

    def __repr__(self) -> str:
        chosen = next((row.step for row in self.refinement if row.chosen), 0)
        refined = f", refined in {chosen} steps" if self.refinement else ""
        return f"DecoupledNARX(n_u={self.lags.n_u}, n_y={self.lags.n_y}, {self.inner!r}{refined})"
