import math
import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import decouply as dc
from tests.strategies import points, sampled

X = points(2, 5)


def smooth(Z):
    return np.stack([np.sin(Z[:, 0]) * Z[:, 1], np.exp(Z[:, 1]), Z[:, 0] ** 3], axis=1)


def smooth_jacobian(Z):
    zero = 0 * Z[:, 0]
    rows = [
        [np.cos(Z[:, 0]) * Z[:, 1], np.sin(Z[:, 0])],
        [zero, np.exp(Z[:, 1])],
        [3 * Z[:, 0] ** 2, zero],
    ]
    return np.moveaxis(np.array(rows), 2, 0)


@pytest.mark.parametrize("kind", [bool, np.uint8])
def test_functions_with_values_of_another_type_are_sampled_as_numbers(kind):
    X = np.linspace(-1.0, 1.0, 12).reshape(6, 2)
    samples = dc.Samples.from_function(lambda x: (x[:, :1] + x[:, 1:] > 0.05).astype(kind), X, jac="central")
    assert set(samples.F.ravel()) == {0.0, 1.0} and not samples.J.any()


@pytest.mark.parametrize("dtype", ["Float64", "Int64", "double[pyarrow]"])
def test_frames_of_types_that_may_miss_entries_are_taken_if_none_is_missing(dtype):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    frame = pandas.DataFrame(np.arange(12.0).reshape(6, 2), columns=["a", "b"]).astype(dtype)
    assert_allclose(dc.Samples(frame, F=frame["a"].astype(dtype)).X, np.arange(12.0).reshape(6, 2))
    frame.iloc[2, 0] = None
    with pytest.raises(dc.InputError, match="`X` must"):
        dc.Samples(frame, F=frame["b"])


def test_samples_are_read_only_copies():
    given = X.copy()
    samples = dc.Samples(given, F=np.ones((5, 1)))
    given[:] = 0.0
    assert samples.X.any()
    with pytest.raises(ValueError, match="read-only"):
        samples.X[0, 0] = 1.0


def test_float32_and_integers_are_computed_in_float64():
    samples = dc.Samples(X.astype(np.float32), F=np.ones((5, 2), dtype=int))
    assert samples.X.dtype == samples.F.dtype == np.float64


@pytest.mark.parametrize("jac", [None, "complex-step", "central", smooth_jacobian])
def test_functions_are_sampled_with_their_jacobian(jac):
    samples = dc.Samples.from_function(smooth, X, jac=jac)
    assert_allclose(samples.F, smooth(X))
    assert_allclose(samples.J, smooth_jacobian(X), rtol=0, atol=1e-9 if jac == "central" else 1e-14)


@pytest.mark.parametrize("f", [lambda Z: np.abs(Z), lambda Z: np.array([[float(v) for v in row] for row in Z])])
def test_functions_without_a_complex_step_get_central_differences_and_a_warning(f):
    with pytest.warns(dc.DecouplingWarning, match="central differences"):
        samples = dc.Samples.from_function(f, X)
    assert np.all(np.abs(np.abs(samples.J).sum(axis=2) - 1.0) < 1e-9)


def test_values_of_a_scalar_function_may_be_any_kind_of_vector():
    torch = pytest.importorskip("torch")
    for values in (
        [1, 2],
        (1.0, 2.0),
        np.array([1.0, 2.0]),
        torch.tensor([1.0, 2.0]),
        memoryview(np.array([1.0, 2.0])),
    ):
        assert dc.Samples(np.eye(2), F=values).F.tolist() == [[1.0], [2.0]]


def test_columns_of_a_frame_are_arrays():
    frame = pd.DataFrame(points(3, 6), columns=["a", "b", "c"], index=range(6, 0, -1))
    for F in (frame["c"], frame[["c"]]):
        samples = dc.Samples(frame[["a", "b"]], F=F)
        assert_array_equal(np.hstack([samples.X, samples.F]), frame.to_numpy())
    with pytest.raises(dc.InputError, match=r"the first at index \(2, 1\)"):
        dc.Samples(frame[["a", "b"]].mask(frame.index.to_numpy()[:, None] == [0, 4]), F=frame["c"])


