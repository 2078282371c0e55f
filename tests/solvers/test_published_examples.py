"""Examples that others have published, with the answers that they print."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc


def dreesen_2015(X):
    """Two polynomials of two inputs (Dreesen, Ishteva and Schoukens, SIAM J. Matrix Anal. Appl. 36(2), 2015)."""
    x, y = X.T
    first = 54 * x**3 - 54 * x**2 * y + 8 * x**2 + 18 * x * y**2 + 16 * x * y - 2 * y**3 + 8 * y**2 + 8 * y + 1
    second = -27 * x**3 + 27 * x**2 * y - 24 * x**2 - 9 * x * y**2 - 48 * x * y - 15 * x
    return np.stack([first, second + y**3 - 24 * y**2 - 19 * y - 3], axis=1)


def decuyper_toy(X):
    """Three functions of two inputs (the toy problem of the scripts of Decuyper and others, 2022), in coefficients."""
    x, y = X.T
    monomials = np.stack([x**2, x * y, y**2, x**3, x**2 * y, x * y**2, y**3], axis=1)
    first = [5.25, 0.0, -20.5, 29.875, 42.75, 31.5, -2.0]
    return monomials @ np.array([first, [20.75, 41.0, 85.0, 109.375, 120.75, 88.5, 93.0]]).T


def cubics(W0, C, W1):
    return dc.Decoupling([W0, W1], [dc.Functions(dc.Monomial(3), C)])


EXAMPLES = {
    "Dreesen": (
        dreesen_2015,
        cubics([[-2, -2], [3, -1]], [[1, -3, 2, 0], [0, -1, 0, 1]], [[1, 2], [-3, -1]]),
        "Kruskal's theorem",
    ),
    "Decuyper": (
        decuyper_toy,
        cubics([[1, 2], [3, 1], [0.5, 3]], [[0, 0, 0.5, 1], [0, 0, 1, 2], [0, 0, 3, 1]], [[3, 0.5, -1], [1, 2, 3]]),
        "",  # three functions of two inputs and two outputs: a CPD alone is not unique
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("by_values", [False, True], ids=["Jacobians", "values"])
def test_the_published_functions_are_found(name, by_values):
    function, published, theorem = EXAMPLES[name]
    X = np.random.default_rng(0).uniform(-1.5, 1.5, (100, 2))
    F = function(X)
    assert_allclose(published(X), F, rtol=1e-12, atol=1e-10)  # as it is printed
    samples = dc.Samples(X, F=F, J=None if by_values else published.jacobian(X))
    result = dc.decouple(samples, published.ranks, 3, rng=0, progress=False)
    assert result.verdict.word == "exact" and result.identifiability.locally_unique
    assert result.identifiability.theorem == ("" if by_values else theorem)
    assert dc.factor_match(published, result.decoupling, X) > 1.0 - 1e-9
