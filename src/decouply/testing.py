"""Checks that a basis or a solver of your own keeps the promises that the rest of the package builds on.

>>> import decouply as dc
>>> from decouply.testing import check_basis
>>> check_basis(dc.Monomial(4))
"""

from __future__ import annotations

from typing import get_args

import numpy as np
from numpy import ndarray

from .bases import AbstractBasis, ArrayAlgebra
from .fit._decouple import decouple
from .model._decoupling import Decoupling
from .samples._samples import Samples
from .solvers import AbstractSolver
from .solvers.problem._solver import Feature
from .systems import random_system

__all__ = ["check_basis", "check_solver", "is_scale_invariant"]

_NO_BASIS = "A basis must derive from dc.bases.AbstractBasis."


def check_basis(basis: AbstractBasis) -> None:
    """Raise AssertionError with a sentence unless `basis` keeps its promises on its window.

    Parameters
    ----------
    basis : AbstractBasis
        The basis to check.

    Examples
    --------
    >>> import decouply as dc
    >>> from decouply import testing
    >>> testing.check_basis(dc.Chebyshev(4))  # says nothing if all is well
    """
    assert isinstance(basis, AbstractBasis), _NO_BASIS
    d = basis.size
    assert isinstance(d, int) and d >= 1, f"`size` must be a whole number of at least 1. Got {d!r}."
    low, high = basis.window
    # Random places: regular ones are where piecewise functions have their knots.
    t = np.random.default_rng(0).uniform(low, high, 40 * d)
    for name in ("evaluate", "derivative", "second_derivative"):
        table = getattr(basis, name)(t)
        assert table.shape == (40 * d, d), (
            f"`{name}` must add a last axis of length {d}. Got {table.shape} for shape ({40 * d},)."
        )
        assert np.all(np.isfinite(table)), f"`{name}` must be finite on [{low}, {high}]."
        cube = getattr(basis, name)(t[:12].reshape(2, 3, 2))
        assert cube.shape == (2, 3, 2, d), (
            f"`{name}` must take arrays of any shape. Got {cube.shape} for shape (2, 3, 2)."
        )
        assert np.allclose(cube.reshape(12, d), table[:12]), f"`{name}` must work entry by entry, whatever the shape."
    _check_slope(basis.evaluate, basis.derivative, t, "derivative", "evaluate")
    _check_slope(basis.derivative, basis.second_derivative, t, "second_derivative", "derivative")
    with_constant = np.insert(basis.evaluate(t), 0, 1.0, axis=1)
    assert np.linalg.matrix_rank(with_constant) == d + 1, (
        "The functions and the constant must be linearly independent; leave the constant out of the basis."
    )
    if basis.writable:
        c = np.random.default_rng(1).normal(size=1 + d)
        written = basis.expression(ArrayAlgebra(), t, c)
        assert np.allclose(written, with_constant @ c), "`expression` must compute c_0 + sum_k c_k phi_k(t)."


def is_scale_invariant(basis: AbstractBasis) -> bool:
    """Whether span{phi_k(a t)} = span{phi_k(t)} for several a != 0, found by fitting one with the other.

    The paper's algorithms as printed ask this of a basis.

    Parameters
    ----------
    basis : AbstractBasis
        The basis to check.

    Returns
    -------
    bool
        True for polynomials, False for most other bases.

    Examples
    --------
    >>> import decouply as dc
    >>> from decouply import testing
    >>> testing.is_scale_invariant(dc.Monomial(3)), testing.is_scale_invariant(dc.bases.Trigonometric(2))
    (True, False)
    """
    assert isinstance(basis, AbstractBasis), _NO_BASIS
    t = np.cos(np.pi * np.linspace(0.0, 1.0, 20 * basis.size + 1))
    plain = basis.evaluate(t)
    for a in (-1.0, 0.5, -0.7):
        scaled = basis.evaluate(a * t)
        for target, design in ((scaled, plain), (plain, scaled)):
            size = np.linalg.norm(design, axis=0)
            unit = design / np.where(size > 0.0, size, 1.0)
            fitted = unit @ np.linalg.lstsq(unit, target, rcond=None)[0]
            if np.max(np.abs(fitted - target)) > 1e-8 * np.max(np.abs(target)):
                return False
    return True


