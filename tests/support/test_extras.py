"""What happens where a package is missing that only an extra brings."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import decouply as dc
from decouply._support._optional_packages import guarded, needed

ROOT = Path(__file__).parents[2]
KNOWN_EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]


def test_what_is_installed_is_returned():
    assert needed("json", "torch", "x") is sys.modules["json"]
    assert needed("os.path:join", "torch", "x")("a", "b")


@pytest.mark.parametrize(
    ("package", "reason"),
    [
        ("no_such_package", "No module named 'no_such_package'"),
        ("no_such_package.helper", "No module named 'no_such_package'"),
        ("json.no_such_part", "No module named 'json.no_such_part'"),
        ("json:no_such_name", "module 'json' has no attribute 'no_such_name'"),
    ],
)
def test_what_is_missing_is_told_with_the_command_and_the_reason(package, reason):
    with pytest.raises(dc.MissingExtraError) as told:
        needed(package, "cluster", "`fit_many`")
    root = re.split(r"[.:]", package)[0]
    assert str(told.value) == (
        f'`fit_many` needs the package {root}: pip install "dask[array,distributed]>=2025.1". It cannot be imported: '
        f"{reason}."
    )
    assert told.value.name == root and told.value.__cause__ is not None
    assert isinstance(told.value, ImportError) and isinstance(told.value, dc.DecouplingError)


def test_names_that_need_a_missing_extra_are_not_listed_and_tell_it_when_asked_for():
    extras = {"b": ("no_such_package", "torch"), "c": ("json", "torch")}
    get, listed, names = guarded((str.upper, list, ["a", "b", "c"]), extras)
    assert names == listed() == ["a", "c"] and get("a") == "A" and get("c") == "C"
    with pytest.raises(dc.MissingExtraError, match=r"^dc\.b needs the package no_such_package"):
        get("b")


def test_every_extra_that_is_named_can_be_installed():
    """In all messages of the package and all pages."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
    text = "\n".join(file.read_text() for file in files)
    named = set(re.findall(r'"\.\[(\w+)\]"', text)) | set(re.findall(r'needed\([^,)]+, "(\w+)"', text))
    assert named >= {"torch", "sklearn", "parquet", "sympy", "jax"} and named <= {*KNOWN_EXTRAS}


# The package, what is missing, what is asked for.
MISSING = [
    ("sklearn", "sklearn", "dc.DecouplingRegressor"),
    ("sklearn", "sklearn", "dc.DecouplingClassifier"),
    ("sklearn", "sklearn", "import decouply.estimators._regressor"),
    ("torch", "torch", "dc.nn"),
    ("torch", "torch", "from decouply import nn"),
    ("sympy", "sympy", "dc.Samples.from_sympy([], [], [[1.0]])"),
    ("jax", "jax", "dc.Samples.from_jax(abs, [[1.0]])"),
    ("pyarrow", "parquet", "dc.Samples.load('data.parquet', outputs='y')"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("package", "extra", "statement"), MISSING, ids=[m[2] for m in MISSING])
def test_every_missing_extra_gives_the_same_kind_of_error(package, extra, statement, tmp_path):
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    code = f"""
import sys
sys.modules[{package!r}] = None
import decouply as dc
try:
    {statement}
except dc.MissingExtraError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    wanted = KNOWN_EXTRAS[extra][0]
    assert f'needs the package {package}: pip install "{wanted}"' in done.stdout


@pytest.mark.slow
def test_going_through_all_names_works_without_extras():
    code = """
import sys
sys.modules["torch"] = sys.modules["sklearn"] = None
import inspect, pydoc
import decouply
from decouply import *
found = {name for name, _ in inspect.getmembers(decouply)}
assert "decouple" in found and "Samples" in dir(decouply), found
assert not found & {"nn", "DecouplingRegressor", "DecouplingClassifier"}, found
assert not set(decouply.__all__) & {"nn", "DecouplingRegressor", "DecouplingClassifier"}
assert "Decoupling of multivariate functions" in pydoc.render_doc(decouply, renderer=pydoc.plaintext)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
