"""A reduced form of the regression table; the whole one is `python -m experiments regression`."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from experiments.regression import regression, tables
from experiments.regression.regression import SETS, houses


def test_a_small_table_has_scores_times_and_what_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(regression, "is_installed", lambda method: method != "GAM")
    options = {"n_splits": 2, "data": ["friedman2", "diabetes"], "methods": ["decoupling", "ridge", "GAM"]}
    found = regression.REGRESSION.run(tmp_path, seed=1, **options)
    assert {run["data"] for run in found["runs"]} == {"diabetes", "friedman2"} and found["missing"] == ["GAM"]
    scores = {
        method: np.mean([r["r_squared"] for r in found["runs"] if (r["data"], r["method"]) == ("friedman2", method)])
        for method in ("decoupling", "ridge")
    }
    assert scores["decoupling"] > 0.85 > scores["ridge"]
    regression.REGRESSION.write(found, tmp_path)
    text = (tmp_path / "regression.md").read_text()
    assert "Not installed, and not measured: GAM." in text and "| friedman2 | **0." in text
    assert (tmp_path / "regression.png").stat().st_size > 1000


def wine(**scores):
    """The content of one data set from the scores of the splits."""
    rows = [{"data": "wine", "method": name, "r_squared": r} for name, some in scores.items() for r in some]
    return {"runs": rows}


@pytest.mark.parametrize(
    ("ours", "level"),
    [
        ((0.8, 0.9), True),
        ((0.79, 0.91), True),  # the same mean
        ((0.78, 0.91), True),  # behind by less than the differences vary
        ((0.78, 0.88), False),  # always behind
        ((0.8, -3.0), False),  # one failure makes a wide spread, and no tie
    ],
)
def test_methods_are_level_within_the_spread(ours, level):
    assert regression.is_level(wine(ridge=(0.8, 0.9), decoupling=ours), "wine", "decoupling") is level


def test_all_sets_are_there_without_a_network_and_houses_are_like_houses():
    for make in SETS.values():
        X, y = make(0)
        assert X.shape[0] == y.shape[0] >= 178 and np.isfinite(X).all() and np.isfinite(y).all()
    X, price = houses(0)
    assert 0.005 < np.mean(price == 5.0) < 0.2  # cut off, as in the original
    assert np.corrcoef(X[:, 0], price)[0, 1] > 0.5  # income matters most


def test_formulas_have_their_known_values():
    """Minima that are known, and values in the middle of the box."""
    at = {name: f for name, (f, _) in tables.FORMULAS.items()}
    assert at["Rosenbrock"](np.array([[0.5, 0.5]]))[0] == pytest.approx(0.0)
    lowest = np.array([[(np.pi + 5) / 7.5 - 1, 2.275 / 7.5 - 1]])
    assert at["Branin"](lowest)[0] == pytest.approx(0.397887, abs=1e-6)
    middle = {name: float(f(np.zeros((1, m)))[0]) for name, (f, m) in tables.FORMULAS.items()}
    assert middle["borehole"] == pytest.approx(70.87, abs=0.02) and middle["piston"] == pytest.approx(0.4644, abs=1e-3)
    assert middle["wing weight"] == pytest.approx(267.62, abs=0.02)


def test_a_first_call_is_compared_with_fits_that_know_more():
    def run(method, number, error, ranks=None):
        facts = {"part": "tables", "name": "tables", "run": number, "functions": 2, "seconds": 1.0}
        return facts | {"method": method, "errors": [error], "ranks": ranks}

    runs = [run(tables.BEST_TOLD, 0, 1.0), run(tables.BEST_TOLD, 1, 2.0)]
    runs += [run(tables.OURS, 0, 1.5, [2]), run(tables.OURS, 1, 6.0, [3]), run("ridge", 0, 9.0), run("ridge", 1, None)]
    lines = tables.table({"runs": runs}).splitlines()
    assert lines[4] == "| decoupling | 2.25 | 3.00 | 1 of 2 | 1 of 2 | 1.0 s | 1.0 s |"
    assert lines[5].startswith("| ridge | inf | inf | 0 of 2 | |")


@pytest.mark.parametrize("part", ["tables", "formulas", "curves"])
def test_draws_of_a_part_are_what_they_say(part):
    name = {"tables": "tables", "formulas": "piston", "curves": "step"}[part]
    drawn = tables.draw(part, name, 0, seed=0)
    assert drawn.truth.shape == (len(drawn.fresh), drawn.samples.n_outputs)
    assert (drawn.noise > 0.0) == (part != "formulas")
    for method in ("ridge",) if part != "curves" else ():
        outcome = tables.work(method, part, name, 0, 0)
        assert len(outcome["errors"]) == drawn.samples.n_outputs and 0.0 < outcome["errors"][0] < 150.0
