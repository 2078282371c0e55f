from dataclasses import dataclass, fields
from typing import get_args

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.bases import OWN_BASES, ArrayAlgebra, LayerBasis
from decouply.bases._activation import ActivationName
from decouply.testing import check_basis, is_scale_invariant

# Every basis of ours: without fields as it is, else for several values of its first field, a number of functions.
SPLINES = [dc.Spline(*given) for given in ((4, 1), (5, 2), (3, 5), (6, 3, "parabola"), (6, 3, "constant"))]
ACTIVATIONS = [dc.Activation(name, hinges) for name in get_args(ActivationName) for hinges in (0, 1, 4)]
SIZED = [cls for cls in OWN_BASES if fields(cls) and cls is not dc.Activation]
ALL_BASES = [
    *(cls(*size) for cls in OWN_BASES for size in ([(1,), (2,), (3,), (6,)] if cls in SIZED else [()])),
    *SPLINES,
    *ACTIVATIONS,
]
POLYNOMIAL = [b for b in ALL_BASES if isinstance(b, dc.bases.AbstractPolynomialBasis)]


@pytest.mark.parametrize("basis", ALL_BASES, ids=repr)
def test_every_basis_keeps_its_promises(basis):
    check_basis(basis)


def test_polynomials_are_scale_invariant_and_waves_are_not():
    assert all(is_scale_invariant(b) for b in POLYNOMIAL)
    waves = [b for b in ALL_BASES if isinstance(b, dc.bases.Trigonometric | dc.bases.Tanh | dc.bases.Saturation)]
    assert waves and not any(is_scale_invariant(b) for b in waves)
    followed = (dc.bases.AbstractPolynomialBasis, dc.Spline)
    assert [b.free_domain for b in ALL_BASES] == [not isinstance(b, followed) for b in ALL_BASES]


@pytest.mark.parametrize("basis", POLYNOMIAL, ids=repr)
def test_polynomial_bases_vanish_at_zero_and_span_the_polynomials(basis):
    assert_allclose(basis.evaluate(np.zeros(1)), 0.0, atol=1e-15)
    assert np.linalg.matrix_rank(basis.to_monomials()) == basis.size


def test_chebyshev_and_bernstein_are_what_they_are_called():
    u = np.linspace(-1, 1, 9)
    expected = np.cos(3 * np.arccos(u))
    assert_allclose(dc.Chebyshev(3).evaluate(u)[:, 2], expected, atol=1e-14)
    t = (u + 1) / 2
    assert_allclose(dc.bases.Bernstein(3).evaluate(u)[:, 0], 3 * t * (1 - t) ** 2 - 3 / 8, atol=1e-14)


@pytest.mark.parametrize("basis", ALL_BASES, ids=repr)
@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.4), (0.7, -0.2), (-1.0, 0.0)])
def test_moved_functions_are_the_same_where_the_span_allows_it(basis, scale, shift):
    t, C = np.linspace(-1, 1, 11), np.random.default_rng(0).normal(size=(2, 1 + basis.size))
    moved = basis.moved(C, np.full(2, scale), np.full(2, shift))
    expected = C[:, :1] + C[:, 1:] @ basis.evaluate(scale * t + shift).T
    found = moved[:, :1] + moved[:, 1:] @ basis.evaluate(t).T
    one_way = dc.bases.ReLU | dc.bases.Exponential | dc.Activation
    turned = (scale, shift) == (-1.0, 0.0) and not isinstance(basis, one_way)
    waves = isinstance(basis, dc.bases.Trigonometric) and scale == 1.0 and basis.size % 2 == 0
    if basis in POLYNOMIAL or turned or waves:
        assert_allclose(found, expected, atol=1e-12)
    elif isinstance(basis, dc.bases.Trigonometric | dc.bases.Tanh):
        assert np.max(np.abs(found - expected)) > 1e-6


@pytest.mark.parametrize("basis", [b for b in ALL_BASES if not isinstance(b, dc.Spline)], ids=repr)
def test_roughness_is_the_integral_of_the_squared_second_derivative(basis):
    c = np.random.default_rng(1).normal(size=basis.size)
    t = np.linspace(-1, 1, 20001)
    bends = basis.second_derivative(t) @ c
    assert_allclose(np.sum((basis.roughness() @ c) ** 2), np.trapezoid(bends**2, t), rtol=1e-5, atol=1e-12)


