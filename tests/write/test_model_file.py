"""Files of models and results: what is saved comes back, old files open, and wrong ones are refused."""

import dataclasses
import json

import numpy as np
import pytest
import safetensors.numpy
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import save_file

import decouply as dc
from decouply.bases import OWN_BASES
from tests.report.results import MAKERS
from tests.strategies import Bend
from tests.write.models import OUTSIDES, own_basis, points, random_model

ALL = [*(own_basis(cls, 3) for cls in OWN_BASES), (dc.Monomial(3), dc.bases.Tanh())]


@pytest.mark.parametrize("outside", OUTSIDES)
@pytest.mark.parametrize("basis", ALL, ids=repr)
def test_a_saved_model_comes_back_as_it_was(basis, outside, tmp_path):
    bases = basis if isinstance(basis, tuple) else (basis, basis)
    for names in (None, (["a", "<\n\ud800>", "c"], ["p", "ü"])):
        model = random_model([bases, bases[::-1]], outside, linear=bool(names), offset=bool(names), names=names)
        model.save(tmp_path / "m.safetensors")
        again = dc.Decoupling.load(tmp_path / "m.safetensors")
        assert_array_equal(again(points()), model(points()))
        assert [g.basis for g in again.g] == [g.basis for g in model.g]
        assert [g.outside for g in again.g] == [outside] * 2
        assert (again.inputs, again.outputs) == (model.inputs, model.outputs)
        assert (again.linear is None, again.offset is None) == (names is None, names is None)
        assert_array_equal(again.g[1].domain, model.g[1].domain)
        assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_the_same_model_gives_the_same_file(tmp_path):
    model = random_model([(dc.Monomial(2),)], linear=True, offset=True, names=(["a", "b", "c"], ["p", "q"]))
    found = set()
    for i in range(8):  # metadata of safetensors are in another order each time
        model.save(tmp_path / f"{i}.safetensors")
        found.add((tmp_path / f"{i}.safetensors").read_bytes())
    assert len(found) == 1
    content = found.pop()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert list(header) == ["C1", "W0", "W1", "__metadata__", "domain1", "linear", "offset"]
    assert list(header["__metadata__"]) == ["bases", "format", "inputs", "outputs", "outside", "version"]


# Version 1


def first_version(path, W, C, bases):
    arrays = {f"W{l}": np.asarray(w) for l, w in enumerate(W)} | {f"C{l + 1}": np.asarray(c) for l, c in enumerate(C)}
    metadata = {"format": "decoupling", "version": "1", "bases": json.dumps(bases)}
    safetensors.numpy.save_file(arrays, path, metadata=metadata)


def test_files_of_the_first_version_still_open(tmp_path):
    """The bases as they were: Chebyshev and Bernstein with a radius, monomials with a scale, u^k s^(1 - k) / k."""
    path, rng = tmp_path / "old.safetensors", np.random.default_rng(0)
    bases = [
        {"name": "Chebyshev", "fields": {"degree": 3, "radius": 2.5}},
        {"name": "Bernstein", "fields": {"degree": 2, "radius": 0.5}},
        {"name": "ScaledMonomial", "fields": {"degree": 3, "scale": 0.25}},
        {"name": "Monomial", "fields": {"degree": 2}},
        {"name": "Trigonometric", "fields": {"count": 3}},
    ]
    C = rng.normal(size=(5, 4))
    C[[1, 3], 3] = 0.0
    W = [rng.normal(size=(5, 2)), rng.normal(size=(1, 5)), rng.normal(size=(2, 1))]
    first_version(path, W, [C, [[0.5, 0.0, 2.0]]], [bases, bases[3:4]])
    X = rng.uniform(-1.0, 1.0, (20, 2))
    u = (X @ W[0].T).T
    t, s = u[0] / 2.5, (u[1] / 0.5 + 1.0) / 2.0
    z = np.stack(
        [
            C[0, 0] + C[0, 1] * t + C[0, 2] * (2 * t**2) + C[0, 3] * (4 * t**3 - 3 * t),
            C[1, 0] + C[1, 1] * (2 * s * (1 - s) - 0.5) + C[1, 2] * (s**2 - 0.25),
            C[2, 0] + sum(C[2, k] * u[2] ** k * 0.25 ** (1 - k) / k for k in (1, 2, 3)),
            C[3, 0] + C[3, 1] * u[3] + C[3, 2] * u[3] ** 2,
            C[4, 0] + C[4, 1] * np.cos(u[4]) + C[4, 2] * np.sin(u[4]) + C[4, 3] * np.cos(2 * u[4]),
        ],
        axis=1,
    )
    model = dc.Decoupling.load(path)
    assert_allclose(model(X), (0.5 + 2.0 * (z @ W[1].T) ** 2) @ W[2].T, rtol=1e-12)
    assert_array_equal(model.g[0].domain[:, 1], [2.5, 0.5, 0.25, 1.0, 1.0])
    assert model.g[0].outside == "extend" and model.linear is None
    model.save(path)
    assert_array_equal(dc.Decoupling.load(path)(X), model(X))


