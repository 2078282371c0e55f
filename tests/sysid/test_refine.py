"""Refinement on whole records: exact derivatives, the best iterate by validation, and what cannot be refined."""

import numpy as np
import pytest

import decouply as dc
from decouply.sysid.free_run._step import StepArrays
from decouply.sysid.narx._narx import Lags, Training, as_narx, as_state_space
from decouply.sysid.narx._refine import NARXInStandardUnits
from decouply.sysid.signals._records import Range, Signals

from .systems import duffing, noisy


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
    g = [dc.Functions(dc.bases.Tanh(), rng.normal(size=(3, 2)), [[-1, 2], [0, 1], [-1, 0.5]])]
    W = [rng.normal(size=(3, 6)), rng.normal(size=(2, 3))]
    if kind == "mixed":
        C = np.zeros((3, 4))
        C[:2], C[2, :2] = rng.normal(size=(2, 4)), rng.normal(size=2)
        bases = (dc.Monomial(3), dc.Chebyshev(3), dc.bases.Tanh())
        g = [dc.Functions(bases, C, (-0.5, 1.5), "constant")]
    return dc.Decoupling(W, g, linear=rng.normal(size=(2, 6)), offset=[1.0, -2.0] if kind == "mixed" else None)


LAGS = Lags(n_u=1, n_y=2, n_inputs=1, n_outputs=2)


def training(X=None):
    """Ranges that are neither centred nor of unit width."""
    u, y = Range(np.array([0.3]), np.array([0.9])), Range(np.array([-1.0, 2.0]), np.array([3.0, 2.5]))
    return Training(LAGS, np.zeros((1, 6)) if X is None else X, u, y, False)


def some_record(n=12):
    rng = np.random.default_rng(0)
    return Signals((rng.uniform(0.3, 0.9, (n, 1)),), (rng.uniform([-1.0, 2.0], [3.0, 2.5], (n, 2)),))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["deep", "tanh", "mixed"])
@pytest.mark.parametrize("fixed", [(), ("W0", "g1"), ("g1",)])
@pytest.mark.parametrize("simulated", [True, False])
def test_derivatives_match_differences(kind, fixed, simulated):
    model = some_model(kind)
    if simulated:  # tame enough to run
        model = model.with_parts(W=[0.2 * model.W[0], *model.W[1:-1], 0.1 * model.W[-1]])
        model = model if model.linear is None else model.with_parts(linear=0.1 * model.linear)
    narx = NARXInStandardUnits(model, training(), fixed)
    anything = Range(np.full(2, -1e9), np.full(2, 1e9))
    objective = narx.objective(some_record(), 2, anything, simulated=simulated)

    def residuals(v):
        return objective.simulate(*objective.model(v)).residuals.ravel()

    v, h = objective.start, 1e-6
    equations = objective.linearise(v[None])[1].equations
    Z = np.stack([(residuals(v - h * e) - residuals(v + h * e)) / (2 * h) for e in np.eye(len(v))])
    e = residuals(v)
    assert np.allclose(equations.M[0], Z @ Z.T / e.size, rtol=1e-5, atol=1e-6 * np.abs(Z @ Z.T).max())
    assert np.allclose(equations.g[0], Z @ e / e.size, rtol=1e-5, atol=1e-6 * np.abs(Z @ e).max())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["deep", "tanh", "mixed"])
@pytest.mark.parametrize("fixed", [(), ("W0", "g1"), ("g1",)])
def test_standard_units_change_nothing(kind, fixed):
    model = some_model(kind)
    narx = NARXInStandardUnits(model, training(), fixed)
    X = np.random.default_rng(0).uniform(-1, 1, (7, 6))
    same = narx.in_measured_units(narx.parameters.start)
    assert np.allclose(same(X), model(X), atol=1e-12)
    assert (same.linear is None) == (model.linear is None)
    moved = narx.in_measured_units(narx.parameters.step(narx.parameters.theta + 0.1))
    for name in fixed:
        mine, its = (m.W[0] if name == "W0" else m.g[0].domain for m in (moved, model))
        assert np.array_equal(mine, its)


def test_everything_but_what_is_fixed_may_move():
    model = some_model("mixed")
    free = NARXInStandardUnits(model, training(), ()).parameters.free
    counts = {name: int(mask.sum()) for name, mask in free.items()}
    # One function has one coefficient and a domain that is to be found; rows of states are copies of those of outputs.
    assert counts == {"W0": 18, "g1": 7, "middle1": 1, "W1": 6, "linear": 12, "offset": 2}
    held = NARXInStandardUnits(model, training(), ("W0", "g1")).parameters
    assert list(held.free) == ["W1", "linear", "offset"]


def test_a_state_space_of_lags_is_the_same_model():
    model = StepArrays.of(some_model("deep"))
    X = np.random.default_rng(0).uniform(-1, 1, (7, 6))
    step = as_state_space(model, LAGS)
    after = step.values(np.c_[X[:, 1:], X[:, :1]])
    y = model.values(X)
    assert np.allclose(after, np.c_[X[:, 0], y, X[:, 2:4], y])
    back = as_narx(step, LAGS)
    assert all(np.array_equal(a, b) for a, b in zip(back.W, model.W, strict=True))
    assert np.array_equal(back.linear, model.linear)


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
    assert not after.plot().axes[0].collections  # bands are those of the fit before


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
        (lambda: decoupled.refine(u[:4], y[:4]), "`validation` must leave"),
        (lambda: decoupled.refine(u[:2], y[:2], validation=(u, y)), "`u` must be longer"),
        (lambda: decoupled.refine(u, y, validation=(u,)), "a record \\(u, y\\)"),
        (lambda: decoupled.refine(u, y, validation=3), "a record \\(u, y\\)"),
        (lambda: decoupled.refine(u, y, validation=(u[:1], y[:1])), "`validation` must leave"),
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
    solver = dc.VarPro(fixed={"W0": W0})
    held = narx.decouple(2, 3, solver=solver, n_samples=60, n_starts=4, progress=False)
    refined = held.refine(u, y, max_steps=3, progress=False)
    assert np.array_equal(held.decoupling.W[0], W0) and np.array_equal(refined.decoupling.W[0], W0)
    assert refined.refinement[-1].training < refined.refinement[0].training
