"""Polynomial NARX models as files: coefficients of scaled regressors, with lags, ranges and training regressors."""

from __future__ import annotations

import json
import os

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from .._support._errors import ModelFileError
from ..write._arrays_file import load_arrays, save_arrays
from .narx._abstract import Training
from .narx._regressors import Lags
from .signals._records import Range

_KIND, _VERSION = "polynomial NARX", 1
_SHAPE = ("n_u", "n_y", "degree")


def save_polynomial(
    path: str | os.PathLike[str],
    shape: tuple[int, int, int],
    training: Training,
    coefficients: Float[ndarray, "terms n"],
) -> None:
    """Write a fitted polynomial NARX model; its shape is n_u, n_y and the degree."""
    arrays = {
        "coefficients": coefficients,
        "X": training.X,
        "u": np.stack([training.u.low, training.u.high]),
        "y": np.stack([training.y.low, training.y.high]),
    }
    about = dict(zip(_SHAPE, shape, strict=True)) | {"flat": training.flat}
    save_arrays(path, _KIND, _VERSION, arrays, {"about": json.dumps(about)})


def load_polynomial(
    path: str | os.PathLike[str],
) -> tuple[tuple[int, int, int], Training, Float[ndarray, "terms n"]]:
    """The shape, what the model was trained on, and its coefficients."""
    arrays, texts = load_arrays(path, _KIND, "PolynomialNARX.save", (str(_VERSION),))
    try:
        about = json.loads(texts["about"])
        u, y = (Range(*arrays[name]) for name in ("u", "y"))
        n_u, n_y, degree = (int(about[name]) for name in _SHAPE)
        lags = Lags(n_u, n_y, arrays["u"].shape[1], arrays["y"].shape[1])
        training = Training(lags, arrays["X"], u, y, bool(about["flat"]))
        coefficients = arrays["coefficients"]
        if coefficients.shape[1:] != arrays["y"].shape[1:] or arrays["X"].shape[1:] != (lags.n_regressors,):
            raise ValueError("arrays of other sizes than the lags ask for")
        return (n_u, n_y, degree), training, coefficients
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise ModelFileError(f"`{path}` must describe a NARX model. Its parts do not fit together: {error}") from error
