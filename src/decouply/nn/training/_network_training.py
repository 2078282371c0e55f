"""Training of a network with new layers in it: all layers together without labels, or with labels.

Without labels, layers are trained until the network gives what it gave before they were put in; with labels, by the
cross-entropy.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._arguments import as_count, as_number
from ..._support._errors import InputError
from ..carving._carve import outputs_of
from ..carving._data_split import as_labels, as_network_inputs
from ..carving._jacobian_sampling import chunks
from ..layer._decoupled_layer import DecoupledLayer
from ._distillation import Clock, Distil, Loss, take_steps

SHORT = Distil(max_steps=1000, rate=3e-3, batch_size=128)  # of all layers together, if nothing else is asked for
_MAX_COMPARED_JOINTLY = 1024  # inputs on which the outcome of a joint training is compared with its beginning
_MAX_COMPARED = 8192  # inputs on which a network that was interrupted is compared with what it was before
_MAX_RANGE_VECTORS = 8192  # from which the domains are taken at the end
_BATCH = 256  # inputs of the network at a time


def distil_jointly(
    network: nn.Module,
    layers: Sequence[nn.Module],
    data: Tensor,
    wanted: Tensor,
    how: Distil,
    rng: np.random.Generator,
    progress: bool | Callable[..., None],
) -> None:
    """Train the layers in place until the network returns, for `data`, what is `wanted`; keep what is better."""
    distance = _distance(how.loss or "squared", wanted)
    trained = [p for layer in layers for p in layer.parameters()]
    initial = [p.detach().clone() for p in trained]
    generator = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
    optimiser = torch.optim.Adam(trained, lr=how.rate)
    compared = torch.randperm(len(data), generator=generator)[:_MAX_COMPARED_JOINTLY]

    @torch.no_grad()
    def distance_now() -> float:
        outputs = [outputs_of(network, data[compared[rows]]) for rows in chunks(len(compared), _BATCH)]
        return float(distance(torch.cat(outputs), wanted[compared].to(data.device)))

    def loss(_: int) -> Tensor:
        rows = torch.randint(len(data), (how.batch_size,), generator=generator)
        return distance(network(data[rows].clone()), wanted[rows].to(data.device))

    before = distance_now()
    with train_only(network, trained):
        take_steps(optimiser, loss, Clock(how.max_steps, how.max_seconds), "Distilling", progress)
    optimiser.zero_grad()
    reached = distance_now()
    if not reached <= before:
        _exchange(trained, initial)
        reached = before
    # Domains become what the layers are given now, unless that is worse: formulas that continue into a new domain are
    # not the tangents that were trained.
    states = [copy.deepcopy(layer.state_dict()) for layer in layers]
    _move_domains(network, layers, data)
    if not distance_now() <= reached:
        for layer, state in zip(layers, states, strict=True):
            layer.load_state_dict(state)


def _distance(loss: Loss, wanted: Tensor) -> Callable[[Any, Tensor], Tensor]:
    if loss == "kl":

        def divergence_of_classes(output: Any, truth: Tensor) -> Tensor:
            own, wanted_classes = (log_probabilities(in_rows(values)) for values in (output, truth))
            return nn.functional.kl_div(own, wanted_classes, log_target=True, reduction="batchmean")

        return divergence_of_classes
    spread = wanted.double().std(dim=0).clamp_min(1e-12)

    def squared_error(output: Any, truth: Tensor) -> Tensor:
        return ((output - truth) / spread.to(truth)).pow(2).mean()

    return squared_error


@torch.no_grad()
def _move_domains(network: nn.Module, layers: Sequence[nn.Module], data: Tensor) -> None:
    """Move the domains of the layers to what they are given now."""
    for layer in (layer for layer in layers if isinstance(layer, DecoupledLayer)):
        with layer.record_inputs() as seen:
            for rows in chunks(len(data), _BATCH):
                outputs_of(network, data[rows])
                if sum(len(u) for u in seen) >= _MAX_RANGE_VECTORS:
                    break
        if seen:
            layer.set_range_behind(torch.cat(list(seen))[:_MAX_RANGE_VECTORS])


def in_rows(outputs: Tensor) -> Tensor:
    """Outputs with one row per decision: those of tokens (S, T, n) and of pixels (S, n, H, W) one after the other."""
    if outputs.ndim <= 2:
        return outputs
    return (outputs if outputs.ndim == 3 else outputs.movedim(1, -1)).flatten(0, -2)


# With labels


@dataclass(frozen=True, eq=False)
class FineTune:
    """Training of the new layer with labels, by the cross-entropy, after everything else.

    Parameters
    ----------
    inputs, labels : array
        Inputs of the network and their classes, (N, ...) and (N,).
    max_steps, batch_size, rate : int, int, float
        Steps of Adam, inputs per step, and its largest rate, which falls to 0.
    whole : bool
        Whether the rest of the network is trained as well, as far as its parameters ask for gradients.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> how = dc.nn.FineTune(torch.zeros(8, 2), torch.zeros(8, dtype=torch.long), max_steps=500)
    >>> how.max_steps
    500
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
    optimiser = torch.optim.Adam(trained, lr=options.rate)
    orders = (torch.as_tensor(rng.permutation(len(X))) for _ in itertools.count())
    batches = (order[rows] for order in orders for rows in chunks(len(X), options.batch_size))

    def cross_entropy(rows: Tensor | slice) -> Tensor:
        return nn.functional.nll_loss(log_probabilities(network(X[rows].to(device))), y[rows].to(device))

    with train_only(network, trained):
        clock = Clock(options.max_steps)
        complete = take_steps(optimiser, lambda _: cross_entropy(next(batches)), clock, "Fine-tuning", progress)
    optimiser.zero_grad()
    if not complete:
        some = slice(_MAX_COMPARED)
        with torch.no_grad():
            after = float(cross_entropy(some))
            reached = _exchange(trained, initial)
            if after <= float(cross_entropy(some)):
                _exchange(trained, reached)


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
def _exchange(parameters: Sequence[nn.Parameter], values: Sequence[Tensor]) -> list[Tensor]:
    """Put other values into parameters; returns those that they had."""
    before = [p.clone() for p in parameters]
    for p, value in zip(parameters, values, strict=True):
        p.copy_(value)
    return before


def log_probabilities(output: Tensor) -> Tensor:
    """Logarithms of what a network gives the classes, whether it returns scores or, after a softmax, probabilities."""
    with torch.no_grad():
        done = bool((output >= 0.0).all()) and bool(((output.sum(1) - 1.0).abs() < 1e-3).all())
    return output.clamp_min(torch.finfo(output.dtype).tiny).log() if done else output.log_softmax(1)
