r"""Layers that are trained like a plain network, several side by side: the plain network is one of them.

Each begins as PyTorch begins `nn.Linear`, with functions that are an activation, and all of its numbers have one rate.
A thousand numbers spend their time between operations, not in them. So copies that differ in their rate stand side by
side in tensors, and each step is one call for all of them. The first matrices of all copies are one product. Each copy
is trained as if it were alone, by Adam along the eigenvectors of its gradients. The rate rises over the first tenth of
the steps and falls to 0 along a cosine.

Every plan is tried with three rates in a short training. It tells kinds of functions apart, but not depths, since
more layers take longer to learn. So for each number of layers the best plan with hinges and the best one without, which
is a plain network, are trained in full, unless they are far behind. The best plain network always is. What is returned
is the copy that is nearest to the part at inputs that no copy was trained on.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from ..._support._errors import DecouplingWarning, InputError
from ..._support._interrupts import INTERRUPTED
from ...bases._activation import REACH, Activation
from ...model._decoupling import Decoupling
from ...model._functions import Functions
from ..layer._decoupled_layer import DecoupledLayer
from ..layer._torch_algebra import TensorAlgebra
from ._distillation import Clock, Distil, TrainingInputs, rate_at
from ._eigenbasis_adam import EigenbasisAdam

RATES = (0.5, 1.5, 4.0)  # times `Distil.rate`
_SWEEP = 0.15  # share of the steps that the short trainings take
_NOT_FAR = 1.25  # times the distance of the best plan in the short training: what is left of more layers
_FINAL = (1.5, 0.75)  # times the best rate of the short training
_FEW_COLUMNS = 64  # inputs up to which each is put into units of its own spread
_MAX_COMPARED = 8192

Distance = Callable[[Tensor, Tensor], Tensor]  # of copies (K, B, n) from what is known (B, n): one number each


@dataclass(frozen=True)
class Plan:
    """Inputs, functions of each layer and outputs, and what the functions are."""

    sizes: tuple[int, ...]
    basis: Activation

    @property
    def n_parameters(self) -> int:
        """Weights, coefficients and middles of all functions, and what is added at the end."""
        n_weights = sum(a * b for a, b in pairwise(self.sizes))
        return n_weights + (self.basis.size + 1) * sum(self.sizes[1:-1]) + self.sizes[-1]

    @property
    def in_words(self) -> str:
        widths = " and ".join(map(str, self.sizes[1:-1]))
        return (
            f"{widths} {self.basis.in_words}" if self.basis.hinges else f"a plain network, {widths} {self.basis.name}"
        )


def plan_within(n_inputs: int, n_outputs: int, most: int, n_layers: int, basis: Activation) -> Plan | None:
    """Layers of equal widths with at most `most` parameters. The last layer takes the remainder."""

    def plan(width: int, last: int) -> Plan:
        return Plan((n_inputs, *[width] * (n_layers - 1), last, n_outputs), basis)

    def largest(fits: Callable[[int], bool]) -> int:
        low, high = 0, 1
        while fits(high):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return low

    width = largest(lambda w: plan(w, w).n_parameters <= most)
    if width == 0:
        return None
    return plan(width, largest(lambda last: plan(width, last).n_parameters <= most))


@dataclass(frozen=True)
class Trained:
    """A layer after training, its distance from the part at inputs that were held out, and how it was trained."""

    layer: DecoupledLayer
    distance: float
    plan: Plan
    rate: float


@dataclass(frozen=True, eq=False)
class Lesson:
    """What copies learn: inputs and what the part gives there, inputs that are held out, and what counts.

    Attributes
    ----------
    inputs
        To train with, and the values there.
    held_out
        Inputs (N, m) and values (N, n) that choose between copies.
    in_classes
        Whether the divergence of the classes counts, instead of the squared error.
    weights
        Of the squared error of each output, if they differ.
    """

    inputs: TrainingInputs
    held_out: tuple[Tensor, Tensor]
    in_classes: bool
    weights: Tensor | None = None

    @property
    def distance(self) -> Distance:
        return _divergences if self.in_classes else _squared_errors(self.weights)

    def of_values(self, values: Tensor, wanted: Tensor) -> Tensor:
        """The distance of other values, in the units that copies have."""
        units = _Units.of(self)
        shown = units.scaled_values(values, self)[None]
        return self.distance(shown, units.scaled_values(wanted, self))[0]


def train_best(
    plans: Sequence[Plan],
    lesson: Lesson,
    how: Distil,
    generator: torch.Generator,
    report: Callable[..., None],
) -> list[Trained]:
    """The plans that come nearest to the part, trained in full, the best one first.

    The plain network among the plans that comes nearest is always one of them. A single plan takes no short training,
    but all rates.
    """
    units = _Units.of(lesson)
    finals = [(plan, tuple(how.rate * factor for factor in RATES)) for plan in plans]
    tried: list[Trained] = []
    if len(plans) > 1:
        short = dataclasses.replace(
            how,
            max_steps=max(1, round(_SWEEP * how.max_steps)),
            max_seconds=None if how.max_seconds is None else how.max_seconds * 0.4 / len(plans),
        )
        for k, (plan, rates) in enumerate(finals, start=1):
            stage = f"trying {k} of {len(plans)}"
            found, complete = _train_copies(plan, rates, lesson, units, short, generator, report, stage)
            tried += sorted(found, key=lambda one: one.distance)[:1]
            if not complete:  # Ctrl-C: the best so far is what there is
                return _sorted_by_distance(tried)
        tried = _sorted_by_distance(tried)
        best_of: dict[tuple[bool, int], Trained] = {}  # plain networks and others, with each number of layers
        for one in tried:
            is_plain = one.plan.basis.hinges == 0
            first_plain = is_plain and not any(plain for plain, _ in best_of)
            if first_plain or one.distance <= _NOT_FAR * tried[0].distance:
                best_of.setdefault((is_plain, len(one.plan.sizes)), one)
        chosen = list(best_of.values())
        finals = [(one.plan, tuple(one.rate * factor for factor in _FINAL)) for one in chosen]
        if how.max_seconds is not None:
            how = dataclasses.replace(how, max_seconds=how.max_seconds * 0.6 / len(finals))
    trained = []
    for k, (plan, rates) in enumerate(finals, start=1):
        stage = f"training {k} of {len(finals)}"
        found, complete = _train_copies(plan, rates, lesson, units, how, generator, report, stage)
        trained += found
        if not complete:
            break
    return _sorted_by_distance(trained or tried)


def _sorted_by_distance(trained: list[Trained]) -> list[Trained]:
    if not trained:
        raise InputError(
            "`rate` of `Distil` must be smaller: every training went astray, up to numbers that are not finite."
        )
    return sorted(trained, key=lambda one: one.distance)


def _train_copies(
    plan: Plan,
    rates: Sequence[float],
    lesson: Lesson,
    units: _Units,
    how: Distil,
    generator: torch.Generator,
    report: Callable[..., None],
    stage: str,
) -> tuple[list[Trained], bool]:
    """Copies of one start, one for each rate that did not go astray. And whether the training ran to its end."""
    copies = _Copies.begin(plan, len(rates), lesson.inputs.inputs, generator)
    inputs, distance = lesson.inputs, lesson.distance
    matrices = [k % 3 == 0 for k in range(len(copies.shapes))]  # each before its shifts and coefficients
    optimiser = EigenbasisAdam(copies.flat, copies.shapes, matrices, rates)
    clock, complete = Clock(how.max_steps, how.max_seconds), True
    with torch.enable_grad():
        for t in range(how.max_steps):
            if (done := clock.done(t + 0.5)) >= 1.0:
                break
            rows = inputs.draw_rows()
            x, known = inputs.inputs.index_select(0, rows), inputs.values.index_select(0, rows)
            each = distance(copies.values(units.scaled(x)), units.scaled_values(known, lesson))
            (gradient,) = torch.autograd.grad(each.sum(), copies.flat)
            optimiser.step(gradient, rate_at(done))
            try:
                report(stage=stage, done=t + 1, total=how.max_steps)
            except KeyboardInterrupt:
                warnings.warn(INTERRUPTED, DecouplingWarning, stacklevel=5)
                complete = False
                break
    X, F = (some[:_MAX_COMPARED] for some in lesson.held_out)
    with torch.no_grad():
        reached = distance(copies.values(units.scaled(X)), units.scaled_values(F, lesson)).tolist()
    finite = [(k, rate, far) for k, (rate, far) in enumerate(zip(rates, reached, strict=True)) if math.isfinite(far)]
    return [Trained(copies.layer(k, units), far, plan, rate) for k, rate, far in finite], complete


# Tensors


@dataclass(frozen=True)
class _Units:
    """Units of inputs and values in which they are about as large as 1.

    Few inputs, which may have units of their own, are divided by their spread each. Many come from pixels or from other
    functions, some of which are nearly always 0: they have one unit. Values have units in which all errors count
    alike: outputs of very different sizes would each need a rate of their own. Scores of classes stay as they are.
    """

    middle: Tensor
    spread: Tensor
    values_middle: Tensor
    values_spread: Tensor

    @classmethod
    def of(cls, lesson: Lesson) -> _Units:
        X, F = lesson.inputs.inputs, lesson.inputs.values
        middle, spread = X.mean(0), X.std(0)
        if X.shape[1] > _FEW_COLUMNS:
            middle, spread = torch.zeros_like(middle), torch.ones_like(spread) * X.pow(2).mean().sqrt() * 2.0
        own, weights = F.mean(0), torch.ones_like(F[0]) if lesson.weights is None else lesson.weights
        far = (weights * F.var(0)).mean().sqrt() / torch.where(weights > 0.0, weights, torch.ones_like(weights)).sqrt()
        if lesson.in_classes:
            own, far = torch.zeros_like(own), torch.ones_like(own)
        return cls(middle, _positive(spread), own, _positive(far))

    def scaled(self, X: Tensor) -> Tensor:
        return (X - self.middle) / self.spread

    def scaled_values(self, F: Tensor, lesson: Lesson) -> Tensor:
        return F if lesson.in_classes else (F - self.values_middle) / self.values_spread


def _positive(spread: Tensor) -> Tensor:
    return torch.where(spread > 1e-12 * spread.max(), spread, torch.ones_like(spread))


class _Copies:
    """K layers of one plan: W (K, b, a), shifts (K, b) and coefficients (K, b, d) of every layer in one vector."""

    def __init__(self, plan: Plan, n_copies: int, parts: list[Tensor]) -> None:
        self.plan, self.n_copies = plan, n_copies
        self.shapes = [(n_copies, *p.shape) for p in parts]
        self.lengths = [math.prod(shape) for shape in self.shapes]
        flat = torch.cat([p.expand(shape).reshape(-1) for p, shape in zip(parts, self.shapes, strict=True)])
        self.flat = flat.requires_grad_(True)

    @classmethod
    def begin(cls, plan: Plan, n_copies: int, like: Tensor, generator: torch.Generator) -> _Copies:
        """As PyTorch begins `nn.Linear`: even numbers up to one over the root of the number of inputs."""
        parts: list[Tensor] = []
        for l, (a, b) in enumerate(pairwise(plan.sizes)):
            for shape in ((b, a), (b,)):
                numbers = torch.rand(*shape, generator=generator, dtype=like.dtype).to(like.device)
                parts.append((2.0 * numbers - 1.0) / math.sqrt(a))
            if l < len(plan.sizes) - 2:
                own = like.new_zeros(b, plan.basis.size)
                own[:, 0] = 1.0
                parts.append(own)
        return cls(plan, n_copies, parts)

    def tensors(self, flat: Tensor) -> list[Tensor]:
        return [p.view(shape) for p, shape in zip(torch.split(flat, self.lengths), self.shapes, strict=True)]

    def values(self, x: Tensor) -> Tensor:
        """Values (K, B, n) at inputs (B, m)."""
        parts = iter(self.tensors(self.flat))
        W, b = next(parts), next(parts)
        u = torch.addmm(b.reshape(-1), x, W.reshape(-1, x.shape[1]).t())  # all copies in one product
        u = u.view(len(x), self.n_copies, -1).transpose(0, 1)
        for _ in self.plan.sizes[1:-1]:
            c = next(parts)[:, None]
            curves = self.plan.basis.curves_of(TensorAlgebra(u), u)
            z = curves[0] * c[..., 0]
            for k, curve in enumerate(curves[1:], start=1):
                z = torch.addcmul(z, curve, c[..., k])
            W, b = next(parts), next(parts)
            u = torch.baddbmm(b[:, None], z, W.transpose(1, 2))
        return u

    def layer(self, k: int, units: _Units) -> DecoupledLayer:
        """One copy as a layer, in the units of the part."""
        own = [p[k].double().cpu().numpy() for p in self.tensors(self.flat.detach())]
        *inner, W_last, b_last = own
        middle, spread, values_middle, values_spread = (
            p.double().cpu().numpy() for p in (units.middle, units.spread, units.values_middle, units.values_spread)
        )
        W: list[np.ndarray] = []
        g = []
        for V, b, c in zip(inner[::3], inner[1::3], inner[2::3], strict=True):
            if not W:
                V = V / spread
                b = b - V @ middle
            W.append(V)
            C = np.insert(c, 0, 0.0, axis=1)
            g.append(Functions(self.plan.basis, C, np.stack([-b - REACH, REACH - b], axis=1)))
        W.append(values_spread[:, None] * W_last)
        offset = values_middle + values_spread * b_last
        return DecoupledLayer(Decoupling(W, g, offset=offset), dtype=self.flat.dtype).to(self.flat.device)


# What counts


def _divergences(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean KL divergence of each copy's classes from log-probabilities."""
    return (wanted.exp() * (wanted - logits.log_softmax(-1))).sum(-1).mean(-1)


def _squared_errors(weights: Tensor | None) -> Distance:
    """Mean squared error in units in which outputs count alike; those without weight do not count."""
    counted = None if weights is None or bool((weights > 0.0).all()) else (weights > 0.0).to(weights)

    def distance(values: Tensor, wanted: Tensor) -> Tensor:
        squares = (values - wanted).pow(2)
        return (squares if counted is None else squares * counted).mean((-1, -2))

    return distance


def lesson_of(
    inputs: Tensor,
    values: Tensor,
    ask: Callable[[Tensor], Tensor],
    how: Distil,
    generator: torch.Generator,
    *,
    in_classes: bool,
) -> Lesson:
    """Hold a tenth of the inputs out, and train with the rest and with inputs mixed from it."""
    order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    count = max(1, len(inputs) // 10)
    held, rest = order[:count], order[count:]
    given = TrainingInputs.of(inputs[rest], values[rest], ask, how, generator)
    known = values[held]
    if in_classes:
        known, given = known.log_softmax(1), dataclasses.replace(given, values=given.values.log_softmax(1))
    own = None if how.weights is None else values.new_tensor(how.weights)
    return Lesson(given, (inputs[held], known), in_classes, own)
