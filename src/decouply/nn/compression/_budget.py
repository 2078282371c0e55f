"""How many functions each part may have: a budget for all of them, allocated by each part's effect on the network.

The error that a part brings to the network is taken to fall like s / r in its number of functions r, with s measured
by a short trial. The least sum of errors within a budget, where a function of part i costs c_i, then has r_i
proportional to sqrt(s_i / c_i).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from ..._support._errors import InputError

_BYTES_PER_FLOAT = 4  # bytes


@dataclass(frozen=True)
class Budget:
    """What the new parts may cost together: one of these, as a share of what they replace (at most 1) or a number.

    Parameters
    ----------
    parameters
        Parameters.
    macs
        Multiply-adds per input of the network.
    bytes
        Stored size; with `quantize`, of what is stored then.

    Examples
    --------
    >>> import decouply as dc  # doctest: +SKIP
    >>> dc.nn.Budget(parameters=0.25), dc.nn.Budget(bytes=4096)  # doctest: +SKIP
    """

    parameters: float | None = None
    macs: float | None = None
    bytes: float | None = None

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        if len(given) != 1:
            raise InputError(
                f"`budget` must be one of parameters, macs and bytes. Got {', '.join(given) if given else 'none'}."
            )
        (name, value), *_ = given.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InputError(f"`{name}` of a budget must be a number above 0. Got {value!r}.")

    @property
    def unit(self) -> str:
        return next(f.name for f in fields(self) if getattr(self, f.name) is not None)

    def allows(self, before: Sequence[float | None]) -> float:
        """The number that a budget is, for parts that have cost so much."""
        value = float(getattr(self, self.unit))
        if value > 1.0:
            return value
        known = [cost for cost in before if cost is not None]
        if len(known) < len(before):
            raise InputError(
                f"`budget` must be a number for these parts: their {self.unit} are not known, because they have layers "
                "that are neither linear nor convolutions. Give parameters=, or a number above 1."
            )
        return value * sum(known)


@dataclass(frozen=True)
class Price:
    """What a decoupling of a part costs: so much, and so much more for each function."""

    name: str
    fixed: float
    each: float
    most: int  # functions

    def of(self, rank: int) -> float:
        return self.fixed + rank * self.each


def price_of(
    name: str, unit: str, sizes: tuple[int, int, int], before: int, n_positions: int, n_bits: int | None
) -> Price:
    """The price of functions of d parameters between m inputs and n outputs, for a part with so many parameters."""
    m, n, d = sizes
    fixed, each = n, m + n + d
    most = max(1, (before - 1 - fixed) // each)
    if unit == "parameters":
        return Price(name, fixed, each, most)
    if unit == "macs":
        return Price(name, 0, n_positions * (each + 1), most)
    if n_bits is None:  # with the middle and the width of each domain
        return Price(name, _BYTES_PER_FLOAT * (fixed + 2), _BYTES_PER_FLOAT * (each + 2), most)
    return Price(name, 4 * n, each * n_bits / 8 + 10, most)  # scales, constants and domains in 16 bits


def equal_ranks(prices: Sequence[Price], total: float) -> list[int]:
    """Ranks for which every part has the same share of what the functions may cost."""
    free = total - sum(one.fixed for one in prices)
    return [min(one.most, max(1, int(free / len(prices) / one.each))) for one in prices]


def allocate_ranks(prices: Sequence[Price], total: float, sensitivities: Sequence[float]) -> list[int]:
    """Ranks within a total, at the least sum of sensitivity over rank."""
    least = sum(one.of(1) for one in prices)
    if total < least:
        names = ", ".join(one.name for one in prices)
        raise InputError(
            f"`budget` must allow one function per part: {least:.0f} for {names}. Got {total:.0f}: raise it, or name "
            "fewer parts."
        )
    ranks = [1] * len(prices)
    spent = least
    while True:
        gains: list[tuple[float, Any]] = [
            (s / (r * (r + 1)) / one.each, i)
            for i, (one, r, s) in enumerate(zip(prices, ranks, sensitivities, strict=True))
            if r < one.most and spent + one.each <= total
        ]
        if not gains:
            return ranks
        best = max(gains, key=lambda gain: gain[0])[1]
        ranks[best] += 1
        spent += prices[best].each
