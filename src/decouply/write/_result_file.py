"""Results as files: the file of the model, with the record of its making and, if wanted, its samples beside it.

`Decoupling.load` reads the same file as the model alone. What has no place in a file is told in a note: random
generators, start values that were objects, solvers of the user's own.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import solvers
from .._support._arguments import as_flag
from .._support._errors import InputError, ModelFileError
from .._support._plain import plain
from ..bases import AbstractBasis
from ..fit._result import Result
from ..fit._settings import Settings
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers import AbstractSolver, History, LamRow, StartRow, VarPro
from ..solvers.problem._solution import Status
from ..solvers.problem._solver import fixed_parts
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
    s = result.settings
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
        "solver": _described(result.solver),
        "fixed": sorted(fixed_parts(result.solver)),
        "settings": {"linear": s.linear, "as_given": s.as_given, "n_starts": s.n_starts}
        | {"rng": s.rng if isinstance(s.rng, int) else None, "ranks": result.decoupling.ranks},
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
        solver, notes = _solver(about["solver"], about["fixed"], model), list(about["notes"])
        if solver is None:
            solver, notes = VarPro(), [*notes, _OWN]
        s = about["settings"]
        settings = Settings(
            tuple(s["ranks"]),
            None,
            [g.layer.bases for g in model.g],
            s["linear"],
            s["as_given"],
            s["n_starts"],
            0 if s["rng"] is None else s["rng"],
            _samples(held, "validation.", model),
        )
        return Result(
            model,
            Status[about["status"]],
            float(about["lam"]),
            History(*(held[f"history.{name}"] for name in _HISTORY)),
            tuple(_start(row) for row in about["starts"]),
            tuple(LamRow(**_numbers(row)) for row in about["path"]),
            tuple(notes),
            data,
            solver,
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


def _described(solver: AbstractSolver) -> dict[str, Any]:
    """The class and those of its fields that a text holds; a solver within a solver is described as well."""
    fields: dict[str, Any] = {}
    names: list[str] = [f.name for f in dataclasses.fields(solver)] if dataclasses.is_dataclass(solver) else []
    for name in names:
        value = getattr(solver, name)
        if isinstance(value, AbstractSolver):
            fields[name] = _described(value)
        elif value is None or isinstance(value, bool | int | float | str):
            fields[name] = value
    return {"name": type(solver).__name__, "fields": fields}


def _solver(described: dict[str, Any], fixed: list[str], model: Decoupling) -> AbstractSolver | None:
    """The solver again; None for a class that is not ours."""
    if described["name"] not in solvers.__all__:
        return None
    fields = {
        name: _solver(value, [], model) if isinstance(value, dict) else value
        for name, value in described["fields"].items()
    }
    if fixed:
        parts = {"W": model.W, "g": (None, *model.g)}
        fields["fixed"] = {name: parts[name[0]][int(name[1:])] for name in fixed}
    found: AbstractSolver = getattr(solvers, described["name"])(**fields)
    return found


def _start(row: dict[str, Any]) -> StartRow:
    values = _numbers(row)
    return StartRow(**(values | {"status": Status[row["status"]]}))


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """NaN for numbers that JSON has no word for."""
    return {key: float("nan") if value is None else value for key, value in row.items()}