@pytest.mark.parametrize("radius", [0.0, -1.0, float("nan"), "x", None])
def test_wrong_files_of_the_first_version_give_clear_errors(radius, tmp_path):
    path = tmp_path / "old.safetensors"
    fields = {"degree": 1} if radius is None else {"degree": 1, "radius": radius}
    first_version(path, [np.eye(1), np.eye(1)], [[[0.0, 1.0]]], [[{"name": "Chebyshev", "fields": fields}]])
    with pytest.raises(dc.ModelFileError, match="do not fit together"):
        dc.Decoupling.load(path)


# What cannot be


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("domain1", [[1.0, 1.0]]),
        ("domain1", [[np.nan, 1.0]]),
        ("domain1", [[-1.0, 1.0], [-1.0, 1.0]]),
        ("domain1", None),
        ("linear", [[1.0, 1.0]]),
        ("offset", [1.0, 2.0]),
        ("outside", '["clamp"]'),
        ("outside", "[1]"),
        ("outside", "[]"),
        ("outside", None),
        ("inputs", '["a", "b"]'),
        ("inputs", "[1]"),
        ("outputs", '"y"'),
        ("bases", "[" * 100_000),
    ],
)
def test_wrong_parts_of_a_file_give_clear_errors(part, value, tmp_path):
    path = tmp_path / "m.safetensors"
    bases = '[[{"name": "Monomial", "fields": {"degree": 1}}]]'
    metadata = {"format": "decoupling", "version": "2", "bases": bases, "outside": '["linear"]'}
    arrays = {"W0": np.eye(1), "W1": np.eye(1), "C1": np.ones((1, 2)), "domain1": np.array([[0.0, 2.0]])}
    safetensors.numpy.save_file(arrays, path, metadata=metadata)
    assert_array_equal(dc.Decoupling.load(path)([[1.0]]), [[1.0]])
    if isinstance(value, str) or part == "outside":
        metadata[part] = value
    else:
        arrays[part] = None if value is None else np.array(value)
    arrays, metadata = ({k: v for k, v in given.items() if v is not None} for given in (arrays, metadata))
    safetensors.numpy.save_file(arrays, path, metadata=metadata)
    with pytest.raises(dc.ModelFileError, match="do not fit together"):
        dc.Decoupling.load(path)


def test_a_users_own_basis_must_be_named_when_its_model_is_loaded(tmp_path):
    model = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Bend(2.0), [[0.0, 1.0]])])
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(dc.ModelFileError, match=r"bases=\[Bend\]"):
        dc.Decoupling.load(tmp_path / "m.safetensors")
    assert dc.Decoupling.load(tmp_path / "m.safetensors", bases=[Bend]).g[0].basis == Bend(2.0)


@pytest.mark.parametrize("keep", [0, 4, 20, 200, -8])
def test_a_truncated_file_gives_a_clear_error(keep, tmp_path):
    path = tmp_path / "m.safetensors"
    dc.systems.f1().save(path)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(dc.ModelFileError, match="damaged or of another kind"):
        dc.Decoupling.load(path)


def test_foreign_newer_and_inconsistent_files_give_clear_errors(tmp_path):
    path = tmp_path / "m.safetensors"
    save_file({"a": np.ones(2)}, path)
    with pytest.raises(dc.ModelFileError, match="holds other tensors"):
        dc.Decoupling.load(path)
    save_file({"a": np.ones(2)}, path, metadata={"format": "decoupling", "version": "99", "bases": "[]"})
    with pytest.raises(dc.ModelFileError, match=r"must have format version 1 or 2\. Got 99"):
        dc.Decoupling.load(path)
    for bases in ("[[]]", "nonsense", '[[{"name": "Monomial", "fields": {"power": 2}}]]', "{}"):
        save_file({"W0": np.ones((1, 1))}, path, metadata={"format": "decoupling", "version": "1", "bases": bases})
        with pytest.raises(dc.ModelFileError, match="do not fit together"):
            dc.Decoupling.load(path)
    with pytest.raises(dc.ModelFileError, match="File not found"):
        dc.Decoupling.load(tmp_path / "missing.safetensors")


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "m.safetensors"
    dc.systems.f1().save(path)
    old = path.read_bytes()
    model = dc.Decoupling([np.eye(1), np.eye(1)], [dc.Functions(Bend(np.float32(2)), [[0.0, 1.0]])])
    with pytest.raises(dc.InputError, match="to be saved"):
        model.save(path)
    assert path.read_bytes() == old
    assert len(list(tmp_path.iterdir())) == 1
    with pytest.raises(dc.InputError, match="does not exist"):
        dc.systems.f1().save(tmp_path / "no" / "m.safetensors")


