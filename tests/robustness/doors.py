"""Public doors with arguments that are fine; hostile ones take the place of one or two of them."""

from __future__ import annotations

import contextlib
import os
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc
from tests.robustness.hangs import HangError, at_most
from tests.robustness.hostile import HOSTILE
from tests.robustness.outcome import FINE, Outcome

S, M, N = 8, 2, 2
_HANG = 20.0  # seconds
_PACKAGE = f"{Path(dc.__file__).parent}{os.sep}"
X = np.random.default_rng(0).uniform(-1.0, 1.0, (S, M))
MODEL = dc.systems.random_system((M, 2, N), (3,), rng=0)
DEEP = dc.systems.random_system((M, 2, 2, N), (2, 2), rng=1)
SAMPLES = dc.Samples(X, F=MODEL(X), J=MODEL.jacobian(X))
RESULT = dc.decouple(SAMPLES, 2, 3, n_starts=1, progress=False)
RECORD = np.random.default_rng(1).uniform(-1.0, 1.0, (2, 60))
NARX = dc.sysid.PolynomialNARX(n_u=1, n_y=1, degree=2).fit(*RECORD)
FREE_RUN = NARX.decouple(ranks=1, n_starts=1, progress=False)
STATES = dc.sysid.DecoupledStateSpace(n_states=1, functions=[dc.Monomial(2)]).fit(
    *RECORD, n_starts=1, search=dc.sysid.SearchOptions(max_steps=1), progress=False
)
CONSTANTS = {"c_x": np.zeros(1), "c_y": np.zeros(1)}


@dataclass(frozen=True)
class Door:
    """A public function and good arguments for it; `path` is where it may write."""

    name: str
    call: Callable[..., Any]
    good: dict[str, Any]
    path: str | None = None
    own: tuple[str, ...] = ()  # arguments that are code of the caller, whose errors are the caller's


def _quick(**options: Any) -> dict[str, Any]:
    return {"samples": SAMPLES, "ranks": 1, "degrees": 2, "n_starts": 1, "progress": False, **options}


