"""Decouplings as a scikit-learn estimator: values in, predictions out, and beyond the data no wild growth."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal, no_type_check

import numpy as np
from jaxtyping import Float
from joblib import parallel_config
from numpy import ndarray

from .._support._arguments import as_flag, is_word, read_array
from .._support._errors import InputError, warn
from .._support._optional_packages import needed
from .._support._time_limit import OUT_OF_TIME
from ..fit._pieces import fit_with_pieces
from ..fit._result import Result
from ..fit._settings import Settings
from ..fit.select._growth import RANKS
from ..fit.select._select import MAX_DEGREE, choose_functions, limits_of, select_shape
from ..model._decoupling import Decoupling
from ..model._names import column_names, usable_names
from ..samples._duplicates import n_distinct_numbers
from ..samples._samples import Samples
from ..solvers import AbstractSolver, VarPro
from ..solvers.inference._linearisation import is_quick
from ..solvers.problem._solution import Status
from ..solvers.problem._solver import fixed_parts, given_start, with_start

needed("sklearn.utils.validation:validate_data", "sklearn", "dc.DecouplingRegressor")  # scikit-learn 1.6 brought it
from sklearn.base import BaseEstimator, RegressorMixin  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

from ._estimator import (  # noqa: E402
    BOUNDED,
    DEGREE,
    Bounds,
    DecouplingEstimator,
    as_outside,
    as_targets,
    as_weights,
    validate_arrays,
    with_sample_weights,
    with_tails,
)

_STARTS = 32  # of the default solver: a fit of a few hundred samples takes about a second
_PER_PARAMETER, _RIDGE = 2.0, 1e-6  # numbers for each, below which this ridge is taken: it decides where data do not
_EXACT = 1e-4  # of the variance, on left-out samples: formulas are trusted just beyond the data


class DecouplingRegressor(DecouplingEstimator, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by layers of univariate functions that can be read.

    The model is y = W_L g_L(W_(L-1) ... g_1(W_0 x)). It needs values only; Jacobians of y with respect to X help
    if they are known. Data need not be scaled first.

    Parameters
    ----------
    ranks : int, tuple of int or "auto", default="auto"
        (r_1, ..., r_L): number of internal functions per layer, from input to output. A number means one layer. With
        "auto" they are chosen at every fit, as by `dc.decouple`. The first note of `result_` says why.
    degrees : int, tuple of int or None, default=None
        (d_1, ..., d_L): degrees of polynomials, one per layer. With neither `degrees` nor `basis` the data choose the
        functions: polynomials if these are exact or need fewer parameters, otherwise splines.
    basis : basis, basis class or sequence, default=None
        A basis class, a basis, or a sequence with one entry per layer, as for `dc.decouple`.
    linear : bool, default=False
        Whether the model has a linear part besides: y = A x + W_L g_L(...).
    outside : {"bounded", "linear", "constant", "extend"}, default="bounded"
        What happens beyond the training range. With "bounded", functions continue linearly, and inputs and predictions
        are clipped half a range beyond the training range. A nearly exact fit follows its formulas instead, and only
        inputs are clipped. With "linear" functions continue linearly, with "extend" they follow their formulas, and
        with "constant" they keep their last value, all without clipping. Functions without a range, such as
        dc.bases.Tanh(), follow their formulas.
    solver : solver or None, default=None
        The method. By default `dc.VarPro(ridge=ridge)`.
    n_starts : int or None, default=None
        Number of random starts. By default 32, or what your own solver does. With ranks="auto" 8 for each rank.
    ridge : float or "auto", default="auto"
        Penalty on the squared size of all weights and coefficients, for the default solver only. With "auto" it follows
        the noise, which takes about twice as long as a number. With fewer than two numbers per parameter it is 1e-6,
        next to none.
    max_seconds : float or None, default=None
        A fit ends after about this many seconds, with the best so far and a warning. None is no limit but that of the
        solver.
    random_state : int, RandomState or None, default=None
        Seed or `numpy.random.RandomState`, as in scikit-learn. None is 0, so that a fit can be repeated. `numpy.random`
        itself stands for NumPy's global generator, which nothing else touches.
    n_jobs : int or None, default=None
        Processes for independent work (batches of starts, folds with ranks="auto"), as in scikit-learn: None is one,
        or what `joblib.parallel_config` says. -1 is all. The result does not depend on it.
    verbose : bool, default=False
        Whether a bar is shown on a terminal.

    Attributes
    ----------
    decoupling_ : Decoupling
        The model in the units of X and y: ``predict(X)`` is ``decoupling_(X)``, up to the bounds on inputs. It has the
        names of the columns of X.
    result_ : Result
        How it was found, as `dc.decouple` returned it: `decoupling_` with formulas that go on beyond the range of X.
    feature_importances_ : ndarray (m,)
        Shares of the inputs that add up to 1. `result_.importances` has them for every output.
    n_features_in_, feature_names_in_ : int, array of str
        As in scikit-learn.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 10, (200, 3))
    >>> y = (X[:, 0] + X[:, 1] - 10) ** 3 + 50 * X[:, 2]
    >>> model = dc.DecouplingRegressor(ranks=2, degrees=3, random_state=0).fit(X[:150], y[:150])
    >>> bool(model.score(X[150:], y[150:]) > 0.9999)
    True
    """

    _seen: tuple[ndarray, ndarray]  # of `partial_fit`

    @no_type_check  # scikit-learn builds estimators with any values, and `fit` refuses them
    def __init__(
        self,
        ranks: int | Sequence[int] | Literal["auto"] = "auto",
        degrees: int | Sequence[int] | None = None,
        *,
        basis: Any = None,
        linear: bool = False,
        outside: str = BOUNDED,
        solver: AbstractSolver | None = None,
        n_starts: int | None = None,
        ridge: float | Literal["auto"] = "auto",
        max_seconds: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.ranks = ranks
        self.degrees = degrees
        self.basis = basis
        self.linear = linear
        self.outside = outside
        self.solver = solver
        self.n_starts = n_starts
        self.ridge = ridge
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, jacobian: Any = None, sample_weight: Any = None) -> DecouplingRegressor:
        """Fit the model.

        Parameters
        ----------
        X : (S, m)
            Inputs.
        y : (S,) or (S, n)
            Outputs.
        jacobian : (S, n, m), or (S, m) for one output, optional
            Derivatives of y with respect to X. Without them only values are used.
        sample_weight : (S,), optional
            What the squared residuals of each sample are multiplied by.
        """
        called = column_names(y)
        X, y = validate_arrays(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2, order="C"
        )
        F = np.asarray(as_targets(y), dtype=np.float64).reshape(len(X), -1)
        names = usable_names(getattr(self, "feature_names_in_", None))
        samples = Samples(X, F=F, J=_as_jacobians(jacobian, F, X), inputs=names, outputs=called)
        if sample_weight is not None:
            samples = with_sample_weights(samples, as_weights(sample_weight, X))
        if hasattr(self, "_seen"):
            del self._seen
        self._fit_samples(y, samples, None)
        return self

    def _fit_samples(self, y: Any, samples: Samples, start: Decoupling | None) -> None:
        """Fit to samples, from a model if one is known."""
        outside = as_outside(self.outside)
        settings = self._settings(self.basis)
        chosen = settings.ranks is None and start is None
        if settings.ranks is None and start is not None:  # one more batch keeps the ranks of those before
            bases = [g.layer.bases for g in start.g]
            settings = dataclasses.replace(settings, ranks=start.ranks, degrees=None, basis=bases)
        solver = self.solver
        if solver is None and not (chosen and is_word(self.ridge, ("auto",))):  # a choice has ways of its own
            solver = self._default_solver(samples, settings, start)
        if start is not None:
            solver = with_start(solver, start) or solver
        settings = dataclasses.replace(settings, solver=solver)
        with nullcontext() if self.n_jobs is None else parallel_config(n_jobs=self.n_jobs):
            self.result_ = self._select(samples, settings) if chosen else self._fit_ranks(samples, settings)
        if self.result_.status is Status.OUT_OF_TIME or OUT_OF_TIME in self.result_.notes:
            warn(OUT_OF_TIME, stacklevel=3)
        assert samples.F is not None
        exact = self._is_exact
        self._range = Bounds.around(samples.X, bounded=outside == BOUNDED)
        self._values = Bounds.around(np.asarray(samples.F), bounded=outside == BOUNDED and not exact)
        self.decoupling_ = with_tails(self.result_.decoupling, samples.X, outside, exact=exact)
        self._flat = np.ndim(y) == 1

    def _default_solver(self, samples: Samples, settings: Settings, start: Decoupling | None) -> VarPro:
        """One whose ridge follows the noise, unless there are too few numbers to tell what is noise."""
        if not is_word(self.ridge, ("auto",)) or (is_word(self.ranks, ("auto",)) and start is not None):
            return VarPro(ridge=self.ridge)
        if settings.ranks is None and (self.basis is None or isinstance(self.basis, type)):
            settings = dataclasses.replace(settings, ranks=1, degrees=DEGREE)
        elif settings.ranks is None:
            settings = dataclasses.replace(settings, ranks=1)
        enough = n_distinct_numbers(samples) >= _PER_PARAMETER * settings.n_free(samples)
        return VarPro(ridge="auto" if enough else _RIDGE)

    @property
    def _is_exact(self) -> bool:
        """Whether validation samples are predicted very well: never better than those that were fitted."""
        fitted = (self.result_.relative_rmse() / 100.0) ** 2
        return bool(np.all(fitted < _EXACT)) and bool(np.all(1.0 - self.result_.quality.left_out_r_squared < _EXACT))

    def _select(self, samples: Samples, settings: Settings) -> Result:
        """A fit of ranks that validation samples choose."""
        solver = settings.solver
        if isinstance(solver, AbstractSolver) and (fixed_parts(solver) or given_start(solver) is not None):
            raise InputError('`ranks` must be given if the solver has fixed parts or a start. Got "auto".')
        limits = limits_of(RANKS[-1], MAX_DEGREE, settings.degrees, self.basis)
        return select_shape(samples, settings, limits, effort="quick", progress=bool(self.verbose)).result

    def _fit_ranks(self, samples: Samples, settings: Settings) -> Result:
        """A fit of ranks that are known."""
        if settings.degrees is None and settings.basis is None and self.solver is None:
            return choose_functions(samples, settings, progress=bool(self.verbose))
        if settings.degrees is None and settings.basis is None:
            settings = dataclasses.replace(settings, degrees=(DEGREE,) * np.size(settings.ranks))
        if self.solver is None and self.n_starts is None:
            settings = dataclasses.replace(settings, n_starts=_STARTS)
        return fit_with_pieces(samples, settings, progress=bool(self.verbose))

    def partial_fit(self, X: Any, y: Any) -> DecouplingRegressor:
        """Add a batch to all that came before and fit the model to all of it, starting at the one there is.

        Batches are kept in memory; `dc.Samples.from_batches` keeps them in a store. `fit` begins anew.
        """
        first = not hasattr(self, "_seen")
        X, y = validate_arrays(
            self,
            X,
            y,
            reset=first,
            dtype=np.float64,
            multi_output=True,
            y_numeric=True,
            ensure_min_samples=2,
            order="C",
        )
        if not first and np.shape(y)[1:] != np.shape(self._seen[1])[1:]:
            raise InputError(
                f"`y` must have the outputs of the batches before, {np.shape(self._seen[1])[1:]} per sample. Got "
                f"{np.shape(y)[1:]}."
            )
        seen = (X, y) if first else (np.concatenate([self._seen[0], X]), np.concatenate([self._seen[1], y]))
        known = None if first else self.result_.decoupling
        self._fit_samples(seen[1], Samples(seen[0], F=seen[1].reshape(len(seen[0]), -1)), known)
        self._seen = seen
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Outputs at X (S, m): of shape (S,) if y was so, (S, n) otherwise.

        With `return_std`, standard deviations of the same shape as well: of what y differs by at these points, noise
        included. Leave-one-out errors give the noise, and the uncertainty of the model at X is added to it.
        They are NaN if they are not known, as with about as many parameters as samples.
        """
        check_is_fitted(self)
        X = validate_arrays(self, X, reset=False, dtype=np.float64)
        F = self._values.within(self.decoupling_(self._range.within(X)))
        values = F[:, 0] if self._flat else F
        if not as_flag("return_std", return_std):
            return values
        fitted = self.result_.samples.F
        assert fitted is not None  # outputs are what a regressor is fitted to
        spread = np.std(fitted, axis=0)
        result = self.result_
        squares = spread**2 * np.maximum(1.0 - result.quality.left_out_r_squared, 0.0)
        if np.isfinite(squares).all() and is_quick(result.decoupling, result.samples):
            # What left-out samples are missed by is noise besides the uncertainty of the model there.
            here, there = (result._errors_of_parameters_at(at) for at in (self._range.within(X), result.samples.X))
            residual = np.mean((np.asarray(fitted) - result.decoupling.values(result.samples.X)) ** 2, axis=0)
            squares = np.maximum(squares - np.mean(there**2, axis=0), residual) + here**2
        std = np.sqrt(squares)
        std = np.broadcast_to(std, F.shape)
        return values, (std[:, 0] if self._flat else std).copy()

    @property
    def feature_importances_(self) -> Float[ndarray, " m"]:
        check_is_fitted(self)
        return self.result_.importances.of_inputs

    def plot(self, *, dark: bool = False) -> Any:
        """Draw the network with the names of the columns; see `Result.plot`."""
        check_is_fitted(self)
        return self.result_.plot(dark=dark)

    def report(self, path: str | os.PathLike[str], *, title: str = "Regression by a decoupling") -> None:
        """Write a page for people; see `Result.report`."""
        check_is_fitted(self)
        self.result_.report(path, title=title)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions at X: 1 is perfect, 0 as good as the mean of y. The mean over several outputs."""
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _as_jacobians(jacobian: Any, F: Float[ndarray, "S n"], X: Float[ndarray, "S m"]) -> Any:
    """Gradients of one output become Jacobians with one row."""
    if jacobian is None:
        return None
    wanted = (*F.shape, X.shape[1])
    J = read_array(f"`jacobian` must have shape {wanted}", jacobian)
    if F.shape[1] == 1 and J.shape == X.shape:
        J = J[:, None, :]
    if J.shape != wanted:
        short = f" or {X.shape}" if F.shape[1] == 1 else ""
        raise InputError(
            f"`jacobian` must have shape {wanted}{short}: derivatives of y with respect to X, outputs before inputs. "
            f"Got {J.shape}."
        )
    return J
