"""Batches that come one after the other, from a generator or a queue: one pass into a store, in bounded memory."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path as FilePath
from typing import Any

from ..._support._arguments import as_array, read_array
from ..._support._errors import InputError, short_repr
from .._portions import Portion
from .._samples import Samples
from ._npy import Path
from ._zarr import open_zarr, write_zarr


def store_batches(
    batches: Iterable[Any], path: Path | None, dtype: Any, inputs: Any, outputs: Any, progress: Callable[..., None]
) -> Samples:
    """Samples of batches; see `Samples.from_batches`."""
    place = _temporary() if path is None else path
    write_zarr(place, _portions(batches), n_samples=None, dtype=dtype, names=(None, None), progress=progress)
    return open_zarr(place, None, inputs, outputs)


def store_samples(samples: Samples, path: Path, dtype: Any, progress: Callable[..., None]) -> Samples:
    """Write any samples into a store; see `Samples.to_zarr`."""
    data = samples.data
    portions = (data.portion(span) for span in data.spans())
    names = (samples.inputs, samples.outputs)
    write_zarr(path, portions, n_samples=samples.n_samples, dtype=dtype, names=names, progress=progress)
    return open_zarr(path, None, None, None)


def _portions(batches: Iterable[Any]) -> Iterator[Portion]:
    if not isinstance(batches, Iterable) or getattr(batches, "ndim", 1) == 0:
        raise InputError(
            f"`batches` must be a list or a generator of tuples (X, F) or (X, F, J). Got {short_repr(batches)}."
        )
    for k, batch in enumerate(batches):
        given = (
            batch if isinstance(batch, tuple | list) else (batch.X, batch.F, batch.J) if _is_samples(batch) else None
        )
        if given is None or not 2 <= len(given) <= 3:
            raise InputError(
                f"`batches` must give tuples (X, F) or (X, F, J), with None for what is not known, or dc.Samples. Got "
                f"{type(batch).__name__} as batch {k}."
            )
        arrays = [
            None if a is None else as_array(f"{name} of batch {k}", a, axes)
            for name, a, axes in zip(
                "XFJ", (*given, None)[:3], (("S", "m"), _axes(given[1]), ("S", "n", "m")), strict=True
            )
        ]
        X, F, J = arrays
        if X is None or (F is None and J is None) or any(a is not None and len(a) != len(X) for a in (F, J)):
            shapes = ", ".join("None" if a is None else str(a.shape) for a in arrays)
            raise InputError(
                f"Batch {k} must hold points X with values F, Jacobians J or both, as many of each. Got {shapes}."
            )
        yield Portion(0, X, None if F is None else F.reshape(len(F), -1), J, None)


def _is_samples(batch: Any) -> bool:
    return isinstance(batch, Samples) and batch.in_memory and batch.weights is None


def _axes(F: Any) -> tuple[str, ...]:
    return ("S",) if F is not None and read_array("`F` must be an array", F).ndim == 1 else ("S", "n")


def _temporary() -> str:
    """A place that is removed when the program ends."""
    directory = tempfile.mkdtemp(prefix="samples-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return str(FilePath(directory) / "samples.zarr")
