"""State-space models as files: the file of one step, with what a free run needs beside it.

`Decoupling.load` reads the same file as the map (x, u) -> (x+, y).
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._support._errors import ModelFileError
from .._support._plain import plain
from ..bases import AbstractBasis
from ..model._decoupling import Decoupling
from ..write._model_file import load_all, save_model
from .signals._record_batch import SignalUnits
from .signals._records import Range
from .state_space._search import StateSpaceStart

_KEY = "state space"
_PREFIX = "run."  # of arrays that are not parts of one step
_ARRAYS = ("x0", "rmse", "linear_rmse", "spread", "points")
_OF_STANDARD = ("u_mean", "u_size", "y_mean", "y_size")


def save_state_space(path: str | os.PathLike[str], fit: Any, options: dict[str, Any]) -> None:
    """Write the record of a fit, with the options of its model."""
    more = {_PREFIX + name: getattr(fit, name) for name in _ARRAYS}
    more |= {_PREFIX + name: getattr(fit.units, name) for name in _OF_STANDARD}
    more |= {_PREFIX + "low": fit.limits.low, _PREFIX + "high": fit.limits.high}
    more |= {_PREFIX + "linear": fit.linear.linear, _PREFIX + "linear_offset": fit.linear.offset}
    about = {
        **options,
        "n_free": fit.n_free,
        "n_front": fit.n_front,
        "flat": fit.flat,
        "starts": [dataclasses.asdict(row) for row in fit.starts],
    }
    save_model(fit.step, path, more=more, about={_KEY: json.dumps(plain(about))})


def load_state_space(
    path: str | os.PathLike[str], bases: Sequence[type[AbstractBasis]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the model, and the fields of the record of its fit."""
    step, arrays, texts = load_all(path, bases)
    if _KEY not in texts:
        raise ModelFileError(
            f"`{path}` must hold a state-space model, written by DecoupledStateSpace.save. It holds a decoupling: read "
            "it with dc.Decoupling.load."
        )
    try:
        about = json.loads(texts[_KEY])
        held = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
        rows = tuple(StateSpaceStart(**_whole(row)) for row in about.pop("starts"))
        fields: dict[str, Any] = {name: held[name] for name in _ARRAYS}
        fields |= {key: about.pop(key) for key in ("n_free", "n_front", "flat")}
        fields |= {
            "step": step,
            "starts": rows,
            "linear": _linear(step, held["linear"], held["linear_offset"]),
            "limits": Range(held["low"], held["high"]),
            "units": SignalUnits(**{name: held[name] for name in _OF_STANDARD}, oversample=about["oversample"]),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"`{path}` must describe a state-space model. Its parts do not fit: {error}") from error
    return about, fields


def _linear(step: Decoupling, linear: np.ndarray, offset: np.ndarray) -> Decoupling:
    W = [np.zeros_like(step.W[0]), *step.W[1:-1], np.zeros_like(step.W[-1])]
    return step.with_parts(W=W, linear=linear, offset=offset)


def _whole(row: dict[str, Any]) -> dict[str, Any]:
    """A row with infinite errors, which JSON has no word for."""
    return row | {key: np.inf for key in ("training", "validation") if row[key] is None}
