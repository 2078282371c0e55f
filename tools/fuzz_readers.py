"""Bytes of atheris as files of every kind: readers may refuse them in our words, and nothing else."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["decoupling"]):
    import decoupling as dc
    from decoupling.samples.readers import _any_file, _arrays, _csv, _numpy_file, _parquet  # noqa: F401
    from decoupling.write import _model_file  # noqa: F401

ENDINGS = ("npz", "npy", "csv", "tsv", "parquet", "safetensors")
FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-"))


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


atheris.Setup(sys.argv, read)
atheris.Fuzz()
