"""Formulas, sources, graphs, cells of notebooks and pages."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc

from . import dynamics, estimators
from .given import fixed, points, sampled, solver, system
from .golden import Made, case
from .solvers import CURVES, bent, decoupled

KINDS = ("text", "html", "latex", "python", "c", "matlab")


def _functions(basis: Any, r: int, outside: Any = "extend") -> dc.Functions:
    C = np.round(np.random.default_rng(r).uniform(-2, 2, (r, 1 + basis.size)), 3)
    return dc.Functions(basis, C, domain=(-1.5, 2.0), outside=outside)


def _model(word: str) -> dc.Decoupling:
    """A model whose numbers are given."""
    W = [[[1.0, -0.5], [0.25, 2.0]], [[1.5, -1.0], [0.3, 0.7]]]
    if word == "two-layers":
        return dc.systems.f1()
    if word == "linear":
        g = _functions(dc.Monomial(3), 2, "linear")
        names: Any = {"inputs": ["force", "speed"], "outputs": ["heat", "noise"]}
        return dc.Decoupling(W, [g], linear=[[0.1, 0.0], [-1.0, 2.0]], offset=[0.5, -3.0], **names)
    if word == "mixed":
        C = [[0.1, 1.0, 0.5], [0.2, 1.5, 0.0]]
        return dc.Decoupling(W, [dc.Functions((dc.Monomial(2), dc.bases.Tanh()), C, outside="constant")])
    basis: Any = {
        **{name: getattr(dc.bases, name)() for name in CURVES},
        **{name: getattr(dc.bases, name)(3) for name in ("Monomial", "ScaledMonomial", "Bernstein", "Chebyshev")},
        "Trigonometric": dc.bases.Trigonometric(2),
        "Spline": dc.Spline(3),
        "Parabola": dc.Spline(2, degree=2, tails="parabola"),
    }[word]
    return dc.Decoupling(W, [_functions(basis, 2, "linear" if word in ("Chebyshev", "Spline") else "extend")])


MODELS = ("two-layers", "linear", "mixed", "Monomial", "ScaledMonomial", "Bernstein", "Chebyshev", "Trigonometric")
MODELS += ("Spline", "Parabola", *CURVES)


@case(*MODELS)
def formulas(folder: Path, word: str) -> Made:
    model = _model(word)
    chosen = KINDS if word in ("two-layers", "linear", "Spline", "Chebyshev", "mixed") else ("text", "c")
    return {kind: model.formula(kind) for kind in chosen} | {"few_digits": model.formula(digits=2)}


@case(*MODELS)
def models(folder: Path, word: str) -> Made:
    """Values and derivatives, also beyond the domain, and files."""
    model = _model(word)
    P = np.vstack([fixed(2), np.full((1, 2), 4.0)])
    model.save(folder / "model.safetensors")
    again = dc.Decoupling.load(folder / "model.safetensors")
    u = np.linspace(-2, 2, 4)[:, None] * np.ones(model.ranks[0])
    return {
        "values": model(P),
        "jacobian": model.jacobian(P[3:]),
        "again": again(P),
        "second": model.g[0].second_derivative(u),
        "constant": model.with_outside("constant")(P[4:]),
        "repr": [repr(model), repr(again)],
    }


@case("two-layers", "linear", "Chebyshev", "Tanh", "Spline", needs=("sympy",))
def expressions(folder: Path, word: str) -> Made:
    import sympy

    found = _model(word).formula("sympy")
    names = sorted({symbol for e in found for symbol in e.free_symbols}, key=str)
    P = fixed(2)[:3]
    f = sympy.lambdify(names, list(found), "numpy")
    return {"names": [str(name) for name in names], "values": [f(*row) for row in P.tolist()]}


@case(*MODELS, needs=("onnxruntime",))
def graphs(folder: Path, word: str) -> Made:
    import onnxruntime

    path = folder / "model.onnx"
    try:
        _model(word).save_onnx(path, dtype="float64", input_name="points", output_name="values")
    except dc.InputError:
        return {"refused": True}
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return {
        "values": session.run(["values"], {"points": fixed(2)})[0],
        "operators": [node.name for node in session.get_inputs()],
    }


@case(needs=("onnxruntime",))
def graph_in_float32(folder: Path) -> Made:
    import onnxruntime

    dynamics.state_space().save_onnx(folder / "step.onnx")
    dc.systems.f1().save_onnx(folder / "f1.onnx")
    said = {}
    for name, width in (("step", 2), ("f1", 2)):
        session = onnxruntime.InferenceSession(str(folder / f"{name}.onnx"), providers=["CPUExecutionProvider"])
        given = {session.get_inputs()[0].name: fixed(width).astype(np.float32)}
        said[name] = session.run(None, given)[0]
    return said


def _result(word: str = "both") -> dc.Result:
    few = solver(max_steps=10, polish_steps=10)
    if word == "spline":
        return decoupled(bent(30), 2, None, basis=dc.Spline(3), n_starts=1, by=few)
    if word == "constr":
        return decoupled(
            sampled(system(1), noise=0.05),
            2,
            2,
            by=dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=8)), max_runs=2),
        )
    names: Any = {"inputs": ["a", "b", "c"], "outputs": ["p", "q"]}
    return decoupled(sampled(system(1), noise=0.05, **names), 2, 2, by=few)


_SECONDS = re.compile(r"(?<=[ >(])\d[\d.e-]*(?=(&nbsp;|\s)?s\b)")


def words_of(page: str) -> str:
    """What a person reads, without times."""
    text = re.sub(r"<(script|style|metadata)\b.*?</\1>", " ", page, flags=re.S)
    text = html.unescape(re.sub(r"<[^>]+>", " ", text))
    return _SECONDS.sub("?", re.sub(r"\s+", " ", text)).strip()


@case("both", "spline", "constr")
def cells(folder: Path, word: str) -> Made:
    """What notebooks show."""
    result = _result(word)
    return {
        "result": words_of(result._repr_html_()),
        "model": words_of(result.decoupling._repr_html_()),
        "samples": words_of(result.samples._repr_html_()),
        "recognition": words_of(result.recognise()._repr_html_()),
        "repr": repr(result),
    }


def _flow(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="flow">(.*?)</script>', page, flags=re.S)
    return {} if found is None else _sizes(json.loads(found.group(1)))


def _sizes(value: Any) -> Any:
    """Long lists of numbers by count, sum and size."""
    if isinstance(value, dict):
        return {key: _sizes(part) for key, part in value.items()}
    if isinstance(value, list):
        if len(value) > 6 and all(isinstance(part, int | float) for part in value):
            return [len(value), float(np.sum(value)), float(np.linalg.norm(value))]
        return [_sizes(part) for part in value]
    return value


def _paths(page: str) -> list[float]:
    """Of all drawings: how many numbers they have, their sum and size."""
    numbers = [float(v) for d in re.findall(r' d="([^"]*)"', page) for v in re.findall(r"-?\d+(?:\.\d+)?", d)]
    return [len(numbers), float(np.sum(numbers)), float(np.linalg.norm(numbers))]


def drawn(path: Path) -> Made:
    page = path.read_text(encoding="utf-8")
    return {"flow": _flow(page), "drawings": _paths(page)}


@case("both", "spline", "constr")
def pages(folder: Path, word: str) -> Made:
    _result(word).report(folder / "page.html", title="A page")
    page = drawn(folder / "page.html")
    return page if word == "both" else {"drawings": page["drawings"]}


@case("narx", "states")
def dynamic_pages(folder: Path, word: str) -> Made:
    path = folder / "page.html"
    if word == "narx":
        u, y = dynamics.oscillator()
        dynamics.narx()[1].report(path, u, y)
    else:
        u, y = dynamics.spring()
        dynamics.state_space().report(path, u, y)
    return {"drawings": drawn(path)["drawings"]}


@case("classifier", "regressor", needs=("scikit-learn",))
def estimator_pages(folder: Path, word: str) -> Made:
    path = folder / "page.html"
    if word == "classifier":
        X, y = estimators.classes()
        dc.DecouplingClassifier(2, 2, n_starts=2, random_state=0).fit(X, y).report(path)
    else:
        samples = sampled(system(1), 40, noise=0.05)
        model = dc.DecouplingRegressor(2, 2, n_starts=2, random_state=0).fit(samples.X, samples.F)
        model.report(path)
    return {"drawings": drawn(path)["drawings"]}


@case("both", "constr", "spline")
def result_files(folder: Path, word: str) -> Made:
    result = _result(word)
    result.save(folder / "result.safetensors")
    result.save(folder / "small.safetensors", samples=False)
    again = dc.Result.load(folder / "result.safetensors")
    small = dc.Result.load(folder / "small.safetensors", samples=result.samples)
    P = fixed(result.samples.n_inputs)
    return {
        "again": again.decoupling(P),
        "small": small.decoupling(P),
        "errors": [again.error_jacobian, again.error_values, small.error_values],
        "settings": repr(again.settings),
        "solver": repr(again.solver),
        "reason": again.reason,
    }


@case()
def figures(folder: Path) -> Made:
    """Numbers behind the curves of pictures."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    result = _result()
    said = {}
    drawn = {
        "network": result.plot(),
        "functions": result.plot_functions(),
        "history": result.plot_history(),
        "starts": result.plot_starts(),
        "fit": result.plot_fit(),
        "model": result.decoupling.plot_functions(points(3)),
        "states": dynamics.state_space().plot_response(),
    }
    for name, figure in drawn.items():
        lines = [line.get_xydata() for axes in figure.axes for line in axes.get_lines()]
        numbers = np.concatenate([np.ravel(np.asarray(line, dtype=float)) for line in lines] or [np.zeros(1)])
        said[name] = [
            len(lines),
            numbers.size,
            float(np.nansum(numbers)),
            float(np.linalg.norm(np.nan_to_num(numbers))),
        ]
        plt.close(figure)
    return said
