r"""Which ranks and degrees a scan may try.

One shape that was fitted, and the criterion by which shapes are compared.

Shapes are compared by the Bayesian information criterion of the fits to all samples,

    sum_t N_t log(e_t) + p log(N).

Here e_t is the relative squared error of the values or the Jacobians, N_t the count of these numbers, and N their sum.
The number of free parameters is p, or the effective number if functions were smoothed. Errors at machine precision
count as equal, so that the smallest of the exact shapes wins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import overload

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._result import Result

STRONG_EVIDENCE = 6.0  # difference of the criterion that is called strong evidence


@dataclass(frozen=True)
class Limits:
    """What may be tried: the largest ranks and degrees per layer, or the very degrees."""

    max_ranks: tuple[int, ...]
    max_degrees: tuple[int, ...]
    fixed_degrees: bool
    fewest_layers: int = 1

    def n_layers(self) -> range:
        """Numbers of layers to try."""
        return range(self.fewest_layers, len(self.max_ranks) + 1)

    def ranks(self, L: int) -> tuple[int, ...]:
        """Largest ranks of a model with L layers."""
        return self.max_ranks if len(self.max_ranks) == L else (max(self.max_ranks),) * L

    def degrees(self, L: int) -> tuple[int, ...]:
        """Largest degrees of a model with L layers."""
        return self.max_degrees if len(self.max_degrees) == L else (max(self.max_degrees),) * L

    def least_degrees(self, L: int) -> tuple[int, ...]:
        """A layer of degree 1 between others is none."""
        top = self.degrees(L)
        return top if self.fixed_degrees else tuple(min(d, 1 if L == 1 else 2) for d in top)

    def ladder(self, L: int) -> list[tuple[int, ...]]:
        """Degrees to try for given ranks, lowest first; those of a shape differ by at most two.

        Of shapes with the same highest degree the largest comes first: it tells whether the others are worth a fit. One
        layer needs no help from lower degrees: the highest comes first.
        """
        top, least = self.degrees(L), self.least_degrees(L)
        if L == 1 or self.fixed_degrees:
            return [(d,) for d in range(top[0], least[0] - 1, -1)] if L == 1 else [top]
        apart = 2 if L == 2 else 1
        steps = {
            tuple(min(max(d - k, low), high) for k, low, high in zip(below, least, top, strict=True))
            for d in range(max(least), max(top) + 1)
            for below in product(range(apart + 1), repeat=L)
        }
        return sorted(steps, key=lambda degrees: (max(degrees), -sum(degrees), degrees))


Shape = tuple[tuple[int, ...], tuple[int, ...]]  # ranks and degrees


def in_words(numbers: tuple[int, ...]) -> str:
    """Ranks or degrees for a person: 2 of one layer, "2, 3" of two."""
    return ", ".join(map(str, numbers))


def percent(error: float) -> str:
    """A relative error for a person: two digits, and whole numbers of percent from 10 on."""
    return f"{100.0 * error:.0f} %" if 0.1 <= error < 1e6 else f"{100.0 * error:.2g} %"


@dataclass(frozen=True, eq=False)
class Candidate:
    """One shape and how well it does."""

    ranks: tuple[int, ...]
    degrees: tuple[int, ...]
    result: Result
    squares: tuple[float, ...]  # relative squared errors of Jacobians and values, as far as these are known
    counts: tuple[float, ...]  # how many numbers they are
    n_free: int
    fold_errors: Float[ndarray, " K"]  # relative, one per fold
    rounding: float  # relative squared errors up to this are rounding
    seconds: float
    judged: float | None = None  # what a quick scan chooses by in place of the criterion
    left_out: tuple[float, ...] = ()  # relative errors of Jacobians and values at samples that are left out

    @property
    def shape(self) -> Shape:
        return self.ranks, self.degrees

    @property
    def in_words(self) -> str:
        """Its functions, layer by layer."""
        return " → ".join(g.in_words for g in self.result.decoupling.g)

    @property
    def n_parameters(self) -> int:
        """All parameters; if functions were smoothed, those that the data decide."""
        effective = self.result.n_effective
        return self.result.decoupling.n_parameters if effective is None else round(effective)

    @property
    def exact(self) -> bool:
        return max(self.squares) <= self.rounding

    @property
    def training_error(self) -> float:
        return float(np.sqrt(np.mean(self.squares)))

    @property
    def error(self) -> float:
        """On validation samples: the root mean square of the folds."""
        return float(np.sqrt(np.mean(self.fold_errors**2)))

    @property
    def left_out_error(self) -> float:
        """The geometric mean of those of Jacobians and values, whose sizes of noise are not compared."""
        return float(np.exp(np.mean(np.log(np.maximum(self.left_out, np.finfo(float).tiny)))))

    @property
    def spread(self) -> float:
        """Standard deviation between folds."""
        return float(np.std(self.fold_errors)) if np.all(np.isfinite(self.fold_errors)) else float("inf")

    @property
    def score(self) -> float:
        """What the choice goes by: lower is better."""
        if self.judged is not None:
            return self.judged
        effective = self.result.n_effective
        n_free = self.n_free if effective is None else effective
        return criterion(self.squares, self.counts, n_free, self.rounding)


@overload
def better(a: Candidate, b: Candidate | None) -> Candidate: ...
@overload
def better(a: Candidate | None, b: Candidate | None) -> Candidate | None: ...
def better(a: Candidate | None, b: Candidate | None) -> Candidate | None:
    """The one with the lower score; the first one of equals."""
    if a is None or b is None:
        return a or b
    return a if a.score <= b.score else b


def criterion(squares: tuple[float, ...], counts: tuple[float, ...], n_free: float, rounding: float) -> float:
    """The Bayesian information criterion of relative squared errors; those at machine precision count as equal."""
    fit = sum(N * np.log(max(e, rounding)) for N, e in zip(counts, squares, strict=True))
    return float(fit + n_free * np.log(sum(counts)))