def test_a_basis_of_your_own_needs_a_name_of_its_own(tmp_path):
    """A file with another Tanh would open with ours."""
    Tanh = dataclasses.make_dataclass("Tanh", [], bases=(dc.bases.Absolute,), frozen=True)
    model = dc.Decoupling([[[1.0]], [[1.0]]], [dc.Functions(Tanh(), [[0.0, 1.0]])])
    with pytest.raises(dc.InputError, match=r"Got a class Tanh beside dc.bases.Tanh: .* Rename the class"):
        model.save(tmp_path / "m.safetensors")
    ours = model.with_parts(g=[dc.Functions(dc.bases.Tanh(), [[0.0, 1.0]])])
    ours.save(tmp_path / "m.safetensors")
    with pytest.raises(dc.InputError, match="Rename the class"):
        dc.Decoupling.load(tmp_path / "m.safetensors", bases=[Tanh])


# Results


@pytest.mark.parametrize("name", ["one_layer", "two_stages", "jacobians_only", "linear_part"])
def test_a_result_comes_back_whole(name, tmp_path):
    result = MAKERS[name]()
    result.save(tmp_path / "r.safetensors")
    again = dc.Result.load(tmp_path / "r.safetensors")
    X = result.samples.X
    assert_array_equal(again.decoupling(X), result.decoupling(X))
    assert (again.status, again.lam, again.notes, again.found_by) == (
        *(result.status, result.lam, result.notes, result.found_by),
    )
    assert repr(again) == repr(result) and type(again.solver) is type(result.solver)
    assert len(again.starts) == len(result.starts) and len(again.history) == len(result.history)
    assert again.samples.inputs == result.samples.inputs
    assert again.verdict == result.verdict
    again.report(tmp_path / "page.html")
    assert_array_equal(dc.Decoupling.load(tmp_path / "r.safetensors")(X), result.decoupling(X))


def test_samples_may_stay_away_and_must_then_be_given(tmp_path):
    result = MAKERS["one_layer"]()
    file = tmp_path / "r.safetensors"
    result.save(file, samples=False)
    with pytest.raises(dc.ModelFileError, match="without samples: give those"):
        dc.Result.load(file)
    assert dc.Result.load(file, samples=result.samples).error_values == result.error_values
    result.decoupling.save(file)
    with pytest.raises(dc.ModelFileError, match="must hold a result"):
        dc.Result.load(file)


def test_parts_that_were_given_are_still_given(tmp_path):
    system = dc.systems.f2()
    X = np.random.default_rng(0).uniform(-1, 1, (40, 3))
    solver = dc.VarPro(fixed={"W0": system.W[0]}, max_steps=2, polish_steps=1)
    samples = dc.Samples(X, F=system(X), J=system.jacobian(X))
    result = dc.decouple(samples, (2, 2), (3, 3), solver=solver, n_starts=2, progress=False)
    result.save(tmp_path / "r.safetensors")
    again = dc.Result.load(tmp_path / "r.safetensors")
    assert set(again.solver.fixed) == {"W0"} and again.identifiability == result.identifiability


@pytest.mark.parametrize(
    ("place", "value"),
    [(("starts", 0, "error_values"), "x"), (("settings", "n_starts"), []), (("settings", "shapes"), ["tall"])],
)
def test_what_a_result_says_of_its_search_is_checked_when_it_is_read(tmp_path, place, value):
    """A page of such a result would fail long after the file was opened."""
    model = dc.systems.f1()
    X = np.random.default_rng(0).uniform(-1, 1, (12, 2))
    path = tmp_path / "r.safetensors"
    dc.decouple(dc.Samples(X, F=model(X)), 1, 1, n_starts=1, progress=False).save(path)
    with safetensors.safe_open(path, framework="numpy") as content:
        texts = content.metadata()
    about = inside = json.loads(texts["result"])
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    save_file(safetensors.numpy.load_file(path), path, metadata=texts | {"result": json.dumps(about)})
    with pytest.raises(dc.ModelFileError, match="must describe"):
        dc.Result.load(path)


@pytest.mark.slow
def test_settings_come_back_whole(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (60, 2))
    F = np.tanh(2 * X[:, :1] + X[:, 1:]) + 0.01 * rng.normal(size=(60, 1))
    asked = {"ranks": 1, "basis": dc.Spline(4), "shapes": ["increasing"], "n_starts": 3, "max_seconds": 30.0}
    for seed in (5, rng, np.random.Generator(np.random.MT19937(2))):
        result = dc.decouple(dc.Samples(X, F=F), **asked, rng=seed, progress=False)
        result.save(tmp_path / "r.safetensors")
        again = dc.Result.load(tmp_path / "r.safetensors").settings
        assert again.shapes == ["increasing"] and again.wishes == result.settings.wishes == (("increasing",),)
        assert (again.n_starts, again.max_seconds, again.linear) == (3, 30.0, False)
        if isinstance(seed, np.random.Generator):
            assert again.rng.random() == result.settings.rng.random()
        else:
            assert again.rng == seed
