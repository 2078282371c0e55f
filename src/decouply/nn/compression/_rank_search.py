"""How many functions each part gets: the fewest within an accepted drop of the score, or what a budget allows."""

from __future__ import annotations

import warnings

import numpy as np

from ..._support._errors import DecouplingWarning, InputError
from ..carving._part import Part
from ..layer._quantisation import count_parameters, stored_bytes
from ..training._distillation import Distil, refine
from ._budget import Budget, allocate_ranks, equal_ranks, price_of
from ._pipeline import MAX_START_INPUTS, Candidate, CompressionRun
from ._report import multiply_adds
from ._score import outputs_on, relative_error

_GROWTH = 1.5  # of the number of functions from one attempt to the next, until the score is good enough
_TRIAL_STEPS = 300  # of a training that measures how sensitive the network is to a part
_TRIAL_INPUTS = 2000  # of the network, at which that is measured


def fewest_functions(run: CompressionRun, before: float, max_drop: float) -> Candidate:
    """The fewest functions, in one layer, whose drop is acceptable, or the best that is smaller than the part."""
    part = run.first
    m, n, d = part.inputs.shape[1], part.values.shape[1], _n_coefficients(run)
    allowed = count_parameters(part.function)
    has_offset = run.fitting.start == "random"  # instead of a constant per function
    most = (allowed - 1 - n) // (m + n + d) if has_offset else (allowed - 1) // (m + n + d + 1)
    if most < 1:
        raise InputError(
            f"`parts` must be larger: {part.name} has {allowed} parameters, fewer than any decoupling with {m} inputs "
            f"and {n} outputs. There is nothing to save."
        )
    samples = run.sample(part)

    def evaluate_rank(rank: int) -> Candidate:
        network, replaced = run.place(part, samples, (rank,))
        found = run.finish(network, [replaced])
        run.clock.best_summary = f"{rank} functions score {found.score:.4g}"
        return found

    failed, rank = 0, min(max(1, n // 2), most)
    best = found = evaluate_rank(rank)
    while not before - found.score <= max_drop:
        best = max(best, found, key=lambda one: one.order)
        if rank == most or run.clock.search_is_over:
            if rank < most and not run.clock.stopped:
                warnings.warn(
                    f"`max_seconds` was reached before a rank within `max_drop` was found: ranks up to {rank} of "
                    f"{most} were tried, and the best of them is returned. Raise `max_seconds` or `max_drop`, or give "
                    "`ranks`.",
                    DecouplingWarning,
                    stacklevel=3,
                )
            return best
        failed, rank = rank, min(most, max(rank + 1, round(_GROWTH * rank)))
        found = evaluate_rank(rank)
    while rank - failed > 1 and not run.clock.search_is_over:
        middle = (failed + rank) // 2
        fewer = evaluate_rank(middle)
        if before - fewer.score <= max_drop:
            rank, found = middle, fewer
        else:
            failed = middle
    return found


def ranks_within(run: CompressionRun, budget: Budget) -> list[tuple[int, ...]]:
    """Ranks within a budget, by the error that a short trial replacement of each part causes in the network."""
    parts = [run.carve(run.network, name) for name in run.names]
    prices, before = [], []
    for part in parts:
        n_parameters = count_parameters(part.function)
        sizes = part.inputs.shape[1], part.values.shape[1], _n_coefficients(run)
        prices.append(price_of(part.name, budget.unit, sizes, n_parameters, part.n_positions, run.training.quantize))
        macs = multiply_adds(part.carved.part, part.arrays.to(run.device))
        cost = {"parameters": n_parameters, "macs": macs, "bytes": stored_bytes(part.carved.part, run.short_types)}
        before.append(cost[budget.unit])
    total = budget.allows(before)
    ranks = allocate_ranks(prices, total, [1.0] * len(parts))  # complains before the trials
    if len(parts) > 1:
        sensitivities = []
        for k, (part, rank) in enumerate(zip(parts, equal_ranks(prices, total), strict=True)):
            run.clock.report(stage=f"trying {part.name}, {k + 1} of {len(parts)}", done=k, total=len(parts))
            sensitivities.append(rank * _trial_error(run, part, rank))
        ranks = allocate_ranks(prices, total, sensitivities)
    return [(r,) for r in ranks]


def _trial_error(run: CompressionRun, part: Part, rank: int) -> float:
    """Squared relative error of the network's outputs with a layer of this rank that is trained for a moment."""
    rng = np.random.default_rng(0)
    X, F = part.inputs[:MAX_START_INPUTS], part.values[:MAX_START_INPUTS]
    layer = refine(
        run.random_layer(part, (rank,), X, F, rng),
        part.function,
        part.inputs,
        Distil(_TRIAL_STEPS, loss=run.loss(part), mixup=0.0),
        values=part.values,
        rng=rng,
        progress=False,
    )
    some = run.split.fitted[:_TRIAL_INPUTS]
    wanted, got = (outputs_on(network, some) for network in (run.network, part.network(layer)))
    return max(relative_error(got, wanted) ** 2, 1e-12)


def _n_coefficients(run: CompressionRun) -> int:
    """Coefficients of one function, without its constant."""
    return run.degrees[0] if run.fitting.basis is None else run.fitting.basis.size
