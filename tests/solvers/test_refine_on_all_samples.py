"""Passes over samples anywhere: the same numbers as on arrays, and the same answers."""

import dataclasses

import numpy as np
import pytest

import decouply as dc
from decouply.samples._model_errors import canonical_at
from decouply.solvers import AbstractSolver, Problem
from decouply.solvers.least_squares._derivatives import run_chain
from decouply.solvers.least_squares._parameters import balance_parameters, parameters_of, rescale_to_window
from decouply.solvers.least_squares._variable_projection import Complete
from decouply.solvers.problem._prepared_samples import PreparedSamples
from decouply.solvers.varpro._streamed_gauss_newton import (
    StreamedResiduals,
    extreme_points,
    gradient_task,
    importance_sample,
    normal_task,
)

from .every import ALTERNATING, quick_solvers

pytest.importorskip("zarr")


@pytest.fixture(autouse=True)
def many_portions(monkeypatch):
    """Short portions, so that even a few samples make many."""
    monkeypatch.setattr("decouply.samples._portions.PORTION_ENTRIES", 2000)


def noisy(dims=(4, 2, 2), degrees=(3,), count=1500, seed=1, noise=0.05, weights=None):
    f = dc.systems.random_system(dims, degrees, rng=seed)
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, dims[0])) * 3.0 + 5.0
    inner = (X - 5.0) / 3.0
    F, J = f(inner), f.jacobian(inner) / 3.0
    F, J = (a + noise * a.std() * rng.normal(size=a.shape) for a in (F, J))
    shape = {None: None, "samples": (count,), "outputs": (count, dims[-1])}[weights]
    return f, dc.Samples(X, F=F, J=J, weights=None if shape is None else rng.uniform(0.5, 2.0, shape))


WEIGHTS = [None, "samples", "outputs"]


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("known", ["F", "J", "FJ"])
def test_units_and_sizes_do_not_depend_on_portions(known, weights, monkeypatch):
    _, given = noisy(weights=weights)
    samples = dc.Samples(
        given.X, F=given.F if "F" in known else None, J=given.J if "J" in known else None, weights=given.weights
    )
    assert len(samples.data.spans()) > 3
    found = PreparedSamples(samples, standard=True, compress=True)
    assert found.units.T.shape == (4, 4)
    monkeypatch.setattr("decouply.samples._portions.PORTION_ENTRIES", 10**9)
    assert len(samples.data.spans()) == 1
    wanted = PreparedSamples(samples, standard=True, compress=True)
    np.testing.assert_allclose(found.units.centre, wanted.units.centre, rtol=1e-12)
    np.testing.assert_allclose(found.units.T, wanted.units.T, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.units.y_scale, wanted.units.y_scale, rtol=1e-10)
    for a, b in zip(dataclasses.astuple(found.sizes), dataclasses.astuple(wanted.sizes), strict=True):
        assert a == pytest.approx(b, rel=1e-10)
    if samples.weights is None or samples.weights.ndim == 1:
        F = wanted.F
        w = np.ones(len(samples)) if samples.weights is None else samples.weights
        mean = w @ wanted.X / w.sum()
        np.testing.assert_allclose(mean, 0.0, atol=1e-12)
        np.testing.assert_allclose((wanted.X * w[:, None]).T @ wanted.X / w.sum(), np.eye(4), atol=1e-12)
        assert F is None or pytest.approx(float(w @ np.sum(F**2, axis=1)), rel=1e-12) == wanted.sizes.F


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("ranks", [(2,), (2, 3)])
def test_cost_gradient_and_matrix_are_sums_over_portions(ranks, weights):
    f, samples = noisy((4, *ranks, 2), (3,) * len(ranks), weights=weights)
    layers = tuple(g.layer for g in f.g)
    whole = Problem.build(samples, layers)
    scaling = whole.prepared.row_scaling(0.3)
    theta = parameters_of(whole, f)
    small = (scaling, layers, False, theta)
    cost, g, M = whole.prepared.reduce(normal_task, *small)
    expected, at = Complete(whole.rows(0.3), layers, False).linearise(theta)
    for found, wanted in ((cost, expected), (g, at.g), (M, at.M)):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11 * np.abs(wanted).max())
    cost, gradient = whole.prepared.reduce(gradient_task, *small)
    np.testing.assert_allclose(gradient, at.g, rtol=1e-9, atol=1e-11 * np.abs(at.g).max())
    np.testing.assert_allclose(cost, expected, rtol=1e-12)


