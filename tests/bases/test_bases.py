from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decoupling as dc
from decoupling.bases import LayerBasis, rescaled, shifted
from decoupling.testing import check_basis, is_scale_invariant

ALL_BASES = [
    *(dc.Monomial(d) for d in (1, 2, 5)),
    *(dc.ScaledMonomial(d, scale) for d in (1, 4) for scale in (1.0, 0.5)),
    *(dc.Bernstein(d) for d in (1, 3, 5)),
    *(dc.Chebyshev(d, radius) for d in (1, 2, 6) for radius in (1.0, 2.0)),
    *(dc.Trigonometric(d) for d in (1, 2, 3, 4)),
]
POLYNOMIAL = [b for b in ALL_BASES if isinstance(b, dc.AbstractPolynomialBasis)]


@pytest.mark.parametrize("basis", ALL_BASES, ids=repr)
def test_every_basis_keeps_its_promises(basis):
    check_basis(basis)


def test_polynomials_are_scale_invariant_and_waves_are_not():
    assert all(is_scale_invariant(b) for b in POLYNOMIAL)
    assert not any(is_scale_invariant(b) for b in ALL_BASES if isinstance(b, dc.Trigonometric))


@pytest.mark.parametrize("basis", POLYNOMIAL, ids=repr)
def test_polynomial_bases_vanish_at_zero_and_span_the_polynomials(basis):
    assert_allclose(basis.evaluate(np.zeros(1)), 0.0, atol=1e-15)
    assert np.linalg.matrix_rank(basis.to_monomials()) == basis.size


def test_chebyshev_and_bernstein_are_what_they_are_called():
    u = np.linspace(-1, 1, 9)
    expected = np.cos(3 * np.arccos(u))
    assert_allclose(dc.Chebyshev(3).evaluate(u)[:, 2], expected, atol=1e-14)
    t = (u + 1) / 2
    assert_allclose(dc.Bernstein(3).evaluate(u)[:, 0], 3 * t * (1 - t) ** 2 - 3 / 8, atol=1e-14)


@pytest.mark.parametrize("basis", [b for b in ALL_BASES if b.size > 1], ids=repr)
def test_functions_can_be_rescaled_and_shifted_where_the_span_allows_it(basis):
    rng, u = np.random.default_rng(0), np.linspace(-1, 1, 11)
    c = rng.normal(size=1 + basis.size)

    def g(coefficients, u):
        return coefficients[0] + basis.evaluate(u) @ coefficients[1:]

    if basis.scale_invariant:
        assert_allclose(g(rescaled(basis, c, -1.7), u), g(c, -1.7 * u), atol=1e-9)
    else:
        with pytest.raises(dc.InputError, match="scaled argument"):
            rescaled(basis, c, -1.7)
    if isinstance(basis, dc.AbstractPolynomialBasis) or basis.size % 2 == 0:
        assert_allclose(g(shifted(basis, c, 0.4), u), g(c, u + 0.4), atol=1e-9)


def test_a_layer_may_mix_bases_and_pads_with_zeros():
    layer = LayerBasis.of((dc.Monomial(1), dc.Trigonometric(3)), 2)
    u = np.linspace(-1, 1, 8).reshape(4, 2)
    table = layer.evaluate(u)
    assert table.shape == (4, 2, 3)
    assert_allclose(table[:, 0, 1:], 0.0)
    assert_allclose(table[:, 1], dc.Trigonometric(3).evaluate(u[:, 1]))
    assert layer.scale_invariant.tolist() == [True, False]
    with pytest.raises(dc.InputError, match="one basis per internal function, 3 here"):
        LayerBasis.of(layer.bases, 3)


@dataclass(frozen=True)
class Wrong(dc.AbstractBasis):
    """Breaks one promise at a time."""

    fault: str

    @property
    def size(self):
        return 0 if self.fault == "size" else 2

    @property
    def scale_invariant(self):
        return self.fault != "scale"

    def evaluate(self, u):
        second = np.ones_like(u) if self.fault == "constant" else u**2
        table = np.stack([u, second], axis=-1)
        return table.sum(axis=0) if self.fault == "shape" else table

    def derivative(self, u):
        second = np.zeros_like(u) if self.fault == "constant" else (3 if self.fault == "slope" else 2) * u
        return np.stack([np.ones_like(u), second], axis=-1)

    def second_derivative(self, u):
        second = 0 if self.fault == "constant" else 5 if self.fault == "curvature" else 2
        return np.stack([0 * u, second + 0 * u], axis=-1)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("size", "`size` must be a whole number"),
        ("shape", "`evaluate` must add a last axis"),
        ("slope", "`derivative` must be the derivative of `evaluate`"),
        ("curvature", "`second_derivative` must be the derivative of `derivative`"),
        ("constant", "leave the constant out"),
        ("scale", "`scale_invariant` says False, but the span says True"),
    ],
)
def test_a_basis_that_breaks_a_promise_is_found_out(fault, message):
    check_basis(Wrong("none"))
    with pytest.raises(AssertionError, match=message):
        check_basis(Wrong(fault))


@pytest.mark.parametrize("make", [dc.Monomial, dc.Bernstein, dc.Chebyshev, dc.ScaledMonomial, dc.Trigonometric])
@pytest.mark.parametrize("degree", [0, -1])
def test_degrees_must_be_whole_and_positive(make, degree):
    with pytest.raises(dc.InputError, match="whole number of at least 1"):
        make(degree)
