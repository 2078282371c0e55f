r"""Decouplings as a scikit-learn estimator.

Inside, inputs and outputs are shifted to mean 0 and divided by their standard deviation, so that units and offsets of
the data do not matter. With polynomial and trigonometric bases this changes nothing about which functions can be
fitted: a shift of the inputs only changes the coefficients, layer by layer. What is fitted is then

    y \approx W_L g_L(... g_1(W_0 x)) + b,

where the intercept b is what the constants of the last layer cannot give: 0 unless the rank of W_L is below the number
of outputs.
"""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import DecouplingWarning, InputError
from .._support._extras import needed
from ..bases import Monomial
from ..fit._decouple import decouple
from ..fit._layer_bases import layer_bases
from ..fit._result import fixed_parts
from ..model._decoupling import Decoupling
from ..model._scaling import can_be_shifted, in_given_units, plus_constants
from ..samples._samples import Samples
from ..solvers import AbstractSolver, TwoStage, VarPro

needed("sklearn.utils.validation:validate_data", "sklearn", "dc.DecouplingRegressor")  # scikit-learn 1.6 brought it
from sklearn.base import BaseEstimator, RegressorMixin  # noqa: E402
from sklearn.utils import check_random_state  # noqa: E402
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data  # noqa: E402

_STARTS = 32  # of the default solver: a fit of a few hundred samples takes about a second
_LARGEST = 1e100  # of the data: their squares are added up
_TOLERANCE = 1e-9  # singular values of W_L, relative to the largest, that carry no constant
_DIGITS = 1e-6  # of the standard deviation of y: what may be lost by writing the model in the units of X


class DecouplingRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Regression by a decoupling: y = W_L g_L(W_(L-1) ... g_1(W_0 x)), with univariate functions that can be read.

    It needs values only; Jacobians of y with respect to X help where they are known. Data need not be scaled first.

    Parameters
    ----------
    ranks
        (r_1, ..., r_L): number of internal functions per layer, from input to output; a number means one layer. With
        "auto", `dc.select` chooses them at every fit, as for `dc.decouple`: that takes seconds to minutes.
    degrees
        (d_1, ..., d_L): number of basis functions per layer. None where `basis` fixes it, and where ranks are "auto" to
        have layers and degrees chosen as well.
    basis
        A basis class, a basis, or a sequence with one entry per layer, as for `dc.decouple`.
    solver
        The method; by default `dc.VarPro(ridge=ridge)`.
    n_starts
        Number of random starts; by default 32, or what a solver of your own does.
    ridge
        Penalty on the squared size of all weights and coefficients, for the default solver only. Raise it where noise
        is fitted: 1e-4 is much.
    scale
        Whether inputs and outputs are standardised inside. With a basis of your own that cannot be shifted, such as
        tanh, inputs are scaled but not shifted. False where the solver is given parts or a start in units of the data.
    random_state
        Seed, `numpy.random.RandomState` or None, as in scikit-learn.
    verbose
        Whether a bar is shown on a terminal.

    Attributes
    ----------
    decoupling_ : Decoupling
        The model in the units of X and y: ``predict(X)`` is ``decoupling_(X) + intercept_``.
    intercept_ : (n,)
        What the constants of the last layer cannot give; 0 unless W_L has a rank below the number of outputs.
    result_ : Result
        `decoupling_` with the record of how it was found. Its samples are X and y without the intercept.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> import decoupling as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(0, 10, (200, 3))
    >>> y = (X[:, 0] + X[:, 1] - 10) ** 3 + 50 * X[:, 2]
    >>> model = dc.DecouplingRegressor(ranks=2, degrees=3, random_state=0).fit(X[:150], y[:150])
    >>> bool(model.score(X[150:], y[150:]) > 0.9999)
    True
    """

    def __init__(
        self,
        ranks: Any = 2,
        degrees: Any = 3,
        *,
        basis: Any = Monomial,
        solver: Any = None,
        n_starts: Any = None,
        ridge: Any = 1e-6,
        scale: Any = True,
        random_state: Any = None,
        verbose: Any = False,
    ) -> None:
        self.ranks = ranks
        self.degrees = degrees
        self.basis = basis
        self.solver = solver
        self.n_starts = n_starts
        self.ridge = ridge
        self.scale = scale
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, jacobian: Any = None, sample_weight: Any = None) -> DecouplingRegressor:
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
        X, y = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2, order="C"
        )
        F = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        given = Samples(X, F=F, J=_as_jacobians(jacobian, F, X))
        if sample_weight is not None:
            given = _weighted(given, _check_sample_weight(sample_weight, X, dtype=np.float64))
        method = VarPro(ridge=self.ridge) if self.solver is None else self.solver
        default = self.solver is None and self.n_starts is None and not self._chosen()
        n_starts = _STARTS if default else self.n_starts
        units = self._units(given, method)
        seed = int(check_random_state(self.random_state).randint(2**31))
        result = decouple(
            units.scaled(given),
            self.ranks,
            self.degrees,
            basis=self.basis,
            solver=method,
            n_starts=n_starts,
            rng=seed,
            progress=bool(self.verbose),
        )
        self._inner, self._given_units, self._flat = result.decoupling, units, np.ndim(y) == 1
        self.decoupling_, self.intercept_ = units.model(result.decoupling)
        if not fixed_parts(method):
            self.decoupling_ = self.decoupling_.canonical(given.X)
        self.result_ = dataclasses.replace(
            result,
            decoupling=self.decoupling_,
            samples=Samples(given.X, F=given.F - self.intercept_, J=given.J, weights=given.weights),
        )
        self._check_digits(given, units)
        return self

    def predict(self, X: Any) -> ndarray:
        """Outputs at X (S, m): of shape (S,) if y was so, (S, n) otherwise."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        F = self._predict(X)
        return F[:, 0] if self._flat else F

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2 of the predictions at X: 1 is perfect, 0 as good as the mean of y; the mean over several outputs."""
        return float(super().score(X, y, sample_weight))

    def _chosen(self) -> bool:
        """Whether ranks are left to `dc.select`."""
        return isinstance(self.ranks, str) and self.ranks == "auto"

    def _predict(self, X: ndarray) -> ndarray:
        """In units where offsets of the data cost no digits."""
        units = self._given_units
        return self._inner((X - units.centre) / units.size) * units.y_size + units.y_centre

    def _units(self, samples: Samples, method: Any) -> Units:
        if not isinstance(self.scale, bool | np.bool_):
            raise InputError(f"`scale` must be True or False. Got {self.scale!r}.")
        if not self.scale:
            return Units.given(samples)
        if _knows_units(method):
            raise InputError(
                "`scale` must be False where the solver is given parts or a start: they are in units of the data."
            )
        if self._chosen():
            layers = layer_bases(1, 1 if isinstance(self.basis, type) else None, self.basis)
        else:
            layers = layer_bases(self.ranks, self.degrees, self.basis)
        return Units.of(samples, centred=all(can_be_shifted(layer.bases) for layer in layers))

    def _check_digits(self, samples: Samples, units: Units) -> None:
        assert samples.F is not None
        apart = np.max(np.abs(self.decoupling_(samples.X) + self.intercept_ - self._predict(samples.X)) / units.y_size)
        if not apart <= _DIGITS:
            warnings.warn(
                f"`decoupling_` differs from `predict` by up to {apart:.1e} standard deviations of y: the offsets of X "
                "are large compared with its spread, and writing the model in the units of X costs digits. `predict` "
                "is not affected; put a StandardScaler before the regressor to read the model in scaled units.",
                DecouplingWarning,
                stacklevel=3,
            )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


@dataclass(frozen=True, eq=False)
class Units:
    """Centre and size of every input and output."""

    centre: Float[ndarray, " m"]
    size: Float[ndarray, " m"]
    y_centre: Float[ndarray, " n"]
    y_size: Float[ndarray, " n"]

    @classmethod
    def of(cls, samples: Samples, *, centred: bool) -> Units:
        """Means and standard deviations; root mean squares of the inputs where these are not centred."""
        assert samples.F is not None
        w = samples.weights
        for name, data in (("X", samples.X), ("y", samples.F)):
            if (largest := float(np.max(np.abs(data)))) > _LARGEST:
                raise InputError(f"`{name}` must lie within ±{_LARGEST:g}. Got {largest:.3g}: choose other units.")
        centre = np.average(samples.X, axis=0, weights=w) if centred else np.zeros(samples.n_inputs)
        y_centre = np.average(samples.F, axis=0, weights=w)
        return cls(centre, _deviation(samples.X, centre, w), y_centre, _deviation(samples.F, y_centre, w))

    @classmethod
    def given(cls, samples: Samples) -> Units:
        """The units of the data: nothing is changed."""
        m, n = samples.n_inputs, samples.n_outputs
        return cls(np.zeros(m), np.ones(m), np.zeros(n), np.ones(n))

    def scaled(self, samples: Samples) -> Samples:
        assert samples.F is not None
        F = (samples.F - self.y_centre) / self.y_size
        J = None if samples.J is None else samples.J * self.size / self.y_size[:, None]
        return Samples((samples.X - self.centre) / self.size, F=F, J=J, weights=samples.weights)

    def model(self, inner: Decoupling) -> tuple[Decoupling, Float[ndarray, " n"]]:
        """A model of scaled data as one of the data, and the intercept that its constants cannot give."""
        complete, rest = plus_constants(
            in_given_units(inner, self.centre, self.size, self.y_size), self.y_centre, _TOLERANCE
        )
        negligible = np.abs(rest) <= _TOLERANCE * np.abs(self.y_centre)
        return complete, np.where(negligible, 0.0, rest)


def _deviation(data: Float[ndarray, "S k"], centre: Float[ndarray, " k"], weights: Any) -> Float[ndarray, " k"]:
    """Root mean square around the centre, and 1 where that is nothing but rounding."""
    size = np.sqrt(np.average((data - centre) ** 2, axis=0, weights=weights))
    return np.where(size > np.maximum(10.0 * np.finfo(float).eps * np.abs(centre), 1.0 / _LARGEST), size, 1.0)


def _as_jacobians(jacobian: Any, F: Float[ndarray, "S n"], X: Float[ndarray, "S m"]) -> Any:
    """Gradients of one output become Jacobians with one row."""
    if jacobian is None:
        return None
    wanted = (*F.shape, X.shape[1])
    J = np.asarray(jacobian)
    if F.shape[1] == 1 and J.shape == X.shape:
        J = J[:, None, :]
    if J.shape != wanted:
        short = f" or {X.shape}" if F.shape[1] == 1 else ""
        raise InputError(
            f"`jacobian` must have shape {wanted}{short}: derivatives of y with respect to X, outputs before inputs. "
            f"Got {J.shape}."
        )
    return J


def _weighted(samples: Samples, weights: Float[ndarray, " S"]) -> Samples:
    """Samples with weight 0 are left out: they must not count in any way."""
    if np.any(weights < 0.0):
        raise InputError(f"`sample_weight` must hold numbers of at least 0. Got {weights.min():.3g}.")
    kept = weights > 0.0
    if np.count_nonzero(kept) < 2:
        raise InputError(
            f"`sample_weight` must be above 0 for at least 2 samples. Got {int(np.count_nonzero(kept))} such samples."
        )
    some = samples.take(kept)
    return Samples(some.X, F=some.F, J=some.J, weights=weights[kept])


def _knows_units(solver: Any) -> bool:
    """Whether a solver is given parts of a model, which are in some units."""
    inner = solver.solver if isinstance(solver, TwoStage) else solver
    started = isinstance(getattr(inner, "start", None), Decoupling)
    return isinstance(solver, AbstractSolver) and (started or bool(fixed_parts(solver)))
