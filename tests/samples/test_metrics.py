import numpy as np
import pytest
from numpy.testing import assert_allclose

import decoupling as dc


def test_errors_follow_the_definitions_of_the_paper():
    rng = np.random.default_rng(0)
    J, J_hat = rng.normal(size=(2, 4, 2, 3))
    F, F_hat = rng.normal(size=(2, 4, 2))
    assert dc.error_jacobian(J, J_hat) == pytest.approx(((J - J_hat) ** 2).sum() / (J**2).sum())
    assert dc.error_values(F, F_hat) == pytest.approx(((F - F_hat) ** 2).sum() / (F**2).sum())
    for i in range(2):
        e = 100 * np.sqrt(((F - F_hat)[:, i] ** 2).sum() / ((F[:, i] - F[:, i].mean()) ** 2).sum())
        assert dc.relative_rmse(F, F_hat)[i] == pytest.approx(e)


def test_a_constant_output_is_either_met_or_missed():
    F = np.ones((3, 1))
    assert_allclose(dc.relative_rmse(F, F), 0.0)
    assert np.isinf(dc.relative_rmse(F, F + 1)[0])
    assert dc.error_values(0 * F, 0 * F) == 0.0


def test_shapes_must_agree():
    with pytest.raises(dc.InputError, match="same shape"):
        dc.relative_rmse(np.ones((3, 1)), np.ones((3, 2)))
