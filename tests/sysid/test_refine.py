"""Refinement on whole records: exact derivatives, the best iterate by validation, and what cannot be refined."""

import numpy as np
import pytest

import decouply as dc
from decouply.sysid.free_run._sensitivities import sensitivities
from decouply.sysid.narx._simulation import free_run
from decouply.sysid.narx._unknowns import Unknowns
from decouply.sysid.signals._records import Range

from .systems import coupled, duffing, noisy


@pytest.fixture(scope="module")
def pair():
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(*duffing())
    return narx, narx.decouple(2, n_samples=100, n_starts=8, rng=1, progress=False)


# Derivatives


def some_model(kind):
    """Models that have every part that can move."""
    rng = np.random.default_rng(3)
    if kind == "deep":
        model = dc.systems.random_system((6, 3, 2, 2), (3, 3), rng=2)
        g = [dc.Functions(g.basis, g.C, (-0.3, 1.2), "linear") for g in model.g]
        return model.with_parts(g=g)
    g = [dc.Functions(dc.Tanh(), rng.normal(size=(3, 2)), [[-1, 2], [0, 1], [-1, 0.5]])]
    W = [rng.normal(size=(3, 6)), rng.normal(size=(2, 3))]
    if kind == "mixed":
        C = np.zeros((3, 4))
        C[:2], C[2, :2] = rng.normal(size=(2, 4)), rng.normal(size=2)
        bases = (dc.Monomial(3), dc.Chebyshev(3), dc.Tanh())
        g = [dc.Functions(bases, C, (-0.5, 1.5), "constant")]
    return dc.Decoupling(W, g, linear=rng.normal(size=(2, 6)), offset=[1.0, -2.0] if kind == "mixed" else None)


@pytest.mark.parametrize("kind", ["deep", "tanh", "mixed"])
@pytest.mark.parametrize("fixed", [(), ("W0", "g1"), ("g1",)])
def test_derivatives_match_differences(kind, fixed):
    model = some_model(kind)
    X = np.random.default_rng(0).uniform(-1, 1, (7, 6))
    unknowns = Unknowns(model, np.linspace(0.5, 3.0, 6), np.linspace(0.1, 2.0, 6), np.array([3.0, 0.5]), fixed)
    theta = 0.1 * np.random.default_rng(1).normal(size=unknowns.count)
    exists = np.any(unknowns.derivatives(model, X), axis=(0, 1))
    theta[~exists] = 0.0  # coefficients past the size of a basis
    here = unknowns.model(theta)
    exact = unknowns.derivatives(here, X)
    assert np.allclose(unknowns.model(0.0 * theta)(X), model(X), atol=1e-13)
    for p in np.flatnonzero(exists):
        h = 1e-6 * (np.arange(len(theta)) == p)
        difference = (unknowns.model(theta + h)(X) - unknowns.model(theta - h)(X)) / 2e-6
        assert np.allclose(exact[:, :, p], difference, atol=1e-6 * max(1.0, np.abs(exact).max()))


def test_everything_but_what_is_fixed_may_move():
    model = some_model("mixed")
    unknowns = Unknowns(model, np.zeros(6), np.ones(6), np.ones(2), ())
    assert unknowns.shapes == {
        "W0": (3, 6),
        "g1": (3, 3),
        "middle1": (1,),  # of the one function whose domain is to be found
        "W1": (2, 3),
        "linear": (2, 6),
        "offset": (2,),
    }
    held = Unknowns(model, np.ones(6), np.ones(6), np.ones(2), ("W0", "g1"))
    moved = held.model(np.ones(held.count))
    assert list(held.shapes) == ["W1", "linear", "offset"]
    assert np.array_equal(moved.W[0], model.W[0]) and np.array_equal(moved.g[0].domain, model.g[0].domain)


