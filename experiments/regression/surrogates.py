"""Surrogates of simulators from values, or from values and Jacobians, beside what design engineers use.

Data are the engine and the airfoils of `dc.data`, and test functions of the field, without noise. Training samples are
drawn at random; errors are root mean squares on other samples, as shares of the standard deviation of each output.
"decouply" is the default call. The others see standardised data, one output at a time if they take no more, and choose
their options from a small grid: on a held-out quarter of the training samples, or as in `regression`. Needs the extras
sklearn and smt; JENN is measured if it is installed. Times are processor seconds of the whole choice, and of one
prediction in the exported C code.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.util
import io
import shutil
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from decouply._support._machine import one_thread
from decouply.data import airfoil, b777_engine
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.samples._samples import Samples
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, grid, markdown, matching
from experiments.regression import regression
from experiments.regression.tables import FORMULAS

_TESTED = 2000  # fresh samples, at most
_KEPT = 0.2  # of a table, at most, for testing if all the rest is for training
_HELD_OUT = 0.25  # of the training samples, on which options are chosen
_MOST_OF_A_PROCESS = 1000  # samples, beyond which a Gaussian process takes minutes
_STARTS = 2  # of the likelihood of a process, as in `regression`
_MOST_OF_KRIGING = 2000  # numbers in inputs: it searches a length for each without derivatives
_TIMED = 200_000  # evaluations in C
_FASTEST_OF = 5

Predict = Callable[[ndarray], ndarray]
Fit = Callable[..., Predict]  # of X, F and J in standard units, and options


def _robot_arm(x: ndarray) -> ndarray:
    angles, lengths = np.cumsum(np.pi * (x[:, :4] + 1.0), axis=1), (x[:, 4:] + 1.0) / 2.0
    return np.hypot(np.sum(lengths * np.cos(angles), axis=1), np.sum(lengths * np.sin(angles), axis=1))


_FUNCTIONS = {name: f for name, f in FORMULAS.items() if name != "Friedman"} | {"robot arm": (_robot_arm, 8)}
PROBLEMS = ("engine", "airfoil", *_FUNCTIONS)
SIZES = (40, 100, 400, "all")
_OF_FUNCTIONS = 100  # samples
_LEVEL = 1.1  # times the smallest error of a row


# Others


def _jenn(X: ndarray, F: ndarray, J: ndarray | None, seed: int, width: int, decay: float) -> Predict:
    network = importlib.import_module("jenn").NeuralNet([X.shape[1], width, width, F.shape[1]])
    slopes = None if J is None else J.transpose(1, 2, 0)
    options = {"lambd": decay, "alpha": 0.05, "max_iter": 1000, "random_state": seed, "is_backtracking": False}
    network.fit(X.T, F.T, slopes, **options)
    return lambda Z: np.asarray(network.predict(Z.T)).T


def _of_smt(name: str) -> Fit:
    def fit(X: ndarray, F: ndarray, J: ndarray | None, seed: int, **options: Any) -> Predict:
        models = importlib.import_module("smt.surrogate_models")
        parts = []
        for i in range(F.shape[1]):
            quiet: dict[str, Any] = {"print_global": False, "seed": seed}
            quiet |= {"n_start": _STARTS} if name in ("KRG", "GEKPLS") else {}
            more = {"xlimits": np.stack([X.min(axis=0), X.max(axis=0)], axis=1)} if name == "GEKPLS" else {}
            one = getattr(models, name)(**quiet, **more, **options)
            one.set_training_values(X, F[:, i : i + 1])
            for j in range(X.shape[1] if J is not None else 0):
                assert J is not None
                one.set_training_derivatives(X, J[:, i, j : j + 1], j)
            one.train()
            parts.append(one)
        return lambda Z: np.concatenate([one.predict_values(Z) for one in parts], axis=1)

    return fit


def _of_regression(name: str) -> Fit:
    """Estimators that choose their options themselves."""

    def fit(X: ndarray, F: ndarray, J: ndarray | None, seed: int) -> Predict:  # noqa: ARG001 (values alone)
        fitted = [regression.METHODS[name][0](seed).fit(X, y) for y in F.T]
        return lambda Z: np.stack([one.predict(Z) for one in fitted], axis=1)

    return fit


def _polynomial(X: ndarray, F: ndarray, J: ndarray | None, seed: int, degree: int) -> Predict:  # noqa: ARG001
    preprocessing, linear, pipeline = (
        importlib.import_module(f"sklearn.{part}") for part in ("preprocessing", "linear_model", "pipeline")
    )
    ridge = linear.RidgeCV(alphas=np.logspace(-9, 3, 25))
    chain = pipeline.make_pipeline(preprocessing.PolynomialFeatures(degree), ridge).fit(X, F)
    return lambda Z: chain.predict(Z).reshape(len(Z), -1)


_WIDE = ({"width": 6, "decay": 0.0}, {"width": 12, "decay": 0.0}, {"width": 12, "decay": 0.01})
_GENN = [{"hidden_layer_sizes": sizes, "lambd": decay} for sizes, decay in product(([6, 6], [12, 12]), (0.0, 0.01))]
_GEKPLS = [{"n_comp": n, "nugget": nugget} for n, nugget in product((2, 3), (1e-13, 1e-6))]
# How a method is fitted, its options, whether it is fitted with Jacobians, and the package that it is from.
OTHERS: dict[str, tuple[Fit, Sequence[dict[str, Any]], tuple[bool, ...], str]] = {
    "JENN": (_jenn, _WIDE, (True, False), "jenn"),
    "GENN": (_of_smt("GENN"), _GENN, (True,), "smt"),
    "GEKPLS": (_of_smt("GEKPLS"), _GEKPLS, (True,), "smt"),
    "KRG": (_of_smt("KRG"), ({"corr": "squar_exp"}, {"corr": "matern52"}), (False,), "smt"),
    "Gaussian process": (_of_regression("Gaussian process"), ({},), (False,), "scikit-learn"),
    "MLP": (_of_regression("MLP"), ({},), (False,), "scikit-learn"),
    "boosting": (_of_regression("boosting"), ({},), (False,), "scikit-learn"),
    "polynomial ridge": (_polynomial, ({"degree": 2}, {"degree": 3}), (False,), "scikit-learn"),
}
METHODS = ("decouply", *OTHERS)


# The work


def tasks(
    *,
    seed: int,
    n_splits: int,
    problems: Sequence[str] = (),
    methods: Sequence[str] = (),
    sizes: Sequence[int | str] = (),
) -> list[Task]:
    every = grid(
        split=range(n_splits),
        problem=tuple(problems) or PROBLEMS,
        size=_numbers(sizes),
        method=tuple(methods) or METHODS,
        jacobians=(True, False),
        seed=seed,
    )
    return [
        task
        for task in every
        if (task["method"] == "decouply" or task["jacobians"] in OTHERS[task["method"]][2])
        and (task["problem"] not in _FUNCTIONS or task["size"] == _OF_FUNCTIONS)
    ]


def _numbers(sizes: Sequence[int | str]) -> tuple[int | str, ...]:
    return tuple(size if size == "all" else int(size) for size in sizes) or SIZES


def work(split: int, problem: str, size: int | str, method: str, jacobians: bool, seed: int) -> Outcome:
    """The error of every output, as a share of its standard deviation, and what the fit took."""
    if method != "decouply" and importlib.util.find_spec(_module(method)) is None:
        return {"errors": None, "why": "not installed"}
    train, fresh = _data(problem, size, np.random.default_rng([seed, split, sum(problem.encode())]))
    if method in ("Gaussian process", "KRG", "GEKPLS") and len(train) > _MOST_OF_A_PROCESS:
        return {"errors": None, "why": "too many samples"}
    if method == "KRG" and train.X.size > _MOST_OF_KRIGING:
        return {"errors": None, "why": "over minutes"}
    train = train if jacobians else Samples(train.X, F=train.F)
    began = time.process_time()
    with one_thread(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # of searches that did not converge
        try:
            found = _ours(train, split) if method == "decouply" else _other(train, method, split)
        except (np.linalg.LinAlgError, ValueError, LookupError) as error:  # of other packages, on few samples
            return {"errors": None, "why": f"{type(error).__name__}"}
    seconds = time.process_time() - began
    began = time.process_time()
    values = found(fresh.X)
    predicting = (time.process_time() - began) / len(values)
    F = np.asarray(fresh.F)
    more = in_c(found) if isinstance(found, Decoupling) else {}
    errors = np.sqrt(np.mean((values - F) ** 2, axis=0)) / F.std(axis=0)
    return {"errors": errors, "seconds": seconds, "per_sample": predicting, **more}


def _module(method: str) -> str:
    return {"scikit-learn": "sklearn"}.get(OTHERS[method][3], OTHERS[method][3])


def _data(problem: str, size: int | str, rng: np.random.Generator) -> tuple[Samples, Samples]:
    """Training and fresh samples; all of a table leaves a few for testing."""
    if problem in _FUNCTIONS:
        size = int(size)
        f, m = _FUNCTIONS[problem]
        drawn = Samples.from_function(
            lambda X: f(X)[:, None], rng.uniform(-1.0, 1.0, (size + _TESTED, m)), jac="central"
        )
        return drawn.take(np.arange(size)), drawn.take(np.arange(size, size + _TESTED))
    table = b777_engine() if problem == "engine" else airfoil()
    order = rng.permutation(len(table))
    n = len(order) - min(_TESTED, round(_KEPT * len(order))) if size == "all" else int(size)
    return table.take(order[:n]), table.take(order[n : n + _TESTED])


def _ours(train: Samples, split: int) -> Decoupling:
    return decouple(train, rng=split, progress=False).decoupling


def _other(train: Samples, method: str, seed: int) -> Predict:
    """The best of a few options on held-out samples, fitted again to all."""
    fit, options, *_ = OTHERS[method]
    F = np.asarray(train.F)
    x, y = (train.X.mean(axis=0), train.X.std(axis=0)), (F.mean(axis=0), F.std(axis=0))
    X, Y = (train.X - x[0]) / x[1], (F - y[0]) / y[1]
    J = None if train.J is None else np.asarray(train.J) * x[1] / y[1][:, None]
    order = np.random.default_rng(seed).permutation(len(X))
    held, rest = np.split(order, [round(_HELD_OUT * len(X))])

    def held_out_error(chosen: dict[str, Any]) -> float:
        try:
            predict = fit(X[rest], Y[rest], None if J is None else J[rest], seed, **chosen)
        except (np.linalg.LinAlgError, ValueError):  # singular matrices
            return np.inf
        return float(np.nan_to_num(np.mean((predict(X[held]) - Y[held]) ** 2), nan=np.inf))

    best = min(options, key=held_out_error) if len(options) > 1 else options[0]
    predict = fit(X, Y, J, seed, **best)
    return lambda Z: predict((Z - x[0]) / x[1]) * y[1] + y[0]


def in_c(model: Decoupling) -> dict[str, Any]:
    """Parameters, and size and nanoseconds of the exported C code, if there is a compiler."""
    source = model.formula("c")
    found: dict[str, Any] = {"n_parameters": model.n_parameters, "c_bytes": len(source), "c_ns": None}
    compiler = shutil.which("cc")
    if compiler is None:
        return found
    # Each evaluation waits for the one before, so that none can be left out.
    loop = f"""
    double repeat(const double *x, long count) {{
        double in[{model.n_inputs}], out[{model.n_outputs}], sum = 0.0;
        for (int i = 0; i < {model.n_inputs}; i++) in[i] = x[i];
        for (long k = 0; k < count; k++) {{ f(in, out); in[0] = x[0] + 0.0 * out[0]; sum += out[0]; }}
        return sum;
    }}
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.c"
        path.write_text(source + loop, encoding="utf-8")
        library = path.with_suffix(".so")
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", str(path), "-o", str(library), "-lm"], check=True)
        repeat = ctypes.CDLL(str(library)).repeat
        repeat.restype = ctypes.c_double
        middle = np.linalg.lstsq(model.W[0], model.g[0].middle, rcond=None)[0]
        x = (ctypes.c_double * model.n_inputs)(*middle)
        times = []
        for _ in range(_FASTEST_OF):
            began = time.process_time()
            repeat(x, ctypes.c_long(_TIMED))
            times.append(time.process_time() - began)
    return found | {"c_ns": 1e9 * min(times) / _TIMED}


