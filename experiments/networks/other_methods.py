"""What else could stand in the place of a part: students, the pruned part, the part of low rank, and the paper's rows.

Students are trained on the inputs that ours is trained on, recombined like those, with as many steps and the same
schedule. Each has three rates, and the best is taken on a tenth of the inputs, kept aside for this.

A network of a thousand parameters spends its time between operations, not in them. So copies that differ in their draw
of inputs, in their start and in their rate stand side by side in tensors, (draws, copies, ...), each step is one call
for all of them, and each is trained as if it were alone: Adam, a rate that rises over the first tenth of the steps and
falls to 0 along a cosine, batches drawn at random.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from decouply._support._errors import DecouplingWarning, InputError, SolverError
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.nn import DecoupledLayer, sample
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.nn.layer._quantisation import n_bytes, pack, round_rows
from decouply.nn.training._distillation import FEW_INPUTS, ROUNDED_FROM, mixup_inputs, rate_at
from experiments.networks.baselines import dense, low_rank, n_parameters, prune, quantized_bytes, widths
from experiments.networks.trained_networks import DEGREE, Original, Size, TrainingRates
from experiments.paper.network_compression import solver_of

Distance = Callable[[Tensor, Tensor], Tensor]
_BETAS, _TINY = (0.9, 0.99), 1e-8  # as `refine` has them
POOL = 60_000  # as in `refine`: all of a batch is recombined where there are few inputs, a quarter otherwise
STUDENTS = ("ReLU, one hidden layer", "ReLU, two", "GELU, one hidden layer", "GELU, two")
OTHERS = ("pruned", "low rank")
STUDENTS_IN_BITS = ("ReLU, fewer bits", "GELU, fewer bits")
PAPER = ("Zniyed, as printed", "TS-PROJ, as printed")


def parameters_of(size: Size, ends: tuple[int, int]) -> int:
    """Parameters of our one layer."""
    return size.rank * (sum(ends) + DEGREE + 1)


def train_students(
    method: str,
    at: Original,
    inputs: Sequence[Tensor],
    size: Size,
    how: TrainingRates,
    steps: int,
    seed: int,
    report: Callable[[int], None] = lambda _: None,
) -> list[tuple[nn.Module, float]]:
    """For every draw of inputs the student with the best of three rates, and that rate."""
    kept = max(1, len(inputs[0]) // 10)
    few = len(inputs[0]) < FEW_INPUTS
    pools, known, begun = [], [], []
    for run, X in enumerate(inputs):
        generator = torch.Generator().manual_seed(seed + run)
        real = X[kept:]
        pools.append(torch.cat([real, mixup_inputs(real, POOL, generator)]))
        values = at.values(pools[-1])
        known.append(values.log_softmax(1) if at.in_classes else values)
        torch.manual_seed(seed + run)
        begun.append([untrained_student(method, at, real, size) for _ in how.rates])
    trained = train_together(
        begun,
        [how.rates] * len(inputs),
        torch.stack(pools),
        torch.stack(known),
        divergences if at.in_classes else squared_errors,
        n_real=len(inputs[0]) - kept,
        share=1.0 if few else 0.25,
        steps=steps,
        batch_size=how.batch_size,
        generator=torch.Generator().manual_seed(seed),
        n_bits=size.packed[1] if method in STUDENTS_IN_BITS and size.packed is not None else None,
        report=report,
    )
    found = []
    for X, some in zip(inputs, trained, strict=True):
        judged = [at.distance(student, X[:kept]) for student in some]
        best = int(np.argmin([d if np.isfinite(d) else np.inf for d in judged]))
        found.append((some[best], how.rates[best]))
    return found


def untrained_student(method: str, at: Original, inputs: Tensor, size: Size) -> nn.Module:
    """A student of our size before it is trained; networks draw their numbers from torch's own generator."""
    budget = parameters_of(size, at.ends)
    if method in STUDENTS_IN_BITS:
        return dense((at.ends[0], width_in_bits(size, at.ends), at.ends[1]), _kind(method))
    if method in STUDENTS:
        return dense(student_widths(at.ends, budget, size.two if method.endswith("two") else None), _kind(method))
    return prune(at.part, inputs, budget) if method == "pruned" else low_rank(at.part, budget)


def width_in_bits(size: Size, ends: tuple[int, int]) -> int:
    """Hidden units of a student in few bits: as many as fit into the bytes of ours."""
    assert size.packed is not None
    rank, n_bits = size.packed
    ours = DecoupledLayer.of_sizes((ends[0], rank, ends[1]), DEGREE)
    most, width = n_bytes(pack(ours, n_bits)), 1
    while quantized_bytes(dense((ends[0], width + 1, ends[1]), nn.ReLU), n_bits) <= most:
        width += 1
    return width


def student_widths(ends: tuple[int, int], budget: int, two: tuple[int, int] | None) -> tuple[int, ...]:
    """Widths of a student. With two hidden layers: those of our two, or equal ones, whichever is more."""
    equal = widths(ends, budget, 1 if two is None else 2)
    ours = equal if two is None else (ends[0], *two, ends[1])
    return ours if n_parameters(equal) < n_parameters(ours) <= 1.03 * budget else equal


def _kind(method: str) -> Callable[[], nn.Module]:
    return nn.ReLU if method.startswith("ReLU") else nn.GELU


def layer_as_printed(
    method: str, at: Original, X: Tensor, rank: int, rng: np.random.Generator
) -> DecoupledLayer | None:
    """The paper's algorithms as printed, with Jacobians at X and lam by the score with labels. None: it failed."""
    samples = sample(at.part, X, progress=False)

    def layer_of(model: Decoupling) -> DecoupledLayer:
        return layer_on(model, samples.X, "extend")

    def worse(model: Decoupling) -> float:
        try:
            score = at.score(layer_of(model), test=False)
        except InputError:
            return np.inf
        return -score if np.isfinite(score) else np.inf

    solver = solver_of(method, worse, samples, (rank,), rng)
    with warnings.catch_warnings():  # about functions that are not unique, which does not matter here
        warnings.simplefilter("ignore", DecouplingWarning)
        try:
            found = decouple(
                samples, (rank,), (DEGREE,), solver=solver, as_given=True, n_starts=1, rng=rng, progress=False
            )
            return layer_of(found.decoupling)
        except (SolverError, InputError):  # the second where numbers have grown beyond what a layer can hold
            return None


# Many students at once


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
