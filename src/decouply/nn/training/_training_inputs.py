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

CHUNK = 8192
FEW_INPUTS = 2000  # inputs; below this all of a batch is recombined, above it a quarter
_EXCHANGED = 0.5  # largest share of the coordinates that comes from another input
_SCALED = 0.3  # largest change of size
_POOL = 60_000  # recombined inputs, or as many as fit ...
_POOL_NUMBERS = 2**26  # ... into so many numbers


@dataclass(frozen=True, eq=False)
class TrainingInputs:
    """Inputs (N, m), those given first and recombined ones behind them, with what the part gives (N, n)."""

    inputs: Tensor
    values: Tensor
    n_given: int
    batch_size: int
    n_recombined: int  # of a batch

    @classmethod
    def of(
        cls,
        given: Tensor,
        values: Tensor | None,
        ask: Callable[[Tensor], Tensor],
        batch_size: int,
        recombined: float | None,
        generator: torch.Generator,
    ) -> TrainingInputs:
        """All of them; `ask` is the part, and `values` are what it gives at the inputs, where that is known."""
        share = (1.0 if len(given) < FEW_INPUTS else 0.25) if recombined is None else recombined
        n_recombined = round(share * batch_size)
        count = min(_POOL, max(batch_size, _POOL_NUMBERS // given.shape[1])) if n_recombined else 0
        inputs = torch.cat([given, mixup_inputs(given, count, generator)])
        told = [] if values is None else [values]
        asked = inputs[len(given) :] if told else inputs
        answers = [ask(asked[rows]) for rows in chunks(len(asked), CHUNK)] if len(asked) else []
        return cls(inputs, torch.cat([*told, *answers]), len(given), batch_size, n_recombined)

    def draw(self, generator: torch.Generator) -> Tensor:
        """Rows of one batch."""
        rows = torch.randint(self.n_given, (self.batch_size,), generator=generator)
        if self.n_recombined:
            count = len(self.inputs) - self.n_given
            rows[: self.n_recombined] = self.n_given + torch.randint(count, (self.n_recombined,), generator=generator)
        return rows.to(self.inputs.device)


def mixup_inputs(X: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Inputs made of two others each: up to half of the coordinates from the second, all of them scaled alike."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=X.dtype).to(X.device)

    first, second = torch.randint(len(X), (2, count), generator=generator).to(X.device)
    swapped = uniform(count, X.shape[1]) < _EXCHANGED * uniform(count, 1)
    return torch.where(swapped, X[second], X[first]) * (1.0 + _SCALED * (2.0 * uniform(count, 1) - 1.0))
