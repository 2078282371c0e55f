r"""Training a layer to do what a part of a network does, without labels.

For classes the layer minimises the KL divergence of its softmax from that of the part: what counts is the class, not
the logit. It needs no labels, only inputs, and the part can be asked at any point. So more inputs are made from those
given, by exchanging some coordinates of one for those of another and by making the whole a little larger or smaller.
Such inputs keep the range and most of the structure of real ones and show the part between them. They are made once,
so that the part is asked once, not at every step.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import kl_div, mse_loss

from ..._support._arguments import as_count, as_generator, as_number
from ..._support._errors import DecouplingWarning, InputError, short_repr
from ..._support._interrupts import INTERRUPTED
from ..._support._progress import progress_callback
from ...model._decoupling import Decoupling
from ..carving._jacobian_sampling import as_inputs, check_finite, chunks, twin_of, values_of
from ..layer._decoupled_layer import DecoupledLayer, layer_on
from ..layer._quantisation import RoundedLayer, check_bits, pack, unpack

Loss = Literal["kl", "squared"]
LOSSES = ("kl", "squared")
ROUNDED_FROM = 0.4  # share of the training after which a layer computes with rounded numbers, if it is to be stored so
_WARM_UP = 0.1  # share of the training over which the rate rises
_NEW_RANGE_EVERY = 50  # steps
_SECOND_RATE = 0.25  # times the rate, in a second training if the first made the layer worse
ASKED_AT_ONCE = 8192  # inputs of a part that go through it at a time
FEW_INPUTS = 2000  # below this all of a batch is mixed, above it a quarter
_MIXED_SHARE = 0.25  # of a batch, with many inputs
_MAX_EXCHANGED = 0.5  # share of the coordinates that comes from another input
_MAX_RESCALED = 0.3  # change of size of an input
_MAX_MIXED = 60_000  # mixed inputs, or as many as fit ...
_MAX_MIXED_NUMBERS = 2**26  # ... into so many numbers


@dataclass(frozen=True)
class Distil:
    """Training of layers to do what they replace, without labels.

    Parameters
    ----------
    max_steps, rate : int, float
        Steps of Adam and its largest rate, which rises over the first tenth of the steps and then falls to 0.
    loss : str or callable, optional
        "kl" (the divergence of the classes) or "squared" (the error of the values); None takes what fits the task.
    batch_size : int
        Inputs per step: of the part if one part is trained, of the network if all are trained together.
    mixup : float, optional
        Share of each batch that is made of the inputs given, by exchanging coordinates between two of them: by default
        1 for fewer than 2000 inputs and 0.25 for more. All layers together are trained on the inputs given only.
    max_seconds : float, optional
        Ends the training earlier; the rate then falls to 0 by that time.
    weights : array (n,), optional
        How much the squared error of each output counts: one number per output. By default all count alike, and if
        `compress` replaces the end of a regression network, each in units of its standard deviation.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.nn.Distil(max_steps=500).max_steps
    500
    """

    max_steps: int = 6000
    rate: float = 0.02
    loss: Loss | None = None
    batch_size: int = 512
    mixup: float | None = None
    max_seconds: float | None = None
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            given = np.asarray(self.weights)
            good = given.ndim == 1 and len(given) > 0 and given.dtype.kind in "iuf" and np.all(np.isfinite(given))
            if not good or given.min() < 0 or given.max() <= 0:
                raise InputError(
                    f"`weights` must be numbers of at least 0, one per output and not all 0. Got {self.weights!r}."
                )
            object.__setattr__(self, "weights", tuple(float(w) for w in given))
        as_count("max_steps", self.max_steps)
        as_count("batch_size", self.batch_size)
        as_number("rate", self.rate, above=True)
        if self.loss is not None and self.loss not in LOSSES:
            raise InputError(f'`loss` must be "kl", "squared" or None. Got {short_repr(self.loss)}.')
        if self.mixup is not None and as_number("mixup", self.mixup) > 1.0:
            raise InputError(f"`mixup` must be a share between 0 and 1. Got {short_repr(self.mixup)}.")
        if self.max_seconds is not None:
            as_number("max_seconds", self.max_seconds, above=True)


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """Inputs (N, m), those given first and mixed ones behind them, with what the part gives (N, n)."""

    inputs: Tensor
    values: Tensor
    n_given: int
    batch_size: int
    n_mixed: int  # of a batch
    generator: torch.Generator

    @classmethod
    def of(
        cls,
        given: Tensor,
        values: Tensor | None,
        ask: Callable[[Tensor], Tensor],
        how: Distil,
        generator: torch.Generator,
    ) -> TrainingInputs:
        """Given and mixed inputs; `ask` is the part, and `values` are what it gives at those given, if known."""
        share = (1.0 if len(given) < FEW_INPUTS else _MIXED_SHARE) if how.mixup is None else how.mixup
        batch_size = how.batch_size
        n_mixed = round(share * batch_size)
        count = min(_MAX_MIXED, max(batch_size, _MAX_MIXED_NUMBERS // given.shape[1])) if n_mixed else 0
        inputs = torch.cat([given, mixup_inputs(given, count, generator)])
        known = [] if values is None else [values]
        asked = inputs[len(given) :] if known else inputs
        answers = [ask(asked[rows]) for rows in chunks(len(asked), ASKED_AT_ONCE)] if len(asked) else []
        return cls(inputs, torch.cat([*known, *answers]), len(given), batch_size, n_mixed, generator)

    def draw_rows(self) -> Tensor:
        """Rows of one batch."""
        rows = torch.randint(self.n_given, (self.batch_size,), generator=self.generator)
        if self.n_mixed:
            count = len(self.inputs) - self.n_given
            rows[: self.n_mixed] = self.n_given + torch.randint(count, (self.n_mixed,), generator=self.generator)
        return rows.to(self.inputs.device)


def mixup_inputs(X: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Inputs made of two others each: up to half of the coordinates from the second, all of them scaled alike."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=X.dtype).to(X.device)

    first, second = torch.randint(len(X), (2, count), generator=generator).to(X.device)
    swapped = uniform(count, X.shape[1]) < _MAX_EXCHANGED * uniform(count, 1)
    return torch.where(swapped, X[second], X[first]) * (1.0 + _MAX_RESCALED * (2.0 * uniform(count, 1) - 1.0))


class Clock:
    """How much of a training is done, by steps or by seconds, whichever is further."""

    def __init__(self, max_steps: int, max_seconds: float | None = None) -> None:
        self.max_steps, self._seconds = max_steps, max_seconds
        self._began = time.monotonic()

    def done(self, step: float) -> float:
        share = step / self.max_steps
        if self._seconds is None:
            return share
        return max(share, (time.monotonic() - self._began) / max(self._seconds, 1e-9))


def rate_at(done: float) -> float:
    """Share of the largest rate after this share of the training: it rises over the first tenth, then falls to 0."""
    falling = min(1.0, (done - _WARM_UP) / (1.0 - _WARM_UP))
    return done / _WARM_UP if done < _WARM_UP else 0.5 * (1.0 + math.cos(math.pi * falling))


def take_steps(
    optimiser: torch.optim.Optimizer,
    loss: Callable[[int], Tensor],
    clock: Clock,
    title: str,
    progress: bool | Callable[..., None],
) -> bool:
    """Train until the clock has run out, with the loss of each step; says whether that ran to its end, without Ctrl-C.

    Rates rise over the first tenth of the training, then fall to 0 along a cosine.
    """
    tops = [group["lr"] for group in optimiser.param_groups]
    with progress_callback(progress, title) as report, torch.enable_grad():
        for t in range(clock.max_steps):
            if (done := clock.done(t + 0.5)) >= 1.0:
                break
            now = rate_at(done)
            for group, top in zip(optimiser.param_groups, tops, strict=True):
                group["lr"] = now * top
            optimiser.zero_grad()
            value = loss(t)
            value.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            try:
                report(done=t + 1, total=clock.max_steps, objective=float(value.detach()))
            except KeyboardInterrupt:
                warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=4)
                return False
    return True


def refine(
    model: Decoupling | DecoupledLayer,
    part: nn.Module,
    X: object,
    how: Distil | None = None,
    *,
    values: object = None,
    n_bits: int | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> DecoupledLayer:
    """Train a decoupling to give the same classes as the part of a network it stands for. No labels are needed.

    Parameters
    ----------
    model : Decoupling or DecoupledLayer
        The model that training begins with. The functions of a `Decoupling` continue linearly beyond the range of X,
        unless they all have outside="constant". A layer keeps its functions and its device.
    part : Module
        The part of the network, to logits (S, n).
    X : (S, m) or (S, ...)
        Inputs of the part.
    how : Distil, optional
        Steps, rate and loss, "kl" unless given. If the layer ends worse than it began, training begins again with a
        quarter of the rate, unless there is a limit of time.
    values : (S, n)
        What the part gives at X, if that is known already: the part is then asked at mixed inputs only.
    n_bits : int, optional
        Bits, 2 to 8, in which the layer will be stored by `dc.nn.pack`. The last three fifths of the training then see
        the rounded numbers, and the layer that is returned has them: so 4 or 5 bits lose little.
    rng : int or numpy Generator
        Seed or generator.
    progress : bool or callable
        True shows a bar on a terminal after two seconds; a callable gets named values.

    Returns
    -------
    DecoupledLayer
        The trained layer.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> part = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Tanh())
    >>> model = dc.systems.f1().with_outside("linear")
    >>> layer = dc.nn.refine(model, part, torch.zeros(8, 2), dc.nn.Distil(max_steps=5))
    >>> type(layer).__name__
    'DecoupledLayer'
    """
    check_bits(n_bits, "n_bits")
    if how is not None and not isinstance(how, Distil):
        raise InputError(f"`how` must be dc.nn.Distil(...). Got {short_repr(how)}.")
    how = Distil() if how is None else how
    points = as_inputs("X", X)
    generator = torch.Generator().manual_seed(int(as_generator(rng).integers(2**63 - 1)))
    initial = _as_layer(model, points)
    dtype, device = initial.W[0].dtype, initial.W[0].device
    twin = twin_of(part, "part").to(device, dtype).requires_grad_(False)
    given, shape = points.reshape(len(points), -1).to(device, dtype), points.shape[1:]
    known = None if values is None else as_inputs("values", values).to(device, dtype)
    if known is not None and len(known) != len(points):
        raise InputError(f"`values` must have one row per point of `X`, {len(points)}. Got {len(known)}.")

    def ask(vectors: Tensor) -> Tensor:
        return values_of(twin, vectors.reshape(-1, *shape))

    inputs = TrainingInputs.of(given, known, ask, how, generator)
    check_finite("part", inputs.values.cpu().numpy())
    if initial.n_outputs != inputs.values.shape[1]:
        raise InputError(f"`model` must have {inputs.values.shape[1]} outputs, like `part`. Got {initial.n_outputs}.")
    distance = squared_error(how.weights, inputs.values)
    if how.loss != "squared":
        if initial.n_outputs == 1:
            raise InputError(
                '`loss` must be "squared" for one output: the softmax of one number is always 1. Got "kl".'
            )
        distance, inputs = divergence, dataclasses.replace(inputs, values=inputs.values.log_softmax(1))

    def train(rate: float) -> tuple[DecoupledLayer, bool]:
        layer = copy.deepcopy(initial)
        student: RoundedLayer | DecoupledLayer = layer if n_bits is None else RoundedLayer(layer, n_bits)
        clock = Clock(how.max_steps, how.max_seconds)

        def loss(t: int) -> Tensor:
            if isinstance(student, RoundedLayer) and not student.begun and clock.done(t) >= ROUNDED_FROM:
                layer.set_range(given)
                student.begin()
            elif t % _NEW_RANGE_EVERY == 0 and not (isinstance(student, RoundedLayer) and student.begun):
                some = torch.randperm(len(given), generator=generator)[:ASKED_AT_ONCE]
                layer.set_range(given[some.to(device)])  # so that functions keep their formulas where the data go
            rows = inputs.draw_rows()
            return distance(student(inputs.inputs.index_select(0, rows)), inputs.values.index_select(0, rows))

        optimiser = torch.optim.Adam(_groups(layer, rate), betas=(0.9, 0.99), fused=device.type in ("cpu", "cuda"))
        complete = take_steps(optimiser, loss, clock, "Refining", progress)
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
    untrained = copy.deepcopy(initial)
    if n_bits is not None:
        unpack(untrained, pack(untrained, n_bits))
    before, after = distance_of(untrained), distance_of(found)
    if complete and how.max_seconds is None and not after <= before:  # once more, with smaller steps
        again, _ = train(_SECOND_RATE * how.rate)
        again_after = distance_of(again)
        if np.nan_to_num(again_after, nan=np.inf) <= np.nan_to_num(after, nan=np.inf):
            found, after = again, again_after
    if after <= before:
        return found
    if not after <= 2.0 * before:
        warnings.warn(
            f"Refining made the model worse, from a distance of {before:.3g} to {after:.3g}. The model is kept as it "
            "was: try a smaller `rate`.",
            DecouplingWarning,
            stacklevel=2,
        )
    return untrained


def squared_error(weights: Sequence[float] | None, values: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """The mean squared error, with a weight for each output."""
    if weights is None:
        return mse_loss
    if len(weights) != values.shape[1]:
        raise InputError(f"`weights` must be {values.shape[1]} numbers, one per output. Got {len(weights)}.")
    own = values.new_tensor(weights)
    return lambda got, wanted: ((got - wanted).pow(2) * own).mean()


def divergence(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean KL divergence of softmax(logits) from the classes `wanted`, given as logarithms of probabilities."""
    return kl_div(logits.log_softmax(1), wanted, log_target=True, reduction="batchmean")


def _groups(layer: DecoupledLayer, rate: float) -> list[dict[str, Any]]:
    """One rate per tensor: coefficients are of size 1 in canonical form, but weights may be far smaller."""
    weights = [*layer.W, *(() if layer.linear is None else (layer.linear,))]
    others = [p for p in layer.parameters() if not any(p is W for W in weights)]
    groups: list[dict[str, Any]] = [{"params": others, "lr": rate}]
    for W in weights:
        size = float(W.detach().pow(2).mean().sqrt())
        groups.append({"params": [W], "lr": rate * min(1.0, 10.0 * size)})
    return groups


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
