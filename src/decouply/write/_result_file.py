"""Results as files: the file of the model, with the record of its making and, if wanted, its samples beside it.

`Decoupling.load` reads the same file as the model alone. A note says what has no place in a file: start
values that were objects, solvers of the user's own.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._support._arguments import as_flag
from .._support._errors import InputError, ModelFileError
from ..bases import AbstractBasis
from ..fit._result import Result
from ..fit._settings import Settings
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers import History, LamRow, StartRow
from ..solvers.problem._solution import Status
from ._model_file import load_with_model, save_model
from ._record_file import Record, described_by

_KEY = "result"  # the text of the file of a model, and the name of arrays beside it
_DATA = ("X", "F", "J", "weights")
_HISTORY = ("lam", "objective", "error_jacobian", "error_values")
_OWN = "The solver was one of your own, which a file does not hold: VarPro stands in its place."


def save_result(result: Result, path: str | os.PathLike[str], *, samples: bool) -> None:
    """Write a result; see `Result.save`."""
    save_model(result.decoupling, path, result_record(result, samples=as_flag("samples", samples)))


def result_record(result: Result, *, samples: bool) -> Record:
    """What belongs to a result beside its model."""
    if samples and not result.samples.in_memory:
        raise InputError(
            "`samples` must be False for samples in a store: they stay there, and are given to Result.load. Got True."
        )
    record = Record.of({f"history.{name}": getattr(result.history, name) for name in _HISTORY})
    if samples:
        record |= Record.of({name: getattr(result.samples, name) for name in _DATA})
        if result.settings.validation is not None:
            record |= Record.of({f"validation.{name}": getattr(result.settings.validation, name) for name in _DATA})
    about = {
        "status": result.status.name,
        "lam": result.lam,
        "notes": result.notes,
        "seconds": result.seconds,
        "found_by": result.found_by,
        "ridge": result.ridge,
        "n_effective": result.n_effective,
        "starts": [row.record() for row in result.starts],
        "path": [dataclasses.asdict(row) for row in result.path],
        "settings": result.settings.to_json(),
    }
    return record.under(_KEY) | Record.of({}, result=about)


def load_result(path: str | os.PathLike[str], samples: Samples | None, bases: Sequence[type[AbstractBasis]]) -> Result:
    """Read a result; see `Result.load`."""
    model, record, _ = load_with_model(path, bases)
    if _KEY not in record:
        raise ModelFileError(
            f"`{path}` must hold a result, written by Result.save. It holds a model: read it with dc.Decoupling.load."
        )
    if samples is None and "X" not in record.inside(_KEY).arrays:
        raise ModelFileError(
            f"`{path}` was written without samples: give those that the model was fitted to, Result.load(path, "
            "samples=samples)."
        )
    with described_by(path, "a result"):
        return result_of(record, model, samples)


def result_of(record: Record, model: Decoupling, samples: Samples | None) -> Result:
    """The result of a record, which holds its samples where none are given."""
    about, held, apart = record[_KEY], record.inside(_KEY).arrays, record.inside(f"{_KEY}.validation").arrays
    data = _samples(held, model) if samples is None else samples
    validation = _samples(apart, model) if apart else None
    settings = Settings.from_json(about["settings"], model, validation)
    own = about["settings"]["solver"] is not None and settings.solver is None
    notes = (*about["notes"], _OWN) if own else tuple(about["notes"])
    return Result(
        model,
        Status[about["status"]],
        float(about["lam"]),
        History(*(held[f"history.{name}"] for name in _HISTORY)),
        tuple(_start(row) for row in about["starts"]),
        tuple(LamRow(**_numbers(row)) for row in about["path"]),
        notes,
        data,
        float(about["seconds"]),
        settings,
        about["found_by"],
        float(about["ridge"]),
        about["n_effective"],
    )


def _samples(held: Mapping[str, np.ndarray], model: Decoupling) -> Samples:
    known = {name: held.get(name) for name in _DATA[1:]}
    return Samples(held["X"], **known, inputs=model.inputs, outputs=model.outputs)


def _start(row: dict[str, Any]) -> StartRow:
    values = _numbers(row)
    return StartRow(**(values | {"status": Status[row["status"]]}))


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """NaN for numbers that JSON has no word for."""
    return {key: float("nan") if value is None else value for key, value in row.items()}
