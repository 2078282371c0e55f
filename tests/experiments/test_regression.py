"""A reduced form of the regression table; the whole one is `python -m experiments regression`."""

import numpy as np
import pytest

pytest.importorskip("sklearn")
from experiments import RegressionTable, regression_markdown, run_regression, write_regression
from experiments.regression.datasets import SETS, houses
from experiments.regression.table import RegressionRun


def test_a_small_table_has_scores_times_and_what_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("experiments.regression.table.is_installed", lambda method: method != "GAM")
    table = run_regression(
        seed=1,
        n_jobs=1,
        n_splits=2,
        data=["friedman2", "diabetes"],
        methods=["decoupling", "ridge", "GAM"],
        store=tmp_path / "runs.jsonl",
    )
    assert table.data == ["diabetes", "friedman2"] and table.missing == ("GAM",)
    assert np.mean(table.scores("friedman2", "decoupling")) > 0.85 > np.mean(table.scores("friedman2", "ridge"))
    text = regression_markdown(table)
    assert "Not installed, and not measured: GAM." in text and "| friedman2 | **0." in text
    write_regression(table, tmp_path)
    assert (tmp_path / "regression.png").stat().st_size > 1000


def runs(**scores):
    """A table of one data set from the scores of the splits."""
    rows = [RegressionRun("wine", name, i, r, 1.0) for name, rs in scores.items() for i, r in enumerate(rs)]
    return RegressionTable(tuple(rows), (), 1)


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
    assert runs(ridge=(0.8, 0.9), decoupling=ours).is_level("wine", "decoupling") is level


def test_all_sets_are_there_without_a_network_and_houses_are_like_houses():
    for one in SETS:
        X, y = one.make(0)
        assert X.shape[0] == y.shape[0] >= 178 and np.isfinite(X).all() and np.isfinite(y).all()
    X, price = houses(0)
    assert 0.005 < np.mean(price == 5.0) < 0.2  # cut off, as in the original
    assert np.corrcoef(X[:, 0], price)[0, 1] > 0.5  # income matters most
