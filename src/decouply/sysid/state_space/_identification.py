"""What is known of a dynamic model that was found: what it was compared with, and whether it can be trusted."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy import ndarray

from ..free_run._fit import FitResult
from ._decoupled import DecoupledStateSpace
from ._initial_models import Candidate
from ._structure import StateSpaceStructure

AT_ROUNDING = 1e-10  # errors below this share of the signal are equal
_AGREE = 1.05  # starts that end within this factor of the best have found the same


@dataclass(frozen=True)
class TriedModel:
    """One kind of model: errors of its simulation, as shares of the standard deviation of y.

    Attributes
    ----------
    n_states, functions : int, str
        What it is made of; no functions is a linear model.
    n_parameters : int
        Of the canonical form.
    training, validation : float
        On the data that were fitted to, and on those that were held back; infinite if the run leaves all bounds.
    starts : int
        How many starts were made.
    note : str
        "chosen", or why the model was not taken although no other was better.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 120)
    >>> y = np.zeros(120)
    >>> for t in range(1, 120):
    ...     y[t] = 0.5 * y[t - 1] + u[t - 1]
    >>> found = dc.sysid.identify(u, y, n_states=1, functions=[dc.Monomial(3)])
    >>> row = next(row for row in found.tried if row.note == "chosen")
    >>> row.n_states, row.functions, row.note
    (1, '', 'chosen')
    """

    n_states: int
    functions: str
    n_parameters: int
    training: float
    validation: float
    starts: int = 1
    note: str = ""


@dataclass(frozen=True, eq=False)
class End:
    """The end of a start: its error on validation data, and the input on which it runs away, if there is one.

    Only one that was taken to the end has been tried on such inputs. `larger` is its answer to one of them.
    """

    fit: FitResult
    candidate: Candidate
    error: float
    escapes_on: str | None = None
    is_finished: bool = False
    larger: ndarray | None = None

    @property
    def rank(self) -> tuple[bool, bool, float]:
        return not self.is_finished, self.escapes_on is not None, self.error


@dataclass(eq=False)
class Kind:
    """A structure, and where its starts have ended."""

    words: str
    structure: StateSpaceStructure
    rate: float | None = None  # of a wave of an angle
    ends: list[End] = field(default_factory=list)
    note: str = ""

    @property
    def best(self) -> End:
        """The best end that stays bounded, or the best of all if none does; unfinished ones come last."""
        return min(self.ends, key=lambda end: end.rank)

    @property
    def error(self) -> float:
        return self.best.error if self.ends else math.inf

    @property
    def agreement(self) -> tuple[int, int]:
        """How many starts have ended near the best of them, and how many there were."""
        errors = [end.error for end in self.ends]
        return sum(error <= max(_AGREE * min(errors), AT_ROUNDING) for error in errors), len(errors)

    def n_parameters(self, n_outputs: int) -> int:
        return self.best.candidate.parameters(self.best.fit.step).count - self.structure.n_redundant(n_outputs, None)

    def row(self, n_outputs: int) -> TriedModel:
        note = self.note or (f"diverges on {self.best.escapes_on}" if self.best.escapes_on else "")
        note = note or ("" if math.isfinite(self.error) else "diverges on validation data")
        return TriedModel(
            self.structure.n_states, self.words, self.n_parameters(n_outputs), self.best.fit.rmse, self.error,
            len(self.ends), note,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Identification:
    """What `identify` returns: a model, what it was compared with, and what is known of it.

    Attributes
    ----------
    model : DecoupledStateSpace
        The best model that passed all checks, fitted to all data. It may be linear.
    tried : tuple of TriedModel
        One row per kind of model, in the order in which they were tried.
    verdict : str
        Sentences: how good it is, whether its simulation stays bounded, whether restarts agree.
    is_bounded : bool
        Whether its simulation stayed in bounds on all inputs that it was tried on.
    agreement : tuple of int
        How many restarts of the chosen kind ended within 5 % of the best on validation data, and how many there were.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> u = np.random.default_rng(0).uniform(-1, 1, 120)
    >>> y = np.zeros(120)
    >>> for t in range(1, 120):
    ...     y[t] = 0.5 * y[t - 1] + u[t - 1]
    >>> found = dc.sysid.identify(u, y, n_states=1, functions=[dc.Monomial(3)])
    >>> found.is_bounded, [row.functions for row in found.tried if row.note == "chosen"]
    (True, [''])
    """

    model: DecoupledStateSpace
    tried: tuple[TriedModel, ...]
    verdict: str
    is_bounded: bool
    agreement: tuple[int, int]

    def simulate(self, u: object, y_init: Any = None) -> ndarray:
        """As `model.simulate`."""
        return self.model.simulate(u, y_init)

    def save(self, path: Any) -> None:
        """As `model.save`."""
        self.model.save(path)

    def report(self, path: Any, u: object = None, y: object = None, **options: Any) -> None:
        """As `model.report`."""
        self.model.report(path, u, y, **options)

    def __str__(self) -> str:
        head = ("states", "functions", "parameters", "training %", "validation %", "starts", "")
        rows = [
            (str(r.n_states), r.functions or "linear", str(r.n_parameters), _percent(r.training),
             _percent(r.validation), str(r.starts), r.note)
            for r in self.tried
        ]  # fmt: skip
        widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
        lines = [
            "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
        ]
        return "\n".join([repr(self.model), self.verdict, "", *lines])


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g}" if np.isfinite(share) else "diverges"
