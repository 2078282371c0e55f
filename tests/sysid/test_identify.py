"""One call from a record to a model that can be trusted: what it chooses, what it refuses, and what it says."""

import math
import re
import zipfile

import numpy as np
import pytest

import decouply as dc
from decouply.bases import Monomial, Spline, Tanh
from decouply.sysid import DecoupledStateSpace, StateFunction, identify
from decouply.sysid.free_run._fit import FitResult
from decouply.sysid.free_run._recursion import Recursion
from decouply.sysid.free_run._simulation import simulate
from decouply.sysid.free_run._step import StepArrays, spectral_radius
from decouply.sysid.signals._records import RecordBatch, Signals, SignalUnits, parted
from decouply.sysid.state_space import _model_race
from decouply.sysid.state_space._boundedness import escape, trial_inputs, with_tails
from decouply.sysid.state_space._dead_time import dead_time, with_late_inputs
from decouply.sysid.state_space._drift import remarks_on_drift
from decouply.sysid.state_space._structure import is_bounded

from .systems import duffing

CUBIC = {"n_states": 2, "functions": [Monomial(3)], "progress": False}


def linear_record(n=300):
    rng = np.random.default_rng(3)
    u, y = rng.uniform(-1, 1, n), np.zeros(n)
    for t in range(1, n):
        y[t] = 0.8 * y[t - 1] + 0.5 * u[t - 1]
    return u, y + 0.02 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def found():
    return identify(*duffing(400), **CUBIC)


def test_a_cubic_oscillator_is_found_and_everything_that_was_tried_is_kept(found):
    u, y = duffing(300, seed=9)
    np.testing.assert_allclose(found.simulate(u, y[:30])[2:], y[2:], atol=1e-5)
    assert found.is_bounded and "stays bounded, also on inputs 1.5 times as large" in found.verdict
    (chosen,) = [row for row in found.tried if row.note == "chosen"]
    assert (chosen.n_states, chosen.functions) == (2, "monomial") and chosen.validation < 1e-5
    assert any(row.functions == "" for row in found.tried)
    text = str(found)
    assert "linear" in text and "validation %" in text and found.verdict in text


def test_its_functions_end_in_straight_lines(found):
    (g,) = found.model.step.g
    assert g.outside == "linear"
    low, high = g.domain[0]
    far = g.slopes(np.array([[high + 1.0], [high + 50.0]]))
    np.testing.assert_allclose(far[0], far[1])
    np.testing.assert_allclose(far[0], g.slopes(np.array([[high]]))[0])
    u = found.model.step.arguments(found.model.fitted.points)[0]
    assert low <= u.min() and u.max() <= high


def test_it_is_a_model_that_files_keep(found, tmp_path):
    found.save(tmp_path / "m.safetensors")
    u, y = duffing(100, seed=5)
    again = DecoupledStateSpace.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.simulate(u, y[:20]), found.simulate(u, y[:20]))


def test_a_linear_system_gets_a_linear_model_and_is_told_so():
    u, y = linear_record()
    found = identify(u, y, n_states=1, functions=[Monomial(3)], progress=False)
    assert found.verdict.startswith("A linear model with 1 state is the answer")
    assert not np.any(found.model.step.W[-1])
    assert found.model.n_canonical == 3  # a pole, a gain, an offset
    assert np.sqrt(np.mean((found.simulate(u, y[:30]) - y) ** 2)) < 0.03


def test_a_model_that_diverges_is_not_returned(monkeypatch):
    # Whatever is not stable by design is taken for divergent, the linear model excepted.
    def diverging(step, *_, **__):
        constant = all(isinstance(b, Spline) and b.tails == "constant" for b in step.layers[0].bases)
        return None if constant or not np.any(step.W[-1]) else "the training input"

    for name, few in (("_MOST_RESTARTS", 0), ("_SCAN_STEPS", 8), ("_LAST_STEPS", 8)):
        monkeypatch.setattr(_model_race, name, few)
    monkeypatch.setattr(_model_race, "escape", diverging)
    found = identify(*duffing(200), **CUBIC)
    assert found.is_bounded and "by design" in found.verdict
    assert found.model.structure.stable and spectral_radius(StepArrays.of(found.model.step), 2) < 1.0
    assert "diverges on the training input" in [row.note for row in found.tried]
    monkeypatch.setattr(_model_race, "escape", lambda step, *_, **__: "it" if np.any(step.W[-1]) else None)
    found = identify(*duffing(200), **CUBIC)
    assert not np.any(found.model.step.W[-1]) and "models with functions diverge" in found.verdict


