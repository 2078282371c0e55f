"""Tables of design engineers with values and Jacobians, as the package `smt` installs them (BSD-3; nothing is copied).

Bouhlel, Hwang, Bartoli, Lafage, Morlier and Martins, "A Python surrogate modeling framework with derivatives",
Advances in Engineering Software (2019).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy import ndarray

from .._support._errors import DataError
from .._support._optional_packages import needed
from ..samples._samples import Samples

_ENGINE, _AIRFOIL = "b777_engine", "airfoil_parameters"
_N_MODES = 14


def b777_engine() -> Samples:
    """The engine of an airliner: 1056 samples of thrust and specific fuel consumption, with Jacobians.

    Inputs are Mach number, altitude and throttle, on a grid of 12 x 11 x 8 points. Extra `smt`.

    Returns
    -------
    Samples
        Points with values and Jacobians, and the names of inputs and outputs.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.data.b777_engine()  # doctest: +SKIP
    Samples(S=1056, m=3, n=2: values and Jacobians)
    """
    X, F, J = (_table(_ENGINE, f"b777_engine_{part}.dat", None) for part in ("inputs", "outputs", "derivs"))
    names = ("Mach", "altitude [km]", "throttle"), ("thrust [N]", "SFC [1/s]")
    return _samples(_ENGINE, X.reshape(-1, 3), F.reshape(-1, 2), J.reshape(-1, 2, 3), *names)


def airfoil() -> Samples:
    """The drag of airfoils in transonic flow: 42 039 samples of the drag coefficient, with gradients.

    Inputs are the amplitudes of 14 mode shapes, Mach number and angle of attack. Extra `smt`.

    Returns
    -------
    Samples
        Points with values and Jacobians, and the names of inputs and outputs.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.data.airfoil()  # doctest: +SKIP
    Samples(S=42039, m=16, n=1: values and Jacobians)
    """
    table, J = _table(_AIRFOIL, "cd_x_y.csv", ";"), _table(_AIRFOIL, "cd_dy.csv", ";")
    inputs = (*(f"mode {i + 1}" for i in range(_N_MODES)), "Mach", "angle of attack [deg]")
    return _samples(_AIRFOIL, table[:, :-1], table[:, -1:], J[:, None, :], inputs, ("drag coefficient",))


def _table(folder: str, file: str, delimiter: str | None) -> ndarray:
    """The numbers of a file that comes with `smt`."""
    smt = needed("smt", "smt", f"`dc.data.{'airfoil' if folder == _AIRFOIL else folder}`")
    path = Path(smt.__file__).parent / "examples" / folder / file
    try:
        return np.loadtxt(path, delimiter=delimiter)
    except (OSError, ValueError) as error:
        raise DataError(
            f"The package smt must hold the table {folder}/{file} among its examples. It cannot be read: {error}. "
            'Install another version: pip install "smt>=2.8".'
        ) from error


def _samples(
    name: str, X: ndarray, F: ndarray, J: ndarray, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> Samples:
    shapes = [array.shape for array in (X, F, J)]
    if shapes != [(len(X), len(inputs)), (len(X), len(outputs)), (len(X), len(outputs), len(inputs))]:
        raise DataError(f"The tables {name} of the package smt must fit each other. Got arrays of shape {shapes}.")
    return Samples(X, F=F, J=J, inputs=inputs, outputs=outputs)
