"""Hostile arguments: refused in words of ours, never by an error or a warning of somebody else's."""

import importlib

import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import decouply as dc
from decouply._support._errors import short_repr
from decouply.samples.readers._by_extension import _listed
from tests.robustness.doors import ARGUMENTS, DOORS, MODEL, STATES, X, knock
from tests.robustness.hostile import HOSTILE, TEXTS, EvilRepr
from tests.robustness.outcome import FINE
from tests.robustness.public_names import strategies
from tests.robustness.run import ROOT, fuzz


@settings(max_examples=100)
@given(st.sampled_from(ARGUMENTS), st.sampled_from(sorted(HOSTILE)))
def test_every_door_takes_or_refuses_every_argument(tmp_path_factory, where, value):
    door, argument = where
    try:
        outcome = knock(door, {argument: value}, tmp_path_factory.getbasetemp())
    except jaxtyping.TypeCheckError:  # annotations, which only tests check
        return
    assert outcome.verdict == FINE or "Beartype" in outcome.detail or "TypeCheck" in outcome.detail, outcome


def test_calls_without_the_checks_of_tests():
    fuzz("calls", count=300, seed=11)


def test_every_public_name_has_a_strategy():
    """A new one needs good arguments, or a reason, in tests/robustness/public_names.py."""
    made, missing = strategies()
    assert not missing
    names = {door.name.split(",")[0] for door in (*DOORS, *made)}
    assert {"Samples", "decouple", "Decoupling.simplified", "DecoupledStateSpace.report", "compress"} <= names


@pytest.mark.parametrize("name", ["Decoupling.with_parts", "Result.simplified", "LinearStateSpace.save", "pack"])
def test_good_arguments_are_good(name, tmp_path):
    door = next(door for door in strategies()[0] if door.name == name)
    door.call(**(door.good | ({} if door.path is None else {"path": tmp_path / door.path})))


FOUND = [  # by long runs, and mended
    ("pack", {"layer": "set"}),
    ("Record.rmse", {"y_hat": "EvilArray"}),
    ("Record.relative_rmse", {"y_hat": "complex"}),
    ("DecoupledNARX.report", {"command": "bools"}),
    ("DecoupledStateSpace.report", {"title": "fields"}),
    ("PolynomialStateSpace", {"feedthrough": "(2,) 0"}),
    ("DecoupledLayer", {"dtype": "(2, 0)"}),
    ("DecoupledLayer.of_sizes", {"offset": "complex tensor"}),
    ("Result.bands", {"model": "'abc'"}),
    ("compress", {"parts": "EvilRepr"}),
    ("Decoupling.plot_functions", {"X": "(8, 2) 1e300"}),
    ("Samples.from_sympy", {"expressions": "class"}),
    ("DecouplingRegressor.predict", {"return_std": "matrix"}),
    ("Decoupling.simplified", {"prune": "raw bytes"}),
    ("Decoupling.simplified", {"tolerance": "1e-200"}),
    ("Samples.to_zarr", {"dtype": "EvilRepr"}),
    ("Samples.from_sympy", {"expressions": "10**400"}),
    ("PolynomialNARX.decouple", {"as_given": "numbers as objects"}),
    ("LinearStateSpace.frequency_response", {"frequencies": "1e+308"}),
    ("identifiable", {"ranks": "EvilArray"}),
    ("Record.of", {"data": "EvilAttributes"}),
    ("DecouplingClassifier.predict", {"X": "broadcast to 10^12"}),
    ("TwoStage", {"solver": "EvilAttributes"}),
    ("ParaTuck.from_cp", {"cp": "EvilItems"}),
    ("Result.recognise", {"tolerance": "1e+308"}),
    ("Result.formula", {"exact": "not aligned"}),
    ("Samples.from_sympy", {"expressions": "EvilAttributes"}),
    ("Result.other_solutions", {"max_seconds": "1e+308"}),
    ("Result.uncertainty_at", {"X": "(8, 2) 1e300"}),
    ("pack", {"n_bits": "None"}),
]


@pytest.mark.parametrize(("name", "hostile"), FOUND, ids=[name for name, _ in FOUND])
def test_what_long_runs_found_is_refused_in_words(name, hostile, tmp_path):
    door = next(door for door in (*DOORS, *strategies()[0]) if door.name == name)
    try:
        outcome = knock(door, hostile, tmp_path)
    except jaxtyping.TypeCheckError:
        return
    assert outcome.verdict == FINE or "TypeCheck" in outcome.detail, outcome


def test_signals_may_be_named_by_half_of_a_pair(tmp_path):
    STATES.with_names(["\ud800"], ["$\udcff"]).report(tmp_path / "page.html", title="\ud800")
    assert "\ud800" not in (tmp_path / "page.html").read_text()


