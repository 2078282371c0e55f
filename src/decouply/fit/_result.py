"""What `decouple` returns: the model, how good it is, and how it came about."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array, as_flag
from .._support._errors import InputError
from ..bases import AbstractBasis
from ..model._decoupling import Decoupling
from ..samples._model_errors import jacobian_squares, ratio, relative_rmse_at, value_squares
from ..samples._samples import Samples
from ..solvers import AbstractSolver, History, LamRow, StartRow
from ..solvers.inference._identifiability import (
    Identifiability,
    Linearisation,
    identifiability,
    is_quick,
    linearise,
    standard_errors,
)
from ..solvers.problem._solution import Status
from ._settings import Settings
from .interpret._recognise import Recognition, recognise
from .quality._quality import Quality, Verdict, quality

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FARTHEST = 1e20  # arguments at which standard errors are asked for


@dataclass(frozen=True, eq=False)
class Result:
    """A decoupling with the record of its making.

    Attributes
    ----------
    decoupling
        The model, in canonical form: unit scales on the samples, most important functions first.
    status
        Why the chosen start stopped; `reason` is the sentence.
    lam
        The weight of the value term that the model was found with.
    history
        Objective, Error(J) and Error(F) of the chosen starts, iteration by iteration.
    starts
        One row per start and value of lam.
    path
        One row per value of lam that `TwoStage` tried, empty otherwise.
    notes
        What the user should know about this result, in sentences.
    samples, settings
        What it was made from: `decouple` called with these again gives the same model.
    seconds
        How long it took.
    found_by
        The way that led to the model, such as "algebraic ParaTuck-2" or "random start 17"; empty where a solver knows
        only one.
    ridge
        The penalty on squared parameters that the solver chose, in standard units; 0 where it chose none.
    n_effective
        The effective number of parameters where functions were smoothed: what the data decide, and no penalty.
    """

    decoupling: Decoupling
    status: Status
    lam: float
    history: History
    starts: tuple[StartRow, ...]
    path: tuple[LamRow, ...]
    notes: tuple[str, ...]
    samples: Samples
    seconds: float
    settings: Settings
    found_by: str = ""
    ridge: float = 0.0
    n_effective: float | None = None

    @property
    def solver(self) -> AbstractSolver:
        """The method, with the time limit that it was given."""
        return self.settings.method

    @property
    def reason(self) -> str:
        """Why the chosen start stopped, in words."""
        return self.status.value

    @property
    def error_jacobian(self) -> float:
        """||J - J_hat||^2 / ||J||^2 on the fitted samples, computed from the model; NaN without Jacobians.

        Where J is 0 it is the mean square of J_hat.
        """
        if not self.samples.has_jacobians:
            return float("nan")
        off, size = (squares.sum() for squares in self._jacobian_squares)
        S, n, m = self.samples.data.shape
        return float(ratio(off, size, S * n * m))

    @property
    def relative_slopes(self) -> Float[ndarray, " n"]:
        """100 ||J_i - J_hat_i|| / ||J_i|| on the fitted samples, in percent, one per output; NaN without Jacobians.

        An output whose Jacobians are 0 is compared with 1.
        """
        off, size = self._jacobian_squares
        return 100.0 * np.sqrt(ratio(off, size, self.samples.n_samples * self.samples.n_inputs))

    @cached_property
    def _jacobian_squares(self) -> tuple[Float[ndarray, " n"], Float[ndarray, " n"]]:
        """||J_i - J_hat_i||^2 and ||J_i||^2 for every output: stored Jacobians are read once for all errors."""
        if not self.samples.has_jacobians:
            return np.full(self.samples.n_outputs, np.nan), np.ones(self.samples.n_outputs)
        return jacobian_squares(self.decoupling, self.samples)

    @cached_property
    def error_values(self) -> float:
        """||F - F_hat||^2 / ||F||^2 on the fitted samples, computed from the model; NaN without values.

        Where F is 0 it is the mean square of F_hat.
        """
        if not self.samples.has_values:
            return float("nan")
        off, size = (squares.sum() for squares in value_squares(self.decoupling, self.samples))
        return float(ratio(off, size, self.samples.n_samples * self.samples.n_outputs))

    def relative_rmse(self, samples: Samples | None = None) -> Float[ndarray, " n"]:
        """e_i in percent, one per output, on the given samples or on the fitted ones."""
        data = self._with_values(samples)
        return relative_rmse_at(self.decoupling, data)

    def _with_values(self, samples: Samples | None) -> Samples:
        """The given samples, or the fitted ones, if they hold what fitted values are compared with."""
        data = self.samples if samples is None else samples
        if not isinstance(data, Samples):
            raise InputError(f"`samples` must be dc.Samples. Got {type(samples).__name__}.")
        if not data.has_values:
            raise InputError(
                "`samples` must hold values F to compare with. Got Jacobians only: give samples with values."
            )
        return data

    @cached_property
    def quality(self) -> Quality:
        """How good the model is, seen beside the noise: could these samples give a better one?

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (200, 2))
        >>> F = (X[:, :1] + X[:, 1:]) ** 3 + 0.3 * rng.normal(size=(200, 1))
        >>> dc.decouple(dc.Samples(X, F=F), ranks=1, degrees=3).verdict.word
        'as good as the data allow'
        >>> dc.decouple(dc.Samples(X, F=F), ranks=1, degrees=1).verdict.word
        'the data would allow better'
        """
        shown = self.samples.shown
        return quality(self.decoupling, shown, self.linearisation if is_quick(self.decoupling, shown) else None)

    @property
    def verdict(self) -> Verdict:
        """How good the model is, in one word and one sentence: that of the worst output.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (200, 2))
        >>> F = (X[:, :1] + X[:, 1:]) ** 3 + 0.3 * rng.normal(size=(200, 1))
        >>> print(dc.decouple(dc.Samples(X, F=F), ranks=1, degrees=3).verdict)
        As good as the data allow. What is left looks like noise with a standard deviation of 0.29 (18 % of the spread).
        """
        return self.quality.verdict

    def ablation(self, *, max_seconds: float = 20.0, progress: bool | Callable[..., None] = True) -> tuple[Any, ...]:
        """What every function is worth on the fitted samples, see `Decoupling.ablation`."""
        return self.decoupling.ablation(self.samples.shown, max_seconds=max_seconds, progress=progress)

    @cached_property
    def identifiability(self) -> Identifiability:
        """Whether the model is locally unique: rank of the derivatives of all data with respect to all parameters."""
        if not self.samples.in_memory:
            return identifiability(linearise(self.decoupling, self.samples, self.settings.fixed))
        penalised = self.ridge > 0.0 or self.n_effective is not None
        return identifiability(self.linearisation.unpenalised() if penalised else self.linearisation)

    def uncertainty(self, u: object = None) -> tuple[Float[ndarray, "_ _"], ...]:
        """Standard errors of the internal functions from the residuals, one array (len(u), r_l) per layer.

        They are taken at the numbers `u`, the same for every function, or where the samples lie when `u` is left out.
        """
        points = None if u is None else as_array("u", u, ("k",))
        if points is not None and np.max(np.abs(points), initial=0.0) > _FARTHEST:
            raise InputError(f"`u` must lie within ±{_FARTHEST:g}: functions are powers of it. Got larger numbers.")
        at = self.linearisation if self.samples.in_memory else self._linearise(self.decoupling, self.samples)
        return standard_errors(at, points)

    @cached_property
    def linearisation(self) -> Linearisation:
        """Derivatives of all data with respect to all parameters at the model, at samples in memory.

        Quality, identifiability and standard errors are read from it.
        """
        return self._linearise(self.decoupling, self.samples.shown)

    def _linearise(self, model: Decoupling, samples: Samples) -> Linearisation:
        smoothed = self.n_effective is not None
        return linearise(model, samples, self.settings.fixed, self.ridge, smoothed=smoothed)

    def band_errors(self, model: Decoupling | None = None) -> Callable[[list[ndarray]], tuple[ndarray, ...]] | None:
        """How to compute standard errors on grids, one per layer; None if that is out of reach or takes too long.

        They are those of the functions of the model, or of another way to write it.
        """
        shown = self.samples.shown
        if not is_quick(self.decoupling if model is None else model, shown):
            return None
        at = self.linearisation if model is None else self._linearise(model, shown)
        return lambda grids: standard_errors(at, grids)

    def recognise(
        self,
        *,
        curves: Sequence[str] | None = None,
        tolerance: float | None = None,
        max_seconds: float | None = None,
    ) -> Recognition:
        """Name the internal functions from the samples that were fitted, see `Decoupling.recognise`.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (80, 2))
        >>> F = np.stack([(X[:, 0] + X[:, 1]) ** 2, X[:, 0] - X[:, 1]], axis=1)
        >>> dc.decouple(dc.Samples(X, F=F), ranks=2, degrees=4).recognise().names
        ('parabola', 'line')
        """
        by_default = curves is None and tolerance is None and max_seconds is None
        return self._recognition if by_default else self._recognise(curves, tolerance, max_seconds)

    @cached_property
    def _recognition(self) -> Recognition:
        """What `recognise` finds by default: looked for once, for tables and pages."""
        return self._recognise(None, None, None)

    def _recognise(
        self, curves: Sequence[str] | None, tolerance: float | None, max_seconds: float | None
    ) -> Recognition:
        return recognise(
            self.decoupling,
            self.samples.shown,
            curves=curves,
            tolerance=tolerance,
            n_parameters=self.n_effective or self.decoupling.n_parameters,
            max_seconds=max_seconds,
        )

    def simplified(self, *, curves: Mapping[tuple[int, int], str] | Sequence[str] | None = None, **options: Any) -> Any:
        """Curves that have names in place of functions, refitted to the samples, see `Decoupling.simplified`."""
        return self.decoupling.simplified(self.samples.shown, curves=curves, **options)

    def plot(
        self,
        *,
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
        bands: bool = True,
        dark: bool = False,
    ) -> Figure:
        """Draw the network as a block diagram: inputs, W_0, functions, ..., W_L, outputs.

        Solid edges are positive weights and dashed ones negative; a thick line is a large contribution. Each function
        is a small curve over the range that the samples visit, dashed outside its domain; a linear part is a box below
        them. Of large layers the most important parts are shown.

        Parameters
        ----------
        inputs, outputs
            Names of the variables; by default those of the samples, or x1, x2, ... and y1, y2, ...
        bands
            Shade two standard errors, where they are known: not with stored Jacobians, nor for very large models.
        dark
            Light lines on black paper, here and in the other pictures.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> system, X = dc.systems.f1(), np.random.default_rng(0).uniform(-1, 1, (60, 2))
        >>> result = dc.decouple(dc.Samples(X, F=system(X), J=system.jacobian(X)), (2, 2), (3, 3), progress=False)
        >>> result.plot(inputs=["pressure", "flow"]).savefig("network.pdf")  # doctest: +SKIP
        """
        from ..report import Layout, draw_diagram

        return draw_diagram(Layout.of_result(self, inputs=inputs, outputs=outputs, bands=bands), dark=dark)

    def plot_functions(self, *, bands: bool = True, dark: bool = False) -> Figure:
        """Draw the internal functions over the range that the samples visit, with bands of two standard errors.

        Ticks mark the samples. There are no bands with stored Jacobians, nor for very large models.
        """
        from ..report import plot_functions

        errors = self.band_errors() if as_flag("bands", bands) else None
        return plot_functions(self.decoupling, self.samples.shown.X, errors=errors, dark=dark)

    def plot_history(self, *, dark: bool = False) -> Figure:
        """Draw objective, Error(J) and Error(F) of the chosen start, iteration by iteration and for every lam in turn.

        `VarPro` looks at the objective only.
        """
        from ..report import plot_history

        return plot_history(self, dark=dark)

    def plot_starts(self, *, dark: bool = False) -> Figure:
        """Draw how many starts reach which objective, one line per value of lam."""
        from ..report import plot_starts

        return plot_starts(self, dark=dark)

    def plot_fit(
        self, samples: Samples | None = None, *, outputs: Collection[str] | None = None, dark: bool = False
    ) -> Figure:
        """Draw true against decoupled values, with residuals, on the given samples or on the fitted ones.

        Each output has a panel with its e_i; of more than twelve outputs the worst twelve are shown.
        """
        from ..report import plot_fit

        data = self._with_values(samples)
        return plot_fit(self.decoupling, data.shown, self.relative_rmse(data), outputs=outputs, dark=dark)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "Decoupling report",
        inputs: Collection[str] | None = None,
        outputs: Collection[str] | None = None,
    ) -> None:
        """Write a page for people: one HTML file that needs no network.

        It tells what was asked, what was found and how good that is, draws the functions and the way that signals take
        through them, and gives the formula and the call to run it again.

        Parameters
        ----------
        inputs, outputs
            Names of the variables; by default those of the samples, or x1, x2, ... and y1, y2, ...
        """
        from ..report import write_report

        write_report(self, path, title=title, inputs=inputs, outputs=outputs)

    def save(self, path: str | os.PathLike[str], *, samples: bool = True) -> None:
        """Write the model with the record of its making to a .safetensors file.

        `Result.load` reads it again, and `Decoupling.load` the model alone. With ``samples=False`` the file is small,
        and the samples must be given to `Result.load`. Start values and solvers of your own are not kept.
        """
        from ..write._model_file import save_result

        save_result(self, path, samples=samples)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        samples: Samples | None = None,
        bases: Sequence[type[AbstractBasis]] = (),
    ) -> Result:
        """Read what `save` wrote; `samples` where they were not saved, `bases` for basis classes of your own."""
        from ..write._model_file import load_result

        return load_result(path, samples, bases)

    def __repr__(self) -> str:
        errors = [f"Error(J) {self.error_jacobian:.2e}"] if self.samples.has_jacobians else []
        if self.samples.has_values:
            errors.append(f"Error(F) {self.error_values:.2e}")
        how = f" by {self.found_by}" if self.found_by else ""
        return f"Result({self.decoupling!r}, {', '.join(errors)}, lam {self.lam:.0e}, {self.status.name}{how})"

    def _repr_html_(self) -> str:
        from ..write._notebook import result_html

        return result_html(self)
