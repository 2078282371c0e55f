"""Arrays and texts in one safetensors file, with a word for what they are. No code is ever run on loading."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

import numpy as np

from .._support._arguments import as_path, missing
from .._support._atomic_files import replace_file
from .._support._errors import ModelFileError

_FORMER_KINDS = {"decouply": "decoupling"}  # what files said before the package had its present name
_READERS = {  # what a file says it is, and who reads it
    "decouply": "dc.Decoupling.load",
    "decoupling": "dc.Decoupling.load",
    "polynomial NARX": "dc.sysid.PolynomialNARX.load",
    "linear state space": "dc.sysid.LinearStateSpace.load",
}


def save_arrays(
    path: str | os.PathLike[str], kind: str, version: int, arrays: Mapping[str, np.ndarray], texts: Mapping[str, str]
) -> None:
    """Write arrays of a `kind`; an existing file is replaced only once the new one is complete."""
    from safetensors.numpy import save

    # Arrays whose memory is in another order would be written in that order, and read back as others.
    ordered = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    content = _in_order(save(ordered, metadata={"format": kind, "version": str(version), **texts}))
    with replace_file(path) as stream:
        stream.write(content)


def load_arrays(
    path: str | os.PathLike[str], kind: str, writer: str, versions: tuple[str, ...]
) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arrays and texts of a file that `writer` wrote."""
    from safetensors import SafetensorError, safe_open

    file = as_path("path", path)
    wanted = f"`{file}` must be a model file written by {writer}."
    if not file.is_file():
        raise ModelFileError(f"{wanted} {missing(file)}")
    try:
        with safe_open(file, framework="numpy") as content:
            texts = content.metadata() or {}
            own = texts.get("format") in (
                kind,
                _FORMER_KINDS.get(kind, kind),
            )  # others may hold types that NumPy does not know
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
    return arrays, texts


def _in_order(content: bytes) -> bytes:
    """The same file with its header in the order of the alphabet: safetensors writes metadata in a random one."""
    size = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + size]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + content[8 + size :]
