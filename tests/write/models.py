"""Models of every basis of ours, with everything that a writer must honour."""

from __future__ import annotations

from itertools import product

import numpy as np

import decouply as dc
from decouply.bases import CURVES, OWN_BASES
from decouply.fit._settings import needs_degree

OUTSIDES = ("extend", "linear", "constant")


def own_basis(cls, size):
    """A basis of the class; those that must be told a number are told how many functions they have."""
    return cls(size) if needs_degree(cls) else cls()


def random_functions(bases, outside, rng):
    """Random coefficients and domains, most of them not around 0."""
    C = np.zeros((len(bases), 1 + max(b.size for b in bases)))
    for j, basis in enumerate(bases):
        C[j, : 1 + basis.size] = rng.normal(size=1 + basis.size)
    middle, half = rng.uniform(-2.0, 2.0, len(bases)), rng.uniform(0.3, 1.0, len(bases))
    return dc.Functions(bases, C, np.stack([middle - half, middle + half], axis=1), outside)


def random_model(layers, outside="extend", *, linear=False, offset=False, seed=0, names=None):
    """Layers of functions with the given bases; their arguments on `points` lie inside and outside the domains."""
    rng = np.random.default_rng(seed)
    m, n = 3, 2
    W, g, z = [], [], points()
    for bases in layers:
        functions = random_functions(bases, outside, rng)
        weights = rng.normal(size=(len(bases), z.shape[1]))
        u = z @ weights.T
        weights /= np.ptp(u, axis=0)[:, None] / (4.0 * functions.half_width[:, None])  # twice as wide as the domains
        functions = functions.shifted(functions.middle - np.median(z @ weights.T, axis=0))
        W.append(weights)
        g.append(functions)
        z = functions.values(z @ weights.T)
    W.append(rng.normal(size=(n, z.shape[1])))
    A = rng.normal(size=(n, m)) if linear else None
    inputs, outputs = names or (None, None)
    return dc.Decoupling(W, g, linear=A, offset=rng.normal(size=n) if offset else None, inputs=inputs, outputs=outputs)


def points(S=40, seed=1):
    return np.random.default_rng(seed).uniform([-1.0, 0.0, -3.0], [1.0, 2.0, -1.0], (S, 3))


def every_kind(cls):
    """Models of one class of bases: one layer and two, every `outside`, with and without linear part and offset."""
    one, other = own_basis(cls, 4), own_basis(cls, 1)
    for outside, both in product(OUTSIDES, (False, True)):
        yield random_model([(one, one)], outside, linear=both, offset=both, seed=2)
        yield random_model([(one, one, one), (other, other)], outside, linear=both, offset=not both, seed=3)


def mixed_models():
    """Layers of several bases at once: all but the curves, and two of these."""
    kinds = [*(cls for cls in OWN_BASES if cls not in CURVES), dc.bases.Tanh, dc.bases.DeadZone]
    bases = tuple(
        own_basis(cls, size) for size in (3, 2) for cls in kinds if size == 3 or cls is dc.bases.Trigonometric
    )
    for outside in OUTSIDES:
        yield random_model([bases, bases[::-1]], outside, linear=True, offset=True, seed=4)


def is_inside(model, X):
    """Which points have all their arguments within the domains."""
    u = model.inner_inputs(X)
    return np.all(
        [np.all(np.abs(v - g.middle) <= g.half_width, axis=1) for v, g in zip(u, model.g, strict=True)], axis=0
    )
