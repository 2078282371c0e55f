"""Tables that come with the package smt."""

import sys

import numpy as np
import pytest

import decouply as dc
from decouply._support._errors import DataError


def test_the_engine_has_its_names_and_its_jacobians_fit_its_values():
    pytest.importorskip("smt")
    engine = dc.data.b777_engine()
    assert repr(engine) == "Samples(S=1056, m=3, n=2: values and Jacobians)"
    assert engine.inputs == ("Mach", "altitude [km]", "throttle") and engine.outputs == ("thrust [N]", "SFC [1/s]")
    # Along the throttle, the last axis of the grid, means of slopes are those of secants.
    X, F, J = (a.reshape(12, 11, 8, *a.shape[1:]) for a in (engine.X, engine.F, engine.J))
    secants = np.diff(F[..., 0], axis=2) / np.diff(X[..., 2], axis=2)
    means = (J[:, :, 1:, 0, 2] + J[:, :, :-1, 0, 2]) / 2
    assert np.median(np.abs(secants / means - 1)) < 0.01


@pytest.mark.slow
def test_the_airfoil_has_gradients():
    pytest.importorskip("smt")
    drag = dc.data.airfoil()
    assert drag.X.shape == (42039, 16) and drag.J.shape == (42039, 1, 16)
    assert drag.inputs[-1] == "angle of attack [deg]"
    # Between near points values change as gradients say.
    order = np.lexsort(drag.X.T[::-1])[:200]
    step = np.diff(drag.X[order], axis=0)
    said = np.einsum("sm,sm->s", step, (drag.J[order, 0][1:] + drag.J[order, 0][:-1]) / 2)
    assert np.corrcoef(said, np.diff(drag.F[order, 0]))[0, 1] > 0.9


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "smt", None)
    with pytest.raises(dc.MissingExtraError, match=r'`dc.data.b777_engine` needs the package smt: pip install "smt'):
        dc.data.b777_engine()


def test_a_version_without_the_tables_is_said(monkeypatch, tmp_path):
    package = type(sys)("smt")
    package.__file__ = str(tmp_path / "__init__.py")
    monkeypatch.setitem(sys.modules, "smt", package)
    with pytest.raises(DataError, match="must hold the table airfoil"):
        dc.data.airfoil()
    folder = tmp_path / "examples" / "airfoil_parameters"
    folder.mkdir(parents=True)
    for file in ("cd_x_y.csv", "cd_dy.csv"):
        np.savetxt(folder / file, np.ones((3, 4)), delimiter=";")
    with pytest.raises(DataError, match="must fit each other"):
        dc.data.airfoil()
