"""Hostile names and everything that writes them, a few for each; `make fuzz` tries a thousand."""

import numpy as np
import pytest

from tests.robustness.names import WRITERS, hostile_names, written
from tests.robustness.outcome import FINE


@pytest.mark.parametrize("writer", WRITERS)
def test_no_name_gets_out_of_its_place(writer):
    rng = np.random.default_rng(4)
    for _ in range(6):
        outcome = written(writer, hostile_names(rng))
        assert outcome.verdict == FINE, outcome
