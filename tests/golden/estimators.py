"""Regression and classification in the manner of scikit-learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc

from .given import LONG, fixed, points, sampled, solver, system
from .golden import Made, case

_QUICK: dict[str, Any] = {"random_state": 0, "max_seconds": LONG}


@case("plain", "two-layers", "auto", "jacobian", "weights", "linear", "spline", "extend", needs=("scikit-learn",))
def regressor(folder: Path, word: str) -> Made:
    options: dict[str, Any] = {
        "two-layers": {"ranks": (2, 1), "degrees": (2, 2), "solver": solver(max_steps=4, polish_steps=4)},
        "auto": {"ranks": "auto", "degrees": 2},
        "linear": {"linear": True},
        "spline": {"basis": dc.Spline(3), "degrees": None},
        "extend": {"outside": "extend"},
    }.get(word, {})
    samples = sampled(system(1), 40, noise=0.05)
    given: dict[str, Any] = {
        "jacobian": {"jacobian": samples.J},
        "weights": {"sample_weight": np.random.default_rng(3).uniform(0.5, 2.0, 40)},
    }.get(word, {})
    settings = {"ranks": 2, "degrees": 2, "solver": solver(max_steps=10, polish_steps=10)} | options
    if word != "auto":
        settings["n_starts"] = 2
    model = dc.DecouplingRegressor(**settings, **_QUICK).fit(samples.X, samples.F, **given)
    P = np.vstack([fixed(3), np.full((1, 3), 3.0)])
    mean, std = model.predict(P, return_std=True)
    return {"values": mean, "std": std, "score": model.score(samples.X, samples.F), "same": model.predict(P)}


@case(needs=("scikit-learn",))
def one_output(folder: Path) -> Made:
    samples = sampled(system(1), 40, noise=0.05)
    model = dc.DecouplingRegressor(2, 2, n_starts=2, **_QUICK).fit(samples.X, samples.F[:, 0])
    mean, std = model.predict(fixed(3), return_std=True)
    return {"values": mean, "std": std, "score": model.score(samples.X, samples.F[:, 0])}


@case(needs=("scikit-learn",))
def partial_fits(folder: Path) -> Made:
    samples = sampled(system(1), 60, noise=0.05)
    model = dc.DecouplingRegressor(2, 2, n_starts=2, solver=solver(max_steps=10, polish_steps=10), **_QUICK)
    for rows in (slice(0, 30), slice(30, 60)):
        model.partial_fit(samples.X[rows], samples.F[rows])
    return {"values": model.predict(fixed(3))}


def classes(n: int = 90, n_classes: int = 3) -> tuple[np.ndarray, np.ndarray]:
    X, rng = points(2, n), np.random.default_rng(4)
    odds = np.stack([3 * X[:, 0] ** 2, 1 + X[:, 1], 1 - X[:, 1] + X[:, 0]], axis=1)[:, :n_classes]
    return X, np.argmax(odds + 0.3 * rng.gumbel(size=odds.shape), axis=1)


@case("two", "three", "auto", "spline", "weights", "linear", "ridge", "words", needs=("scikit-learn",))
def classifier(folder: Path, word: str) -> Made:
    X, labels = classes(n_classes=2 if word == "two" else 3)
    options: dict[str, Any] = {
        "auto": {"ranks": "auto", "degrees": 2},
        "spline": {"basis": dc.Spline(3), "degrees": None},
        "linear": {"linear": True},
        "ridge": {"ridge": 0.01},
    }.get(word, {})
    settings = {"ranks": 2, "degrees": 2} | options
    if word != "auto":
        settings["n_starts"] = 2
    y: Any = np.array(["low", "middle", "high"])[labels] if word == "words" else labels
    given = {"sample_weight": np.random.default_rng(3).uniform(0.5, 2.0, len(X))} if word == "weights" else {}
    model = dc.DecouplingClassifier(**settings, **_QUICK).fit(X, y, **given)
    P = fixed(2)
    quality = model.quality_
    return {
        "classes": list(model.predict(P)),
        "odds": model.decision_function(P),
        "probabilities": model.predict_proba(P),
        "logarithms": model.predict_log_proba(P),
        "score": model.score(X, y),
        "accuracy": [quality.accuracy, quality.left_out_accuracy, quality.largest_share],
        "deviance": [quality.deviance, quality.left_out_deviance, quality.null_deviance, quality.explained],
        "predictable": quality.predictable,
        "confusion": quality.confusion,
        "verdict": quality.verdict.grade.name,
    }