def _doors() -> Iterator[Door]:
    """All of them; each takes milliseconds."""
    yield Door("Samples", dc.Samples, {"X": X, "F": MODEL(X), "J": MODEL.jacobian(X), "weights": np.ones(S)})
    yield Door("Samples, names", dc.Samples, {"X": X, "F": MODEL(X), "inputs": ["a", "b"], "outputs": ["c", "d"]})
    yield Door("Samples.take", SAMPLES.take, {"indices": [0, 1]})
    yield Door("Samples.pilot", SAMPLES.pilot, {"count": 3, "rng": 0})
    yield Door("Samples.split", SAMPLES.split, {"fraction": 0.5, "rng": 0})
    yield Door(
        "Samples.from_function",
        dc.Samples.from_function,
        {"f": lambda x: x**2, "X": X, "jac": "central"},
        own=("f", "jac"),
    )
    yield Door(
        "Samples.from_volterra",
        dc.Samples.from_volterra,
        {"kernels": [np.zeros(1), np.ones((1, M)), np.ones((1, M, M))], "X": X},
    )
    yield Door("Samples.save", SAMPLES.save, {"path": None}, path="s.npz")
    yield Door("Samples.load", dc.Samples.load, {"path": None, "inputs": None, "outputs": None}, path="missing.npz")
    J = MODEL.jacobian(X)
    for name in ("there.npz", "there.csv"):
        columns = {"inputs": ["a", "b"], "outputs": ["c", "d"], "jacobians": False, "drop_missing": False}
        more = {"order": None, "arrays": None} if name.endswith("npz") else {}
        yield Door(f"Samples.load, {name}", _load_of(name), columns | more)
    yield Door("Samples.from_npy", dc.Samples.from_npy, {"X": "x.npy", "F": None})
    yield Door(
        "Samples.from_batches", dc.Samples.from_batches, {"batches": [{"X": X, "F": MODEL(X)}], "progress": False}
    )
    for basis in (dc.Monomial, dc.bases.ScaledMonomial, dc.Chebyshev, dc.bases.Bernstein):
        yield Door(basis.__name__, basis, {"degree": 3})
    yield Door("Trigonometric", dc.bases.Trigonometric, {"count": 3})
    yield Door("Spline", dc.Spline, {"pieces": 4, "degree": 3, "tails": "linear"})
    C = MODEL.g[0].C
    yield Door("Functions", dc.Functions, {"basis": dc.Monomial(3), "C": C, "domain": (-1.0, 1.0), "outside": "extend"})
    for name in ("__call__", "derivative", "second_derivative"):
        yield Door(f"Functions.{name}", getattr(MODEL.g[0], name), {"u": X})
    yield Door("Functions.on_domain", MODEL.g[0].on_domain, {"domain": (-2.0, 2.0)})
    parts = {"W": list(MODEL.W), "g": list(MODEL.g), "linear": np.eye(N, M), "offset": np.ones(N)}
    yield Door("Decoupling", dc.Decoupling, parts | {"inputs": ["a", "b"], "outputs": ["c", "d"]})
    for model, kind in ((MODEL, "Decoupling"), (DEEP, "deep Decoupling")):
        for name in ("__call__", "jacobian", "inner_inputs", "factors", "canonical", "importance"):
            yield Door(f"{kind}.{name}", getattr(model, name), {"X": X})
        yield Door(f"{kind}.permuted", model.permuted, {"layer": 1, "order": [1, 0]})
        yield Door(f"{kind}.scaled", model.scaled, {"layer": 1, "inputs": [1.0, 2.0], "outputs": [3.0, 4.0]})
        yield Door(f"{kind}.formula", model.formula, {"kind": "text", "inputs": None, "outputs": None, "digits": 4})
        yield Door(f"{kind}.cancellation", model.cancellation, {"X": X})
    yield Door("Functions.shifted", MODEL.g[0].shifted, {"shift": [0.1, 0.2]})
    yield Door("Functions.stretched", MODEL.g[0].stretched, {"factor": [1.0, 2.0]})
    yield Door("Functions.with_coefficients", MODEL.g[0].with_coefficients, {"C": C})
    quick = {"samples": SAMPLES, "max_seconds": 0.2, "progress": False}
    yield Door("Decoupling.ablation", MODEL.ablation, quick, own=("progress",))
    slow = {"X": X, "tolerance": 0.1, "curves": [dc.bases.Tanh()], "progress": False}
    yield Door("Decoupling.recognise", MODEL.recognise, slow, own=("progress",))
    yield Door("Decoupling.save_onnx", MODEL.save_onnx, {"path": None, "dtype": "float32", "opset": 17}, path="m.onnx")
    yield Door("Decoupling.net_of_linear", MODEL.net_of_linear, {"X": X})
    yield Door("Decoupling.with_outside", MODEL.with_outside, {"outside": "linear"})
    yield Door("Decoupling.with_names", MODEL.with_names, {"inputs": ["a", "b"], "outputs": ["c", "d"]})
    yield Door("Decoupling.save", MODEL.save, {"path": None}, path="m.safetensors")
    yield Door("Decoupling.load", dc.Decoupling.load, {"path": None, "bases": ()}, path="missing.safetensors")
    yield Door("ParaTuck", dc.ParaTuck, {"W": list(MODEL.W), "G": [np.ones((S, 2))]})
    tuck = MODEL.factors(X)
    yield Door("ParaTuck.unfold", tuck.unfold, {"mode": 1})
    yield Door("ParaTuck.permuted", tuck.permuted, {"layer": 1, "order": [1, 0]})
    yield Door("ParaTuck.scaled", tuck.scaled, {"layer": 1, "left": [1.0, 2.0], "right": [3.0, 4.0]})
    yield Door("factor_match", dc.factor_match, {"a": MODEL, "b": MODEL, "X": X})
    yield Door("compare_factors", dc.compare_factors, {"a": MODEL, "b": MODEL, "X": X})
    yield Door("error_values", dc.error_values, {"F": X, "F_hat": 1.1 * X})
    yield Door("error_jacobian", dc.error_jacobian, {"J": J, "J_hat": 1.1 * J})
    yield Door("relative_rmse", dc.relative_rmse, {"F": X, "F_hat": 1.1 * X})
    yield Door("estimate_jacobians", dc.estimate_jacobians, {"samples": SAMPLES, "degree": 1, "neighbours": 5})
    yield Door("paratuck", dc.paratuck, {"J": J, "ranks": 1, "n_starts": 1, "max_steps": 3, "rtol": 1e-3, "rng": 0})
    for solver in dc.solvers.OWN_SOLVERS:
        few = {} if solver is dc.VarPro else {"stopping": dc.solvers.Stopping(max_steps=3)}
        options = {"max_steps": 3} if solver is dc.VarPro else few
        options |= {"lam": 1.0} if "lam" in solver.__dataclass_fields__ else {}
        options |= {"start": dc.solvers.Normal()} if "start" in solver.__dataclass_fields__ else {}
        yield Door(solver.__name__, solver, options)
        more = {"max_steps": 2, "max_seconds": 1.0} if solver is dc.VarPro else few
        arguments = _quick(solver=solver(**more))
        yield Door(f"decouple, {solver.__name__}", dc.decouple, arguments, own=("progress",))
    yield Door("Stopping", dc.solvers.Stopping, {"min_steps": 1, "max_steps": 3, "patience": 2, "max_seconds": 1.0})
    yield Door("VarPro, more", dc.VarPro, {"ridge": 0.0, "smoothing": 0.1, "pilot": 5, "memory": 1e9, "fixed": {}})
    yield Door("TwoStage", dc.TwoStage, {"solver": dc.Proj(), "lam": 1.0, "beta": 10.0, "loss": None, "max_runs": 2})
    yield Door("Uniform", dc.solvers.Uniform, {"low": 0.1, "high": 1.0})
    yield Door("Normal", dc.solvers.Normal, {"scale": 1.0})
    quick = dc.VarPro(max_steps=2, polish_steps=2, max_seconds=1.0)
    more = {"basis": dc.Monomial, "linear": False, "as_given": False, "validation": None, "rng": 0, "shapes": None}
    yield Door("decouple", dc.decouple, _quick(solver=quick, **more), own=("progress",))
    yield Door("decouple, hostile data", _fit_of, {"X": X, "F": MODEL(X), "J": J})
    scan = {"max_ranks": 1, "max_degrees": 2, "n_folds": 2, "solver": quick, "rng": 0, "max_seconds": 0.5}
    yield Door("select", dc.select, {"samples": SAMPLES, "progress": False, **scan}, own=("progress",))
    yield Door("Result.relative_rmse", RESULT.relative_rmse, {"samples": SAMPLES})
    yield Door("Result.uncertainty", RESULT.uncertainty, {"u": [0.0, 0.5]})
    yield Door("Result.save", RESULT.save, {"path": None, "samples": True}, path="result.safetensors")
    yield Door("Result.load", dc.Result.load, {"path": None, "samples": SAMPLES, "bases": ()}, path="none.safetensors")
    yield Door("Result.plot", RESULT.plot, {"inputs": ["a", "b"], "outputs": ["c", "d"], "bands": False, "dark": False})
    yield Door("Result.plot_fit", RESULT.plot_fit, {"samples": SAMPLES, "outputs": ["c", "d"]})
    yield Door("Result.report", RESULT.report, {"path": None, "title": "t", "inputs": None}, path="r.html")
    yield Door("random_system", dc.systems.random_system, {"dims": (2, 2, 2), "degrees": (2,), "rng": 0})
    yield Door("PolynomialNARX", dc.sysid.PolynomialNARX, {"n_u": 1, "n_y": 1, "degree": 2})
    yield Door("PolynomialNARX.fit", dc.sysid.PolynomialNARX(n_u=1, n_y=1).fit, {"u": RECORD[0], "y": RECORD[1]})
    for model, kind in ((NARX, "PolynomialNARX"), (FREE_RUN, "DecoupledNARX")):
        yield Door(f"{kind}.simulate", model.simulate, {"u": RECORD[0], "y_init": RECORD[1][:1]})
        yield Door(f"{kind}.predict_one_step", model.predict_one_step, {"u": RECORD[0], "y": RECORD[1]})
        yield Door(f"{kind}.jacobian", model.jacobian, {"X": model.regressors(*RECORD)[:3]})
    yield Door("DecoupledNARX.step_source", FREE_RUN.step_source, {"language": "c"})
    yield Door("DecoupledNARX.save", FREE_RUN.save, {"path": None}, path="n.safetensors")
    yield Door("DecoupledStateSpace", dc.sysid.DecoupledStateSpace, {"n_states": 1, "functions": [dc.Monomial(2)]})
    yield Door("DecoupledStateSpace.simulate", STATES.simulate, {"u": RECORD[0], "y_init": RECORD[1][:3]})
    yield Door("DecoupledStateSpace.predict_one_step", STATES.predict_one_step, {"u": RECORD[0], "y": RECORD[1]})
    quick = {"n_starts": 1, "search": dc.sysid.SearchOptions(max_steps=1), "validation": 0.25, "progress": False}
    fit = dc.sysid.DecoupledStateSpace(n_states=1, functions=[dc.Monomial(2)]).fit
    yield Door("DecoupledStateSpace.fit", fit, {"u": RECORD[0], "y": RECORD[1], **quick}, own=("progress",))
    yield Door(
        "LinearStateSpace", dc.sysid.LinearStateSpace, {name: np.eye(1) for name in ("A", "B", "C", "D")} | CONSTANTS
    )
    yield Door("residual_tests", dc.sysid.residual_tests, {"u": RECORD[0], "e": RECORD[1], "lags": 5})
    yield Door("percent_fit", dc.sysid.percent_fit, {"y": RECORD[0], "y_hat": RECORD[1]})
    yield Door("noise_floor", dc.sysid.noise_floor, {"u": RECORD[0], "y": RECORD[1], "period": 20})
    yield Door("regressor", _regression, {"X": X, "y": MODEL(X), "sample_weight": np.ones(S), "ranks": 1, "degrees": 2})