def test_samples_can_be_taken_split_and_counted():
    samples = sampled(dc.systems.f2(), 10)
    first, second = samples.split(0.3, rng=1)
    assert (len(first), len(second), samples.n_inputs, samples.n_outputs) == (7, 3, 3, 3)
    assert {tuple(x) for x in np.concatenate([first.X, second.X])} == {tuple(x) for x in samples.X}
    assert_array_equal(samples.take([2, 0]).J, samples.J[[2, 0]])
    assert repr(first) == "Samples(S=7, m=3, n=3: values and Jacobians)"
    assert dc.Samples(X, F=np.arange(5.0)).F.shape == (5, 1)


def test_a_file_of_samples_comes_back_as_it_was(tmp_path):
    samples = dc.Samples(X, F=smooth(X), J=smooth_jacobian(X), weights=np.arange(1.0, 6.0))
    samples.save(tmp_path / "s.npz")
    again = dc.Samples.load(tmp_path / "s.npz")
    for name in ("X", "F", "J", "weights"):
        assert_array_equal(getattr(again, name), getattr(samples, name))


@pytest.mark.parametrize(
    ("weights", "word"),
    [
        (np.arange(1.0, 6.0), "weighted"),
        (np.arange(10.0).reshape(5, 2), "weighted by output"),
    ],
    ids=["factors", "by output"],
)
def test_weights_of_every_shape_go_wherever_the_samples_go(weights, word, tmp_path):
    samples = dc.Samples(X, F=X, weights=weights)
    assert repr(samples) == f"Samples(S=5, m=2, n=2: values, {word})"
    assert_array_equal(samples.take([4, 1]).weights, weights[[4, 1]])
    first, second = samples.split(0.4, rng=0)
    assert first.weights.shape == (3, *weights.shape[1:]) and second.weights.shape == (2, *weights.shape[1:])
    samples.save(tmp_path / "s.npz")
    assert_array_equal(dc.Samples.load(tmp_path / "s.npz").weights, samples.weights)
    with pytest.raises(ValueError, match="read-only"):
        samples.weights[0] = 1.0


def test_matrices_as_weights_are_refused_with_a_way_out():
    with pytest.raises(dc.InputError, match=r"`weights`.*one matrix per sample: give their diagonals"):
        dc.Samples(X, F=X, weights=np.tile(np.eye(2), (5, 1, 1)))


def test_files_that_are_not_samples_give_clear_errors(tmp_path):
    path = tmp_path / "s.npz"
    with pytest.raises(dc.SampleFileError, match="File not found"):
        dc.Samples.load(path)
    dc.Samples(X, F=smooth(X)).save(path)
    content = path.read_bytes()
    for keep in (0, 10, len(content) // 2):
        path.write_bytes(content[:keep])
        with pytest.raises(dc.SampleFileError, match="cannot be read"):
            dc.Samples.load(path)
    np.savez(path, Y=X)
    with pytest.raises(dc.SampleFileError, match="has the arrays Y"):
        dc.Samples.load(path)
    np.savez(path, X=X, F=np.array([{}], dtype=object))
    with pytest.raises(dc.SampleFileError, match="It holds objects, which could run code"):
        dc.Samples.load(path)
    np.save(tmp_path / "bare.npy", X)
    (tmp_path / "bare.npy").rename(path)
    with pytest.raises(dc.SampleFileError, match="one bare array"):
        dc.Samples.load(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"X": X}, "`F` or `J` must be given"),
        ({"X": X[:0], "F": X[:0]}, "at least one point"),
        ({"X": X[0], "F": X}, r"`X` must be a real array of shape \(S, m\). Got shape \(2,\)"),
        ({"X": X, "F": X[:4]}, r"`F` must have shape \(5, n\)"),
        ({"X": X, "F": np.array(3.0)}, r"`F` must be a real array of shape \(S, n\). Got shape \(\)"),
        ({"X": X, "F": []}, r"`F` must have shape \(5, n\)"),
        ({"X": X, "J": X}, r"`J` must be a real array of shape \(S, n, m\)"),
        ({"X": X, "F": X, "J": np.ones((5, 3, 2))}, r"`J` must have shape \(5, 2, 2\).*Got \(5, 3, 2\)"),
        ({"X": X, "J": np.ones((5, 2, 3))}, r"`J` must have shape \(5, n, 2\)"),
        ({"X": X, "F": np.full((5, 1), np.nan)}, r"`F` must hold finite numbers.*5 NaN.*first at index \(0, 0\)"),
        ({"X": np.where(X[1, 0] == X, np.inf, X), "F": X}, r"first at index \(1, 0\)"),
        ({"X": X, "F": X * 1j}, "Got entries of type complex128"),
        ({"X": [[1, 2], [3]], "F": X}, "cannot be read as an array"),
        (
            {"X": X, "F": X, "weights": np.ones(4)},
            r"`weights` must have shape \(5,\) or \(5, 2\).*Got shape \(4,\)",
        ),
        ({"X": X, "F": X, "weights": np.zeros(5)}, "leave a sample out"),
        ({"X": X, "F": X, "weights": np.ones((5, 3))}, r"Got shape \(5, 3\)"),
        ({"X": X, "F": X, "weights": [[1, 2], [3]]}, "`weights`.*cannot be read as an array"),
        ({"X": X, "F": X, "weights": np.full(5, np.nan)}, "`weights` must hold finite numbers"),
        ({"X": X, "F": X, "weights": np.full((5, 2), -1.0)}, "`weights` must be factors of at least 0.*entry -1"),
    ],
)
def test_wrong_samples_are_refused_with_the_rule(arguments, message):
    with pytest.raises(dc.InputError, match=message):
        dc.Samples(**arguments)


