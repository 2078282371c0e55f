"""FMUs: FMPy finds them valid, runs them, and gets the numbers of the model."""

import shutil
import subprocess
import zipfile

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc
from decouply.sysid import DecoupledStateSpace
from decouply.write import _fmu
from decouply.write._fmu import input_starts, save_fmu
from tests.write.models import points, random_model

fmpy = pytest.importorskip("fmpy")
GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="needs gcc to make the binary of an FMU: install it")
NAMES = (["speed [rpm]", "T [K]", "flow"], ['power "net" [kW]', "loss & more"])


@pytest.fixture(scope="module")
def map_model():
    return random_model([(dc.Spline(4), dc.bases.Tanh())], "linear", linear=True, offset=True, names=NAMES)


@pytest.fixture(scope="module")
def map_file(map_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("fmu") / "pump-map.fmu"
    map_model.save_fmu(path)
    return path


@pytest.fixture(scope="module")
def step():
    """(x, u) -> (x+, y) with two states, two inputs and one output, in which the second input passes through."""
    g = dc.Functions(dc.Monomial(3), [[0.1, 0.2, 0.3, -0.1], [0.0, 0.5, -0.2, 0.1]])
    A = [[0.5, 0.2, 1.0, 0.0], [-0.3, 0.6, 0.0, 0.2], [1.0, 0.0, 0.0, 0.7]]
    W = [[[0.3, 0.1, 0.5, 0.0], [0.0, 0.4, 0.1, 0.0]], [[0.3, 0.1], [0.2, -0.3], [0.0, 0.0]]]
    names = (["position [m]", "speed [m/s]", "force [N]", "load [N]"], ["next position", "next speed", "sensor [V]"])
    return dc.Decoupling(W, [g], linear=A, inputs=names[0], outputs=names[1])


@pytest.fixture(scope="module")
def plant(step, tmp_path_factory):
    path = tmp_path_factory.mktemp("fmu") / "plant.fmu"
    save_fmu(step, path, states=np.array([0.4, -0.2]), sampling_time=0.1)
    return path


def problems(path):
    from fmpy.validation import validate_fmu

    return validate_fmu(str(path))


def free_run(step, x, u):
    y = []
    for row in u:
        out = step([[*x, *row]])[0]
        x, last = out[:2], out[2]
        y.append(last)
    return np.array(y)


class Instance:
    """One instance of an FMU for co-simulation, as an importer drives it."""

    def __init__(self, path, folder):
        from fmpy.fmi2 import FMU2Slave

        about = fmpy.read_model_description(str(path))
        self.number = {v.name: v.valueReference for v in about.modelVariables}
        unzipped = str(folder)
        if not folder.exists():  # instances share one library
            fmpy.extract(str(path), unzipdir=unzipped)
        identifier = about.coSimulation.modelIdentifier
        self.fmu = FMU2Slave(guid=about.guid, unzipDirectory=unzipped, modelIdentifier=identifier, instanceName="one")
        self.fmu.instantiate()

    def begin(self, **starts):
        self.fmu.setupExperiment(startTime=0.0)
        self.fmu.enterInitializationMode()
        for name, value in starts.items():
            self.fmu.setReal([self.number[f"{name} at start"]], [value])
        self.fmu.exitInitializationMode()

    def run(self, u, k=0, dt=0.1):
        y = []
        for t, row in enumerate(u, start=k):
            self.fmu.setReal([0, 1], list(map(float, row)))
            y += self.fmu.getReal([self.number["sensor"]])
            self.fmu.doStep(currentCommunicationPoint=t * dt, communicationStepSize=dt)
        return np.array(y)

    def end(self):
        self.fmu.terminate()
        self.fmu.freeInstance()


def test_a_map_is_valid_and_has_names_units_and_descriptions(map_model, map_file):
    assert problems(map_file) == []
    about = fmpy.read_model_description(str(map_file))
    found = [(v.name, v.unit, v.description, v.causality) for v in about.modelVariables]
    assert found == [
        ("speed", "rpm", "speed [rpm]", "input"),
        ("T", "K", "T [K]", "input"),
        ("flow", None, "flow", "input"),
        ('power "net"', "kW", 'power "net" [kW]', "output"),
        ("loss & more", None, "loss & more", "output"),
    ]
    assert about.coSimulation.modelIdentifier == "pump_map"
    starts = [float(v.start) for v in about.modelVariables[:3]]
    middle = map_model.W[0] @ starts
    assert_allclose(middle, map_model.g[0].middle, atol=1e-9)


@pytest.mark.parametrize("kind", ["CoSimulation", "ModelExchange"])
def test_a_map_gives_the_values_of_the_model(map_model, map_file, kind):
    X = points(6)
    signals = np.array(
        [(float(t), *x) for t, x in enumerate(X)], dtype=[(c, float) for c in ("time", "speed", "T", "flow")]
    )
    run = fmpy.simulate_fmu(
        str(map_file),
        fmi_type=kind,
        solver="Euler",
        input=signals,
        output_interval=1.0,
        step_size=1.0,
        stop_time=5.0,
    )
    found = np.stack([run[name] for name in ('power "net"', "loss & more")], axis=1)
    # Co-simulation holds the inputs of the step before.
    expected = map_model(X) if kind == "ModelExchange" else map_model(X[[0, 0, 1, 2, 3, 4]])
    assert_allclose(found, expected, rtol=1e-12)


def test_directional_derivatives_are_the_jacobian(map_model, map_file, tmp_path):
    one = Instance(map_file, tmp_path / "m")
    one.begin()
    for x in points(3):
        one.fmu.setReal([0, 1, 2], x.tolist())
        found = [one.fmu.getDirectionalDerivative([3, 4], [j], [1.0]) for j in range(3)]
        assert_allclose(np.array(found).T, map_model.jacobian(x[None])[0], rtol=1e-12)
    with pytest.raises(Exception, match="fmi2GetDirectionalDerivative"):
        one.fmu.getDirectionalDerivative([0], [1], [1.0])
    one.end()


def test_models_with_memory_are_valid(plant):
    assert problems(plant) == []
    about = fmpy.read_model_description(str(plant))
    found = {v.name: (v.causality, v.variability, v.unit) for v in about.modelVariables}
    assert found["position at start"] == ("parameter", "fixed", "m")
    assert found["position"] == ("local", "discrete", "m")
    assert found["sensor"] == ("output", "continuous", "V")
    assert [v.variable.name for v in about.outputs] == ["sensor"]
    assert [v.name for v in about.outputs[0].dependencies] == ["load"]  # no algebraic loop by the force
    assert about.defaultExperiment.stepSize == "0.1"


def test_a_run_is_that_of_the_model_from_any_initial_state_and_again_after_a_reset(plant, step, tmp_path):
    u = np.random.default_rng(0).uniform(-1, 1, (30, 2))
    one = Instance(plant, tmp_path / "plant")
    one.begin()
    assert_allclose(one.run(u), free_run(step, [0.4, -0.2], u), rtol=0, atol=1e-12)
    one.fmu.reset()
    one.begin(position=-0.3, speed=0.1)
    assert_allclose(one.run(u), free_run(step, [-0.3, 0.1], u), rtol=0, atol=1e-12)
    with pytest.raises(Exception, match="fmi2SetReal"):  # too late
        one.fmu.setReal([one.number["speed at start"]], [0.0])
    one.end()


def test_states_can_be_kept_and_several_instances_run_beside_each_other(plant, step, tmp_path):
    u, v = np.random.default_rng(1).uniform(-1, 1, (2, 20, 2))
    one = Instance(plant, tmp_path / "plant")
    other = Instance(plant, tmp_path / "plant")
    one.begin()
    other.begin(position=0.0, speed=0.0)
    expected = free_run(step, [0.4, -0.2], u)
    first = one.run(u[:10])
    kept = one.fmu.getFMUstate()
    apart = one.fmu.serializeFMUstate(kept)
    assert_allclose(other.run(v), free_run(step, [0.0, 0.0], v), rtol=0, atol=1e-12)
    assert_allclose(np.r_[first, one.run(u[10:], 10)], expected, rtol=0, atol=1e-12)
    for state in (kept, one.fmu.deSerializeFMUstate(apart)):
        one.fmu.setFMUstate(state)
        assert_allclose(one.run(u[10:], 10), expected[10:], rtol=0, atol=1e-12)
        one.fmu.freeFMUstate(state)
    one.end()
    other.end()


def test_communication_steps_may_be_longer_or_shorter_than_samples(plant, step, tmp_path):
    u = np.repeat(np.random.default_rng(2).uniform(-1, 1, (5, 2)), 4, axis=0)
    expected = free_run(step, [0.4, -0.2], u)
    one = Instance(plant, tmp_path / "plant")
    one.begin()
    assert_allclose(one.run(u[::4], dt=0.4), expected[::4], atol=1e-12)
    one.fmu.reset()
    one.begin()
    held = np.repeat(u, 4, axis=0)
    assert_allclose(one.run(held, dt=0.025)[::4], expected, atol=1e-12)
    one.end()


def test_model_exchange_steps_at_events(plant, step):
    u = np.random.default_rng(3).uniform(-1, 1, (12, 2))
    held = [(t + shift, *row) for t, row in zip(0.1 * np.arange(12), u, strict=True) for shift in (0.0, 0.1)]
    signals = np.array(held, dtype=[("time", float), ("force", float), ("load", float)])
    run = fmpy.simulate_fmu(
        str(plant), fmi_type="ModelExchange", solver="Euler", input=signals, step_size=0.05, output_interval=0.05,
        stop_time=1.0, record_events=False,
    )  # fmt: skip
    between = np.arange(1, 20, 2)  # in the middle of samples, where nothing jumps
    assert_allclose(run["sensor"][between], free_run(step, [0.4, -0.2], u)[:10], atol=1e-12)


def test_state_space_models_run_as_they_simulate(tmp_path):
    u = np.random.default_rng(0).uniform(-1, 1, 150)
    y = np.zeros(150)
    for t in range(2, 150):
        y[t] = 0.5 * y[t - 1] - 0.2 * y[t - 2] + np.tanh(u[t - 1])
    model = DecoupledStateSpace(2, functions=[dc.Monomial(3)]).fit(u, y, n_starts=1, progress=False)
    model.save_fmu(tmp_path / "m.fmu", sampling_time=0.5)
    assert problems(tmp_path / "m.fmu") == []
    signals = np.array([(0.5 * t, v) for t, v in enumerate(u)], dtype=[("time", float), ("u", float)])
    one = Instance(tmp_path / "m.fmu", tmp_path / "m")
    one.begin()
    found = []
    for t, row in enumerate(signals):
        one.fmu.setReal([0], [row["u"]])
        found += one.fmu.getReal([1])
        one.fmu.doStep(currentCommunicationPoint=0.5 * t, communicationStepSize=0.5)
    one.end()
    assert_allclose(found, model.simulate(u), rtol=0, atol=1e-9)


def test_sources_compile_without_warnings_and_with_a_prefix(plant, map_file, tmp_path):
    flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-c"]
    for path, prefix in ((plant, "plant"), (map_file, "pump_map")):
        with zipfile.ZipFile(path) as archive:
            (tmp_path / "model.c").write_bytes(archive.read("sources/model.c"))
        done = subprocess.run([GCC, *flags, "model.c"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"{prefix}_fmi2DoStep".encode() in (tmp_path / "model.o").read_bytes()


def test_a_model_without_a_compiler_is_sources_alone_and_says_so(map_model, tmp_path, monkeypatch):
    monkeypatch.setattr(_fmu, "_COMPILERS", ("no-such-compiler", "nor-this"))
    with pytest.warns(dc.DecouplingWarning, match="no no-such-compiler or nor-this here"):
        map_model.save_fmu(tmp_path / "m.fmu")
    with zipfile.ZipFile(tmp_path / "m.fmu") as archive:
        assert archive.namelist() == ["modelDescription.xml", "sources/model.c"]
    assert problems(tmp_path / "m.fmu") == []


def test_files_are_the_same_for_the_same_model_and_end_in_fmu(map_model, map_file, tmp_path):
    map_model.save_fmu(tmp_path / "pump-map.fmu")
    assert map_file.read_bytes() == (tmp_path / "pump-map.fmu").read_bytes()
    with pytest.raises(dc.InputError, match=r"must end in \.fmu"):
        map_model.save_fmu(tmp_path / "m.zip")
    assert input_starts(dc.systems.f1()).tolist() == [0.0, 0.0]
