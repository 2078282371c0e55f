"""Records: named arrays and texts in one safetensors file. No code is ever run on reading.

All model files are records: texts are JSON but for `format`, the kind of the file, and `version`. A record may lie
inside another one under a name that its arrays and texts begin with, such as the result of a NARX model.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._support._arguments import as_path, missing, plain
from .._support._atomic_files import replace_file
from .._support._errors import DecouplingError, ModelFileError, short_repr

_FORMER_KINDS = {"decouply": "decoupling"}  # what files said before the package had its present name
_READERS = {  # what a file says it is, and who reads it
    "decouply": "dc.Decoupling.load",
    "decoupling": "dc.Decoupling.load",
    "polynomial NARX": "dc.sysid.PolynomialNARX.load",
    "linear state space": "dc.sysid.LinearStateSpace.load",
}

# What the texts of all kinds of files hold, by the last part of their names: a type, [each of a list], {key: form}, a
# tuple of forms of which one must fit. Whole numbers are at least 0, and no number is NaN or infinite. Keys are looked
# for by whoever reads them; what is not named here is read by nobody.
_ERROR = (float, None)  # infinite ones have no word in JSON
_FIT = {"lam": _ERROR, "objective": _ERROR, "error_jacobian": _ERROR, "error_values": _ERROR, "steps": int}
_FORMS: dict[str, Any] = {
    "bases": [[{"name": str, "fields": {}}]],
    "outside": [str],
    "inputs": ([str], None),
    "outputs": ([str], None),
    "result": {
        "status": str,
        "lam": float,
        "notes": [str],
        "seconds": float,
        "found_by": str,
        "ridge": float,
        "n_effective": (float, None),
        "alternatives": [{"model": str, "n_parameters": int, "error": _ERROR, "chosen": bool}],
        "path": [{**_FIT, "loss": _ERROR, "chosen": bool}],
        "starts": [{**_FIT, "start": int, "status": str, "seconds": float}],
        "settings": {
            "linear": bool,
            "as_given": bool,
            "n_starts": (int, None),
            "fixed": [str],
            "max_seconds": (float, None),
            "solver": ({"name": str, "fields": {}}, None),
        },
    },
    "structure": {"n_states": int, "oversample": int, "state_only": [bool], "feedback": bool, "feedthrough": bool},
    "canonical": bool,
    "about": {"n_free": int, "n_front": (int, None), "flat": bool, "oversample": int, "sampling_time": (float, None)},
    "starts": [{"start": str, "training": _ERROR, "validation": _ERROR, "steps": int, "chosen": bool}],
    "lags": {"n_u": int, "n_y": int, "n_inputs": int, "n_outputs": int},
    "flat": bool,
    "degree": int,
    "refinement": [{"step": int, "training": _ERROR, "validation": _ERROR, "chosen": bool}],
}
_MAY_BE_INFINITE = ("error_jacobian", "error_values", "objective", "lam", "rmse", "linear_rmse")  # arrays
_LARGEST_COUNT = 2**63 - 1


@dataclass(frozen=True, eq=False)
class Record:
    """Arrays, and texts that hold JSON, of a file for messages to name."""

    arrays: Mapping[str, np.ndarray]
    texts: Mapping[str, str]
    file: str = ""

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray | None], **about: Any) -> Record:
        """A record of what is known: arrays and values that are None are left out."""
        texts = {key: json.dumps(plain(value)) for key, value in about.items() if value is not None}
        return cls({name: np.asarray(array) for name, array in arrays.items() if array is not None}, texts)

    def __or__(self, other: Record) -> Record:
        return Record({**self.arrays, **other.arrays}, {**self.texts, **other.texts})

    def under(self, name: str) -> Record:
        """The same record inside another one."""
        arrays = {f"{name}.{key}": array for key, array in self.arrays.items()}
        return Record(arrays, {f"{name}.{key}": text for key, text in self.texts.items()})

    def inside(self, name: str) -> Record:
        """The record under a name, which may be empty."""
        n = len(name) + 1
        arrays = {key[n:]: array for key, array in self.arrays.items() if key.startswith(f"{name}.")}
        return Record(arrays, {k[n:]: text for k, text in self.texts.items() if k.startswith(f"{name}.")}, self.file)

    def __getitem__(self, key: str) -> Any:
        """What a text says."""
        return json.loads(self.texts[key])

    def get(self, key: str) -> Any:
        """What a text says, or None if there is none."""
        return json.loads(self.texts.get(key, "null"))

    def __contains__(self, key: str) -> bool:
        return key in self.texts


def write_record(path: str | os.PathLike[str], kind: str, version: int, record: Record) -> None:
    """Write a record of a `kind`; an existing file is replaced only once the new one is complete."""
    from safetensors.numpy import save

    # Arrays whose memory is in another order would be written in that order, and read back as others.
    ordered = {name: np.ascontiguousarray(array) for name, array in record.arrays.items()}
    content = save(ordered, metadata={"format": kind, "version": str(version), **record.texts})
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # in the order of the alphabet: safetensors writes texts in a random one
    with replace_file(path) as stream:
        stream.write(len(header).to_bytes(8, "little") + header + content[8 + size :])


def read_record(path: str | os.PathLike[str], kind: str, writer: str, versions: tuple[str, ...]) -> Record:
    """The record of a file that `writer` wrote."""
    from safetensors import SafetensorError, safe_open

    file = as_path("path", path)
    wanted = f"`{file}` must be a model file written by {writer}."
    if not file.is_file():
        raise ModelFileError(missing(file))
    try:
        with safe_open(file, framework="numpy") as content:
            texts = content.metadata() or {}
            own = texts.get("format") in (kind, _FORMER_KINDS.get(kind))
            # Files of others may hold types that NumPy does not know.
            arrays = {name: content.get_tensor(name) for name in content.keys()} if own else {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{wanted} It is damaged or of another kind: {error}.") from error
    if not own:
        reader = _READERS.get(texts.get("format", ""))
        raise ModelFileError(
            f"{wanted} It holds " + ("other tensors." if reader is None else f"another one: read it with {reader}.")
        )
    if texts.get("version") not in versions:
        raise ModelFileError(
            f"`{file}` must have format version {' or '.join(versions)}. Got {texts.get('version')}: update the "
            "package."
        )
    with described_by(file, "a model"):
        _check_record(arrays, texts)
    return Record(arrays, texts, str(file))


def _check_record(arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]) -> None:
    """One look at all that a file holds, before any of it is used."""
    for name, array in arrays.items():
        if array.dtype.kind != "f" or array.size == 0:
            raise ValueError(f"{short_repr(name)} holds {array.size} entries of type {array.dtype}, not floats")
        if name.rpartition(".")[2] not in _MAY_BE_INFINITE and not np.isfinite(array).all():
            raise ValueError(f"{short_repr(name)} holds NaN or infinity")
    for name, text in texts.items():
        form = _FORMS.get(name.rpartition(".")[2], ())
        if form != ():
            _check_form(json.loads(text, parse_constant=_refuse_constant), form, name)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"it holds {word}, which is no number")


def _check_form(value: Any, form: Any, name: str) -> None:
    """Raise unless a value out of JSON has a form as in `_FORMS`."""
    if not _fits(value, form):
        raise ValueError(f"{short_repr(name)} is {short_repr(value)}")
    if isinstance(form, list):
        for item in value:
            _check_form(item, form[0], name)
    elif isinstance(form, dict):
        for key, inner in form.items():
            if key in value:
                _check_form(value[key], inner, f"{name}.{key}")
    elif isinstance(form, tuple) and value is not None:
        _check_form(value, form[0], name)


def _fits(value: Any, form: Any) -> bool:
    """Whether a value is of the kind that a form names, whatever is inside."""
    if form is None:
        return value is None
    if isinstance(form, tuple):
        return any(_fits(value, one) for one in form)
    if isinstance(form, list | dict):
        return isinstance(value, type(form))
    if form is int:
        return type(value) is int and 0 <= value <= _LARGEST_COUNT
    return type(value) in ((int, float) if form is float else (form,))


def with_infinities(row: dict[str, Any]) -> dict[str, Any]:
    """A row with infinite errors, which JSON has no word for."""
    return {key: np.inf if value is None else value for key, value in row.items()}


@contextmanager
def described_by(path: str | os.PathLike[str], what: str) -> Iterator[None]:
    """Say that a file does not describe `what`, if its parts are missing, of the wrong kind or of other sizes."""
    try:
        yield
    except ModelFileError:
        raise
    except (
        LookupError,
        TypeError,
        ValueError,
        ArithmeticError,
        AttributeError,
        RecursionError,
        DecouplingError,
    ) as error:
        raise ModelFileError(f"`{path}` must describe {what}. Its parts do not fit together: {error}") from error
