"""Model files: safetensors with a JSON description of the bases in the metadata. No code is ever run on loading.

Version 2 holds, for a model of L layers, the arrays W0, ..., WL, C1, ..., CL and domain1, ..., domainL, with `linear`
and `offset` where there are such parts. The metadata are texts: format, version, and JSON in bases, outside, inputs and
outputs. Version 1 had no domains: some bases had a radius or a scale instead.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support._arguments import as_path
from .._support._errors import DecouplingError, InputError, ModelFileError
from .._support._messages import short_repr
from ..bases import OWN_BASES, AbstractBasis
from ..model._decoupling import Decoupling
from ..model._functions import Functions
from ._arrays_file import load_arrays, save_arrays

_FORMAT, _VERSION = "decouply", 2
_READABLE = ("1", "2")
_OPTIONAL = ("linear", "offset")
_NAMES = ("inputs", "outputs")

Known = dict[str, type[AbstractBasis]]


def save_model(
    model: Decoupling,
    path: str | os.PathLike[str],
    *,
    more: Mapping[str, np.ndarray] | None = None,
    about: Mapping[str, str] | None = None,
) -> None:
    """Write `model`; an existing file is replaced only once the new one is complete.

    `more` arrays and texts `about` them may go with it: whoever reads the model alone does not see them.
    """
    arrays = {f"W{l}": W for l, W in enumerate(model.W)}
    for l, g in enumerate(model.g, start=1):
        arrays |= {f"C{l}": g.C, f"domain{l}": g.domain}
    arrays |= {name: array for name in _OPTIONAL if (array := getattr(model, name)) is not None}
    texts = {
        "bases": json.dumps([[_describe(b) for b in g.layer.bases] for g in model.g]),
        "outside": json.dumps([g.outside for g in model.g]),
    }
    texts |= {key: json.dumps(names) for key in _NAMES if (names := getattr(model, key)) is not None}
    save_arrays(path, _FORMAT, _VERSION, arrays | dict(more or {}), texts | dict(about or {}))


def load_model(path: str | os.PathLike[str], bases: Sequence[type[AbstractBasis]]) -> Decoupling:
    """Read a model and check everything the file claims."""
    return load_all(path, bases)[0]


def load_all(
    path: str | os.PathLike[str], bases: Sequence[type[AbstractBasis]]
) -> tuple[Decoupling, dict[str, np.ndarray], dict[str, str]]:
    """A model, and all arrays and texts of its file."""
    file = as_path("path", path)
    if not isinstance(bases, list | tuple | set | frozenset) or not all(isinstance(cls, type) for cls in bases):
        raise InputError(f"`bases` must be a list of classes of your own. Got {short_repr(bases)}.")
    arrays, metadata = load_arrays(file, _FORMAT, "Decoupling.save", _READABLE)
    for cls in bases:
        _check_own_name(cls)
    known = {cls.__name__: cls for cls in (*OWN_BASES, *bases)}
    try:
        return _model(metadata, arrays, known, file), arrays, metadata
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, RecursionError, DecouplingError) as error:
        raise ModelFileError(f"`{file}` must describe a decoupling. Its parts do not fit together: {error}") from error


def _model(metadata: dict[str, str], arrays: dict[str, np.ndarray], known: Known, file: Path) -> Decoupling:
    described = json.loads(metadata["bases"])
    W = [arrays[f"W{l}"] for l in range(len(described) + 1)]
    C = [arrays[f"C{l}"] for l in range(1, len(described) + 1)]
    if metadata["version"] == "1":
        return Decoupling(W, [_first_version(items, c, known, file) for items, c in zip(described, C, strict=True)])
    g = [
        Functions(tuple(_revive(item, known, file) for item in items), c, arrays[f"domain{l}"], outside)
        for l, (items, c, outside) in enumerate(
            zip(described, C, json.loads(metadata["outside"]), strict=True), start=1
        )
    ]
    names = {key: json.loads(metadata[key]) for key in _NAMES if key in metadata}
    return Decoupling(W, g, **{key: arrays.get(key) for key in _OPTIONAL}, **names)


def _first_version(items: list[Any], C: np.ndarray, known: Known, file: Path) -> Functions:
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
        bases.append(_revive({"name": item["name"], "fields": fields}, known, file))
    return Functions(tuple(bases), C, domain)


def _describe(basis: AbstractBasis) -> dict[str, Any]:
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
            f"A basis of your own must have a name of its own for its model to be saved. Got a class "
            f"{cls.__name__} beside dc.{cls.__name__}: the file would be opened with ours. Rename the class."
        )


def _revive(item: dict[str, Any], known: Known, file: Path) -> AbstractBasis:
    cls = known.get(item["name"])
    if cls is None:
        raise ModelFileError(
            f"`{file}` uses the basis {item['name']}, which is not part of this package: "
            f"load it with Decoupling.load(path, bases=[{item['name']}])."
        )
    return cls(**item["fields"])
