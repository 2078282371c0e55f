r"""Training without labels, as options, and how its rate goes while time passes.

Matching the softmax of a network: minimise the KL divergence of the decoupling's classes from the network's.

What counts is the class, not the logit. The divergence needs no labels, only inputs, and more of these can be made
(`_lessons`).
"""

from __future__ import annotations

import copy
import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
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
from ._training_inputs import CHUNK, TrainingInputs

Loss = Literal["kl", "squared"]
LOSSES = ("kl", "squared")
_WARM = 0.1  # share of the training over which the rate rises


@dataclass(frozen=True)
class Distil:
    """Training of new layers to do what they replace, without labels.

    Parameters
    ----------
    max_steps, rate
        Steps of Adam and its largest rate, which rises over the first tenth of the steps and then falls to 0.
    loss
        "kl" (the divergence of the classes) or "squared" (the error of the values); None takes what fits the task.
    batch_size
        Inputs per step: of the part where one part is trained, of the network where all are trained together.
    """

    max_steps: int = 6000
    rate: float = 0.02
    loss: Loss | None = None
    batch_size: int = 512

    def __post_init__(self) -> None:
        as_count("max_steps", self.max_steps)
        as_count("batch_size", self.batch_size)
        as_number("rate", self.rate, above=True)
        if self.loss is not None and self.loss not in LOSSES:
            raise InputError(f'`loss` must be "kl", "squared" or None. Got {self.loss!r}.')


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
    now = done / _WARM if done < _WARM else 0.5 * (1.0 + math.cos(math.pi * min(1.0, (done - _WARM) / (1.0 - _WARM))))
    for group in optimiser.param_groups:
        group["lr"] = now * group.setdefault("top", group["lr"])


_STEPS = 6000
_NEW_RANGE_EVERY = 50  # steps
_SMALLER = 0.25  # of the rate, where training went astray
UNROUNDED = 0.4  # share of the training before numbers are rounded, where they are


