"""Functions that are known, with noise that is known, and what the verdict says of fits to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import decouply as dc
from decouply.fit import Grade
from tests.robustness.outcome import FINE, Outcome

_MISFIT, _NO_MISFIT = 0.5, 0.02  # shares of the squares of the residuals
_LARGE = 0.01  # of the spread: smaller misfit matters to nobody

Rng = np.random.Generator

# Functions of one argument between about -2 and 2. Those of the first list ask more than their fits can give.
SHAPES: dict[str, Callable[[Any, Rng], Any]] = {
    "step": lambda t, rng: np.sign(t - rng.uniform(-0.7, 0.7)),
    "two steps": lambda t, rng: np.sign(t + rng.uniform(0.2, 0.7)) + np.sign(t - rng.uniform(0.2, 0.7)),
    "steep step": lambda t, rng: np.tanh(40.0 * (t - rng.uniform(-0.5, 0.5))),
    "kink": lambda t, rng: np.abs(t - rng.uniform(-0.5, 0.5)),
    "spike": lambda t, rng: np.exp(-np.abs(t - rng.uniform(-0.5, 0.5)) / 0.05),
    "saw": lambda t, rng: (rng.uniform(1.0, 4.0) * t) % 1.0,
    "wiggle": lambda t, rng: np.sin(rng.uniform(8.0, 40.0) * t),
    "bend and wiggle": lambda t, rng: t**2 + 0.3 * np.sin(rng.uniform(10.0, 30.0) * t),
    "cubic": lambda t, rng: t**3 + rng.normal() * t**2 - t,
    "hill": lambda t, rng: np.exp(-2.0 * t**2),
    "saturation": lambda t, rng: np.tanh(2.0 * t),
}
# Standard deviations of the noise at points X with the function's values F.
NOISES: dict[str, Callable[[Any, Any, Rng], Any]] = {
    "even": lambda X, F, rng: np.ones((len(X), 1)),
    "grows with an input": lambda X, F, rng: 0.1 + 1.9 * (X[:, :1] - X[:, 0].min()) / np.ptp(X[:, 0]),
    "grows with the value": lambda X, F, rng: 0.2 + np.abs(F[:, :1]) / np.abs(F).max(),
    "in one place": lambda X, F, rng: np.where(np.abs(X[:, :1] - rng.uniform(-0.8, 0.8)) < 0.15, 3.0, 0.5),
    "outliers": lambda X, F, rng: np.where(rng.random((len(X), 1)) < 0.03, 6.0, 0.8),
}
BASES: tuple[dc.bases.AbstractBasis, ...] = (
    *(dc.Monomial(3), dc.Monomial(7), dc.Chebyshev(12)),
    *(dc.Spline(4), dc.Spline(8), dc.Spline(16), dc.Spline(40)),
)


@dataclass(frozen=True)
class Truth:
    """Samples with noise, and the function that they are of."""

    said: str
    samples: dc.Samples
    function: Any  # its values at the samples
    basis: dc.bases.AbstractBasis
    rank: int


def truth(rng: Rng) -> Truth:
    """One of them: one to three functions of sums of one to four inputs."""
    m, rank = int(rng.choice([1, 1, 2, 3, 4])), int(rng.integers(1, 4))
    rank = min(rank, m)
    shapes = [str(name) for name in rng.choice(list(SHAPES), rank)]
    noise, basis = str(rng.choice(list(NOISES))), BASES[rng.integers(len(BASES))]
    S, size = int(rng.choice([150, 400, 1000, 2500])), float(rng.choice([0.03, 0.1, 0.3]))
    X = rng.uniform(-1.0, 1.0, (S, m))
    W = rng.normal(size=(rank, m))
    U = X @ (W / np.linalg.norm(W, axis=1)[:, None]).T
    F = sum((SHAPES[name](u, rng) for name, u in zip(shapes, U.T, strict=True)), np.zeros(S))[:, None]
    deviation = NOISES[noise](X, F, rng)
    deviation *= size * F.std() / np.sqrt(np.mean(deviation**2))
    said = f"{' + '.join(shapes)}, {m} inputs, {S} samples, noise {size:g} {noise}, {basis}"
    return Truth(said, dc.Samples(X, F=F + deviation * rng.normal(size=(S, 1))), F, basis, rank)


def misfit(model: dc.Decoupling, truth: Truth) -> float:
    """The share of the squares of the residuals that is no noise."""
    left = truth.function - model(truth.samples.X)
    return float(np.sum(left**2) / np.sum((truth.samples.F - model(truth.samples.X)) ** 2))


def verdicts(count: int, seed: int) -> Iterator[Outcome]:
    """So many truths, and whether what the verdict says of their noise is true."""
    for i in range(count):
        yield judged(truth(np.random.default_rng([seed, i])), f"truth {i} of seed {seed}")


def judged(truth: Truth, name: str) -> Outcome:
    """Noise must not be claimed for misfit, nor misfit for noise."""
    said = f"{name}: {truth.said}"
    solver = dc.VarPro(max_steps=40, polish_steps=60, batch_size=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dc.DecouplingWarning)
        result = dc.decouple(
            truth.samples, truth.rank, basis=truth.basis, solver=solver, n_starts=4, rng=0, progress=False
        )
    grade, share = result.verdict.grade, misfit(result.decoupling, truth)
    estimated = (result.n_effective or result.decoupling.n_parameters) / truth.samples.n_samples
    if grade is Grade.NOISE and share > _MISFIT:
        return Outcome("false noise", said, f"{share:.0%} of the squares left are misfit; {result.verdict}")
    if grade is Grade.BETTER and share < _NO_MISFIT + estimated:
        return Outcome("false misfit", said, f"{share:.1%} of the squares left are misfit; {result.verdict}")
    return Outcome(FINE, said, f"{share:.2f} {grade.value}")
