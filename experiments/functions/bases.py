"""Functions of any shape: polynomials, splines and what others do, on curves that polynomials do not like.

A system has 4 inputs, 3 outputs and one or two layers of 3 functions of one kind, with random matrices of a condition
below 4 and arguments that fill [-1, 1]. Errors are relative root mean squares on 2000 fresh points without noise;
"inside" are those of them whose arguments lie within the ranges that the samples visit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from matplotlib.figure import Figure
from numpy import ndarray

from decouply.bases import AbstractBasis, Monomial, Spline
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.report._style import COLOURS, new_figure
from decouply.samples._samples import Samples
from decouply.solvers import VarPro
from experiments.functions.other_spline_methods import alternating_psplines, filtered_cpd
from experiments.harness import Content, Experiment, Option, Outcome, Task, column, markdown, matching

_INPUTS, _OUTPUTS, _RANK = 4, 3, 3
_CONDITION = 4.0
_FRESH = 2000
_STARTS = 64  # for each layer
_PATIENT = 600.0  # seconds: no fit is cut off, however busy the machine
_POINTS, _SLOPE_ROUNDING = 1001, 1e-9

Curve = tuple[Callable[[ndarray], ndarray], Callable[[ndarray], ndarray]]  # a function and its derivative
CURVES: dict[str, Curve] = {
    "tanh 3u": (lambda u: np.tanh(3.0 * u), lambda u: 3.0 / np.cosh(3.0 * u) ** 2),
    "saturation": (lambda u: np.clip(2.0 * u, -0.8, 0.8), lambda u: 2.0 * (np.abs(u) < 0.4)),
    "dead zone": (lambda u: u - np.clip(u, -0.3, 0.3), lambda u: 1.0 * (np.abs(u) > 0.3)),
    "|u|": (np.abs, np.sign),
    "sin 3u": (lambda u: np.sin(3.0 * u), lambda u: 3.0 * np.cos(3.0 * u)),
    "exp 2u": (lambda u: np.exp(2.0 * u) / 2.0, lambda u: np.exp(2.0 * u)),
}
Fitted = tuple[Decoupling, float]  # with its number of (effective) parameters


def _by_varpro(basis: AbstractBasis, shapes: str | None = None) -> Callable[[Samples, tuple[int, ...], int], Fitted]:
    def fit(samples: Samples, ranks: tuple[int, ...], seed: int) -> Fitted:
        solver = VarPro(max_seconds=_PATIENT)
        options: dict[str, Any] = {"n_starts": _STARTS * len(ranks), "rng": seed, "progress": False, "shapes": shapes}
        result = decouple(samples, ranks, basis=basis, solver=solver, **options)
        return result.decoupling, float(result.n_effective or result.decoupling.n_parameters)

    return fit


def _by_others(method: Callable[[Samples, int, Spline, int], Decoupling]) -> Callable[..., Fitted]:
    def fit(samples: Samples, ranks: tuple[int, ...], seed: int) -> Fitted:
        model = method(samples, ranks[0], Spline(_PIECES), seed)
        return model, float(model.n_parameters)

    return fit


_PIECES = 32
METHODS: dict[str, Callable[[Samples, tuple[int, ...], int], Fitted]] = {
    "degree 5": _by_varpro(Monomial(5)),
    "degree 9": _by_varpro(Monomial(9)),
    "spline": _by_varpro(Spline(_PIECES)),
    "parabolic tails": _by_varpro(Spline(_PIECES, tails="parabola")),
    "increasing spline": _by_varpro(Spline(_PIECES), "increasing"),
    "alternating P-splines": _by_others(alternating_psplines),
    "filtered CPD": _by_others(filtered_cpd),
}
_COLOURS = (*COLOURS, "#767676")  # one per method
_PLAIN = ("degree 5", "degree 9", "spline")


@dataclass(frozen=True)
class Case:
    """What is known of a system, the methods that are tried, and what is told besides errors."""

    name: str
    layers: int
    n_samples: int
    noise: float  # of the spread of each output
    jacobians: bool
    curves: tuple[str, ...]
    methods: tuple[str, ...] = _PLAIN
    tells: Literal["errors", "errors inside", "wrong slopes"] = "errors"


_KINKED = ("tanh 3u", "saturation", "dead zone", "|u|")
_BOTH, _NOISY = "one layer, values and Jacobians, 200 samples", "one layer, values with 3 % noise, 200 samples"
_TWO, _FEW = "two layers, values with 3 % noise, 300 samples", "one layer, values with 10 % noise, 150 samples"
CASES = (
    Case(_BOTH, 1, 200, 0.0, True, _KINKED, (*_PLAIN, "alternating P-splines", "filtered CPD")),
    Case(_NOISY, 1, 200, 0.03, False, _KINKED),
    Case(_NOISY, 1, 200, 0.03, False, ("sin 3u", "exp 2u"), (*_PLAIN, "parabolic tails"), "errors inside"),
    Case(_TWO, 2, 300, 0.03, False, _KINKED),
    Case(_FEW, 1, 150, 0.1, False, ("saturation", "dead zone"), (*_PLAIN, "increasing spline"), "wrong slopes"),
)


def tasks(*, seed: int, n_runs: int, cases: tuple[Case, ...] = CASES) -> list[Task]:
    return [
        {"case": case.name, "curve": curve, "method": method, "run": run, "seed": seed}
        for run in range(n_runs)  # first, so that what is stopped has all of some systems
        for case in cases
        for curve in case.curves
        for method in case.methods
    ]


def work(case: str, curve: str, method: str, run: int, seed: int) -> Outcome:
    """One fit: its error on fresh points in percent, its processor seconds and its (effective) parameters.

    `inside` is the error at fresh points within the range of the samples. A slope is wrong where a function falls, or
    rises if it falls on the whole: the true curves of such a case rise.
    """
    about, g = _case(case, curve), CURVES[curve]
    rng = np.random.default_rng([seed, list(CURVES).index(curve), about.layers, run])
    W = _matrices(g, about.layers, rng)
    X, fresh = rng.uniform(-1.0, 1.0, (about.n_samples, _INPUTS)), rng.uniform(-1.0, 1.0, (_FRESH, _INPUTS))
    F, J = _evaluate(g, W, X)
    F = F + about.noise * F.std(axis=0) * rng.normal(size=F.shape)
    samples = Samples(X, F=F, J=J if about.jacobians else None)
    began = time.process_time()
    model, n_parameters = METHODS[method](samples, (_RANK,) * about.layers, run)
    seconds = time.process_time() - began
    truth, found = _evaluate(g, W, fresh)[0], model(fresh)
    inside = _inside_visited_ranges(g, W, X, fresh)
    return {
        "error": percent_of_spread(found, truth),
        "seconds": seconds,
        "n_parameters": n_parameters,
        "inside": percent_of_spread(found[inside], truth[inside]),
        "wrong_slopes": _wrong_slopes(model) if about.tells == "wrong slopes" else None,
    }


def _case(name: str, curve: str) -> Case:
    return next(case for case in CASES if case.name == name and curve in case.curves)


def percent_of_spread(found: ndarray, truth: ndarray) -> float:
    """Root mean square of the errors, in percent of that of the spread."""
    return 100.0 * float(np.linalg.norm(found - truth) / np.linalg.norm(truth - truth.mean(axis=0)))


def _inside_visited_ranges(curve: Curve, W: list[ndarray], X: ndarray, fresh: ndarray) -> ndarray:
    """Which of the fresh points have all arguments of functions within the ranges that the samples visit."""
    inside = np.ones(len(fresh), dtype=bool)
    for matrix in W[:-1]:
        u, v = X @ matrix.T, fresh @ matrix.T
        inside &= np.all((v >= u.min(axis=0)) & (v <= u.max(axis=0)), axis=1)
        X, fresh = curve[0](u), curve[0](v)
    return inside


def _wrong_slopes(model: Decoupling) -> float:
    """The share of points of all domains at which a function does not go the way that it goes on the whole."""
    wrong = []
    for g in model.g:
        slopes = g.slopes(np.linspace(g.domain[:, 0], g.domain[:, 1], _POINTS))
        way = np.sign(slopes.sum(axis=0))
        wrong.append(np.mean(way * slopes < -_SLOPE_ROUNDING * np.abs(slopes).max(axis=0)))
    return float(np.mean(wrong))


def _matrices(curve: Curve, layers: int, rng: np.random.Generator) -> list[ndarray]:
    """Random matrices whose arguments fill [-1, 1], all of them well-conditioned."""
    z = rng.uniform(-1.0, 1.0, (20_000, _INPUTS))
    W = []
    for _ in range(layers):
        W.append(well_conditioned_matrix((_RANK, z.shape[1]), rng, z))
        z = curve[0](z @ W[-1].T)
    return [*W, well_conditioned_matrix((_OUTPUTS, _RANK), rng, None)]


def well_conditioned_matrix(shape: tuple[int, int], rng: np.random.Generator, z: ndarray | None) -> ndarray:
    while True:
        W = rng.normal(size=shape)
        if z is not None:
            W /= np.quantile(np.abs(z @ W.T), 0.999, axis=0)[:, None]
        if np.linalg.cond(W) < _CONDITION:
            return W


def _evaluate(curve: Curve, W: list[ndarray], X: ndarray) -> tuple[ndarray, ndarray]:
    """Values and Jacobians."""
    z, P = X, np.broadcast_to(np.eye(X.shape[1]), (len(X), X.shape[1], X.shape[1]))
    for matrix in W[:-1]:
        u, V = z @ matrix.T, matrix @ P
        z, P = curve[0](u), curve[1](u)[..., None] * V
    return z @ W[-1].T, W[-1] @ P


def _rows(content: Content) -> dict[str, list[str]]:
    """The curves of every case, in the order of the runs."""
    pairs = dict.fromkeys((run["case"], run["curve"]) for run in content["runs"])
    return {case: [curve for one, curve in pairs if one == case] for case, _ in pairs}


def table(content: Content) -> str:
    """A table for each case: median errors in percent, the worst in brackets, and what the case tells besides."""
    blocks = []
    for name, curves in _rows(content).items():
        by_method = {method: matching(content["runs"], case=name, method=method) for method in METHODS}
        by_method = {method: runs for method, runs in by_method.items() if runs}
        rows = []
        for curve in curves:
            cells = [_cell(matching(runs, curve=curve), _case(name, curve).tells) for runs in by_method.values()]
            rows.append([curve.replace("|", "\\|"), *cells])  # a bar would end the cell
        spent = [f"{np.median(column(runs, 'seconds')):.1f} s" for runs in by_method.values()]
        blocks += [f"**{name[:1].upper()}{name[1:]}**"]
        blocks += [markdown(["curve", *by_method], [*rows, ["*median time of a fit*", *spent]])]
    return "\n\n".join(blocks)


def _cell(runs: list[Task], tells: str) -> str:
    if not runs:
        return ""
    errors = column(runs, "error")
    text = f"{_plain(float(np.median(errors)), 3)} ({_plain(float(np.max(errors)), 2)})"
    if tells == "wrong slopes":
        return f"{text}; {100 * np.median(column(runs, 'wrong_slopes', failed=0.0)):.2g} % wrong"
    return f"{text}; {np.median(column(runs, 'inside')):.2g} inside" if tells == "errors inside" else text


def _plain(error: float, digits: int) -> str:
    """With so many digits, and without a power of ten where there are only hundreds or thousands."""
    return f"{error:.0f}" if 100.0 <= error < 1e4 else f"{error:.{digits}g}"


def figure(content: Content) -> Figure:
    """Errors of every system, by curve, one panel per case."""
    canvas = new_figure(9.0, 3.4)
    cases = _rows(content)
    panels = canvas.subplots(1, len(cases), sharey=True, squeeze=False)[0]
    for panel, (case, curves) in zip(panels, cases.items(), strict=True):
        for i, method in enumerate(METHODS):
            for k, curve in enumerate(curves):
                runs = matching(content["runs"], case=case, curve=curve, method=method)
                errors, place = column(runs, "error").clip(max=1e3), np.full(len(runs), k + 0.12 * (i - 3))
                panel.semilogy(place, errors, ".", color=_COLOURS[i], label=None if k else method)
        panel.set_xticks(range(len(curves)), curves, rotation=25, ha="right")
        panel.set_title(case.replace(", ", "\n", 1), fontsize="small")
    panels[0].set_ylabel("error on fresh points (%)")
    panels[-1].legend(fontsize="x-small", loc="lower center")  # the case with the largest errors has room there
    return canvas


BASES = Experiment.of(
    globals(),
    "bases",
    "Polynomials and splines on many kinds of curves.",
    options=(Option("n_runs", 10, "Systems per case and curve."),),
)
