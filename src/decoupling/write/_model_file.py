"""Model files: safetensors with a JSON description of the bases in the metadata. No code is ever run on loading."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .._support._errors import DecouplingError, InputError, ModelFileError
from .._support._whole_files import replace_file
from ..bases import AbstractBasis, Bernstein, Chebyshev, Monomial, ScaledMonomial, Trigonometric
from ..model._decoupling import Decoupling
from ..model._functions import Functions

_FORMAT, _VERSION = "decoupling", 1
_OWN_BASES: tuple[type[AbstractBasis], ...] = (Monomial, ScaledMonomial, Bernstein, Chebyshev, Trigonometric)


def save_model(model: Decoupling, path: str | os.PathLike[str]) -> None:
    """Write `model`; an existing file is replaced only once the new one is complete."""
    from safetensors.numpy import save

    arrays = {f"W{l}": W for l, W in enumerate(model.W)} | {f"C{l + 1}": g.C for l, g in enumerate(model.g)}
    bases = [[_describe(b) for b in g.layer.bases] for g in model.g]
    metadata = {"format": _FORMAT, "version": str(_VERSION), "bases": json.dumps(bases)}
    with replace_file(path) as stream:
        stream.write(save(arrays, metadata=metadata))


def load_model(path: str | os.PathLike[str], bases: Sequence[type[AbstractBasis]]) -> Decoupling:
    """Read a model and check everything the file claims."""
    from safetensors import SafetensorError, safe_open

    file = Path(path)
    if not file.is_file():
        raise ModelFileError(f"`{file}` must be a model file written by Decoupling.save. There is no such file.")
    try:
        with safe_open(file, framework="numpy") as content:
            metadata = content.metadata() or {}
            own = metadata.get("format") == _FORMAT  # others may hold types that NumPy does not know
            arrays = {name: content.get_tensor(name) for name in content.keys()} if own else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(
            f"`{file}` must be a model file written by Decoupling.save. It is damaged or of another kind: {error}."
        ) from error
    if metadata.get("format") != _FORMAT:
        raise ModelFileError(f"`{file}` must be a model file written by Decoupling.save. It holds other tensors.")
    if metadata.get("version") != str(_VERSION):
        raise ModelFileError(
            f"`{file}` must have format version {_VERSION}. Got {metadata.get('version')}: update the package."
        )
    known = {cls.__name__: cls for cls in (*_OWN_BASES, *bases)}
    try:
        layers = [tuple(_revive(item, known, file) for item in layer) for layer in json.loads(metadata["bases"])]
        W = [arrays[f"W{l}"] for l in range(len(layers) + 1)]
        return Decoupling(W, [Functions(b, arrays[f"C{l + 1}"]) for l, b in enumerate(layers)])
    except ModelFileError:
        raise
    except (KeyError, TypeError, ValueError, DecouplingError) as error:
        raise ModelFileError(f"`{file}` must describe a decoupling. Its parts do not fit together: {error}") from error


def _describe(basis: AbstractBasis) -> dict[str, Any]:
    if not dataclasses.is_dataclass(basis):
        raise InputError(
            f"A basis must be a dataclass with simple fields for its model to be saved. Got {type(basis).__name__}: "
            "put @dataclass(frozen=True) before it."
        )
    description = {"name": type(basis).__name__, "fields": dataclasses.asdict(basis)}
    try:
        json.dumps(description)
    except TypeError as error:
        raise InputError(f"The fields of {basis!r} must be numbers, texts or lists to be saved: {error}.") from error
    return description


def _revive(item: dict[str, Any], known: dict[str, type[AbstractBasis]], file: Path) -> AbstractBasis:
    cls = known.get(item["name"])
    if cls is None:
        raise ModelFileError(
            f"`{file}` uses the basis {item['name']}, which is not part of this package: "
            f"load it with Decoupling.load(path, bases=[{item['name']}])."
        )
    return cls(**item["fields"])