def test_rows_of_shapes_say_where_a_function_rises_and_bends():
    basis = dc.bases.Bernstein(3)
    rising, bent = np.linalg.solve(basis.to_monomials().T, [[1.0, 0.0], [0.0, 1.0], [0.1, 0.0]]).T
    assert np.all(basis.shape_rows("increasing") @ rising >= 0) and np.all(basis.shape_rows("convex") @ bent >= 0)
    assert np.all(basis.shape_rows("decreasing") @ -rising >= 0) and np.all(basis.shape_rows("concave") @ -bent >= 0)
    assert np.any(basis.shape_rows("increasing") @ bent < 0)
    with pytest.raises(dc.InputError, match="`shape` must be one of increasing, decreasing"):
        basis.shape_rows("round")
    with pytest.raises(dc.InputError, match="guarantee them"):
        dc.Monomial(3).shape_rows("increasing")


def test_a_basis_knows_whether_it_has_a_straight_line():
    t = np.linspace(-1, 1, 5)
    for basis in ALL_BASES:
        line = basis.line()
        assert (line is not None) == isinstance(
            basis, dc.bases.AbstractPolynomialBasis | dc.Spline | dc.bases.LeakyReLU | dc.bases.Friction
        ) or getattr(basis, "hinges", 0) > 0
        if line is not None:
            assert_allclose(line[0] + basis.evaluate(t) @ line[1:], t, atol=1e-12)


def test_high_degrees_keep_their_digits():
    t = np.cos(np.linspace(0, np.pi, 200))
    basis = dc.Chebyshev(60)
    expected = np.cos(60 * np.arccos(t)) - 1.0
    assert_allclose(basis.evaluate(t)[:, -1], expected, atol=1e-12)
    C = np.zeros((1, 61))
    C[0, 60] = 1.0
    same = basis.moved(C, np.array([0.9]), np.array([0.05]))
    found = same[0, 0] + basis.evaluate(t) @ same[0, 1:]
    assert_allclose(found, np.cos(60 * np.arccos(0.9 * t + 0.05)) - 1.0, atol=1e-10)
    assert np.all(np.isfinite(dc.bases.Bernstein(70).evaluate(t)))


def test_a_basis_without_a_writer_is_told_apart():
    assert all(basis.writable for basis in ALL_BASES) and not Wrong("none").writable
    with pytest.raises(dc.InputError, match="`Wrong` must have a method `expression`"):
        Wrong("none").expression(ArrayAlgebra(), np.zeros(1), np.zeros(3))


@dataclass(frozen=True)
class Ramp(dc.bases.AbstractBasis):
    """Piecewise linear functions, max(t - knot, 0): a basis with kinks."""

    @property
    def size(self):
        return 4

    def evaluate(self, t):
        return np.maximum(t[..., None] - np.array([-1.0, -0.5, 0.0, 0.5]), 0.0)

    def derivative(self, t):
        return (t[..., None] > np.array([-1.0, -0.5, 0.0, 0.5])).astype(float)

    def second_derivative(self, t):
        return np.zeros((*t.shape, 4))


def test_a_correct_basis_with_kinks_passes():
    check_basis(Ramp())
    assert not is_scale_invariant(Ramp())


def test_a_layer_may_mix_bases_and_pads_with_zeros():
    layer = LayerBasis.of((dc.Monomial(1), dc.bases.Trigonometric(3)), 2)
    u = np.linspace(-1, 1, 8).reshape(4, 2)
    table = layer.evaluate(u)
    assert table.shape == (4, 2, 3)
    assert_allclose(table[:, 0, 1:], 0.0)
    assert_allclose(table[:, 1], dc.bases.Trigonometric(3).evaluate(u[:, 1]))
    assert layer.free_domain.tolist() == [False, True]
    with pytest.raises(dc.InputError, match="one basis per internal function, 3 here"):
        LayerBasis.of(layer.bases, 3)


@dataclass(frozen=True)
class Wrong(dc.bases.AbstractBasis):
    """Breaks one promise at a time."""

    fault: str

    @property
    def size(self):
        return 0 if self.fault == "size" else 2

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
    ],
)
def test_a_basis_that_breaks_a_promise_is_found_out(fault, message):
    check_basis(Wrong("none"))
    with pytest.raises(AssertionError, match=message):
        check_basis(Wrong(fault))


@pytest.mark.parametrize("make", SIZED)
@pytest.mark.parametrize("degree", [0, -1])
def test_degrees_must_be_whole_and_positive(make, degree):
    with pytest.raises(dc.InputError, match="whole number of at least 1"):
        make(degree)
