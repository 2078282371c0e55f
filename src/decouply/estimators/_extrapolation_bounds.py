"""Predictions beyond the data: what functions do there, and how far inputs count.

Functions that keep their last value ("constant") are bounded one by one, and that is a trap: where large functions
cancel each other, one that stops before the others leaves what it should have cancelled. So by default ("bounded")
functions go on along their tangents, which keeps such sums together, and inputs stop: what lies beyond the range of the
training samples by more than half of it counts as half of it. The same holds for what a regressor predicts: each input
may be within its range, but a combination of them that no sample has can take a sum of functions anywhere. Models that
predict left-out samples very well are trusted within the bounds of the inputs, and follow their formulas.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import is_word
from .._support._errors import InputError
from .._support._messages import short_repr
from ..model._decoupling import Decoupling
from ..model._functions import OUTSIDE, Functions, Outside

BOUNDED = "bounded"
_MARGIN = 0.5  # of the range, on either side
_SAME = 1e-9  # of a domain: arguments that are so near to its end are within


@dataclass(frozen=True)
class Bounds:
    """How far the columns of a table may go."""

    low: Float[ndarray, " columns"]
    high: Float[ndarray, " columns"]

    @classmethod
    def around(cls, table: Float[ndarray, "S columns"], *, bounded: bool) -> Bounds:
        """The ranges of the columns and half of them on either side; everything unless `bounded`."""
        if not bounded:
            return cls(np.full(table.shape[1], -np.inf), np.full(table.shape[1], np.inf))
        low, high = table.min(axis=0), table.max(axis=0)
        margin = _MARGIN * (high - low)
        return cls(low - margin, high + margin)

    def within(self, table: Float[ndarray, "S columns"]) -> Float[ndarray, "S columns"]:
        return np.clip(table, self.low, self.high)


def as_outside(outside: object) -> str:
    """Check the parameter of an estimator."""
    if not is_word(outside, (BOUNDED, *OUTSIDE)):
        raise InputError(f"`outside` must be one of {', '.join((BOUNDED, *OUTSIDE))}. Got {short_repr(outside)}.")
    return str(outside)


def with_tails(model: Decoupling, X: Float[ndarray, "S m"], outside: str, *, exact: bool) -> Decoupling:
    """The same model at X, with tails for the layers whose domains are the range that X visits.

    Other domains are parameters, or parts that the user gave: cut off there, the functions would change at X itself.
    """
    tails: dict[str, Outside] = {"linear": "linear", "constant": "constant", "extend": "extend"}
    wanted = tails.get(outside, "extend" if exact else "linear")
    layers = []
    for g, u in zip(model.g, model.inner_inputs(X), strict=True):
        slack = _SAME * g.half_width
        within = np.all(u >= g.domain[:, 0] - slack) and np.all(u <= g.domain[:, 1] + slack)
        tailed = within and not np.any(g.layer.free_domain)
        layers.append(Functions(g.layer.bases, g.C, g.domain, wanted) if tailed else g)
    return model.with_parts(g=layers)
