"""Dynamic models as files.

A decoupled model is the file of its map, which `Decoupling.load` reads alone, with what a run needs beside it; a
polynomial NARX model is a file of its own kind.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import ModelFileError
from ..bases import AbstractBasis
from ..write._model_file import load_with_model, model_of, model_record, save_model
from ..write._record_file import Record, described_by, read_record, write_record
from ..write._result_file import result_of, result_record
from .narx._abstract import Training
from .narx._refine import RefineRow
from .narx._regressors import Lags
from .signals._record_batch import SignalUnits
from .signals._records import Range
from .state_space._search import StateSpaceStart

Path = str | os.PathLike[str]
_POLYNOMIAL, _VERSION = "polynomial NARX", 1
_NARX, _STATE_SPACE = "narx", "state space"  # texts in the file of a map
_RUN_ARRAYS = ("x0", "rmse", "linear_rmse", "spread", "points")
_UNITS = ("u_mean", "u_size", "y_mean", "y_size")


# NARX models


def save_narx(path: Path, model: Any) -> None:
    """Write a decoupled NARX model, with the result that it came from."""
    training: Training = model.training
    about = {
        "lags": dataclasses.asdict(training.lags),
        "flat": training.flat,
        "refinement": [dataclasses.asdict(row) for row in model.refinement],
    }
    ranges = {f"{k}_{end}": getattr(getattr(training, k), end) for k in ("u", "y") for end in ("low", "high")}
    result = (model_record(model.result.decoupling) | result_record(model.result, samples=True)).under("result")
    more = (Record.of({"X": training.X, **ranges}) | result).under(_NARX)
    save_model(model.decoupling, path, more | Record.of({}, narx=about))


def load_narx(path: Path, bases: Sequence[type[AbstractBasis]]) -> dict[str, Any]:
    """The fields of a decoupled NARX model."""
    decoupling, record, known = load_with_model(path, bases)
    if _NARX not in record:
        raise ModelFileError(
            f"`{path}` must hold a NARX model, written by DecoupledNARX.save. It holds another one: read it with "
            "dc.Decoupling.load or DecoupledStateSpace.load."
        )
    with described_by(path, "a NARX model"):
        about, own = record[_NARX], record.inside(_NARX)
        result = own.inside("result")
        u, y = (Range(own.arrays[f"{k}_low"], own.arrays[f"{k}_high"]) for k in ("u", "y"))
        training = Training(Lags(**about["lags"]), own.arrays["X"], u, y, flat=about["flat"])
        return {
            "result": result_of(result, model_of(result, known), None),
            "decoupling": decoupling,
            "training": training,
            "refinement": tuple(RefineRow(**_with_infinities(row)) for row in about["refinement"]),
        }


def save_polynomial(
    path: Path, shape: tuple[int, int, int], training: Training, coefficients: Float[ndarray, "terms n"]
) -> None:
    """Write a fitted polynomial NARX model; its shape is n_u, n_y and the degree."""
    ranges = {name: np.stack([of.low, of.high]) for name, of in (("u", training.u), ("y", training.y))}
    about = dict(zip(("n_u", "n_y", "degree"), shape, strict=True)) | {"flat": training.flat}
    record = Record.of({"coefficients": coefficients, "X": training.X, **ranges}, about=about)
    write_record(path, _POLYNOMIAL, _VERSION, record)


def load_polynomial(path: Path) -> tuple[tuple[int, int, int], Training, Float[ndarray, "terms n"]]:
    """The shape, what the model was trained on, and its coefficients."""
    record = read_record(path, _POLYNOMIAL, "PolynomialNARX.save", (str(_VERSION),))
    with described_by(path, "a NARX model"):
        about, arrays = record["about"], record.arrays
        n_u, n_y, degree = (int(about[name]) for name in ("n_u", "n_y", "degree"))
        lags = Lags(n_u, n_y, arrays["u"].shape[1], arrays["y"].shape[1])
        training = Training(lags, arrays["X"], Range(*arrays["u"]), Range(*arrays["y"]), bool(about["flat"]))
        coefficients = arrays["coefficients"]
        if coefficients.shape[1:] != arrays["y"].shape[1:] or arrays["X"].shape[1:] != (lags.n_regressors,):
            raise ValueError("arrays of other sizes than the lags ask for")
        return (n_u, n_y, degree), training, coefficients


# State-space models


def save_state_space(path: Path, fit: Any, options: dict[str, Any]) -> None:
    """Write the record of a fit, with the options of its model."""
    arrays = {name: getattr(fit, name) for name in _RUN_ARRAYS}
    arrays |= {name: getattr(fit.units, name) for name in _UNITS}
    arrays |= {"low": fit.limits.low, "high": fit.limits.high}
    arrays |= {"linear": fit.linear.linear, "linear_offset": fit.linear.offset}
    about = {**options, "n_free": fit.n_free, "n_front": fit.n_front, "flat": fit.flat}
    about["starts"] = [dataclasses.asdict(row) for row in fit.starts]
    save_model(fit.step, path, Record.of(arrays).under("run") | Record.of({}, **{_STATE_SPACE: about}))


def load_state_space(path: Path, bases: Sequence[type[AbstractBasis]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the model, and the fields of the record of its fit."""
    step, record, _ = load_with_model(path, bases)
    if _STATE_SPACE not in record:
        raise ModelFileError(
            f"`{path}` must hold a state-space model, written by DecoupledStateSpace.save. It holds a decoupling: read "
            "it with dc.Decoupling.load."
        )
    with described_by(path, "a state-space model"):
        options, run = record[_STATE_SPACE], record.inside("run").arrays
        fields: dict[str, Any] = {name: run[name] for name in _RUN_ARRAYS}
        fields |= {key: options.pop(key) for key in ("n_free", "n_front", "flat")}
        W = [np.zeros_like(step.W[0]), *step.W[1:-1], np.zeros_like(step.W[-1])]
        fields |= {
            "step": step,
            "starts": tuple(StateSpaceStart(**_with_infinities(row)) for row in options.pop("starts")),
            "linear": step.with_parts(W=W, linear=run["linear"], offset=run["linear_offset"]),
            "limits": Range(run["low"], run["high"]),
            "units": SignalUnits(**{name: run[name] for name in _UNITS}, oversample=options["oversample"]),
        }
        return options, fields


def _with_infinities(row: dict[str, Any]) -> dict[str, Any]:
    """A row with infinite errors, which JSON has no word for."""
    return {key: np.inf if value is None else value for key, value in row.items()}
