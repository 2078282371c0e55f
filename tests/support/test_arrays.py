"""What people hand over as arrays."""

import numpy as np
import pytest

import decouply as dc
from decouply._support._arguments import as_array, read_array

X = np.random.default_rng(0).uniform(-1, 1, (5, 2))


class Evil:
    """An object that breaks whoever looks at it."""

    def __len__(self):
        raise ZeroDivisionError("no length today")

    def __getitem__(self, index):
        raise ZeroDivisionError("no items either")


@pytest.mark.parametrize("value", [Evil(), [Evil()], 10**400, X.astype(complex), X.astype(object), [["a", "b"]] * 5])
def test_odd_objects_are_refused_in_words(value):
    with pytest.raises(dc.InputError, match="`F` must be a real array"):
        dc.Samples(X, F=value)


def test_masked_entries_are_missing_and_refused():
    masked = np.ma.masked_values(np.where(X > 0.5, -999.0, X), -999.0)
    assert masked.mask.any()
    with pytest.raises(dc.InputError, match="masked entries: drop those samples"):
        dc.Samples(X, F=masked)
    with pytest.raises(dc.InputError, match="masked entries"):
        dc.Samples(X, F=X, weights=np.ma.masked_less(np.ones(5), 2.0))
    assert np.array_equal(dc.Samples(X, F=np.ma.masked_greater(X, 5.0)).F, X)  # nothing is masked


def test_tensors_are_taken_without_their_gradients():
    torch = pytest.importorskip("torch")
    assert np.array_equal(as_array("X", torch.tensor(X, requires_grad=True), ("S", "m")), X)
    short = torch.tensor([[0.5, 2.0]], dtype=torch.bfloat16)
    assert np.array_equal(as_array("X", short, ("S", "m")), [[0.5, 2.0]])
    assert read_array("rule", torch.tensor([1, 2])).dtype.kind == "i"


def test_short_floats_of_jax_are_taken():
    jnp = pytest.importorskip("jax.numpy")
    assert np.array_equal(as_array("X", jnp.array([[0.5, 2.0]], dtype=jnp.bfloat16), ("S", "m")), [[0.5, 2.0]])


def test_a_function_may_use_its_output_again():
    buffer = np.empty((len(X), 2))

    def f(points):
        if np.iscomplexobj(points):
            raise TypeError("real numbers only")
        buffer[:, 0], buffer[:, 1] = points[:, 0] ** 3, points[:, 0] * points[:, 1]
        return buffer

    samples = dc.Samples.from_function(f, X, jac="central")
    assert np.allclose(samples.F, np.stack([X[:, 0] ** 3, X[:, 0] * X[:, 1]], axis=1), rtol=1e-12)
    assert np.allclose(samples.J[:, 0, 0], 3 * X[:, 0] ** 2, atol=1e-8)
