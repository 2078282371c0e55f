"""Damaged and malicious files, made when they are needed: clear errors, soon, in bounded memory."""

from __future__ import annotations

import io
import json
import resource
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import decouply as dc
from tests.robustness.hangs import HangError, at_most
from tests.robustness.outcome import FINE, Outcome

_SECONDS = 3.0  # of processor time, on machines slower than ours
_HANG = 30.0
_MEGABYTES = 1500.0  # more than before: far below twice the limit of a file
MODEL = dc.systems.f1()
X = np.random.default_rng(0).uniform(-1.0, 1.0, (12, 2))
SAMPLES = dc.Samples(X, F=MODEL(X), J=MODEL.jacobian(X), inputs=["a", "b"], outputs=["c", "d"])
COLUMNS = {"inputs": ["a", "b"], "outputs": ["c", "d"]}


def _model_bytes() -> bytes:
    return _written(lambda path: MODEL.save(path), "m.safetensors")


def _written(write: Callable[[Path], Any], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        write(path)
        return path.read_bytes()


def _table(delimiter: str = ",") -> bytes:
    rows = [delimiter.join("abcd"), *(delimiter.join(map(repr, map(float, row))) for row in np.hstack([X, SAMPLES.F]))]
    return "\n".join(rows).encode()


def _parquet(path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(zip("abcd", np.hstack([X, SAMPLES.F]).T, strict=True))), path)


def _mat(path: Path) -> None:
    from scipy.io import savemat

    savemat(path, {"X": X, "F": SAMPLES.F})


def _sparse(path: Path) -> None:
    from scipy.io import savemat
    from scipy.sparse import eye_array

    savemat(path, {"X": eye_array(20_000, format="csc"), "F": X})


def _npy(path: Path) -> None:
    np.save(path, np.rec.fromarrays(np.hstack([X, SAMPLES.F]).T, names=list("abcd")))


def _result(path: Path) -> None:
    dc.decouple(SAMPLES, 1, 2, n_starts=1, progress=False).save(path)


# Whole files, by their ending; what is damaged is one of these.
WHOLE: dict[str, Callable[[], bytes]] = {
    "safetensors": _model_bytes,
    "npz": lambda: _written(SAMPLES.save, "s.npz"),
    "npy": lambda: _written(_npy, "s.npy"),
    "csv": _table,
    "tsv": lambda: _table("\t"),
    "parquet": lambda: _written(_parquet, "s.parquet"),
    "mat": lambda: _written(_mat, "s.mat"),
}


def npy_declaring(header: str, content: bytes = b"", version: tuple[int, int] = (1, 0)) -> bytes:
    """A file in NumPy's format with any header."""
    text = header.encode("latin1", "replace") + b"\n"
    size = len(text).to_bytes(2 if version == (1, 0) else 4, "little")
    return b"\x93NUMPY" + bytes(version) + size + text + content


def _archive(members: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def _shape(shape: str, descr: str = "'<f8'") -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


def safetensors_with(header: Any, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def _metadata(**changes: str) -> bytes:
    whole = _model_bytes()
    size = int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8 : 8 + size])
    header["__metadata__"] |= changes
    return safetensors_with(header, whole[8 + size :])


def _npy_headers() -> dict[str, bytes]:
    headers = {
        "10^12 numbers": _shape("(1000000, 1000000)"),
        "2^64 numbers": _shape("(18446744073709551616,)"),
        "2^63 by 2": _shape("(9223372036854775807, 2)"),
        "negative": _shape("(-1, 4)"),
        "not numbers": _shape("('a', 4)"),
        "objects": _shape("(2, 4)", "'|O'"),
        "many axes": _shape("(" + "1, " * 60 + ")"),
        "long items": _shape("(2, 4)", "'<U1000000000'"),
        "open bracket": "{'descr': '<f8', 'shape': (",
        "nested": "(" * 3000,
        "no dictionary": "[1, 2]",
        "code": "__import__('os').system('true')",
        "python 2": _shape("(2L, 4L"),
        "long": " " * 65000,
    }
    return {name: npy_declaring(header, bytes(64)) for name, header in headers.items()}


