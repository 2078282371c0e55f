"""What people use for regression, each tuned by cross-validation within the training samples.

A method is an estimator of scikit-learn: data are standardised where that helps it, and its options are chosen from a
small grid in about the same time for all. Packages that are not installed give no estimator.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from decouply._support._optional_packages import needed

FOLDS = 3
_PENALTIES = np.logspace(-3, 3, 13)


def _ours(seed: int) -> Any:
    from decouply.estimators._regressor import DecouplingRegressor

    return DecouplingRegressor(random_state=seed)


def _ridge(seed: int) -> Any:  # noqa: ARG001 (nothing is random)
    linear, preprocessing, pipeline = _sklearn("linear_model", "preprocessing", "pipeline")
    return pipeline.make_pipeline(preprocessing.StandardScaler(), linear.RidgeCV(alphas=_PENALTIES))


def _boosting(seed: int) -> Any:
    ensemble, selection = _sklearn("ensemble", "model_selection")
    grid = {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [4, 15], "min_samples_leaf": [5, 20]}
    trees = ensemble.HistGradientBoostingRegressor(max_iter=200, random_state=seed)
    return selection.GridSearchCV(trees, grid, cv=FOLDS)


def _kernel(seed: int) -> Any:  # noqa: ARG001 (nothing is random)
    kernels, preprocessing, pipeline, selection, compose = _sklearn(
        "kernel_ridge", "preprocessing", "pipeline", "model_selection", "compose"
    )
    chain = pipeline.make_pipeline(preprocessing.StandardScaler(), kernels.KernelRidge(kernel="rbf"))
    grid = {"kernelridge__alpha": [1e-3, 1e-2, 0.1, 1.0], "kernelridge__gamma": [0.003, 0.01, 0.03, 0.1, 0.3]}
    search = selection.GridSearchCV(chain, grid, cv=FOLDS)
    return compose.TransformedTargetRegressor(search, transformer=preprocessing.StandardScaler())


def _network(seed: int) -> Any:
    networks, preprocessing, pipeline, selection, compose = _sklearn(
        "neural_network", "preprocessing", "pipeline", "model_selection", "compose"
    )
    network = networks.MLPRegressor(max_iter=300, early_stopping=True, n_iter_no_change=20, random_state=seed)
    chain = pipeline.make_pipeline(preprocessing.StandardScaler(), network)
    grid = {
        "mlpregressor__hidden_layer_sizes": [(20,), (50, 50)],
        "mlpregressor__alpha": [1e-3, 0.1],
        "mlpregressor__learning_rate_init": [3e-3, 1e-2],
    }
    search = selection.GridSearchCV(chain, grid, cv=FOLDS)
    return compose.TransformedTargetRegressor(search, transformer=preprocessing.StandardScaler())


class _Gam:
    """pyGAM: a smooth curve for each input, its smoothness chosen by generalised cross-validation."""

    def fit(self, X: ndarray, y: ndarray) -> _Gam:
        gam = importlib.import_module("pygam").LinearGAM()
        self.model = gam.gridsearch(X, y, lam=np.logspace(-3, 3, 11), progress=False)
        return self

    def predict(self, X: ndarray) -> ndarray:
        return np.asarray(self.model.predict(X))


class _Kan:
    """pykan: a network of splines, its width and penalty chosen on a held-out fifth, trained by L-BFGS."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: ndarray, y: ndarray) -> _Kan:
        self.x, self.y = (X.mean(axis=0), X.std(axis=0)), (float(y.mean()), float(y.std()))
        order = np.random.default_rng(self.seed).permutation(len(X))
        train, held = order[len(X) // 5 :], order[: len(X) // 5]
        best = np.inf
        for width in (1, 3):
            for lamb in (1e-3, 1e-2):
                model = self._trained(X[train], y[train], width, lamb)
                error = float(np.mean((self._values(model, X[held]) - y[held]) ** 2))
                if error < best or not hasattr(self, "model"):
                    best, self.model = error, model
        return self

    def _trained(self, X: ndarray, y: ndarray, width: int, lamb: float) -> Any:
        torch, kan = importlib.import_module("torch"), importlib.import_module("kan")
        model = kan.KAN(
            width=[X.shape[1], width, 1], grid=3, k=3, seed=self.seed, auto_save=False, symbolic_enabled=False
        )
        inputs = torch.tensor((X - self.x[0]) / self.x[1], dtype=torch.float32)
        label = torch.tensor((y - self.y[0]) / self.y[1], dtype=torch.float32)[:, None]
        data = {"train_input": inputs, "train_label": label, "test_input": inputs, "test_label": label}
        model.fit(data, opt="LBFGS", steps=20, lamb=lamb)
        return model

    def _values(self, model: Any, X: ndarray) -> ndarray:
        torch = importlib.import_module("torch")
        with torch.no_grad():
            out = model(torch.tensor((X - self.x[0]) / self.x[1], dtype=torch.float32)).numpy()[:, 0]
        return np.asarray(self.y[0] + self.y[1] * out, dtype=float)

    def predict(self, X: ndarray) -> ndarray:
        return self._values(self.model, X)


def _sklearn(*names: str) -> tuple[Any, ...]:
    return tuple(needed(f"sklearn.{name}", "sklearn", "this experiment") for name in names)


OURS = "decoupling"
METHODS: dict[str, tuple[Callable[[int], Any], str]] = {  # what makes an estimator, and the package that it needs
    OURS: (_ours, "sklearn"),
    "ridge": (_ridge, "sklearn"),
    "boosting": (_boosting, "sklearn"),
    "kernel ridge": (_kernel, "sklearn"),
    "MLP": (_network, "sklearn"),
    "GAM": (lambda _: _Gam(), "pygam"),
    "KAN": (_Kan, "kan"),
}


def is_installed(method: str) -> bool:
    return importlib.util.find_spec(METHODS[method][1]) is not None


def fitted_values(method: str, seed: int, X: ndarray, y: ndarray, fresh: ndarray) -> ndarray:
    """Fit a method and predict at fresh points, without its warnings and messages."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        estimator = METHODS[method][0](seed)
        return np.asarray(estimator.fit(X, y).predict(fresh))
