"""Which ranks and degrees a scan may try."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product


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
