"""The linear model that NARX models are compared with."""

import numpy as np
from numpy.testing import assert_allclose

from decouply.sysid.narx._narx import Lags, free_run, linear_model, step_of
from decouply.sysid.signals._records import Range, Signals


def test_a_linear_system_with_an_offset_is_found_and_run():
    rng = np.random.default_rng(0)
    u, y = 5.0 + rng.standard_normal((200, 1)), np.zeros((200, 1))
    for t in range(2, 200):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.3 * u[t - 1] + 2.0
    lags = Lags(n_u=1, n_y=2, n_inputs=1, n_outputs=1)
    model = linear_model(lags, Signals((u,), (y,)))
    assert_allclose(model.linear, [[0.0, 0.3, 1.2, -0.5]], atol=1e-9)
    assert_allclose(model.offset, [2.0], atol=1e-8)
    limits = Range(np.array([-100.0]), np.array([100.0]))
    assert_allclose(free_run(step_of(model), lags, u, y[:5], limits)[0], y, atol=1e-6)
