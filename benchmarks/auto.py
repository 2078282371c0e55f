"""What choosing ranks costs: the regressor as it comes, against its default in the first edition.

That was a rank of 2, degree 3, a small ridge and 32 random starts. Both run on the present code, in turns.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

import decouply as dc
from experiments.regression.regression import SETS

from .problems import table, verdict

NAMES = ("diabetes", "friedman1", "friedman2", "friedman3")
SEEDS, REPEATS, LIMIT = (1, 2), 5, 3.0


def section(_: Path) -> str:
    makers = {name: SETS[name] for name in NAMES} | {"300 rows of four inputs": four_inputs}
    rows, worst = [], 0.0
    for name, make in makers.items():
        first, auto = (sum(times) for times in zip(*(fit_seconds(*make(seed)) for seed in SEEDS), strict=True))
        worst = max(worst, auto / first)
        rows.append(
            [name, f"{first / len(SEEDS) * 1e3:.0f} ms", f"{auto / len(SEEDS) * 1e3:.0f} ms", f"{auto / first:.1f}"]
        )
    return (
        "## The regressor: choosing ranks, against rank 2 with a small ridge\n\n"
        f"Shortest processor time of {REPEATS} fits by each, in turns, the mean of {len(SEEDS)} seeds. The largest "
        f"ratio is {worst:.2g} ({verdict(worst, LIMIT)}).\n\n"
        + table(["data", "rank 2, `ridge=1e-6`", '`ranks="auto"`', "ratio"], rows)
    )


def four_inputs(seed: int) -> tuple[Float[ndarray, "S 4"], Float[ndarray, " S"]]:
    """Two functions of sums of inputs, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (300, 4))
    y = np.sin(2.0 * (X[:, 0] + X[:, 1])) + (X[:, 2] - X[:, 3]) ** 2
    return X, y + 0.1 * rng.normal(size=len(y))


def fit_seconds(X: ndarray, y: ndarray) -> tuple[float, float]:
    """Seconds of the default of the first edition, and of the present one."""
    makers: tuple[Callable[[], Any], ...] = (
        lambda: dc.DecouplingRegressor(ranks=2, ridge=1e-6, random_state=0),
        lambda: dc.DecouplingRegressor(random_state=0),
    )
    times = np.full((REPEATS, 2), np.inf)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i in range(REPEATS):
            for j, make in enumerate(makers):
                began = time.process_time()
                make().fit(X, y)
                times[i, j] = time.process_time() - began
    first, auto = times.min(axis=0)
    return float(first), float(auto)


if __name__ == "__main__":
    print(section(Path("docs/speed")))