def test_a_linear_model_that_diverges_says_so(monkeypatch):
    monkeypatch.setattr(_model_race, "escape", lambda *_, **__: "the training input")
    found = identify(*linear_record(), n_states=1, functions=[Monomial(3)], progress=False)
    assert not found.is_bounded and "diverges on the training input: do not use it for long runs" in found.verdict


def test_of_linear_models_one_that_stays_bounded_is_the_answer(monkeypatch):
    # The model of the order that is best on validation data is made out to diverge.
    monkeypatch.setattr(_model_race, "escape", lambda step, n, *_, **__: "it" if n == 1 else None)
    found = identify(*linear_record(), n_states=(1, 2), functions=[], progress=False)
    assert found.is_bounded and found.model.n_states == 2
    assert "A linear model with 2 states is the answer" in found.verdict
    assert {(row.n_states, row.note) for row in found.tried} == {(1, "diverges on it"), (2, "chosen")}


def test_a_stable_answer_has_its_poles_inside_the_unit_circle(monkeypatch):
    # That of one state is made out to be an integrator.
    monkeypatch.setattr(_model_race, "spectral_radius", lambda step, n: 1.0 if n == 1 else 0.5)
    u, y = linear_record()
    assert identify(u, y, n_states=(1, 2), functions=[], stable=True, progress=False).model.n_states == 2
    assert identify(u, y, n_states=(1, 2), functions=[], progress=False).model.n_states == 1


def test_errors_at_rounding_ask_for_no_functions():
    u, _ = linear_record()
    found = identify(u, u, n_states=1, functions=[Monomial(3)], progress=False)
    assert "A linear model with 1 state is the answer" in found.verdict and not np.any(found.model.step.W[-1])


def test_an_empty_list_of_functions_asks_for_linear_models():
    found = identify(*linear_record(), n_states=(1, 2), functions=[], progress=False)
    assert "no other was tried" in found.verdict and not any(row.functions for row in found.tried)


def test_the_time_limit_ends_the_search_with_a_model():
    found = identify(*duffing(400), max_seconds=1e-3, progress=False)
    assert not np.any(found.model.step.W[-1]) and len(found.tried) < 8


def test_starts_that_do_not_agree_are_told(monkeypatch):
    errors = iter(0.01 * 0.5**k for k in range(100))
    real = _model_race.validation_error
    monkeypatch.setattr(
        _model_race, "validation_error", lambda fit, batch: next(errors) if np.any(fit.step.W[-1]) else real(fit, batch)
    )
    monkeypatch.setattr(_model_race, "_MOST_RESTARTS", 2)
    found = identify(*duffing(400), **CUBIC)
    assert found.agreement == (1, 4) and "The 4 starts do not agree" in found.verdict


def test_a_model_that_is_worse_than_linear_on_one_held_back_part_is_not_taken(monkeypatch):
    # On single parts of the held-back data every model with functions is made out to be bad.
    real = _model_race.validation_error

    def error(fit, batch):
        return 9.0 if len(batch) == 1 and np.any(fit.step.W[-1]) else real(fit, batch)

    monkeypatch.setattr(_model_race, "validation_error", error)
    monkeypatch.setattr(_model_race, "_MOST_RESTARTS", 0)
    found = identify(*duffing(600), **CUBIC)
    assert not np.any(found.model.step.W[-1]) and "no better on all data" in found.verdict
    assert "worse than linear on a part of the validation data" in [row.note for row in found.tried]


@pytest.mark.parametrize(
    ("errors", "wanted"),
    [((0.41, 0.407, 0.403, 0.416, 0.37), [2, 3, 5, 6]), ((0.41, 0.2, 0.2), [2, 3, 4]), ((0.3, 0.3, 0.3), [2, 3, 1])],
)
def test_functions_are_tried_with_few_states_if_linear_models_need_many(errors, wanted, monkeypatch):
    race = _model_race.Race(Signals.read(*linear_record()), np.random.default_rng(0), None, stable=False)
    given = iter(errors)
    monkeypatch.setattr(_model_race, "validation_error", lambda *_: next(given))
    for n in range(1, len(errors) + 1):
        race._add_linear(n, feedthrough=True)
    assert race._orders_with_functions((1, 2, 3, 4, 5, 6)) == wanted


