"""Samples in files: arrays that are opened anew wherever they are sent, and read by the workers of a cluster."""

from __future__ import annotations

import abc
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import DataError, InputError, short_repr
from .._portions import AbstractData, Portion, Task, check_shapes, entries_per_sample, even_spans, finite_rows, work_on
from .._weights import as_weights


class AbstractStoredArray(abc.ABC):
    """An array in a file: small itself, and opened anew wherever it is sent.

    Attributes
    ----------
    path
        Of the file or store.
    shape, dtype
        As they are there.
    chunk
        Samples that are read together; 1 where any number is as good.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    chunk: int

    @property
    def place(self) -> str:
        """The file, as messages call it."""
        return f"`{self.path}`"

    @abc.abstractmethod
    def read(self, first: int, stop: int) -> ndarray:
        """These samples."""


@dataclass(frozen=True, eq=False)
class StoredData(AbstractData):
    """Arrays in files. An active client of a cluster has its workers read them."""

    points: AbstractStoredArray
    given_values: AbstractStoredArray | None
    jacobians: AbstractStoredArray | None
    factors: AbstractStoredArray | None

    @property
    def shape(self) -> tuple[int, int, int]:
        known = self.jacobians if self.given_values is None else self.given_values
        assert known is not None
        n = 1 if len(known.shape) == 1 else known.shape[1]
        return self.points.shape[0], n, self.points.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        known = self.given_values if self.jacobians is None else self.jacobians
        assert known is not None
        return known.dtype

    @property
    def place(self) -> str:
        return "a store"

    @functools.cached_property
    def _spans(self) -> list[tuple[int, int]]:
        largest = self.points if self.jacobians is None else self.jacobians
        return even_spans(self.shape[0], entries_per_sample(self), largest.chunk)

    def spans(self) -> list[tuple[int, int]]:
        return self._spans

    def portion(self, span: tuple[int, int]) -> Portion:
        X, F, J, weights = (
            None if array is None else read_checked(name, array, span)
            for name, array in (
                ("X", self.points),
                ("F", self.given_values),
                ("J", self.jacobians),
                ("weights", self.factors),
            )
        )
        assert X is not None
        if weights is not None:
            weights = as_weights(weights, len(X), self.shape[1])
        return Portion(span[0], X, F if F is None or F.ndim == 2 else F[:, None], J, weights)

    def _results(
        self, spans: list[Sequence[tuple[int, int]]], task: Task, small: tuple[Any, ...], join: Any
    ) -> Iterable[tuple[ndarray, ...]]:
        from ..._support._parallel import active_client

        client = active_client()
        if client is None:
            return (work_on(self, group, task, small, join) for group in spans)
        return _on_workers(client, self, spans, task, small, join)


def _on_workers(
    client: Any, data: AbstractData, spans: list[Any], task: Task, small: tuple[Any, ...], join: Any
) -> Iterator[tuple[ndarray, ...]]:
    """One task per group; a worker that dies costs the time of its tasks, which others run again."""
    futures = client.map(
        lambda group: work_on_one_thread(data, group, task, small, join), spans, pure=False, batch_size=len(spans)
    )
    try:
        for future in futures:
            yield future.result()
    finally:
        client.cancel(futures)


def work_on_one_thread(data: AbstractData, group: Any, task: Task, small: Any, join: Any) -> tuple[ndarray, ...]:
    """`work_on` with the threads of BLAS that it has everywhere, so that the digits are the same."""
    from ..._support._blas_threads import one_thread

    with one_thread(), np.errstate(all="ignore"):
        return work_on(data, group, task, small, join)


def read_checked(name: str, array: AbstractStoredArray, span: tuple[int, int]) -> ndarray:
    """Samples of a stored array as finite numbers in float64, or an error that says which rows are not."""
    raw = array.read(*span)
    if len(raw) != span[1] - span[0]:
        raise DataError(
            f"{array.place} must hold {array.shape[0]} samples, as it says. Samples {span[0]} to {span[1] - 1} are not "
            "all there: it is cut off, or still being written."
        )
    return finite_rows(f"`{name}` in {array.place}", np.asarray(raw, dtype=np.float64), span[0])


def stored_data(
    points: AbstractStoredArray,
    values: AbstractStoredArray | None,
    jacobians: AbstractStoredArray | None,
    weights: AbstractStoredArray | None,
) -> StoredData:
    """Stored arrays together, if their shapes fit."""
    check_shapes(
        {"X": points.shape}
        | {
            name: array.shape
            for name, array in (("F", values), ("J", jacobians), ("weights", weights))
            if array is not None
        },
        points.place,
    )
    return StoredData(points, values, jacobians, weights)


def as_array_names(arrays: Any) -> dict[str, str] | None:
    """What the arrays X, F, J and weights are called in a file, where the user says so."""
    if arrays is None:
        return None
    found = dict(arrays) if isinstance(arrays, Mapping) else {}
    if not found or not all(isinstance(name, str) for pair in found.items() for name in pair):
        raise InputError(
            f'`arrays` must say what arrays are called in the file, such as {{"X": "points"}}. Got '
            f"{short_repr(arrays)}."
        )
    return found
