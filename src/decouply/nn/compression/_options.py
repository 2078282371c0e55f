"""Options of `compress`: how layers are fitted and trained, how the network is judged, what the parts may cost."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from ..._support._arguments import as_count, as_number
from ..._support._errors import InputError, short_repr
from ...bases import AbstractBasis
from ...model._functions import OUTSIDE, Outside
from ...solvers import AbstractSolver
from ..carving._receptive_field import Axis, check_axis
from ..layer._quantisation import check_bits
from ..training._distillation import LOSSES, Distil, Loss
from ..training._network_training import SHORT, FineTune
from ._evaluation import Score

USUAL = Distil()  # training of one layer where nothing else is asked for


@dataclass(frozen=True, eq=False)
class Fitting:
    """How a part of a network becomes a layer of functions, before that is trained.

    Parameters
    ----------
    start : "auto", "decoupling" or "random"
        "decoupling": from values and Jacobians of the part. "random": random directions, without Jacobians. With
        "auto", functions that begin as activations are trained like a network (see `basis`), and others start from a
        decoupling.
    solver : AbstractSolver, optional
        By default the paper's two stages around PROJ, 15 to 50 steps, with lam chosen by the score. Any solver takes
        the data as they are (`dc.decouple(..., as_given=True)`).
    basis : AbstractBasis, optional
        Basis of the functions, such as `dc.Spline(8)`, instead of powers. Left out, without `degrees`, functions begin
        as the activations of the part: `dc.Activation` with one hinge and without, in layers as wide as asked for. With
        a budget one, two and (for few inputs) three layers compete, and for few samples a decoupling. The layer that is
        nearest to the part at inputs that are held out is taken; a plain network is always among them.
    outside : "linear", "constant" or "extend"
        What the functions do beyond the range of what they were fitted on: continue linearly ("linear"), keep the
        value at the end ("constant"), or follow their formulas and explode ("extend").
    n_samples : int, optional
        Inputs at which Jacobians are taken. By default 20 per class, or 200 for a regression.
    labels : array, optional
        Classes of `data`, to sample each equally often. By default the classes that the network itself gives.
    axis : Axis
        What one output of a part depends on: everything it is given ("all"), its own token, the vector on the last axis
        (-1), or a pixel with its neighbours (1). With "auto" the library perturbs one token or pixel and sees which
        outputs change. Tokens and pixels are samples then, and the new module works on arrays of any number of them.
    logits : bool
        Whether a sigmoid or softmax at the end of a part is left outside: through a saturated one the Jacobian loses
        its information.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.nn.Fitting(start="random", basis=dc.Spline(8)).basis.n_pieces
    8
    """

    start: Literal["auto", "decoupling", "random"] = "auto"
    solver: AbstractSolver | None = None
    basis: AbstractBasis | None = None
    outside: Outside = "linear"
    n_samples: int | None = None
    labels: Any = None
    axis: Axis = "auto"
    logits: bool = True

    def __post_init__(self) -> None:
        check_axis(self.axis)
        if self.start not in ("auto", "decoupling", "random"):
            raise InputError(f'`start` must be "auto", "random" or "decoupling". Got {short_repr(self.start)}.')
        if self.solver is not None and not isinstance(self.solver, AbstractSolver):
            raise InputError(
                f"`solver` must be a solver such as dc.Constr() or dc.TwoStage(dc.Proj()). Got "
                f"{short_repr(self.solver)}."
            )
        if self.start == "random" and self.solver is not None:
            raise InputError('`solver` must be left out with start="random", which uses none.')
        if self.basis is not None and not isinstance(self.basis, AbstractBasis):
            raise InputError(f"`basis` must be a basis such as dc.Spline(8). Got {short_repr(self.basis)}.")
        if self.outside not in OUTSIDE:
            raise InputError(f"`outside` must be one of {', '.join(OUTSIDE)}. Got {short_repr(self.outside)}.")
        if self.n_samples is not None:
            as_count("n_samples", self.n_samples)


@dataclass(frozen=True)
class Training:
    """How new layers are trained.

    Parameters
    ----------
    refine : bool, Loss or Distil
        Whether and how each new layer is trained, without labels, on the part of `data` that is not held out. It
        matches the classes of its part ("kl") or the values ("squared"). True matches classes if a classification gets
        its classes from the part, and values otherwise.
    joint : bool or Distil, optional
        How all new layers are trained together at the end, without labels, to what the network returned. By default
        a short training if there are several. False leaves it out.
    fine_tune : FineTune, optional
        Training with labels at the end.
    quantize : int, optional
        Bits to which weights and coefficients of the new layers are rounded. `dc.nn.pack` stores them so. A layer that
        `refine` trains last is trained as it will be stored. Others are rounded at the end.
    max_seconds : float, optional
        Approximate time limit of all training. Layers that are trained less are less good. With ranks="auto" no more
        ranks are tried after that time, by default five minutes: the best so far is returned, with a warning.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.nn.Training(refine=dc.nn.Distil(max_steps=1000), quantize=8).quantize
    8
    """

    refine: bool | Loss | Distil = True
    joint: bool | Distil | None = None
    fine_tune: FineTune | None = None
    quantize: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_bits(self.quantize)
        if not isinstance(self.refine, bool | Distil) and self.refine not in LOSSES:
            raise InputError(
                f'`refine` must be dc.nn.Distil(...), True, False, "kl" or "squared". Got {short_repr(self.refine)}.'
            )
        if self.joint is not None and not isinstance(self.joint, bool | Distil):
            raise InputError(f"`joint` must be dc.nn.Distil(...), True, False or None. Got {short_repr(self.joint)}.")
        if self.fine_tune is not None and not isinstance(self.fine_tune, FineTune):
            raise InputError(
                f"`fine_tune` must be dc.nn.FineTune(inputs, labels). Got {type(self.fine_tune).__name__}."
            )
        if self.max_seconds is not None:
            as_number("max_seconds", self.max_seconds, above=True)

    @property
    def of_one_layer(self) -> Distil | None:
        """How one layer is trained, if it is; the loss is None if it follows from the task."""
        if isinstance(self.refine, bool):
            return USUAL if self.refine else None
        return self.refine if isinstance(self.refine, Distil) else dataclasses.replace(USUAL, loss=self.refine)

    def of_all_layers(self, n_parts: int, *, outputs_known: bool) -> Distil | None:
        """How all layers are trained together, if they are: by default if there are several."""
        if self.joint is None:
            return SHORT if n_parts > 1 and outputs_known else None
        if self.joint is False:
            return None
        if not outputs_known:
            raise InputError(
                "`joint` must be left out for this network: it does not return one tensor of moderate size, to which "
                "all parts could be trained together."
            )
        return SHORT if self.joint is True else self.joint


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How a compressed network is judged.

    Parameters
    ----------
    score : Score, optional
        Called with a network in evaluation mode, higher is better, such as its accuracy. By default the share of held
        out inputs whose class stays the same, or, for a regression, one minus the relative error.
    max_drop : float, optional
        What drop of the score you accept; by default 0.01 for ranks="auto", and any drop otherwise.
    validation : tuple of arrays, optional
        The share of `data` that is held out, or inputs for this purpose. The score, the errors and the ranges in the
        report are measured there, and ranks and lam chosen.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.nn.Evaluation(max_drop=0.005).max_drop
    0.005
    """

    score: Score | None = None
    max_drop: float | None = None
    validation: Any = 0.2

    def __post_init__(self) -> None:
        if self.score is not None and not callable(self.score):
            raise InputError(
                f"`score` must be a function of a network, such as its accuracy. Got {short_repr(self.score)}."
            )
        if self.max_drop is not None:
            as_number("max_drop", self.max_drop)