def test_models_that_differ_on_larger_inputs_are_told(monkeypatch):
    answers = iter([1.0, 2.0, 3.0, 4.0] * 50)
    monkeypatch.setattr(_model_race, "larger_response", lambda *_: np.sin(np.arange(50.0))[:, None] * next(answers))
    monkeypatch.setattr(_model_race, "_AS_GOOD", 1e15)  # exact models differ by rounding alone
    found = identify(*duffing(400), n_states=(2, 3), functions=[Monomial(3)], progress=False)
    assert "% of the signal: record larger inputs before you rely on it" in found.verdict


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_a_long_delay_is_kept_in_states_of_its_own(n_inputs, tmp_path):
    u, y = linear_record(500)
    inputs = np.stack([u, u**2], axis=1)[:, :n_inputs]
    late = np.concatenate([np.zeros(12), y[:-12]])
    assert dead_time(Signals.read(u, y)) == 0
    found = identify(inputs, late, n_states=1, functions=[], progress=False)
    assert "after a delay of 12 samples, which it includes" in found.verdict
    assert found.model.n_states == 1 + 12 * n_inputs
    assert found.model.n_canonical == 2 + n_inputs  # a pole, an offset, and gains
    assert np.sqrt(np.mean((found.simulate(inputs, late[:50]) - late) ** 2)) < 0.03
    found.save(tmp_path / "m.safetensors")
    again = DecoupledStateSpace.load(tmp_path / "m.safetensors")
    assert again.n_canonical == found.model.n_canonical
    np.testing.assert_array_equal(again.simulate(inputs), found.simulate(inputs))


def test_a_delay_changes_nothing_but_the_time_of_inputs():
    rng, n, d = np.random.default_rng(4), 2, 3
    A, B, C, D = (rng.uniform(-0.5, 0.5, shape) for shape in ((n, n), (n, 2), (1, n), (1, 2)))
    linear = StepArrays.of_linear(A, B, C, D)
    W = rng.standard_normal((1, n + 2)), rng.standard_normal((n + 1, 1))
    g = (dc.Functions(Tanh(), [[0.0, 1.0]]),)
    step = StepArrays(W, g, linear.linear, rng.standard_normal(n + 1))
    later = with_late_inputs(FitResult(step, np.zeros((1, n)), 0.0), d).step
    u = rng.standard_normal((40, 2))

    def outputs(step, u):
        return simulate(step, RecordBatch((u,), (np.zeros((len(u), 1)),)), np.zeros((1, step.n_inputs - 2))).y

    np.testing.assert_allclose(outputs(later, u), outputs(step, np.concatenate([np.zeros((d, 2)), u[:-d]])), atol=1e-12)


# Boundedness


def runaway(k):
    """x+ = 0.5 x + 0.4 u + k x^3, y = x: stable near 0 and divergent far from it."""
    step = StepArrays.of_linear(np.array([[0.5]]), np.array([[0.4]]), np.array([[1.0]]), np.zeros((1, 1)))
    g = dc.Functions(Monomial(3), [[0.0, 0.0, 0.0, k]])
    return StepArrays((np.array([[1.0, 0.0]]), np.array([[1.0], [0.0]])), (g,), step.linear, step.offset)


def test_an_escape_names_the_first_input_that_leads_to_it():
    rng = np.random.default_rng(0)
    u = rng.uniform(-1, 1, 500)
    signals = Signals.read(u, 0.3 * u)
    units = SignalUnits(np.zeros(1), np.ones(1), np.zeros(1), np.ones(1))
    # The smaller the cubic, the larger the input that it needs to run away.
    told = [escape(runaway(k), 1, np.zeros(1), units, signals, rng) for k in (0.05, 0.35, 50.0)]
    assert told == [None, "1.5 times the training input", "the training input"]


def test_long_inputs_have_the_spectrum_of_the_record():
    u = np.sin(0.2 * np.arange(2000))[:, None] + 3.0
    (name, long) = list(trial_inputs(Signals.read(u, u), np.random.default_rng(0)))[-1]
    assert name.startswith("long random") and len(long) >= 10_000
    power = [np.abs(np.fft.rfft(part[:2000, 0])) ** 2 for part in (u, long)]
    np.testing.assert_allclose(power[1], power[0], rtol=1e-6, atol=1e-6 * power[0].max())


