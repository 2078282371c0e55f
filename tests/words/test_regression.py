"""What docs/regression.md says of its table."""

import numpy as np

from experiments.regression.table import RegressionRun, RegressionTable
from tests.words.quotes import Page, read

CONTENT = read("regression/regression.json")
TABLE = RegressionTable(
    tuple(RegressionRun(**run) for run in CONTENT["runs"]), tuple(CONTENT["missing"]), CONTENT["seed"]
)


def test_how_often_ours_is_best_or_level():
    level = [data for data in TABLE.data if TABLE.is_level(data, "decoupling")]
    assert Page("docs/regression.md").says(
        "the best or level with the best on {} of {} sets", len(level), len(TABLE.data)
    )


def test_how_long_ours_takes():
    longest = max(TABLE.seconds(data, "decoupling") for data in TABLE.data)
    assert Page("docs/regression.md").says("at most {} s of processor time", longest)


def test_where_ours_loses():
    behind = {
        data: np.mean(TABLE.scores(data, TABLE.best(data))) - np.mean(TABLE.scores(data, "decoupling"))
        for data in TABLE.data
        if not TABLE.is_level(data, "decoupling")
    }
    page = Page("docs/regression.md")
    for data, gap in behind.items():
        assert page.says(f"On *{data}* it loses {{}} of R²", gap)


def test_where_another_has_a_better_mean_within_the_spread():
    gaps = []
    for data, best in (("diabetes", "GAM"), ("friedman3", "KAN")):
        assert TABLE.best(data) == best and TABLE.is_level(data, "decoupling")
        gaps.append(np.mean(TABLE.scores(data, best)) - np.mean(TABLE.scores(data, "decoupling")))
    assert Page("docs/regression.md").says("others have better means: GAM by {}, and KAN by {} in more", *gaps)
