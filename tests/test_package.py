"""What a user of the package sees: names, import time behaviour, examples in the texts, wrong types."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import decouply as dc

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text()
CONTRACT = {
    *("data", "sysid"),
    *("Samples", "Monomial", "Chebyshev", "Spline", "bases", "fit", "solvers"),
    *("Decoupling", "Functions", "ParaTuck", "decouple", "select", "systems"),
    *("Proj", "Constr", "Zniyed", "Hollander", "Dreesen", "TwoStage"),
    *("error_jacobian", "error_values", "relative_rmse", "factor_match"),
}


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_the_public_names_are_there():
    assert set(dir(dc)) >= CONTRACT
    for name in dir(dc):
        assert getattr(dc, name) is not None
    assert re.fullmatch(r"\d+\.\d+\.\d+", dc.__version__)


def test_every_public_name_is_on_the_page_of_the_api_with_a_sentence():
    pytest.importorskip("torch")
    listed = set(re.findall(r"^   (\w[\w.]*)$", (ROOT / "docs" / "reference" / "api.rst").read_text(), flags=re.M))
    public = {name: getattr(dc, name) for name in dc.__all__}
    kinds = {f"bases.{basis.__name__}": basis for basis in dc.bases.OWN_BASES}
    public |= {name: basis for name, basis in kinds.items() if basis not in public.values()}
    for room in ("fit", "nn", "sysid", "data"):
        public |= {f"{room}.{name}": getattr(public[room], name) for name in public[room].__all__}
    documented = {name: value for name, value in public.items() if not inspect.ismodule(value)}
    assert not set(documented) - listed
    for name, value in documented.items():
        summary = inspect.getdoc(value).split("\n\n")[0]
        assert summary[0].isalpha() and summary.endswith("."), f"{name}: {summary}"


def test_importing_prints_nothing_and_loads_no_edge():
    done = python("import sys, decouply as dc; dc.decouple, dc.systems; print(*sys.modules)")
    assert done.stderr == ""
    loaded = set(done.stdout.split())
    assert not loaded & {"matplotlib", "jinja2", "torch", "sklearn", "scipy", "rich", "click", "joblib"}


def test_importing_loads_what_security_md_lists():
    (row,) = re.findall(r"^\| what is loaded \|.*$", (ROOT / "SECURITY.md").read_text(), flags=re.M)
    by_import, by_fit = (set(re.findall(r"`(\w+)`", part)) for part in row.split("Everything")[0].split(";"))
    fit = "X = np.eye(9)[:, :2] + [[k] for k in range(9)]; dc.decouple(dc.Samples(X, F=X**2), 1, 2, progress=False)"
    done = python(
        "import sys; before = set(sys.modules); import decouply as dc; first = set(sys.modules) - before\n"
        f"import numpy as np; {fit}; print(*first); print(*set(sys.modules) - before)"
    )
    first, later = ({name.partition(".")[0] for name in line.split()} for line in done.stdout.splitlines())
    ours = set(sys.stdlib_module_names) | {"decouply"}
    assert first - ours == by_import
    required = {
        name.replace("-", "_") for name in re.findall(r'^  "([\w-]+)>=', PROJECT.split("[project.opt")[0], re.M)
    }
    assert later & required == by_import | by_fit


@pytest.mark.slow
def test_wrong_types_are_refused_with_the_rule_where_nobody_checks_annotations():
    """In the test run annotations are checked before our own checks see a value: hence a plain process."""
    cases = {
        "dc.systems.f1().formula('prose')": "one of text, html, latex, python, c, matlab, sympy. Got 'prose'",
        "narx.decouple(1, n_starts=4).refine(v, v, on='phase')": '`on` must be "simulation" or "prediction"',
        "dc.data.Record('r', X[:, 0], X[:9, 0], 0.1)": "same length",
        "dc.data.Record('r', 'u', v, 0.1)": "`u` must be a real array of shape (T,)",
        "dc.data.Record('r', v, v, None)": "`sampling_time` must be a number above 0",
        "dc.data.Record('r', v, v, 0.1, 'few')": "`n_init` must be a whole number",
        "dc.data.Record(None, v, v, 0.1)": "`name` must be a text",
        "dc.sysid.LinearStateSpace(W, W[:, :1], W[:1], [[1, 2]], v[:2], v[:1])": "`D` must have shape (1, 1), with",
        "dc.sysid.LinearStateSpace(W, W * 1j, W, W, v[:2], v[:2])": "`B` must be a real array",
        "dc.sysid.LinearStateSpace(W, W, W, W, v[:2], v[:2] * np.nan)": "`c_y` must hold finite",
        "dc.sysid.LinearStateSpace(W, W, W, W, v[:2], v[:2]).frequency_response('low')": "`frequencies` must be",
        "dc.sysid.LinearStateSpace(W, W, W, W, v[:2], v[:2]).frequency_response(0)": "must not meet a pole",
        "dc.sysid.LinearStateSpace(W, W, W, W, v[:2], v[:2]).to_control('fast')": "`dt` must be a number",
        "dc.sysid.LinearStateSpace.of(dc.systems.f1(), 1)": "`step` must be a Decoupling with a linear part",
        "dc.Result.load('result.safetensors', samples=X)": "`samples` must be dc.Samples. Got ndarray",
        "s.to_zarr('s.zarr', dtype='auto')": "`dtype` must be np.float32 or np.float64. Got 'auto'",
        "dc.Samples.from_batches([{'X': X, 'F': X}], dtype=None)": "`dtype` must be np.float32 or np.float64",
        "dc.Samples.from_dask(da.ones(()), da.ones(()))": "`X` must have one row per sample. Got a single number",
        "dc.Samples.from_dask(da.ones((4, 2)), 1j * da.ones((4, 2)))": "`F` must hold real numbers. Got entries of",
        "dc.nn.DecoupledLayer.of_sizes((2, 2, 2), basis='spline')": "`basis` must be a basis such as",
        "dc.nn.unpack(dc.nn.DecoupledLayer.of_sizes((2, 2, 2)), 0)": "`packed` what dc.nn.pack returned",
        "dc.DecouplingClassifier().fit(X, np.array([None, 'a'] * 10, object))": "labels of one kind",
        "dc.systems.f1().save('m' * 300)": "names of at most 255 bytes",
        "dc.Monomial(2.5)": "`degree` must be a whole number of at least 1. Got 2.5",
        "dc.Monomial('3')": "whole number",
        "dc.bases.Bernstein(True)": "whole number",
        "dc.Functions('monomial', [[1, 2]])": "must be a basis",
        "dc.Decoupling([W, W], [W])": "`g[0]` must be dc.Functions",
        "dc.decouple(X, 2, 3)": "`samples` must be dc.Samples",
        "dc.decouple(s, '2,2', 3)": "`ranks` must be a tuple of whole numbers",
        "dc.decouple(s, (2.0, 2), 3)": "`ranks[0]` must be a whole number",
        "dc.decouple(s, 2, 3, solver='constr')": "`solver` must be a solver",
        "dc.decouple(s, 2, 3, solver=dc.Constr)": "`solver` must be a solver",
        "dc.decouple(s, 2, 3, rng='a')": "`rng` must be",
        "dc.decouple(s, 2, 3, n_starts=2.5)": "`n_starts` must be a whole number",
        "dc.decouple(s, 2, 3, progress='yes')": "`progress` must be",
        "dc.decouple(s, 2, 3, validation=X)": "`validation` must be dc.Samples",
        "dc.select(X)": "`samples` must be dc.Samples",
        "dc.select(s, '4,4')": "`max_ranks` must be a tuple of whole numbers",
        "dc.select(s, (2, 2), 'high')": "`max_degrees` must be a tuple of whole numbers",
        "dc.select(s, solver='varpro')": "`solver` must be a solver",
        "dc.select(s, effort='lazy')": "`effort` must be",
        "dc.solvers.Stopping(iterate='first')": '`iterate` must be "best" or "last"',
        "dc.nn.Training(joint=3)": "`joint` must be dc.nn.Distil",
        "dc.sysid.DecoupledStateSpace(1, [dc.Monomial(3)]).fit(v, v, search=3)": "`search` must be",
        "dc.nn.Fitting(basis=4)": "`basis` must be a basis",
        "dc.nn.compress(net, '', X, training=3)": "`training` must be dc.nn.Training",
        "dc.nn.compress(net, 3, X)": "`parts` must be names or patterns",
        "dc.nn.compress(net, '0', X, task='ranking')": '`task` must be "classification"',
        "dc.nn.Fitting(start='warm')": '`start` must be "auto"',
        "dc.nn.Distil(loss='mse')": '`loss` must be "kl"',
        "dc.select(s, n_folds=2.5)": "`n_folds` must be a whole number",
        "dc.select(s, max_seconds='long')": "`max_seconds` must be a number",
        "dc.select(s, 1, 1, progress='yes')": "`progress` must be",
        "dc.decouple(s, 'auto', n_starts=3)": "`n_starts` must be left out",
        "dc.decouple(s, 'automatic', 3)": "`ranks` must be a tuple of whole numbers",
        "dc.Constr(lam='1')": "`lam` must be a number",
        "dc.Constr(start='random')": "`start` must be",
        "dc.TwoStage('proj')": "`solver` must be a solver",
        "dc.TwoStage(dc.Proj(), loss=3)": "`loss` must be callable",
        "dc.ParaTuck(3, 4)": "sequences",
        "dc.Samples.from_function(abs, X, jac='forward')": "`jac` must be",
        "dc.estimate_jacobians(dc.Samples(X, F=X), degree=3)": "`degree` must be 1 or 2. Got 3",
        "dc.DecouplingRegressor(solver='varpro').fit(X, X)": "`solver` must be a solver",
        "dc.estimate_jacobians(X)": "`samples` must be dc.Samples",
        "dc.Samples.from_jax(3, X)": "`f` must be a function of JAX arrays",
        "dc.Samples.load('samples.npz', drop_missing='yes')": "`drop_missing` must be True or False",
        "dc.factor_match(3, 4)": "two Decouplings or two ParaTucks",
        "dc.decouple(s, (2, 2), basis=[3, 3])": "`basis` must be a basis",
        "dc.decouple(s, 2, 3, basis=dc.bases.AbstractBasis)": "takes the degree alone",
        "dc.Functions(dc.Monomial, [[1, 2]])": "`basis` must be a basis",
        "dc.Decoupling(3, 4)": "Got int and int",
        "dc.Samples(X[:2], F=[[1, 2], [3]])": "cannot be read as an array",
        "dc.Samples.from_function(abs, X[:, :0])": "at least one point",
        "dc.solvers.Uniform('a', 1)": "`low` must be a number",
        "dc.solvers.Uniform(0.1, float('inf'))": "`high` must be a number",
        "dc.systems.f1().canonical(X[:0])": "at least one point",
        "dc.decouple(s, 2, 3, solver=dc.TwoStage(dc.Proj(), loss=lambda m: None), n_starts=1)": "return a number",
        "dc.systems.f1().permuted(1, [1.0, 0.0])": "permutation",
        "dc.systems.f1().permuted(1.0, [1, 0])": "`layer` must be one of",
        "s.take([100])": "`indices` must be",
        "dc.decouple(s, 2, 3).relative_rmse(X)": "`samples` must be dc.Samples",
        "dc.Proj(weighted_projection='no')": "True or False",
    }
    code = f"""
