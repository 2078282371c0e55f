"""Decouplings as a scikit-learn estimator: values in, predictions out, and beyond the data no wild growth."""

from __future__ import annotations

import dataclasses
import os
from contextlib import nullcontext
from typing import Any

import numpy as np
from jaxtyping import Float
from joblib import parallel_config
from numpy import ndarray

from .._support._arguments import is_word, read_array
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
    where they are known. Data need not be scaled first.

    Parameters
    ----------
    ranks
        (r_1, ..., r_L): number of internal functions per layer, from input to output; a number means one layer. With
        "auto" they are chosen at every fit, as by `dc.decouple`; the first note of `result_` says why.
    degrees
        (d_1, ..., d_L): degrees of polynomials, one per layer. With neither `degrees` nor `basis` the data choose the
        functions: polynomials if these are exact or need fewer parameters, otherwise splines.
    basis
        A basis class, a basis, or a sequence with one entry per layer, as for `dc.decouple`.
    linear
        Whether the model has a linear part besides: y = A x + W_L g_L(...).
    outside
        What happens beyond the range that X visits. By default predictions are bounded: functions go on along their
        tangents (where the fit is nearly exact, by their formulas), and an input that lies outside the range of its
        column by more than half of that range counts as if it were there; where the fit is not nearly exact, the same
        holds for y. Without such bounds, functions go on along
        their tangents ("linear"), follow their formulas ("extend"), which grow like powers, or keep their value at the
        end ("constant"), which spoils sums of functions that cancel each other. Functions that have no such range, such
        as dc.bases.Tanh(), follow their formulas.
    solver
        The method; by default `dc.VarPro(ridge=ridge)`.
    n_starts
        Number of random starts; by default 32, or what a solver of your own does; with ranks="auto" 8 for each rank.
    ridge
        Penalty on the squared size of all weights and coefficients, for the default solver only. With "auto" it follows
        the noise, in about twice the time of a number such as 1e-6, which is next to none and is taken where there are
        fewer than two numbers for every parameter.
    max_seconds
        A fit ends after about so many seconds, with the best so far and a warning; None is no limit but that of the
        solver.
    random_state
        Seed, `numpy.random.RandomState` or None, as in scikit-learn.
    n_jobs
        Processes for independent work (batches of starts, folds with ranks="auto"), as in scikit-learn: None is one,
        or what `joblib.parallel_config` says; -1 is all. The result does not depend on it.
    verbose
        Whether a bar is shown on a terminal.

    Attributes
    ----------
    decoupling_ : Decoupling
        The model in the units of X and y: ``predict(X)`` is ``decoupling_(X)``, up to the bounds on inputs. It has the
        names of the columns of X.
    result_ : Result
        How it was found, as `dc.decouple` returned it: `decoupling_` with formulas that go on beyond the range of X.
    n_features_in_, feature_names_in_
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

    def __init__(
        self,
        ranks: Any = "auto",
        degrees: Any = None,
        *,
        basis: Any = None,
        linear: Any = False,
        outside: Any = BOUNDED,
        solver: Any = None,
        n_starts: Any = None,
        ridge: Any = "auto",
        max_seconds: Any = None,
        random_state: Any = None,
        n_jobs: Any = None,
        verbose: Any = False,
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
        settings = self._settings()
        chosen = settings.ranks is None and start is None
        if settings.ranks is None and start is not None:  # one more batch keeps the ranks of those before
            bases = [g.layer.bases for g in start.g]
            settings = dataclasses.replace(settings, ranks=start.ranks, degrees=None, basis=bases)
        solver = self._default_solver(samples, settings, start) if self.solver is None else self.solver
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
        """Whether left-out samples are predicted very well: never better than those that were fitted."""
        fitted = (self.result_.relative_rmse() / 100.0) ** 2
        return bool(np.all(fitted < _EXACT)) and bool(np.all(1.0 - self.result_.quality.left_out_r_squared < _EXACT))

    def _select(self, samples: Samples, settings: Settings) -> Result:
        """A fit of ranks that left-out samples choose."""
        solver = settings.solver
        if isinstance(solver, AbstractSolver) and (fixed_parts(solver) or given_start(solver) is not None):
            raise InputError('`ranks` must be given where the solver has fixed parts or a start. Got "auto".')
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

        With `return_std`, standard deviations of the same shape as well: of what y differs by at new points like those
        of the fit, noise included, from the errors on left-out samples. They are the same at all points, and NaN where
        they are not known, as with about as many parameters as samples.
        """
        check_is_fitted(self)
        X = validate_arrays(self, X, reset=False, dtype=np.float64)
        F = self._values.within(self.decoupling_(self._range.within(X)))
        values = F[:, 0] if self._flat else F
        if not return_std:
            return values
        fitted = self.result_.samples.F
        assert fitted is not None  # outputs are what a regressor is fitted to
        spread = np.std(fitted, axis=0)
        std = spread * np.sqrt(np.maximum(1.0 - self.result_.quality.left_out_r_squared, 0.0))
        return values, np.broadcast_to(std[0] if self._flat else std, values.shape).copy()

    def plot(self, *, dark: bool = False) -> Any:
        """Draw the network with the names of the columns; see `Result.plot`."""
        check_is_fitted(self)
        return self.result_.plot(dark=dark)

    def report(self, path: str | os.PathLike[str], *, title: str = "Regression by a decoupling") -> None:
        """Write a page for people; see `Result.report`."""
        check_is_fitted(self)
        self.result_.report(path, title=title)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions at X: 1 is perfect, 0 as good as the mean of y; the mean over several outputs."""
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