@pytest.mark.parametrize("bases", [(Monomial(3),), (Monomial(3), Tanh()), (Spline(4), Monomial(2))])
@pytest.mark.parametrize("tails", ["linear", "constant"])
def test_tails_change_nothing_along_the_record_and_end_the_growth(bases, tails):
    rng = np.random.default_rng(1)
    layer_of = [dc.Functions(b, [[0.0, *rng.standard_normal(b.size)]]) for b in bases]
    size = max(g.C.shape[1] for g in layer_of)
    C = np.array([np.pad(g.C[0], (0, size - g.C.shape[1])) for g in layer_of])
    g = dc.Functions(bases, C, (-1.0, 1.0))
    W = rng.standard_normal((len(bases), 2)), rng.standard_normal((2, len(bases)))
    step = StepArrays(W, (g,), np.eye(2), np.zeros(2))
    points = 0.2 * rng.uniform(-1, 1, (50, 2))
    ended = with_tails(step, points, tails)
    np.testing.assert_allclose(ended.values(points), step.values(points), atol=1e-9)
    direction = np.array([1.0, 0.3])
    a, b, c = (ended.values(s * direction[None]) - s * direction @ np.eye(2) for s in (1e3, 2e3, 3e3))
    np.testing.assert_allclose(c - b, b - a, atol=1e-6 * (1.0 + np.abs(b).max()))
    if tails == "constant":
        np.testing.assert_allclose(a, b)


# Stable by design


def test_a_stable_model_has_a_bounded_output_for_any_bounded_input():
    u, y = duffing(400)
    model = DecoupledStateSpace(2, [Monomial(3)], stable=True).fit(u, y, n_starts=1, progress=False)
    assert model.fitted.rmse[0] < 0.1 * model.fitted.linear_rmse[0]
    step = StepArrays.of(model.step)
    assert spectral_radius(step, 2) < 1.0 and all(is_bounded(b) for b in step.layers[0].bases)
    states = Recursion(step, 2, {}).states(step, (1e3 * u).tolist(), [0.0, 0.0])
    assert len(states) == len(u) and np.abs(states).max() < 1e6


def test_functions_of_a_stable_model_must_be_bounded():
    with pytest.raises(dc.InputError, match="`functions` must be bounded"):
        DecoupledStateSpace(1, [dc.bases.ReLU()], stable=True)
    with pytest.raises(dc.InputError, match="an integrator is not stable"):
        DecoupledStateSpace(2, [Monomial(3)], stable=True, integrating=True)
    DecoupledStateSpace(1, [StateFunction(Tanh())], stable=True)


# The data


def test_the_last_and_the_loudest_part_are_held_back():
    y = np.full((1000, 1), 0.1)
    y[450] = 5.0
    u = np.zeros((1000, 1))
    u[:, 0] = np.arange(1000)
    training, held = parted(RecordBatch((1e-9 * u,), (y,)))
    times = [np.round(1e9 * part[:, 0]).astype(int) for part in held.u]
    assert [(t[0], t[-1]) for t in times] == [(400, 499), (900, 999)]
    assert [len(part) for part in training.u] == [400, 400]
    training, held = parted(RecordBatch((u[:120],), (y[:120],)))
    assert (len(training.all_y), len(held.all_y)) == (90, 30)


def test_a_record_is_cut_at_its_gaps():
    u, y = duffing(700)
    y = y.copy()
    y[[100, 105, 400]] = math.nan
    found = identify(np.ma.masked_array(u, mask=np.arange(700) == 101), y, **CUBIC)
    told = "Gaps: 4 of 700 samples have NaN or infinity. The fit uses 3 pieces without gaps, 693 samples in all"
    assert f"{told}, and leaves out 1 shorter than 60 samples." in found.verdict
    u, y = duffing(300, seed=9)
    np.testing.assert_allclose(found.simulate(u, y[:30])[2:], y[2:], atol=1e-5)


@pytest.mark.parametrize(("slope", "told"), [(0.0, False), (1.0, True)])
def test_a_drift_is_told_and_a_slow_system_is_none(slope, told):
    u, y = linear_record()
    line = RecordBatch((u[:, None],), ((y + slope * np.arange(300) / 300)[:, None],))
    assert [bool(remarks_on_drift(line, (), n)) for n in (1, 2)] == [told, told]
    assert not remarks_on_drift(RecordBatch((u[:, None],), (np.cumsum(u)[:, None],)), (), 1)


