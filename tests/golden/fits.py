"""What is asked of samples and results: ranks, quality, bands, names, simpler models."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc

from .given import LONG, points, sampled, solver, system, told, told_model
from .golden import Made, case, floored
from .solvers import bent, decoupled


def _selected(selection: dc.fit.Selection) -> Made:
    rows = [[*row.ranks, *row.degrees, row.n_parameters, row.pareto, row.chosen] for row in selection.table]
    errors = [[row.error, row.spread, row.training_error, row.score] for row in selection.table]
    return told_model(selection.result.decoupling) | {
        "ranks": selection.ranks,
        "degrees": selection.degrees,
        "n_notes": len(selection.notes),
        "n_folds": selection.n_folds,
        "rows": rows,
        "errors": floored(np.array(errors, dtype=float)),
        "singular_values": [floored(u.singular_values) for u in selection.hints.unfoldings],
        "ranks_of_unfoldings": [u.rank for u in selection.hints.unfoldings],
        "result": [selection.result.status.name, selection.result.found_by],
    }


@case("noisy", "degrees", "jacobians", "linear", "spline", "constr")
def select(folder: Path, word: str) -> Made:
    options: dict[str, Any] = {"n_folds": 2, "progress": False, "max_seconds": LONG, "solver": solver(max_steps=10)}
    f = system(1)
    if word == "degrees":
        return _selected(dc.select(sampled(f, 40, noise=0.03), (2, 1), degrees=(2, 2), **options))
    if word == "jacobians":
        return _selected(dc.select(sampled(f, 40, kinds="J", noise=0.03), (3,), 2, **options))
    if word == "linear":
        return _selected(dc.select(sampled(f, 40, noise=0.03), (2,), 3, linear=True, **options))
    if word == "spline":
        return _selected(dc.select(bent(30), (1,), degrees=None, basis=dc.Spline(3), **options))
    if word == "constr":
        by = {"solver": dc.Constr(stopping=dc.solvers.Stopping(max_steps=10))}
        return _selected(dc.select(sampled(f, 40, noise=0.03), (2,), 2, **(options | by)))
    return _selected(dc.select(sampled(f, 40, kinds="F", noise=0.03), (3,), 3, **options))


@case("values", "both", "shaped")
def automatic_ranks(folder: Path, word: str) -> Made:
    options: dict[str, Any] = {"progress": False, "max_seconds": LONG, "solver": solver(max_steps=10), "degrees": 2}
    f = system(1)
    if word == "shaped":
        options |= {"degrees": 3, "basis": dc.bases.Bernstein, "shapes": "increasing"}
        return told(dc.decouple(bent(30), "auto", **options))
    return told(dc.decouple(sampled(f, 40, kinds="F" if word == "values" else "FJ", noise=0.03), "auto", **options))


@case("constr", "proj", "varpro")
def validation(folder: Path, word: str) -> Made:
    f = system(1)
    by = {
        "constr": dc.Constr(stopping=dc.solvers.Stopping(max_steps=10)),
        "proj": dc.Proj(stopping=dc.solvers.Stopping(max_steps=10)),
        "varpro": solver(max_steps=5),
    }[word]
    samples, apart = sampled(f, 40, noise=0.05).split(0.3, rng=1)
    result = decoupled(samples, 2, 2, by=dc.TwoStage(by, max_runs=3), validation=apart, n_starts=2)
    return told(result) | {
        "losses": [row.loss for row in result.path],
        "apart": result.relative_rmse(apart),
        "slopes": result.relative_slopes,
    }


def _asked(word: str) -> dc.Result:
    f = system(1)
    weights = np.random.default_rng(3).uniform(0.5, 2.0, 50)
    makers: dict[str, Callable[[], dc.Result]] = {
        "both": lambda: decoupled(sampled(f, 50, noise=0.05), 2, 2),
        "values": lambda: decoupled(sampled(f, 50, kinds="F", noise=0.05), 2, 2),
        "jacobians": lambda: decoupled(sampled(f, 50, kinds="J", noise=0.05), 2, 2),
        "weighted": lambda: decoupled(sampled(f, 50, noise=0.05, weights=weights), 2, 2),
        "ridge": lambda: decoupled(sampled(f, 50, noise=0.05), 2, 2, by=solver(ridge=0.01)),
        "spline": lambda: decoupled(bent(), 2, None, basis=dc.Spline(4), n_starts=2),
        "too-many": lambda: decoupled(sampled(f, 40), 3, 3, by=solver(max_steps=10)),
        "too-few": lambda: decoupled(sampled(f, 60, kinds="F"), 1, 2),
        "linear": lambda: decoupled(sampled(f, 50, noise=0.05), 2, 2, linear=True),
        "fixed": lambda: decoupled(sampled(f, 50, noise=0.05), 2, 2, by=solver(fixed={"W0": f.W[0]})),
        "two-layers": lambda: decoupled(sampled(system(2), 50, noise=0.05), (2, 2), (2, 2), by=solver(max_steps=10)),
    }
    return makers[word]()


@case("both", "values", "jacobians", "weighted", "ridge", "spline", "too-few", "linear", "fixed", "two-layers")
def inference(folder: Path, word: str) -> Made:
    """Quality, identifiability, standard errors; functions are in canonical order and scale."""
    result = _asked(word)
    quality, unique = result.quality, result.identifiability
    here = result.uncertainty()
    return {
        "r_squared": quality.r_squared,
        "left_out": quality.left_out_r_squared,
        "noise": quality.noise,
        "predictable": quality.predictable,
        "verdicts": [verdict.grade.name for verdict in quality.verdicts],
        "verdict": quality.verdict.grade.name,
        "unique": [unique.rank, unique.n_parameters, unique.n_ambiguities, unique.locally_unique],
        "smallest": unique.smallest_singular_value,
        "errors_of_functions": [np.sqrt(np.mean(part**2, axis=0)) for part in here],
        "errors_at": list(result.uncertainty([-0.5, 0.0, 0.5])),
        "cancellation": result.decoupling.cancellation(result.samples.X),
        "importance": result.decoupling.importance(result.samples.X),
        "relative_rmse": result.relative_rmse() if result.samples.has_values else None,
    }


@case()
def too_many_functions(folder: Path) -> Made:
    result = _asked("too-many")
    unique = result.identifiability
    return {"unique": [unique.rank, unique.n_parameters, unique.n_ambiguities, unique.locally_unique]}


@case("both", "values", "two-layers")
def ablation(folder: Path, word: str) -> Made:
    rows = _asked(word).ablation(max_seconds=LONG, progress=False)
    return {"rows": [[row.layer, row.index, row.error, row.error_without, row.refitted] for row in rows]}


def _named(recognition: dc.fit.Recognition) -> Made:
    return {
        "names": recognition.names,
        "sentences": recognition.sentences(),
        "table": [[c.name for c in f.candidates[:4]] for f in recognition.functions],
        "off": [[c.off for c in f.candidates[:4]] for f in recognition.functions],
        "score": [[c.score for c in f.candidates[:4]] for f in recognition.functions],
        "curve": [None if f.best is None else f.best(np.linspace(-0.5, 0.5, 3)) for f in recognition.functions],
    }


@case("spline", "polynomial", "points", "some")
def recognise(folder: Path, word: str) -> Made:
    if word == "polynomial":
        return _named(_asked("both").recognise())
    if word == "points":
        g = dc.Functions(dc.bases.Saturation(), [[0.0, 1.0]], domain=(-1.4, 1.4))
        return _named(dc.Decoupling([[[1.0, 0.5]], [[2.0]]], [g]).recognise(points(2, 80), progress=False))
    result = decoupled(bent(60, noise=0.01), 2, None, basis=dc.Spline(6), n_starts=1)
    if word == "some":
        return _named(result.recognise(curves=["tanh", "parabola", "line"], tolerance=0.01))
    return _named(result.recognise())


@case("spline", "given", "unpruned")
def simplified(folder: Path, word: str) -> Made:
    X = points(2, 60)
    F = np.clip(X @ [[1.0], [0.5]], -0.7, 0.7) + 0.01 * np.random.default_rng(4).normal(size=(60, 1))
    result = decoupled(dc.Samples(X, F=F), 1 if word != "unpruned" else 2, None, basis=dc.Spline(6), n_starts=1)
    options: dict[str, Any] = {"curves": {(1, 1): "tanh"}} if word == "given" else {"prune": word != "unpruned"}
    found = result.simplified(progress=False, **options)
    return told_model(found.decoupling) | {
        "bases": [repr(g.layer.bases) for g in found.decoupling.g],
        "n_parameters": [change.n_parameters for change in found.changes],
        "errors": [change.error for change in found.changes],
        "n_notes": len(found.notes),
    }


@case("usual", "linear", "neighbours")
def estimated_jacobians(folder: Path, word: str) -> Made:
    samples = sampled(system(1), 60, kinds="F", noise=0.01)
    options: dict[str, Any] = {"linear": {"degree": 1}, "neighbours": {"neighbours": 25}}.get(word, {})
    found = dc.estimate_jacobians(samples, **options)
    said = {"J": found.J[:4], "norm": np.linalg.norm(found.J)}
    if found.weights is not None:
        said["weights"] = found.weights[:4]
    return said


@case()
def factor_match(folder: Path) -> Made:
    f, X = dc.systems.f3(), points(4)
    W = [w + 0.05 * np.random.default_rng(1).normal(size=w.shape) for w in f.W]
    g = dc.Decoupling(W, f.g).permuted(1, [2, 0, 1])
    compared = dc.compare_factors(f, g, X)
    a, b = (dc.ParaTuck(*h.factors(X)) if isinstance(h.factors(X), tuple) else h.factors(X) for h in (f, g))
    return {
        "match": dc.factor_match(f, g),
        "at": dc.factor_match(f, g, X),
        "paratuck": dc.factor_match(a, b),
        "compared": compared.match,
        "order": [np.asarray(part) for part in compared.order],
        "components": [np.asarray(part) for part in compared.components],
        "share": [np.asarray(part) for part in compared.share],
    }


@case()
def canonical_forms(folder: Path) -> Made:
    """Of known models, whose factors are fixed by the form."""
    said: dict[str, Any] = {}
    for name, f in (("f1", dc.systems.f1()), ("f2", dc.systems.f2()), ("f3", dc.systems.f3())):
        model = f.canonical(points(f.n_inputs, 50))
        said |= {f"{name}.W": list(model.W), f"{name}.C": [g.C for g in model.g]}
        said |= {f"{name}.domain": [g.domain for g in model.g], f"{name}.values": f(points(f.n_inputs, 3))}
    return said


@case()
def random_systems(folder: Path) -> Made:
    f = dc.systems.random_system((4, 3, 3, 4), (3, 3), rng=1)
    g = dc.systems.random_system((2, 3, 2), (3,), angles="signed", rng=2)
    return {"absolute": told_model(f), "signed": told_model(g)}


@case()
def metrics(folder: Path) -> Made:
    rng = np.random.default_rng(0)
    F, J = rng.normal(size=(20, 2)), rng.normal(size=(20, 2, 3))
    return {
        "values": dc.error_values(F, F + 0.1),
        "jacobian": dc.error_jacobian(J, 1.1 * J),
        "rmse": dc.relative_rmse(F, F + 0.1 * F**2),
    }
