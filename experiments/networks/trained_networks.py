"""Networks, the part of each that is replaced, and how large what replaces it may be.

`original` are networks trained to the end, `teacher` those of the paper. Each is trained once for a seed and kept in a
file.
"""

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

from decouply.data import ImageData, fashion_mnist, mnist
from decouply.nn.compression._evaluation import relative_error
from decouply.nn.training._distillation import divergence
from experiments.networks.baselines import dense

DEGREE = 4
EPOCHS_WITH_LABELS = 5
BATCH = 128


@dataclass(frozen=True)
class Size:
    """How large a replacement is: functions in one layer, in two, and in few bits (how many, and bits)."""

    rank: int
    two: tuple[int, int] = (0, 0)
    inputs: tuple[int, ...] = ()
    packed: tuple[int, int] | None = None


@dataclass(frozen=True)
class TrainingRates:
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
    training: TrainingRates
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
SMALL_BATCHES, LARGE_BATCHES = (
    TrainingRates(512, 0.02, (1e-2, 3e-2, 8e-2)),
    TrainingRates(2048, 0.03, (3e-2, 8e-2, 2e-1)),
)
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

    part: Any  # a module
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
    load_or_train(network, path, lambda: train_to_the_end(network, X, y, count, seed, in_classes=told.in_classes))
    return _behind(network, told.cut, X, y, X_test, y_test, in_classes=told.in_classes)


@torch.no_grad()
def _behind(
    network: nn.Sequential, cut: int, X: Tensor, y: Tensor, X_test: Tensor, y_test: Tensor, *, in_classes: bool = True
) -> Original:
    """The part of a network behind its first modules, with what it is given."""
    head, part = nn.Sequential(*list(network)[:cut]), nn.Sequential(*list(network)[cut:])
    features, test_features = (torch.cat([head(x) for x in torch.split(some, 5000)]) for some in (X, X_test))
    return Original(part, features, y, test_features, y_test, in_classes)


def load_or_train(network: nn.Module, path: Path, train: Callable[[], None]) -> None:
    """Read the weights of a network from a file, or train it and write them."""
    if path.is_file():
        network.load_state_dict(torch.load(path, weights_only=True))
    else:
        train()
        torch.save(network.state_dict(), path)
    network.eval()


def train(
    network: nn.Module,
    X: Tensor,
    y: Tensor,
    epochs: int,
    seed: int,
    loss: Callable[[Tensor, Tensor], Tensor],
    optimiser: torch.optim.Optimizer,
    schedule: Any = None,
) -> None:
    """Train a network in batches that are drawn anew in every epoch."""
    generator = torch.Generator().manual_seed(seed)
    network.train()
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(X), generator=generator), BATCH):
            optimiser.zero_grad()
            loss(network(X[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            if schedule is not None:
                schedule.step()
    network.eval()


def train_to_the_end(network: nn.Module, X: Tensor, y: Tensor, epochs: int, seed: int, *, in_classes: bool) -> None:
    """Adam with a rate that falls to 0 along a cosine."""
    optimiser = torch.optim.Adam(network.parameters(), lr=2e-3, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * -(-len(X) // BATCH))
    loss = nn.functional.cross_entropy if in_classes else nn.functional.mse_loss
    train(network, X, y, epochs, seed, loss, optimiser, schedule)


def train_with_labels(part: nn.Module, at: Original, seed: int) -> nn.Module:
    """The part after five epochs more, of it alone, with labels."""
    own = copy.deepcopy(part)
    train_to_the_end(own, at.features, at.labels, EPOCHS_WITH_LABELS, seed, in_classes=at.in_classes)
    return own


# Networks as in the paper


@dataclass(frozen=True)
class Output:
    """What a network ends in, and the loss that it is trained with: the likelihood of that output."""

    name: str
    activation: Callable[[Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]  # of what the activation gives, and labels


def _sigmoid_loss(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Ten questions with yes or no, as a sigmoid answers them."""
    wanted = nn.functional.one_hot(labels, probabilities.shape[1]).to(probabilities.dtype)
    return nn.functional.binary_cross_entropy(probabilities, wanted)


SIGMOID = Output("sigmoid", torch.sigmoid, _sigmoid_loss)
LOG_SOFTMAX = Output("log-softmax", partial(torch.log_softmax, dim=1), nn.functional.nll_loss)


@dataclass(frozen=True)
class Architecture:
    """A fully connected ReLU network and how long it is trained (Adam at a constant rate, pixels in [0, 1]).

    The paper does not name its loss: ours goes through what its network ends in.
    """

    dims: tuple[int, ...]
    output: Output
    epochs: int
    load: Callable[[], ImageData]


ARCHITECTURES = {
    "mnist": Architecture((784, 80, 60, 40, 10), SIGMOID, 3, mnist),
    "fashion": Architecture((784, 512, 256, 128, 64, 10), LOG_SOFTMAX, 10, fashion_mnist),
}


class WithOutput(nn.Module):
    """A part together with what the network ends in."""

    def __init__(self, part: nn.Module, output: Output) -> None:
        super().__init__()
        self.part = part
        self._activation = output.activation

    def forward(self, x: Tensor) -> Tensor:
        return self._activation(self.part(x))


@cache
def teacher(case: str, folder: str, seed: int, epochs: int | None = None) -> Original:
    """Train the network of a case, or read it from `folder`; with `epochs`, one that is trained less.

    Its part is everything behind the first hidden layer, before the activation of the output, which does not change the
    class that is largest.
    """
    torch.set_num_threads(1)
    architecture = ARCHITECTURES[case]
    X, y, X_test, y_test = images(architecture.load)
    short = "" if epochs is None else f"-{epochs}-epochs"
    path = Path(folder) / f"{case}-network-{seed}{short}.pt"
    torch.manual_seed(seed)
    network = dense(architecture.dims)
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    output = architecture.output

    def loss(scores: Tensor, labels: Tensor) -> Tensor:
        return output.loss(output.activation(scores), labels)

    count = epochs or architecture.epochs
    load_or_train(network, path, lambda: train(network, X, y, count, seed, loss, optimiser))
    return _behind(network, 2, X, y, X_test, y_test)