def test_the_page_shows_the_last_run_of_every_part(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    tool = importlib.import_module("fuzz")
    monkeypatch.setattr(tool, "PAGE", tmp_path / "page.md")
    tool.PAGE.write_text(f"before\n{tool._BEGIN}\n\n{tool.HEADER}\n\n{tool._END}\nafter\n")
    for name, trials in (
        ("files", "9 special and damaged files"),
        ("calls", "3 hostile calls"),
        ("calls", "7 hostile calls"),
    ):
        tool.keep(name, {"trials": trials, "seed": "1", "looked for": "x", "found": "0"})
    rows = "| 7 hostile calls | 1 | x | 0 |\n| 9 special and damaged files | 1 | x | 0 |"
    assert tool.PAGE.read_text() == f"before\n{tool._BEGIN}\n\n{tool.HEADER}\n{rows}\n\n{tool._END}\nafter\n"


def test_hostile_paths_write_nothing_where_the_tests_run(tmp_path, monkeypatch):
    folder, here = tmp_path / "folder", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for door in (door for door in DOORS if door.path is not None):
        for value in TEXTS:
            knock(door, {"path": value}, folder)
    assert {path.name for path in tmp_path.iterdir()} == {"folder", "here"} and not list(here.iterdir())


@pytest.mark.parametrize("name", ["__call__", "jacobian", "inner_inputs"])
def test_what_overflows_is_told(name):
    with pytest.warns(dc.DecouplingWarning, match="too large for a float.* in 1 of 2 rows, the first of them 1"):
        getattr(dc.systems.f1(), name)([[0.0, 0.0], [1e200, 1e200]])


def test_points_where_a_model_is_not_finite_have_no_canonical_form():
    for method in (dc.systems.f1().canonical, MODEL.net_of_linear):
        with pytest.raises(dc.InputError, match="points at which the model is finite"), np.errstate(all="raise"):
            method(np.full((3, 2), 1e200))


def test_messages_are_short_whatever_they_were_given():
    assert short_repr("a" * 10**6) == repr("a" * 200)[:200] + "... (str)"
    assert short_repr(10**5000) == "an object of type int that cannot be shown"
    assert short_repr(EvilRepr()) == "an object of type EvilRepr that cannot be shown"
    assert "\x1b" not in short_repr(np.array(["\x1b[31m"])) and "\n" not in short_repr(np.zeros((3, 3)))


def test_counts_that_fill_the_memory_are_refused():
    with pytest.raises(dc.InputError, match="at most 100000"):
        dc.decouple(dc.Samples(X, F=MODEL(X)), 10**9, 3)
    with pytest.raises(dc.InputError, match="`degree` must be a whole number of at most 1000"):
        dc.bases.Bernstein(1100)
    with pytest.raises(dc.InputError, match="must fit into memory"):
        dc.Samples(np.broadcast_to(1.0, (10**6, 10**6)), F=np.ones(10**6))


def test_tensors_with_gradients_and_short_floats_are_taken():
    torch = pytest.importorskip("torch")
    tensor = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    np.testing.assert_array_equal(MODEL(tensor), MODEL(X))
    short = torch.tensor(X).bfloat16()
    np.testing.assert_array_equal(dc.Samples(short, F=short).X, short.double().numpy())
    sklearn_like = dc.DecouplingRegressor(ranks=1, degrees=1, n_starts=1).fit(tensor, tensor[:, 0])
    assert np.isfinite(sklearn_like.predict(tensor)).all()


def test_factors_of_huge_and_tiny_tensors_are_those_of_ordinary_ones():
    J = dc.systems.f2().jacobian(np.random.default_rng(0).uniform(-1.0, 1.0, (30, 3)))
    for scale in (1e-300, 2.0**40, 1e290):
        fit = dc.paratuck(scale * J, (2, 2))
        assert fit.error < 1e-20
        np.testing.assert_allclose(fit.paratuck.to_tensor() / scale, J, rtol=1e-6, atol=1e-6 * np.abs(J).max())
    with pytest.raises(dc.InputError, match="at most 100000"):
        dc.paratuck(J, 2**63)


def test_names_for_columns_of_an_archive_must_be_a_list():
    for names in (np.int8(3), slice(None), iter("ab"), np.array("ab"), [np.zeros(2)]):
        with pytest.raises(dc.InputError, match="`inputs` must be the name of a column or a list of names"):
            _listed("inputs", names)
    assert _listed("inputs", np.array(["a", "b"])) == ("a", "b") and _listed("inputs", 3) == (3,)


def test_bytes_are_no_ranks():
    with pytest.raises(dc.InputError, match="must be a tuple of whole numbers"):
        dc.paratuck(MODEL.jacobian(X), memoryview(b"abc"))


def test_counts_of_thousands_of_digits_are_refused_in_words():
    with pytest.raises(dc.InputError, match="`lags` must be a whole number of at most 9223372036854775807"):
        dc.sysid.residual_tests(X[:, 0], X[:, 1], lags=10**5000)
