"""How the rate of a training goes: up over the first tenth of the steps, then down along a cosine."""

from __future__ import annotations

import math

import torch


def rise_and_fall(optimiser: torch.optim.Optimizer, steps: int) -> torch.optim.lr_scheduler.LambdaLR:
    """A schedule over so many steps, from near 0 to the full rate and back to 0."""
    warm = max(1, steps // 10)

    def share(t: int) -> float:
        return (t + 1) / warm if t < warm else 0.5 * (1.0 + math.cos(math.pi * (t - warm) / max(1, steps - warm)))

    return torch.optim.lr_scheduler.LambdaLR(optimiser, share)
