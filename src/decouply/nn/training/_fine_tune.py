"""Training with labels: the cross-entropy of the whole network, with the new layer in it."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._arguments import as_count, as_number
from ..._support._errors import DecouplingWarning, InputError
from ..._support._interrupts import INTERRUPTED
from ..._support._progress import progress_callback
from ..carving._carve import outputs_of
from ..carving._data_split import as_labels, as_network_inputs
from ..carving._jacobian_sampling import chunks
from ._distillation import set_rate

_MAX_COMPARED = 8192  # inputs on which a network that was interrupted is compared with what it was before


@dataclass(frozen=True, eq=False)
class FineTune:
    """Training of the new layer with labels, by the cross-entropy, after everything else.

    Parameters
    ----------
    inputs, labels
        Inputs of the network and their classes, (N, ...) and (N,).
    max_steps, batch_size, rate
        Steps of Adam, inputs per step, and its largest rate, which falls to 0.
    whole
        Whether the rest of the network is trained as well, as far as its parameters ask for gradients.
    """

    inputs: Any
    labels: Any
    max_steps: int = 1000
    batch_size: int = 256
    rate: float = 3e-3
    whole: bool = False

    def __post_init__(self) -> None:
        as_count("max_steps", self.max_steps)
        as_count("batch_size", self.batch_size)
        as_number("rate", self.rate, above=True)
        inputs, labels = (len(x) if hasattr(x, "__len__") else 0 for x in (self.inputs, self.labels))
        if inputs != labels or labels == 0:
            raise InputError(f"`inputs` and `labels` must have the same length, above 0. Got {inputs} and {labels}.")


def train_with_labels(
    network: nn.Module,
    layers: Sequence[nn.Module],
    options: FineTune,
    rng: np.random.Generator,
    dtype: torch.dtype,
    device: torch.device,
    progress: bool | Callable[..., None],
) -> None:
    """Cross-entropy on labelled inputs; the network is changed in place.

    Ctrl-C ends the training; the network then keeps what it has learned if that is better than what it was.
    """
    X, y = labelled_inputs(options, network, dtype, device)
    new = {p for layer in layers for p in layer.parameters()}
    trained = [p for p in network.parameters() if p in new or (options.whole and p.requires_grad)]
    initial = [p.detach().clone() for p in trained]
    steps = options.max_steps
    optimiser = torch.optim.Adam(trained, lr=options.rate)
    orders = (torch.as_tensor(rng.permutation(len(X))) for _ in itertools.count())
    passes = (order[rows] for order in orders for rows in chunks(len(X), options.batch_size))
    with train_only(network, trained), progress_callback(progress, "Fine-tuning") as report:
        for done, index in enumerate(itertools.islice(passes, steps), 1):
            set_rate(optimiser, (done - 0.5) / steps)
            optimiser.zero_grad()
            loss = _cross_entropy(network, X[index].to(device), y[index].to(device))
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            try:
                report(done=done, total=steps, objective=float(loss.detach()))
            except KeyboardInterrupt:
                warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=2)
                _keep_better(network, trained, initial, X[:_MAX_COMPARED].to(device), y[:_MAX_COMPARED].to(device))
                break
    optimiser.zero_grad()


@contextmanager
def train_only(network: nn.Module, trained: Iterable[nn.Parameter]) -> Iterator[None]:
    """Ask for gradients of these parameters of a network alone, as long as the context lasts."""
    asked = {p: p.requires_grad for p in network.parameters()}
    for p in asked:
        p.requires_grad_(False)
    for p in trained:
        p.requires_grad_(True)
    try:
        yield
    finally:
        for p, wanted in asked.items():
            p.requires_grad_(wanted)


def labelled_inputs(
    options: FineTune, network: nn.Module, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Inputs and labels to train with, if they are what the network takes and tells apart."""
    X = as_network_inputs("inputs", options.inputs)
    X = X.to(dtype) if X.is_floating_point() else X
    y = torch.as_tensor(as_labels(options.labels, len(X)))
    output = outputs_of(network, X[:2].to(device), "inputs")
    if not isinstance(output, Tensor) or output.ndim != 2 or output.shape[1] < 2:
        got = f"shape {tuple(output.shape)}" if isinstance(output, Tensor) else type(output).__name__
        raise InputError(
            f"`fine_tune` must be given with a network that returns scores (S, n) of n > 1 classes. It returns {got}."
        )
    low, high, most = int(y.min()), int(y.max()), output.shape[1] - 1
    if low < 0 or high > most:
        raise InputError(f"`labels` must be classes 0, ..., {most} of the network. Got {low} to {high}.")
    return X, y


@torch.no_grad()
def _keep_better(network: nn.Module, trained: list[nn.Parameter], initial: list[Tensor], X: Tensor, y: Tensor) -> None:
    """Leave the trained parameters as they are, or as they were at the beginning if the network was better then."""
    reached = [p.clone() for p in trained]
    after = float(_cross_entropy(network, X, y))
    for p, value in zip(trained, initial, strict=True):
        p.copy_(value)
    if after <= float(_cross_entropy(network, X, y)):
        for p, value in zip(trained, reached, strict=True):
            p.copy_(value)


def _cross_entropy(network: nn.Module, X: Tensor, y: Tensor) -> Tensor:
    return nn.functional.nll_loss(log_probabilities(network(X)), y)


def log_probabilities(output: Tensor) -> Tensor:
    """Logarithms of what a network gives the classes, whether it returns scores or, after a softmax, probabilities."""
    with torch.no_grad():
        done = bool((output >= 0.0).all()) and bool(((output.sum(1) - 1.0).abs() < 1e-3).all())
    return output.clamp_min(torch.finfo(output.dtype).tiny).log() if done else output.log_softmax(1)