@pytest.mark.parametrize("record", ["one", "two", "linear"])
def test_sensitivities_of_a_free_run_match_differences(record):
    u, y = coupled(n=80) if record == "two" else duffing(n=80)
    fit = coupled() if record == "two" else duffing()
    narx = dc.sysid.PolynomialNARX(1, 1 if record == "two" else 2, 2).fit(*fit)
    solver, linear = dc.VarPro(max_seconds=2), record == "linear"
    decoupled = narx.decouple(2, n_samples=60, linear=linear, progress=False, solver=solver)
    k, lags = narx.lags.longest, narx.lags
    t = narx.trained_on
    unknowns = Unknowns(decoupled.decoupling, t.middle, t.half_width, t.y.half_width, ())
    theta = np.zeros(unknowns.count)

    def run(theta):
        """Step by step, by the model itself."""
        model = unknowns.model(theta)
        bound = np.full(lags.n_outputs, 1e9)
        u_, y_init = u.reshape(len(u), -1), y[:k].reshape(k, -1)
        return free_run(lambda *x: model.values(np.array([x]))[0].tolist(), lags, u_, y_init, Range(-bound, bound))[0]

    X = lags.regressors(u.reshape(80, -1), run(theta))
    exact = sensitivities(unknowns, unknowns.start, lags, X)
    for p in range(len(theta)):
        h = 1e-6 * (np.arange(len(theta)) == p)
        difference = (run(theta + h) - run(theta - h))[k:] / 2e-6
        assert np.allclose(exact[:, :, p], difference, atol=1e-5 * max(1.0, np.abs(exact).max()))


# Outcomes


def test_refining_on_simulation_beats_the_fit_on_one_step(pair):
    """Output noise biases one-step fits; the simulation error is what a free run minimises."""
    u, y = noisy(0)
    narx = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(u, y)
    before = narx.decouple(2, n_starts=8, progress=False)
    after = before.refine(u, y, progress=False)
    u_test, clean = duffing(seed=9)
    errors = [np.sqrt(np.mean((m.simulate(u_test, clean[:2]) - clean) ** 2)) for m in (narx, before, after)]
    assert errors[2] < 0.5 * min(errors[:2])
    assert before.refinement == () and len(after.refinement) > 1
    rows = after.refinement
    chosen = [row for row in rows if row.chosen]
    assert len(chosen) == 1 and chosen[0].validation == min(row.validation for row in rows)
    training = [row.training for row in rows]
    assert training == sorted(training, reverse=True)
    assert "refined" in repr(after) and after.n_parameters == before.n_parameters
    assert before.plot().axes[0].collections and not after.plot().axes[0].collections  # bands


def test_refining_with_a_validation_record_and_on_prediction(pair):
    _, decoupled = pair
    u, y = noisy(0, n=600)
    validation = noisy(1, n=300)
    one = decoupled.refine(u, y, validation=validation, max_steps=3, progress=False)
    two = decoupled.refine([u, u], [y, y], on="prediction", validation=validation, max_steps=3, progress=False)
    assert len(one.refinement) <= 4 and len(two.refinement) <= 4
    for refined in (one, two):
        assert refined.refinement[-1].training < refined.refinement[0].training


def test_bad_refinements_are_refused(pair):
    _, decoupled = pair
    u, y = duffing()
    cases = [
        (lambda: decoupled.refine(u[:4], y[:4]), "after a quarter was held back"),
        (lambda: decoupled.refine(u, y, validation=(u,)), "a record \\(u, y\\)"),
        (lambda: decoupled.refine(u, y, validation=3), "a record \\(u, y\\)"),
        (lambda: decoupled.refine(u, y, validation=(u[:1], y[:1])), "`validation` must be longer"),
        (lambda: decoupled.refine(u, y, n_init=1), "`n_init` must be at least the longest lag, 2"),
        (lambda: decoupled.refine(u, y, max_steps=0), "`max_steps`"),
    ]
    for act, message in cases:
        with pytest.raises(dc.InputError, match=message):
            act()
    with pytest.raises(dc.SolverError, match="leaves its range on the training record"):
        decoupled.refine(60 * u, y)
    with pytest.raises(dc.SolverError, match="on the validation record at every step"):
        decoupled.refine(u, y, validation=(60 * u, y), progress=False)


