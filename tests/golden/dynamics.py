"""Models of records: NARX, state spaces, and their source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc

from .given import solver
from .golden import Made, case


def oscillator(n: int = 260, seed: int = 0, noise: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """Second order with a cubic, measured with noise."""
    rng = np.random.default_rng(seed)
    u, y = rng.uniform(-1, 1, n), np.zeros(n)
    for t in range(2, n):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.3 * u[t - 1] - 0.1 * y[t - 1] ** 3
    return u, y + noise * rng.normal(size=n)


def spring(n: int = 200, seed: int = 0, noise: float = 0.01) -> tuple[np.ndarray, np.ndarray]:
    """One state with a cubic."""
    rng = np.random.default_rng(seed)
    u, y = rng.uniform(-1, 1, n), np.zeros(n)
    for t in range(1, n):
        y[t] = 0.7 * y[t - 1] - 0.1 * y[t - 1] ** 3 + u[t - 1]
    return u, y + noise * rng.normal(size=n)


def _run(model: Any, u: np.ndarray, y: np.ndarray, k: int = 5) -> Made:
    y_hat = model.simulate(u, y[:k])
    return {"simulated": y_hat[-6:], "spread": np.std(y_hat), "percent": dc.sysid.percent_fit(y[k:], y_hat[k:])}


def narx(**options: Any) -> tuple[dc.sysid.PolynomialNARX, dc.sysid.DecoupledNARX]:
    u, y = oscillator()
    whole = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(u, y)
    settings: dict[str, Any] = {"n_samples": 60, "n_starts": 3, "progress": False, "solver": solver(max_steps=15)}
    return whole, whole.decouple(2, 3, **(settings | options))


@case()
def polynomial_narx(folder: Path) -> Made:
    u, y = oscillator()
    whole, _ = narx()
    v, z = oscillator(seed=3)
    whole.save(folder / "narx.safetensors")
    again = dc.sysid.PolynomialNARX.load(folder / "narx.safetensors")
    X = whole.regressors(u, y)
    return {
        "run": _run(whole, v, z),
        "again": _run(again, v, z),
        "one_step": whole.predict_one_step(v, z)[-5:],
        "formula": whole.formula(),
        "n_parameters": whole.n_parameters,
        "jacobian": whole.jacobian(X[:2]),
        "coefficients": np.sort(np.abs(np.ravel(whole.coefficients))),
    }


@case("plain", "linear", "as-given", "constr")
def decoupled_narx(folder: Path, word: str) -> Made:
    options: dict[str, Any] = {
        "linear": {"linear": True},
        "as-given": {"as_given": True},
        "constr": {"solver": dc.Constr(stopping=dc.solvers.Stopping(max_steps=8))},
    }.get(word, {})
    _, small = narx(**options)
    v, z = oscillator(seed=3)
    return {
        "run": _run(small, v, z),
        "one_step": small.predict_one_step(v, z)[-5:],
        "outside": _run(small.with_outside("linear"), 1.5 * v, z),
        "step": small.step(np.full((2, small.n_states + 1), 0.1)),
        "errors": [small.result.error_jacobian, small.result.error_values],
        "status": small.result.status.name,
    }


@case("simulation", "prediction")
def refined_narx(folder: Path, word: str) -> Made:
    u, y = oscillator()
    _, small = narx()
    better = small.refine(u, y, on=word, max_steps=8, progress=False)
    v, z = oscillator(seed=3)
    better.save(folder / "model.safetensors")
    again = dc.sysid.DecoupledNARX.load(folder / "model.safetensors")
    return {
        "run": _run(better, v, z),
        "again": _run(again, v, z),
        "rows": [[row.step, row.chosen] for row in better.refinement],
        "formula": better.formula(digits=4),
        "c": better.step_source("c"),
        "matlab": better.step_source("matlab"),
    }


def state_space(**options: Any) -> dc.sysid.DecoupledStateSpace:
    u, y = spring()
    settings: dict[str, Any] = {"feedthrough": False} | options
    functions = settings.pop("functions", [dc.Monomial(3)])
    model = dc.sysid.DecoupledStateSpace(settings.pop("n_states", 1), functions, **settings)
    return model.fit(u, y, n_starts=2, search=dc.sysid.SearchOptions(max_steps=4), progress=False)


def _told_states(model: dc.sysid.DecoupledStateSpace) -> Made:
    v, z = spring(seed=3)
    return {
        "run": _run(model, v, z),
        "free": model.simulate(v)[-5:],
        "one_step": model.predict_one_step(v, z)[-5:] if model.structure.oversample == 1 else None,
        "rmse": [model.fitted.rmse, model.fitted.linear_rmse],
        "starts": [[s.training, s.validation, s.steps, s.chosen] for s in model.starts],
        "numbers": [model.n_parameters, model.n_canonical],
        "formula": model.canonical().formula(digits=4),
        "canonical": _run(model.canonical(), v, z),
        "twin": _run(model.linear_twin(), v, z) if hasattr(model.linear_twin(), "simulate") else None,
    }


@case("cubic", "tanh", "state", "spline", "window", "oversample", "no-feedback", "feedthrough", "integrating")
def states(folder: Path, word: str) -> Made:
    if word == "window":
        u, y = spring()
        model = dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)]).fit(
            u, y, n_starts=1, search=dc.sysid.SearchOptions(max_steps=5, window=50), validation=0.3, progress=False
        )
        return _told_states(model)
    options: dict[str, Any] = {
        "cubic": {},
        "tanh": {"functions": [dc.bases.Tanh()]},
        "state": {"functions": [dc.Monomial(3), dc.sysid.StateFunction(dc.bases.Tanh())]},
        "spline": {"functions": [dc.Spline(3)]},
        "oversample": {"oversample": 2},
        "no-feedback": {"feedback": False, "n_states": 2},
        "feedthrough": {"feedthrough": True},
        "integrating": {"integrating": True, "n_states": 2},
    }[word]
    return _told_states(state_space(**options))


@case()
def two_layers_of_states(folder: Path) -> Made:
    u, y = spring()
    model = dc.sysid.DecoupledStateSpace(1, ranks=(2, 1), degrees=(2, 2))
    return _told_states(model.fit(u, y, n_starts=1, search=dc.sysid.SearchOptions(max_steps=5), progress=False))


@case()
def several_signals(folder: Path) -> Made:
    rng = np.random.default_rng(0)
    u, y = rng.uniform(-1, 1, (200, 2)), np.zeros((200, 2))
    for t in range(1, 200):
        a, b = y[t - 1]
        y[t] = 0.6 * a - 0.2 * b**2 + 0.3 * u[t - 1, 0], 0.5 * b + 0.1 * a * b + 0.2 * u[t - 1, 1]
    y += 0.005 * rng.normal(size=y.shape)
    whole = dc.sysid.PolynomialNARX(n_u=1, n_y=1, degree=2).fit([u[:120], u[120:]], [y[:120], y[120:]])
    model = dc.sysid.DecoupledStateSpace(2, [dc.Monomial(2)]).fit(
        u, y, n_starts=1, search=dc.sysid.SearchOptions(max_steps=5), progress=False
    )
    return {"narx": whole.simulate(u, y[:1])[-3:], "states": model.simulate(u, y[:5])[-3:], "rmse": model.fitted.rmse}


@case()
def from_a_narx(folder: Path) -> Made:
    """A state space that starts at a NARX model."""
    u, y = oscillator(160)
    _, small = narx()
    model = dc.sysid.DecoupledStateSpace(small.n_states, small.decoupling.g[0].layer.bases)
    found = model.fit(u, y, search=dc.sysid.SearchOptions(start=small, max_steps=3), n_starts=1, progress=False)
    return {"run": _run(found, u, y), "rmse": found.fitted.rmse}


@case()
def linear_states(folder: Path) -> Made:
    model = state_space()
    linear = model.linear()
    linear.save(folder / "linear.safetensors")
    again = dc.sysid.LinearStateSpace.load(folder / "linear.safetensors")
    response = linear.frequency_response(np.array([0.01, 0.1, 0.4]))
    A = np.array([[0.9, 0.1], [-0.2, 0.7]])
    known = dc.sysid.LinearStateSpace(A, A[:, :1], A[:1], np.array([[0.1]]), np.zeros(2), np.zeros(1))
    there = known.frequency_response(np.array([0.01, 0.1, 0.4]))
    return {
        "poles": [np.sort(np.abs(linear.poles)), np.sort(np.abs(again.poles)), np.sort(np.abs(known.poles))],
        "response": [np.abs(response), np.abs(there)],
        "phase": [np.angle(response), np.angle(there)],
        "stable": [linear.is_stable, known.is_stable],
    }


@case()
def polynomial_states(folder: Path) -> Made:
    u, y = spring()
    model = dc.sysid.PolynomialStateSpace(1, degree=3, feedthrough=False).fit(u, y, max_steps=8, progress=False)
    small = model.decouple(1, 3, n_samples=60, n_starts=2, progress=False)
    model.save(folder / "poly.safetensors")
    again = dc.sysid.PolynomialStateSpace.load(folder / "poly.safetensors")
    v, z = spring(seed=3)
    return {
        "run": _run(model, v, z),
        "again": _run(again, v, z),
        "decoupled": _run(small, v, z),
        "n_parameters": model.n_parameters,
    }


@case()
def written_states(folder: Path) -> Made:
    """Files and sources of a state space."""
    model = state_space(functions=[dc.Monomial(3), dc.bases.Tanh()]).canonical().with_names(["force"], ["place"])
    model.save(folder / "model.safetensors")
    again = dc.sysid.DecoupledStateSpace.load(folder / "model.safetensors")
    small = state_space(functions=[dc.Monomial(3)])
    v, z = spring(seed=3)
    return {
        "again": _run(again, v, z),
        "straight": _run(small.with_outside("linear"), 1.2 * v, z),
        "c": model.step_source("c"),
        "matlab": model.step_source("matlab", name="advance"),
        "text": model.formula(),
        "latex": model.formula("latex"),
        "repr": repr(model),
    }


@case()
def judgement(folder: Path) -> Made:
    u, y = oscillator()
    rng = np.random.default_rng(1)
    e = rng.normal(size=len(u))
    tests = dc.sysid.residual_tests(u, e + 0.2 * np.roll(e, 1), lags=10)
    period = np.tile(rng.normal(size=50), 4)
    floor = dc.sysid.noise_floor(period, np.tanh(period) + 0.01 * rng.normal(size=200), period=50)
    return {
        "auto": tests.auto,
        "cross": tests.cross,
        "band": tests.band,
        "judged": [tests.is_white, tests.is_independent, tests.in_words()],
        "floor": floor,
        "percent": dc.sysid.percent_fit(y, 0.9 * y),
    }
