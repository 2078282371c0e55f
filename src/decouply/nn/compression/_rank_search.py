"""How many functions each part gets: the fewest within an accepted drop of the score, or what a budget allows.

A budget is allocated by each part's effect on the network. The error that a part brings to the network is taken to fall
like s / r in its number of functions r, with s measured by a short trial. The least sum of errors within a budget, if a
function of part i costs c_i, then has r_i proportional to sqrt(s_i / c_i).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._support._errors import DecouplingWarning, InputError
from ..layer._quantisation import count_parameters, stored_bytes
from ..training._distillation import Distil, refine
from ._evaluation import multiply_adds, outputs_on, relative_error
from ._options import Budget
from ._pipeline import MAX_START_INPUTS, Candidate, CompressionRun, Size

_GROWTH = 1.5  # of the number of functions from one attempt to the next, until the score is good enough
_TRIAL_STEPS = 300  # of a training that measures how sensitive the network is to a part
_TRIAL_INPUTS = 2000  # of the network, at which that is measured
_BYTES_PER_FLOAT = 4


def fewest_functions(run: CompressionRun, before: float, max_drop: float) -> Candidate:
    """The fewest functions, in one layer, whose drop is acceptable, or the best that is smaller than the part."""
    part = run.first
    m, n, d = part.inputs.shape[1], part.values.shape[1], run.n_coefficients
    allowed = count_parameters(part.function)
    has_offset = run.fitting.start == "random" or run.like_networks  # instead of a constant per function
    most = (allowed - 1 - n) // (m + n + d) if has_offset else (allowed - 1) // (m + n + d + 1)
    if most < 1:
        raise InputError(
            f"`parts` must be larger: {part.name} has {allowed} parameters, fewer than any decoupling with {m} inputs "
            f"and {n} outputs. There is nothing to save."
        )
    samples = None if run.like_networks else run.sample(part)

    def evaluate_rank(rank: int) -> Candidate:
        # What one layer of so many functions costs, activations may spend on several.
        size: Size = n + rank * (m + n + d) if run.like_networks else (rank,)
        network, new = run.replace_part(part, size, samples)
        found = run.finish(network, [new])
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


def sizes_within(run: CompressionRun, budget: Budget) -> list[Size]:
    """Sizes within a budget, by the error that a short trial replacement of each part causes in the network."""
    parts = [run.carve(run.network, name) for name in run.names]
    prices: list[Price] = []
    before: list[float | None] = []
    for part in parts:
        n_parameters = count_parameters(part.function)
        sizes = part.inputs.shape[1], part.values.shape[1], run.n_coefficients
        prices.append(price_of(part.name, budget.unit, sizes, n_parameters, part.n_positions, run.training.quantize))
        if budget.unit == "parameters":
            before.append(n_parameters)
        elif budget.unit == "macs":
            before.append(multiply_adds(part.carved.part, part.arrays.to(run.device)))
        else:
            before.append(stored_bytes(part.carved.part, run.short_types))
    total = budget.allows(before)
    ranks = allocate_ranks(prices, total, [1.0] * len(parts))  # complains before the trials

    def sizes_of(ranks: list[int]) -> list[Size]:
        if not run.like_networks:
            return [(r,) for r in ranks]
        if len(parts) == 1 and budget.unit == "parameters":
            return [int(total)]
        ends = [(part.inputs.shape[1], part.values.shape[1]) for part in parts]
        return [n + r * (m + n + run.n_coefficients) for r, (m, n) in zip(ranks, ends, strict=True)]

    if len(parts) == 1:
        return sizes_of(ranks)
    # The squared relative error of the network's outputs with a layer that is trained for a moment, part by part.
    some = run.split.fitted[:_TRIAL_INPUTS]
    wanted = outputs_on(run.network, some)
    free = total - sum(one.fixed for one in prices)
    sensitivities = []
    for k, (part, price) in enumerate(zip(parts, prices, strict=True)):
        run.clock.report(stage=f"trying {part.name}, {k + 1} of {len(parts)}", done=k, total=len(parts))
        rank = min(price.most, max(1, int(free / len(parts) / price.each)))  # the same share for every part
        rng = np.random.default_rng(0)
        X, F = part.inputs[:MAX_START_INPUTS], part.values[:MAX_START_INPUTS]
        layer = run.random_layer(part, (rank,), X, F, rng)
        how = Distil(_TRIAL_STEPS, loss=run.loss(part), mixup=0.0)
        layer = refine(layer, part.function, part.inputs, how, values=part.values, rng=rng, progress=False)
        error = relative_error(outputs_on(part.place(layer), some), wanted)
        sensitivities.append(rank * max(error**2, 1e-12))
    return sizes_of(allocate_ranks(prices, total, sensitivities))


@dataclass(frozen=True)
class Price:
    """What a decoupling of a part costs: so much, and so much more for each function."""

    name: str
    fixed: float
    each: float
    most: int  # functions

    def of(self, rank: int) -> float:
        return self.fixed + rank * self.each


def price_of(
    name: str, unit: str, sizes: tuple[int, int, int], before: int, n_positions: int, n_bits: int | None
) -> Price:
    """The price of functions of d parameters between m inputs and n outputs, for a part with this many parameters."""
    m, n, d = sizes
    fixed, each = n, m + n + d
    most = max(1, (before - 1 - fixed) // each)
    if unit == "parameters":
        return Price(name, fixed, each, most)
    if unit == "macs":
        return Price(name, 0, n_positions * (each + 1), most)
    if n_bits is None:  # with the middle and the width of each domain
        return Price(name, _BYTES_PER_FLOAT * (fixed + 2), _BYTES_PER_FLOAT * (each + 2), most)
    return Price(name, 4 * n, each * n_bits / 8 + 10, most)  # scales, constants and domains in 16 bits


def allocate_ranks(prices: Sequence[Price], total: float, sensitivities: Sequence[float]) -> list[int]:
    """Ranks within a total, at the least sum of sensitivity over rank."""
    least = sum(one.of(1) for one in prices)
    if total < least:
        names = ", ".join(one.name for one in prices)
        raise InputError(
            f"`budget` must allow one function per part: {least:.0f} for {names}. Got {total:.0f}: raise it, or name "
            "fewer parts."
        )
    ranks = [1] * len(prices)
    spent = least
    while True:
        gains: list[tuple[float, Any]] = [
            (s / (r * (r + 1)) / one.each, i)
            for i, (one, r, s) in enumerate(zip(prices, ranks, sensitivities, strict=True))
            if r < one.most and spent + one.each <= total
        ]
        if not gains:
            return ranks
        best = max(gains, key=lambda gain: gain[0])[1]
        ranks[best] += 1
        spent += prices[best].each
