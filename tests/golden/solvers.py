"""All solvers, by layers, data and options."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc

from .given import LONG, points, sampled, solver, system, told
from .golden import Made, case, floored

_FEW = dc.solvers.Stopping(max_steps=12, min_steps=3, patience=5)
SOLVERS = {
    "VarPro": solver,
    "Proj": lambda: dc.Proj(lam=0.1, stopping=_FEW),
    "Constr": lambda: dc.Constr(lam=0.1, stopping=_FEW),
    "Zniyed": lambda: dc.Zniyed(stopping=_FEW),
    "Hollander": lambda: dc.Hollander(stopping=_FEW),
    "Dreesen": lambda: dc.Dreesen(stopping=_FEW),
    "TwoStage": lambda: dc.TwoStage(dc.Constr(stopping=_FEW), max_runs=3),
    "TwoStageVarPro": lambda: dc.TwoStage(solver(max_steps=10, polish_steps=10), max_runs=2),
}
_ONE_LAYER = ("Zniyed", "Hollander", "Dreesen")
_NO_PER_OUTPUT = ("Hollander", "Dreesen")


def decoupled(samples: dc.Samples, ranks: Any, degrees: Any = 2, *, by: Any = None, **options: Any) -> dc.Result:
    settings = {"n_starts": 3, "progress": False, "solver": solver() if by is None else by}
    return dc.decouple(samples, ranks, degrees, **(settings | options))


def _by_layers() -> list[str]:
    found = []
    for name, n_layers, kinds in itertools.product(SOLVERS, (1, 2, 3), ("FJ", "J", "F")):
        if (name in _ONE_LAYER and n_layers > 1) or (kinds == "J" and name.startswith("TwoStage")):
            continue
        if (kinds == "F" and name != "VarPro") or (name == "TwoStageVarPro" and n_layers > 2):
            continue
        found.append(f"{name}-{n_layers}-{kinds}")
    return found


@case(*_by_layers())
def layers(folder: Path, word: str) -> Made:
    name, n_layers, kinds = word.split("-")
    L = int(n_layers)
    f = system(L)
    by = (
        solver(max_steps=10, polish_steps=10, ridge=1e-6)
        if name == "VarPro" and (L == 3 or kinds == "F")
        else SOLVERS[name]()
    )
    n_starts = 2 if (name, kinds) == ("VarPro", "F") else 3
    return told(decoupled(sampled(f, kinds=kinds, noise=0.02), f.ranks, f.degrees, by=by, n_starts=n_starts))


@case("1", "2", "3")
def exact(folder: Path, word: str) -> Made:
    f = system(int(word))
    result = decoupled(sampled(f, 40), f.ranks, f.degrees, by=solver(max_steps=100, polish_steps=100), n_starts=16)
    said = told(result)
    del said["objective"], said["steps"], said["history"]  # of rounding
    return said


@case(*(name for name in SOLVERS if name not in ("Dreesen", "TwoStageVarPro")))
def linear_part(folder: Path, word: str) -> Made:
    f = system(1)
    A = np.array([[1.0, 0.5, -0.3], [0.2, -1.0, 0.4]])
    X = points(3)
    noise = 0.02 * np.random.default_rng(5).normal(size=(30, 2))
    samples = dc.Samples(X, F=f(X) + X @ A.T + noise, J=f.jacobian(X) + A)
    return told(decoupled(samples, 2, 2, by=SOLVERS[word](), linear=True))


@case(*itertools.chain.from_iterable((f"{name}-S", f"{name}-Sn") for name in SOLVERS))
def weights(folder: Path, word: str) -> Made:
    name, _, shape = word.partition("-")
    W = np.random.default_rng(3).uniform(0.5, 2.0, (30,) if shape == "S" else (30, 2))
    try:
        return told(decoupled(sampled(system(1), noise=0.05, weights=W), 2, 2, by=SOLVERS[name]()))
    except dc.InputError:
        return {"refused": True}


@case(*(name for name in SOLVERS if name != "TwoStageVarPro"))
def as_given(folder: Path, word: str) -> Made:
    X = 3.0 + 2.0 * points(3)
    f = system(1)
    noise = np.random.default_rng(2).normal(size=(30, 2))
    samples = dc.Samples(X, F=f(X) + noise, J=f.jacobian(X))
    return told(decoupled(samples, 2, 2, by=SOLVERS[word](), as_given=True))


@case("0", "0.001", "0.1")
def ridge(folder: Path, word: str) -> Made:
    return told(decoupled(sampled(system(1), noise=0.1), 2, 3, by=solver(ridge=float(word))))


@case("lam", "normal", "uniform", "batch", "start", "start-alone", "fixed", "memory", "smoothing", "plain-seed")
def varpro_options(folder: Path, word: str) -> Made:
    f = system(2)
    options: dict[str, Any] = {
        "lam": {"lam": 0.01},
        "normal": {"start": dc.solvers.Normal(0.5)},
        "uniform": {"start": dc.solvers.Uniform()},
        "batch": {"batch_size": 2},
        "start": {"start": f.scaled(1, [1.1, 0.9], [1.0, 1.2])},
        "start-alone": {"start": f.scaled(1, [1.1, 0.9], [1.0, 1.2])},
        "fixed": {"fixed": {"W0": f.W[0]}},
        "memory": {"memory": 1e6},
        "smoothing": {"smoothing": 1e-3},
        "plain-seed": {},
    }[word]
    n_starts = {"start-alone": 1, "batch": 6}.get(word, 3)
    rng = 7 if word == "plain-seed" else np.random.default_rng(4)
    return told(decoupled(sampled(f, noise=0.05), f.ranks, f.degrees, by=solver(**options), n_starts=n_starts, rng=rng))


@case("last", "unweighted", "start", "smoothed", "spline", "lam")
def alternating_options(folder: Path, word: str) -> Made:
    f = system(2)
    by: dict[str, Any] = {
        "last": dc.Constr(stopping=dataclasses.replace(_FEW, iterate="last")),
        "unweighted": dc.Proj(weighted_projection=False, stopping=_FEW),
        "start": dc.Constr(start=f.scaled(1, [1.1, 0.9], [1.0, 1.2]), stopping=_FEW),
        "smoothed": dc.Proj(smoothing=1e-3, stopping=_FEW),
        "spline": dc.Constr(lam=1.0, stopping=_FEW),
        "lam": dc.Zniyed(lam=0.5, stopping=_FEW),
    }
    if word in ("spline", "lam"):
        f = system(1)
    basis = {"basis": dc.Spline(4)} if word == "spline" else {}
    degrees = None if word == "spline" else f.degrees
    return told(decoupled(sampled(f, noise=0.05), f.ranks, degrees, by=by[word], **basis))


POLYNOMIALS = ("Monomial", "ScaledMonomial", "Bernstein", "Chebyshev", "Trigonometric")
CURVES = (
    *("Tanh", "Sigmoid", "Saturation", "DeadZone", "Absolute", "ReLU", "LeakyReLU", "Friction"),
    *("Exponential", "Logarithm", "Gaussian", "Rational"),
)


def bent(S: int = 40, noise: float = 0.03) -> dc.Samples:
    """Values of functions that no polynomial is, and Jacobians."""
    X, rng = points(2, S), np.random.default_rng(1)
    a, b = X @ [1.5, -0.5], X @ [0.4, 1.2]
    F = np.stack([np.tanh(2 * a) + 0.5 * b**2, np.tanh(2 * a) - b], axis=1)
    return dc.Samples(X, F=F + noise * rng.normal(size=F.shape))


@case(*POLYNOMIALS)
def polynomials(folder: Path, word: str) -> Made:
    return told(decoupled(bent(), 2, 3, basis=getattr(dc.bases, word)))


@case(*CURVES)
def curves(folder: Path, word: str) -> Made:
    return told(decoupled(bent(30), 2, None, basis=getattr(dc.bases, word)(), n_starts=2))


@case("mixed", "layers", "fixed-degree")
def several_bases(folder: Path, word: str) -> Made:
    basis: Any = {
        "mixed": [(dc.bases.Tanh(), dc.Monomial(2))],
        "layers": [dc.Chebyshev(2), dc.bases.Tanh()],
        "fixed-degree": dc.Chebyshev(3),
    }[word]
    return told(decoupled(bent(), (2, 2) if word == "layers" else 2, None, basis=basis))


@case("auto", "weight", "none", "tails", "two-layers", "jacobians")
def splines(folder: Path, word: str) -> Made:
    basis = dc.Spline(4, degree=2, tails="parabola") if word == "tails" else dc.Spline(5)
    smoothing: Any = {"weight": 1e-2, "none": None}.get(word, "auto")
    if word == "two-layers":
        return told(
            decoupled(bent(), (2, 1), None, basis=dc.Spline(3), n_starts=1, by=solver(max_steps=10, polish_steps=10))
        )
    samples = sampled(system(1), 30, noise=0.02) if word == "jacobians" else bent()
    return told(decoupled(samples, 2, None, basis=basis, by=solver(smoothing=smoothing)))


SHAPES = ("increasing", "decreasing", "convex", "concave", "odd", "even", "nonnegative")


@case(*SHAPES)
def shapes(folder: Path, word: str) -> Made:
    by = solver(max_steps=10, polish_steps=10)
    return told(decoupled(bent(30), 2, None, basis=dc.Spline(3), shapes=word, n_starts=1, by=by))


@case("bernstein", "list", "layers", "odd-monomial", "varpro-J")
def shapes_of(folder: Path, word: str) -> Made:
    if word == "bernstein":
        return told(decoupled(bent(), 2, 4, basis=dc.bases.Bernstein, shapes="increasing", n_starts=2))
    if word == "list":
        return told(decoupled(bent(), 2, None, basis=dc.Spline(4), shapes=["increasing", "convex"], n_starts=2))
    if word == "layers":
        shapes = [["increasing", None], ["convex"]]
        return told(decoupled(bent(), (2, 1), None, basis=dc.Spline(3), shapes=shapes, n_starts=1))
    if word == "odd-monomial":
        return told(decoupled(bent(), 2, 4, shapes="odd", n_starts=2))
    return told(decoupled(sampled(system(1), noise=0.02), 2, None, basis=dc.Spline(4), shapes="convex", n_starts=2))


@case(*(f"{L}-{method}" for L in (1, 2, 3) for method in ("auto", "algebra", "als") if (L, method) != (3, "algebra")))
def paratuck(folder: Path, word: str) -> Made:
    n_layers, method = word.split("-")
    f = system(int(n_layers)) if n_layers != "2" else dc.systems.f2()
    J = f.jacobian(points(f.n_inputs, 30))
    if method != "algebra":
        J = J + 0.05 * np.random.default_rng(2).normal(size=J.shape)
    found = dc.paratuck(J, f.ranks, method=method, n_starts=2, max_steps=15)
    return {
        "tensor": found.paratuck.to_tensor()[:3],
        "error": floored(found.error),
        "found_by": found.found_by,
        "n_steps": found.n_steps,
    }


@case()
def time_is_long_enough(folder: Path) -> Made:
    """The usual solver, whose limit of a minute is not met."""
    f = system(1)
    said = told(decoupled(sampled(f, noise=0.02), f.ranks, f.degrees, by=dc.VarPro(max_seconds=LONG), n_starts=None))
    return {key: said[key] for key in ("values", "jacobian", "errors", "status", "found_by", "lam", "ridge")}