def test_refining_a_chaotic_model_is_told():
    y = np.empty(3000)
    y[0] = 0.3
    for t in range(1, 3000):
        y[t] = 3.9 * y[t - 1] * (1.0 - y[t - 1])
    u = np.random.default_rng(0).normal(size=3000)
    chaotic = dc.sysid.PolynomialNARX(0, 1, 2).fit(u, y).decouple(2, n_samples=50, n_starts=4, progress=False)
    with pytest.raises(dc.SolverError, match=r"derivatives overflow|leaves its range"):
        chaotic.refine(u, y, progress=False)


@pytest.mark.parametrize("outside", ["extend", "linear"])
def test_models_with_a_linear_part_and_tails_are_refined_too(pair, outside):
    narx, _ = pair
    u, y = noisy(0, n=600)
    before = narx.decouple(1, n_samples=100, n_starts=8, linear=True, progress=False).with_outside(outside)
    after = before.refine(u, y, max_steps=4, progress=False)
    assert after.refinement[-1].training < after.refinement[0].training
    assert after.n_parameters == before.n_parameters and after.decoupling.g[0].outside == outside
    assert not np.allclose(after.decoupling.linear, before.decoupling.linear, atol=1e-6)


def test_units_do_not_change_a_refinement():
    """The same steps, wherever the signals are: regressors enter relative to their middle."""
    u, y = noisy(0, n=600)
    rows = []
    for a, b, c, d in ((1.0, 0.0, 1.0, 0.0), (1e3, 5e4, 1e-2, 3.0)):
        narx = dc.sysid.PolynomialNARX(1, 2, 3).fit(a * u + b, c * y + d)
        decoupled = narx.decouple(2, n_samples=100, n_starts=8, progress=False)
        rows.append(decoupled.refine(a * u + b, c * y + d, max_steps=5, progress=False).refinement)
    assert len(rows[0]) > 2
    assert [r.training for r in rows[0]] == pytest.approx([r.training for r in rows[1]], rel=1e-3)


def test_ctrl_c_keeps_the_best_iterate(pair):
    _, decoupled = pair
    u, y = noisy(0, n=600)
    seen = []

    def press(**values):
        seen.append(values)
        if len(seen) == 2:
            raise KeyboardInterrupt

    with pytest.warns(dc.DecouplingWarning, match="Stopped by Ctrl-C"):
        refined = decoupled.refine(u, y, progress=press)
    assert len(seen) == 2 and seen[-1]["done"] == 2
    rows = refined.refinement
    assert len(rows) > 1 and min(r.validation for r in rows) == next(r.validation for r in rows if r.chosen)


def test_a_limit_of_time_keeps_the_best_iterate(pair):
    _, decoupled = pair
    u, y = noisy(0, n=600)
    with pytest.warns(dc.DecouplingWarning, match="`max_seconds` was reached"):
        refined = decoupled.refine(u, y, max_seconds=1e-6, progress=False)
    assert len(refined.refinement) == 2  # the model it began with, and one step
    with pytest.raises(dc.InputError, match="`max_seconds` must be"):
        decoupled.refine(u, y, max_seconds=0, progress=False)


def test_parts_that_are_fixed_stay_fixed(pair):
    narx, _ = pair
    u, y = noisy(0, n=400)
    W0 = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.0]])
    solver = dc.VarPro(fixed={"W0": W0}, max_seconds=5)
    held = narx.decouple(2, 3, solver=solver, n_samples=60, n_starts=4, progress=False)
    refined = held.refine(u, y, max_steps=3, progress=False)
    assert np.array_equal(held.decoupling.W[0], W0) and np.array_equal(refined.decoupling.W[0], W0)
    assert refined.refinement[-1].training < refined.refinement[0].training
