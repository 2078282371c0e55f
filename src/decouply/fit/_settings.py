"""What `decouple` was asked, beside the samples and the solver: enough to ask it again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..samples._samples import Samples


@dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of one call of `decouple`.

    Attributes
    ----------
    ranks, degrees, basis
        As they were given.
    linear
        Whether the model has a linear part.
    as_given
        Whether the solver worked on the data as given.
    n_starts
        The number of starts that was allowed, also where it was left to the solver.
    rng
        The seed; or, where a generator was given, a copy of it as it was before the first random number was drawn.
    validation
        The samples to judge by, if there were any.
    shapes
        As they were given.
    """

    ranks: Any
    degrees: Any
    basis: Any
    linear: bool
    as_given: bool
    n_starts: int
    rng: int | np.random.Generator
    validation: Samples | None
    shapes: Any = None
