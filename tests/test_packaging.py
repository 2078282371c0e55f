"""What is handed out: the source distribution, the wheel, the page on PyPI, and pages that need no network."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import decouply
from tools.check_offline import network_loads

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("src/decouply", "tests", "docs", "examples", "benchmarks", "experiments", "tools")
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)[^)]*\)|<(?:img|source)[^>]*\ssrc(?:set)?=[\"']([^\"']+)")


def run(*command, cwd=ROOT, **kwargs):
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False, **kwargs
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def built(target, folder):
    """A distribution made by the backend itself, which needs no network."""
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder)
    (made,) = folder.iterdir()
    return made


def test_pictures_in_the_readme_are_files_of_ours():
    """Named relative to the README: no address is printed that nobody owns."""
    text = (ROOT / "README.md").read_text()
    pictures = [markdown or html for markdown, html in PICTURE.findall(text)]
    assert pictures
    for address in pictures:
        assert (ROOT / address).is_file(), f"{address} names a file that is not there"
    assert "urls" not in PROJECT and "repository-code" not in (ROOT / "CITATION.cff").read_text()


def test_one_version_is_named_everywhere():
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    assert f'{{% set version = "{decouply.__version__}" %}}' in recipe
    assert f"\nversion: {decouply.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## {decouply.__version__} " in (ROOT / "CHANGELOG.md").read_text()


def test_the_conda_recipe_asks_for_what_the_wheel_asks_for():
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    run = re.findall(r"^ +- (\S+) (>=\S+)$", recipe.partition("  run:\n")[2].partition("\ntest:")[0], re.M)
    own = {"matplotlib-base": "matplotlib", "lazy_loader": "lazy-loader"}  # names that conda-forge has given
    assert {own.get(name, name) + bound for name, bound in run if name != "python"} == set(PROJECT["dependencies"])


def test_the_pythons_that_are_declared_are_those_that_are_tried():
    named = re.findall(r"^PYTHONS := (.*)$", (ROOT / "Makefile").read_text(), re.M)[0].split()
    assert [f"Programming Language :: Python :: {version}" for version in named] == [
        line for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)
    ]
    assert PROJECT["requires-python"] == f">={named[0]}"


def test_every_pin_has_checksums_and_nothing_else_is_said():
    """Made by `make hashes`; with these, pip installs no file that nobody looked at."""
    lines = (ROOT / "requirements.txt").read_text().replace(" \\\n    ", " ").splitlines()[1:]
    assert all(re.fullmatch(r"\S+==\S+( --hash=sha256:[0-9a-f]{64})+", line) for line in lines)
    pins = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    assert [line.split(" ")[0] for line in lines] == pins


def test_lowest_versions_are_those_of_pyproject():
    lines = run(sys.executable, "tools/lowest.py", "sklearn").split()
    assert len(lines) == len(PROJECT["dependencies"]) + 1
    assert {line.replace("==", ">=") for line in lines[:-1]} == set(PROJECT["dependencies"])


def referred():
    """What Makefile, configuration of the docs, pages and gallery refer to, as paths in the project."""
    yield from (
        "Makefile",
        "constraints.txt",
        "requirements.txt",
        "pyproject.toml",
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
    )
    yield from re.findall(r"\b(tools/\w+\.\w+)", (ROOT / "Makefile").read_text())
    yield from ("docs/conf.py", "docs/index.md", "docs/reference/api.rst")
    conf = (ROOT / "docs" / "conf.py").read_text()
    (examples,) = re.findall(r'"examples_dirs": "\.\./(.+)"', conf)
    gallery = [path for path in (ROOT / examples).rglob("*.*") if path.suffix in (".py", ".rst")]
    assert len(gallery) > 3
    yield from (path.relative_to(ROOT).as_posix() for path in gallery)
    built = {"_build", "gallery", "api"}
    for page in (page for page in (ROOT / "docs").rglob("*.md") if not built & set(page.parts)):
        text = re.sub(r"```(?!\{).*?```", "", page.read_text(), flags=re.S)  # without examples of code
        for target in re.findall(r"\]\(([^)#\s]+)", text):
            if "://" not in target and not {*built} & {*Path(target).parts} and page.parent.name != "speed":
                yield (page.parent / target).resolve().relative_to(ROOT).as_posix()
        for block in re.findall(r"```\{toctree\}(.*?)```", text, flags=re.S):
            for name in re.findall(r"^[\w-]+$", block, flags=re.M):
                path = page.parent / name
                yield (
                    path.with_suffix(".rst" if path.with_suffix(".rst").exists() else ".md")
                    .relative_to(ROOT)
                    .as_posix()
                )


def test_docs_gallery_and_tests_can_be_made_from_the_source_distribution(tmp_path):
    with tarfile.open(built("sdist", tmp_path)) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    missing = sorted(set(referred()) - held - {"docs/reference/command-line.md"})  # which the build makes
    assert not missing, f"the docs refer to {missing}"
    assert not {name for name in held if re.match(r"\.venv|\.git/|docs/_build|docs/reference/api/|docs/gallery/", name)}
    if shutil.which("git") and (ROOT / ".git").exists():
        tracked = set(run("git", "ls-files").split())
        gone = {name for name in tracked if not (ROOT / name).exists()}
        assert not sorted(tracked - gone - held), "files of the project are not in it"


def test_the_wheel_holds_the_package_and_nothing_else(tmp_path):
    with zipfile.ZipFile(built("wheel", tmp_path)) as archive:
        held = set(archive.namelist())
        (about,) = (archive.read(name).decode() for name in held if name.endswith("METADATA"))
    source = ROOT / "src" / "decouply"
    files = {p.relative_to(source.parent).as_posix() for p in source.rglob("*") if p.is_file() and p.suffix != ".pyc"}
    assert {name for name in held if ".dist-info/" not in name} == files
    assert "Name: decouply\n" in about
    assert {"decouply/py.typed", "decouply/__init__.pyi"} <= held


USE = """
import inspect, pydoc, sys, warnings
warnings.simplefilter("error")
import numpy as np
import decouply as dc
from decouply import *

