"""Small systems whose records the tests are made of."""

import numpy as np


def duffing(n=1200, seed=0, amplitude=1.0):
    """A cubic oscillator: second order, one input, one output."""
    rng = np.random.default_rng(seed)
    u = amplitude * rng.uniform(-1, 1, n)
    y = np.zeros(n)
    for t in range(2, n):
        y[t] = 1.2 * y[t - 1] - 0.5 * y[t - 2] + 0.3 * u[t - 1] - 0.1 * y[t - 1] ** 3
    return u, y


def coupled(n=800, seed=0):
    """Two inputs, two outputs, with an offset far from 0."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(-1, 1, (n, 2)) + np.array([5.0, 0.0])
    y = np.full((n, 2), 3.0)
    for t in range(1, n):
        a, b = y[t - 1] - 3.0
        y[t, 0] = 3.0 + 0.6 * a - 0.2 * b**2 + 0.3 * (u[t, 0] - 5.0)
        y[t, 1] = 3.0 + 0.5 * b + 0.1 * a * b + 0.2 * u[t - 1, 1]
    return u, y


def noisy(seed, n=1500):
    """The oscillator, its output measured with noise."""
    u, y = duffing(n=n, seed=seed)
    return u, y + 0.05 * np.random.default_rng(seed + 100).normal(size=n)