def _special() -> Iterator[tuple[str, str, bytes]]:
    """Name, ending and content of files that are made to do harm."""
    for name, content in _npy_headers().items():
        yield f"npy, {name}", "npy", content
        yield f"npz, {name}", "npz", _archive({"X.npy": content, "F.npy": content})
    whole = io.BytesIO()
    np.save(whole, X)
    good = whole.getvalue()
    yield "npz, members that are no arrays", "npz", _archive({"X": b"abc", "F": b"abc"})
    yield "npz, a text among arrays", "npz", _archive({"X.npy": good, "F.npy": good, "README": b"hello"})
    yield "npz, empty members", "npz", _archive({"X.npy": b"", "F.npy": b""})
    yield "npz, nothing", "npz", _archive({})
    yield "npz, many members", "npz", _archive({f"x{i}.npy": b"" for i in range(12_000)})
    yield "npz, paths", "npz", _archive({"../../X.npy": good, "/F.npy": good})
    zeros = npy_declaring(_shape("(60000000, 10)"), bytes(0))
    yield "npz, a promise", "npz", _archive({"X.npy": zeros, "F.npy": zeros})
    yield "csv, one long line", "csv", b"a," * 300_000 + b"b\n"
    yield "csv, one long cell", "csv", b"a,b\n" + b"1" * 1_000_000 + b",2\n"
    yield "csv, a long remark", "csv", b"a,b,c,d\n1,2,3,4\n2,1,3,4\n# " + b"x" * 200_000 + b"\n3,2,1,0\n"
    yield "csv, a long remark before numbers", "csv", b"# " + b"x" * 200_000 + b"\n1,2,3,4\n2,1,3,4\n3,2,1,0\n"
    yield "csv, 10^6 columns", "csv", (b"1," * 1_000_000 + b"1\n") * 3
    yield "mat, a sparse matrix", "mat", _written(_sparse, "s.mat")
    yield "csv, quotes that never end", "csv", b'a,b,c,d\n"' + b"1,2\n" * 100_000
    yield "csv, numbers of many digits", "csv", b"a,b,c,d\n" + b"9" * 100_000 + b",1,1,1\n"
    yield "csv, zeros", "csv", bytes(1_000_000)
    yield "csv, delimiters", "csv", b"," * 1_000_000 + b"\n"
    yield "csv, line breaks", "csv", b"\n" * 3_000_000
    yield "csv, surrogates", "csv", b"a,b\n\xed\xa0\x80,1\n"
    for depth in (900, 100_000):
        nest = "[" * depth + "]" * depth
        yield f"model, {depth} lists", "safetensors", _metadata(bases=nest)
        yield f"model, {depth} lists of names", "safetensors", _metadata(inputs=nest)
        yield f"model, header of {depth} lists", "safetensors", safetensors_with(nest.encode())
    for degree in ("1000000000000", "-1", "1e400", "null", '"x"', "[]", str(10**400)):
        item = f'{{"name": "Monomial", "fields": {{"degree": {degree}}}}}'
        yield f"model, degree {degree[:20]}", "safetensors", _metadata(bases=f"[[{item}, {item}], [{item}, {item}]]")
    yield "model, other fields", "safetensors", _metadata(bases='[[{"name": "Monomial", "fields": {"x": 1}}]]')
    yield "model, basis of another name", "safetensors", _metadata(bases='[[{"name": "__import__", "fields": {}}]]')
    yield "model, outside", "safetensors", _metadata(outside='["x", {}]')
    huge = {"W0": {"dtype": "F64", "shape": [10**6, 10**6], "data_offsets": [0, 8 * 10**12]}}
    yield "model, 10^12 numbers", "safetensors", safetensors_with(huge, bytes(64))
    yield "model, long header", "safetensors", (2**62).to_bytes(8, "little") + b"{}"


SPECIAL = {name: (ending, content) for name, ending, content in _special()}


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    """The same file with bytes changed, cut off, doubled or swapped."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(len(data))) if data else 0
        kind = rng.integers(5)
        if kind == 0:
            data[at : at + 1] = bytes([int(rng.integers(256))])
        elif kind == 1:
            del data[at:]
        elif kind == 2:
            data[at:at] = data[at : at + int(rng.integers(1, 200))]
        elif kind == 3:
            del data[at : at + int(rng.integers(1, 50))]
        else:
            data[at : at + 8] = rng.choice([b"\xff" * 8, b"\x00" * 8, b"\x7f" + b"\xff" * 7, b"[[[[[[[["])
    return bytes(data)


def files(count: int, seed: int) -> Iterator[Outcome]:
    """All special files, and damaged ones up to the count."""
    rng = np.random.default_rng(seed)
    whole = [(ending, make()) for ending, make in WHOLE.items()] + [("safetensors", _written(_result, "r.safetensors"))]
    with tempfile.TemporaryDirectory() as folder:
        for name, (ending, content) in list(SPECIAL.items())[:count]:
            yield read(Path(folder, f"special.{ending}"), content, name)
        # MATLAB files are read by a process each, which takes a second: few of them.
        often = [file for file in whole for _ in range(1 if file[0] == "mat" else 6)]
        for i in range(count - len(SPECIAL)):
            ending, content = often[rng.integers(len(often))]
            yield read(Path(folder, f"damaged.{ending}"), damaged(content, rng), f"damaged {ending} {i}")


def _load_samples(path: Path) -> Any:
    return dc.Samples.load(path) if path.suffix in (".npz", ".mat") else dc.Samples.load(path, **COLUMNS)


def _some_of_npy(path: Path) -> Any:
    return dc.Samples.from_npy(path, F=path).pilot(4)


# All that reads a file of this ending.
DOORS: dict[str, tuple[Callable[[Path], Any], ...]] = {
    "safetensors": (
        *(dc.Decoupling.load, dc.Result.load, dc.sysid.DecoupledNARX.load, dc.sysid.DecoupledStateSpace.load),
    ),
    "npz": (_load_samples,),
    "npy": (_load_samples, _some_of_npy),
    "csv": (_load_samples,),
    "tsv": (_load_samples,),
    "parquet": (_load_samples,),
    "mat": (_load_samples,),
}


def read(path: Path, content: bytes, name: str) -> Outcome:
    """Read one file through every door that takes it."""
    path.write_bytes(content)
    outcomes = (_read(path, door, name) for door in DOORS[path.suffix.removeprefix(".")])
    return next((outcome for outcome in outcomes if outcome.verdict != FINE), Outcome(FINE, name))


def _read(path: Path, door: Callable[[Path], Any], name: str) -> Outcome:
    began, before = time.process_time(), _megabytes()
    try:
        with at_most(_HANG):
            door(path)
    except HangError:
        return Outcome("hang", name, f"over {_HANG:g} s")
    except dc.DecouplingError as error:
        if len(str(error)) > 5000:
            return Outcome("long message", name, str(error)[:100])
    except Exception as error:
        return Outcome("raw", name, repr(error)[:200])
    seconds, more = time.process_time() - began, _megabytes() - before
    if seconds > _SECONDS:
        return Outcome("slow", name, f"{seconds:.1f} s")
    if more > _MEGABYTES:
        return Outcome("memory", name, f"{more:.0f} MB")
    return Outcome(FINE, name)


def _megabytes() -> float:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
