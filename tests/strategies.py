"""Random objects for property tests, made from a seed so that examples can be read and replayed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

import decouply as dc

seeds = st.integers(0, 2**31)
dims_lists = st.lists(st.integers(1, 4), min_size=3, max_size=6)


def random_paratuck(dims: list[int], S: int, seed: int) -> dc.ParaTuck:
    rng = np.random.default_rng(seed)
    W = [rng.normal(size=(rows, columns)) for columns, rows in pairwise(dims)]
    return dc.ParaTuck(W, [rng.normal(size=(S, r)) for r in dims[1:-1]])


def random_model(dims: list[int], seed: int, *, degree: int = 3, inner_constants: bool = False) -> dc.Decoupling:
    rng = np.random.default_rng(seed)
    W = [rng.normal(size=(rows, columns)) for columns, rows in pairwise(dims)]
    g = []
    for l, r in enumerate(dims[1:-1]):
        C = 0.5 * rng.normal(size=(r, 1 + degree))
        if l < len(dims) - 3 and not inner_constants:
            C[:, 0] = 0.0
        g.append(dc.Functions(dc.Monomial(degree), C))
    return dc.Decoupling(W, g)


def points(m: int, S: int = 20, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1.0, 1.0, (S, m))


def sampled(model: dc.Decoupling, S: int = 40, seed: int = 0) -> dc.Samples:
    X = points(model.n_inputs, S, seed)
    return dc.Samples(X, F=model(X), J=model.jacobian(X))


@dataclass(frozen=True)
class Bend(dc.bases.AbstractBasis):
    """tanh(slope t): a basis that is not part of the package and has no writer."""

    slope: float

    @property
    def size(self):
        return 1

    @property
    def free_domain(self):
        return True

    def evaluate(self, t):
        return np.tanh(self.slope * t)[..., None]

    def derivative(self, t):
        return self.slope * (1 - np.tanh(self.slope * t) ** 2)[..., None]

    def second_derivative(self, t):
        value = np.tanh(self.slope * t)
        return -2 * self.slope**2 * (value * (1 - value**2))[..., None]
