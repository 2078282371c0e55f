"""Files, pages, pictures and predictions of state-space models."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc

from .systems import noisy


@pytest.fixture(scope="module")
def record():
    return noisy(0, n=300)


@pytest.fixture(scope="module")
def model(record):
    functions = [dc.Monomial(3), dc.sysid.StateFunction(dc.bases.Tanh())]
    return dc.sysid.DecoupledStateSpace(2, functions).fit(*record, n_starts=1, progress=False)


def test_a_saved_model_runs_as_before(model, record, tmp_path):
    u, y = record
    for some in (model, model.canonical()):
        some.save(tmp_path / "m.safetensors")
        read = dc.sysid.DecoupledStateSpace.load(tmp_path / "m.safetensors")
        assert_allclose(read.simulate(u, y[:30]), some.simulate(u, y[:30]), rtol=1e-12)
        assert_allclose(read.simulate(u), some.simulate(u), rtol=1e-12)
        assert read.n_parameters == some.n_parameters
        assert read.canonical().n_parameters == model.canonical().n_parameters
        assert read.starts == some.starts
        assert_allclose(read.baseline().A, model.baseline().A)


def test_the_same_file_is_one_step_as_a_decoupling(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    step = dc.Decoupling.load(tmp_path / "m.safetensors")
    assert step.inputs == ("x1", "x2", "u")
    assert_allclose(step([[0.1, 0.2, 0.3]]), model.step([[0.1, 0.2, 0.3]]))


def test_other_files_are_refused(tmp_path):
    dc.systems.f1().save(tmp_path / "f1.safetensors")
    with pytest.raises(dc.ModelFileError, match="must hold a state-space model"):
        dc.sysid.DecoupledStateSpace.load(tmp_path / "f1.safetensors")


def test_onnx_of_one_step(model, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    model.save_onnx(tmp_path / "step.onnx", dtype="float64")
    point = np.array([[0.1, 0.2, 0.3]])
    out = runtime.InferenceSession(str(tmp_path / "step.onnx")).run(None, {"x": point})[0]
    assert_allclose(out, model.step(point), rtol=1e-9)


def test_one_step_predictions_use_the_measured_past(record):
    model = dc.sysid.DecoupledStateSpace(2, [dc.Monomial(3)]).fit(*record, n_starts=1, progress=False)
    rng = np.random.default_rng(1)
    u, y = rng.uniform(-1, 1, 300), np.zeros(300)
    for t in range(2, 300):  # the oscillator is pushed by something that is not measured
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.3 * u[t - 1] - 0.1 * y[t - 1] ** 3 + 0.1 * rng.standard_normal()
    free = np.std((y - model.simulate(u, y[:30]))[30:])
    assert np.std((y - model.predict_one_step(u, y, window=2))[30:]) < 0.7 * free
    assert np.std((y - model.predict_one_step(u, y))[30:]) < 0.9 * free
    with pytest.raises(dc.InputError, match="more than `window`"):
        model.predict_one_step(u[:4], y[:4])


def test_corrections_to_first_order_are_exact_for_linear_models(model, record):
    """A free run from a wrong state, corrected by the outputs of the right one, meets the right one."""
    u, y = record
    twin = model.linear_twin()
    right = twin.simulate(u, y[:30])
    assert_allclose(twin.predict_one_step(u, right)[30:], right[30:], atol=1e-6)


def test_the_page_tells_errors_in_words_and_needs_no_network(model, tmp_path):
    model.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "% of the signal" in text
    assert "the linear model with 2 states leaves" in text
    assert "physical (chosen)" in text
    assert text.count("<svg") == 9  # one is the response to a step
    assert "http://" not in text.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    )


def test_pictures_are_drawn(model, record):
    assert model.plot().axes
    assert len(model.plot_response().axes) == 4
    with pytest.raises(dc.InputError, match="given together"):
        model.plot_response(record[0])


def test_a_model_from_a_file_has_no_records_to_show(model, record, tmp_path):
    model.save(tmp_path / "m.safetensors")
    read = dc.sysid.DecoupledStateSpace.load(tmp_path / "m.safetensors")
    with pytest.raises(dc.InputError, match="`u` and `y` must be given"):
        read.report(tmp_path / "page.html")
    read.report(tmp_path / "page.html", *record, title="Other <record>")
    assert "Other &lt;record&gt;" in (tmp_path / "page.html").read_text(encoding="utf-8")
