"""A NARX model whose map from regressors to output is a decoupling."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from jaxtyping import Float
from numpy import ndarray

from .._decoupling import Decoupling
from .._formula import formula
from .._result import Result
from ._abstract import AbstractNARX, OutputRange
from ._free_run import Step, step_of
from ._lags import Lags
from ._refine import RefineRow, refine

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class DecoupledNARX(AbstractNARX):
    """y(t) = W_L g_L(... g_1(W_0 x(t))): what `PolynomialNARX.decouple` returns.

    Attributes
    ----------
    result
        The decoupling with the record of how it was found: `dc.Result`.
    decoupling
        The map from regressors, as measured, to outputs: `dc.Decoupling`.
    refinement
        One row per step of `refine`; empty before.
    """

    result: Result
    _lags: Lags
    _range: OutputRange
    _flat: bool
    _decoupling: Decoupling | None = None
    refinement: tuple[RefineRow, ...] = field(default=())

    @property
    def decoupling(self) -> Decoupling:
        return self.result.decoupling if self._decoupling is None else self._decoupling

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
        return self.decoupling.n_parameters

    def __call__(self, X: object) -> Float[ndarray, "S n"]:
        return self.decoupling(X)

    def jacobian(self, X: object) -> Float[ndarray, "S n m"]:
        return self.decoupling.jacobian(X)

    def step(self) -> Step:
        return step_of(self.decoupling)

    def formula(self, kind: Literal["text", "latex"] = "text", *, digits: int = 4) -> Any:
        """The model written out in u(t), u(t-1), ..., y(t-1), ...; use `decoupling.formula` for source code."""
        names, outputs = list(self.lags.names), list(self.lags.output_names)
        return formula(self.decoupling, kind, inputs=names, outputs=outputs, digits=digits)

    def plot(self) -> Figure:
        """Draw the internal functions over the range that the samples visit."""
        if self._decoupling is None:
            return self.result.plot()
        from ..report import plot_functions

        return plot_functions(self.decoupling, self.result.samples)

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
        Of all iterates the one with the smallest error on the validation record is kept.

        Parameters
        ----------
        u, y
            One record, or lists of records.
        on
            "simulation": the error of the free run; "prediction": of one step ahead.
        validation
            A record (u, y) that is not fitted. By default the last quarter of the last record is held back.
        max_steps
            At most so many steps; it stops earlier when neither training nor validation get better.
        n_init
            Measured outputs that each simulation begins with; by default the longest lag.
        """
        model, rows = refine(self, u, y, on, validation, max_steps, n_init, progress)
        return dataclasses.replace(self, _decoupling=model.canonical(self.result.samples.X), refinement=rows)

    def __repr__(self) -> str:
        refined = f", refined in {len(self.refinement) - 1} steps" if self.refinement else ""
        return f"DecoupledNARX(n_u={self.lags.n_u}, n_y={self.lags.n_y}, {self.decoupling!r}{refined})"