def _load_of(name: str) -> Callable[..., Any]:
    """Reading a file of samples that is there, with arguments about its columns."""

    def load(**arguments: Any) -> Any:
        path = Path(name)
        if not path.exists() and path.suffix == ".npz":
            SAMPLES.save(path)
        elif not path.exists():
            rows = np.hstack([X, MODEL(X)]).tolist()
            path.write_text("\n".join(["a,b,c,d", *(",".join(map(repr, row)) for row in rows)]))
        return dc.Samples.load(path, **arguments)

    return load


def _fit_of(X: Any, F: Any, J: Any) -> Any:
    """Samples and a fit of them."""
    solver = dc.VarPro(max_steps=3, polish_steps=3, max_seconds=1.0)
    return dc.decouple(dc.Samples(X, F=F, J=J), 1, 2, solver=solver, n_starts=1, progress=False)


def _regression(X: Any, y: Any, sample_weight: Any, ranks: Any, degrees: Any) -> Any:
    solver = dc.VarPro(max_steps=2, max_seconds=1.0)
    model = dc.DecouplingRegressor(ranks=ranks, degrees=degrees, solver=solver, n_starts=1)
    return model.fit(X, y, sample_weight=sample_weight).predict(X)


DOORS = tuple(_doors())
ARGUMENTS = tuple((door, argument) for door in DOORS for argument in door.good)


