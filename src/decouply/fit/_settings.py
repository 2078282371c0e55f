"""What `decouple` was asked, beside the samples: one object from the arguments of a call to the file of its result.

It knows the bases of every layer and the shape of every function. It counts the parameters of the model, and writes and
reads itself.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .. import solvers
from .._support._arguments import as_count, as_counts, as_number, is_word, plain
from .._support._errors import InputError, short_repr
from ..bases import AbstractBasis, LayerBasis, Monomial, Spline
from ..bases._abstract import ALL_SHAPES, MOST_FUNCTIONS
from ..model._decoupling import Decoupling
from ..samples._samples import Samples
from ..solvers import AbstractSolver, Stopping, VarPro
from ..solvers._shape_constraints import Shapes
from ..solvers.problem._problem import ModelShape
from ..solvers.problem._solver import fixed_parts, with_time_limit
from ..solvers.problem._start_distributions import MOST_STARTS

REFIT_SECONDS = 60.0  # for fitting a model again from itself, as for a search
_REFIT_STEPS = 200
_SHARE_BEFORE_SHAPES = 0.7  # of `max_seconds`: the rest is for the steps that give functions their shapes


@dataclass(frozen=True, eq=False)
class Settings:
    """The arguments of one call of `decouple`.

    Attributes
    ----------
    ranks, degrees, basis, shapes : int, sequence or None
        As they were given.
    linear : bool
        Whether the model has a linear part.
    solver : AbstractSolver or None
        As it was given; None for the default, `VarPro()`.
    as_given : bool
        Whether the solver worked on the data as given.
    n_starts : int or None
        The number of starts that was allowed. In a result it is a number even if the user left it to the solver.
    validation : Samples or None
        The validation samples, if there were any.
    rng : int or numpy Generator
        The seed. If the user gave a generator, a result has a copy of it from before the first random number.
    max_seconds : float or None
        The time limit of the fit, if there was one.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3)
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> result.settings.ranks, result.settings.degrees
    (1, 3)
    """

    ranks: Any
    degrees: Any = None
    basis: Any = None
    linear: bool = False
    solver: AbstractSolver | None = None
    as_given: bool = False
    n_starts: int | None = None
    validation: Samples | None = None
    rng: int | np.random.Generator = 0
    max_seconds: float | None = None
    shapes: Any = None

    @classmethod
    def of_model(
        cls,
        model: Decoupling,
        *,
        max_seconds: float = REFIT_SECONDS,
        max_steps: int = _REFIT_STEPS,
        fixed: Mapping[str, object] | None = None,
    ) -> Settings:
        """Keep the ranks, the bases and the `fixed` parts of a model, and fit everything else from there."""
        solver = VarPro(start=model, max_seconds=max_seconds, polish_steps=max_steps, fixed=fixed or {})
        bases = [g.layer.bases for g in model.g]
        return cls(model.ranks, None, bases, linear=model.linear is not None, solver=solver, n_starts=1)

    def check(self) -> None:
        """Raise `InputError` for arguments that are wrong whatever the samples."""
        if self.solver is not None and not isinstance(self.solver, AbstractSolver):
            raise InputError(
                f"`solver` must be a solver such as dc.Constr() or dc.TwoStage(dc.Proj()). Got "
                f"{short_repr(self.solver)}."
            )
        for name in ("linear", "as_given"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"`{name}` must be True or False. Got {short_repr(getattr(self, name))}.")
        if self.max_seconds is not None:
            as_number("max_seconds", self.max_seconds, above=True)
        if self.n_starts is not None:
            as_count("n_starts", self.n_starts, most=MOST_STARTS)
        if self.validation is not None and not isinstance(self.validation, Samples):
            raise InputError(f"`validation` must be dc.Samples. Got {type(self.validation).__name__}.")
        if self.shapes is not None and self.wishes is not None and self.fixed:
            raise InputError(
                f"`shapes` must be left out where the solver has fixed parts. Got {short_repr(self.shapes)}."
            )

    @cached_property
    def layers(self) -> tuple[LayerBasis, ...]:
        """The bases of every layer."""
        return layer_bases(self.ranks, self.degrees, self.basis)

    @cached_property
    def wishes(self) -> Shapes | None:
        """What every function must look like; None if nothing is asked of any."""
        return layer_shapes(self.shapes, self.layers)

    @property
    def method(self) -> AbstractSolver:
        """The solver with the time limit of its search."""
        if self.max_seconds is None:
            return VarPro() if self.solver is None else self.solver
        seconds = self.max_seconds if self.shapes is None else _SHARE_BEFORE_SHAPES * self.max_seconds
        return VarPro(max_seconds=seconds) if self.solver is None else with_time_limit(self.solver, seconds)

    @property
    def fixed(self) -> Mapping[str, object]:
        """The parts of the model that the user gave, by name."""
        return fixed_parts(self.method)

    @property
    def seconds(self) -> float:
        """The time limit; infinite without one."""
        return math.inf if self.max_seconds is None else float(self.max_seconds)

    def n_free(self, samples: Samples) -> int:
        """How many parameters of the model scalings leave free."""
        return ModelShape.of(samples, self.layers, linear=bool(self.linear)).n_free(values=samples.has_values)

    def recorded(self) -> Settings:
        """The settings for the record: with a number of starts, and a generator as it is now."""
        count = self.method.default_n_starts if self.n_starts is None else int(self.n_starts)
        return dataclasses.replace(self, n_starts=count, rng=copy.deepcopy(self.rng))

    def to_json(self) -> dict[str, Any]:
        """What a text can hold: all but the bases, which the model has, and the validation samples."""
        rng = self.rng.bit_generator.state if isinstance(self.rng, np.random.Generator) else self.rng
        names = ("degrees", "linear", "as_given", "n_starts", "max_seconds", "shapes")
        about = {name: getattr(self, name) for name in names} | {"ranks": self.ranks, "rng": rng}
        about["solver"] = None if self.solver is None else _described_solver(self.solver)
        about["fixed"] = sorted(self.fixed)
        found: dict[str, Any] = plain(about)
        return found

    @classmethod
    def from_json(cls, about: dict[str, Any], model: Decoupling, validation: Samples | None) -> Settings:
        """Read what `to_json` wrote. Bases and fixed parts are those of the model that was found.

        A solver of the user's own is not known here: `solver` is then None, and `about["solver"]` is not.
        """
        names = ("linear", "as_given", "n_starts", "max_seconds", "shapes")
        solver = None if about["solver"] is None else _read_solver(about["solver"], about["fixed"], model)
        bases = [g.layer.bases for g in model.g]
        known = {name: about[name] for name in names}
        rng = _read_rng(about["rng"])
        settings = cls(model.ranks, None, bases, solver=solver, validation=validation, rng=rng, **known)
        layer_shapes(settings.shapes, settings.layers)  # refuses what is none
        return settings


def _described_solver(solver: AbstractSolver | Stopping) -> dict[str, Any]:
    """The class and those of its fields that a text holds; a solver within a solver is described as well."""
    fields: dict[str, Any] = {}
    names: list[str] = [f.name for f in dataclasses.fields(solver)] if dataclasses.is_dataclass(solver) else []
    for name in names:
        value = getattr(solver, name)
        if isinstance(value, AbstractSolver | Stopping):
            fields[name] = _described_solver(value)
        elif value is None or isinstance(value, bool | int | float | str):
            fields[name] = value
    return {"name": type(solver).__name__, "fields": fields}


def _read_solver(described: Mapping[str, Any], fixed: Sequence[str], model: Decoupling) -> Any:
    """The solver again; None for a class that is not ours."""
    if described["name"] not in solvers.__all__:
        return None
    fields = {
        name: _read_solver(value, [], model) if isinstance(value, dict) else value
        for name, value in described["fields"].items()
    }
    if fixed:
        parts = {"W": model.W, "g": (None, *model.g)}
        fields["fixed"] = {name: parts[name[0]][int(name[1:])] for name in fixed}
    return getattr(solvers, described["name"])(**fields)


def _read_rng(rng: int | dict[str, Any]) -> int | np.random.Generator:
    """A seed, or a generator in the state that was written down."""
    if not isinstance(rng, dict):
        return int(rng)
    known = {"PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"}
    if rng["bit_generator"] not in known:
        raise ValueError(f"there is no generator {rng['bit_generator']}")
    bits = getattr(np.random, rng["bit_generator"])()
    bits.state = _with_arrays(rng)
    return np.random.Generator(bits)


def _with_arrays(state: Any) -> Any:
    """Lists of a state as the arrays of whole numbers that they were."""
    if isinstance(state, dict):
        return {key: _with_arrays(value) for key, value in state.items()}
    return np.array(state, dtype=np.uint64) if isinstance(state, list) else state


def layer_bases(ranks: Any, degrees: Any, basis: Any) -> tuple[LayerBasis, ...]:
    """The bases of every layer, as the arguments of `decouple` describe them; splines if they describe nothing."""
    if basis is None:
        basis = Spline() if degrees is None else Monomial
    ranks = as_counts("ranks", ranks, most=MOST_FUNCTIONS)
    sizes = None if degrees is None else as_counts("degrees", degrees, most=MOST_FUNCTIONS)
    if sizes is not None and len(sizes) != len(ranks):
        raise InputError(
            f"`degrees` must have one number per layer, like `ranks`: {len(ranks)}. Got {len(sizes)}: "
            f"{short_repr(degrees)}."
        )
    if isinstance(basis, type) and issubclass(basis, AbstractBasis):
        if sizes is None and needs_degree(basis):
            raise InputError(
                "`degrees` must be given with a basis class: one number per layer, such as (3, 3). Got None."
            )
        per_layer: Sequence[Any] = [basis()] * len(ranks) if sizes is None else [_make_basis(basis, d) for d in sizes]
    elif isinstance(basis, AbstractBasis):
        per_layer = [basis] * len(ranks)
    elif isinstance(basis, Sequence) and not isinstance(basis, str) and len(basis) == len(ranks):
        per_layer = [
            _make_basis(b, sizes[l]) if isinstance(b, type) and sizes is not None else b for l, b in enumerate(basis)
        ]
    else:
        raise InputError(
            f"`basis` must be a basis class, a basis, or one entry per layer ({len(ranks)}). Got {short_repr(basis)}."
        )
    layers = tuple(LayerBasis.of(b, r) for b, r in zip(per_layer, ranks, strict=True))
    found = tuple(layer.size for layer in layers)
    if sizes is not None and found != sizes:
        raise InputError(
            f"`degrees` must agree with `basis`, which has sizes {found}. Got {sizes}: leave `degrees` out."
        )
    return layers


def needs_degree(basis: type[AbstractBasis]) -> bool:
    """Whether a class needs a degree to make a basis."""
    fields = inspect.signature(basis).parameters.values()
    return any(field.default is field.empty for field in fields)


def _make_basis(basis: Callable[[int], AbstractBasis], degree: int) -> AbstractBasis:
    try:
        return basis(degree)
    except TypeError as error:
        raise InputError(
            f"`basis` must be a class that takes the degree alone, or a basis made from it. Got "
            f"{short_repr(basis)}: {error}."
        ) from error


def layer_shapes(shapes: Any, layers: tuple[LayerBasis, ...]) -> Shapes | None:
    """A word or None for every function, layer by layer; None if nothing is asked for.

    One word holds for all functions. Else there is one entry per function of a single layer, or one per layer, each a
    word, None or one entry per function.
    """
    if shapes is None:
        return None
    if isinstance(shapes, str):
        per_layer: Sequence[Any] = [shapes] * len(layers)
    elif not isinstance(shapes, Sequence):
        raise InputError(f'`shapes` must be a word such as "increasing" or a list of them. Got {short_repr(shapes)}.')
    elif len(layers) == 1 and not any(isinstance(entry, Sequence) and not isinstance(entry, str) for entry in shapes):
        per_layer = [shapes]
    else:
        per_layer = shapes
    if len(per_layer) != len(layers):
        raise InputError(
            f"`shapes` must have one entry per layer, {len(layers)} here. Got {len(per_layer)}: {short_repr(shapes)}."
        )
    wishes = tuple(_layer_wishes(entry, layer) for entry, layer in zip(per_layer, layers, strict=True))
    for of_layer, layer in zip(wishes, layers, strict=True):
        for wish, basis in zip(of_layer, layer.bases, strict=True):
            if wish is not None:
                basis.shaped(wish)  # refuses what it cannot guarantee
    return wishes if any(wish is not None for of_layer in wishes for wish in of_layer) else None


def _layer_wishes(entry: Any, layer: LayerBasis) -> tuple[str | None, ...]:
    rank = len(layer.bases)
    wishes = (entry,) * rank if entry is None or isinstance(entry, str) else tuple(entry)
    if len(wishes) != rank:
        raise InputError(f"`shapes` must have one entry per function of a layer, {rank} here. Got {len(wishes)}.")
    for wish in wishes:
        if wish is not None and not is_word(wish, ALL_SHAPES):
            raise InputError(f"`shapes` must be None or words among {', '.join(ALL_SHAPES)}. Got {short_repr(wish)}.")
    return wishes
