"""Bytes that atheris changes, guided by coverage, as files of every kind: they are read, or refused in our words.

python tools/fuzz_readers.py FOLDER [options of libFuzzer]; whole and special files are put into FOLDER to begin with.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import atheris

LIMIT = 100_000_000  # bytes that a file may declare; tools/fuzz_readers.sh ends the process at twice as many and more
os.environ["DECOUPLY_MAX_FILE_BYTES"] = str(LIMIT)
sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["decouply", "numpy.lib", "zipfile", "csv", "json", "ast"]):
    import decouply as dc
    from decouply.samples.readers import _array_files, _by_extension, _table_files  # noqa: F401
    from decouply.write import _model_file  # noqa: F401

from tests.robustness.corpus import SPECIAL, WHOLE  # noqa: E402 (after the instrumentation)

ENDINGS = ("npz", "npy", "csv", "tsv", "parquet", "safetensors")  # .mat files are read by another process
LONGEST = 8192  # bytes of a file to begin with
FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))


def begin(corpus: Path) -> None:
    """Files to change, each behind the byte that chooses its kind."""
    files = [("whole", ending, WHOLE[ending]()) for ending in ENDINGS]
    files += [(f"special{i}", *file) for i, file in enumerate(SPECIAL.values())]
    for name, ending, content in files:
        if ending in ENDINGS and len(content) < LONGEST:
            (corpus / f"{name}.{ending}").write_bytes(bytes([ENDINGS.index(ending)]) + content)


def read(data: bytes) -> None:
    """The first byte chooses the kind of file."""
    if not data:
        return
    path = FOLDER / f"file.{ENDINGS[data[0] % len(ENDINGS)]}"
    path.write_bytes(data[1:])
    try:
        if path.suffix == ".safetensors":
            dc.Decoupling.load(path)
        elif path.suffix == ".npz":
            dc.Samples.load(path)
        else:
            dc.Samples.load(path, inputs="a", outputs="b")
    except dc.DecouplingError:
        pass


begin(Path(sys.argv[1]))
atheris.Setup([sys.argv[0], *sys.argv[2:], sys.argv[1]], read)
atheris.Fuzz()
