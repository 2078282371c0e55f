"""One result of every kind that a page must be able to show, each found in a moment."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

import decouply as dc
from tests.strategies import points, random_model, sampled

QUICK = {"n_starts": 2, "progress": False}
F2 = dc.systems.f2()


@dataclass(frozen=True)
class Bend(dc.bases.AbstractBasis):
    """A basis that has no formula."""

    size: int = 2

    def evaluate(self, u):
        return np.stack([np.tanh(u), u], axis=-1)

    def derivative(self, u):
        return np.stack([1 - np.tanh(u) ** 2, np.ones_like(u)], axis=-1)

    def second_derivative(self, u):
        return np.stack([-2 * np.tanh(u) * (1 - np.tanh(u) ** 2), np.zeros_like(u)], axis=-1)


def one_layer():
    return dc.decouple(sampled(random_model([3, 2, 2], 3)), 2, 3, **QUICK)


def two_layers():
    solver = dc.VarPro(start=F2)
    return dc.decouple(sampled(F2), (2, 2), (3, 3), solver=solver, validation=sampled(F2, 20, seed=3), **QUICK)


def three_layers():
    model = random_model([3, 2, 3, 2, 2], 1, degree=2)
    solver = dc.VarPro(max_steps=5, polish_steps=5)
    return dc.decouple(sampled(model, 60), model.ranks, model.degrees, solver=solver, **QUICK)


def two_stages():
    solver = dc.TwoStage(dc.Constr(stopping=dc.solvers.Stopping(max_steps=8)), max_runs=4)
    return dc.decouple(sampled(F2), (2, 2), (3, 3), solver=solver, rng=np.random.default_rng(4), **QUICK)


def values_only():
    samples = sampled(random_model([2, 2, 2], 5))
    noise = 0.05 * np.random.default_rng(0).normal(size=samples.F.shape)
    return dc.decouple(dc.Samples(samples.X, F=samples.F + noise), 2, 3, **QUICK)


def jacobians_only():
    samples = sampled(random_model([2, 2, 2], 6))
    return dc.decouple(dc.Samples(samples.X, J=samples.J), 2, 3, **QUICK)


def stored_samples():
    stored = dc.Samples.from_batches([sampled(random_model([2, 2, 2], 7))], progress=False)
    return dc.decouple(stored, 2, 3, **QUICK)


def constant_output():
    X = points(2, 30)
    a = X[:, 0] + 2 * X[:, 1]
    F = np.stack([a**2, np.full(30, 5.0), np.zeros(30)], axis=1)
    J = np.zeros((30, 3, 2))
    J[:, 0] = 2 * a[:, None] * np.array([1.0, 2.0])
    return dc.decouple(dc.Samples(X, F=F, J=J), 2, 2, **QUICK)


def constant_input():
    X = np.concatenate([points(2, 30), np.full((30, 1), 4.0)], axis=1)
    return dc.decouple(dc.Samples(X, F=X[:, :1] ** 2 + X[:, 1:2]), 2, 2, **QUICK)


def waves():
    model = dc.Decoupling(
        [np.eye(2), [[1.0, -2.0]]], [dc.Functions(dc.bases.Trigonometric(4), np.arange(10.0).reshape(2, 5))]
    )
    return dc.decouple(
        sampled(model),
        2,
        basis=dc.bases.Trigonometric(4),
        solver=dc.Constr(stopping=dc.solvers.Stopping(max_steps=8)),
        **QUICK,
    )


def own_basis():
    g = dc.Functions(Bend(), [[0.0, 1.0, 0.2], [1.0, 2.0, 0.0]])
    model = dc.Decoupling([[[1.0, 1.0], [0.5, -1.0]], np.eye(2)], [g])
    return dc.decouple(
        sampled(model), 2, basis=Bend(), solver=dc.Constr(stopping=dc.solvers.Stopping(max_steps=8)), **QUICK
    )


def linear_part():
    """A x + b beside two cubics, far from 0, with names that came with the samples."""
    X = points(3, 60) * [1.0, 10.0, 100.0] + [300.0, 0.0, 5.0]
    Z = points(3, 60)
    a, b = Z @ [1.0, 2.0, -1.0], Z @ [0.5, -1.0, 1.0]
    F = np.stack([a**3 + 2 * Z[:, 0] + 5, b**2 - a**3 + Z[:, 1], 3 * Z[:, 2]], axis=1)
    samples = dc.Samples(X, F=F, inputs=["flow", "load", "<i>temp</i>"], outputs=["a", "b", "c"])
    return dc.decouple(samples, 2, 3, linear=True, progress=False)


def with_tails(result, outside):
    """As if functions had been found on about half of the range that the samples visit."""
    g = [
        dc.Functions(f.layer.bases, f.C, np.stack([f.middle - 0.5 * h, f.middle + 0.6 * h], axis=1), outside)
        for f, h in ((f, f.half_width) for f in result.decoupling.g)
    ]
    return replace(result, decoupling=result.decoupling.with_parts(g=g))


def straight_tails():
    return with_tails(linear_part(), "linear")


def constant_tails():
    return with_tails(two_layers(), "constant")


def saturations():
    """tanh with centres and slopes of their own, and constants inside."""
    g = [
        dc.Functions(dc.bases.Tanh(), [[0.0, 1.0], [0.3, -2.0]], domain=[(0.5, 1.5), (-1.0, 0.0)]),
        dc.Functions(dc.bases.Tanh(), [[0.1, 1.0], [0.0, 2.0]], domain=[(-1.0, 0.5), (0.0, 2.0)]),
    ]
    model = dc.Decoupling([[[1.0, 2.0], [0.5, -1.0]], [[1.0, 0.4], [-1.0, 0.2]], np.eye(2)], g)
    return replace(one_layer(), decoupling=model, samples=sampled(model))


def high_degree():
    """Chebyshev polynomials of degree 20, whose powers would lose all digits so far from 0."""
    C = 1.0 / np.arange(1.0, 22.0) ** 2
    g = dc.Functions(dc.Chebyshev(20), [C, C[::-1]], domain=[(300.0, 302.0), (-5.0, 5.0)])
    model = dc.Decoupling([[[1.0, 0.0], [0.0, 5.0]], [[1.0, 2.0]]], [g])
    X = points(2, 40) + np.array([301.0, 0.0])
    return replace(one_layer(), decoupling=model, samples=dc.Samples(X, F=model(X), J=model.jacobian(X)))


def own_basis_with_tails():
    return with_tails(own_basis(), "linear")


def inputs_on_a_line():
    """Inputs that move together in the samples, so that moving one alone leaves what the samples visit."""
    X = points(1, 40) + 0.01 * points(2, 40, seed=1)
    a, b = X[:, 0] + X[:, 1], 100 * (X[:, 0] - X[:, 1])
    return dc.decouple(dc.Samples(X, F=np.stack([a**2, b**2 + b], axis=1)), 2, 2, **QUICK)


def many_inputs():
    model = dc.systems.random_system((512, 12, 10), (4,), rng=2)
    return dc.decouple(sampled(model, 60), 12, 4, solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=3)), **QUICK)


def interrupted():
    def stop(**_):
        raise KeyboardInterrupt

    return dc.decouple(sampled(F2), (2, 2), (2, 2), n_starts=8, progress=stop)  # not exact at once


def f3():
    model = dc.systems.f3()
    return dc.decouple(
        sampled(model, 60),
        model.ranks,
        model.degrees,
        solver=dc.Proj(stopping=dc.solvers.Stopping(max_steps=5)),
        **QUICK,
    )


MAKERS = {
    maker.__name__: cache(maker)
    for maker in (
        one_layer,
        two_layers,
        three_layers,
        two_stages,
        values_only,
        jacobians_only,
        stored_samples,
        constant_output,
        constant_input,
        waves,
        own_basis,
        linear_part,
        straight_tails,
        constant_tails,
        saturations,
        high_degree,
        own_basis_with_tails,
        inputs_on_a_line,
        many_inputs,
        interrupted,
        f3,
    )
}
