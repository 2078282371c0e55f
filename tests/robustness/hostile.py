"""Arguments that nobody should give, one list for all public doors.

Every entry makes a fresh value. `make fuzz` and the tests draw from the same list.
"""

from __future__ import annotations

import datetime
import decimal
import fractions
from collections.abc import Callable
from typing import Any

import numpy as np

Maker = Callable[[], Any]


class EvilLength:
    def __len__(self):
        raise RuntimeError("no length for you")


class EvilArray:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("no array for you")


class EvilItems:
    def __len__(self):
        return 2

    def __getitem__(self, index):
        raise OSError("no items for you")


class EvilRepr:
    def __repr__(self):
        raise RuntimeError("no repr for you")


class EvilEquality:
    __hash__ = None

    def __eq__(self, other):
        raise RuntimeError("no comparison for you")


class LyingLength:
    def __len__(self):
        return 10**15

    def __getitem__(self, index):
        return 0.0


class EvilAttributes:
    def __getattr__(self, name):
        raise RuntimeError(f"no {name} for you")


def _recursive() -> list[Any]:
    nest: list[Any] = []
    nest.append(nest)
    return nest


def _torch(make: Callable[[Any], Any]) -> Maker:
    def value():
        import torch

        return make(torch)

    return value


NUMBERS: dict[str, Maker] = {
    **{repr(v): (lambda v=v: v) for v in (None, True, 0, -1, 1, 3, 0.5, -0.0, 1e308, 1e-308, 1e200, 1e-200, 1j)},
    **{f"{v} float": (lambda v=v: float(v)) for v in ("nan", "inf", "-inf")},
    "2**63": lambda: 2**63,
    "10**9": lambda: 10**9,
    "10**400": lambda: 10**400,
    "10**5000": lambda: 10**5000,
    "np.float64 nan": lambda: np.float64("nan"),
    "np.bool": lambda: np.True_,
    "np.int8": lambda: np.int8(-128),
    "np.uint64": lambda: np.uint64(2**64 - 1),
    "Decimal": lambda: decimal.Decimal("1e999999"),
    "Fraction": lambda: fractions.Fraction(1, 3),
    "datetime": lambda: datetime.datetime(2020, 1, 1),
}
TEXTS: dict[str, Maker] = {
    **{repr(v): (lambda v=v: v) for v in ("", "abc", "nan", "1", "auto", "\0", "\ud800", "\x1b[31m", "a\nb", "../..")},
    "long text": lambda: "a" * 100_000,
    "bytes": lambda: b"\xff\x00",
    "bytearray": lambda: bytearray(3),
}
ARRAYS: dict[str, Maker] = {
    "empty list": list,
    "ragged": lambda: [[1.0], [1.0, 2.0]],
    "recursive list": _recursive,
    "list of None": lambda: [None, None],
    "list of texts": lambda: ["a", "b"],
    "list of huge ints": lambda: [[10**400, 1], [2, 3]],
    "0-d": lambda: np.array(1.0),
    "5-d": lambda: np.zeros((1, 1, 1, 1, 1)),
    "33-d list": lambda: np.zeros((1,) * 32).tolist(),
    "(0, 2)": lambda: np.zeros((0, 2)),
    "(2, 0)": lambda: np.zeros((2, 0)),
    "(3, 2)": lambda: np.ones((3, 2)),
    "(8, 2) nan": lambda: np.full((8, 2), np.nan),
    "(8, 2) one inf": lambda: np.where(np.eye(8, 2) > 0, np.inf, 0.0),
    "(8, 2) zeros": lambda: np.zeros((8, 2)),
    "(8, 2) 1e300": lambda: np.full((8, 2), 1e300),
    "(8, 2) 1e-300": lambda: np.full((8, 2), 1e-300),
    "(8, 2) 1e200 varied": lambda: 1e200 * np.arange(16.0).reshape(8, 2),
    "(8, 2) constant": lambda: np.full((8, 2), 7.0),
    "(8, 2, 2) 1e300": lambda: np.full((8, 2, 2), 1e300),
    "(2,) 1e300": lambda: np.array([1e300, -1e300]),
    "(2,) 0": lambda: np.zeros(2),
    "(2, 4) 1e300": lambda: np.full((2, 4), 1e300),
    "(2, 2) 1e200": lambda: np.full((2, 2), 1e200),
    "complex": lambda: np.ones((8, 2)) * 1j,
    "objects": lambda: np.array([[object()] * 2] * 8, dtype=object),
    "numbers as objects": lambda: np.ones((8, 2), dtype=object),
    "texts": lambda: np.full((8, 2), "1.0"),
    "bytes array": lambda: np.full((8, 2), b"1.0"),
    "dates": lambda: np.zeros((8, 2), dtype="datetime64[s]"),
    "durations": lambda: np.zeros((8, 2), dtype="timedelta64[s]"),
    "fields": lambda: np.zeros(8, dtype=[("a", float), ("b", int)]),
    "raw bytes": lambda: np.zeros((8, 2), dtype="V8"),
    "float16 max": lambda: np.full((8, 2), np.finfo(np.float16).max, dtype=np.float16),
    "longdouble": lambda: np.full((8, 2), np.longdouble("1e4000")),
    "uint64": lambda: np.full((8, 2), 2**64 - 1, dtype=np.uint64),
    "bools": lambda: np.ones((8, 2), dtype=bool),
    "big-endian": lambda: np.arange(16.0).reshape(8, 2).astype(">f8"),
    "negative strides": lambda: np.arange(16.0).reshape(8, 2)[::-1, ::-1],
    "not aligned": lambda: np.frombuffer(bytes(8 * 16 + 1), dtype=np.uint8)[1:].view(float).reshape(8, 2),
    "masked": lambda: np.ma.masked_equal(np.arange(16.0).reshape(8, 2), 3.0),
    "matrix": lambda: np.ones((8, 2)).view(np.matrix),
    "broadcast to 10^12": lambda: np.broadcast_to(1.0, (10**6, 10**6)),
    "memoryview": lambda: memoryview(b"abcdefgh"),
    "range": lambda: range(4),
    "tensor with grad": _torch(lambda torch: torch.ones(8, 2, requires_grad=True)),
    "bfloat16": _torch(lambda torch: torch.ones(8, 2, dtype=torch.bfloat16)),
    "complex tensor": _torch(lambda torch: torch.ones(8, 2, dtype=torch.complex64)),
    "meta tensor": _torch(lambda torch: torch.ones(8, 2, device="meta")),
    "sparse tensor": _torch(lambda torch: torch.eye(8, 2).to_sparse()),
}
OBJECTS: dict[str, Maker] = {
    "dict": dict,
    "dict with items": lambda: {"a": 1},
    "set": lambda: {1, 2},
    "generator": lambda: (i for i in range(3)),
    "lambda": lambda: lambda *a, **k: None,
    "function that fails": lambda: lambda *a, **k: 1 / 0,
    "class": lambda: int,
    "module": lambda: np,
    "object": object,
    "slice": lambda: slice(None, None, 0),
    "odd slice": lambda: slice("a", object(), 10**400),
    "ellipsis": lambda: ...,
    "RandomState": lambda: np.random.RandomState(0),
    "exception": lambda: ValueError("x"),
    **{
        kind.__name__: kind
        for kind in (EvilLength, EvilArray, EvilItems, EvilRepr, EvilEquality, LyingLength, EvilAttributes)
    },
}
HOSTILE: dict[str, Maker] = NUMBERS | TEXTS | ARRAYS | OBJECTS
