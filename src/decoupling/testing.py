"""Checks that a basis or a solver of your own keeps the promises that the rest of the package builds on.

>>> import decoupling as dc
>>> from decoupling.testing import check_basis
>>> check_basis(dc.Monomial(4))
"""

from __future__ import annotations

import numpy as np
from numpy import ndarray

from .bases import AbstractBasis
from .fit._decouple import decouple
from .samples._samples import Samples
from .solvers import AbstractSolver
from .systems import random_system

__all__ = ["check_basis", "check_solver", "is_scale_invariant"]


def check_basis(basis: AbstractBasis, *, low: float = -1.0, high: float = 1.0) -> None:
    """Raise AssertionError with a sentence unless `basis` keeps its promises on [low, high]."""
    assert isinstance(basis, AbstractBasis), "A basis must derive from dc.AbstractBasis."
    d = basis.size
    assert isinstance(d, int) and d >= 1, f"`size` must be a whole number of at least 1. Got {d!r}."
    u = np.linspace(low, high, 13)
    for name in ("evaluate", "derivative", "second_derivative"):
        table = getattr(basis, name)(u)
        assert table.shape == (13, d), (
            f"`{name}` must add a last axis of length {d}. Got {table.shape} for shape (13,)."
        )
        assert np.all(np.isfinite(table)), f"`{name}` must be finite on [{low}, {high}]."
        cube = getattr(basis, name)(u[:12].reshape(2, 3, 2))
        assert cube.shape == (2, 3, 2, d), (
            f"`{name}` must take arrays of any shape. Got {cube.shape} for shape (2, 3, 2)."
        )
        assert np.allclose(cube.reshape(12, d), table[:12]), f"`{name}` must work entry by entry, whatever the shape."
    _check_slope(basis.evaluate, basis.derivative, u, "derivative", "evaluate")
    _check_slope(basis.derivative, basis.second_derivative, u, "second_derivative", "derivative")
    with_constant = np.insert(basis.evaluate(np.linspace(low, high, 20 * d)), 0, 1.0, axis=1)
    assert np.linalg.matrix_rank(with_constant) == d + 1, (
        "The functions and the constant must be linearly independent; leave the constant out of the basis."
    )
    found = is_scale_invariant(basis, low=low, high=high)
    assert basis.scale_invariant == found, f"`scale_invariant` says {basis.scale_invariant}, but the span says {found}."


def is_scale_invariant(basis: AbstractBasis, *, low: float = -1.0, high: float = 1.0) -> bool:
    """Whether span{phi_k(a u)} = span{phi_k(u)} for several a != 0, found by fitting one with the other.

    Arguments stay within [low, high]; negative factors are tried where the interval reaches to both sides of 0.
    """
    size = min(-low, high) if low < 0.0 < high else 0.0
    nodes = (1.0 - np.cos(np.pi * np.linspace(0.0, 1.0, 20 * basis.size + 1))) / 2.0
    u = size * (2.0 * nodes - 1.0) if size else 2.0 * low + (high - 2.0 * low) * nodes
    plain = basis.evaluate(u)
    for a in (-1.0, 0.5, -0.7) if size else (0.5, 0.8):
        scaled = basis.evaluate(a * u)
        for target, design in ((scaled, plain), (plain, scaled)):
            size = np.linalg.norm(design, axis=0)
            fitted = design / size @ np.linalg.lstsq(design / size, target, rcond=None)[0]
            if np.max(np.abs(fitted - target)) > 1e-8 * np.max(np.abs(target)):
                return False
    return True


def check_solver(solver: AbstractSolver, *, dims: tuple[int, ...] = (3, 2, 3), degrees: tuple[int, ...] = (2,)) -> None:
    """Raise AssertionError with a sentence unless `solver` gives a finite, reproducible answer to an easy problem."""
    system = random_system(dims, degrees, rng=5)
    X = np.random.default_rng(6).uniform(-1.0, 1.0, (40, dims[0]))
    samples = Samples(X, F=system(X), J=system.jacobian(X))
    first, again = (
        decouple(samples, dims[1:-1], degrees, solver=solver, n_starts=3, rng=7, progress=False) for _ in range(2)
    )
    assert first.decoupling.ranks == tuple(dims[1:-1]), "The model must have the ranks that were asked for."
    assert np.all(np.isfinite(first.decoupling(X))), "The model must be finite at the samples."
    assert all(not np.any(g.constants) for g in first.decoupling.g[:-1]), "Constants of inner layers must be 0."
    assert len(first.starts) >= 3, "`starts` must have one row per start."
    assert first.error_jacobian < 0.5 and first.reason, "The model must explain most of J, and say why it stopped."
    for a, b in zip(first.decoupling.W, again.decoupling.W, strict=True):
        assert np.array_equal(a, b), "The same seed must give the same result."


def _check_slope(function: object, slope: object, u: ndarray, slope_name: str, name: str) -> None:
    assert callable(function) and callable(slope)
    h = 1e-5
    expected = (function(u + h) - function(u - h)) / (2.0 * h)
    assert np.allclose(slope(u), expected, rtol=1e-6, atol=1e-6 * max(1.0, float(np.max(np.abs(expected))))), (
        f"`{slope_name}` must be the derivative of `{name}`."
    )
