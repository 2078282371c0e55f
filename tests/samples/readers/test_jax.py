import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from tests.strategies import points, sampled

jax = pytest.importorskip("jax")
jnp = jax.numpy
X = points(3, 20)


def jax_model(model):
    """A decoupling in monomials, written for JAX, for one point or many."""

    def f(x):
        z = x
        for W, g in zip(model.W, model.g, strict=False):
            u = z @ W.T
            z = sum(c * u**k for k, c in enumerate(g.C.T))
        return z @ model.W[-1].T

    return f


def test_values_and_jacobians_are_those_of_the_function_to_all_digits():
    model = dc.systems.f2()
    found, expected = dc.Samples.from_jax(jax_model(model), X), sampled(model, 20)
    assert found.J.dtype == np.float64
    assert_allclose(found.F, expected.F, rtol=1e-12, atol=1e-14)
    assert_allclose(found.J, expected.J, rtol=1e-12, atol=1e-13)


def test_functions_of_one_point_and_of_many_points_give_the_same():
    def one(x):
        return jnp.stack([jnp.sin(x[0]) * x[1], x[2] ** 2, x[0], x[1] * x[2]])

    def many(Z):
        return jnp.stack([jnp.sin(Z[:, 0]) * Z[:, 1], Z[:, 2] ** 2, Z[:, 0], Z[:, 1] * Z[:, 2]], axis=1)

    a, b, c = dc.Samples.from_jax(one, X), dc.Samples.from_jax(many, X), dc.Samples.from_jax(jax.jit(one), X)
    assert a.J.shape == (20, 4, 3)
    for other in (b, c):
        assert_allclose(other.F, a.F, rtol=1e-14)
        assert_allclose(other.J, a.J, rtol=1e-14)


def test_a_function_with_one_number_as_its_value_has_one_output():
    for f in (lambda x: jnp.sum(x**2), lambda Z: jnp.sum(Z**2, axis=-1), lambda Z: jnp.sum(Z**2, axis=1)):
        s = dc.Samples.from_jax(f, X)
        assert s.F.shape == (20, 1)
        assert_allclose(s.J[:, 0], 2 * X, rtol=1e-14)


def test_the_precision_of_jax_is_left_as_it_was():
    assert not jax.config.jax_enable_x64
    dc.Samples.from_jax(lambda x: x**2, X)
    assert not jax.config.jax_enable_x64
    assert jnp.ones(1).dtype == jnp.float32


def test_many_samples_are_computed_in_portions(monkeypatch):
    from decouply.samples.readers import _functions

    monkeypatch.setattr(_functions, "_JACOBIAN_ENTRIES_AT_ONCE", 9 * 7)
    assert_allclose(dc.Samples.from_jax(lambda x: x**3, X).J[:, 1, 1], 3 * X[:, 1] ** 2, rtol=1e-13)


def test_a_function_that_casts_to_single_precision_is_told_about():
    with pytest.warns(dc.DecouplingWarning, match="`f` returns float32"):
        dc.Samples.from_jax(lambda x: x.astype(jnp.float32), X)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda x: (x, x), "a tuple instead of one array"),
        (lambda x: jnp.zeros((2, 2, 2)) * x[0], r"an array of shape \(2, 2, 2\)"),
        (lambda x: jnp.arange(3), "entries of type int64"),
        (lambda x: x * 1j, "entries of type complex128"),
        (lambda x: x[:0], "no outputs"),
        (lambda x: x if x[0] > 0 else -x, "for .3,.: TracerBoolConversionError"),
        (lambda x: np.sin(np.asarray(x)), "TracerArrayConversionError"),
        (np.sin, "TracerArrayConversionError"),  # JAX alone would end the interpreter
        (lambda x: x.no_such_thing, "AttributeError"),
        (lambda x: jnp.log(x), r"finite values.*NaN or infinity at \d+ of 20 points, the first is X\[0\]"),
        (lambda x: jnp.sqrt(jnp.abs(x - X[4])), r"finite derivatives.*1 of 20 points, the first is X\[4\]"),
    ],
)
def test_functions_that_cannot_be_sampled_are_refused_with_the_rule(f, message):
    with pytest.raises(dc.InputError, match=message):
        dc.Samples.from_jax(f, X)


def test_wrong_points_are_refused_with_the_rule():
    with pytest.raises(dc.InputError, match="at least one point"):
        dc.Samples.from_jax(lambda x: x, X[:0])
    with pytest.raises(dc.InputError, match="`X` must hold finite"):
        dc.Samples.from_jax(lambda x: x, X * np.nan)


def test_without_jax_the_way_out_is_named():
    code = """
import sys
sys.modules["jax"] = None
import decouply as dc
try:
    dc.Samples.from_jax(abs, [[1.0]])
except dc.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 'pip install "jax>=' in done.stdout
