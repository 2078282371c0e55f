"""The one entry: samples in, decoupling out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from .._support._arguments import as_counts
from .._support._errors import InputError, short_repr
from ..bases import Spline
from ..samples._duplicates import n_originals
from ..samples._samples import Samples
from ..solvers import AbstractSolver
from ..solvers.problem._solution import Status, when_late
from ..solvers.problem._solver import with_start
from ._fit_one_shape import fit_one_shape
from ._pieces import fit_with_pieces
from ._result import Result
from ._settings import Settings, layer_bases, layer_shapes
from .select._growth import RANKS
from .select._select import MAX_RANK, N_FOLDS, SECONDS, choose_functions, select


def decouple(
    samples: Samples,
    ranks: int | Sequence[int] | Literal["auto"] = "auto",
    degrees: int | Sequence[int] | None = None,
    *,
    basis: Any = None,
    linear: bool = False,
    solver: AbstractSolver | None = None,
    as_given: bool = False,
    n_starts: int | None = None,
    validation: Samples | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
    max_seconds: float | None = None,
    shapes: Any = None,
) -> Result:
    """Write a sampled function as layers of univariate functions.

    The model is W_L g_L(W_(L-1) g_(L-1)(... W_1 g_1(W_0 x))).

    Parameters
    ----------
    samples
        Points with values, Jacobians or both.
    ranks
        (r_1, ..., r_L): number of internal functions per layer, from input to output. With "auto" they are chosen:
        with `degrees` or a basis class by `dc.select`, otherwise together with the functions. The first note has the
        reason.
    degrees
        (d_1, ..., d_L): degrees of polynomials, one per layer. With neither `degrees` nor `basis`, the data choose the
        functions: polynomials if these are exact or need fewer parameters, otherwise splines.
    basis
        A basis such as `dc.Spline()` for all layers; a basis class that is given the degrees, such as `dc.Chebyshev`;
        or a sequence with one entry per layer, each a basis or a tuple with one basis per internal function.
    linear
        Whether the model has a linear part besides: A x + W_L g_L(...).
    solver
        The method; by default `VarPro()`.
    as_given
        Solvers work in standard units: inputs and outputs centred and scaled by their spreads, the objective measured
        there, functions on the range that the samples visit. True takes the data as they are, with functions around
        0: the paper's algorithms as printed.
    n_starts
        Number of random starts; the best is kept. Alternating solvers run all of them (8 if left out), `VarPro` at
        most so many (1024 if left out): it stops when one meets the data to rounding or several agree.
    validation
        Samples on which `TwoStage` judges each value of lam.
    rng
        Seed or generator: the same seed gives the same result.
    progress
        True shows a bar on a terminal once two seconds have passed; or give a callable that takes named values: `stage`
        (text, may be missing), `done`, `total`, `objective`, and from alternating solvers the raw factors after every
        step as `iterate` (a `dc.solvers.Iterate`) with the numbers of their `starts`.
    max_seconds
        About so many seconds are searched, with any solver, and the best so far is returned. Left out, it is what the
        solver has: 60 for `VarPro`, no limit for alternating solvers, 120 with ranks="auto".
    shapes
        What functions must look like: "increasing", "decreasing", "convex", "concave", "odd" or "even" (about the
        middle of their domains, up to a constant), "nonnegative". One word for all functions; a list with a word or
        None for each function of one layer; or a list with one such entry per layer. Functions of a layer that share a
        basis are matched with the list. Guaranteed, for `dc.Spline` and `dc.bases.Bernstein`, and for symmetries of any
        basis; a note gives the price in error. With ranks="auto" it is one word, for the model that was chosen without.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> f = dc.systems.random_system((3, 2, 3), (3,), rng=3)
    >>> X = np.random.default_rng(0).uniform(-1, 1, (50, 3))
    >>> result = dc.decouple(dc.Samples(X, F=f(X), J=f.jacobian(X)), ranks=2, degrees=3)
    >>> bool(result.error_jacobian < 1e-20)
    True
    """
    if isinstance(ranks, str) and ranks == "auto":
        for name, value in (
            ("n_starts", n_starts),
            ("validation", validation),
            ("as_given", as_given or None),
        ):
            if value is not None:
                raise InputError(
                    f'`{name}` must be left out with ranks="auto", which cross-validates and has starts of its own. '
                    f"Got {short_repr(value)}: choose with dc.select, then decouple with the ranks it recommends."
                )
        if shapes is not None:
            _check_word(shapes, basis)
        is_quick = degrees is None and not isinstance(basis, type)
        if is_quick:
            basis = Spline() if basis is None and shapes is not None else basis
            max_ranks: tuple[int, ...] = (RANKS[-1],)
        else:
            max_ranks = (MAX_RANK,) * (2 if degrees is None else len(as_counts("degrees", degrees)))
        n_folds = min(N_FOLDS, n_originals(samples)) if isinstance(samples, Samples) else N_FOLDS
        chosen = select(
            samples,
            max_ranks,
            n_folds=max(2, n_folds),
            effort="quick" if is_quick else "thorough",
            degrees=degrees,
            basis=basis,
            linear=linear,
            solver=solver,
            rng=rng,
            progress=progress,
            max_seconds=SECONDS if max_seconds is None else max_seconds,
        ).result
        return chosen if shapes is None else _refit_with_shapes(chosen, shapes, rng, progress)
    settings = Settings(ranks, degrees, basis, linear, solver, as_given, n_starts, validation, rng, max_seconds, shapes)
    if degrees is None and basis is None and shapes is None:
        return choose_functions(samples, settings, progress=progress)
    return fit_with_pieces(samples, settings, progress=progress)


def _check_word(shapes: Any, basis: Any) -> None:
    """Raise unless it is one word that functions of the basis can follow, before ranks are looked for."""
    if not isinstance(shapes, str):
        raise InputError(
            f'`shapes` must be one word with ranks="auto", since the number of functions is not known yet. Got '
            f"{shapes!r}: choose ranks with dc.select, then decouple with them."
        )
    layer_shapes(shapes, layer_bases(1, 1 if isinstance(basis, type) else None, basis))


def _refit_with_shapes(
    chosen: Result, shapes: str, rng: int | np.random.Generator, progress: bool | Callable[..., None]
) -> Result:
    """The model that was chosen, with functions of a shape."""
    there = with_start(chosen.solver, chosen.decoupling)
    wanted = dataclasses.replace(chosen.settings, shapes=shapes, rng=rng)
    if there is not None:
        wanted = dataclasses.replace(wanted, solver=there, n_starts=1)
    shaped = fit_one_shape(chosen.samples, wanted, progress=progress)
    if chosen.status is not Status.OUT_OF_TIME:
        return shaped
    return dataclasses.replace(shaped, status=when_late(shaped.status))