def knock(door: Door, hostile: dict[str, str], folder: Path) -> Outcome:
    """Call a door with some arguments replaced, by the names of hostile values, where it can write nothing of worth."""
    arguments = door.good | {name: HOSTILE[value]() for name, value in hostile.items()}
    if door.path is not None and "path" not in hostile:
        arguments["path"] = folder / door.path
    said = f"{door.name}({', '.join(f'{name}={value}' for name, value in hostile.items())})"
    # Paths among the hostile values are relative: they lead here, and those that go up twice into `folder`.
    here = folder / "some" / "where"
    here.mkdir(parents=True, exist_ok=True)
    with contextlib.chdir(here), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with at_most(_HANG):
                given = door.call(**arguments)
        except HangError:
            given, problem = None, f"over {_HANG:g} s"
        except dc.DecouplingError as error:
            given, problem = None, None if str(error) else "an error without words"
        except Exception as error:
            given, problem = None, None if _allowed(error, door, arguments, hostile) else repr(error)[:200]
        else:
            problem = None
    if problem is not None:
        return Outcome("hang" if problem.startswith("over") else "raw", said, problem)
    # A function of the caller may warn as it likes.
    foreign = [
        w for w in caught if not issubclass(w.category, dc.DecouplingWarning) and w.filename.startswith(_PACKAGE)
    ]
    if foreign:
        return Outcome("warning", said, f"{foreign[0].category.__name__}: {str(foreign[0].message)[:200]}")
    if not caught and not finite(given):
        return Outcome("silent", said, "not finite")
    return Outcome(FINE, said)


def _allowed(error: Exception, door: Door, arguments: dict[str, Any], hostile: dict[str, str]) -> bool:
    """Errors of files, of the caller's own code, those that scikit-learn asks its estimators for, and failed checks."""
    if isinstance(error, OSError):
        return door.path is not None
    if any(callable(arguments[name]) for name in door.own if name in hostile):
        return True
    if door.name.startswith(("check_", "is_scale_invariant")):
        return isinstance(error, AssertionError)
    where = "".join(frame.filename for frame in traceback.extract_tb(error.__traceback__)[-3:])
    estimator = door.name.startswith(("regressor", "DecouplingRegressor", "DecouplingClassifier"))
    return estimator and "sklearn" in where


def finite(given: Any) -> bool:
    """Whether what a door gives back holds finite numbers only; NaN stands for "not known" in some records."""
    if isinstance(given, np.ndarray):
        return given.dtype.kind != "f" or bool(np.isfinite(given).all())
    if isinstance(given, float):
        return bool(np.isfinite(given))
    if isinstance(given, tuple | list):
        return all(map(finite, given))
    if isinstance(given, dc.Decoupling):
        return finite([*given.W, *(g.C for g in given.g)])
    if isinstance(given, dc.ParaTuck):
        return finite([*given.W, *given.G])
    if isinstance(given, dc.Result):
        known = [given.error_values] * given.samples.has_values + [given.error_jacobian] * given.samples.has_jacobians
        return finite([given.decoupling, *known])
    return True
