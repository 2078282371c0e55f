"""The networks that the compression experiments start from: trained once for a seed and kept in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..data import ImageData, fashion_mnist, mnist

_BATCH = 128
_RATE = 1e-3
_CHUNK = 10_000


@dataclass(frozen=True)
class Architecture:
    """A fully connected ReLU network and how long it is trained (Adam at a constant rate, pixels in [0, 1])."""

    dims: tuple[int, ...]
    epochs: int
    load: Callable[[], ImageData]


ARCHITECTURES = {
    "mnist": Architecture((784, 80, 60, 40, 10), 3, mnist),
    "fashion": Architecture((784, 512, 256, 128, 64, 10), 10, fashion_mnist),
}


@dataclass(frozen=True, eq=False)
class Teacher:
    """The part of a trained network behind its first hidden layer, and what that layer makes of the images."""

    part: nn.Sequential
    features: Tensor
    labels: Tensor
    test_features: Tensor
    test_labels: Tensor

    def accuracy(self, part: nn.Module, *, test: bool = True) -> float:
        """Percentage of images that are classified correctly with `part` in the place of the part."""
        Z, y = (self.test_features, self.test_labels) if test else (self.features, self.labels)
        kind = next(part.parameters()).dtype
        with torch.no_grad():
            classes = torch.cat([part(z.to(kind)).argmax(1) for z in torch.split(Z, _CHUNK)])
        return 100.0 * float((classes == y).double().mean())


@cache
def teacher(case: str, folder: str, seed: int, epochs: int | None = None) -> Teacher:
    """Train the network of a case, or read it from `folder`; with `epochs`, one that is trained less."""
    torch.set_num_threads(1)
    architecture = ARCHITECTURES[case]
    data = architecture.load()
    (X, y), (X_test, y_test) = (
        (_pixels(part.images), torch.tensor(np.array(part.labels))) for part in (data.train, data.test)
    )
    short = "" if epochs is None else f"-{epochs}-epochs"
    path = Path(folder) / f"{case}-network-{seed}{short}.pt"
    network = _network(architecture.dims, seed)
    if path.is_file():
        network.load_state_dict(torch.load(path, weights_only=True))
    else:
        _train(network, X, y, epochs or architecture.epochs, seed)
        torch.save(network.state_dict(), path)
    with torch.no_grad():
        features, test_features = (
            torch.cat([network[:2](x) for x in torch.split(images, _CHUNK)]) for images in (X, X_test)
        )
    return Teacher(nn.Sequential(*list(network)[2:]), features, y, test_features, y_test)


def _pixels(images: np.ndarray) -> Tensor:
    return torch.tensor(images.reshape(len(images), -1), dtype=torch.float32) / 255.0


def _network(dims: tuple[int, ...], seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for a, b in pairwise(dims):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def _train(network: nn.Sequential, X: Tensor, y: Tensor, epochs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(X), generator=generator), _BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(X[rows]), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
