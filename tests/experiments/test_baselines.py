"""Others in the place of a part are trained with the care that ours is."""

import pytest

torch = pytest.importorskip("torch")

from decouply.nn import Distil  # noqa: E402
from experiments.networks.baselines import dense, train_with_best_rate, widths  # noqa: E402

torch.manual_seed(0)
PART = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2))


def begin():
    torch.manual_seed(1)
    return dense(widths((4, 2), 60), torch.nn.GELU)


@pytest.fixture
def points():
    return torch.randn(400, 4, generator=torch.Generator().manual_seed(0))


def left(student):
    X = torch.randn(500, 4, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        return float((student(X) - PART(X)).pow(2).mean())


def trained(points, mixup=None, **options):
    with torch.no_grad():
        values = PART(points)
    how = Distil(200, loss="squared", batch_size=64, mixup=mixup)
    return train_with_best_rate(begin, PART, points, values, how, 0, **options)


def test_the_rate_that_is_better_on_inputs_kept_aside_is_taken(points):
    fast, slow, both = (left(trained(points, rates=rates)) for rates in ((1e-2,), (1e-7,), (1e-7, 1e-2)))
    assert both == fast < slow


def test_others_see_recombined_inputs_where_there_are_few(points):
    few = points[:12]
    assert left(trained(few)) < 0.7 * left(trained(few, mixup=0.0))