class AsksForGradients:
    """Refuses to become an array, as a tensor of torch does."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")


def test_tensors_that_ask_for_gradients_are_refused_with_the_way_out():
    with pytest.raises(dc.InputError, match=r"`X` must be a real array.*tensor.detach\(\)"):
        dc.Samples(AsksForGradients(), F=X)
    with pytest.raises(dc.InputError, match=r"`weights` must.*tensor.detach\(\)"):
        dc.Samples(X, F=X, weights=AsksForGradients())


def test_wrong_functions_and_splits_are_refused_with_the_rule():
    with pytest.raises(dc.InputError, match="must map an array of shape"):
        dc.Samples.from_function(lambda Z: Z[:, 0], X)
    of_a_point = re.escape("lambda X: np.array([np.ravel(f(x)) for x in X])")
    with pytest.raises(dc.InputError, match=of_a_point):
        dc.Samples.from_function(lambda x: np.array([x[0], x[1], x[0]]), X)
    with pytest.raises(TypeError) as told:
        dc.Samples.from_function(lambda x: (math.sin(x[0]), x[1]), X)
    assert re.search(of_a_point, "".join(told.value.__notes__))
    with pytest.raises(dc.InputError, match="`fraction` must lie between 0 and 1"):
        dc.Samples(X, F=X).split(1.5)


def test_a_complex_step_that_is_wrong_anywhere_is_noticed():
    with pytest.warns(dc.DecouplingWarning, match="disagrees"):
        tiny = dc.Samples.from_function(lambda Z: 1e-9 * np.abs(Z), X)
    assert_allclose(np.abs(tiny.J).sum(axis=2), 1e-9)
    Z = np.concatenate([np.full((20, 1), -0.9), np.linspace(0.1, 1, 20)[:, None]])
    with pytest.warns(dc.DecouplingWarning, match="disagrees"):
        late = dc.Samples.from_function(lambda Z: np.where(Z.real < 0, Z**2, np.abs(Z)), Z)
    assert_allclose(late.J.ravel()[20:], 1.0, rtol=1e-6)


def test_a_function_that_refuses_complex_numbers_is_sampled_all_the_same():
    def refuses(Z):
        assert not np.iscomplexobj(Z), "real numbers only"
        return Z**2

    with pytest.warns(dc.DecouplingWarning, match="real numbers only"):
        assert_allclose(dc.Samples.from_function(refuses, X).J[:, 0, 0], 2 * X[:, 0], rtol=1e-8)


def test_a_damaged_archive_gives_a_clear_error(tmp_path):
    path = tmp_path / "s.npz"
    dc.Samples(points(3, 50), F=points(3, 50)).save(path)
    content = bytearray(path.read_bytes())
    refused = 0
    for position in range(50, len(content) - 50, 40):
        damaged = bytearray(content)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            dc.Samples.load(path)
        except (dc.SampleFileError, dc.InputError):
            refused += 1
    assert refused > 0
