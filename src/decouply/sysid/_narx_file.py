"""NARX models as files: the file of the map, with lags, ranges, regressors and the result that it came from.

`Decoupling.load` reads the same file as the map from regressors to outputs.
"""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._support._errors import ModelFileError
from .._support._plain import plain
from ..bases import AbstractBasis
from ..write._model_file import load_all, save_model
from ..write._result_file import load_result, save_result
from .narx._abstract import Training
from .narx._refine import RefineRow
from .narx._regressors import Lags
from .signals._records import Range

_KEY = "narx"
_PREFIX = "narx."
_RANGES = ("u", "y")


def save_narx(path: str | os.PathLike[str], model: Any) -> None:
    """Write a decoupled NARX model."""
    training = model.training
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "result.safetensors"
        save_result(model.result, file, samples=True)
        result = np.frombuffer(file.read_bytes(), dtype=np.uint8)
    more = {f"{_PREFIX}result": result, f"{_PREFIX}X": training.X}
    for name in _RANGES:
        of = getattr(training, name)
        more |= {f"{_PREFIX}{name}_low": of.low, f"{_PREFIX}{name}_high": of.high}
    about = {
        "lags": dataclasses.asdict(training.lags),
        "flat": training.flat,
        "refinement": [dataclasses.asdict(row) for row in model.refinement],
    }
    save_model(model.decoupling, path, more=more, about={_KEY: json.dumps(plain(about))})


def load_narx(path: str | os.PathLike[str], bases: Sequence[type[AbstractBasis]]) -> dict[str, Any]:
    """The fields of the model."""
    decoupling, arrays, texts = load_all(path, bases)
    if _KEY not in texts:
        raise ModelFileError(
            f"`{path}` must hold a NARX model, written by DecoupledNARX.save. It holds another one: read it with "
            "dc.Decoupling.load or DecoupledStateSpace.load."
        )
    try:
        about = json.loads(texts[_KEY])
        ranges = {name: Range(arrays[f"{_PREFIX}{name}_low"], arrays[f"{_PREFIX}{name}_high"]) for name in _RANGES}
        training = Training(Lags(**about["lags"]), arrays[f"{_PREFIX}X"], **ranges, flat=about["flat"])
        rows = tuple(RefineRow(**_whole(row)) for row in about["refinement"])
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "result.safetensors"
            file.write_bytes(arrays[f"{_PREFIX}result"].tobytes())
            result = load_result(file, None, bases)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"`{path}` must describe a NARX model. Its parts do not fit together: {error}") from error
    return {"result": result, "decoupling": decoupling, "training": training, "refinement": rows}


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """A row with infinite errors, which JSON has no word for."""
    return {key: np.inf if value is None else value for key, value in row.items()}
