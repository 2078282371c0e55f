"""Others in the place of a part are trained with the care that ours is."""

import pytest

torch = pytest.importorskip("torch")

from experiments.networks import other_methods  # noqa: E402
from experiments.networks.other_methods import train_students  # noqa: E402
from experiments.networks.trained_networks import Original, Size, TrainingRates  # noqa: E402

torch.manual_seed(0)
PART = torch.nn.Sequential(torch.nn.Linear(4, 12), torch.nn.Tanh(), torch.nn.Linear(12, 2))


@pytest.fixture
def points():
    return torch.randn(400, 4, generator=torch.Generator().manual_seed(0))


def left(points, rates=(1e-2,)):
    """The error of a trained student at other points."""
    with torch.no_grad():
        at = Original(PART, points, PART(points), points, PART(points), in_classes=False)
    ((student, _),) = train_students(
        "GELU, one hidden layer", at, [points], Size(6), TrainingRates(64, 0.0, rates), 200, 0
    )
    X = torch.randn(500, 4, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        return float((student(X) - PART(X)).pow(2).mean())


def test_the_rate_that_is_better_on_inputs_kept_aside_is_taken(points):
    slow, both = left(points, (1e-7, 1e-7)), left(points, (1e-7, 1e-2))
    assert both < 0.1 * slow


def test_others_see_recombined_inputs_where_there_are_few(points, monkeypatch):
    few = points[:12]
    mixed = left(few)
    again = lambda X, count, generator: X[torch.randint(len(X), (count,), generator=generator)]  # noqa: E731
    monkeypatch.setattr(other_methods, "mixup_inputs", again)
    assert mixed < 0.7 * left(few)
