"""The one entry: samples in, decoupling out."""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from ._checks import as_count, as_counts, as_generator
from ._decoupling import Decoupling
from ._errors import DecouplingWarning, InputError
from ._jacobians import largest_entry
from ._metrics import error_values
from ._progress import progress_callback
from ._result import Result
from ._samples import Samples
from ._settings import Settings
from ._status import Status
from ._threads import one_thread
from ._weights import check_all_outputs_count
from .bases import AbstractBasis, LayerBasis, Monomial
from .solvers import AbstractSolver, Problem, VarPro

_LARGEST = 1e100  # of the data: their squares are added up
_EXACT = 1e-18  # of the squared size of the data
_NO_VALUES = "Only Jacobians were given: they leave the constants of the last layer open, so these are 0."


def decouple(
    samples: Samples,
    ranks: int | Sequence[int] | Literal["auto"],
    degrees: int | Sequence[int] | None = None,
    *,
    basis: Any = Monomial,
    solver: AbstractSolver | None = None,
    n_starts: int | None = None,
    validation: Samples | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> Result:
    """Write a sampled function as W_L g_L(W_(L-1) g_(L-1)(... W_1 g_1(W_0 x))).

    Parameters
    ----------
    samples
        Points with values, Jacobians or both.
    ranks
        (r_1, ..., r_L): number of internal functions per layer, from input to output. With "auto", `select` chooses
        them (up to two layers of up to 4 functions, or as many layers as `degrees` has) and gives its reason in the
        first note.
    degrees
        (d_1, ..., d_L): number of basis functions per layer. May be left out when `basis` fixes it, and with "auto".
    basis
        A basis class that is given the degrees, such as `dc.Monomial`; one basis for all layers; or a sequence with
        one entry per layer, each a basis or a tuple with one basis per internal function.
    solver
        The method; by default `VarPro()`.
    n_starts
        Number of random starts; the best is kept. Alternating solvers run all of them (8 if left out), `VarPro` at
        most so many (1024 if left out): it stops when one meets the data to rounding or several agree.
    validation
        Samples on which `TwoStage` judges each value of lam.
    rng
        Seed or generator: the same seed gives the same result.
    progress
        True shows a bar on a terminal once two seconds have passed; or give a callable that takes named values.

    Examples
    --------
    >>> import decoupling as dc, numpy as np
    >>> f = dc.systems.random_system((3, 2, 3), (3,), rng=3)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    >>> result = dc.decouple(dc.Samples(X, F=f(X), J=f.jacobian(X)), ranks=2, degrees=3)
    >>> bool(result.error_jacobian < 1e-20)
    True
    """
    began = time.perf_counter()
    if isinstance(ranks, str) and ranks == "auto":
        return _with_selected_ranks(
            samples, degrees, basis, solver, n_starts=n_starts, validation=validation, rng=rng, progress=progress
        )
    if not isinstance(samples, Samples):
        raise InputError(f"`samples` must be dc.Samples(X, F=F, J=J). Got {type(samples).__name__}.")
    if samples.n_samples < 2:
        raise InputError(
            f"`samples` must hold at least 2 points: one point tells nothing about a function. Got {samples.n_samples}."
        )
    _check_range(samples)
    check_all_outputs_count(samples.weights)
    layers = layer_bases(ranks, degrees, basis)
    method = VarPro() if solver is None else solver
    if not isinstance(method, AbstractSolver):
        raise InputError(f"`solver` must be a solver such as dc.Constr() or dc.TwoStage(dc.Proj()). Got {solver!r}.")
    count = method.default_n_starts if n_starts is None else as_count("n_starts", n_starts)
    generator = as_generator(rng)
    _check_validation(validation, samples)
    settings = Settings(ranks, degrees, basis, count, copy.deepcopy(rng), validation)
    problem = Problem.build(samples, layers, validation)
    method.check(problem)
    notes = _undetermined(samples, layers)
    for note in notes:
        warnings.warn(note, DecouplingWarning, stacklevel=2)
    if samples.F is None:
        notes = (*notes, _NO_VALUES)
    with progress_callback(progress, "Decoupling") as report, one_thread():
        solution = method.solve(problem, n_starts=count, rng=generator, progress=report)
    model = solution.decoupling if solution.as_is else solution.decoupling.canonical(samples.X)
    return Result(
        model,
        _honest(solution.status, model, samples),
        solution.lam,
        solution.history,
        solution.starts,
        solution.path,
        (*notes, *solution.notes),
        samples,
        method,
        time.perf_counter() - began,
        settings,
    )


def _with_selected_ranks(
    samples: Samples,
    degrees: int | Sequence[int] | None,
    basis: Any,
    solver: AbstractSolver | None,
    *,
    n_starts: int | None,
    validation: Samples | None,
    **options: Any,
) -> Result:
    from ._select import MAX_RANK, select

    for name, value in (("n_starts", n_starts), ("validation", validation)):
        if value is not None:
            raise InputError(
                f'`{name}` must be left out with ranks="auto", which cross-validates and has starts of its own. '
                f"Got {value!r}: choose with dc.select, then decouple with the ranks it recommends."
            )
    n_layers = 2 if degrees is None else len(as_counts("degrees", degrees))
    return select(samples, (MAX_RANK,) * n_layers, degrees=degrees, basis=basis, solver=solver, **options).result


def _honest(status: Status, model: Decoupling, samples: Samples) -> Status:
    """EXACT only if the model meets everything that is known, whatever the solver looked at."""
    if status is not Status.EXACT or samples.J is None or samples.F is None:
        return status
    return status if error_values(samples.F, model(samples.X)) <= _EXACT else Status.JACOBIANS_EXACT


def layer_bases(ranks: Any, degrees: Any, basis: Any) -> tuple[LayerBasis, ...]:
    """The bases of every layer, as the arguments of `decouple` describe them."""
    ranks = as_counts("ranks", ranks)
    sizes = None if degrees is None else as_counts("degrees", degrees)
    if sizes is not None and len(sizes) != len(ranks):
        raise InputError(
            f"`degrees` must have one number per layer, like `ranks`: {len(ranks)}. Got {len(sizes)}: {degrees!r}."
        )
    if isinstance(basis, type) and issubclass(basis, AbstractBasis):
        if sizes is None:
            raise InputError(
                "`degrees` must be given with a basis class: one number per layer, such as (3, 3). Got None."
            )
        per_layer: Sequence[Any] = [_make_basis(basis, d) for d in sizes]
    elif isinstance(basis, AbstractBasis):
        per_layer = [basis] * len(ranks)
    elif isinstance(basis, Sequence) and not isinstance(basis, str) and len(basis) == len(ranks):
        per_layer = [
            _make_basis(b, sizes[l]) if isinstance(b, type) and sizes is not None else b for l, b in enumerate(basis)
        ]
    else:
        raise InputError(
            f"`basis` must be a basis class, a basis, or one entry per layer ({len(ranks)}). Got {basis!r}."
        )
    layers = tuple(LayerBasis.of(b, r) for b, r in zip(per_layer, ranks, strict=True))
    found = tuple(layer.size for layer in layers)
    if sizes is not None and found != sizes:
        raise InputError(
            f"`degrees` must agree with `basis`, which has sizes {found}. Got {sizes}: leave `degrees` out."
        )
    return layers


def _make_basis(basis: Callable[[int], AbstractBasis], degree: int) -> AbstractBasis:
    try:
        return basis(degree)
    except TypeError as error:
        raise InputError(
            f"`basis` must be a class that takes the degree alone, or a basis made from it. Got {basis!r}: {error}."
        ) from error


def _check_range(samples: Samples) -> None:
    """Squares of the data must be numbers."""
    for name, array in (("X", samples.X), ("F", samples.F), ("J", samples.J)):
        largest = 0.0 if array is None else largest_entry(array)
        if largest > _LARGEST or 0.0 < largest < 1.0 / _LARGEST:
            raise InputError(
                f"`{name}` must have a largest entry between {1.0 / _LARGEST:g} and {_LARGEST:g}. Got {largest:.3g}: "
                "scale it, for example to about 1, and scale the result back."
            )


def _check_validation(validation: Samples | None, samples: Samples) -> None:
    if validation is None:
        return
    if not isinstance(validation, Samples):
        raise InputError(f"`validation` must be dc.Samples. Got {type(validation).__name__}.")
    wanted, got = (samples.n_inputs, samples.n_outputs), (validation.n_inputs, validation.n_outputs)
    if wanted != got:
        raise InputError(
            f"`validation` must have {wanted[0]} inputs and {wanted[1]} outputs, like `samples`. Got {got}."
        )


def _undetermined(samples: Samples, layers: tuple[LayerBasis, ...]) -> tuple[str, ...]:
    """Sentences about ranks and degrees that these samples cannot determine."""
    m, n, S = samples.n_inputs, samples.n_outputs, samples.n_samples
    ranks = [len(layer.bases) for layer in layers]
    dims = [m, *ranks, n]
    # Two scalings per internal function leave the map unchanged.
    unknowns = sum(a * b for a, b in pairwise(dims)) + sum(sum(layer.sizes) - 2 * len(layer.sizes) for layer in layers)
    equations = S * n * ((samples.J is not None) * m + (samples.F is not None))
    notes = []
    degree = max(layer.size for layer in layers)
    if degree > S:
        notes.append(
            f"`degrees` must not be above the number of samples to determine the functions. Got {degree} and {S} "
            "samples: lower the degrees or give more samples."
        )
    if unknowns > equations:
        notes.append(
            f"`ranks` {tuple(ranks)} ask for {unknowns} free parameters, but the samples give {equations} numbers: the "
            "answer is one of many. Lower the ranks or degrees, or give more samples."
        )
    if len(ranks) == 1 and ranks[0] > m * n:
        notes.append(
            f"`ranks` must not be above m n = {m * n} for a unique single-layer decoupling. Got {ranks[0]}: the "
            "functions found are one choice of many."
        )
    return tuple(notes)
