r"""The place where samples are, and the one way to look at all of them: a reduction over portions.

Every quantity that a solver needs from the data is a sum (or a maximum, or a triangle by QR) over samples of something
small. A task is a pure function at module level, ``task(portion, *small)``, that returns a tuple of small arrays;
nothing with a sample axis travels, and nothing is remembered between tasks. Portions are joined in their order, in the
same groups wherever they were worked on, so that the result depends on the data only.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._arguments import ReadOnlyArrays
from .._support._errors import InputError

PORTION_ENTRIES = 500_000  # numbers in a portion: 4 MB, which fits into a processor's cache with what is made of it
_GROUPS = 256  # messages of a pass at most, however many portions there are

Join = str  # "sum", "max", "min", "qr" or "rows"
Task = Callable[..., tuple[ndarray, ...]]


@dataclass(frozen=True)
class Portion:
    """Samples `first`, `first` + 1, ... with all that is known of them, in memory."""

    first: int
    X: Float[ndarray, "S m"]
    F: Float[ndarray, "S n"] | None
    J: Float[ndarray, "S n m"] | None
    weights: Float[ndarray, "S *outputs"] | None

    def __len__(self) -> int:
        return len(self.X)

    def blocks(self, size: int) -> Iterator[Portion]:
        """The same samples, this many at a time: work whose tables stay near the processor is faster."""
        for first in range(0, len(self), size):
            rows = slice(first, first + size)
            F, J, weights = (None if a is None else a[rows] for a in (self.F, self.J, self.weights))
            yield Portion(self.first + first, self.X[rows], F, J, weights)


@dataclass(frozen=True, eq=False)
class AbstractData(ReadOnlyArrays, abc.ABC):
    """Samples, wherever they are kept: in memory, in a store, or in the collections of a cluster.

    The fields are arrays, or what stands for them and has a shape and a type; None if something is not known.
    """

    points: Any
    given_values: Any
    jacobians: Any
    factors: Any

    @property
    def shape(self) -> tuple[int, int, int]:
        """(S, n, m): samples, outputs, inputs."""
        known = self.jacobians if self.given_values is None else self.given_values
        n = 1 if len(known.shape) == 1 else known.shape[1]
        return int(self.points.shape[0]), int(n), int(self.points.shape[1])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the Jacobians if they are kept, or of the values if there are none."""
        return np.dtype((self.given_values if self.jacobians is None else self.jacobians).dtype)

    @property
    def has_values(self) -> bool:
        return self.given_values is not None

    @property
    def has_jacobians(self) -> bool:
        return self.jacobians is not None

    @property
    def weights_shape(self) -> tuple[int, ...] | None:
        """That of the weights of one sample: () or (n,). None without weights."""
        return None if self.factors is None else tuple(self.factors.shape[1:])

    @property
    def in_memory(self) -> bool:
        """Whether X, F, J and weights are arrays in memory."""
        return False

    # The arrays, which only data in memory have

    @property
    def X(self) -> Float[ndarray, "S m"]:
        return self._in_memory("X", self.points)

    @property
    def F(self) -> Float[ndarray, "S n"] | None:
        return self._in_memory("F", self.given_values)

    @property
    def J(self) -> Float[ndarray, "S n m"] | None:
        return self._in_memory("J", self.jacobians)

    @property
    def weights(self) -> Float[ndarray, "S *outputs"] | None:
        return self._in_memory("weights", self.factors)

    def _in_memory(self, name: str, array: Any) -> Any:
        if array is None or self.in_memory:
            return array
        raise InputError(
            f"`samples.{name}` must be in memory for this. Got {self.shape[0]} samples in {self.place}: take some of "
            "them, `samples.pilot(10_000)`."
        )

    @property
    @abc.abstractmethod
    def place(self) -> str:
        """The place of the samples, in a word or two."""

    @abc.abstractmethod
    def spans(self) -> Sequence[tuple[int, int]]:
        """First and last (exclusive) sample of every portion."""

    @abc.abstractmethod
    def portion(self, span: tuple[int, int]) -> Portion:
        """The samples of one span, checked."""

    def reduce(
        self,
        task: Task,
        *small: Any,
        join: Join | tuple[Join, ...] = "sum",
        progress: Callable[[], None] | None = None,
    ) -> tuple[ndarray, ...]:
        """Join what `task` returns for every portion.

        Parameters
        ----------
        task
            A function at module level: ``task(portion, *small)`` gives a tuple of arrays.
        small
            What it needs besides. It is sent along with every task.
        join
            How the arrays are joined: "sum", "max" or "min". "qr", triangles of tall tables. "rows", one after the
            other. One word for all arrays, or one for each.
        progress
            Called between portions; Ctrl-C is raised there.
        """

        def results() -> Iterator[tuple[ndarray, ...]]:
            for result in self._results(groups(self.spans()), task, small, join):
                yield result
                if progress is not None:
                    progress()

        return fold(results(), join)

    def _results(
        self, spans: list[Sequence[tuple[int, int]]], task: Task, small: tuple[Any, ...], join: Join | tuple[Join, ...]
    ) -> Iterable[tuple[ndarray, ...]]:
        """What the groups of portions give, in their order."""
        return (work_on(self, group, task, small, join) for group in spans)

    def take(self, rows: ndarray) -> Portion:
        """The samples with these indices, in the order asked for."""
        order = np.argsort(rows, kind="stable")
        found = self.reduce(pick, rows[order], join="rows")
        back = np.empty(len(rows), dtype=int)
        back[order] = np.arange(len(rows))
        X, F, J, weights = (part[back] for part in found)
        return Portion(
            0,
            X,
            F if self.has_values else None,
            J if self.has_jacobians else None,
            None if self.weights_shape is None else weights,
        )


