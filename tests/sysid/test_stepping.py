"""Dynamic models as source code that is compiled and run, and NARX models as files."""

import shutil
import subprocess

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import decouply as dc
from decouply.write._record_file import Record, read_record, write_record

U = np.random.default_rng(0).uniform(-1, 1, 200)
GCC, OCTAVE = shutil.which("gcc"), shutil.which("octave")
MAIN = """
#include <stdio.h>
int main(void) {{
    double state[] = {{ {state} }}, u[] = {{ {u} }}, y[{p}];
    for (int t = 0; t < {T}; t++) {{ step(state, u + t * {m}, y); printf("%.17g\\n", y[0]); }}
    return 0;
}}
"""


def record():
    y = np.zeros(len(U))
    for t in range(2, len(U)):
        y[t] = 0.5 * y[t - 1] - 0.2 * y[t - 2] + np.tanh(U[t] + 0.5 * U[t - 1])
    return y


@pytest.fixture(scope="module")
def narx():
    y = record()
    fitted = dc.sysid.PolynomialNARX(n_u=1, n_y=2, degree=3).fit(U, y)
    return fitted.decouple(2, progress=False, rng=0)


@pytest.fixture(scope="module")
def state_space():
    return dc.sysid.DecoupledStateSpace(2, functions=[dc.Monomial(3)]).fit(U, record(), n_starts=1, progress=False)


def printed(command, folder):
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return np.array(done.stdout.split(), float)


def run_c(source, state, u, folder):
    numbers = {"state": ", ".join(map(repr, map(float, state))), "u": ", ".join(map(repr, map(float, u)))}
    (folder / "m.c").write_text(source + MAIN.format(**numbers, p=1, m=1, T=len(u)))
    flags = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror")
    subprocess.run([GCC, *flags, "m.c", "-o", "m", "-lm"], cwd=folder, check=True)
    return np.array(
        subprocess.run(["./m"], cwd=folder, check=True, capture_output=True, text=True).stdout.split(), float
    )


def run_octave(source, state, u, folder):
    (folder / "step.m").write_text(source)
    lists = [" ".join(map(repr, map(float, part))) for part in (state, u)]
    script = f"s = [{lists[0]}]; for u = [{lists[1]}], [s, y] = step(s, u); printf('%.17g\\n', y); end"
    command = [OCTAVE, "--no-gui", "--norc", "--eval", script]
    return np.array(
        subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split(), float
    )


RUNS = {
    "c": pytest.param(
        "c", run_c, marks=pytest.mark.skipif(GCC is None, reason="needs gcc to compile the C source: install it")
    ),
    "matlab": pytest.param(
        "matlab", run_octave, marks=pytest.mark.skipif(OCTAVE is None, reason="needs octave: install it")
    ),
}


@pytest.mark.parametrize(("language", "run"), RUNS.values(), ids=RUNS)
def test_narx_models_step_as_they_simulate(narx, language, run, tmp_path):
    y = record()
    expected = narx.simulate(U[:40], y[:2])
    state = [U[1], y[1], y[0]]
    assert_allclose(run(narx.step_source(language), state, U[2:40], tmp_path), expected[2:], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("language", "run"), RUNS.values(), ids=RUNS)
def test_state_space_models_step_as_they_simulate(state_space, language, run, tmp_path):
    expected = state_space.simulate(U[:40])
    found = run(state_space.step_source(language), state_space.fitted.x0[0], U[:40], tmp_path)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_step_is_written_in_two_languages_and_not_for_oversampled_models(narx):
    with pytest.raises(dc.InputError, match="`language` must be"):
        narx.step_source("fortran")
    assert "function [state, y] = pump_2(state, u)" in narx.step_source("matlab", name="pump_2")
    assert "void pump_2(double *state" in narx.step_source("c", name="pump_2")
    for wrong in ("2pump", "a-b", "", "f"):
        with pytest.raises(dc.InputError, match="`name` must begin with a letter"):
            narx.step_source(name=wrong)
    for language, words in (("c", ("int", "for", "class", "main", "tanh", "sinf", "y1")), ("matlab", ("end", "exp"))):
        for wrong in words:
            with pytest.raises(dc.InputError, match=f"Got '{wrong}': "):
                narx.step_source(language, name=wrong)
    assert "void end(" in narx.step_source("c", name="end") and "= int(" in narx.step_source("matlab", name="int")
    with pytest.raises(dc.InputError, match="`oversample` must be 1"):
        dc.sysid.DecoupledStateSpace(1, functions=[dc.bases.Tanh()], oversample=2).step_source()


def test_narx_models_come_back_from_files(narx, tmp_path):
    refined = narx.refine(U, record(), max_steps=2, progress=False)
    for model in (narx, refined, narx.with_outside("linear")):
        model.save(tmp_path / "narx.safetensors")
        again = dc.sysid.DecoupledNARX.load(tmp_path / "narx.safetensors")
        assert repr(again) == repr(model) and again.refinement == model.refinement
        y = record()[:2]
        assert_array_equal(again.simulate(U[:30], y), model.simulate(U[:30], y))
        assert repr(again.result) == repr(model.result)
    with pytest.raises(dc.ModelFileError, match="must hold a NARX model"):
        narx.decoupling.save(tmp_path / "m.safetensors")
        dc.sysid.DecoupledNARX.load(tmp_path / "m.safetensors")


@pytest.mark.parametrize("part", ["narx.X", "narx.u", "narx.result.W0", "narx.result.result.X"])
def test_narx_files_with_missing_parts_are_refused(narx, tmp_path, part):
    path = tmp_path / "narx.safetensors"
    narx.save(path)
    record = read_record(path, "decouply", "", ("2",))
    texts = {key: text for key, text in record.texts.items() if key not in ("format", "version")}
    write_record(path, "decouply", 2, Record({k: a for k, a in record.arrays.items() if k != part}, texts))
    with pytest.raises(dc.ModelFileError, match="do not fit together"):
        dc.sysid.DecoupledNARX.load(path)
