"""What a layer is trained on: inputs of a part, others made from them, and what the part gives at all of them.

The network can be asked at any point. More inputs are made from those given by exchanging some coordinates of one for
those of another, and by making the whole a little larger or smaller. Such inputs keep the range and most of the
structure of real ones and show the part between them. They are made once, so that it is asked once, not at every step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..carving._jacobian_sampling import chunks

ASKED_AT_ONCE = 8192  # inputs of a part that go through it at a time
FEW_INPUTS = 2000  # below this all of a batch is mixed, above it a quarter
_MIXED_SHARE = 0.25  # of a batch, with many inputs
_MAX_EXCHANGED = 0.5  # share of the coordinates that comes from another input
_MAX_RESCALED = 0.3  # change of size of an input
_MAX_MIXED = 60_000  # mixed inputs, or as many as fit ...
_MAX_MIXED_NUMBERS = 2**26  # ... into so many numbers


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
        batch_size: int,
        mixup: float | None,
        generator: torch.Generator,
    ) -> TrainingInputs:
        """Given and mixed inputs; `ask` is the part, and `values` are what it gives at those given, if known."""
        share = (1.0 if len(given) < FEW_INPUTS else _MIXED_SHARE) if mixup is None else mixup
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
