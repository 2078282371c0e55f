"""Cases whose results are recorded, how they are compared, and with which arithmetic they were made.

A case is a function that takes an empty folder and returns a dictionary of numbers, arrays and texts. Numbers are
compared to `TOLERANCE`, also those within texts; the words between them must be the same. Searches amplify the last
digit, so that numbers are compared only where arithmetic is the same to the last bit, which `fingerprint` tells.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_limits

TOLERANCE = 1e-10
FLOOR = 1e-9  # errors below this are rounding
HERE = Path(__file__).parent
NUMBERS = HERE / "numbers"
FINGERPRINT = NUMBERS / "fingerprint.json"
COMMON = ("bits", "numpy", "scipy")
OTHERS = ("torch", "scikit-learn", "sympy", "onnxruntime", "zarr", "pyarrow", "dask", "jax")
_NUMBER = re.compile(r"(?<![A-Za-z_0-9.])\d+(?:\.\d*)?(?:e[-+]?\d+)?", re.IGNORECASE)
_PACKAGE = re.compile(r"(?<=ecoupl)(?:ing|y)\b")  # of its name, which is also a word of many texts

Made = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    area: str
    name: str
    make: Callable[[Path], Made]
    needs: tuple[str, ...]


CASES: dict[str, Case] = {}


def case(*variants: Any, needs: tuple[str, ...] = ()) -> Callable[[Callable[..., Made]], Callable[..., Made]]:
    """Register a function of a folder, or one of a folder and a word, once for each of the words."""

    def register(function: Callable[..., Made]) -> Callable[..., Made]:
        area = function.__module__.rpartition(".")[2]
        for variant in variants or (None,):
            word = "" if variant is None else f"[{variant}]"
            given = () if variant is None else (variant,)
            name = f"{area}.{function.__name__}{word}"
            assert name not in CASES
            CASES[name] = Case(area, name, lambda folder, given=given: function(folder, *given), needs)
        return function

    return register


# How results are made plain


def made(name: str, folder: Path) -> dict[str, Any]:
    """The results of a case as JSON has them, with one thread: the order of sums depends on their number."""
    with warnings.catch_warnings(), _one_thread():
        warnings.simplefilter("ignore")
        return {key: plain(value) for key, value in CASES[name].make(folder).items()}


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    with threadpool_limits(1):
        try:
            import torch
        except ImportError:
            yield
            return
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(before)


def plain(value: Any) -> Any:
    """Lists, numbers and texts."""
    if isinstance(value, str):
        return _PACKAGE.sub("*", value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    raise TypeError(f"Cases return numbers, arrays and texts. Got {type(value).__name__}.")


def floored(value: Any) -> Any:
    """Errors, with 0 in place of rounding."""
    array = np.asarray(value, dtype=float)
    return np.where(np.abs(array) < FLOOR, 0.0, array)


# How they are compared


def differences(new: Any, old: Any, where: str = "") -> list[str]:
    """What differs, in words; empty where nothing does."""
    if isinstance(new, dict) and isinstance(old, dict):
        found = [f"{where}: {key} is {'new' if key in new else 'gone'}" for key in sorted(new.keys() ^ old.keys())]
        return found + [d for key in old if key in new for d in differences(new[key], old[key], f"{where}.{key}")]
    if isinstance(new, str) and isinstance(old, str):
        return _text_differences(new, old, where)
    a, b = _array(new), _array(old)
    if a is not None and b is not None:
        return _number_differences(a, b, where)
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [d for i, pair in enumerate(zip(new, old, strict=True)) for d in differences(*pair, f"{where}[{i}]")]
    return [] if new == old else [f"{where}: {_short(new)}, recorded {_short(old)}"]


def _array(value: Any) -> np.ndarray | None:
    """An array, of what are numbers and lists of numbers only."""
    if isinstance(value, bool | str | dict) or value is None:
        return None
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    return array.astype(float) if array.dtype.kind in "iuf" else None


def _number_differences(a: np.ndarray, b: np.ndarray, where: str) -> list[str]:
    if a.shape != b.shape:
        return [f"{where}: shape {a.shape}, recorded {b.shape}"]
    size = float(np.max(np.abs(b), where=np.isfinite(b), initial=0.0))
    if np.allclose(a, b, rtol=TOLERANCE, atol=TOLERANCE * size, equal_nan=True):
        return []
    off = np.abs(a - b)
    worst = float(np.max(off, where=np.isfinite(off), initial=0.0))
    told = f"{a.item()!r}, recorded {b.item()!r}, " if a.size == 1 else ""
    return [f"{where}: {told}off by {worst / size if size else math.inf:.1e} of the largest number"]


def _text_differences(new: str, old: str, where: str) -> list[str]:
    if new == old:
        return []
    words, recorded = _NUMBER.split(new), _NUMBER.split(old)
    if words != recorded:
        at = next((i for i, (a, b) in enumerate(zip(new, old, strict=False)) if a != b), min(len(new), len(old)))
        piece = slice(max(0, at - 30), at + 50)
        return [f"{where}: {new[piece]!r}, recorded {old[piece]!r}"]
    pairs = zip(_NUMBER.findall(new), _NUMBER.findall(old), strict=True)
    off = [(a, b) for a, b in pairs if not math.isclose(float(a), float(b), rel_tol=TOLERANCE)]
    return [f"{where}: {a} in the text, recorded {b}" for a, b in off[:3]]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) < 80 else text[:77] + "..."


# Where they are kept


@cache
def recorded(area: str) -> dict[str, dict[str, Any]]:
    """All that is kept of an area, by case."""
    file = NUMBERS / f"{area}.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def keep(area: str, results: Mapping[str, Made]) -> None:
    """Write one line per quantity, so that changes can be read."""
    blocks = []
    for name in sorted(results):
        lines = (f"  {json.dumps(k)}: {_packed(v)}" for k, v in results[name].items())
        blocks.append(f"{json.dumps(name)}: {{\n" + ",\n".join(lines) + "\n}")
    NUMBERS.mkdir(exist_ok=True)
    (NUMBERS / f"{area}.json").write_text("{\n" + ",\n".join(blocks) + "\n}\n", encoding="utf-8")
    recorded.cache_clear()


def _packed(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


# Which arithmetic it was


@cache
def fingerprint() -> dict[str, str]:
    """Bits of some results, and the versions of what computes them."""
    with _one_thread():
        bits = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in _some_results())).hexdigest()
    versions = {name: importlib.metadata.version(name) for name in ("numpy", "scipy")}
    for name in OTHERS:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    with contextlib.suppress(ImportError):
        versions["torch"] += f" {_torch_bits()[:16]}"
    return {"bits": bits[:32], **versions}


def _some_results() -> Iterator[np.ndarray]:
    rng = np.random.default_rng(0)
    for k in (3, 8, 33, 150):
        A, B, x = rng.normal(size=(k, k)), rng.normal(size=(k, 7)), rng.normal(size=1000)
        stack = rng.normal(size=(5, k, 4))
        yield from (A @ B, A @ A.T, A @ B[:, 0], np.swapaxes(stack, 1, 2) @ stack, np.einsum("sij,ik->sjk", stack, A))
        yield from (*np.linalg.eigh(A + A.T), *np.linalg.svd(B), np.linalg.eigvals(A), np.linalg.solve(A, B))
        yield from (np.linalg.lstsq(B, A, rcond=None)[0], *scipy.linalg.qr(B, pivoting=True)[:2], np.linalg.inv(A))
        yield from (scipy.linalg.cholesky(A @ A.T + np.eye(k)), scipy.linalg.lstsq(B, A[:, 0])[0])
        yield from (np.exp(x), np.log(np.abs(x)), np.tanh(x), np.sin(x), np.cos(x), np.abs(x) ** 0.3, x**3)
        yield from (np.sum(x), np.mean(x), np.std(x), np.cumsum(x), np.linalg.norm(x), x @ x)
        yield np.array([math.exp(t) * math.sin(t) + math.log1p(abs(t)) for t in x[:50]])


def _torch_bits() -> str:
    import torch

    generator = torch.Generator().manual_seed(0)
    A = torch.randn(40, 40, generator=generator, requires_grad=True)
    x = torch.randn(300, 40, generator=generator)
    with _one_thread():
        y = torch.log_softmax(torch.tanh(x @ A) @ A, dim=1)
        y.square().mean().backward()
        whole = torch.linalg.svd((A @ A).double())[0]
    parts = (y.detach(), A.grad, whole.detach())
    return hashlib.sha256(b"".join(part.numpy().tobytes() for part in parts)).hexdigest()


def recorded_fingerprint() -> dict[str, str]:
    return json.loads(FINGERPRINT.read_text(encoding="utf-8"))


def other_arithmetic(name: str) -> str:
    """Why the recorded numbers of a case do not hold here; empty where they do."""
    here, there = fingerprint(), recorded_fingerprint()
    for key in (*COMMON, *CASES[name].needs):
        if key not in here:
            return f"needs {key}"
        if here[key] != there.get(key):
            return (
                f"golden numbers were recorded with other arithmetic ({key} {there.get(key)}, here {here[key]}): "
                "`python -m tests.golden` records them here"
            )
    return ""
