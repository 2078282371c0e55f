"""The idx format of MNIST and its relatives: a typed array with a short header, big endian, often packed with gzip.

The header is two zero bytes, one byte for the type, one for the number of axes, then the length of each axis as an
unsigned 32-bit integer. The entries follow, last axis fastest, and nothing after them.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy import ndarray

from .._support._errors import DataError

_GZIP_MAGIC = b"\x1f\x8b"
_TYPES = {0x08: "uint8", 0x09: "int8", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}


def read_idx(path: Path) -> ndarray:
    """The array of an idx file, packed or not: read-only, in the byte order of this machine."""
    rule = f"`{path}` must be a complete idx file, plain or packed with gzip"
    content = _unpacked(path.read_bytes(), rule)
    dtype, shape, start = _header(content, rule)
    expected = start + math.prod(shape) * dtype.itemsize
    if len(content) != expected:
        problem = "It is cut short" if len(content) < expected else "It goes on after its last entry"
        raise DataError(
            f"{rule}. {problem}: an array of {dtype.name} and shape {shape} takes {expected} bytes. Got {len(content)}."
        )
    try:
        array = np.frombuffer(content, dtype, offset=start).reshape(shape)
    except ValueError as error:  # too many axes, or an empty array whose other axes are absurdly long
        raise DataError(f"{rule}. NumPy cannot hold the shape in its header: {error}.") from error
    array = array.astype(dtype.newbyteorder("="), copy=False)
    array.flags.writeable = False
    return array


def _unpacked(content: bytes, rule: str) -> bytes:
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error, struct.error) as error:
        raise DataError(f"{rule}. Its gzip content is damaged: {error}.") from error


def _header(content: bytes, rule: str) -> tuple[np.dtype[Any], tuple[int, ...], int]:
    """Type, shape, and where the entries begin."""
    magic = content[:4]
    if len(magic) == 4 and (magic[:2] != b"\0\0" or magic[2] not in _TYPES):
        known = ", ".join(f"{code:02x} ({name})" for code, name in _TYPES.items())
        raise DataError(
            f"{rule}. It must begin with 00 00 and a type out of {known}. Got {magic.hex(' ')}: it is of another kind."
        )
    start = 4 + 4 * magic[3] if len(magic) == 4 else 4
    if len(content) < start:
        raise DataError(f"{rule}. It is cut short: its header takes {start} bytes. Got {len(content)}.")
    dtype = np.dtype(_TYPES[magic[2]]).newbyteorder(">")
    return dtype, struct.unpack(f">{magic[3]}I", content[4:start]), start
