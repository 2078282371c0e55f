"""Curves of internal functions: where they are drawn, and what lies beyond the domain."""

import numpy as np
import pytest

import decouply as dc
from decouply.write._curves import Curve, curves
from tests.write.models import points, random_model


def test_curves_run_over_the_range_that_the_points_visit():
    model = random_model([(dc.Monomial(3), dc.bases.Tanh()), (dc.Chebyshev(2),)], "linear")
    for layer, g, u in zip(curves(model, points()), model.g, model.inner_inputs(points()), strict=True):
        for j, curve in enumerate(layer):
            assert (curve.u[0], curve.u[-1]) == (u[:, j].min(), u[:, j].max())
            assert np.array_equal(curve.values, g(np.repeat(curve.u[:, None], g.rank, axis=1))[:, j])
            assert curve.domain == tuple(g.domain[j])


def test_curves_run_over_the_domains_without_points():
    model = random_model([(dc.Monomial(3), dc.bases.Tanh())], "constant")
    for j, curve in enumerate(curves(model)[0]):
        assert (curve.u[0], curve.u[-1]) == pytest.approx(tuple(model.g[0].domain[j]), rel=1e-14)
        assert curve.parts.beyond == () == curve.parts.ends


def test_one_point_gives_a_range_to_draw():
    (curve,) = curves(random_model([(dc.Monomial(2),)]), points(1))[0]
    assert curve.u[-1] - curve.u[0] >= 1.0


@pytest.mark.parametrize(
    ("domain", "inside", "beyond", "ends"),
    [
        ((-1.0, 2.0), [(-1.0, 2.0)], [(-3.0, -1.0), (2.0, 4.0)], (-1.0, 2.0)),
        ((-1.0, 9.0), [(-1.0, 4.0)], [(-3.0, -1.0)], (-1.0,)),
        ((-3.0, 4.0), [(-3.0, 4.0)], [], ()),
        ((-3.0 + 1e-9, 4.0 - 1e-9), [(-3.0, 4.0)], [], ()),
        ((5.0, 6.0), [], [(-3.0, 4.0)], ()),
        (None, [(-3.0, 4.0)], [], ()),
    ],
)
def test_a_curve_is_cut_at_the_ends_of_the_domain(domain, inside, beyond, ends):
    u = np.linspace(-3.0, 4.0, 30)
    parts = Curve(u, 2.0 * u, None, domain).parts
    assert [(p[0][0], p[0][-1]) for p in parts.inside] == inside
    assert [(p[0][0], p[0][-1]) for p in parts.beyond] == beyond and parts.ends == ends
    for at, values in (*parts.inside, *parts.beyond):
        assert np.allclose(values, 2.0 * at) and np.all(np.diff(at) > 0.0)


def test_domains_that_say_nothing_are_not_marked():
    def domains(basis, domain, outside):
        g = dc.Functions(basis, np.ones((1, 1 + basis.size)), domain, outside)
        return curves(dc.Decoupling([[[1.0]], [[1.0]]], [g]))[0][0].domain

    assert domains(dc.Monomial(2), (-1.0, 1.0), "extend") is None  # nobody gave one
    assert domains(dc.Monomial(2), (-1.0, 1.0), "linear") == (-1.0, 1.0)
    assert domains(dc.Monomial(2), (0.0, 1.0), "extend") == (0.0, 1.0)
    assert domains(dc.bases.Tanh(), (0.0, 1.0), "extend") is None  # slope and centre, no range
