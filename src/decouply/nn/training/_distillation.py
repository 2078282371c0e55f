r"""Training a layer to do what a part of a network does, without labels.

For classes the layer minimises the KL divergence of its softmax from that of the part: what counts is the class, not
the logit. It needs no labels, only inputs, and more of these can be made (`_training_inputs`).
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, mse_loss

from ..._support._arguments import as_count, as_generator, as_number
from ..._support._errors import DecouplingWarning, InputError
from ..._support._interrupts import INTERRUPTED
from ..._support._progress import progress_callback
from ...model._decoupling import Decoupling
from ..carving._jacobian_sampling import as_inputs, check_finite, twin_of, values_of
from ..layer._decoupled_layer import DecoupledLayer, layer_on
from ..layer._quantisation import RoundedLayer, check_bits, pack, unpack
from ._training_inputs import ASKED_AT_ONCE, TrainingInputs

Loss = Literal["kl", "squared"]
LOSSES = ("kl", "squared")
ROUNDED_FROM = 0.4  # share of the training after which a layer computes with rounded numbers, if it is to be stored so
_WARM_UP = 0.1  # share of the training over which the rate rises
_NEW_RANGE_EVERY = 50  # steps
_SECOND_RATE = 0.25  # times the rate, in a second training if the first made the layer worse


@dataclass(frozen=True)
class Distil:
    """Training of layers to do what they replace, without labels.

    Parameters
    ----------
    max_steps, rate
        Steps of Adam and its largest rate, which rises over the first tenth of the steps and then falls to 0.
    loss
        "kl" (the divergence of the classes) or "squared" (the error of the values); None takes what fits the task.
    batch_size
        Inputs per step: of the part if one part is trained, of the network if all are trained together.
    mixup
        Share of each batch that is made of the inputs given, by exchanging coordinates between two of them: by default
        1 for fewer than 2000 inputs and 0.25 for more. All layers together are trained on the inputs given only.
    """

    max_steps: int = 6000
    rate: float = 0.02
    loss: Loss | None = None
    batch_size: int = 512
    mixup: float | None = None

    def __post_init__(self) -> None:
        as_count("max_steps", self.max_steps)
        as_count("batch_size", self.batch_size)
        as_number("rate", self.rate, above=True)
        if self.loss is not None and self.loss not in LOSSES:
            raise InputError(f'`loss` must be "kl", "squared" or None. Got {self.loss!r}.')
        if self.mixup is not None and as_number("mixup", self.mixup) > 1.0:
            raise InputError(f"`mixup` must be a share between 0 and 1. Got {self.mixup!r}.")


class Clock:
    """How much of a training is done, by steps or by seconds, whichever is further."""

    def __init__(self, max_steps: int, max_seconds: float | None) -> None:
        self.max_steps, self._seconds = max_steps, max_seconds
        self._began = time.monotonic()

    def done(self, step: float) -> float:
        share = step / self.max_steps
        if self._seconds is None:
            return share
        return max(share, (time.monotonic() - self._began) / max(self._seconds, 1e-9))


def set_rate(optimiser: torch.optim.Optimizer, done: float) -> None:
    """Set the rates of an optimiser for this share of the training: up at first, then down along a cosine."""
    falling = min(1.0, (done - _WARM_UP) / (1.0 - _WARM_UP))
    now = done / _WARM_UP if done < _WARM_UP else 0.5 * (1.0 + math.cos(math.pi * falling))
    for group in optimiser.param_groups:
        group["lr"] = now * group.setdefault("top", group["lr"])


def refine(
    model: Decoupling | DecoupledLayer,
    part: nn.Module,
    X: object,
    how: Distil | None = None,
    *,
    values: object = None,
    n_bits: int | None = None,
    max_seconds: float | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> DecoupledLayer:
    """Train a decoupling to give the same classes as the part of a network it stands for. No labels are needed.

    Parameters
    ----------
    model
        Where training begins. The functions of a `Decoupling` continue linearly beyond the range of X, unless they all
        have outside="constant"; a layer stays as it is in this, and is trained on the device it is on.
    part
        The part of the network, to logits (S, n).
    X : (S, m) or (S, ...)
        Inputs of the part.
    how
        Steps, rate and loss, "kl" unless given. If the layer ends worse than it began, training begins again with a
        quarter of the rate, unless there is a limit of time.
    values : (S, n)
        What the part gives at X, if that is known already: the part is then asked at mixed inputs only.
    n_bits
        Bits, 2 to 8, in which the layer will be stored by `dc.nn.pack`. The last three fifths of the training then see
        the rounded numbers, and the layer that is returned has them: so 4 or 5 bits lose little.
    max_seconds
        Ends the training earlier; the rate then falls to 0 by that time.
    rng
        Seed or generator.
    """
    check_bits(n_bits, "n_bits")
    if how is not None and not isinstance(how, Distil):
        raise InputError(f"`how` must be dc.nn.Distil(...). Got {how!r}.")
    how = Distil() if how is None else how
    limit = None if max_seconds is None else as_number("max_seconds", max_seconds, above=True)
    points = as_inputs("X", X)
    generator = torch.Generator().manual_seed(int(as_generator(rng).integers(2**63 - 1)))
    initial = _as_layer(model, points)
    dtype, device = initial.W[0].dtype, initial.W[0].device
    twin = twin_of(part, "part").to(device, dtype).requires_grad_(False)
    given, shape = points.reshape(len(points), -1).to(device, dtype), points.shape[1:]
    known = None if values is None else _given_values(values, points).to(device, dtype)
    ask = partial(_values_at, twin, shape)
    inputs = TrainingInputs.of(given, known, ask, how.batch_size, how.mixup, generator)
    check_finite("part", inputs.values.cpu().numpy())
    if initial.n_outputs != inputs.values.shape[1]:
        raise InputError(f"`model` must have {inputs.values.shape[1]} outputs, like `part`. Got {initial.n_outputs}.")
    distance: Callable[[Tensor, Tensor], Tensor] = mse_loss
    if how.loss != "squared":
        if initial.n_outputs == 1:
            raise InputError(
                '`loss` must be "squared" for one output: the softmax of one number is always 1. Got "kl".'
            )
        distance, inputs = divergence, dataclasses.replace(inputs, values=inputs.values.log_softmax(1))

    def train(rate: float) -> tuple[DecoupledLayer, bool]:
        layer = copy.deepcopy(initial)
        student: RoundedLayer | DecoupledLayer = layer if n_bits is None else RoundedLayer(layer, n_bits)
        clock = Clock(how.max_steps, limit)

        def follow(t: int) -> None:
            if isinstance(student, RoundedLayer):
                if student.begun:
                    return
                if clock.done(t) >= ROUNDED_FROM:
                    layer.set_range(given)
                    student.begin()
                    return
            if t % _NEW_RANGE_EVERY == 0:  # so that functions keep their formulas where the data go
                some = torch.randperm(len(given), generator=generator)[:ASKED_AT_ONCE]
                layer.set_range(given[some.to(device)])

        optimiser = torch.optim.Adam(_groups(layer, rate), betas=(0.9, 0.99), fused=device.type in ("cpu", "cuda"))
        complete = distil(student, optimiser, inputs, distance, clock, progress, follow)
        layer.zero_grad()
        if not isinstance(student, RoundedLayer) or not student.begun:
            layer.set_range(given)
        if n_bits is not None:
            unpack(layer, pack(layer, n_bits))
        return layer, complete

    compared = torch.randperm(len(inputs.inputs), generator=generator)[:ASKED_AT_ONCE].to(device)

    @torch.no_grad()
    def distance_of(layer: DecoupledLayer) -> float:
        return float(distance(layer(inputs.inputs[compared]), inputs.values[compared]))

    found, complete = train(how.rate)
    before = initial
    if n_bits is not None:
        before = copy.deepcopy(initial)
        unpack(before, pack(before, n_bits))
    if complete and limit is None and not distance_of(found) <= distance_of(before):  # once more, with smaller steps
        again, _ = train(_SECOND_RATE * how.rate)
        found = min(again, found, key=lambda layer: np.nan_to_num(distance_of(layer), nan=np.inf))
    return _better(before, found, distance_of)


def distil(
    student: Callable[[Tensor], Tensor],
    optimiser: torch.optim.Optimizer,
    inputs: TrainingInputs,
    distance: Callable[[Tensor, Tensor], Tensor],
    clock: Clock,
    progress: bool | Callable[..., None],
    before_step: Callable[[int], None] = lambda _: None,
) -> bool:
    """Train a student until it gives the values of the inputs; whether that ran to its end, not stopped by Ctrl-C."""
    with progress_callback(progress, "Refining") as report, torch.enable_grad():
        for t in range(clock.max_steps):
            if (done := clock.done(t + 0.5)) >= 1.0:
                break
            set_rate(optimiser, done)
            before_step(t)
            rows = inputs.draw_rows()
            optimiser.zero_grad()
            value = distance(student(inputs.inputs.index_select(0, rows)), inputs.values.index_select(0, rows))
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            try:
                report(done=t + 1, total=clock.max_steps, objective=float(value.detach()))
            except KeyboardInterrupt:
                warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=4)
                return False
    return True


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean KL divergence of softmax(logits) from the classes `wanted`, given as logarithms of probabilities."""
    return kl_div(logits.log_softmax(1), wanted, log_target=True, reduction="batchmean")


