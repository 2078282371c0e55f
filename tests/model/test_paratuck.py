import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import decouply as dc
from tests.strategies import dims_lists, random_paratuck, seeds


def tensor_by_definition(f):
    """One matrix product per slice, straight from the paper. Slow on purpose."""
    slices = []
    for s in range(f.n_samples):
        M = f.W[0]
        for G, W in zip(f.G, f.W[1:], strict=True):
            M = W @ np.diag(G[s]) @ M
        slices.append(M)
    return np.stack(slices)


@given(dims=dims_lists, S=st.integers(1, 6), seed=seeds)
def test_to_tensor_matches_the_definition(dims, S, seed):
    f = random_paratuck(dims, S, seed)
    assert_allclose(f.to_tensor(), tensor_by_definition(f), atol=1e-10)


def test_one_layer_is_the_cpd():
    f = random_paratuck([3, 2, 4], 5, 0)
    cpd = np.einsum("ir,rj,sr->sij", f.W[1], f.W[0], f.G[0])
    assert_allclose(f.to_tensor(), cpd, atol=1e-12)


def test_unfoldings_follow_kolda_and_bader():
    f = random_paratuck([3, 2, 4], 5, 1)
    T = f.to_tensor().transpose(1, 2, 0)  # the paper's n x m x S
    for mode in (1, 2, 3):
        expected = np.reshape(np.moveaxis(T, mode - 1, 0), (T.shape[mode - 1], -1), order="F")
        assert_allclose(f.unfold(mode), expected)


@given(dims=st.lists(st.integers(1, 4), min_size=4, max_size=5), seed=seeds)
def test_the_trivial_ambiguities_leave_the_tensor_unchanged(dims, seed):
    f, rng = random_paratuck(dims, 4, seed), np.random.default_rng(seed)
    changed = f
    for layer in range(1, f.n_layers + 1):
        r = f.ranks[layer - 1]
        changed = changed.permuted(layer, rng.permutation(r))
        changed = changed.scaled(layer, rng.uniform(0.5, 2, r) * rng.choice([-1, 1], r), -rng.uniform(0.5, 2, r))
    changed = changed.slicewise_scaled(1, f.n_layers, rng.uniform(0.5, 2, 4))
    assert_allclose(changed.to_tensor(), f.to_tensor(), atol=1e-9 * (1 + np.abs(f.to_tensor()).max()))
    assert not np.allclose(changed.G[0], f.G[0])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda f: dc.ParaTuck(f.W, [f.G[0], f.G[1][:, :1]]), r"`G\[1\]` must have shape \(4, 2\).*Got \(4, 1\)"),
        (lambda f: dc.ParaTuck(f.W[:2], f.G), r"L \+ 1 and L matrices"),
        (lambda f: dc.ParaTuck([f.W[0], f.W[2], f.W[1]], f.G), r"`W\[1\]` must have 3 columns"),
        (lambda f: f.permuted(3, [0]), r"`layer` must be one of 1, ..., 2"),
        (lambda f: f.permuted(1, [0, 0, 1]), r"permutation"),
        (lambda f: f.scaled(1, [0, 1, 1], [1, 1, 1]), r"other than 0"),
        (lambda f: f.slicewise_scaled(1, 1, [1, 1, 1, 1]), r"must differ"),
        (lambda f: f.unfold(4), r"`mode` must be 1, 2 or 3"),
    ],
)
def test_wrong_factors_are_refused_with_the_rule(make, message):
    with pytest.raises(dc.InputError, match=message):
        make(random_paratuck([2, 3, 2, 2], 4, 0))


@given(dims=st.lists(st.integers(1, 4), min_size=3, max_size=3), S=st.integers(1, 6), seed=seeds)
def test_one_layer_goes_to_tensorly_and_back(dims, S, seed):
    tensorly = pytest.importorskip("tensorly")
    f = random_paratuck(dims, S, seed)
    cp = f.to_cp()
    assert isinstance(cp, tensorly.cp_tensor.CPTensor)
    assert_allclose(tensorly.cp_to_tensor(cp), f.to_tensor(), atol=1e-12)
    back = dc.ParaTuck.from_cp(cp)
    for found, expected in zip((*back.W, *back.G), (*f.W, *f.G), strict=True):
        assert_allclose(found, expected)
    assert cp.factors[0].flags.writeable  # TensorLy may work on them


def test_what_parafac_finds_for_jacobians_is_taken_with_its_weights():
    decomposition = pytest.importorskip("tensorly.decomposition")
    f = random_paratuck([4, 2, 3], 30, 0)
    cp = decomposition.parafac(f.to_tensor(), 2, normalize_factors=True, init="random", random_state=0, tol=1e-14)
    assert not np.allclose(cp.weights, 1.0)
    found = dc.ParaTuck.from_cp(cp)
    assert_allclose(found.to_tensor(), f.to_tensor(), atol=1e-4)
    assert dc.factor_match(found, f) > 0.999
    weights, factors = cp
    assert_allclose(dc.ParaTuck.from_cp((weights, factors)).to_tensor(), found.to_tensor())
    assert_allclose(dc.ParaTuck.from_cp((None, factors)).G[0] * weights, found.G[0])


def test_tensors_of_torch_are_taken():
    torch = pytest.importorskip("torch")
    f = random_paratuck([4, 2, 3], 5, 0)
    weights, factors = f.to_cp()
    cp = torch.as_tensor(weights), [torch.as_tensor(factor) for factor in factors]
    assert_allclose(dc.ParaTuck.from_cp(cp).to_tensor(), f.to_tensor())


@pytest.mark.parametrize(
    ("cp", "message"),
    [
        (3, "`cp` must be a CP tensor"),
        ((None, [np.ones((2, 1))] * 2), "`cp` must be a CP tensor.*three factors"),
        ((None, [np.ones((2, 1))] * 4), "three factors"),
        ((None, [np.ones((2, 1)), np.ones((2, 2)), np.ones((2, 1))]), r"Got the shapes .*\(2, 2\)"),
        (([1.0, 2.0], [np.ones((2, 1))] * 3), "`weights` must be None or 1 numbers"),
        ((None, [np.full((2, 1), np.nan)] * 3), r"`factors\[0\]` must hold finite"),
        ((None, [np.ones(2)] * 3), r"`factors\[0\]` must be a real array"),
    ],
)
def test_what_is_no_cp_tensor_is_refused_with_the_rule(cp, message):
    with pytest.raises(dc.InputError, match=message):
        dc.ParaTuck.from_cp(cp)


def test_more_than_one_layer_has_no_cp_tensor():
    with pytest.raises(dc.InputError, match=r"must have one layer\. Got L = 2"):
        random_paratuck([2, 2, 2, 2], 3, 0).to_cp()


def test_without_tensorly_there_is_a_plain_pair():
    code = """
import sys
sys.modules["tensorly"] = None
import decouply as dc
print(dc.ParaTuck([[[1.0, 2.0]], [[3.0]]], [[[1.0], [10.0]]]).to_cp())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("(array([1.]), [array(")
