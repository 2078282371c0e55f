"""Results as files: the file of the model, with the record of its making and, if wanted, its samples beside it.

`Decoupling.load` reads the same file as the model alone. A note says what has no place in a file: start
values that were objects, solvers of the user's own.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._support._arguments import as_flag
from .._support._errors import InputError, ModelFileError
from .._support._plain import plain
from ..bases import AbstractBasis
from ..fit._result import Result
from ..fit._settings import Settings
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers import History, LamRow, StartRow
from ..solvers.problem._solution import Status
from ._model_file import load_all, save_model

_KEY = "result"
_PREFIX = "result."
_DATA = ("X", "F", "J", "weights")
_HISTORY = ("lam", "objective", "error_jacobian", "error_values")
_OWN = "The solver was one of your own, which a file does not hold: VarPro stands in its place."


def save_result(result: Result, path: str | os.PathLike[str], *, samples: bool) -> None:
    """Write a result; see `Result.save`."""
    if as_flag("samples", samples) and not result.samples.in_memory:
        raise InputError(
            "`samples` must be False for samples in a store: they stay there, and are given to Result.load. Got True."
        )
    more = {f"{_PREFIX}history.{name}": getattr(result.history, name) for name in _HISTORY}
    kept = {"": result.samples, "validation.": result.settings.validation} if samples else {}
    for part, data in kept.items():
        if data is not None:
            arrays = {name: getattr(data, name) for name in _DATA}
            more |= {f"{_PREFIX}{part}{name}": np.asarray(a) for name, a in arrays.items() if a is not None}
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
    save_model(result.decoupling, path, more=more, about={_KEY: json.dumps(plain(about))})


def load_result(path: str | os.PathLike[str], samples: Samples | None, bases: Sequence[type[AbstractBasis]]) -> Result:
    """Read a result; see `Result.load`."""
    model, arrays, texts = load_all(path, bases)
    if _KEY not in texts:
        raise ModelFileError(
            f"`{path}` must hold a result, written by Result.save. It holds a model: read it with dc.Decoupling.load."
        )
    held = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
    data = _samples(held, "", model) if samples is None else samples
    if data is None:
        raise ModelFileError(
            f"`{path}` was written without samples: give those that the model was fitted to, Result.load(path, "
            "samples=samples)."
        )
    try:
        about = json.loads(texts[_KEY])
        settings = Settings.from_json(about["settings"], model, _samples(held, "validation.", model))
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
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"`{path}` must describe a result. Its parts do not fit together: {error}") from error


def _samples(held: dict[str, np.ndarray], part: str, model: Decoupling) -> Samples | None:
    if f"{part}X" not in held:
        return None
    some = {name: held.get(f"{part}{name}") for name in _DATA[1:]}
    return Samples(held[f"{part}X"], **some, inputs=model.inputs, outputs=model.outputs)


def _start(row: dict[str, Any]) -> StartRow:
    values = _numbers(row)
    return StartRow(**(values | {"status": Status[row["status"]]}))


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """NaN for numbers that JSON has no word for."""
    return {key: float("nan") if value is None else value for key, value in row.items()}