def _values_at(part: nn.Module, shape: tuple[int, ...], vectors: Tensor) -> Tensor:
    return values_of(part, vectors.reshape(-1, *shape))


def _given_values(values: Any, points: Tensor) -> Tensor:
    given = as_inputs("values", values)
    if len(given) != len(points):
        raise InputError(f"`values` must have one row per point of `X`, {len(points)}. Got {len(given)}.")
    return given


def _groups(layer: DecoupledLayer, rate: float) -> list[dict[str, Any]]:
    """One rate per tensor: coefficients are of size 1 in canonical form, but weights may be far smaller."""
    weights = [*layer.W, *(() if layer.linear is None else (layer.linear,))]
    others = [p for p in layer.parameters() if not any(p is W for W in weights)]
    groups: list[dict[str, Any]] = [{"params": others, "lr": rate}]
    for W in weights:
        size = float(W.detach().pow(2).mean().sqrt())
        groups.append({"params": [W], "lr": rate * min(1.0, 10.0 * size)})
    return groups


def _better(
    initial: DecoupledLayer, layer: DecoupledLayer, distance: Callable[[DecoupledLayer], float]
) -> DecoupledLayer:
    """The refined layer, unless it is no better."""
    before, after = distance(initial), distance(layer)
    if after <= before:
        return layer
    if not after <= 2.0 * before:
        warnings.warn(
            f"Refining made the model worse, from a distance of {before:.3g} to {after:.3g}. The model is kept as it "
            "was: try a smaller `rate`.",
            DecouplingWarning,
            stacklevel=3,
        )
    return initial


def _as_layer(model: Any, points: Tensor) -> DecoupledLayer:
    m = math.prod(points.shape[1:])
    if not isinstance(model, Decoupling | DecoupledLayer):
        raise InputError(f"`model` must be a dc.Decoupling or a DecoupledLayer. Got {type(model).__name__}.")
    if model.n_inputs != m:
        raise InputError(f"`X` must have {model.n_inputs} coordinates per point, like `model`. Got {m}.")
    if isinstance(model, DecoupledLayer):
        return copy.deepcopy(model)
    given = {g.outside for g in model.g}
    return layer_on(model, points.reshape(len(points), -1).numpy(), "constant" if given == {"constant"} else "linear")
