"""Regression on small tables, ours beside what people use: R² on held-out samples, and the time it took.

Each data set is split several times into training samples (three quarters) and test samples. Data are measured ones,
known formulas with noise, and one in between; none needs a download. A method is an estimator of scikit-learn: data are
standardised if that helps it, and its options are chosen from a small grid, by cross-validation within the training
samples, in about the same time for all. All methods see the same splits. Needs the extra sklearn; GAM and KAN are
measured if the packages pygam and pykan are installed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy import ndarray

from decouply._support._machine import one_thread
from decouply._support._optional_packages import needed
from decouply.report._style import new_figure
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching

N_FORMULA, N_HOUSES = 500, 2000  # samples of Friedman's formulas, and of houses
_NOISE = {1: 1.0, 2: 125.0, 3: 0.1}  # of Friedman's formulas, as in his paper: a third of the signal and less
_TRAINED_ON = 0.75  # of the samples
FOLDS = 3
_PENALTIES = np.logspace(-3, 3, 13)


def _sklearn(*names: str) -> tuple[Any, ...]:
    return tuple(needed(f"sklearn.{name}", "sklearn", "this experiment") for name in names)


# Data


def _load_table(name: str) -> tuple[ndarray, ndarray]:
    """A table of scikit-learn: inputs and the output."""
    X, y = getattr(_sklearn("datasets")[0], f"load_{name}")(return_X_y=True)
    columns = {"wine": (slice(1, None), 0), "breast_cancer": (slice(10), 23)}  # of inputs, and the output among them
    return (X, y) if name not in columns else (X[:, columns[name][0]], X[:, columns[name][1]])


def _friedman(number: int, seed: int) -> tuple[ndarray, ndarray]:
    X, y = getattr(_sklearn("datasets")[0], f"make_friedman{number}")(
        n_samples=N_FORMULA, noise=_NOISE[number], random_state=seed
    )
    return X, y


def houses(seed: int) -> tuple[Float[ndarray, "S 8"], Float[ndarray, " S"]]:
    """Prices of districts along a coast, in the manner of the California data, which need a download.

    Inputs: income, age, rooms, bedrooms, people, people per household, latitude, longitude. Prices rise with income,
    and saturate, fall with the distance from the coast and from two cities, and are cut off at 5, as in the original.
    """
    rng = np.random.default_rng(seed)
    income = np.exp(rng.normal(1.25, 0.47, N_HOUSES)).clip(0.5, 15.0)
    age = rng.uniform(1.0, 52.0, N_HOUSES)
    rooms = (3.5 + 0.45 * income + rng.gamma(2.0, 0.4, N_HOUSES)).clip(1.0, 15.0)
    bedrooms = rooms / 5.0 + rng.normal(0.0, 0.1, N_HOUSES)
    people = np.exp(rng.normal(7.0, 0.7, N_HOUSES))
    household = rng.gamma(9.0, 0.33, N_HOUSES).clip(1.0, 8.0)
    in_south = rng.uniform(size=N_HOUSES) < 0.55
    latitude = np.where(in_south, rng.normal(34.0, 0.6, N_HOUSES), rng.normal(37.8, 0.9, N_HOUSES))
    coast = -117.0 - 0.85 * (latitude - 32.5)
    longitude = coast + rng.gamma(1.2, 0.8, N_HOUSES)
    to_city = np.minimum(np.hypot(latitude - 34.05, longitude + 118.25), np.hypot(latitude - 37.78, longitude + 122.0))
    price = (
        0.35
        + 5.0 * income / (income + 4.0)
        + 0.9 * np.exp(-(longitude - coast) / 0.5)
        + 0.8 * np.exp(-to_city)
        - 0.25 * (household - 2.0)
        + 0.004 * age
    )
    price *= np.exp(rng.normal(0.0, 0.15, N_HOUSES))
    X = np.stack([income, age, rooms, bedrooms, people, household, latitude, longitude], axis=1)
    return X, price.clip(0.15, 5.0)


# What makes the inputs and the output of a problem, from a seed that matters for data that are made.
SETS: dict[str, Callable[[int], tuple[Float[ndarray, "S m"], Float[ndarray, " S"]]]] = {
    "diabetes": lambda _: _load_table("diabetes"),  # progression of the disease, from 10 measured inputs of 442 people
    "friedman1": partial(_friedman, 1),  # 10 inputs, of which 5 matter
    "friedman2": partial(_friedman, 2),  # an impedance, 4 inputs
    "friedman3": partial(_friedman, 3),  # a phase, 4 inputs
    "houses": houses,
    "wine": lambda _: _load_table("wine"),  # alcohol of 178 wines, from 12 other measurements
    "cells": lambda _: _load_table("breast_cancer"),  # largest area of the nuclei in 569 images, from 10 means
}


# Methods


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


class _GaussianProcess:
    """A length for each input and the noise, chosen by the likelihood from two starts."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def fit(self, X: ndarray, y: ndarray) -> Any:
        process, preprocessing, pipeline = _sklearn("gaussian_process", "preprocessing", "pipeline")
        noise = process.kernels.WhiteKernel(1e-4, (1e-12, 10.0))
        kernel = process.kernels.ConstantKernel() * process.kernels.RBF(np.ones(X.shape[1])) + noise
        options = {"normalize_y": True, "n_restarts_optimizer": 1, "random_state": self.seed}
        regressor = process.GaussianProcessRegressor(kernel, **options)
        return pipeline.make_pipeline(preprocessing.StandardScaler(), regressor).fit(X, y)


