"""The least-squares engine: what it shows to an observer, and what it keeps when it is stopped."""

import math

import numpy as np
import pytest

from decouply.solvers.least_squares._levenberg_marquardt import Dense, DescentOptions, descend

STARTS = np.array([[-1.2, 1.0], [2.0, -1.0]])


def rosenbrock(theta):
    """The residuals 1 - a and 10 (b - a^2) of every start, with the normal equations of a step."""
    a, b = theta.T
    residual = np.stack([1.0 - a, 10.0 * (b - a**2)], axis=1)
    Z = np.stack([np.stack([np.ones_like(a), 0.0 * a], 1), np.stack([20.0 * a, np.full_like(a, -10.0)], 1)], axis=1)
    return np.sum(residual**2, axis=1), Dense(Z.mT @ Z, np.einsum("bij,bi->bj", Z, residual))


def run(**watched):
    options, plain = DescentOptions(max_steps=200, exact=1e-24), {"deadline": math.inf, "progress": lambda _: None}
    return descend(rosenbrock, lambda theta, step: theta + step, STARTS, options, **plain | watched)


def test_both_starts_find_the_valley_and_its_bottom():
    descent = run()
    best = int(np.argmin(descent.cost))
    assert descent.cost[best] <= 1e-24 and np.allclose(descent.theta[best], 1.0)
    assert descent.record == sorted(descent.record, reverse=True)


def test_an_observer_sees_every_step_and_changes_none():
    seen = []
    watched = run(observe=lambda theta, cost: seen.append((theta.copy(), cost.copy())) or True)
    alone = run()
    assert len(seen) == watched.steps == alone.steps and np.array_equal(watched.theta, alone.theta)
    assert [float(cost.min()) for _, cost in seen] == watched.record[1:]
    for theta, cost in seen:
        assert np.array_equal(rosenbrock(theta)[0], cost)


def test_an_observer_ends_the_descent():
    descent = run(observe=lambda theta, cost: cost.min() > 1.0)
    assert descent.record[-1] <= 1.0 < descent.record[-2] and not descent.interrupted


@pytest.mark.parametrize("after", [1, 7])
def test_ctrl_c_keeps_the_best_and_the_observer_has_seen_it(after):
    seen, reports = [], []

    def press(cost):
        reports.append(cost)
        if len(reports) == after:
            raise KeyboardInterrupt

    descent = run(observe=lambda theta, cost: seen.append(cost) or True, progress=press)
    assert descent.interrupted and descent.steps == after == len(seen)
    assert np.array_equal(descent.cost, seen[-1]) and np.array_equal(rosenbrock(descent.theta)[0], descent.cost)
