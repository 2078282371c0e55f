"""Distributions of the start values of a search."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import numpy as np
from numpy import ndarray

from ..._support._arguments import as_number
from ..._support._errors import InputError

MOST_STARTS = 1_000_000  # more is a slip: their random numbers alone would take hours


class AbstractStart(abc.ABC):
    """A distribution of start values. Subclass it to use your own.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> class Ones(dc.solvers.AbstractStart):
    ...     def draw(self, rng, shape):
    ...         return np.ones(shape)
    >>> Ones().draw(np.random.default_rng(0), (1, 2))
    array([[1., 1.]])
    """

    @abc.abstractmethod
    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        """Random entries for one factor, of the given shape."""


@dataclass(frozen=True)
class Uniform(AbstractStart):
    """Entries uniform between `low` and `high`; the paper's choice is 0.1 to 10.

    Parameters
    ----------
    low, high : float
        Bounds of the entries.

    Examples
    --------
    >>> import decouply as dc
    >>> start = dc.solvers.Uniform(low=1.0, high=2.0)
    >>> dc.Proj(start=start).start
    Uniform(low=1.0, high=2.0)
    """

    low: float = 0.1
    high: float = 10.0

    def __post_init__(self) -> None:
        for name in ("low", "high"):
            as_number(name, getattr(self, name), least=-1e300)
        if not self.low < self.high:
            raise InputError(f"`low` must be below `high`. Got {self.low} and {self.high}.")

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        return rng.uniform(self.low, self.high, shape)


@dataclass(frozen=True)
class Normal(AbstractStart):
    """Entries normal with mean 0.

    Parameters
    ----------
    scale : float
        Standard deviation of the entries.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> start = dc.solvers.Normal(scale=0.5)
    >>> start.draw(np.random.default_rng(0), (2, 2)).shape
    (2, 2)
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        as_number("scale", self.scale, above=True)

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        return rng.normal(0.0, self.scale, shape)


@dataclass(frozen=True)
class Orthonormal(AbstractStart):
    """Matrices with orthonormal rows or columns, whichever are fewer, in random directions.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> Q = dc.solvers.Orthonormal().draw(np.random.default_rng(0), (3, 2))
    >>> (Q.T @ Q).round(6) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """

    def draw(self, rng: np.random.Generator, shape: tuple[int, ...]) -> ndarray:
        tall = rng.normal(size=(max(shape), min(shape)))
        Q, R = np.linalg.qr(tall)
        Q = Q * np.sign(np.diagonal(R))  # uniform over all directions
        return Q if shape[0] >= shape[1] else Q.T
