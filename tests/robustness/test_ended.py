"""Kills and signals at random moments, a few of each; `make fuzz` does a hundred."""

import os

import pytest

from tests.robustness.ended import kills, signals
from tests.robustness.outcome import FINE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of this kind are those of POSIX systems")


@pytest.mark.parametrize("trials", [kills, signals])
def test_nothing_is_lost_and_nobody_left_behind(trials):
    for outcome in trials(5, 3):  # the third kill and the fifth signal are for a command with workers
        assert outcome.verdict == FINE, outcome
