"""Replace parts of a trained network by decouplings of them: the door."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from ..._support._arguments import as_counts, as_generator, as_number
from ..._support._errors import DecouplingWarning, InputError
from ..._support._progress import progress_callback
from ...bases import AbstractBasis
from ...fit._result import Result
from ...model._decoupling import Decoupling
from ...model._functions import Outside
from ...solvers import AbstractSolver
from ..carving._carve import Filter, names_of, outputs_of
from ..carving._data_split import divided
from ..carving._jacobian_sampling import as_device, batch_for, chunks, twin_of
from ..carving._part_names import Spec, check_cuts, check_numbers, chosen_parts, in_order_of_calls
from ..carving._receptive_field import Axis, check_axis
from ..carving._task_type import Task, check_task, decide
from ..layer._decoupled_layer import DecoupledLayer
from ..layer._quantisation import check_bits
from ..training._distillation import Distil, Loss
from ..training._fine_tune import FineTune, labelled
from ..training._joint import joint_options
from ._budget import Budget
from ._options import check_network, check_options, how_to_refine, wanted_ranks
from ._pipeline import LATENCY_BATCH, Replaced, Work, layer_at
from ._rank_search import Watch
from ._report import CompressionReport, count_parameters
from ._score import Agreement, Score, rated

_AUTO_DROP = 0.01
_MOST_OUTPUTS = 2**27  # numbers that are kept of what the network returns


@dataclass(frozen=True)
class Compression:
    """What `compress` returns.

    Attributes
    ----------
    model
        A copy of the network with decouplings in the place of the parts, in evaluation mode.
    report
        Before and after; print it.
    layers
        The new modules inside `model`, by the names of the parts.
    results
        How the decouplings were found, before they were refined, by the same names: `dc.decouple` with the samples,
        solver and settings gives one again. None where the start was random. The default solver holds the score and
        the network, so that a pickle needs a score that can be one.
    """

    model: nn.Module = field(repr=False)
    report: CompressionReport
    layers: dict[str, DecoupledLayer]
    results: dict[str, Result | None]

    @property
    def layer(self) -> DecoupledLayer:
        """The new module, where one part was replaced."""
        if len(self.layers) > 1:
            raise InputError(f"`layer` is there for one part. Here are {len(self.layers)}: take one of `layers`.")
        return next(iter(self.layers.values()))

    @property
    def result(self) -> Result | None:
        """How it was found, where one part was replaced."""
        if len(self.results) > 1:
            raise InputError(f"`result` is there for one part. Here are {len(self.results)}: take one of `results`.")
        return next(iter(self.results.values()))

    @property
    def decoupling(self) -> Decoupling:
        """The new module as functions that can be plotted and read."""
        return self.layer.to_decoupling()


def compress(
    model: nn.Module,
    part: str | tuple[str, str] | Filter | None = None,
    data: object = None,
    ranks: int | Sequence[int] | Literal["auto"] = "auto",
    degrees: int | Sequence[int] = 4,
    *,
    parts: str | tuple[str, str] | list[str | tuple[str, str]] | Filter | None = None,
    budget: Budget | None = None,
    axis: Axis = "auto",
    basis: AbstractBasis | None = None,
    start: Literal["random", "decoupling"] = "decoupling",
    task: Task | None = None,
    solver: AbstractSolver | None = None,
    score: Score | None = None,
    max_drop: float | None = None,
    refine: bool | Loss | Distil = True,
    joint: bool | Distil | None = None,
    fine_tune: FineTune | None = None,
    labels: object = None,
    validation: object = 0.2,
    n_samples: int | None = None,
    logits: bool = True,
    outside: Outside = "linear",
    quantize: int | None = None,
    device: object = None,
    max_seconds: float | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> Compression:
    """Replace parts of a trained network by decouplings, without changing the network that is given.

    Parameters
    ----------
    model
        A network that is a function of one tensor. One in half precision or bfloat16 is compressed in float32, and
        stays so.
    part
        One part: the name of a submodule; the names of the first and the last module, both replaced with all
        between; or a function of name and module, whose first and last choice are taken. The part must be a function
        of one tensor. A module with a forward method of its own that is cut between two names becomes a
        `torch.fx.GraphModule`, without other methods of its class.
    data
        Inputs of the *network*, without labels; the more the better. A DataLoader is read once, and a gigabyte of its
        inputs kept at most, drawn fairly.
    ranks
        Internal functions per layer, for every part, or "auto": the fewest, in one layer, whose drop is at most
        `max_drop`, found by growing and halving. The score of the network decides here, not the errors that
        `dc.select` goes by.
    degrees
        Degree of the internal functions, or one per layer.
    parts
        Instead of `part`, one part or several: a name or a pattern such as "blocks.*.mlp", in which a star stands for
        one step of the path; a pair of names, as for `part`; a list of these; or a function of name and module, of
        which every choice is a part. They are replaced in the order in which the network comes to them; each is
        fitted to what it is given by those that are replaced already.
    budget
        Instead of `ranks`, what all parts together may cost: spread over them by how much the network minds.
    axis
        What one output of a part depends on: everything it is given ("all"), its own token, the vector on the last
        axis (-1), or a pixel with its neighbours (1); "auto" moves one token or pixel and looks. Tokens and pixels
        are samples then, and the new module works on arrays of any number of them.
    basis
        Of the internal functions, such as `dc.Spline(8)`, instead of powers.
    start
        What training begins with: a decoupling of values and Jacobians, or random directions.
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
        Whether and how a new layer is trained on, on what is not held out of `data`, without labels: to match the
        classes of the part ("kl") or its values ("squared"). True takes the classes where a classification gets its
        classes from the part, and the values otherwise.
    joint
        How all new layers are trained together at the end, without labels, to what the network returned; by default
        a short training where there are several. False leaves it out.
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
    quantize
        Bits to which weights and coefficients of the new layers are rounded; `dc.nn.pack` stores them so. A layer that
        `refine` trains last is trained as it will be stored; others are rounded at the end.
    device
        Where to compute; by default where the network is. What is returned is there.
    max_seconds
        Ends the training of layers in time, about; what is trained less is less good. With ranks="auto" no more ranks
        are tried after that time, or after five minutes where it is left out: the best so far is returned, and a
        warning says so.
    rng
        Seed or generator: the same seed gives the same result.
    progress
        True shows a bar on a terminal once two seconds have passed; or give a callable that takes named values. Ctrl-C
        ends the stage it is pressed in and leaves out those that follow, and parts that were not reached.

    Examples
    --------
    >>> import decouply as dc, torch  # doctest: +SKIP
    >>> net = torch.nn.Sequential(*(torch.nn.Linear(9, 9) for _ in range(5)))  # doctest: +SKIP
    >>> out = dc.nn.compress(net, part=("2", "4"), data=torch.randn(500, 9), ranks=4)  # doctest: +SKIP
    >>> out.model, print(out.report)  # doctest: +SKIP
    """
    generator = as_generator(rng)
    given, short = check_network(model)
    home = next(given.parameters()).device
    model = given
    if device is not None:
        model = copy.deepcopy(model).to(as_device(device))
    check_task(task)
    check_axis(axis)
    check_bits(quantize)
    check_options(solver, score, refine, fine_tune, outside, start, basis, budget)
    powers = as_counts("degrees", degrees)
    if (part is None) == (parts is None):
        got = "none" if part is None else "both"
        raise InputError(f"`part` or `parts` must say what is replaced, one of them. Got {got}.")
    if data is None:
        raise InputError("`data` must be inputs of the network. Got none.")
    check_numbers(model)
    specs: list[Spec] = chosen_parts(model, parts) if parts is not None else [_stretch(given, part)]
    asked = wanted_ranks(ranks, budget, len(specs))
    if asked is None and budget is None and max_drop is None:
        max_drop = _AUTO_DROP
    if max_drop is not None:
        as_number("max_drop", max_drop)
    if max_seconds is not None:
        as_number("max_seconds", max_seconds, above=True)
    # Wherever we are called, parts of this are training.
    with torch.inference_mode(False), torch.enable_grad(), progress_callback(progress, "Compressing") as report:
        watch = Watch(report, silent=progress is False, max_seconds=max_seconds)
        dtype, where = next((p.dtype, p.device) for p in model.parameters())
        inputs = divided(data, labels, validation, generator, watch.report_reading).to(where, dtype)
        network = twin_of(model, "model")
        if len(specs) > 1:
            specs = in_order_of_calls(network, specs, inputs.fitted)
            check_cuts(network, specs, inputs.fitted, logits=logits)
        outputs = _outputs(network, inputs.fitted)
        decision = decide(task, network, outputs, labelled=labels is not None or fine_tune is not None)
        agreement = None
        if score is None:
            agreement = Agreement.with_outputs_of(network, inputs.judged, in_classes=decision.in_classes)
        judged = agreement or score
        assert judged is not None
        before = rated(judged, network)
        if not np.isfinite(before):
            raise InputError(f"`score` must be a finite number for the network that is given. Got {before}.")
        if fine_tune is not None:
            labelled(fine_tune, network, dtype, where)  # complain before the work is done
        work = Work(
            inputs=inputs,
            outputs=outputs,
            decision=decision,
            score=judged,
            degrees=powers,
            basis=basis,
            start=start,
            solver=solver,
            refine=how_to_refine(refine),
            joint=joint_options(joint, len(specs), known=outputs is not None),
            fine_tune=fine_tune,
            n_samples=n_samples,
            n_bits=quantize,
            logits=logits,
            axis=axis,
            outside=outside,
            dtype=dtype,
            short=short,
            device=where,
            rng=generator,
            watch=watch,
        )
        done: list[Replaced]
        if len(specs) == 1 and work.joint is None and budget is None:  # labels take part in the choice of ranks
            one = work.part(network, specs[0])
            search = work.search(one, fine_tune)
            if asked is None:
                assert max_drop is not None
                found = search.smallest(before, max_drop, generator)
            else:
                found = search.run(asked, generator)
            new, done = found.network, [Replaced(one, found.result)]
            after = found.score
            if quantize is not None:
                work.round([layer_at(new, one)])
                after = rated(judged, new)
        else:
            each = [asked] * len(specs) if asked is not None else work.spread(network, specs, budget or Budget(1.0))
            new, done = work.replace_all(network, specs, each)
            work.finish(new, done)
            after = rated(judged, new)
        rows = tuple(work.row(new, one) for one in done)
        summary = CompressionReport(
            parts=rows,
            network_parameters=(count_parameters(model), count_parameters(new)),
            latency_batch=LATENCY_BATCH,
            score=(before, after),
            score_name="score" if agreement is None else agreement.name,
            task=decision,
            n_held_out=len(inputs.judged) if inputs.apart else 0,
            max_drop=max_drop,
        )
    for text in summary.warnings:
        warnings.warn(text, DecouplingWarning, stacklevel=2)
    new = new if device is None else new.to(home)
    layers = {one.part.name: layer_at(new, one.part) for one in done}
    return Compression(new, summary, layers, {one.part.name: one.result for one in done})


def _stretch(model: nn.Module, part: Any) -> Spec:
    """One part, by its name or by those of its first and last module."""
    first, *last = names_of(model, part)
    return (first, last[0]) if last else first


def _outputs(network: nn.Module, data: Tensor) -> Tensor | None:
    """What the network returns for all inputs, if that is one tensor that is not too large to keep."""
    found: list[Tensor] = []
    for rows in chunks(len(data), batch_for(data)):
        output = outputs_of(network, data[rows])
        if not isinstance(output, Tensor) or output.ndim < 2 or len(output) != rows.stop - rows.start:
            return None
        if output[0].numel() * len(data) > _MOST_OUTPUTS:
            return None
        found.append(output.cpu())
    return torch.cat(found)
