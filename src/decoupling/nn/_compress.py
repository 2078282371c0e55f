"""Replace a part of a trained network by a decoupling of it: the door."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from .._support._checks import as_counts, as_generator, as_number
from .._support._errors import DecouplingWarning, InputError
from .._support._progress import progress_callback
from ..fit._result import Result
from ..model._decoupling import Decoupling
from ..model._functions import Outside
from ..solvers import AbstractSolver
from ._carve import Filter, carve
from ._classes import balanced
from ._fine_tune import FineTune, labelled
from ._held_out import divided
from ._layer import DecoupledLayer
from ._options import check_network, check_options
from ._place import Place
from ._report import CompressionReport, count_parameters, latency, multiply_adds
from ._sample import check_finite, chunks, sampled, values_of
from ._score import Agreement, Score, rated, relative_error
from ._search import Loss, RankSearch, Watch
from ._task import Decision, Task, check_task, decide

_BATCH = 2048
_LATENCY_BATCH = 256
_AUTO_DROP = 0.01


@dataclass(frozen=True)
class Compression:
    """What `compress` returns.

    Attributes
    ----------
    model
        A copy of the network with the decoupling in the place of the part, in evaluation mode.
    report
        Before and after; print it.
    layer
        The new module inside `model`.
    result
        How the decoupling was found, before it was refined: `dc.decouple` with its samples, solver and settings gives
        it again. The default solver holds the score and the network, so that a pickle needs a score that can be one.
    """

    model: nn.Module = field(repr=False)
    report: CompressionReport
    layer: DecoupledLayer
    result: Result

    @property
    def decoupling(self) -> Decoupling:
        """The new module as functions that can be plotted and read."""
        return self.layer.to_decoupling()


def compress(
    model: nn.Module,
    part: str | tuple[str, str] | Filter,
    data: object,
    ranks: int | Sequence[int] | Literal["auto"] = "auto",
    degrees: int | Sequence[int] = 4,
    *,
    task: Task | None = None,
    solver: AbstractSolver | None = None,
    score: Score | None = None,
    max_drop: float | None = None,
    refine: bool | Loss = True,
    fine_tune: FineTune | None = None,
    labels: object = None,
    validation: object = 0.2,
    n_samples: int | None = None,
    logits: bool = True,
    outside: Outside = "linear",
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> Compression:
    """Replace a part of a trained network by a decoupling, without changing the network that is given.

    Parameters
    ----------
    model
        A network that is a function of one tensor. One in half precision or bfloat16 is compressed in float32, and
        stays so.
    part
        What to replace: the name of a submodule; the names of the first and the last module, both replaced with all
        between; or a function of name and module, whose first and last choice are taken. The part must be a function
        of one tensor. A module with a forward method of its own that is cut between two names becomes a
        `torch.fx.GraphModule`, without other methods of its class.
    data
        Inputs of the *network*, without labels; the more the better.
    ranks
        Internal functions per layer, or "auto": the fewest, in one layer, whose drop is at most `max_drop`, found by
        growing and halving. The score of the network decides here, not the errors that `dc.select` goes by.
    degrees
        Degree of the internal functions, or one per layer.
    task
        "classification" (what counts is the largest output) or "regression" (all of them count). By default it is a
        classification where labels are given or the network ends in probabilities, and a regression otherwise; the
        report says which, and why.
    solver
        By default the paper's two stages around PROJ, 15 to 50 steps, with lam chosen by `score`. Whichever it
        is, it takes the data as they are (`dc.decouple(..., as_given=True)`).
    score
        Called with a network in evaluation mode, higher is better, such as its accuracy. By default the share of held
        out inputs whose class stays the same, or, for a regression, one minus the relative error.
    max_drop
        What drop of the score you accept; 0.01 for ranks="auto" unless given.
    refine
        Whether the decoupling is trained on, on what is not held out of `data`, without labels: to match the classes of
        the part ("kl") or its values ("squared"). True takes the classes where a classification gets its classes from
        the part, and the values otherwise.
    fine_tune
        Training with labels at the end.
    labels
        Classes of `data`, to sample each equally often; by default the classes that the network itself gives.
    validation
        The share of `data` that is held out, or inputs for this purpose. The score, the errors and the ranges in the
        report are measured there, and ranks and lam chosen.
    n_samples
        Inputs at which Jacobians are taken; by default 20 per class, or 200 for a regression.
    logits
        Whether a sigmoid or softmax at the end of the part is left outside, where it belongs: through a saturated one
        the Jacobian loses its information.
    outside
        What the functions do beyond the range of what they were fitted on: go on along their tangents ("linear"), keep
        the value at the end ("constant"), or go on by their formulas and explode ("extend").
    rng
        Seed or generator: the same seed gives the same result.
    progress
        True shows a bar on a terminal once two seconds have passed; or give a callable that takes named values. Ctrl-C
        ends the stage it is pressed in and leaves out those that follow.

    Examples
    --------
    >>> import decoupling as dc, torch  # doctest: +SKIP
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(5)))  # doctest: +SKIP
    >>> out = dc.nn.compress(net, part=("2", "4"), data=torch.randn(500, 9), ranks=4)  # doctest: +SKIP
    >>> out.model, print(out.report)  # doctest: +SKIP
    """
    generator = as_generator(rng)
    model = check_network(model)
    check_task(task)
    wanted = as_counts("degrees", degrees)
    if isinstance(ranks, str):
        if ranks != "auto":
            raise InputError(f'`ranks` must be numbers or "auto". Got {ranks!r}.')
        max_drop = _AUTO_DROP if max_drop is None else max_drop
        chosen_ranks = None
    else:
        chosen_ranks = as_counts("ranks", ranks)
    if max_drop is not None:
        as_number("max_drop", max_drop)
    check_options(solver, score, refine, fine_tune, outside)
    # Wherever we are called, parts of this are training.
    with torch.inference_mode(False), torch.enable_grad(), progress_callback(progress, "Compressing") as report:
        watch = Watch(report, silent=progress is False)
        dtype, device = next((p.dtype, p.device) for p in model.parameters())
        inputs = divided(data, labels, validation, generator).to(device, dtype)
        carved = carve(model, part, inputs.fitted, logits=logits)
        arrays, outputs = carved.run(inputs.fitted, _BATCH)
        flat = _flattened(carved.part, arrays)
        points = arrays.flatten(1).double()
        values = _values(flat, points, dtype, device)
        check_finite("part", values.numpy())
        decision = decide(task, carved.network, outputs, labelled=labels is not None or fine_tune is not None)
        shown = values if outputs is None else outputs
        chosen = balanced(shown, inputs.labels, n_samples, generator, in_classes=decision.in_classes)
        samples = sampled("part", flat, points[chosen], None, None, None, watch.stage("sampling"))
        agreement = None
        if score is None:
            agreement = Agreement.with_outputs_of(
                carved.network, inputs.judged, generator, in_classes=decision.in_classes
            )
        judged = agreement or score
        assert judged is not None
        before = rated(judged, carved.network)
        if not np.isfinite(before):
            raise InputError(f"`score` must be a finite number for the network that is given. Got {before}.")
        if fine_tune is not None:
            labelled(fine_tune, carved.network, dtype, device)  # complain before the work is done
        place = Place(carved, arrays.ndim > 2, samples.X, outside, dtype, device)
        loss = _loss(refine, values, outputs, decision)
        search = RankSearch(place, flat, points, samples, wanted, solver, judged, loss, fine_tune, watch)
        if chosen_ranks is None:
            assert max_drop is not None
            found = search.smallest(before, max_drop, generator)
        else:
            found = search.run(chosen_ranks, generator)
        some = points[:_LATENCY_BATCH].to(device, dtype, copy=True)
        fresh = points if not inputs.apart else carved.run(inputs.judged, _BATCH)[0].flatten(1).double()
        wanted_values, got = (_values(module, fresh, dtype, device) for module in (flat, found.layer))
        summary = CompressionReport(
            parameters=(count_parameters(flat), count_parameters(found.layer)),
            network_parameters=(count_parameters(model), count_parameters(found.network)),
            multiply_adds=(multiply_adds(flat, some), multiply_adds(found.layer, some) or 0),
            latency=latency((flat, found.layer), some),
            latency_batch=len(some),
            score=(before, found.score),
            score_name="score" if agreement is None else agreement.name,
            task=decision,
            relative_error=relative_error(got, wanted_values),
            n_held_out=len(inputs.judged) if inputs.apart else 0,
            lam=found.result.lam,
            outside=_outside(found.layer, fresh),
            max_drop=max_drop,
        )
    for text in summary.warnings:
        warnings.warn(text, DecouplingWarning, stacklevel=2)
    return Compression(found.network, summary, found.layer, found.result)


def _flattened(part: nn.Module, arrays: Tensor) -> nn.Module:
    """The part as a function of vectors, whatever the shape of what it is given."""
    if count_parameters(part) == 0:
        raise InputError("`part` must have parameters: there is nothing to save in one without.")
    shape = tuple(arrays.shape[1:])
    own = copy.deepcopy(part).eval()
    return own if len(shape) == 1 else nn.Sequential(nn.Unflatten(1, shape), own).eval()


def _values(module: nn.Module, points: Tensor, dtype: torch.dtype, device: torch.device) -> Tensor:
    portions = (values_of(module, points[rows].to(device, dtype)).cpu() for rows in chunks(len(points), _BATCH))
    return torch.cat(list(portions))


def _loss(refine: bool | Loss, values: Tensor, outputs: Tensor | None, decision: Decision) -> Loss | None:
    """What refining matches: the classes, where the largest output of the part is the largest one of the network."""
    if not isinstance(refine, bool):
        return refine
    if not refine:
        return None
    if not decision.in_classes or outputs is None or outputs.shape != values.shape:
        return "squared"
    return "kl" if bool((outputs.argmax(1) == values.argmax(1)).all()) else "squared"


def _outside(layer: DecoupledLayer, points: Tensor) -> float:
    """Share of inner inputs beyond the domains of the functions."""
    total, count = 0, 0
    z = points.to(layer.W[0].device, layer.W[0].dtype)
    with torch.no_grad():
        for l in range(layer.n_layers):
            u = z @ layer.W[l].T
            low, high = layer.domain(l).unbind(1)
            total += int(((u < low) | (u > high)).sum())
            count += u.numel()
            z = layer.functions(l, u)
    return total / count
