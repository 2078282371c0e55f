"""The command line as a person meets it, where it matters in a process of its own."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import decouply as dc
from decouply.cli._main import decouply
from decouply.cli._options import basis_class
from tests.cli import run_here
from tests.strategies import sampled


def decouple(line, cwd):
    return run_here(line.split(), cwd)


def process(line, cwd, **options):
    code = "from decouply.cli import main; main()"
    return subprocess.run([sys.executable, "-c", code, *line.split()], capture_output=True, cwd=cwd, **options)


@pytest.fixture
def folder(tmp_path):
    sampled(dc.systems.f2(), 30).save(tmp_path / "samples.npz")
    return tmp_path


@pytest.mark.parametrize("command", [[], *([name] for name in decouply.commands)], ids=" ".join)
def test_every_command_has_help(command, tmp_path):
    done = run_here([*command, "--help"], cwd=tmp_path)
    assert done.returncode == 0 and "Usage" in done.stdout


def test_every_basis_of_ours_can_be_asked_for(tmp_path):
    names = [re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "-", kind.__name__).lower() for kind in dc.bases.OWN_BASES]
    (basis,) = (param for param in decouply.commands["fit"].params if param.name == "basis")
    assert list(basis.type.choices) == ["auto", *names]
    told = run_here(["fit", "--help"], cwd=tmp_path).stdout
    assert f"{','.join(names)}." in "".join(told.split())  # lines are broken at hyphens too
    assert basis_class("chebyshev") is dc.Chebyshev and basis_class("tanh") == dc.bases.Tanh()


@pytest.mark.slow
def test_saturations_are_fitted(folder):
    done = decouple("fit samples.npz --ranks 2 --degrees 1 --basis tanh --n-starts 2 --json", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["degrees"] == [1]


def test_zero_has_no_sign(tmp_path):
    square = dc.Functions(dc.Monomial(2), [[-0.0, 0.0, 1.0]])
    dc.Decoupling([[[1.0]], [[2.0]]], [square]).save(tmp_path / "m.safetensors")
    done = run_here(["show", "m.safetensors"], cwd=tmp_path)
    assert done.returncode == 0 and "-0" not in done.stdout


def test_help_and_completion_need_no_numerical_library(tmp_path):
    code = """