def refine(
    model: Decoupling | DecoupledLayer,
    part: nn.Module,
    X: object,
    *,
    loss: str = "kl",
    max_steps: int | None = None,
    batch_size: int = 512,
    rate: float = 0.02,
    recombined: float | None = None,
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
        What to go on from. The functions of a `Decoupling` go on along their tangents beyond the range of X, unless
        they all have outside="constant"; a layer stays as it is in this, and is trained on the device it is on.
    part
        The part of the network, to logits (S, n).
    X : (S, m) or (S, ...)
        Inputs of the part.
    loss
        "kl": the divergence of the softmax; "squared": the squared error of the outputs, for regression.
    max_steps, batch_size, rate
        Steps of Adam (6000 unless given), inputs per step, and its largest rate, which rises over the first tenth of
        the steps and then falls to 0. Where the layer ends worse than it began, training begins again with a quarter
        of the rate, unless there is a limit of time.
    recombined
        Share of each batch that is made from the inputs given, by exchanging coordinates between two of them: 1 for
        fewer than 2000 inputs and 0.25 for more, unless it is given.
    values : (S, n)
        What the part gives at X, where that is known already: the part is then asked at recombined inputs only.
    n_bits
        Bits, 2 to 8, in which the layer will be stored by `dc.nn.pack`. The last three fifths of the training then see
        the rounded numbers, and the layer that is returned has them: so 4 or 5 bits lose little.
    max_seconds
        Ends the training earlier; the rate then falls to 0 by that time.
    rng
        Seed or generator.
    """
    check_bits(n_bits, "n_bits")
    points = as_inputs("X", X)
    steps = _STEPS if max_steps is None else as_count("max_steps", max_steps)
    size = as_count("batch_size", batch_size)
    top = as_number("rate", rate, above=True)
    share = None if recombined is None else as_number("recombined", recombined)
    if share is not None and share > 1.0:
        raise InputError(f"`recombined` must be a share between 0 and 1. Got {recombined!r}.")
    if loss not in ("kl", "squared"):
        raise InputError(f'`loss` must be "kl" or "squared". Got {loss!r}.')
    generator = torch.Generator().manual_seed(int(as_generator(rng).integers(2**63 - 1)))
    begun = _as_layer(model, points)
    dtype, device = begun.W[0].dtype, begun.W[0].device
    twin = twin_of(part, "part").to(device, dtype).requires_grad_(False)
    given, shape = points.reshape(len(points), -1).to(device, dtype), points.shape[1:]
    told = None if values is None else _given_values(values, points).to(device, dtype)
    lessons = TrainingInputs.of(given, told, lambda x: values_of(twin, x.reshape(-1, *shape)), size, share, generator)
    pool, known = lessons.inputs, lessons.values
    check_finite("part", known.cpu().numpy())
    _check_outputs(begun, known.shape[1], loss)
    distance, known = (divergence, known.log_softmax(1)) if loss == "kl" else (mse_loss, known)

    limit = None if max_seconds is None else as_number("max_seconds", max_seconds, above=True)

    def draw() -> Tensor:
        return lessons.draw(generator)

    def attempt(rate: float) -> tuple[DecoupledLayer, bool]:
        layer = copy.deepcopy(begun)
        student: RoundedLayer | DecoupledLayer = layer if n_bits is None else RoundedLayer(layer, n_bits)
        clock = Clock(steps, limit)

        def follow(t: int) -> None:
            if isinstance(student, RoundedLayer):
                if student.begun:
                    return
                if clock.done(t) >= UNROUNDED:
                    layer.set_range(given)
                    student.begin()
                    return
            if t % _NEW_RANGE_EVERY == 0:  # so that functions keep their formulas where the data go
                layer.set_range(given[torch.randperm(len(given), generator=generator)[:CHUNK].to(device)])

        optimiser = torch.optim.Adam(_groups(layer, rate), betas=(0.9, 0.99), fused=device.type in ("cpu", "cuda"))
        whole = distil(student, optimiser, pool, known, distance, draw, clock, progress, follow)
        layer.zero_grad()
        if not isinstance(student, RoundedLayer) or not student.begun:
            layer.set_range(given)
        if n_bits is not None:
            unpack(layer, pack(layer, n_bits))
        return layer, whole

    compared = torch.randperm(len(pool), generator=generator)[:CHUNK].to(device)

    @torch.no_grad()
    def judged(layer: DecoupledLayer) -> float:
        return float(distance(layer(pool[compared]), known[compared]))

    found, whole = attempt(top)
    before = begun
    if n_bits is not None:
        before = copy.deepcopy(begun)
        unpack(before, pack(before, n_bits))
    if whole and limit is None and not judged(found) <= judged(before):  # once more, with smaller steps
        again, _ = attempt(_SMALLER * top)
        found = min(again, found, key=lambda layer: np.nan_to_num(judged(layer), nan=np.inf))
    return _better(before, found, judged)


def distil(
    student: Callable[[Tensor], Tensor],
    optimiser: torch.optim.Optimizer,
    inputs: Tensor,
    known: Tensor,
    distance: Callable[[Tensor, Tensor], Tensor],
    draw: Callable[[], Tensor],
    clock: Clock,
    progress: bool | Callable[..., None],
    before_step: Callable[[int], None] = lambda _: None,
) -> bool:
    """Train a student until its outputs for `inputs` are those `known`, on the rows that `draw` gives.

    Whether it was trained to the end, not stopped by Ctrl-C.
    """
    with progress_callback(progress, "Refining") as report, torch.enable_grad():
        for t in range(clock.max_steps):
            if (done := clock.done(t + 0.5)) >= 1.0:
                break
            set_rate(optimiser, done)
            before_step(t)
            rows = draw()
            optimiser.zero_grad()
            value = distance(student(inputs.index_select(0, rows)), known.index_select(0, rows))
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
    begun: DecoupledLayer, layer: DecoupledLayer, distance: Callable[[DecoupledLayer], float]
) -> DecoupledLayer:
    """The refined layer, unless it is no better."""
    before, after = distance(begun), distance(layer)
    if after <= before:
        return layer
    if not after <= 2.0 * before:
        warnings.warn(
            f"Refining made the model worse, from a distance of {before:.3g} to {after:.3g}. The model is kept as it "
            "was: try a smaller `rate`.",
            DecouplingWarning,
            stacklevel=3,
        )
    return begun


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


def _check_outputs(layer: DecoupledLayer, n: int, loss: str) -> None:
    if layer.n_outputs != n:
        raise InputError(f"`model` must have {n} outputs, like `part`. Got {layer.n_outputs}.")
    if n == 1 and loss == "kl":
        raise InputError('`loss` must be "squared" for one output: the softmax of one number is always 1. Got "kl".')