@dataclass(frozen=True)
class Budget:
    """What the new parts may cost together: one of these, as a share of what they replace (at most 1) or a number.

    Parameters
    ----------
    parameters : float, optional
        Parameters.
    macs : float, optional
        Multiply-adds per input of the network.
    bytes : float, optional
        Stored size; with `quantize`, of what is stored then.

    Examples
    --------
    >>> import decouply as dc
    >>> dc.nn.Budget(parameters=0.25).parameters, dc.nn.Budget(bytes=4096).bytes
    (0.25, 4096)
    """

    parameters: float | None = None
    macs: float | None = None
    bytes: float | None = None

    def __post_init__(self) -> None:
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) is not None}
        if len(given) != 1:
            raise InputError(
                f"`budget` must be one of parameters, macs and bytes. Got {', '.join(given) if given else 'none'}."
            )
        (name, value), *_ = given.items()
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise InputError(f"`{name}` of a budget must be a number above 0. Got {short_repr(value)}.")

    @property
    def unit(self) -> str:
        return next(f.name for f in fields(self) if getattr(self, f.name) is not None)

    def allows(self, before: Sequence[float | None]) -> float:
        """The number that a budget is, for parts that have cost so much."""
        value = float(getattr(self, self.unit))
        if value > 1.0:
            return value
        known = [cost for cost in before if cost is not None]
        if len(known) < len(before):
            raise InputError(
                f"`budget` must be a number for these parts: their {self.unit} are not known, because they have layers "
                "that are neither linear nor convolutions. Give parameters=, or a number above 1."
            )
        return value * sum(known)


def checked_options(name: str, options: Any, kind: type) -> Any:
    """Options of this kind; the usual ones if none are given."""
    if options is not None and not isinstance(options, kind):
        raise InputError(f"`{name}` must be dc.nn.{kind.__name__}(...). Got {short_repr(options)}.")
    return kind() if options is None else options
