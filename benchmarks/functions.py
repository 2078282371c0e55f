"""What functions cost: a layer of splines beside a layer of monomials, for many starts at once, and whole fits."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import decouply as dc
from decouply.bases import LayerBasis

from .problems import best_of, table, verdict

_STARTS, _SAMPLES, _RANK = 32, 300, 3
_LIMIT = 3.0
_FIT_STARTS, _NOISE = 64, 0.03


def section(_: Path) -> str:
    t = np.random.default_rng(0).uniform(-1.0, 1.0, (_STARTS, _SAMPLES, _RANK))
    bases = (dc.Monomial(9), dc.Spline(8), dc.Spline(16), dc.Spline(32))
    spent = [best_of(lambda basis=basis: _all_tables(LayerBasis.of(basis, _RANK), t), 20) for basis in bases]
    rows = []
    for basis, seconds in zip(bases, spent, strict=True):
        ratio = seconds / spent[0]
        target = verdict(ratio, _LIMIT) if basis is not bases[0] else ""
        rows.append([f"`{basis!r}`", str(basis.size), f"{1e3 * seconds:.2f} ms", f"{ratio:.2f}", target])
    return (
        f"## One evaluation of a layer: {_STARTS} starts, {_SAMPLES} samples, {_RANK} functions\n\n"
        "Values with first and second derivatives of all basis functions, as a Gauss-Newton step needs them.\n\n"
        + table(["basis", "functions", "time", "ratio", "target"], rows)
        + "\n\n"
        + _fits()
    )


def _fits() -> str:
    """Fits of the same data; smoothing is chosen for the splines, a ridge for the polynomials."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-1.0, 1.0, (_SAMPLES, 4))
    F = np.tanh(3.0 * X @ (rng.normal(size=(4, _RANK)) / 2.0)) @ rng.normal(size=(_RANK, 3))
    samples = dc.Samples(X, F=F + _NOISE * F.std(axis=0) * rng.normal(size=F.shape))
    bases = (dc.Monomial(10), dc.Spline(8), dc.Spline(32))
    spent = [best_of(lambda basis=basis: _fit(samples, basis), 2) for basis in bases]
    rows = []
    for basis, seconds in zip(bases, spent, strict=True):
        ratio = seconds / spent[0]
        target = verdict(ratio, _LIMIT) if basis is not bases[0] else ""
        rows.append([f"`{basis!r}`", str(basis.size), f"{seconds:.2f} s", f"{ratio:.2f}", target])
    return (
        f"## A fit: {_SAMPLES} values with 3 % noise, {_RANK} functions, {_FIT_STARTS} starts\n\n"
        "Functions are tanh; the smoothing of splines and the ridge of polynomials are chosen by the data.\n\n"
        + table(["basis", "functions", "time", "ratio", "target"], rows)
    )


def _fit(samples: dc.Samples, basis: dc.bases.AbstractBasis) -> dc.Result:
    return dc.decouple(samples, _RANK, basis=basis, n_starts=_FIT_STARTS, progress=False)


def _all_tables(layer: LayerBasis, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return layer.evaluate(t), layer.derivative(t), layer.second_derivative(t)
