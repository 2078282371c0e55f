import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import decouply as dc
from tests.strategies import points, random_model, random_paratuck, seeds


def path_terms(f):
    """Every path through the layers as a tensor of its own, straight from the definition."""
    terms = {(): np.ones((f.n_samples, 1, 1))}
    terms = {(j,): f.G[0][:, j, None, None] * f.W[0][j][None, None, :] for j in range(f.ranks[0])}
    for l in range(1, f.n_layers):
        terms = {
            (*path, j): f.G[l][:, j, None, None] * f.W[l][j, path[-1]] * term
            for path, term in terms.items()
            for j in range(f.ranks[l])
        }
    return {path: f.W[-1][:, path[-1]][None, :, None] * term for path, term in terms.items()}


@pytest.mark.parametrize("size", [1e160, 1e-160])
def test_sizes_whose_squares_no_float_holds_match(size):
    f = dc.systems.f1().factors(np.eye(2))
    large = dc.ParaTuck([size * W for W in f.W], f.G)
    assert dc.factor_match(large, large) == pytest.approx(1.0)


def test_the_value_is_that_of_the_path_terms():
    a, b = random_paratuck([3, 2, 2, 3], 4, 0), random_paratuck([3, 2, 2, 3], 4, 1)
    t_a, t_b = path_terms(a), path_terms(b)
    best = max(
        sum(np.sum(t_a[i, j] * t_b[p[i], q[j]]) for i in range(2) for j in range(2))
        for p in ([0, 1], [1, 0])
        for q in ([0, 1], [1, 0])
    )
    norms = sum(np.sum(t**2) for t in (*t_a.values(), *t_b.values()))
    assert dc.factor_match(a, b) == pytest.approx(2 * best / norms, abs=1e-12)


@given(dims=st.lists(st.integers(1, 4), min_size=3, max_size=5), seed=seeds)
def test_factor_sets_match_up_to_all_trivial_ambiguities(dims, seed):
    f, rng = random_paratuck(dims, 5, seed), np.random.default_rng(seed)
    changed = f
    for layer in range(1, f.n_layers + 1):
        r = f.ranks[layer - 1]
        signs = rng.choice([-1.0, 1.0], (2, r))
        changed = changed.permuted(layer, rng.permutation(r)).scaled(layer, 3 * signs[0], 0.2 * signs[1])
    if f.n_layers > 1:
        changed = changed.slicewise_scaled(1, 2, rng.uniform(0.5, 2, 5))
    assert dc.factor_match(f, changed) == pytest.approx(1.0, abs=1e-10)


def test_many_components_are_matched_by_solving_layers_in_turn():
    f, rng = random_paratuck([8, 8, 8, 8], 30, 0), np.random.default_rng(1)
    changed = f.permuted(1, rng.permutation(8)).permuted(2, rng.permutation(8))
    assert dc.factor_match(f, changed) == pytest.approx(1.0, abs=1e-10)


def test_a_sign_that_does_not_cancel_is_a_difference():
    f = random_paratuck([3, 1, 3], 4, 0)
    assert dc.factor_match(f, dc.ParaTuck(f.W, [-f.G[0]])) == pytest.approx(-1.0)
    assert dc.factor_match(f, dc.ParaTuck([-f.W[0], -f.W[1]], f.G)) == pytest.approx(1.0)
    assert dc.factor_match(f, dc.ParaTuck(f.W, [2 * f.G[0]])) < 0.9


def test_decouplings_are_compared_as_functions_whatever_their_writing():
    f = random_model([3, 2, 2, 3], 0)
    assert dc.factor_match(f, f.canonical(points(3))) == pytest.approx(1.0, abs=1e-10)
    assert dc.factor_match(f, random_model([3, 2, 2, 3], 1)) < 0.9


def test_things_that_cannot_be_compared_are_refused():
    f = random_model([3, 2, 3], 0)
    with pytest.raises(dc.InputError, match="same dimensions"):
        dc.factor_match(f, random_model([3, 1, 3], 0))
    with pytest.raises(dc.InputError, match="two Decouplings or two ParaTucks"):
        dc.factor_match(f, f.factors(points(3)))
    with pytest.raises(dc.InputError, match="same number of inputs"):
        dc.factor_match(f, random_model([2, 2, 3], 0))


def test_a_match_below_zero_is_found_too():
    f = random_paratuck([7, 7, 7, 7], 5, 0)
    positive = dc.ParaTuck([np.abs(w) for w in f.W], [np.abs(g) for g in f.G])
    assert -1.0 <= dc.factor_match(positive, dc.ParaTuck(positive.W, [-positive.G[0], positive.G[1]])) < 0.0


def test_a_comparison_tells_which_function_is_which_and_how_well():
    f = dc.systems.f3()
    moved = f.permuted(1, [2, 0, 1]).scaled(2, [3.0, -0.5], [1.0, 2.0]).permuted(2, [1, 0])
    found = dc.compare_factors(f, moved)
    assert [order.tolist() for order in found.order] == [[1, 2, 0], [1, 0]]
    assert found.match == pytest.approx(1.0) == dc.factor_match(f, moved)
    for components, share in zip(found.components, found.share, strict=True):
        np.testing.assert_allclose(components, 1.0)
        assert share.sum() == pytest.approx(1.0) and (share > 0.0).all()


def test_a_comparison_names_the_function_that_differs():
    f = dc.systems.random_system((4, 3, 4), (3,), rng=5)
    C = f.g[0].C.copy()
    C[1, 1:] *= 2.0
    found = dc.compare_factors(f, f.with_parts(g=[f.g[0].with_coefficients(C)]))
    np.testing.assert_allclose(found.components[0], [1.0, 0.8, 1.0])
    share = found.share[0][1]
    assert found.match == pytest.approx((2 + 2 * share) / (2 + 3 * share))
    assert str(found).splitlines()[3].split()[:4] == ["1", "2", "2", "0.8"]


def test_a_comparison_of_large_layers_finds_their_order():
    f = dc.systems.random_system((9, 8, 8, 9), (3, 2), rng=1)
    order = np.random.default_rng(0).permutation(8)
    found = dc.compare_factors(f, f.permuted(1, order).permuted(2, order[::-1]))
    assert found.match == pytest.approx(1.0) and (order[found.order[0]] == np.arange(8)).all()
