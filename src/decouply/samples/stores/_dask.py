"""Dask arrays: every chunk of samples is a portion, and the scheduler decides where it is worked on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from ..._support._errors import InputError
from ..._support._optional_packages import needed
from ..._support._parallel import active_client
from .._array_checks import as_weights, check_stored_shapes, finite_rows
from .._portions import AbstractData, Join, Portion, Task, fold, work_on
from .._samples import Samples

_CHUNKS_IN_MESSAGE = 6  # lengths of chunks named in a message


class DaskData(AbstractData):
    """Collections of one length, cut into the same chunks of samples. They should be made by workers, not scattered."""

    @property
    def place(self) -> str:
        return "Dask collections"

    def spans(self) -> list[tuple[int, int]]:
        ends = np.cumsum(self.points.chunks[0])
        return [(int(end - length), int(end)) for end, length in zip(ends, self.points.chunks[0], strict=True)]

    def portion(self, span: tuple[int, int]) -> Portion:
        X, F, J, weights = (
            None if a is None else np.asarray(a[slice(*span)].compute(scheduler="synchronous"))
            for a in (self.points, self.given_values, self.jacobians, self.factors)
        )
        return checked_portion(span[0], X, F, J, weights)

    def _results(
        self, spans: list[Sequence[tuple[int, int]]], task: Task, small: tuple[Any, ...], join: Any
    ) -> Iterable[tuple[ndarray, ...]]:
        """One task per chunk, so that no worker holds more than one at a time; joined here in groups."""
        client = active_client()
        if client is None:
            yield from (work_on(self, group, task, small, join) for group in spans)
            return
        delayed = needed("dask", "cluster", "Samples.from_dask").delayed
        blocks = [
            [None] * sum(map(len, spans)) if a is None else list(a.to_delayed().ravel())
            for a in (self.points, self.given_values, self.jacobians, self.factors)
        ]
        every = [span for group in spans for span in group]
        one = delayed(_work_on_blocks, pure=False)
        wanted = [one(span[0], *parts, task, small, join) for span, *parts in zip(every, *blocks, strict=True)]
        futures = client.compute(wanted)
        try:
            results = iter(futures)
            for group in spans:
                yield fold((next(results).result() for _ in group), join)
        finally:
            client.cancel(futures)


def _work_on_blocks(
    first: int, X: Any, F: Any, J: Any, weights: Any, task: Task, small: tuple[Any, ...], join: Join
) -> tuple[ndarray, ...]:
    from ..._support._machine import one_thread

    with one_thread(), np.errstate(all="ignore"):
        return fold([task(checked_portion(first, X, F, J, weights), *small)], join)


def checked_portion(first: int, X: Any, F: Any, J: Any, weights: Any) -> Portion:
    """A portion of finite numbers in float64."""
    X, F, J, weights = (
        None if a is None else finite_rows(f"`{name}`", np.asarray(a, dtype=np.float64), first)
        for name, a in (("X", X), ("F", F), ("J", J), ("weights", weights))
    )
    F = F if F is None or F.ndim == 2 else F[:, None]
    if weights is not None:
        weights = as_weights(weights, len(X), (J if F is None else F).shape[1])
    return Portion(first, X, F, J, weights)


def samples_of_dask(X: Any, F: Any, J: Any, weights: Any, inputs: Any, outputs: Any) -> Samples:
    """Samples of collections; see `Samples.from_dask`."""
    array = needed("dask.array", "cluster", "Samples.from_dask")
    given = {"X": X} | {name: a for name, a in (("F", F), ("J", J), ("weights", weights)) if a is not None}
    for name, a in given.items():
        if not isinstance(a, array.Array):
            raise InputError(
                f"`{name}` must be a dask.array. Got {type(a).__name__}: use dc.Samples(...) for arrays in memory, or "
                "`.to_dask_array(lengths=True)` of a data frame."
            )
        if a.dtype.kind not in "fiub":
            raise InputError(f"`{name}` must hold real numbers. Got entries of type {a.dtype}.")
        if a.ndim == 0:
            raise InputError(f"`{name}` must have one row per sample. Got a single number.")
        if any(np.isnan(length) for length in a.chunks[0]):
            raise InputError(f"`{name}` must know how long its chunks are: call `{name}.compute_chunk_sizes()` first.")
    check_stored_shapes({name: a.shape for name, a in given.items()}, "the collections")
    for name, a in given.items():
        if a.chunks[0] != X.chunks[0]:
            raise InputError(
                f"`{name}` must be cut into the same chunks of samples as `X`: {_lengths(X)}. Got {_lengths(a)}: "
                f"`{name}.rechunk({{0: X.chunks[0]}})`."
            )
    whole = [None if a is None else a.rechunk(dict.fromkeys(range(1, a.ndim), -1)) for a in (X, F, J, weights)]
    return Samples.stored(DaskData(*whole), inputs=inputs, outputs=outputs)


def _lengths(a: Any) -> str:
    lengths = a.chunks[0]
    return ", ".join(map(str, lengths[:_CHUNKS_IN_MESSAGE])) + (
        f", ... ({len(lengths)} chunks)" if len(lengths) > _CHUNKS_IN_MESSAGE else ""
    )
