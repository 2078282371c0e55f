"""What kind of state-space model is asked for, which of its numbers a fit may move, and which of them are redundant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from jaxtyping import Bool, Float
from numpy import ndarray

from ..._support._arguments import as_count
from ..._support._errors import InputError, short_repr
from ...bases import AbstractBasis, LayerBasis, Monomial, Spline, Tanh, Trigonometric
from ...fit._settings import layer_bases
from ...model._canonical_form import first_largest
from ...model._decoupling import Decoupling
from ..free_run._step import StepArrays

Tails = Literal["linear", "constant"]
_FAR, _FARTHER, _SAME_SIZE = 1e3, 1e6, 2.0  # in half domains: a bounded function has about the same size there
_INTEGRATES = 1e-2  # distance of a pole from 1 below which constants of the state are free: they add up over time
_NO_LINE = 1e-9  # coefficients of a straight line that are nothing but rounding
_DEPENDENT = 1e-9  # of its length: a row that is no farther from those before depends on them


_BASES: dict[str, AbstractBasis] = {
    "cubic": Monomial(3),
    "tanh": Tanh(),
    "spline": Spline(8),
    "wave": Trigonometric(2),
}


@dataclass(frozen=True)
class StateFunction:
    """A function of the state alone that acts on the state alone, centred at the mean of the training data.

    It has fewer numbers than a function of states and inputs that also reaches the output. It extrapolates better
    if the physics are such, as with friction of a velocity or a spring of a position.

    Parameters
    ----------
    basis : AbstractBasis
        The basis of the function.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.sysid.StateFunction(dc.bases.Tanh())
    StateFunction(basis=Tanh())
    """

    basis: AbstractBasis

    def __post_init__(self) -> None:
        if not isinstance(self.basis, AbstractBasis):
            raise InputError(f"`basis` must be a basis such as dc.bases.Tanh(). Got {short_repr(self.basis)}.")


@dataclass(frozen=True)
class StateSpaceStructure:
    """The size of a model and what it may depend on.

    Attributes
    ----------
    state_only
        Functions of the first layer that depend on states alone, are centred, and act on states alone.
    fixed_functions
        Only the weights of functions on states and outputs move, not the functions themselves.
    stable
        Every bounded input has a bounded output: functions are bounded, and all poles of A inside the unit circle.
    n_delayed
        The last states, which keep past inputs and belong to a delay: nothing of them was fitted.
    causal
        Inputs between samples are predicted from present and past ones.
    """

    n_states: int
    layers: tuple[LayerBasis, ...]
    state_only: tuple[bool, ...]
    oversample: int = 1
    feedback: bool = True
    feedthrough: bool = True
    integrating: bool = False
    fixed_functions: bool = False
    stable: bool = False
    n_delayed: int = 0
    causal: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_states", as_count("n_states", self.n_states))
        object.__setattr__(self, "oversample", as_count("oversample", self.oversample))
        for name in ("feedback", "feedthrough", "integrating", "stable", "causal"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        if not self.feedback and self.n_states < 2:
            raise InputError("`n_states` must be at least 2 without feedback: one for each linear block. Got 1.")
        if self.integrating and not self.feedback:
            raise InputError("`integrating` must go with `feedback`. Got a model without it.")
        if self.stable:
            if self.integrating:
                raise InputError("`stable` must be False with `integrating`: an integrator is not stable. Got True.")
            layers = tuple(LayerBasis(tuple(ended(b, "constant") for b in layer.bases)) for layer in self.layers)
            object.__setattr__(self, "layers", layers)
            for basis in layers[-1].bases:
                if not is_bounded(basis):
                    raise InputError(f"`functions` must be bounded for a `stable` model. Got {short_repr(basis)}.")

    @property
    def coarse(self) -> StateSpaceStructure:
        """The same with functions of fewer coefficients, which are found faster."""
        return replace(self, layers=tuple(layer.coarser() for layer in self.layers))

    def n_integrators(self, n_outputs: int) -> int:
        """The first states, which add up and are the outputs."""
        return n_outputs if self.integrating else 0

    def free_entries(self, step: StepArrays, front: Bool[ndarray, " n"] | None = None) -> dict[str, ndarray]:
        """Which entries of a model of this structure may move: a mask by the name of a part.

        With `front`, functions depend on those states and act on the others alone, and the others do not act back: no
        feedback around the functions.
        """
        n, L = self.n_states, step.n_layers
        p, state_only = step.n_outputs - n, np.array(self.state_only)
        linear = np.ones(step.linear.shape, dtype=bool)
        W = [np.ones(w.shape, dtype=bool) for w in step.W]
        if not self.feedthrough:
            linear[n:, n:] = False
            W[-1][n:] = False
        if front is not None:
            linear[:n, :n] = ~(front[:, None] & ~front)
            W[0][:, :n] = front
            W[-1][:n] = ~front[:, None]
        # Another zero of the state takes up constants of it, unless the state integrates them.
        integrates = np.abs(np.linalg.eigvals(step.linear[:n, :n]) - 1.0).min() < _INTEGRATES
        offset = np.r_[np.full(n, integrates), np.ones(p, dtype=bool)]
        # States that integrate are the outputs: their columns of A stay, C too, and a constant is a force on what
        # drives them.
        if k := self.n_integrators(p):
            linear[:, :k] = linear[n:] = W[-1][n:] = False
            offset[:] = False
            offset[k : 2 * k] = True
        W[0][state_only, n:] = False
        if L == 1:
            W[1][n:, state_only] = False
        free: dict[str, ndarray] = {"linear": linear, "offset": offset}
        coefficients = free_coefficients(step)
        for l, layer in enumerate(step.layers, start=1):
            free |= {f"W{l - 1}": W[l - 1], f"g{l}": coefficients[f"g{l}"], f"middle{l}": layer.free_domain.copy()}
        free["middle1"][state_only] = False
        if self.fixed_functions:
            free |= {name: np.zeros_like(free[name]) for name in ("W0", "g1", "middle1")}
        return free | {f"W{L}": W[L]}

    def n_redundant(self, n_outputs: int, n_front: int | None) -> int:
        """How many of the numbers that a fit may move other coordinates and scales could fix.

        n^2 by the coordinates of the state, those of two blocks of states, or those of the states beside integrators.
        One per function with several coefficients, whose size is that of its weights too; and one more if a scale of
        the argument changes coefficients only.
        """
        n, k = self.n_states - self.n_delayed, self.n_integrators(n_outputs)
        of_state = (n - k) ** 2 if n_front is None else n_front**2 + (n - n_front) ** 2
        bases = [basis for layer in self.layers for basis in layer.bases]
        return of_state + sum((basis.size > 1) + absorbs_scale(basis) for basis in bases)


def absorbs_scale(basis: AbstractBasis) -> bool:
    """Whether a scale of the argument is the same as other coefficients."""
    return basis.polynomial_degree is not None and basis.size > 1


def free_coefficients(step: StepArrays) -> dict[str, ndarray]:
    """Which coefficients of functions may move.

    Straight lines belong to A, ..., D: a coefficient of a single layer that is one stays 0. The one coefficient of a
    curve is in W_L.
    """
    free = {}
    for l, functions in enumerate(step.g, start=1):
        mask = np.zeros((functions.rank, functions.degree), dtype=bool)
        for j, basis in enumerate(functions.layer.bases):
            line = basis.line()
            mask[j, : basis.size] = basis.size > 1
            if step.n_layers == 1 and line is not None and np.count_nonzero(np.abs(line) > _NO_LINE) == 1:
                mask[j, : basis.size] &= np.abs(line[1:]) <= _NO_LINE
        free[f"g{l}"] = mask
    return free


def read_layers(
    functions: Any, ranks: Any, degrees: Any, basis: Any
) -> tuple[tuple[LayerBasis, ...], tuple[bool, ...]]:
    """The bases of all layers, and which functions of the first are `StateFunction`s."""
    if functions is not None:
        if ranks is not None or degrees is not None:
            raise InputError("`functions` must be given without `ranks` and `degrees`. Got both.")
        listed = list(functions) if isinstance(functions, Sequence) and not isinstance(functions, str) else []
        if not listed or not all(isinstance(f, AbstractBasis | StateFunction) for f in listed):
            raise InputError(
                "`functions` must be a list with one basis per function, such as [dc.Monomial(3), dc.bases.Tanh()]. "
                f"Got {short_repr(functions)}."
            )
        state_only = tuple(isinstance(f, StateFunction) for f in listed)
        return (LayerBasis(tuple(f.basis if isinstance(f, StateFunction) else f for f in listed)),), state_only
    layers = layer_bases(2 if ranks is None else ranks, 3 if ranks is None and degrees is None else degrees, basis)
    return layers, (False,) * len(layers[0].bases)


def functions_called(words: str) -> tuple[tuple[LayerBasis, ...], tuple[bool, ...]]:
    """One layer of functions by their names: "cubic, state-tanh" is a cubic and a tanh of the state alone."""
    found: list[Any] = []
    for name in words.split(", "):
        basis = _BASES[name.removeprefix("state-")]
        found.append(StateFunction(basis) if name.startswith("state-") else basis)
    return read_layers(found, None, None, Monomial)


def canonical_form(step: Decoupling, n: int, *, feedback: bool) -> tuple[Decoupling, Float[ndarray, "n n"]]:
    """The same step with states that are outputs and their successors, and T if the old state is T times the new.

    Without feedback the states keep their coordinates: others would mix the two linear blocks.
    """
    T = np.linalg.inv(_observability_rows(step, n)) if feedback else np.eye(n)
    other = StepArrays.of(step).in_states(T).decoupling(step.inputs, step.outputs)
    for l, functions in enumerate(other.g, start=1):
        W = other.W[l - 1]
        largest = W[np.arange(len(W)), first_largest(W, axis=1)]
        scales = np.array([absorbs_scale(basis) for basis in functions.layer.bases]) & (largest != 0.0)
        positive = np.where(functions.turns_around, largest, np.abs(largest))
        other = other.scaled(l, 1.0 / np.where(scales, positive, 1.0), np.ones(len(W)))
        C = other.g[l - 1].C[:, 1:]
        size = C[np.arange(len(C)), first_largest(C, axis=1)]
        other = other.scaled(l, np.ones(len(W)), 1.0 / np.where(size != 0.0, size, 1.0))
    return other, T


def _observability_rows(step: Decoupling, n: int) -> Float[ndarray, "n n"]:
    """The first n independent rows of C, C A, C A^2, ..."""
    assert step.linear is not None
    A, block = step.linear[:n, :n], step.linear[n:, :n]
    rows: list[ndarray] = []
    for _ in range(n):
        for row in block:
            left = row - (np.linalg.lstsq(np.array(rows).T, row, rcond=None)[0] @ np.array(rows) if rows else 0.0)
            if len(rows) < n and np.linalg.norm(left) > _DEPENDENT * np.linalg.norm(row):
                rows.append(row)
        block = block @ A
    if len(rows) < n:
        raise InputError(
            f"The outputs must depend on all {n} states for a canonical form. Only {len(rows)} can be seen in them: "
            "lower `n_states`."
        )
    return np.array(rows)


def ended(basis: AbstractBasis, tails: Tails) -> AbstractBasis:
    """The basis whose functions have these tails, for polynomials and splines."""
    if isinstance(basis, Spline):
        return replace(basis, tails=tails)
    degree = basis.polynomial_degree
    return basis if degree is None else Spline(1, degree, tails)


def is_bounded(basis: AbstractBasis) -> bool:
    """Whether no function of a basis grows without end."""
    with np.errstate(all="ignore"):
        near, far = (np.abs(basis.evaluate(np.array([-t, t]))).max() for t in (_FAR, _FARTHER))
    return bool(far <= _SAME_SIZE * near)
