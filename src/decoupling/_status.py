"""Why a solver stopped. The value of each member is the sentence that the user reads."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """The reason for stopping."""

    EXACT = "The model meets the samples to rounding: there is nothing left to improve."
    STALLED = "The objective did not decrease for `patience` iterations; the best iterate is returned."
    MAX_ITERATIONS = (
        "`max_iterations` was reached while the objective was still decreasing now and then; the best iterate is "
        "returned. Raise `max_iterations` to go on."
    )
    NONFINITE = "A factor became NaN or infinite, and this start was given up."
