"""Many small networks of one shape, trained at once: each step is one call for all of them.

A network of a thousand parameters spends its time between operations, not in them. Here copies that differ in their
draw of inputs, in their start and in their rate stand side by side in tensors, (draws, copies, ...), and each is
trained as if it were alone: Adam, a rate that rises over the first tenth of the steps and falls to 0 along a cosine,
batches drawn at random.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise
from math import cos, pi

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from decouply.nn.layer._quantisation import round_rows
from decouply.nn.training._distillation import ROUNDED_FROM

Distance = Callable[[Tensor, Tensor], Tensor]
_WARM = 0.1
_BETAS, _TINY = (0.9, 0.99), 1e-8  # as `refine` has them


def divergences(logits: Tensor, wanted: Tensor) -> Tensor:
    """Mean KL divergence from log-probabilities `wanted`, over the last two axes."""
    return (wanted.exp() * (wanted - logits.log_softmax(-1))).sum(-1).mean(-1)


def squared_errors(values: Tensor, wanted: Tensor) -> Tensor:
    """Mean squared error over the last two axes."""
    return (values - wanted).pow(2).mean((-1, -2))


def train_together(
    students: Sequence[Sequence[nn.Module]],
    rates: Sequence[Sequence[float]],
    inputs: Tensor,
    known: Tensor,
    distance: Distance,
    *,
    n_real: int,
    share: float,
    steps: int,
    batch_size: int,
    generator: torch.Generator,
    n_bits: int | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> list[list[nn.Module]]:
    """Students [draw][copy] after training on their draw of `inputs` (draws, N, m), to give what is `known` there.

    Of each batch a `share` comes from the inputs behind the first `n_real`. With `n_bits` they are trained as they are
    stored, like ours: rounded after two fifths of the steps, with the gradients of what is not.
    """
    one = copy.deepcopy(students[0][0])
    shapes = {name: p.shape for name, p in one.named_parameters()}
    cuts = list(accumulate((shape.numel() for shape in shapes.values()), initial=0))
    flat = torch.stack([torch.stack([_flat(student) for student in some]) for some in students]).requires_grad_(True)
    tops = torch.tensor(rates).to(flat)[..., None]

    def call(numbers: Tensor, x: Tensor, stored: Callable[[Tensor], Tensor]) -> Tensor:
        parameters = {
            name: stored(numbers[a:b].reshape(shape))
            for (name, shape), (a, b) in zip(shapes.items(), pairwise(cuts), strict=True)
        }
        return functional_call(one, parameters, (x,))

    def rounded_through(p: Tensor) -> Tensor:
        assert n_bits is not None
        return p + (round_as_stored(p.detach(), n_bits) - p.detach())

    whole, in_bits = (
        vmap(vmap(partial(call, stored=stored), in_dims=(0, None))) for stored in (lambda p: p, rounded_through)
    )
    first, second = torch.zeros_like(flat), torch.zeros_like(flat)
    draws = torch.arange(len(inputs))[:, None]
    n_made = round(share * batch_size)
    for t in range(steps):
        rows = torch.randint(n_real, (len(inputs), batch_size), generator=generator)
        if n_made:
            rows[:, :n_made] = torch.randint(n_real, inputs.shape[1], (len(inputs), n_made), generator=generator)
        every = whole if n_bits is None or t < ROUNDED_FROM * steps else in_bits
        loss = distance(every(flat, inputs[draws, rows]), known[draws, rows][:, None]).sum()
        (gradient,) = torch.autograd.grad(loss, flat)
        first.lerp_(gradient, 1.0 - _BETAS[0])
        second.mul_(_BETAS[1]).addcmul_(gradient, gradient, value=1.0 - _BETAS[1])
        size = (second / (1.0 - _BETAS[1] ** (t + 1))).sqrt_().add_(_TINY)
        with torch.no_grad():
            flat -= tops * (rate_at((t + 0.5) / steps) / (1.0 - _BETAS[0] ** (t + 1))) * first / size
        report(t + 1)
    return [[_with_parameters(one, numbers, n_bits) for numbers in some] for some in flat.detach()]


def round_as_stored(p: Tensor, n_bits: int) -> Tensor:
    """Matrices as whole numbers of so many bits times a scale for each row, everything else in 16 bits."""
    if p.ndim < 2:
        return p.half().to(p)
    codes, scale = round_rows(p, n_bits)
    return codes * scale.to(p)[:, None]


def rate_at(done: float) -> float:
    """Share of the largest rate, after this share of the training."""
    return done / _WARM if done < _WARM else 0.5 * (1.0 + cos(pi * min(1.0, (done - _WARM) / (1.0 - _WARM))))


def _flat(student: nn.Module) -> Tensor:
    return torch.cat([p.detach().flatten() for p in student.parameters()])


def _with_parameters(one: nn.Module, numbers: Tensor, n_bits: int | None) -> nn.Module:
    own = copy.deepcopy(one)
    nn.utils.vector_to_parameters(numbers.clone(), own.parameters())
    if n_bits is not None:
        with torch.no_grad():
            for p in own.parameters():
                p.copy_(round_as_stored(p, n_bits))
    return own.eval()