X = np.random.default_rng(0).uniform(-1, 1, (40, 2))
samples = dc.Samples.from_function(lambda X: np.stack([(X[:, 0] + 2 * X[:, 1]) ** 3, X[:, 0] ** 2], axis=1), X)
result = dc.decouple(samples, ranks=2, degrees=3, rng=0)
assert result.error_jacobian < 1e-12, result
result.decoupling.save("model.safetensors")
result.plot().savefig("network.png")
result.report("report.html")
found = dict(inspect.getmembers(dc))
assert found["decouple"] is dc.decouple and "nn" not in found
assert "decouple" in pydoc.render_doc(dc, renderer=pydoc.plaintext)
assert not {"torch", "sklearn", "onnx", "jax", "sympy", "pyarrow"} & set(sys.modules)
for use in (
    lambda: dc.nn,
    lambda: dc.DecouplingRegressor,
    lambda: dc.Samples.from_jax(abs, X),
    lambda: dc.Samples.from_sympy([], [], X),
    lambda: dc.Samples.load("data.parquet", outputs="y"),
):
    try:
        use()
    except dc.MissingExtraError as error:
        assert 'pip install "' in str(error) and ">=" in str(error), error
    else:
        raise AssertionError(use)
"""


@pytest.mark.timeout(900)  # half a minute, but pip may have to wait for the network
def test_the_wheel_can_be_used_without_extras(tmp_path):
    """In an environment with what pip brings, and nothing of this one."""
    wheel = built("wheel", tmp_path / "dist")
    run(sys.executable, "-m", "venv", tmp_path / "venv")
    python, decouply = (tmp_path / "venv" / "bin" / name for name in ("python", "decouply"))
    pip = [python, "-m", "pip", "--disable-pip-version-check", "-q", "--retries", "1", "--timeout", "20"]
    probe = subprocess.run(
        [*pip, "download", "--no-deps", "-d", tmp_path, "-c", ROOT / "constraints.txt", "lazy-loader"],
        capture_output=True,
        text=True,
        check=False,
    )
    if probe.returncode != 0:
        pytest.skip("needs the package registry: connect this machine, or tell pip of a mirror by PIP_INDEX_URL")
    run(*pip, "install", "--no-compile", "-c", ROOT / "constraints.txt", wheel)
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    run(python, "-c", USE, cwd=tmp_path)
    assert {"report.html", "network.png", "model.safetensors"} <= {path.name for path in tmp_path.iterdir()}
    assert "Usage: decouply" in run(decouply, "--help", cwd=tmp_path)
    assert "Help on package decouply" in run(python, "-c", "import decouply; help(decouply)", cwd=tmp_path)


def test_nothing_refers_to_folders_outside_the_project():
    """But `.ci/run`, which tells where the data are by DECOUPLY_DATA."""
    for path in [*ROOT.glob("*.*"), ROOT / "Makefile", *(p for d in FOLDERS for p in (ROOT / d).rglob("*"))]:
        if path.suffix not in (".py", ".md", ".rst", ".toml", ".cff", ".sh", ".txt") and path.name != "Makefile":
            continue
        depth = len(path.relative_to(ROOT).parts)
        text = path.read_text()
        for steps in re.findall(r"__file__\)(?:\.resolve\(\))?\.parents\[(\d+)\]", text):
            assert int(steps) < depth, f"{path} refers to a folder above the project"
        for ups in re.findall(r"(?<![\w/.])((?:\.\./)+)\w", text):
            assert ups.count("../") < depth, f"{path} refers to {ups}"


@pytest.mark.parametrize(
    ("page", "loads"),
    [
        ('<script src="https://cdn.example/mathjax.js"></script>', True),
        ('<script src="//cdn.example/mathjax.js"></script>', True),
        ('<link rel="stylesheet" href="http://cdn.example/a.css">', True),
        ('<link rel="preconnect" href="https://fonts.example">', True),
        ('<img alt="a" src="https://example.org/a.png">', True),
        ("<style>@import 'https://example.org/a.css';</style>", True),
        ('<p style="background: url(https://example.org/a.png)">', True),
        ('<svg><image xlink:href="https://example.org/a.png"/></svg>', True),
        ('<script src="_static/mathjax/tex-chtml.js"></script><img src="a.png">', False),
        ('<a href="https://example.org">a link</a> and <code>src="https://example.org/a.png"</code>', False),
        ('<link rel="canonical" href="https://example.org/page.html">', False),
        ('<svg xmlns="http://www.w3.org/2000/svg"></svg>', False),
    ],
)
def test_what_a_page_loads_from_a_network_is_found(page, loads, tmp_path):
    (tmp_path / "page.html").write_text(f"<html><body>{page}</body></html>")
    assert bool(network_loads(tmp_path)) == loads


def test_what_a_style_sheet_loads_from_a_network_is_found(tmp_path):
    (tmp_path / "a.css").write_text(
        "@font-face { src: url('https://fonts.example/a.woff2') } p { background: url(b.png) }"
    )
    assert network_loads(tmp_path) == ["a.css: https://fonts.example/a.woff2"]
