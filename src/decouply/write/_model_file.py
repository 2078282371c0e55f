"""Model files, and files of results: records with a JSON description of the bases. No code is ever run on loading.

Version 2 holds, for a model of L layers, the arrays W0, ..., WL, C1, ..., CL and domain1, ..., domainL, with `linear`
and `offset` if there are such parts. The metadata are texts: format, version, and JSON in bases, outside, inputs and
outputs. Version 1 had no domains: some bases had a radius or a scale instead.

The file of a result is that of its model, with the record of the fit and, if wanted, its samples, so that
`Decoupling.load` reads it as the model alone. A note says what has no place in a file: start values that were objects,
solvers of the user's own.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._support._arguments import as_flag
from .._support._errors import InputError, ModelFileError, short_repr
from ..bases import OWN_BASES, AbstractBasis
from ..fit._result import Alternative, Result
from ..fit._settings import Settings
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ..samples._samples import Samples
from ..solvers import History, LamRow, StartRow
from ..solvers.problem._solution import Status
from ._record_file import Record, described_by, read_record, write_record

_FORMAT, _VERSION = "decouply", 2
_READABLE = ("1", "2")
_KEY = "result"  # the text of the file of a model, and the name of arrays beside it
_DATA = ("X", "F", "J", "weights")
_HISTORY = ("lam", "objective", "error_jacobian", "error_values")
_OWN = "The solver was one of your own, which a file does not hold: VarPro stands in its place."

Known = dict[str, type[AbstractBasis]]


def save_model(model: Decoupling, path: str | os.PathLike[str], more: Record | None = None) -> None:
    """Write `model`; whoever reads it alone does not see what is `more` in the file."""
    record = model_record(model)
    write_record(path, _FORMAT, _VERSION, record if more is None else record | more)


def load_model(path: str | os.PathLike[str], bases: Sequence[type[AbstractBasis]]) -> Decoupling:
    """Read a model and check everything the file claims."""
    return load_with_model(path, bases)[0]


def load_with_model(
    path: str | os.PathLike[str], bases: Sequence[type[AbstractBasis]]
) -> tuple[Decoupling, Record, Known]:
    """A model, everything in its file, and the classes of basis by their names."""
    if not isinstance(bases, list | tuple | set | frozenset) or not all(isinstance(cls, type) for cls in bases):
        raise InputError(f"`bases` must be a list of classes of your own. Got {short_repr(bases)}.")
    record = read_record(path, _FORMAT, "Decoupling.save", _READABLE)
    for cls in bases:
        _check_own_name(cls)
    known = {cls.__name__: cls for cls in (*OWN_BASES, *bases)}
    with described_by(path, "a decoupling"):
        return model_of(record, known), record, known


def model_record(model: Decoupling) -> Record:
    """A model as a record."""
    arrays = {f"W{l}": W for l, W in enumerate(model.W)} | {"linear": model.linear, "offset": model.offset}
    for l, g in enumerate(model.g, start=1):
        arrays |= {f"C{l}": g.C, f"domain{l}": g.domain}
    described = [[_describe_basis(b) for b in g.layer.bases] for g in model.g]
    outside = [g.outside for g in model.g]
    return Record.of(arrays, bases=described, outside=outside, inputs=model.inputs, outputs=model.outputs)


def model_of(record: Record, known: Known) -> Decoupling:
    """The model of a record."""
    arrays, described = record.arrays, record["bases"]
    layers = range(1, len(described) + 1)
    W, C = [arrays[f"W{l}"] for l in (0, *layers)], [arrays[f"C{l}"] for l in layers]
    if record.texts.get("version") == "1":
        return Decoupling(
            W, [_functions_of_version_1(items, c, record, known) for items, c in zip(described, C, strict=True)]
        )
    g = [
        Functions(tuple(_basis_of(item, record, known) for item in items), c, arrays[f"domain{l}"], outside)
        for l, items, c, outside in zip(layers, described, C, record["outside"], strict=True)
    ]
    parts = {name: arrays.get(name) for name in ("linear", "offset")}
    return Decoupling(W, g, **parts, inputs=record.get("inputs"), outputs=record.get("outputs"))


def _functions_of_version_1(items: list[Any], C: np.ndarray, record: Record, known: Known) -> Functions:
    """Functions of u / radius, and of u / scale times scale, on the domains that mean the same now."""
    bases, domain = [], np.tile([-1.0, 1.0], (len(items), 1))
    C = np.array(C)
    for j, item in enumerate(items):
        fields = dict(item["fields"])
        if item["name"] in ("Chebyshev", "Bernstein"):
            domain[j] *= float(fields.pop("radius"))
        elif item["name"] == "ScaledMonomial":
            scale = float(fields.pop("scale"))
            domain[j] *= scale
            C[j, 1:] *= scale
        bases.append(_basis_of({"name": item["name"], "fields": fields}, record, known))
    return Functions(tuple(bases), C, domain)


def _describe_basis(basis: AbstractBasis) -> dict[str, Any]:
    if not dataclasses.is_dataclass(basis):
        raise InputError(
            f"A basis must be a dataclass with simple fields for its model to be saved. Got {type(basis).__name__}: "
            "put @dataclass(frozen=True) before it."
        )
    _check_own_name(type(basis))
    description = {"name": type(basis).__name__, "fields": dataclasses.asdict(basis)}
    try:
        json.dumps(description)
    except TypeError as error:
        raise InputError(f"The fields of {basis!r} must be numbers, texts or lists to be saved: {error}.") from error
    return description


def _check_own_name(cls: type[AbstractBasis]) -> None:
    """A file knows bases by their names, so that a class with the name of one of ours would come back as ours."""
    if cls not in OWN_BASES and cls.__name__ in {own.__name__ for own in OWN_BASES}:
        raise InputError(
            f"A basis of your own must have its own name if its model is saved. Got a class "
            f"{cls.__name__} beside dc.bases.{cls.__name__}: the file would be opened with ours. Rename the class."
        )


def _basis_of(item: dict[str, Any], record: Record, known: Known) -> AbstractBasis:
    cls = known.get(item["name"])
    if cls is None:
        raise ModelFileError(
            f"`{record.file}` uses the basis {item['name']}, which is not part of this package: "
            f"load it with Decoupling.load(path, bases=[{item['name']}])."
        )
    return cls(**item["fields"])


# Results


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
        "alternatives": [dataclasses.asdict(row) for row in result.alternatives],
        "path": [dataclasses.asdict(row) for row in result.path],
        "settings": result.settings.to_json(),
    }
    return record.under(_KEY) | Record.of({}, result=about)


def load_result(path: str | os.PathLike[str], samples: Samples | None, bases: Sequence[type[AbstractBasis]]) -> Result:
    """Read a result; see `Result.load`."""
    if samples is not None and not isinstance(samples, Samples):
        raise InputError(f"`samples` must be dc.Samples. Got {type(samples).__name__}.")
    model, record, _ = load_with_model(path, bases)
    if samples is not None and (samples.n_inputs, samples.n_outputs) != (model.n_inputs, model.n_outputs):
        raise InputError(
            f"`samples` must have {model.n_inputs} inputs and {model.n_outputs} outputs, like the model. Got "
            f"{samples.n_inputs} and {samples.n_outputs}."
        )
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
    if data.n_outputs != model.n_outputs:
        raise ValueError(f"samples of {data.n_outputs} outputs for a model of {model.n_outputs}")
    validation = _samples(apart, model) if apart else None
    settings = Settings.from_json(about["settings"], model, validation)
    own = about["settings"]["solver"] is not None and settings.solver is None
    notes = (*about["notes"], _OWN) if own else tuple(about["notes"])
    return Result(
        model,
        Status[about["status"]],
        float(about["lam"]),
        History(*(held[f"history.{name}"] for name in _HISTORY)),
        tuple(StartRow(**(_numbers(row) | {"status": Status[row["status"]]})) for row in about["starts"]),
        tuple(LamRow(**_numbers(row)) for row in about["path"]),
        notes,
        data,
        float(about["seconds"]),
        settings,
        about["found_by"],
        float(about["ridge"]),
        about["n_effective"],
        tuple(Alternative(**_numbers(row)) for row in about.get("alternatives", ())),
    )


def _samples(held: Mapping[str, np.ndarray], model: Decoupling) -> Samples:
    known = {name: held.get(name) for name in _DATA[1:]}
    return Samples(held["X"], **known, inputs=model.inputs, outputs=model.outputs)


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    """NaN for numbers that JSON has no word for."""
    return {key: float("nan") if value is None else value for key, value in row.items()}
