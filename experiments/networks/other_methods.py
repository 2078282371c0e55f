"""What else could stand in the place of a part: students, the pruned part, the part of low rank, and the paper's rows.

Students are trained on the inputs that ours is trained on, recombined like those, with as many steps and the same
schedule. Each has three rates, and the best is taken on a tenth of the inputs, kept aside for this.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from decouply._support._errors import DecouplingWarning, InputError, SolverError
from decouply.fit._decouple import decouple
from decouply.model._decoupling import Decoupling
from decouply.nn import DecoupledLayer, sample
from decouply.nn.layer._decoupled_layer import layer_on
from decouply.nn.layer._quantisation import n_bytes, pack
from decouply.nn.training._training_inputs import FEW_INPUTS, mixup_inputs
from decouply.solvers import AbstractSolver, Proj, Stopping, TwoStage, Zniyed
from experiments.networks.baselines import dense, low_rank, n_parameters, prune, quantized_bytes, widths
from experiments.networks.batched_training import divergences, squared_errors, train_together
from experiments.networks.trained_networks import DEGREE, Original, Size, Training

POOL = 60_000  # as in `refine`: all of a batch is recombined where there are few inputs, a quarter otherwise
STUDENTS = ("ReLU, one hidden layer", "ReLU, two", "GELU, one hidden layer", "GELU, two")
OTHERS = ("pruned", "low rank")
STUDENTS_IN_BITS = ("ReLU, fewer bits", "GELU, fewer bits")
PAPER = ("Zniyed, as printed", "TS-PROJ, as printed")
STOPPING = Stopping(min_steps=15, max_steps=50, patience=20)


def parameters_of(size: Size, ends: tuple[int, int]) -> int:
    """Parameters of our one layer."""
    return size.rank * (sum(ends) + DEGREE + 1)


def train_students(
    method: str,
    at: Original,
    inputs: Sequence[Tensor],
    size: Size,
    how: Training,
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

    solver: AbstractSolver
    stopping = dataclasses.replace(STOPPING, iterate="last")
    if method.startswith("Zniyed"):
        solver = Zniyed(stopping=stopping)
    else:
        solver = TwoStage(Proj(weighted_projection=False, stopping=stopping), loss=worse)
    with warnings.catch_warnings():  # about functions that are not unique, which does not matter here
        warnings.simplefilter("ignore", DecouplingWarning)
        try:
            found = decouple(
                samples, (rank,), (DEGREE,), solver=solver, as_given=True, n_starts=1, rng=rng, progress=False
            )
            return layer_of(found.decoupling)
        except (SolverError, InputError):  # the second where numbers have grown beyond what a layer can hold
            return None