def test_a_part_stands_for_all_samples():
    _, samples = noisy(count=20_000)
    layers = tuple(g.layer for g in dc.systems.random_system((4, 2, 2), (3,), rng=0).g)
    prepared = Problem.build(samples, layers).prepared
    parts = [importance_sample(prepared, prepared.row_scaling(1.0), 4000, key=key) for key in (0, 0, 1)]
    for part in parts:
        assert len(part) == 4000 and part.weights.sum() == pytest.approx(20_000, rel=0.05)
        np.testing.assert_allclose(part.weights @ part.F**2, np.sum(samples.F**2, axis=0), rtol=0.1)
    np.testing.assert_array_equal(parts[0].X, parts[1].X)
    assert not np.isin(parts[2].X, parts[0].X).all()


def test_rejected_steps_are_no_sign_of_a_flat_valley():
    f, samples = noisy()
    layers = tuple(g.layer for g in f.g)
    whole = Problem.build(samples, layers)
    scaling = whole.prepared.row_scaling(1.0)
    part = Complete(whole.of_pilot(samples.take(np.arange(100))).prepared.rows(scaling), layers, False)
    at = StreamedResiduals(
        whole.prepared, scaling, part, 1e-6, lambda: None, predicted_decrease=5.0, last_decrease=1e-2, costs=[1.0]
    )
    theta = parameters_of(whole, f)
    assert all(at.is_worth_a_pass(theta, np.array([1.0])) for _ in range(20))
    assert not at.is_settled and at.last_decrease == 1e-2
    for k in range(5):
        at.predicted_decrease = 1e-2
        wanted = at.is_worth_a_pass(theta, np.array([1.0 - 1e-6 * (k + 1)]))
    assert not wanted and at.is_settled


