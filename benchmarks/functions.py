"""What functions cost: a layer of splines beside a layer of monomials, for many starts at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import decoupling as dc
from decoupling.bases import LayerBasis

from .machine import best_of, table, verdict

_STARTS, _SAMPLES, _RANK = 32, 300, 3
_LIMIT = 3.0


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
    )


def _all_tables(layer: LayerBasis, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return layer.evaluate(t), layer.derivative(t), layer.second_derivative(t)