# The tables


def content(
    runs: list[Task],
    *,
    seed: int,
    n_splits: int,
    problems: Sequence[str] = (),
    methods: Sequence[str] = (),
    sizes: Sequence[int | str] = (),
) -> Content:
    versions = {}
    for _, _, _, package in OTHERS.values():
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = version(package)
    chosen = {"problems": problems or PROBLEMS, "methods": methods or METHODS, "sizes": _numbers(sizes)}
    return {"seed": seed, "n_splits": n_splits, **chosen, "versions": versions, "runs": runs}


def table(content: Content) -> str:
    """Median errors in percent, for each problem and size, with Jacobians and without; times; and our exported code."""
    blocks = []
    for jacobians in (True, False):
        some = matching(content["runs"], jacobians=jacobians)
        shown = [method for method in content["methods"] if matching(some, method=method)]
        rows, level = [], dict.fromkeys(shown, 0)
        for problem, size in product(content["problems"], content["sizes"]):
            if not (here := matching(some, problem=problem, size=size)):
                continue
            median = {method: _median(matching(here, method=method)) for method in shown}
            mean = {method: np.exp(np.mean(np.log(e))) for method, e in median.items() if e is not None}
            best = [method for method in mean if mean[method] <= _LEVEL * min(mean.values())]
            level |= {method: level[method] + 1 for method in best}
            cells = [_cell(matching(here, method=method), median[method], method in best) for method in shown]
            rows.append([f"{problem}, {size}", *cells])
        rows.append(["best or level", *(f"{level[method]} of {len(rows)}" for method in shown)])
        rows += [
            [told, *(_spent(matching(some, method=method), key, unit) for method in shown)]
            for told, key, unit in _TIMES
        ]
        blocks += [f"**Values{' and Jacobians' if jacobians else ' alone'}**, error of each output in percent"]
        blocks += [markdown(["", *shown], rows)]
    blocks += ["**decouply in C**", markdown(["", "parameters", "C source", "one evaluation"], _code_rows(content))]
    used = ", ".join(f"{name} {number}" for name, number in content["versions"].items())
    counted = f"Medians of {content['n_splits']} splits (seed {content['seed']})."
    first = f"{counted} **Bold**: the smallest error, or within 10 % of it."
    return "\n\n".join([first, *blocks, f"Versions: {used}."])


