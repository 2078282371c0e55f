"""Free-run simulation: compiled straight-line arithmetic against the same model evaluated through NumPy each step."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import decouply as dc

from .problems import best_of, table

STEPS = 21_688  # the multisine test of the Silverbox
STEPS_NUMPY = 500


def section(_: Path) -> str:
    rng = np.random.default_rng(0)
    u = rng.normal(size=STEPS)
    y = np.zeros(STEPS)
    for t in range(3, STEPS):
        y[t] = 1.4 * y[t - 1] - 0.7 * y[t - 2] + 0.1 * u[t - 1] - 0.02 * y[t - 1] ** 3
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=3, degree=3).fit(u[:5000], y[:5000])
    decoupled = narx.decouple(3, n_starts=4, progress=False)
    rows = []
    for name, model in (("polynomial, 56 coefficients", narx), ("decoupled, rank 3, 30 parameters", decoupled)):
        compiled = best_of(lambda model=model: model.simulate(u, y[:3]), 3)
        stepwise = best_of(lambda model=model: _by_numpy(model, u[:STEPS_NUMPY], y[:3]), 3)
        per_step = stepwise / (STEPS_NUMPY - 3)
        ratio = per_step / (compiled / STEPS)
        rows.append([name, f"{compiled:.3f} s", f"{1e6 * compiled / STEPS:.1f} µs", f"{ratio:.0f}×"])
    return (
        f"## Free-run simulation\n\n{STEPS} steps of NARX models with five regressors and degree 3. The reference "
        f"calls `model(X)` once per step ({STEPS_NUMPY} steps measured).\n\n"
        + table(["model", "whole run", "per step", "faster than NumPy per step"], rows)
    )


def _by_numpy(model: dc.sysid.AbstractNARX, u: np.ndarray, y_init: np.ndarray) -> np.ndarray:
    y = np.zeros(len(u))
    y[:3] = y_init
    for t in range(3, len(u)):
        y[t] = model([[u[t], u[t - 1], y[t - 1], y[t - 2], y[t - 3]]])[0, 0]
    return y
