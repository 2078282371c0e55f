"""The networks that the compression experiments start from: trained once for a seed and kept in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor, nn

from decouply.data import ImageData, fashion_mnist, mnist
from experiments.networks.baselines import dense
from experiments.networks.trained_networks import Original, images

_BATCH = 128
_RATE = 1e-3
_CHUNK = 10_000


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
    if path.is_file():
        network.load_state_dict(torch.load(path, weights_only=True))
    else:
        _train(network, architecture.output, X, y, epochs or architecture.epochs, seed)
        torch.save(network.state_dict(), path)
    first, part = nn.Sequential(*list(network)[:2]), nn.Sequential(*list(network)[2:])
    with torch.no_grad():
        features, test_features = (torch.cat([first(x) for x in torch.split(some, _CHUNK)]) for some in (X, X_test))
    return Original(part, features, y, test_features, y_test)


def _train(network: nn.Sequential, output: Output, X: Tensor, y: Tensor, epochs: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    for _ in range(epochs):
        for rows in torch.split(torch.randperm(len(X), generator=generator), _BATCH):
            optimiser.zero_grad()
            output.loss(output.activation(network(X[rows])), y[rows]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
