"""Kills and signals at random moments, a few of each; `make fuzz` does a hundred."""

import os

import pytest

from tests.robustness.ended import kills, signals
from tests.robustness.outcome import FINE

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of this kind are those of POSIX systems")


# The third kill and the fifth signal are for a command with workers.
@pytest.mark.parametrize(("trials", "count"), [(kills, 3), (signals, 5)])
def test_nothing_is_lost_and_nobody_left_behind(trials, count):
    for outcome in trials(count, 3):
        assert outcome.verdict == FINE, outcome
