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
    """Write a sampled function as layers of functions of one variable.

    The model is W_L g_L(W_(L-1) g_(L-1)(... W_1 g_1(W_0 x))).

    Parameters
    ----------
    samples : Samples
        Points X (S, m) with values F (S, n), Jacobians J (S, n, m), or both.
    ranks : int, sequence of int or "auto"
        (r_1, ..., r_L): number of functions per layer, from input to output. With "auto" the data choose it, and the
        first note of the result says why.
    degrees : int or sequence of int, optional
        (d_1, ..., d_L): degrees of polynomials, one per layer. With neither `degrees` nor `basis`, the data choose the
        functions: polynomials if these are exact or need fewer parameters, otherwise splines.
    basis : basis, basis class or sequence, optional
        A basis such as `dc.Spline()` for all layers, or a class such as `dc.Chebyshev`, which gets the degrees. A
        sequence has one entry per layer, each a basis or a tuple with one basis per function.
    linear : bool
        Add a linear part: A x + W_L g_L(...).
    solver : AbstractSolver, optional
        The method; by default `dc.VarPro()`.
    as_given : bool
        Take the data as they are, with functions around 0, for the paper's algorithms as printed. By default solvers
        work in standard units: inputs and outputs centred and scaled.
    n_starts : int, optional
        Number of random starts. Alternating solvers run 8 by default. `VarPro` runs up to 1024, and stops when one is
        exact or several agree.
    validation : Samples, optional
        Samples on which `TwoStage` judges each value of lam.
    rng : int or numpy Generator
        The same seed gives the same result.
    progress : bool or callable
        True shows a bar on a terminal after two seconds. A callable gets named values: `stage`, `done`, `total` and
        `objective`. Alternating solvers also give `iterate` (a `dc.solvers.Iterate`) and `starts`.
    max_seconds : float, optional
        Approximate time limit; the search then returns the best model so far. By default 120 with ranks="auto", 60 for
        `VarPro`, and none for alternating solvers.
    shapes : str or sequence, optional
        Guaranteed shapes of functions: "increasing", "decreasing", "convex", "concave", "odd", "even" or
        "nonnegative". Give one word for all functions, a list with a word or None for each function of a layer, or a
        list of such lists. Splines and `dc.bases.Bernstein` take all words, other bases "odd" and "even".

    Returns
    -------
    Result
        The model (`decoupling`), its errors, a `verdict`, and how the search went. Print it, `plot` it, `report` it.

    See Also
    --------
    select : compare ranks and degrees by cross-validation.
    DecouplingRegressor : the same for pipelines of scikit-learn.

    Examples
    --------
    >>> import decouply as dc, numpy as np
    >>> X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    >>> samples = dc.Samples(X, F=(X @ [[1.0], [2.0]]) ** 3, inputs=["speed", "load"], outputs=["force"])
    >>> result = dc.decouple(samples, ranks=1, degrees=3)
    >>> print(result.verdict)
    Exact. The model meets the values to machine precision.
    >>> print(result.formula())
    u1 = speed + 2 load
    force = u1^3
    """
    if isinstance(ranks, str) and ranks == "auto":
        for name, value in (
            ("n_starts", n_starts),
            ("validation", validation),
            ("as_given", None if as_given is False else as_given),
        ):
            if value is not None:
                raise InputError(
                    f'`{name}` must be left out with ranks="auto", which cross-validates and has its own starts. '
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
