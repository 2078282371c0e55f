"""Classes with probabilities: the logistic function, or softmax, on top of a decoupling."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any, Literal, no_type_check

import numpy as np
from jaxtyping import Float
from joblib import parallel_config
from numpy import ndarray
from scipy.special import log_softmax

from .._support._arguments import as_number, is_word
from .._support._errors import InputError, short_repr, warn
from .._support._optional_packages import needed
from .._support._time_limit import OUT_OF_TIME
from ..bases import Monomial
from ..fit._classification import ClassQuality, class_quality, fit_logistic
from ..model._names import usable_names
from ..samples._samples import Samples

needed("sklearn.utils.validation:validate_data", "sklearn", "dc.DecouplingClassifier")  # scikit-learn 1.6 brought it
from sklearn.base import BaseEstimator, ClassifierMixin  # noqa: E402
from sklearn.utils.multiclass import check_classification_targets  # noqa: E402
from sklearn.utils.validation import check_is_fitted  # noqa: E402

from ._estimator import (  # noqa: E402
    BOUNDED,
    Bounds,
    DecouplingEstimator,
    as_outside,
    as_weights,
    validate_arrays,
    with_sample_weights,
    with_tails,
)


class DecouplingClassifier(DecouplingEstimator, ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Classification by layers of univariate functions: log-odds are a decoupling.

    For two classes log p / (1 - p) = W_L g_L(W_(L-1) ... g_1(W_0 x)). With more than two classes there is one
    output for each, and softmax on top. Univariate functions show how combinations of inputs change the odds; with
    functions of degree 1 it is logistic regression. Data need not be scaled first.

    Parameters
    ----------
    ranks : int, tuple of int or "auto", default="auto"
        (r_1, ..., r_L): number of internal functions per layer, from input to output. A number means one layer. With
        "auto", one layer of up to four functions is chosen by the likelihood of validation samples. `note_` says why.
    degrees : int, tuple of int or None, default=None
        (d_1, ..., d_L): number of basis functions per layer. Left out, they are what `basis` fixes, or 3 in every
        layer. With "auto" they are chosen together with the ranks.
    basis : basis, basis class or sequence, default=None
        A basis class, a basis, or a sequence with one entry per layer, as for `dc.decouple`.
    linear : bool, default=False
        Whether log-odds have a linear part besides.
    outside : {"bounded", "linear", "constant", "extend"}, default="bounded"
        What happens beyond the range that X visits, see `DecouplingRegressor`.
    n_starts : int or None, default=None
        Number of random starts for each shape. By default 8.
    ridge : float or "auto", default="auto"
        Penalty on the squared size of all weights and coefficients, in standard units: what 1 / C is in scikit-learn's
        LogisticRegression. With "auto" it is chosen from 1 to 30 by the likelihood of validation samples.
    max_seconds : float or None, default=None
        A fit ends after about this many seconds, with the best so far. None is no limit but that of the solver.
    random_state : int, RandomState or None, default=None
        Seed or `numpy.random.RandomState`, as in scikit-learn. None is 0, so that a fit can be repeated. `numpy.random`
        itself stands for NumPy's global generator, which nothing else touches.
    n_jobs : int or None, default=None
        Processes for batches of starts, as in scikit-learn. The result does not depend on it.
    verbose : bool, default=False
        Whether a bar is shown on a terminal.

    Attributes
    ----------
    classes_ : (K,)
        The labels, sorted.
    decoupling_ : Decoupling
        Log-odds in the units of X: of the second class if there are two, otherwise one output per class, whose
        softmax are the probabilities. It has the names of the columns of X and of the classes.
    ridge_ : float
        The penalty that was used.
    deviance_, left_out_deviance_ : float
        Mean of -2 log p of the class that was seen, on the samples and, to first order, on validation samples.
    quality_ : ClassQuality
        How well classes are distinguished, on validation samples too, and a `verdict`: as good as the data allow, or
        not.
    note_ : str
        What was compared if something was chosen.
    n_features_in_, feature_names_in_ : int, array of str
        As in scikit-learn.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where((X[:, 0] + X[:, 1]) ** 2 + 0.5 * rng.normal(size=300) > 1, "outer", "inner")
    >>> model = dc.DecouplingClassifier(random_state=0).fit(X[:200], y[:200])
    >>> model.classes_
    array(['inner', 'outer'], dtype='<U5')
    >>> model.decoupling_.ranks, bool(model.score(X[200:], y[200:]) > 0.85)
    ((1,), True)
    """

    @no_type_check  # scikit-learn builds estimators with any values, and `fit` refuses them
    def __init__(
        self,
        ranks: int | Sequence[int] | Literal["auto"] = "auto",
        degrees: int | Sequence[int] | None = None,
        *,
        basis: Any = None,
        linear: bool = False,
        outside: str = BOUNDED,
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
        self.n_starts = n_starts
        self.ridge = ridge
        self.max_seconds = max_seconds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> DecouplingClassifier:
        """Fit the model.

        Parameters
        ----------
        X : (S, m)
            Inputs.
        y : (S,)
            Labels: numbers or texts.
        sample_weight : (S,), optional
            What the log-likelihood of each sample is multiplied by.
        """
        X, y = validate_arrays(self, X, y, dtype=np.float64, ensure_min_samples=2, order="C")
        if y.dtype.kind == "O" and len({type(label) for label in y.ravel().tolist()}) > 1:
            raise InputError(
                "`y` must hold labels of one kind, numbers or texts, and none that are missing. Got several kinds."
            )
        check_classification_targets(y)
        outside = as_outside(self.outside)
        self.classes_, which = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(
                f"`y` must hold at least 2 classes. Got one class: {short_repr(self.classes_.tolist()[0])}."
            )
        names = usable_names(getattr(self, "feature_names_in_", None))
        labels = usable_names(self.classes_ if len(self.classes_) > 2 else self.classes_[1:])
        samples = Samples(X, F=self._indicators(which), inputs=names, outputs=labels)
        if sample_weight is not None:
            samples = with_sample_weights(samples, as_weights(sample_weight, X))
            self._check_all_seen(samples)
        with nullcontext() if self.n_jobs is None else parallel_config(n_jobs=self.n_jobs):
            found = fit_logistic(
                samples,
                self._settings(Monomial if self.basis is None else self.basis),
                ridge=self._ridge(),
                progress=bool(self.verbose),
            )
        if OUT_OF_TIME in found.note:
            warn(OUT_OF_TIME)
        self._range = Bounds.around(samples.X, bounded=outside == BOUNDED)
        self._samples, self._found = samples, found
        self._quality: ClassQuality | None = None
        self.decoupling_ = with_tails(found.decoupling, samples.X, outside, exact=False)
        self.ridge_, self.note_ = found.ridge, found.note
        self.deviance_, self.left_out_deviance_ = found.deviance, found.left_out_deviance
        return self

    def _indicators(self, which: ndarray) -> Float[ndarray, "S n"]:
        """0 or 1 for two classes, a 1 among zeros for more."""
        table = np.eye(len(self.classes_))[which]
        return table[:, 1:] if len(self.classes_) == 2 else table

    def _check_all_seen(self, samples: Samples) -> None:
        """Every class must have a sample whose weight is not 0."""
        assert samples.F is not None
        shares = samples.F.mean(axis=0)
        if np.any(shares == 0.0) or (len(shares) == 1 and shares[0] == 1.0):
            raise InputError("`sample_weight` must be above 0 for a sample of every class. Got a class without one.")

    def _ridge(self) -> float | None:
        if is_word(self.ridge, ("auto",)):
            return None
        if isinstance(self.ridge, str):
            raise InputError(f'`ridge` must be "auto" or a number of at least 0. Got {short_repr(self.ridge)}.')
        return as_number("ridge", self.ridge)

    def decision_function(self, X: Any) -> Any:
        """Log-odds at X: of shape (S,) for two classes, (S, K) for more."""
        check_is_fitted(self)
        X = validate_arrays(self, X, reset=False, dtype=np.float64)
        f = self.decoupling_(self._range.within(X))
        return f[:, 0] if f.shape[1] == 1 else f

    def predict_proba(self, X: Any) -> Float[ndarray, "S K"]:
        """Probabilities of all classes at X, in the order of `classes_`."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> Float[ndarray, "S K"]:
        """Logarithms of the probabilities."""
        f = self.decision_function(X)
        both = np.stack([np.zeros_like(f), f], axis=1) if f.ndim == 1 else f
        return np.asarray(log_softmax(both, axis=1))

    def predict(self, X: Any) -> Any:
        """The most probable classes at X."""
        f = self.decision_function(X)
        which = (f > 0.0).astype(int) if f.ndim == 1 else np.argmax(f, axis=1)
        return self.classes_[which]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of samples at X whose class is predicted."""
        return float(super().score(X, y, sample_weight))

    @property
    def quality_(self) -> ClassQuality:
        """How well classes are distinguished, computed when it is first asked for."""
        check_is_fitted(self)
        if self._quality is None:
            self._quality = class_quality(self._found, self._samples)
        return self._quality

    def plot(self, *, dark: bool = False) -> Any:
        """Draw the network of the log-odds with the names of the columns and classes; see `Decoupling.plot`."""
        check_is_fitted(self)
        return self.decoupling_.plot(self._samples.X, dark=dark)

    def report(self, path: str | os.PathLike[str], *, title: str = "Classification by a decoupling") -> None:
        """Write a page for people: picture, verdict, functions, classes that are mixed up, calibration."""
        from ..report import Classes, write_class_report

        check_is_fitted(self)
        texts = [str(label) for label in self.classes_.tolist()]
        names = usable_names(texts) or tuple(f"class {k + 1}" for k in range(len(texts)))
        told = Classes(
            self.decoupling_,
            self._samples,
            names,
            self.quality_,
            self._found.left_out,
            self.ridge_,
            self.note_,
            f"import decouply as dc\n\nmodel = dc.{self!r}.fit(X, y)\n",
        )
        write_class_report(told, path, title=title)