import sys
from decouply.cli import _main
_main.fit.make_context("fit", ["data.csv", "--basis", "tanh"], resilient_parsing=True)  # as a shell that completes
print("numpy" in sys.modules, "rich" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


@pytest.mark.slow
def test_fit_writes_a_model_that_show_can_read(folder):
    s = sampled(dc.systems.f2(), 30)
    names = {"inputs": ["speed", "load", "<b>"], "outputs": list("abc")}
    dc.Samples(s.X, F=s.F, J=s.J, **names).save(folder / "samples.npz")
    fit = process(
        "fit samples.npz --ranks 2,2 --degrees 3,3 --set max_steps=20 --holdout 0.2 --seed 3 --details "
        "--model m.safetensors --report r.html --inputs speed,load,<b> --outputs a,b,c",
        cwd=folder,
        text=True,
    )
    assert fit.returncode == 0, fit.stderr
    assert "Error(J)" in fit.stdout and "On 6 validation samples" in fit.stdout
    page = (folder / "r.html").read_text()
    assert page.startswith("<!DOCTYPE html>") and "Decoupling of samples.npz" in page
    assert "decouply fit samples.npz --ranks 2,2 --degrees 3,3" in page and "6 samples are for validation" in page
    assert "speed" in page and "&lt;b&gt;" in page
    show = decouple("show m.safetensors", cwd=folder)
    assert show.returncode == 0 and "W_2, 3 x 2" in show.stdout
    content = json.loads(decouple("show m.safetensors --json", cwd=folder).stdout)
    model = dc.Decoupling.load(folder / "m.safetensors")
    assert np.allclose(content["W"][0], model.W[0])


@pytest.mark.parametrize("solver", ["varpro", "constr", "proj", "zniyed", "hollander", "dreesen"])
def test_fit_speaks_json_with_every_solver(solver, folder):
    done = decouple(f"fit samples.npz --ranks 2 --degrees 3 --solver {solver} --set max_steps=20 --json", cwd=folder)
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert content["ranks"] == [2] and content["error_jacobian"] > 0 and len(content["starts"]) >= 8
    assert content["locally_unique"] in (True, False)


@pytest.mark.slow
def test_demo_prints_a_table_and_says_where_its_report_is(tmp_path):
    done = process("demo", cwd=tmp_path, text=True)
    assert done.returncode == 0, done.stderr
    assert "On 40 validation samples" in done.stdout and "As good as the data allow" in done.stdout
    assert str(tmp_path / "demo-report.html") in done.stdout.replace("\n", "")
    page = (tmp_path / "demo-report.html").read_text()
    assert "decouply demo" in page and "rng=0" in page and "for validation" in page
    quiet = decouple("demo --quiet", cwd=tmp_path)
    assert (quiet.stdout, quiet.stderr, quiet.returncode) == ("", "", 0)


GOOD = "--ranks 2,2 --degrees 3,3"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f"fit missing.npz {GOOD}", "File not found: missing.npz"),
        (f"fit cut.npz {GOOD}", "cannot be read"),
        (f"fit text.npz {GOOD}", "cannot be read"),
        (f"fit nan.npz {GOOD}", "finite"),
        (f"fit one.npz {GOOD}", "at least 2 points"),
        ("fit samples.npz --ranks 2,x --degrees 3,3", "not a list of whole numbers"),
        ("fit samples.npz --ranks 2,0 --degrees 3,3", "at least 1"),
        ("fit samples.npz --ranks 2,2 --degrees 3", "one number per layer"),
        ("fit samples.npz --ranks 2,2 --degrees 3,0", "at least 1"),
        (f"fit samples.npz {GOOD} --solver magic", "is not one of"),
        (f"fit samples.npz {GOOD} --basis magic", "is not one of"),
        (f"fit samples.npz {GOOD} --set lam=-1", "`lam` must be"),
        (f"fit samples.npz {GOOD} --solver hollander", "single layer"),
        (f"fit samples.npz {GOOD} --solver hollander --set lam=1", "an option of the solver hollander: "),
        (f"fit samples.npz {GOOD} --model no/m.safetensors", "does not exist"),
        (f"fit samples.npz {GOOD} --holdout 0.5 --validation samples.npz", "not both"),
        (f"fit samples.npz {GOOD} --n-starts 0", "Invalid value"),
        (f"fit samples.npz {GOOD} --report r.html --inputs a,b", "--inputs must choose among the 3 columns of X"),
        ("show missing.safetensors", "File not found: missing.safetensors"),
        ("show text.npz", "damaged or of another kind"),
        ("nonsense", "No such command"),
        ("demo --report no/report.html", "does not exist"),
    ],
)
def test_mistakes_give_one_message_exit_code_2_and_no_file(line, message, folder):
    content = (folder / "samples.npz").read_bytes()
    (folder / "cut.npz").write_bytes(content[: len(content) // 2])
    (folder / "text.npz").write_text("this is not an archive")
    np.savez(folder / "nan.npz", X=[[np.nan, 0.0]], F=[[1.0]])
    np.savez(folder / "one.npz", X=[[1.0, 0.0, 0.0]], F=[[1.0]], J=[[[1.0, 0.0, 0.0]]])
    before = sorted(p.name for p in folder.iterdir())
    done = run_here(line.split(), cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert sorted(p.name for p in folder.iterdir()) == before


@pytest.mark.slow
def test_ranks_too_large_for_the_data_are_a_warning(folder):
    done = decouple(
        "fit samples.npz --ranks 40,40 --degrees 3,3 --set max_steps=2 --n-starts 1 --set lam=1", cwd=folder
    )
    assert done.returncode == 0
    assert "Warning: `ranks` (40, 40) ask for" in done.stderr


@pytest.mark.slow
def test_quiet_means_nothing_but_errors(folder):
    line = "fit samples.npz --ranks 40,40 --degrees 3,3 --set max_steps=2 --n-starts 1 --set lam=1 --quiet"
    done = decouple(line, cwd=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_letters_that_a_pipe_does_not_take_are_replaced(folder):
    line = "select samples.npz --max-ranks 2 --degrees 3"
    done = process(line, cwd=folder, env=os.environ | {"PYTHONIOENCODING": "cp1252"})
    assert done.returncode == 0 and b"so every r_l ? " in done.stdout, done.stderr


def test_files_are_not_written_over_each_other(folder):
    before = (folder / "samples.npz").read_bytes()
    for line in (f"fit samples.npz {GOOD} --model samples.npz", f"fit samples.npz {GOOD} --model a.onnx"):
        done = run_here(line.split(), cwd=folder)
        assert done.returncode == 2 and "must end in .safetensors" in done.stderr
    assert (folder / "samples.npz").read_bytes() == before and not (folder / "a.onnx").exists()


def test_odd_names_are_printed_as_they_are(folder):
    (folder / "samples.npz").rename(folder / "[bold]x.npz")
    done = decouple("fit [bold]x.npz --ranks 2 --degrees 2 --set max_steps=3 --no-two-stage", cwd=folder)
    assert done.returncode == 0 and "[bold]x.npz" in done.stdout
    long = decouple(
        f"fit [bold]x.npz --ranks 2 --degrees 2 --set max_steps=3 --model {'a' * 300}.safetensors", cwd=folder
    )
    assert long.returncode == 2 and "Traceback" not in long.stderr


def test_the_schedule_of_zniyed_can_be_asked_for(folder):
    done = decouple("fit samples.npz --ranks 2 --degrees 3 --solver zniyed --no-two-stage --json", cwd=folder)
    content = json.loads(done.stdout)
    assert content["path"] == [] and content["starts"][0]["lam"] >= 1e-6


def test_notes_call_arguments_by_the_options_of_the_command(tmp_path):
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 2))
    table = np.column_stack([X, np.sin(3.0 * X[:, 0]) * X[:, 1]])
    np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,y", comments="")
    told = decouple("fit t.csv --ranks 2 --degrees 3 --max-seconds 0.001", cwd=tmp_path).stdout
    assert "--max-seconds was reached" in told and "`max_seconds`" not in told