import json, numpy as np, decouply as dc, dask.array as da
from torch import nn; net = nn.Sequential(nn.Linear(2, 2))
X = np.random.default_rng(0).uniform(size=(20, 2)); W = np.eye(2)
s = dc.Samples(X, F=X, J=np.broadcast_to(np.eye(2), (20, 2, 2)))
v = np.sin(np.arange(50.0) ** 2); narx = dc.sysid.PolynomialNARX(1, 1, 2).fit(v, v**2 + v)
found = {{}}
for case in {list(cases)!r}:
    try:
        eval(case)
    except dc.InputError as error:
        found[case] = str(error)
    except Exception as error:
        found[case] = repr(error)
print(json.dumps(found))
"""
    done = python(code)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for case, message in cases.items():
        assert message in found.get(case, "no error"), (case, found.get(case))


@pytest.mark.slow
def test_the_result_does_not_depend_on_the_number_of_cores():
    code = """
import numpy as np, decouply as dc
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (150, 80))
s = dc.Samples(X, F=rng.normal(size=(150, 6)), J=rng.normal(size=(150, 6, 80)))
r = dc.decouple(s, (40, 5), (2, 2), solver=dc.Constr(stopping=dc.solvers.Stopping(max_steps=8)), n_starts=1)
print(repr(r.error_jacobian), repr(r.decoupling.W[0][0, 0]))
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"OPENBLAS_NUM_THREADS": n},
        ).stdout
        for n in ("1", "2")
    }
    assert len(found) == 1
