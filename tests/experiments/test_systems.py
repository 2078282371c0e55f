"""The first call on simulated systems: records, the models of others, and what is counted."""

import json
import math

import numpy as np
import pytest

from experiments.dynamic import systems
from experiments.dynamic.forward_regression import fit_arx, fit_frols
from experiments.dynamic.physical_systems import SYSTEMS, multisine
from experiments.dynamic.systems import METHODS, SYSTEMS_EXPERIMENT, counts

FEW = ("identify", "linear", "ARX")


@pytest.fixture(scope="module")
def content(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(systems, "_TRAINING", 250)
        patch.setattr(systems, "_TEST", 100)
        patch.setattr(systems, "METHODS", {name: METHODS[name] for name in FEW})
        folder = tmp_path_factory.mktemp("systems")
        return SYSTEMS_EXPERIMENT.run(folder, n_records=1, max_seconds=0.2, only=("valve",))


def test_every_method_has_errors_on_both_tests(content, tmp_path, monkeypatch):
    monkeypatch.setattr(systems, "METHODS", {name: METHODS[name] for name in FEW})
    (system,) = content["systems"].values()
    assert {run["method"] for run in system["runs"]} == set(FEW)
    assert all(0.0 < e < 1.0 for errors in system["errors"].values() for e in errors)
    SYSTEMS_EXPERIMENT.write(content, tmp_path)
    assert "valve with a dead zone" in (tmp_path / "systems.md").read_text()
    assert json.loads((tmp_path / "systems.json").read_text()) == content


def test_where_the_first_call_is_first_worse_than_linear_or_diverges_is_counted(content):
    (name,) = content["systems"]

    def with_errors(ours):
        errors = {"identify": ours, "linear": [0.3, 0.3], "ARX": [0.1, 0.1]}
        runs = [{"method": "identify", "errors": ours}]
        return {"systems": {name: {"errors": errors, "runs": runs}}}

    assert counts(with_errors([0.1, 0.109])) == {"first": 1, "worse": 0, "diverges": 0}
    assert counts(with_errors([0.05, 0.12])) == {"first": 0, "worse": 0, "diverges": 0}
    assert counts(with_errors([0.05, 0.31])) == {"first": 0, "worse": 1, "diverges": 0}
    assert counts(with_errors([0.05, None])) == {"first": 0, "worse": 1, "diverges": 1}


def test_a_multisine_has_equal_amplitudes_up_to_its_band():
    u = multisine(1000, 0.05, np.random.default_rng(0))
    size = np.abs(np.fft.rfft(u))
    assert size[1:51].min() > 0.999 * size[1:51].max() and max(size[0], size[51:].max()) < 1e-9 * size[1]
    assert u.std() == pytest.approx(1.0)


@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_stays_where_it_is_without_a_change_of_its_input(name):
    made = SYSTEMS[name](np.random.default_rng(0))
    again = SYSTEMS[name](np.random.default_rng(0))
    u, y = made.record(30, np.random.default_rng(1), amplitude=0.3)
    np.testing.assert_array_equal(y, again.record(30, np.random.default_rng(1), amplitude=0.3)[1])
    assert np.isfinite(y).all() and np.ptp(y) > 0.0 and u.min() >= made.least


def test_forward_regression_finds_the_terms_of_an_exact_system():
    rng = np.random.default_rng(0)
    u, y = rng.uniform(-1, 1, 400), np.zeros(400)
    for t in range(2, 400):
        y[t] = 0.5 * y[t - 1] - 0.2 * y[t - 2] + 0.3 * u[t - 1] + 0.1 * u[t] * y[t - 1]
    np.testing.assert_allclose(fit_frols(u[:300], y[:300])(u[300:], y[300:305]), y[300:], atol=1e-6)
    v = np.zeros(400)
    for t in range(2, 400):
        v[t] = 0.5 * v[t - 1] - 0.2 * v[t - 2] + 0.3 * u[t - 1]
    np.testing.assert_allclose(fit_arx(u[:300], v[:300] + 1.0)(u[300:], v[300:310] + 1.0), v[300:] + 1.0, atol=1e-6)


def test_a_free_run_that_diverges_is_not_a_number():
    rng = np.random.default_rng(0)
    u, y = rng.uniform(-1, 1, 400), np.zeros(400)
    for t in range(2, 400):
        y[t] = 0.9 * y[t - 1] + 0.1 * u[t - 1] + 0.3 * u[t - 1] * y[t - 1]
    assert math.isnan(fit_frols(u, y)(5.0 * np.ones(100), y[:5])[-1])
