import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc


def test_errors_follow_the_definitions_of_the_paper():
    rng = np.random.default_rng(0)
    J, J_hat = rng.normal(size=(2, 4, 2, 3))
    F, F_hat = rng.normal(size=(2, 4, 2))
    assert dc.error_jacobian(J, J_hat) == pytest.approx(((J - J_hat) ** 2).sum() / (J**2).sum())
    assert dc.error_values(F, F_hat) == pytest.approx(((F - F_hat) ** 2).sum() / (F**2).sum())
    for i in range(2):
        e = 100 * np.sqrt(((F - F_hat)[:, i] ** 2).sum() / ((F[:, i] - F[:, i].mean()) ** 2).sum())
        assert dc.relative_rmse(F, F_hat)[i] == pytest.approx(e)


def test_a_constant_output_is_compared_with_its_size():
    F = np.ones((3, 1))
    assert_allclose(dc.relative_rmse(F, F), 0.0)
    assert_allclose(dc.relative_rmse(F, F + 0.5), 50.0)  # of its size
    assert_allclose(dc.relative_rmse(0 * F, 0 * F + 0.5), 50.0)  # of 1
    far = 1e6 + 0.1 * F  # whose mean is not what it consists of
    assert_allclose(dc.relative_rmse(far, far + 1.0), 1e-4, rtol=1e-6)
    assert dc.error_values(0 * F, 0 * F) == 0.0


def test_shapes_must_agree():
    with pytest.raises(dc.InputError, match="same shape"):
        dc.relative_rmse(np.ones((3, 1)), np.ones((3, 2)))


@pytest.mark.parametrize("size", [1e-320, 1e-200, 1.0, 1e200, 1e308])
def test_errors_do_not_depend_on_the_size_of_the_numbers(size):
    F = np.array([[1.0, -0.5], [0.25, 0.75], [0.5, 0.5]])
    F_hat = F + 0.125
    expected = dc.error_values(F, F_hat), dc.relative_rmse(F, F_hat)
    small = 1e-2 if size < 1e-300 else 1e-12  # few digits are left there
    assert_allclose(dc.error_values(size * F, size * F_hat), expected[0], rtol=small)
    assert_allclose(dc.error_jacobian(size * F[None], size * F_hat[None]), expected[0], rtol=small)
    assert_allclose(dc.relative_rmse(size * F, size * F_hat), expected[1], rtol=small)


def test_an_error_beyond_floats_is_told():
    with pytest.warns(dc.DecouplingWarning, match="too large for a float"):
        assert np.isinf(dc.error_values([[1e-300]], [[1e300]]))


def test_the_error_of_zeros_is_a_mean_square():
    zeros = np.zeros((4, 2, 3))
    assert dc.error_jacobian(zeros, zeros) == 0.0
    assert_allclose(dc.error_jacobian(zeros, zeros + 0.1), 0.01)
