"""Why a solver stopped. The value of each member is the sentence that the user reads."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """The reason for stopping."""

    EXACT = "The model meets the samples to rounding: there is nothing left to improve."
    JACOBIANS_EXACT = "The Jacobians are met to rounding; the values are not, and this method does not fit them."
    FITTED = "The tensor was decomposed, and the nearest function of the basis was fitted to each component."
    STALLED = "The objective did not decrease for `patience` steps."
    CONVERGED = (
        "A local minimum was reached: the objective no longer decreases. More starts may find a lower one, and a model "
        "with more functions or degrees may fit better."
    )
    DROPPED = "This start was given up: others of its batch were better."
    OUT_OF_STEPS = (
        "All steps were used while the objective still decreased now and then; the best that was found is returned. "
        "Raise `max_steps` (for VarPro also `polish_steps`) to go on."
    )
    OUT_OF_TIME = (
        "`max_seconds` was reached before the search was over; the best found so far is returned. Raise it to go on."
    )
    INTERRUPTED = "The search was stopped by Ctrl-C; the best found so far is returned."
    NONFINITE = "A factor became NaN or infinite, and this start was given up."


def when_late(status: Status) -> Status:
    """The status of a search that has no time left: what is exact would not get better."""
    kept = (Status.EXACT, Status.JACOBIANS_EXACT, Status.INTERRUPTED)
    return status if status in kept else Status.OUT_OF_TIME
