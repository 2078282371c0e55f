"""Networks trained to the end, the part of each that is replaced, and how large what replaces it may be."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from decouply.data import fashion_mnist, mnist
from decouply.nn.compression._score import relative_error
from decouply.nn.training._distillation import divergence
from experiments.networks.baselines import dense

DEGREE = 4
EPOCHS_WITH_LABELS = 5


@dataclass(frozen=True)
class Size:
    """How large a replacement is: functions in one layer, in two, and in few bits (how many, and bits)."""

    rank: int
    two: tuple[int, int]
    inputs: tuple[int, ...]
    packed: tuple[int, int] | None = None


@dataclass(frozen=True)
class Training:
    """How replacements are trained: inputs per step, our rate, and rates of others, the best of which counts."""

    batch_size: int
    rate: float
    rates: tuple[float, ...]


@dataclass(frozen=True)
class Case:
    """A network, where it is cut, the sizes of what replaces the rest, and how that is trained."""

    network: Callable[[], nn.Sequential]
    cut: int
    data: Callable[[], tuple[Tensor, Tensor, Tensor, Tensor]]
    epochs: int
    steps: int
    sizes: tuple[Size, ...]
    training: Training
    in_classes: bool = True


def images(load: Callable[[], Any]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Pixels in [0, 1] and labels, to train with and to test with."""
    found: list[Tensor] = []
    data = load()
    for part in (data.train, data.test):
        pixels = torch.tensor(np.array(part.images).reshape(len(part.images), -1), dtype=torch.float32) / 255.0
        found += [pixels, torch.tensor(np.array(part.labels))]
    return found[0], found[1], found[2], found[3]


def _friedman() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Friedman's function of ten variables, five of which count, with noise; standardised."""
    from decouply._support._optional_packages import needed

    needed("sklearn", "sklearn", "python -m experiments tabular")
    from sklearn.datasets import make_friedman1

    X, y = make_friedman1(30_000, n_features=10, noise=0.5, random_state=0)
    inputs, values = torch.tensor(X, dtype=torch.float32), torch.tensor(y, dtype=torch.float32)[:, None]
    inputs, values = (inputs - 0.5) * 12.0**0.5, (values - values.mean()) / values.std()
    return inputs[:20_000], values[:20_000], inputs[20_000:], values[20_000:]


def _lenet() -> nn.Sequential:
    """LeNet-5, with rectified units and the largest of each four."""
    return nn.Sequential(
        nn.Unflatten(1, (1, 28, 28)),
        nn.Conv2d(1, 6, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(6, 16, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        *dense((400, 120, 84, 10)),
    )


BOTH = (200, 20_000)
SMALL_BATCHES, LARGE_BATCHES = Training(512, 0.02, (1e-2, 3e-2, 8e-2)), Training(2048, 0.03, (3e-2, 8e-2, 2e-1))
CASES = {
    "mnist": Case(
        partial(dense, (784, 80, 60, 40, 10)),
        2,
        partial(images, mnist),
        15,
        3000,
        (Size(10, (9, 8), BOTH, (15, 5)), Size(4, (3, 7), (20_000,))),
        SMALL_BATCHES,
    ),
    "fashion": Case(
        partial(dense, (784, 512, 256, 128, 64, 10)),
        2,
        partial(images, fashion_mnist),
        15,
        2400,
        (Size(12, (11, 26), BOTH, (18, 5)),),
        SMALL_BATCHES,
    ),
    "cnn": Case(
        _lenet, 8, partial(images, fashion_mnist), 15, 2000, (Size(11, (10, 24), BOTH, (17, 5)),), LARGE_BATCHES
    ),
    "tabular": Case(
        partial(dense, (10, 64, 64, 1)),
        0,
        _friedman,
        60,
        2000,
        (Size(14, (8, 9), BOTH, (20, 6)),),
        SMALL_BATCHES,
        in_classes=False,
    ),
}


@dataclass(frozen=True, eq=False)
class Original:
    """The part of a trained network, what it is given, and what it should say in the end."""

    part: nn.Sequential
    features: Tensor
    labels: Tensor
    test_features: Tensor
    test_labels: Tensor
    in_classes: bool = True

    @property
    def ends(self) -> tuple[int, int]:
        """Inputs and outputs of the part."""
        return self.features.shape[1], int(self.part(self.test_features[:1]).shape[1])

    def score(self, part: nn.Module, *, test: bool = True) -> float:
        """Percentage of inputs in the right class, or 100 R^2."""
        X, y = (self.test_features, self.test_labels) if test else (self.features, self.labels)
        values = self.values(X, part)
        if self.in_classes:
            return 100.0 * float((values.argmax(1) == y).double().mean())
        return 100.0 * (1.0 - relative_error(values, y) ** 2)

    def distance(self, part: nn.Module, X: Tensor | None = None) -> float:
        """Divergence of the classes, or squared relative error, from the original's at X, or at the test inputs."""
        points = self.test_features if X is None else X
        values, wanted = self.values(points, part), self.values(points)
        if self.in_classes:
            return float(divergence(values, wanted.log_softmax(1)))
        return relative_error(values, wanted) ** 2

    @torch.no_grad()
    def values(self, X: Tensor, part: nn.Module | None = None) -> Tensor:
        """What the part, or another in its place, gives."""
        own = self.part if part is None else part
        kind = next(own.parameters()).dtype
        return torch.cat([own(x.to(kind)).to(X) for x in torch.split(X, 5000)])


@cache
def original(case: str, folder: str, seed: int, epochs: int | None = None) -> Original:
    """Train the network of a case to the end, its rate falling to 0, or read it from `folder`."""
    torch.set_num_threads(1)
    told = CASES[case]
    X, y, X_test, y_test = told.data()
    count = told.epochs if epochs is None else epochs
    torch.manual_seed(seed)
    network = told.network()
    path = Path(folder) / f"{case}-original-{seed}-{count}-epochs.pt"
    if path.is_file():
        network.load_state_dict(torch.load(path, weights_only=True))
    else:
        train(network, X, y, count, seed, in_classes=told.in_classes)
        torch.save(network.state_dict(), path)
    network.eval()
    with torch.no_grad():
        head = network[: told.cut]
        features, test_features = (torch.cat([head(x) for x in torch.split(some, 5000)]) for some in (X, X_test))
    return Original(nn.Sequential(*list(network)[told.cut :]), features, y, test_features, y_test, told.in_classes)


def train(network: nn.Module, X: Tensor, y: Tensor, epochs: int, seed: int, *, in_classes: bool) -> None:
    """Adam with a rate that falls to 0 along a cosine."""
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3, fused=True)
    steps = epochs * -(-len(X) // 128)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    loss = nn.functional.cross_entropy if in_classes else nn.functional.mse_loss
    network.train()
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(X), generator=generator), 128):
            optimiser.zero_grad()
            loss(network(X[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    network.eval()


def train_with_labels(part: nn.Module, at: Original, seed: int) -> nn.Module:
    """The part after five epochs more, of it alone, with labels."""
    own = copy.deepcopy(part)
    train(own, at.features, at.labels, EPOCHS_WITH_LABELS, seed, in_classes=at.in_classes)
    return own
