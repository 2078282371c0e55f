"""Count the verdicts of `DecouplingClassifier.quality_` on made data whose truth is known: notes/findings.md.

Run it with `python tools/class_verdicts.py --seed 3000`. Three inputs; log-odds are a parabola, a line or a wave, or
labels do not depend on the inputs at all.
"""

import argparse
import warnings
from collections import Counter

import numpy as np

import decouply as dc

TRUTHS = {
    "parabola": lambda X: 6.0 * (X[:, 0] + X[:, 1]) ** 2 - 3.0,
    "line": lambda X: 2.0 * X[:, 0] - X[:, 1],
    "wave": lambda X: 3.0 * np.sin(5.0 * X[:, 0]) + 2.0 * X[:, 1],
    "chance": lambda X: 0.0 * X[:, 0],
}
LINE = {"ranks": 1, "degrees": 1}
ROWS = [
    ("parabola", {}, "shape chosen"),
    ("line", {}, "shape chosen"),
    ("wave", {}, "shape chosen"),
    ("wave", LINE, "straight line"),
    ("parabola", LINE, "straight line"),
    ("chance", {}, "shape chosen"),
]


def verdict(truth, options, n_samples, seed):
    """The verdict on one draw."""
    rng = np.random.default_rng([seed, n_samples])
    X = rng.uniform(-1.0, 1.0, (n_samples, 3))
    y = rng.uniform(size=n_samples) < 1.0 / (1.0 + np.exp(-TRUTHS[truth](X)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)
        return dc.DecouplingClassifier(random_state=0, **options).fit(X, y).quality_.verdict.word


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draws", type=int, default=12)
    given = parser.parse_args()
    for truth, options, words in ROWS:
        for n_samples in (150, 400):
            seeds = range(given.seed, given.seed + given.draws)
            counts = Counter(verdict(truth, options, n_samples, seed) for seed in seeds)
            told = ", ".join(f"{value} {count}" for value, count in counts.most_common())
            print(f"{truth}, {words}, {n_samples} samples: {told}", flush=True)