def test_a_drift_is_in_the_verdict():
    u, y = linear_record()
    found = identify(u, y + np.arange(300) / 300, n_states=1, functions=[], progress=False)
    assert "The output drifts: a straight line in time lowers the error of a linear model from" in found.verdict


@pytest.mark.parametrize(
    ("spoiled", "told"),
    [
        (lambda u, y: (np.ones_like(u), y), "`u` must vary. It is 1 throughout: nothing can be learnt"),
        (lambda u, y: (u, 0.0 * y), "`y` must vary"),
        (lambda u, y: (u[:12], y[:12]), "must hold a record of at least"),
        (lambda u, y: (u, math.nan * y), "Every sample has NaN or infinity"),
        (lambda u, y: (u, np.where(np.arange(400) % 9, y, math.nan)), "Gaps: 45 of 400 samples have NaN"),
        (lambda u, y: (u[:-3], y), "must have the same length. Got 397 and 400 samples"),
        (lambda u, y: ([u, u], [y]), "must hold as many records. Got 2 and 1"),
        (lambda u, y: (np.stack([u, 0.0 * u], axis=1), y), "`u[:, 1]` must vary. It is 0 throughout"),
        (lambda u, y: (u[None], y[None]), "must have time along the first axis"),
        (lambda u, y: (u.astype(str), y), "real numbers. Got entries of type"),
        (lambda u, y: ([], []), "`u` must hold samples"),
    ],
)
def test_a_record_that_cannot_be_used_is_refused_in_one_sentence(spoiled, told):
    u, y = duffing(400)
    with pytest.raises(dc.InputError, match=re.escape(told)):
        identify(*spoiled(u, y.copy()), progress=False)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (0.0, "`sampling_time` must be a number above 0. Got 0"),
        ("fast", "`sampling_time` must be a number above 0. Got 'fast'"),
        (np.arange(399.0), "hold the time of every sample of `u`. Got shape (399, 1) for 400 samples"),
        (np.delete(np.arange(401.0), 7), "must hold times in equal steps. Steps are 1 to 2 s"),
        (-np.arange(400.0), "must hold times in equal steps. Steps are -1 to -1 s"),
        (np.full(400, 0.1), "must hold times in equal steps. Steps are 0 to 0 s"),  # steps in place of times
        (np.full(400, math.nan), "must hold times in equal steps. No two of them are known"),
    ],
)
def test_a_wrong_sampling_time_is_refused_in_one_sentence(given, told):
    with pytest.raises(dc.InputError, match=re.escape(told)):
        identify(*duffing(400), sampling_time=given, progress=False)


def test_functions_that_are_no_list_are_refused():
    with pytest.raises(dc.InputError, match="`functions` must be a list with one basis per function"):
        identify(*linear_record(), functions=3)


def test_a_model_keeps_the_sampling_time(tmp_path):
    u, y = linear_record(500)
    late, times = np.concatenate([np.zeros(12), y[:-12]]), np.round(0.05 * np.arange(500), 2)
    late[200], times[200] = math.nan, math.nan
    found = identify(u, late, n_states=1, functions=[], sampling_time=times, progress=False)
    assert found.model.sampling_time == 0.05
    assert "after a delay of 12 samples (0.6 s), which it includes" in found.verdict
    found.save(tmp_path / "m.safetensors")
    again = DecoupledStateSpace.load(tmp_path / "m.safetensors")
    assert again.sampling_time == found.model.sampling_time
    again.save_fmu(tmp_path / "m.fmu")
    with zipfile.ZipFile(tmp_path / "m.fmu") as fmu:
        (step,) = re.findall(r'stepSize="([^"]+)"', fmu.read("modelDescription.xml").decode())
    assert float(step) == pytest.approx(0.05)


def test_an_input_of_two_values_is_told():
    u, y = duffing(400)
    found = identify(np.sign(u), y, n_states=1, functions=[Monomial(3)], progress=False)
    told = "`u` has only two values, which say nothing about curves of the input"
    assert told in found.verdict
    with pytest.warns(dc.DecouplingWarning, match=told):
        DecoupledStateSpace(1, [Monomial(3)]).fit(np.sign(u), y, n_starts=1, progress=False)