def work_on(
    data: AbstractData, group: Sequence[tuple[int, int]], task: Task, small: tuple[Any, ...], join: Any
) -> tuple[ndarray, ...]:
    """What a group of portions gives; this is what a worker of a cluster runs."""
    return fold((task(data.portion(span), *small) for span in group), join)


def groups(spans: Sequence[tuple[int, int]]) -> list[Sequence[tuple[int, int]]]:
    """Neighbouring portions together, by their number alone."""
    size = -(-len(spans) // _GROUPS)
    return [spans[i : i + size] for i in range(0, len(spans), size)]


def fold(results: Iterable[tuple[ndarray, ...]], join: Join | tuple[Join, ...]) -> tuple[ndarray, ...]:
    """Join tuples of arrays in their order."""
    total: tuple[ndarray, ...] | None = None
    rows: list[tuple[ndarray, ...]] = []
    for result in results:
        if join == "rows":
            rows.append(result)
            continue
        ways = (join,) * len(result) if isinstance(join, str) else join
        result = tuple(_triangle(a) if way == "qr" else a for a, way in zip(result, ways, strict=True))
        if total is None:
            total = result
        else:
            total = tuple(_JOINS[way](a, b) for a, b, way in zip(total, result, ways, strict=True))
    if rows:
        return tuple(np.concatenate(parts) for parts in zip(*rows, strict=True))
    assert total is not None
    return total


def _triangle(tall: Float[ndarray, "*batch R k"]) -> Float[ndarray, "*batch q k"]:
    if tall.shape[-2] <= tall.shape[-1]:
        return tall
    return np.asarray(np.linalg.qr(tall, mode="r"))


_JOINS: dict[str, Callable[[ndarray, ndarray], ndarray]] = {
    "sum": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "qr": lambda a, b: _triangle(np.concatenate([a, b], axis=-2)),
}


def pick(portion: Portion, rows: ndarray) -> tuple[ndarray, ndarray, ndarray, ndarray]:
    """Those of the rows, which are in order, that lie in a portion; empty arrays for what is not known."""
    first, last = np.searchsorted(rows, [portion.first, portion.first + len(portion)])
    here = rows[first:last] - portion.first
    nothing = np.zeros((len(here), 0))
    F, J, weights = (nothing if a is None else a[here] for a in (portion.F, portion.J, portion.weights))
    return portion.X[here], F, J, weights


def even_spans(n_samples: int, per_sample: int, chunk: int = 1) -> list[tuple[int, int]]:
    """Portions of about 4 MB that begin with chunks; larger chunks are portions, up to 32 times that."""
    step = max(1, PORTION_ENTRIES // max(1, per_sample))
    if chunk > step and chunk * per_sample <= 32 * PORTION_ENTRIES:
        step = chunk
    elif 1 < chunk <= step:
        step -= step % chunk
    return [(first, min(first + step, n_samples)) for first in range(0, n_samples, step)]


def entries_per_sample(data: AbstractData) -> int:
    """Numbers that are known of one sample."""
    _, n, m = data.shape
    return m + n * data.has_values + n * m * data.has_jacobians


class HeldData(AbstractData):
    """Arrays in memory."""

    @property
    def in_memory(self) -> bool:
        return True

    @property
    def place(self) -> str:
        return "memory"

    def spans(self) -> list[tuple[int, int]]:
        return even_spans(len(self.points), entries_per_sample(self))

    def portion(self, span: tuple[int, int]) -> Portion:
        return self._at(slice(*span), span[0])

    def take(self, rows: ndarray) -> Portion:
        return self._at(rows, 0)

    def _at(self, rows: slice | ndarray, first: int) -> Portion:
        F, J, weights = (None if a is None else a[rows] for a in (self.given_values, self.jacobians, self.factors))
        return Portion(first, self.points[rows], F, J, weights)


class AbstractNamedData:
    """Data with the names of their variables: what `Samples` know of themselves."""

    data: AbstractData
    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None

    @property
    def X(self) -> Float[ndarray, "S m"]:
        """The points."""
        return self.data.X

    @property
    def F(self) -> Float[ndarray, "S n"] | None:
        """The values, or None."""
        return self.data.F

    @property
    def J(self) -> Float[ndarray, "S n m"] | None:
        """The Jacobians, or None."""
        return self.data.J

    @property
    def weights(self) -> Float[ndarray, "S *outputs"] | None:
        """The weights, or None."""
        return self.data.weights

    @property
    def has_values(self) -> bool:
        """Whether there are values."""
        return self.data.has_values

    @property
    def has_jacobians(self) -> bool:
        """Whether there are Jacobians."""
        return self.data.has_jacobians

    @property
    def n_samples(self) -> int:
        """The number S of samples."""
        return self.data.shape[0]

    @property
    def n_inputs(self) -> int:
        """The number m of inputs."""
        return self.data.shape[2]

    @property
    def n_outputs(self) -> int:
        """The number n of outputs."""
        return self.data.shape[1]

    @property
    def n_numbers(self) -> int:
        """Values and entries of Jacobians, all together."""
        S, n, m = self.data.shape
        return S * n * (self.has_values + m * self.has_jacobians)

    @property
    def in_memory(self) -> bool:
        """Whether all arrays are at hand, so that solvers may ask for any part of them at any time."""
        return self.data.in_memory

    def __len__(self) -> int:
        return self.n_samples

    def __repr__(self) -> str:
        known = " and ".join(
            word for word, there in (("values", self.has_values), ("Jacobians", self.has_jacobians)) if there
        )
        shape = self.data.weights_shape
        weighted = "" if shape is None else ", weighted by output" if shape else ", weighted"
        where = "" if self.in_memory else f", in {self.data.place}"
        return f"Samples(S={self.n_samples}, m={self.n_inputs}, n={self.n_outputs}: {known}{weighted}{where})"
