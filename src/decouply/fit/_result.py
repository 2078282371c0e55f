"""What `decouple` returns: the model, how good it is, and how it came about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import as_array, as_count, as_flag, as_generator, as_number, as_points, warn_nonfinite
from .._support._errors import InputError
from .._support._progress import progress_callback
from .._support._time_limit import now
from ..model._decoupling import Decoupling
from ..samples._model_errors import jacobian_squares, ratio, relative_rmse_at, value_squares
from ..samples._samples import Samples
from ..solvers import AbstractSolver, History, LamRow, StartRow, VarPro
from ..solvers.inference._identifiability import Identifiability, identifiability
from ..solvers.inference._linearisation import Linearisation, is_quick, linearise
from ..solvers.inference._uncertainty import Uncertainty, fit_without_ridge, t_quantile
from ..solvers.inference._uniqueness import find_other_solutions
from ..solvers.problem._solution import Status
from ._result_facade import AbstractResultFacade
from ._settings import Settings
from .interpret._importances import Importances, importances
from .interpret._recognise import LEAST_POINTS, NamedCurve, Recognition, recognise, symbol
from .quality._quality import MUCH, Grade, Quality, Verdict, percent, quality

_MOST_NAMED = 24  # functions that are recognised unasked, at up to half a second each
LEVEL = 0.95  # of the bands that are drawn
OPEN, BORDER = "Even exact data leave models of this shape open", "A border case"  # how two notes begin
_FARTHEST = 1e20  # arguments at which standard errors are asked for


@dataclass(frozen=True)
class Alternative:
    """A model that was tried on the way, described in short, and its error on validation samples in percent.

    >>> import decouply as dc
    >>> dc.fit.Alternative("2 inputs → 1 polynomial of degree 3 → 1 output", 7, 1.5, chosen=True).n_parameters
    7
    """

    model: str
    n_parameters: int
    error: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class Result(AbstractResultFacade):
    """A decoupling with the record of its making.

    Attributes
    ----------
    decoupling : Decoupling
        The model, in canonical form: unit scales on the samples, most important functions first.
    status : Status
        Why the chosen start stopped; `reason` is the sentence.
    lam : float
        The weight of the value term that the model was found with.
    history : History
        Objective, Error(J) and Error(F) of the chosen starts, iteration by iteration.
    starts : tuple of StartRow
        One row per start and value of lam.
    path : tuple of LamRow
        One row per value of lam that `TwoStage` tried, empty otherwise.
    notes : tuple of str
        What the user should know about this result, in sentences.
    samples, settings : Samples, Settings
        What it was made from: `decouple` called with these again gives the same model.
    seconds : float
        How long it took.
    found_by : str
        The way that led to the model, such as "algebraic ParaTuck-2" or "random start 17"; empty if a solver knows
        only one.
    ridge : float
        The penalty on squared parameters that the solver chose, in standard units; 0 if it chose none.
    n_effective : float or None
        The effective number of parameters if functions were smoothed: what the data decide, and no penalty.
    alternatives : tuple of Alternative
        If the shape was chosen: the smallest models of every error that were tried, smallest first.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 3))
    >>> samples = dc.Samples(X, F=(X[:, :1] + 2 * X[:, 1:2]) ** 3, inputs=["speed", "load", "temperature"])
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> print(result)
    Exact. The model meets the values to machine precision.
    3 inputs → 1 polynomial of degree 3 → 1 output, 8 parameters
    Functions: g_1 is an odd cubic.
    Inputs: load 93 %, speed 51 % of the variance; without visible effect: temperature.
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
    alternatives: tuple[Alternative, ...] = ()

    @property
    def solver(self) -> AbstractSolver:
        """The method, with the time limit that it was given."""
        return self.settings.method

    @property
    def reason(self) -> str:
        """Why the chosen start stopped, as a sentence."""
        return self.status.value

    @property
    def error_jacobian(self) -> float:
        """||J - J_hat||^2 / ||J||^2 on the fitted samples, computed from the model; NaN without Jacobians.

        If J is 0 it is the mean square of J_hat.
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

        If F is 0 it is the mean square of F_hat.
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
        >>> verdict = dc.decouple(dc.Samples(X, F=F), ranks=1, degrees=3).verdict
        >>> verdict.grade.name, verdict.is_good
        ('NOISE', True)
        >>> print(verdict.sentence)
        The residuals look like noise with a standard deviation of 0.29 (18 % of that of the output).
        """
        return self.quality.verdict

    def ablation(self, *, max_seconds: float = 20.0, progress: bool | Callable[..., None] = True) -> tuple[Any, ...]:
        """What every function is worth on the fitted samples, see `Decoupling.ablation`."""
        return self.decoupling.ablation(self.samples.shown, max_seconds=max_seconds, progress=progress)

    @cached_property
    def importances(self) -> Importances:
        """How much the outputs hang on each input and on each function; inputs without visible effect are named.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
        >>> samples = dc.Samples(X, F=(X[:, :1] + 2 * X[:, 1:2]) ** 3)
        >>> print(dc.decouple(samples, 1, 3, rng=0, progress=False).importances.idle)
        ('x3',)
        """
        return importances(self.decoupling, self.samples.shown)

    @cached_property
    def identifiability(self) -> Identifiability:
        """Which functions the data determine, and whether another model near this one would fit as well.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> system = dc.systems.random_system((2, 3, 2), (2,), rng=0)
        >>> X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
        >>> samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
        >>> dc.decouple(samples, 3, 2, progress=False).identifiability.in_words
        'g_1, g_2 and g_3 can be mixed'
        """
        if not self.samples.in_memory:
            return identifiability(linearise(self.decoupling, self.samples, self.settings.fixed))
        return identifiability(self.linearisation)

    def other_solutions(
        self,
        n: int = 1,
        *,
        max_seconds: float = 20.0,
        rng: int | np.random.Generator = 0,
        progress: bool | Callable[..., None] = True,
    ) -> tuple[Decoupling, ...]:
        """Look for other models of this shape, up to `n`, that fit the samples as well but have other functions.

        A model that is locally unique can have others far away. They are looked for from random starts, so that finding
        none proves nothing.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> X = np.linspace(-1, 1, 60)[:, None]
        >>> samples = dc.Samples(X, F=np.cos(6 * np.arccos(X)))  # T_6, which is T_2(T_3) and T_3(T_2)
        >>> result = dc.decouple(samples, (1, 1), (3, 3), progress=False)
        >>> result.identifiability.locally_unique, len(result.other_solutions(progress=False))
        (True, 1)
        """
        as_count("n", n)
        as_number("max_seconds", max_seconds, above=True)
        if not self.samples.in_memory:
            raise InputError(
                "`samples` must be in memory to look for other solutions. Got stored ones: fit some of them, "
                "`samples.pilot(10_000)`."
            )
        with progress_callback(progress, "Other solutions") as report:
            return find_other_solutions(
                self.decoupling, self.samples, n, self.ridge, as_generator(rng), now() + max_seconds, report
            )

    def uncertainty(
        self,
        u: object = None,
        *,
        level: float | None = None,
        bootstrap: int = 0,
        rng: int | np.random.Generator = 0,
    ) -> tuple[Float[ndarray, "_ _"], ...]:
        """Standard errors of the internal functions from the residuals, one array (len(u), r_l) per layer.

        They are taken at the numbers `u`, the same for every function, or where the samples lie when `u` is left out.
        With a level such as 0.95 they become the half-widths of bands that hold the function at a place with that
        probability. They are infinite for functions that the data do not determine, see `identifiability`, and for all
        functions if the residuals are not noise, see `verdict`.

        Errors come from the derivatives of all data. With ``bootstrap=100`` they come from as many fits to simulated
        data instead, which are this model with new noise. That is slower, and a check of the derivatives.
        """
        points = None if u is None else as_array("u", u, ("k",))
        if points is not None and np.max(np.abs(points), initial=0.0) > _FARTHEST:
            raise InputError(f"`u` must lie within ±{_FARTHEST:g}: functions are powers of it. Got larger numbers.")
        at = self._linearise_for_errors(self.decoupling, self.samples)
        grids = None if points is None else [np.repeat(points[:, None], r, axis=1) for r in self.decoupling.ranks]
        if as_count("bootstrap", bootstrap, least=0) == 0:
            return self._errors_of_functions(at, grids, level)
        if not self.samples.in_memory:
            raise InputError("`bootstrap` must be 0 for stored samples: fit some of them, `samples.pilot(10_000)`.")
        solver = VarPro(start=self.decoupling, ridge=self.ridge, fixed=self.settings.fixed)
        return self._errors_of_functions(
            at,
            grids,
            level,
            lambda known: known.of_functions_by_simulation(solver, bootstrap, as_generator(rng), grids),
        )

    def uncertainty_of_weights(self, *, level: float | None = None) -> tuple[Float[ndarray, "_ _"], ...]:
        """Standard errors of the weights W_0, ..., W_L, one array for each; with a level, half-widths of intervals.

        Scales are those of the model: arguments over a range of length 2, slopes of root mean square 1. What a ridge
        took from the weights is not among the errors. They are infinite for weights that the data do not determine,
        and for all if the residuals are not noise.

        Examples
        --------
        >>> import decouply as dc, numpy as np
        >>> rng = np.random.default_rng(0)
        >>> X = rng.uniform(-1, 1, (200, 2))
        >>> F = (X @ [[1.0], [2.0]]) ** 3 + 0.1 * rng.normal(size=(200, 1))
        >>> first, last = dc.decouple(dc.Samples(X, F=F), 1, 3, progress=False).uncertainty_of_weights()
        >>> first.shape, bool(np.all(first < 0.01))
        ((1, 2), True)
        """
        known = Uncertainty(self._linearise_for_errors(self.decoupling, self.samples))
        factor = np.inf if self._leaves_more_than_noise else 1.0 if level is None else t_quantile(level, known.freedom)
        return tuple(np.where(error > 0.0, factor * error, 0.0) for error in known.of_weights())

    def _errors_of_functions(
        self,
        at: Linearisation,
        grids: list[ndarray] | None,
        level: float | None,
        errors_of: Callable[[Uncertainty], tuple[ndarray, ...]] | None = None,
    ) -> tuple[Float[ndarray, "_ _"], ...]:
        known = Uncertainty(at, self._without_ridge)
        errors = known.of_functions(grids) if errors_of is None else errors_of(known)
        factor = np.inf if self._leaves_more_than_noise else 1.0 if level is None else t_quantile(level, known.freedom)
        return tuple(np.where(error > 0.0, factor * error, 0.0) for error in errors)

    @cached_property
    def _without_ridge(self) -> Decoupling | None:
        """The model that a fit without the ridge ends in, begun at this one; None if there was no ridge."""
        if self.ridge == 0.0 or not self.samples.in_memory:
            return None
        return fit_without_ridge(self.decoupling, self.samples, self.settings.fixed)

    @property
    def _leaves_more_than_noise(self) -> bool:
        """Whether the inputs predict so much of the residuals that these say nothing of errors."""
        weights = self.samples.weights
        told_apart = weights is not None and weights.ndim > 1  # residuals are looked at without weights
        if told_apart or not self.samples.in_memory or not is_quick(self.decoupling, self.samples):
            return False
        missed = np.array([one.grade is not Grade.EXACT for one in self.quality.verdicts])
        return bool(np.any(missed & (self.quality.predictable >= MUCH)))

    def uncertainty_at(self, X: object, *, noise: bool = True, level: float | None = None) -> Float[ndarray, "S n"]:
        """Standard deviations of new measurements at the points X from the model, one column per output.

        Without `noise`, standard errors of the model there; what the inputs predict of its residuals is an error of the
        model. With a level such as 0.95, half-widths of intervals that hold the measurement, or the function, with that
        probability.
        """
        points = as_points("X", X, self.decoupling.n_inputs)
        known = Uncertainty(self._linearise_for_errors(self.decoupling, self.samples))
        if as_flag("noise", noise):
            own = known.noise_of_values
        else:
            misfit = self.quality.predictable if self._leaves_more_than_noise else np.zeros(self.decoupling.n_outputs)
            own = np.sqrt(misfit) * known.noise_of_values
        factor = 1.0 if level is None else t_quantile(level, known.freedom)
        with np.errstate(over="ignore", invalid="ignore"):
            found = factor * np.sqrt(known.of_values(points) ** 2 + own**2)
        return warn_nonfinite("Standard deviations", found, "stay nearer to the samples")

    def _errors_of_parameters_at(self, X: Float[ndarray, "S m"]) -> Float[ndarray, "S n"]:
        """What the uncertainty of the parameters makes of the values at known points: misfit is not among it."""
        return Uncertainty(self._linearise_for_errors(self.decoupling, self.samples)).of_values(X)

    @cached_property
    def linearisation(self) -> Linearisation:
        """Derivatives of all data with respect to all parameters at the model, at samples in memory.

        Quality, identifiability and standard errors are read from it.
        """
        return self._linearise(self.decoupling, self.samples.shown)

    def _linearise(self, model: Decoupling, samples: Samples) -> Linearisation:
        smoothed = self.n_effective is not None
        return linearise(model, samples, self.settings.fixed, self.ridge, smoothed=smoothed)

    def _linearise_for_errors(self, model: Decoupling, samples: Samples) -> Linearisation:
        """In the writing that the ridge led to, if there was one."""
        if self.ridge > 0.0:
            return linearise(model, samples, self.settings.fixed, self.ridge, balanced=True)
        if model is self.decoupling and samples.in_memory:
            return self.linearisation
        return self._linearise(model, samples)

    def bands(self, model: Decoupling | None = None) -> Callable[[list[ndarray]], tuple[ndarray, ...]] | None:
        """How to compute 95 % bands on grids, one per layer; None if that is out of reach or takes too long.

        They are those of the functions of the model, or of another way to write it.
        """
        if model is not None and not isinstance(model, Decoupling):
            raise InputError(f"`model` must be a dc.Decoupling. Got {type(model).__name__}.")
        shown = self.samples.shown
        if not is_quick(self.decoupling if model is None else model, shown):
            return None
        at = self._linearise_for_errors(self.decoupling if model is None else model, shown)
        return lambda grids: self._errors_of_functions(at, grids, LEVEL)

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

    @property
    def named_curves(self) -> dict[tuple[int, int], NamedCurve]:
        """Curves that functions are recognised as, by layer and place from 1; none if that would take long."""
        if sum(self.decoupling.ranks) > _MOST_NAMED or self.samples.n_samples < LEAST_POINTS:
            return {}
        return {(f.layer, f.index): f.best for f in self.recognise() if f.best is not None}

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

    @property
    def size_in_words(self) -> str:
        """What the model consists of: inputs, functions, outputs and parameters."""
        effective = "" if self.n_effective is None else f" ({self.n_effective:.0f} effective)"
        return f"{self.decoupling}{effective}"

    def __str__(self) -> str:
        """One screen: the verdict, the model and its error, its functions by name, and which inputs matter."""
        lines = [str(self.verdict), self.size_in_words]
        seen, unseen = (
            np.sqrt(np.maximum(1.0 - r, 0.0)) for r in (self.quality.r_squared, self.quality.left_out_r_squared)
        )
        what = "the standard deviation" if self.samples.has_values else "the size of the slopes"
        left_out = f", {percent(unseen.max())} in cross-validation" if np.isfinite(unseen).all() else ""
        if self.verdict.grade is not Grade.EXACT:
            lines.append(f"Error: {percent(seen.max())} of {what}{left_out}; R² {self.quality.r_squared.min():.4g}.")
        if named := self.named_curves:
            count = self.decoupling.n_layers
            lines.append(f"Functions: {'; '.join(f'{symbol(*at, count)} is {c.words}' for at, c in named.items())}.")
        lines.append(f"Inputs: {self.importances.in_words}.")
        # A good fit does not tell that its functions are not the only ones, or that they cancel each other.
        lines += [f"Note: {note}" for note in self.notes if not self.verdict.is_good or note.startswith((OPEN, BORDER))]
        return "\n".join(lines)

    def __repr__(self) -> str:
        errors = [f"Error(J) {self.error_jacobian:.2e}"] if self.samples.has_jacobians else []
        if self.samples.has_values:
            errors.append(f"Error(F) {self.error_values:.2e}")
        how = f" by {self.found_by}" if self.found_by else ""
        return f"Result({self.decoupling!r}, {', '.join(errors)}, lam {self.lam:.0e}, {self.status.name}{how})"
