"""The loop over time: compiled once per shape, the same as NumPy, and no model is checked inside a fit."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.sysid.free_run import _recursion
from decouply.sysid.free_run._recursion import Recursion
from decouply.sysid.free_run._step import StepArrays

from .systems import noisy

BASES = [
    *(dc.Monomial(1), dc.Monomial(3), dc.Monomial(90), dc.Chebyshev(1), dc.Chebyshev(4), dc.bases.Bernstein(3)),
    *(dc.Spline(5), dc.Spline(3, degree=2, tails="parabola"), dc.bases.Trigonometric(3)),
    *(
        dc.bases.Tanh(),
        dc.bases.Sigmoid(),
        dc.bases.Saturation(),
        dc.bases.DeadZone(),
        dc.bases.ReLU(),
        dc.bases.Friction(),
    ),
]


def random_step(bases, outside, seed=0):
    rng = np.random.default_rng(seed)
    size = max(basis.size for basis in bases)
    C = np.zeros((len(bases), 1 + size))
    for j, basis in enumerate(bases):
        C[j, : 1 + basis.size] = 0.3 * rng.standard_normal(1 + basis.size)
    g = dc.Functions(tuple(bases), C, (-0.4, 0.7), outside)
    W = [0.4 * rng.standard_normal((len(bases), 4)), 0.2 * rng.standard_normal((3, len(bases)))]
    return dc.Decoupling(W, [g], linear=0.3 * rng.standard_normal((3, 4)), offset=rng.standard_normal(3))


@pytest.mark.parametrize("outside", ["extend", "linear", "constant"])
@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_the_loop_is_one_step_after_the_other(basis, outside):
    model = random_step([basis, dc.Monomial(2)], outside)
    step, n = StepArrays.of(model), 2
    x, rows = np.array([0.1, -0.2]), []
    u = np.random.default_rng(1).uniform(-0.5, 0.5, (8, 2))
    for v in u:
        rows.append(x)
        x = model.values(np.append(x, v)[None])[0, :n]
    assert_allclose(Recursion(step, n, {}).states(step, u.tolist(), [0.1, -0.2]), rows, rtol=1e-9, atol=1e-12)


def test_models_of_one_shape_share_a_loop():
    one, two = (StepArrays.of(random_step([dc.Spline(4), dc.bases.Tanh()], "linear", seed)) for seed in (0, 1))
    before = _recursion.compiled_loop.cache_info().misses
    first = Recursion(one, 2, {})
    Recursion(two, 2, {})
    assert _recursion.compiled_loop.cache_info().misses <= before + 1
    u = np.random.default_rng(1).uniform(-0.5, 0.5, (8, 2)).tolist()
    again = first.states(two, u, [0.0, 0.0])  # the loop made for one model runs another
    assert_allclose(again, Recursion(two, 2, {}).states(two, u, [0.0, 0.0]))


def test_weights_that_are_zero_are_left_out_unless_they_may_move():
    step = StepArrays.of_linear(np.diag([0.5, 0.9]), np.ones((2, 1)), np.ones((1, 2)), np.zeros((1, 1)))
    assert "tanh" not in Recursion(step, 2, {})._source(step)
    sparse, full = (Recursion(step, 2, free)._source(step) for free in ({}, {"linear": np.ones((3, 3), dtype=bool)}))
    assert (sparse.count("*"), full.count("*")) == (4, 6)


def test_a_fit_compiles_once_per_shape_and_checks_only_what_it_returns(monkeypatch):
    """One loop for the linear model and one for the model with functions; nothing is compiled when it is run again."""
    checked = []
    check = dc.Decoupling.__init__
    monkeypatch.setattr(dc.Decoupling, "__init__", lambda self, *a, **k: (checked.append(1), check(self, *a, **k))[1])
    _recursion.compiled_loop.cache_clear()
    u, y = noisy(0, n=300)
    model = dc.sysid.DecoupledStateSpace(2, [dc.Monomial(3)]).fit(u, y, n_starts=2, progress=False)
    assert _recursion.compiled_loop.cache_info().misses == 2
    assert len(checked) <= 3
    model.simulate(u, y[:20])
    model.fit(u, y, n_starts=1, rng=5, progress=False)
    assert _recursion.compiled_loop.cache_info().misses == 2
