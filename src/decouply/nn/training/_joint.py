"""All new parts trained together, without labels, so that the network gives what it gave before."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._errors import DecouplingWarning
from ..._support._interrupts import INTERRUPTED
from ..._support._progress import progress_callback
from ..carving._carve import outputs_of
from ..carving._jacobian_sampling import chunks
from ..layer._decoupled_layer import DecoupledLayer
from ._distillation import Clock, Distil, Loss, set_rate
from ._fine_tune import log_probabilities, train_only

SHORT = Distil(max_steps=1000, rate=3e-3, batch_size=128)  # where nothing else is asked for
_MAX_COMPARED = 1024  # inputs on which the outcome is compared with the beginning
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
    max_seconds: float | None = None,
) -> None:
    """Train the layers in place until the network returns, for `data`, what is `wanted`; keep what is better."""
    distance = _distance(how.loss or "squared", wanted)
    trained = [p for layer in layers for p in layer.parameters()]
    initial = [p.detach().clone() for p in trained]
    generator = torch.Generator().manual_seed(int(rng.integers(2**63 - 1)))
    optimiser = torch.optim.Adam(trained, lr=how.rate)
    clock = Clock(how.max_steps, max_seconds)
    compared = torch.randperm(len(data), generator=generator)[:_MAX_COMPARED]

    @torch.no_grad()
    def distance_now() -> float:
        outputs = [outputs_of(network, data[compared[rows]]) for rows in chunks(len(compared), _BATCH)]
        return float(distance(torch.cat(outputs), wanted[compared].to(data.device)))

    before = distance_now()
    with train_only(network, trained), progress_callback(progress, "Distilling") as report, torch.enable_grad():
        for t in range(how.max_steps):
            if (done := clock.done(t + 0.5)) >= 1.0:
                break
            set_rate(optimiser, done)
            rows = torch.randint(len(data), (how.batch_size,), generator=generator)
            optimiser.zero_grad()
            value = distance(network(data[rows].clone()), wanted[rows].to(data.device))
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            try:
                report(done=t + 1, total=how.max_steps, objective=float(value.detach()))
            except KeyboardInterrupt:
                warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=2)
                break
    optimiser.zero_grad()
    if not distance_now() <= before:
        with torch.no_grad():
            for p, old in zip(trained, initial, strict=True):
                p.copy_(old)
    # Domains become what the layers are given now, unless that is worse: formulas that continue into a new domain are
    # not the tangents that were trained.
    reached, states = distance_now(), [copy.deepcopy(layer.state_dict()) for layer in layers]
    _move_domains(network, layers, data)
    if not distance_now() <= reached:
        for layer, state in zip(layers, states, strict=True):
            layer.load_state_dict(state)


def _distance(loss: Loss, wanted: Tensor) -> Callable[[Any, Tensor], Tensor]:
    if loss == "kl":

        def divergence(output: Any, truth: Tensor) -> Tensor:
            own, wanted_classes = (log_probabilities(in_rows(values)) for values in (output, truth))
            return nn.functional.kl_div(own, wanted_classes, log_target=True, reduction="batchmean")

        return divergence
    spread = wanted.double().std(dim=0).clamp_min(1e-12)

    def squared(output: Any, truth: Tensor) -> Tensor:
        return ((output - truth) / spread.to(truth)).pow(2).mean()

    return squared


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