def test_the_matrix_of_all_samples_is_formed_where_that_of_a_start_would_not_be(monkeypatch):
    f, samples = noisy()
    layers = tuple(g.layer for g in f.g)
    whole = Problem.build(samples, layers)
    theta = parameters_of(whole, f)
    small = (whole.prepared.row_scaling(1.0), layers, False, theta)
    expected = whole.prepared.reduce(normal_task, *small)
    monkeypatch.setattr("decouply.solvers.problem._weighted_rows._MAX_DENSE_PRODUCTS", 1.0)
    for found, wanted in zip(whole.prepared.reduce(normal_task, *small), expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_extreme_points_stand_for_all_in_windows():
    f, samples = noisy((4, 2, 3, 2), (3, 3))
    layers = tuple(g.layer for g in f.g)
    whole = Problem.build(samples, layers)
    theta = parameters_of(whole, f)
    few = extreme_points(whole.prepared, layers, theta)
    assert len(few) < len(samples)
    by_few, by_all = (rescale_to_window(X, layers, theta, exactly=True) for X in (few, whole.X))
    for a, b in zip(by_few.arrays(), by_all.arrays(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_balanced_parameters_are_smaller_and_give_the_same_model():
    f, samples = noisy((4, 2, 3, 2), (3, 3))
    layers = tuple(g.layer for g in f.g)
    problem = Problem.build(samples, layers)
    theta = parameters_of(problem, f)
    other = balance_parameters(layers, theta)
    rows = Complete(problem.rows(1.0), layers, False)
    residuals = [rows.residual(one, run_chain(layers, one.inner, problem.X)) for one in (theta, other)]
    np.testing.assert_allclose(*residuals, atol=1e-11)
    sizes = [np.sum(rows.unknowns.flatten(one) ** 2) for one in (theta, other)]
    assert sizes[1] < sizes[0]


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("ranks", [(2,), (2, 3)])
def test_the_canonical_form_is_the_same_from_portions(ranks, linear, monkeypatch):
    f, samples = noisy((4, *ranks, 2), (3,) * len(ranks))
    model = f.with_parts(linear=np.ones((2, 4))) if linear else f
    monkeypatch.setattr("decouply.samples._model_errors._AT_ONCE", 0)
    found, wanted = canonical_at(model, samples), model.canonical(samples.X)
    for a, b in zip((*found.W, *(g.C for g in found.g)), (*wanted.W, *(g.C for g in wanted.g)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max())


# Whole fits


@pytest.fixture
def stored(tmp_path, monkeypatch):
    _, samples = noisy(count=1200)
    monkeypatch.setattr("decouply.samples._portions.PORTION_ENTRIES", 6000)
    return samples, samples.to_zarr(tmp_path / "data.zarr", progress=False)


def test_a_pilot_leads_to_the_answer_of_all_samples(stored):
    samples, store = stored
    everything = dc.decouple(samples, 2, 3, solver=dc.VarPro(pilot=None, ridge=0.0), n_starts=8, progress=False)
    for some in (samples, store):
        found = dc.decouple(some, 2, 3, solver=dc.VarPro(pilot=100, ridge=0.0), n_starts=8, progress=False)
        assert found.error_values == pytest.approx(everything.error_values, rel=1e-4)
        assert found.error_jacobian == pytest.approx(everything.error_jacobian, rel=1e-4)
        assert any("A subsample of 100 was searched" in note for note in found.notes)
        np.testing.assert_allclose(found.relative_rmse(), everything.relative_rmse(), rtol=1e-3)


def test_exact_data_are_met_to_rounding(tmp_path):
    _, samples = noisy(noise=0.0)
    store = samples.to_zarr(tmp_path / "data.zarr", progress=False)
    result = dc.decouple(store, 2, 3, n_starts=8, progress=False)
    assert result.status is dc.solvers.Status.EXACT and result.error_jacobian < 1e-18


@pytest.mark.slow
def test_a_pilot_that_is_too_small_grows():
    _, samples = noisy(count=2000, noise=0.2)
    result = dc.decouple(samples, 2, 3, solver=dc.VarPro(pilot=4, ridge=0.0), n_starts=16, progress=False)
    assert any("was too small" in note for note in result.notes)
    everything = dc.decouple(samples, 2, 3, solver=dc.VarPro(pilot=None, ridge=0.0), n_starts=16, progress=False)
    assert result.error_values == pytest.approx(everything.error_values, rel=1e-3)


def test_stored_samples_are_told_apart_and_judged_like_arrays(stored):
    samples, store = stored
    found = dc.decouple(store, 2, 3, solver=dc.VarPro(ridge=0.0), n_starts=8, progress=False)
    same = dc.decouple(samples, 2, 3, solver=dc.VarPro(pilot=None, ridge=0.0), n_starts=8, progress=False)
    assert str(found.identifiability).split("(")[0] == str(same.identifiability).split("(")[0]
    u = np.linspace(-0.5, 0.5, 4)
    for a, b in zip(found.uncertainty(u), same.uncertainty(u), strict=True):
        np.testing.assert_allclose(a, b, rtol=0.1)


@dataclasses.dataclass(frozen=True)
class OfYourOwn(AbstractSolver):
    """One that knows nothing of stores."""

    supports = frozenset()
    default_n_starts = 2

    def solve(self, problem, *, n_starts, rng, progress):
        return dc.Proj(stopping=dc.solvers.Stopping(max_steps=2)).solve(
            problem, n_starts=n_starts, rng=rng, progress=progress
        )


@pytest.mark.slow
def test_smoothed_functions_go_on_over_all_samples(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (2000, 2))
    truth = np.tanh(3.0 * X @ [[0.8], [0.6]])
    samples = dc.Samples(X, F=truth + 0.1 * rng.normal(size=truth.shape))
    store = samples.to_zarr(tmp_path / "smooth.zarr", progress=False)
    solver = dc.VarPro(pilot=150)
    found = dc.decouple(store, 1, basis=dc.Spline(10), solver=solver, n_starts=1, progress=False)
    few = dc.decouple(samples.pilot(150), 1, basis=dc.Spline(10), n_starts=1, progress=False)
    everything = dc.decouple(samples, 1, basis=dc.Spline(10), n_starts=1, progress=False)
    errors = [float(np.mean((one.decoupling(X) - truth) ** 2)) for one in (found, few, everything)]
    assert errors[0] < 0.3 * errors[1] and errors[0] < 1.3 * errors[2]
    assert found.error_values == pytest.approx(everything.error_values, rel=2e-3)
    assert found.n_effective == pytest.approx(everything.n_effective, rel=0.3)
    assert sum("effective parameters" in note for note in found.notes) == 1


@pytest.mark.parametrize(
    "solver",
    [*quick_solvers(3, kinds=ALTERNATING), OfYourOwn()],
    ids=lambda solver: type(solver).__name__,
)
def test_solvers_without_steps_over_stores_say_that_theirs_is_the_answer_for_a_pilot(solver, stored):
    result = dc.decouple(stored[1], 2, 3, solver=solver, n_starts=2, progress=False)
    assert any("is its answer for a subsample of" in note for note in result.notes)
    assert result.error_jacobian < 0.5 and result.error_values < 0.5
    assert result.samples is stored[1]


@pytest.mark.slow
def test_shapes_are_selected_on_some_samples_and_fitted_to_all(stored):
    _, store = stored
    choice = dc.select(store, 2, degrees=3, n_folds=2, progress=False)
    assert choice.ranks == (2,) and choice.result.samples is store
    assert "the recommended one was fitted to all" in choice.notes[0]


@pytest.mark.slow
def test_pages_and_pictures_draw_some_of_a_store(stored, tmp_path):
    result = dc.decouple(stored[1], 2, 3, n_starts=8, progress=False)
    result.report(tmp_path / "page.html")
    assert "1200" in (tmp_path / "page.html").read_text()
    result.plot()
    result.plot_fit()
    assert "table" in result._repr_html_()


def test_fixed_parts_stay_as_they_are(stored):
    samples, store = stored
    free = dc.decouple(samples, 2, 3, solver=dc.VarPro(pilot=None), n_starts=8, progress=False).decoupling
    solver = dc.VarPro(fixed={"W0": free.W[0]})
    result = dc.decouple(store, 2, 3, solver=solver, n_starts=8, progress=False)
    np.testing.assert_array_equal(result.decoupling.W[0], free.W[0])


def test_a_limit_of_memory_takes_a_pilot_or_is_told(stored):
    samples, _ = stored
    result = dc.decouple(samples, 2, 3, solver=dc.VarPro(memory=1e6, ridge=0.0), n_starts=4, progress=False)
    assert any("A subsample of" in note for note in result.notes)
    with pytest.raises(dc.InputError, match=r"`memory` must be at least .* GiB to search 1200 samples at once"):
        dc.decouple(samples, 2, 3, solver=dc.VarPro(memory=1e6, pilot=None), n_starts=8, progress=False)


def test_all_samples_of_a_store_cannot_be_searched_at_once(stored):
    with pytest.raises(dc.InputError, match="`pilot` must not be None for stored samples"):
        dc.decouple(stored[1], 2, 3, solver=dc.VarPro(pilot=None), n_starts=8, progress=False)


def test_ctrl_c_keeps_the_best(stored):
    def stop(stage="", **_):
        if stage == "all samples":
            raise KeyboardInterrupt

    result = dc.decouple(stored[1], 2, 3, n_starts=8, progress=stop)
    assert result.status is dc.solvers.Status.INTERRUPTED and result.error_jacobian < 0.5
