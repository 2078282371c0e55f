"""Volterra kernels as samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import decouply as dc


def kernels_of(model):
    """Kernels of a single-layer polynomial system: sums of c_d W_1[:, j] times powers of a row of W_0."""
    C, (W0, W1) = model.g[0].C, model.W
    kernels = [W1 @ C[:, 0]]
    for order in range(1, C.shape[1]):
        terms = []
        for j, row in enumerate(W0):
            power = np.ones(())
            for _ in range(order):
                power = np.multiply.outer(power, row)
            terms.append(np.multiply.outer(W1[:, j] * C[j, order], power))
        kernels.append(sum(terms))
    return kernels


def test_samples_of_kernels_are_those_of_the_system_behind_them():
    system = dc.systems.random_system((4, 3, 2), (3,), rng=3)
    X = np.random.default_rng(0).normal(size=(25, 4))
    samples = dc.Samples.from_volterra(kernels_of(system), X)
    assert_allclose(samples.F, system(X), rtol=1e-10, atol=1e-10)
    assert_allclose(samples.J, system.jacobian(X), rtol=1e-10, atol=1e-10)


def test_parallel_wiener_branches_come_back_from_kernels():
    system = dc.systems.random_system((5, 3, 2), (3,), rng=1)
    X = np.random.default_rng(0).uniform(-1, 1, (60, 5))
    result = dc.decouple(dc.Samples.from_volterra(kernels_of(system), X), 3, 3, progress=False)
    assert dc.factor_match(result.decoupling, system) > 1 - 1e-10


def test_kernels_need_not_be_symmetric_nor_have_an_axis_for_one_output():
    h = np.zeros((2, 2))
    h[0, 1] = 3.0  # 3 x_1 x_2
    samples = dc.Samples.from_volterra([1.0, np.array([0.0, 2.0]), h], [[2.0, 5.0], [1.0, 1.0]])
    assert_allclose(samples.F, [[1 + 10 + 30], [1 + 2 + 3]])
    assert_allclose(samples.J, [[[15, 2 + 6]], [[3, 2 + 3]]])


@pytest.mark.parametrize(
    ("kernels", "message"),
    [
        ([1.0], "`kernels` must be a list"),
        ([0.0, np.ones(3)], r"`kernels\[1\]` must have shape \(1, 2\)"),
        ([0.0, np.ones(2), np.ones((2, 3))], r"`kernels\[2\]` must have shape \(1, 2, 2\)"),
    ],
)
def test_wrong_kernels_are_refused(kernels, message):
    with pytest.raises(dc.InputError, match=message):
        dc.Samples.from_volterra(kernels, np.ones((4, 2)))


def test_filters_behind_the_functions_give_toeplitz_rows():
    front, back = [[0.2, 1.0, 0.6], [1.0, -0.7, 0.3]], [[1.0, 0.5, 0.2], [0.4, -0.8, 0.3]]
    shifted = [[np.pad(h, (k, 2 - k)) for k in range(3)] for h in front]
    cube = sum(
        back[b][k] * np.multiply.outer(np.outer(h, h), h) / (1 + b) for b in range(2) for k, h in enumerate(shifted[b])
    )
    square = sum(back[1][k] * np.outer(h, h) for k, h in enumerate(shifted[1]))
    samples = dc.Samples.from_volterra([0.0, np.zeros(5), square, cube], np.random.default_rng(0).normal(size=(120, 5)))
    result = dc.decouple(samples, 6, 3, linear=True, progress=False)
    assert result.identifiability.locally_unique
    W0 = result.decoupling.W[0]
    found = W0 / np.linalg.norm(W0, axis=1, keepdims=True)
    wanted = np.concatenate(shifted) / np.linalg.norm(np.concatenate(shifted), axis=1, keepdims=True)
    assert_allclose(np.sort(np.abs(wanted @ found.T).max(axis=1)), 1.0, atol=1e-9)
