"""Polynomial and linear models come back from files as they were, and other files are refused."""

import numpy as np
import pytest

import decouply as dc
from decouply.sysid import LinearStateSpace, PolynomialNARX, PolynomialStateSpace
from decouply.write._record_file import Record, read_record, write_record

RNG = np.random.default_rng(0)
U = RNG.uniform(-1.0, 1.0, 300)
Y = np.zeros(300)
for t in range(1, 300):
    Y[t] = 0.6 * Y[t - 1] - 0.1 * Y[t - 1] ** 3 + U[t - 1]
NARX = PolynomialNARX(n_u=1, n_y=1).fit(U, Y)


@pytest.fixture(scope="module")
def states():
    return PolynomialStateSpace(1, feedthrough=False).fit(U, Y, max_steps=5, progress=False)


@pytest.mark.parametrize("flat", [True, False])
def test_a_polynomial_narx_runs_as_before(tmp_path, flat):
    model = NARX if flat else PolynomialNARX(n_u=1, n_y=1, degree=2).fit(U[:, None], np.stack([Y, np.cos(Y)], axis=1))
    model.save(tmp_path / "m.safetensors")
    again = PolynomialNARX.load(tmp_path / "m.safetensors")
    y = Y if flat else np.stack([Y, np.cos(Y)], axis=1)
    np.testing.assert_array_equal(again.predict_one_step(U, y), model.predict_one_step(U, y))
    if flat:
        np.testing.assert_array_equal(again.simulate(U, Y[:5]), model.simulate(U, Y[:5]))
    assert repr(again) == repr(model) and again.formula() == model.formula()
    X = model.trained_on.X[:7]
    np.testing.assert_array_equal(again.jacobian(X), model.jacobian(X))
    decoupled = again.decouple(1, n_starts=2, progress=False)
    assert decoupled.lags == model.lags


def test_a_polynomial_state_space_runs_as_before(states, tmp_path):
    states.save(tmp_path / "m.safetensors")
    again = PolynomialStateSpace.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.simulate(U, Y[:10]), states.simulate(U, Y[:10]))
    assert repr(again) == repr(states) and again.feedthrough is False
    as_functions = dc.sysid.DecoupledStateSpace.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(as_functions.simulate(U, Y[:10]), states.simulate(U, Y[:10]))
    with pytest.raises(dc.InputError, match="a file does not hold them: fit it again"):
        again.decouple(1)


def test_a_linear_model_is_as_before(states, tmp_path):
    linear = states.fitted.linear()
    linear.save(tmp_path / "m.safetensors")
    again = LinearStateSpace.load(tmp_path / "m.safetensors")
    for name in ("A", "B", "C", "D", "c_x", "c_y"):
        np.testing.assert_array_equal(getattr(again, name), getattr(linear, name))


def test_what_is_not_fitted_is_not_saved(tmp_path):
    for model in (PolynomialNARX(), PolynomialStateSpace(1)):
        with pytest.raises(dc.InputError, match="must be fitted first"):
            model.save(tmp_path / "m.safetensors")
    assert not any(tmp_path.iterdir())


def test_files_of_others_name_their_reader(states, tmp_path):
    path = tmp_path / "m.safetensors"
    NARX.save(path)
    for load in (dc.Decoupling.load, LinearStateSpace.load):
        with pytest.raises(dc.ModelFileError, match=r"read it with dc\.sysid\.PolynomialNARX\.load"):
            load(path)
    dc.systems.f1().save(path)
    with pytest.raises(dc.ModelFileError, match=r"read it with dc\.Decoupling\.load"):
        PolynomialNARX.load(path)
    dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)], feedthrough=False).fit(
        U, Y, n_starts=1, search=dc.sysid.SearchOptions(max_steps=2), progress=False
    ).save(path)
    with pytest.raises(dc.ModelFileError, match=r"read it with dc\.sysid\.DecoupledStateSpace\.load"):
        PolynomialStateSpace.load(path)
    with pytest.raises(dc.ModelFileError, match="File not found"):
        LinearStateSpace.load(tmp_path / "none.safetensors")


@pytest.mark.parametrize(
    ("change", "load"),
    [
        (lambda arrays: arrays.pop("X"), PolynomialNARX.load),
        (lambda arrays: arrays.update(coefficients=arrays["coefficients"][:-1]), PolynomialNARX.load),
        (lambda arrays: arrays.update(coefficients=arrays["coefficients"][:, :0]), PolynomialNARX.load),
        (lambda arrays: arrays.update(u=np.zeros(2)), PolynomialNARX.load),
        (lambda arrays: arrays.pop("A"), LinearStateSpace.load),
        (lambda arrays: arrays.update(B=np.zeros((5, 1))), LinearStateSpace.load),
    ],
)
def test_parts_that_do_not_fit_are_refused(states, tmp_path, change, load):
    path = tmp_path / "m.safetensors"
    kind = "polynomial NARX" if load == PolynomialNARX.load else "linear state space"
    (NARX if kind == "polynomial NARX" else states.fitted.linear()).save(path)
    record = read_record(path, kind, "", ("1",))
    change(record.arrays)
    about = {key: text for key, text in record.texts.items() if key not in ("format", "version")}
    write_record(path, kind, 1, Record(record.arrays, about))
    with pytest.raises(dc.ModelFileError, match="must"):
        load(path)