_TIMES = (
    ("median time of a fit", "seconds", (1.0, "s")),
    ("... of predicting 1000 samples", "per_sample", (1e6, "ms")),
)


def _median(runs: list[Task]) -> ndarray | None:
    """The error of each output."""
    errors = [run["errors"] for run in runs if run["errors"] is not None]
    return np.median(np.array(errors, dtype=float), axis=0) if errors else None


def _cell(runs: list[Task], each: ndarray | None, best: bool) -> str:
    if each is None:
        return next((run["why"] for run in runs), "")
    numbers = " / ".join(f"{100.0 * error:.2g}" for error in each)
    return f"**{numbers}**" if best else numbers


def _spent(runs: list[Task], key: str, unit: tuple[float, str]) -> str:
    spent = [unit[0] * run[key] for run in runs if run["errors"] is not None]
    return f"{np.median(spent):.2g} {unit[1]}" if spent else ""


def _code_rows(content: Content) -> list[list[str]]:
    rows = []
    for problem, size in product(content["problems"], content["sizes"]):
        runs = [r for r in matching(content["runs"], problem=problem, size=size, method="decouply") if r["errors"]]
        if runs:
            numbers, sizes = np.median(column(runs, "n_parameters")), np.median(column(runs, "c_bytes"))
            timed = [run["c_ns"] for run in runs if run["c_ns"] is not None]
            speed = f"{np.median(timed):.0f} ns" if timed else ""
            rows.append([f"{problem}, {size}", f"{numbers:.0f}", f"{sizes / 1000:.1f} kB", speed])
    return rows


SURROGATES = Experiment.of(
    globals(),
    "surrogates",
    "Surrogates with and without Jacobians, ours beside those of design engineers.",
    options=(
        Option("n_splits", 5, "Splits."),
        Option("problems", (), "Problems; all by default."),
        Option("methods", (), "Methods; all by default."),
        Option("sizes", (), "Numbers of training samples, or all; 40, 100, 400 and all by default."),
    ),
    quick={"n_splits": 1, "problems": ("engine", "borehole"), "sizes": (40, 100)},
)