def check_solver(solver: AbstractSolver, *, dims: tuple[int, ...] = (3, 2, 3), degrees: tuple[int, ...] = (2,)) -> None:
    """Raise AssertionError with a sentence unless `solver` gives a finite, reproducible answer to an easy problem.

    Parameters
    ----------
    solver : AbstractSolver
        The solver to check.
    dims : tuple of int
        Sizes of the easy problem, from input to output.
    degrees : tuple of int
        Degrees of its functions, one per layer.

    Examples
    --------
    >>> import decouply as dc
    >>> from decouply import testing
    >>> testing.check_solver(dc.VarPro())  # says nothing if all is well
    """
    system = random_system(dims, degrees, rng=5)
    X = np.random.default_rng(6).uniform(-1.0, 1.0, (40, dims[0]))
    samples = Samples(X, F=system(X), J=system.jacobian(X))
    first, again = (
        decouple(samples, dims[1:-1], degrees, solver=solver, n_starts=3, rng=7, progress=False) for _ in range(2)
    )
    assert first.decoupling.ranks == tuple(dims[1:-1]), "The model must have the ranks that were asked for."
    assert np.all(np.isfinite(first.decoupling(X))), "The model must be finite at the samples."
    assert all(not np.any(g.constants) for g in first.decoupling.g[:-1]), "Constants of inner layers must be 0."
    assert first.starts, "`starts` must have one row per start that was run."
    assert first.error_jacobian < 0.5 and first.reason, "The model must explain most of J, and say why it stopped."
    for a, b in zip(first.decoupling.W, again.decoupling.W, strict=True):
        assert np.array_equal(a, b), "The same seed must give the same result."
    _check_supported(solver, samples, dims, degrees)


def _check_supported(solver: AbstractSolver, samples: Samples, dims: tuple[int, ...], degrees: tuple[int, ...]) -> None:
    """What a solver says it supports must show in its answer."""
    unknown = solver.supports - set(get_args(Feature))
    assert not unknown, f"`supports` must hold words of {', '.join(get_args(Feature))}. Got {', '.join(unknown)}."
    assert samples.F is not None and samples.J is not None
    rng = np.random.default_rng(8)
    F, J = (a + 0.1 * a.std() * rng.normal(size=a.shape) for a in (samples.F, np.asarray(samples.J)))

    def model(weights: ndarray | None = None, *, linear: bool = False) -> Decoupling:
        noisy = Samples(samples.X, F=F, J=J, weights=weights)
        # As given: standard units depend on the weights, and so would an answer that ignores them.
        return decouple(
            noisy, dims[1:-1], degrees, solver=solver, linear=linear, as_given=True, n_starts=2, rng=7, progress=False
        ).decoupling

    if "weights" in solver.supports:
        weights = rng.uniform(0.1, 10.0, len(samples))
        same = np.allclose(model(weights)(samples.X), model()(samples.X), rtol=1e-12)
        assert not same, 'A solver that supports "weights" must use them.'
    if "linear" in solver.supports:
        assert model(linear=True).linear is not None, 'A solver that supports "linear" must give a linear part.'


def _check_slope(function: object, slope: object, t: ndarray, slope_name: str, name: str) -> None:
    assert callable(function) and callable(slope)
    h = 1e-5
    expected = (function(t + h) - function(t - h)) / (2.0 * h)
    tolerance = 1e-6 * (np.abs(expected) + max(1.0, float(np.max(np.abs(slope(t))))))
    wrong = np.any(np.abs(slope(t) - expected) > tolerance, axis=-1)
    # Differences across a knot say nothing; few random places are so near to one.
    assert np.mean(wrong) <= 0.02, f"`{slope_name}` must be the derivative of `{name}`."