def _ebm(seed: int) -> Any:
    return importlib.import_module("interpret.glassbox").ExplainableBoostingRegressor(random_state=seed, n_jobs=1)


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
                model = self._train(X[train], y[train], width, lamb)
                error = float(np.mean((self._values(model, X[held]) - y[held]) ** 2))
                if error < best or not hasattr(self, "model"):
                    best, self.model = error, model
        return self

    def _train(self, X: ndarray, y: ndarray, width: int, lamb: float) -> Any:
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


OURS = "decoupling"
METHODS: dict[str, tuple[Callable[[int], Any], str]] = {  # what makes an estimator, and the package that it needs
    OURS: (_ours, "sklearn"),
    "ridge": (_ridge, "sklearn"),
    "boosting": (_boosting, "sklearn"),
    "kernel ridge": (_kernel, "sklearn"),
    "MLP": (_network, "sklearn"),
    "GAM": (lambda _: _Gam(), "pygam"),
    "KAN": (_Kan, "kan"),
    "Gaussian process": (_GaussianProcess, "sklearn"),
    "EBM": (_ebm, "interpret"),
}


def is_installed(method: str) -> bool:
    return importlib.util.find_spec(METHODS[method][1]) is not None


def fitted_values(method: str, seed: int, X: ndarray, y: ndarray, fresh: ndarray) -> ndarray:
    """Fit a method and predict at fresh points, without its warnings and messages."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        estimator = METHODS[method][0](seed)
        return np.asarray(estimator.fit(X, y).predict(fresh))


# The experiment


def tasks(
    *, seed: int, n_splits: int, data: Sequence[str] | None = None, methods: Sequence[str] = tuple(METHODS)
) -> list[Task]:
    names = tuple(name for name in SETS if data is None or name in data)
    installed = tuple(method for method in methods if is_installed(method))  # the slowest ones come last
    return grid(method=installed, data=names, split=range(n_splits), seed=seed)


def work(data: str, method: str, split: int, seed: int) -> Outcome:
    """One method on one split, with the time of the processor, on one thread, tuning included."""
    X, y = SETS[data](seed)
    order = np.random.default_rng([seed, split]).permutation(len(X))
    train, test = np.split(order, [round(_TRAINED_ON * len(X))])
    began = time.process_time()
    with one_thread():
        predicted = fitted_values(method, split, X[train], y[train], X[test])
    seconds = time.process_time() - began
    r_squared = 1.0 - float(np.sum((y[test] - predicted) ** 2) / np.sum((y[test] - y[test].mean()) ** 2))
    return {"r_squared": r_squared, "seconds": seconds}


def content(runs: list[Task], *, seed: int, methods: Sequence[str] = tuple(METHODS), **_: Any) -> Content:
    missing = [method for method in methods if not is_installed(method)]
    return {"seed": seed, "missing": missing, "runs": runs}


def _scores(content: Content, data: str, method: str) -> Float[ndarray, " splits"]:
    """R² of all splits."""
    return column(matching(content["runs"], data=data, method=method), "r_squared")


def _names(content: Content) -> tuple[list[str], list[str]]:
    """Data sets and methods that have runs, in the order of the lists."""
    data, methods = ({run[key] for run in content["runs"]} for key in ("data", "method"))
    return [name for name in SETS if name in data], [method for method in METHODS if method in methods]


def is_level(content: Content, data: str, method: str) -> bool:
    """Whether a method has the best mean, or is behind it by no more than the spread.

    The spread is the standard deviation of the differences, or that of the best method's scores where it is
    smaller: a method must not become level by failing now and then.
    """
    best = max((_scores(content, data, one) for one in _names(content)[1]), key=lambda scores: float(np.mean(scores)))
    behind = best - _scores(content, data, method)
    return bool(np.mean(behind) <= min(np.std(behind), np.std(best)))


def table(content: Content) -> str:
    """Mean and deviation of R² over the splits; bold where a method is the best or level with it."""
    data, methods = _names(content)

    def cell(one: str, method: str) -> str:
        scores = _scores(content, one, method)
        numbers = f"{np.mean(scores):.3f} ± {np.std(scores):.3f}"
        return f"**{numbers}**" if is_level(content, one, method) else numbers

    rows = [[one, *(cell(one, method) for method in methods)] for one in data]
    level = [sum(is_level(content, one, method) for one in data) for method in methods]
    rows.append(["best or level", *(f"{count} of {len(data)}" for count in level)])
    seconds = [max(column(matching(content["runs"], method=method), "seconds")) for method in methods]
    rows.append(["longest fit", *(f"{longest:.1f} s" for longest in seconds)])
    n_splits = 1 + max(run["split"] for run in content["runs"])
    blocks = [
        f"R² on test samples, mean ± standard deviation over {n_splits} splits (seed {content['seed']}). **Bold**: the "
        "best mean, or behind it by no more than the standard deviation. The longest fit includes its tuning.",
        markdown(["data", *methods], rows),
    ]
    if content["missing"]:
        blocks.append(f"Not installed, and not measured: {', '.join(content['missing'])}.")
    return "\n\n".join(blocks)


def figure(content: Content) -> Figure:
    """One panel per data set: R² of every split, a row for each method."""
    data, methods = _names(content)
    canvas = new_figure(9.0, 1.0 + 0.28 * len(methods))
    panels = np.atleast_1d(canvas.subplots(1, len(data), sharey=True))
    for axes, one in zip(panels, data, strict=True):
        for row, method in enumerate(methods):
            scores = _scores(content, one, method)
            colour = "C0" if method == OURS else "0.5"
            axes.plot(scores, np.full(len(scores), row), "o", color=colour, alpha=0.5, markersize=4)
            axes.plot(np.mean(scores), row, "|", color=colour, markersize=14, markeredgewidth=2)
        axes.set_title(one, fontsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(2))
        axes.set_xlabel("R²")
    panels[0].set_yticks(range(len(methods)), methods)
    panels[0].invert_yaxis()
    return canvas


REGRESSION = Experiment.of(
    globals(),
    "regression",
    "Regression on small tables, compared with other methods.",
    options=(Option("n_splits", 5, "Splits into training and test samples.", least=2),),
)
