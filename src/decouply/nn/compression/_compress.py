"""Replace parts of a trained network by decouplings of them: the public function."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import nn

from ..._support._arguments import as_counts, as_generator
from ..._support._errors import DecouplingWarning, InputError, short_repr
from ..._support._progress import progress_callback
from ...fit._result import Result
from ...model._decoupling import Decoupling
from ..carving._data_split import split_data
from ..carving._jacobian_sampling import twin_of
from ..carving._onnx_network import OnnxNetwork
from ..carving._part import Parts, cut_part, part_names, sort_by_calls
from ..layer._decoupled_layer import DecoupledLayer
from ..layer._quantisation import count_parameters
from ..training._network_training import labelled_inputs
from ._evaluation import Agreement, CompressionReport, Task, infer_task, score_of
from ._options import Budget, Evaluation, Fitting, Training, checked_options
from ._pipeline import LATENCY_BATCH, CompressionRun, StageClock
from ._rank_search import fewest_functions, sizes_within

_AUTO_DROP = 0.01  # of the score, accepted by ranks="auto" where nothing else is asked for


@dataclass(frozen=True)
class Compression:
    """What `compress` returns.

    Attributes
    ----------
    model : Module
        A copy of the network with decouplings in the place of the parts, in evaluation mode.
    report : CompressionReport
        Before and after; print it.
    layers : dict of str to DecoupledLayer
        The new modules inside `model`, by the names of the parts.
    results : dict of str to Result
        How the decouplings were found, before they were refined, by the same names: `dc.decouple` with the samples,
        solver and settings gives one again. None if the start was random, or if a layer that was trained like a network
        is nearer. The default solver holds the score and the network, so that a pickle needs a score that can be one.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> _ = torch.nn.init.ones_(net[0].weight)  # one direction
    >>> X = torch.randn(80, 8)
    >>> how = dict(training=dc.nn.Training(refine=False), evaluation=dc.nn.Evaluation(validation=X))
    >>> out = dc.nn.compress(net, "0", X, ranks=1, degrees=1, **how)
    >>> list(out.layers), out.decoupling.ranks
    (['0'], (1,))
    """

    model: nn.Module = field(repr=False)
    report: CompressionReport
    layers: dict[str, DecoupledLayer]
    results: dict[str, Result | None]

    @property
    def layer(self) -> DecoupledLayer:
        """The new module, if one part was replaced."""
        return self._single(self.layers, "layer")

    @property
    def result(self) -> Result | None:
        """How it was found, if one part was replaced."""
        return self._single(self.results, "result")

    @property
    def decoupling(self) -> Decoupling:
        """The new module as functions that can be plotted and read."""
        return self.layer.to_decoupling()

    @staticmethod
    def _single(parts: dict[str, Any], name: str) -> Any:
        if len(parts) > 1:
            raise InputError(f"`{name}` needs a single replaced part. There are {len(parts)}: use `{name}s[name]`.")
        return next(iter(parts.values()))


def compress(
    model: nn.Module | str | os.PathLike[str],
    parts: Parts | None,
    data: object,
    ranks: int | Sequence[int] | Literal["auto"] = "auto",
    degrees: int | Sequence[int] | None = None,
    *,
    budget: Budget | None = None,
    task: Task | None = None,
    fitting: Fitting | None = None,
    training: Training | None = None,
    evaluation: Evaluation | None = None,
    rng: int | np.random.Generator = 0,
    progress: bool | Callable[..., None] = True,
) -> Compression:
    """Replace parts of a trained network by decouplings, without changing the network that is given.

    Parameters
    ----------
    model : Module or str
        A network that is a function of one tensor, or the name of an ONNX file of one; the work is done on the device
        that it is on. One in half precision or bfloat16 is compressed in float32, and returned in float32.
    parts : None, str, type, callable or sequence of them
        What is replaced: None for the whole network (`Compression.layer` is then all of it, and its `save_onnx` writes
        the new file). The name of a submodule or a pattern such as "blocks.*.mlp", in which a star stands for one
        step of the path. The names of a first and a last module, replaced with all between. A list of these. Or a
        function of name and module that chooses modules. Each part must be a function of one tensor. Parts are
        replaced in the order in which the network calls them; each is fitted to what it is given by those that are
        replaced already. A module with its own forward method that is cut between two names becomes a
        `torch.fx.GraphModule`, without other methods of its class.
    data : array (S, ...)
        Inputs of the *network*, without labels; the more the better. A DataLoader is read once, and a gigabyte of its
        inputs kept at most, drawn at random. A distribution of `scipy.stats` (such as a normal one with a mean and a
        covariance), or a function of a number and a generator, is asked for 20 000 inputs.
    ranks : int, sequence of int or "auto"
        Internal functions per layer, for every part, or "auto": the fewest whose drop of the score is
        acceptable (`Evaluation.max_drop`), found by growing and halving. They lie in one layer, or cost as much in
        several. The score of the network decides here, not the errors that `dc.select` goes by.
    degrees : int or sequence of int, optional
        Degree of the internal functions, or one per layer, if they are to be polynomials. Left out, functions begin as
        the activations of the part, and are trained like a network; see `Fitting.basis`.
    budget : Budget, optional
        Instead of `ranks`, what all parts together may cost, allocated by each part's effect on the network.
    task : "classification" or "regression", optional
        "classification" (the largest output counts) or "regression" (all outputs count). By default it is a
        classification if labels are given or the network ends in probabilities, and a regression otherwise. The
        report says which, and why.
    fitting : Fitting, optional
        How a part becomes a layer: start, solver, basis, samples.
    training : Training, optional
        How layers are trained, and to how many bits they are rounded.
    evaluation : Evaluation, optional
        How the network is judged: score, accepted drop, held out inputs.
    rng : int or numpy Generator
        Seed or generator: the same seed gives the same result.
    progress : bool or callable
        True shows a bar on a terminal once two seconds have passed. Or give a callable that takes named values. Ctrl-C
        ends the stage it is pressed in and leaves out those that follow, and parts that were not reached.

    Returns
    -------
    Compression
        The smaller network, and a report of what it costs.

    Examples
    --------
    >>> import decouply as dc, torch
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> _ = torch.nn.init.ones_(net[0].weight)  # one direction
    >>> X = torch.randn(80, 8)
    >>> how = dict(training=dc.nn.Training(refine=False), evaluation=dc.nn.Evaluation(validation=X))
    >>> out = dc.nn.compress(net, "0", X, ranks=1, degrees=1, **how)
    >>> out.report.parts[0].name, out.report.parts[0].ranks
    ('0', (1,))
    >>> out.model(torch.zeros(4, 8)).shape
    torch.Size([4, 2])
    """
    generator = as_generator(rng)
    fitting = checked_options("fitting", fitting, Fitting)
    training = checked_options("training", training, Training)
    evaluation = checked_options("evaluation", evaluation, Evaluation)
    network, short_types = _network_copy(OnnxNetwork.read(model) if isinstance(model, str | os.PathLike) else model)
    if parts is None:
        network, parts = nn.Sequential(network), "0"
        model = network
    names = part_names(model if isinstance(model, nn.Module) else network, parts)  # a hint knows the modules given
    powers = None if degrees is None else as_counts("degrees", degrees)
    given_ranks = _given_ranks(ranks, budget, len(names))
    max_drop = evaluation.max_drop
    if given_ranks is None and budget is None and max_drop is None:
        max_drop = _AUTO_DROP
    # Wherever we are called, parts of this are training.
    with torch.inference_mode(False), torch.enable_grad(), progress_callback(progress, "Compressing") as report:
        clock = StageClock(report, silent=progress is False, max_seconds=training.max_seconds)
        reading = partial(report, stage="reading")
        dtype, device = next((p.dtype, p.device) for p in network.parameters())
        split = split_data(data, fitting.labels, evaluation.validation, generator, reading).to(device, dtype)
        if len(names) > 1:
            names = sort_by_calls(network, names, split.fitted, logits=fitting.logits)
        first = cut_part(network, names[0], split.fitted, logits=fitting.logits, axis=fitting.axis, rng=generator)
        labelled = fitting.labels is not None or training.fine_tune is not None
        decision = infer_task(task, network, first.network_outputs, labelled=labelled)
        score, score_name = evaluation.score, "score"
        if score is None:
            score = Agreement.with_outputs_of(network, split.judged, in_classes=decision.in_classes)
            score_name = score.name
        before = score.compare(score.outputs) if isinstance(score, Agreement) else score_of(score, network)
        if not np.isfinite(before):
            raise InputError(f"`score` must be a finite number for the network that is given. Got {before}.")
        if training.fine_tune is not None:
            labelled_inputs(training.fine_tune, network, dtype, device)  # complains before the work is done
        run = CompressionRun(
            network, names, first, split, decision, score, powers, fitting, training, short_types, generator, clock
        )
        if budget is not None:
            found = run.replace_parts(sizes_within(run, budget))
        elif given_ranks is not None:
            found = run.replace_parts([given_ranks] * len(names))
        else:
            assert max_drop is not None
            found = fewest_functions(run, before, max_drop)
        summary = CompressionReport(
            parts=tuple(run.measure(found.network, one) for one in found.replaced),
            network_parameters=(count_parameters(network), count_parameters(found.network)),
            latency_batch=LATENCY_BATCH,
            score=(before, found.score),
            score_name=score_name,
            task=decision,
            n_held_out=len(split.judged) if split.apart else 0,
            max_drop=max_drop,
        )
    for text in summary.warnings:
        warnings.warn(text, DecouplingWarning, stacklevel=2)
    layers = {one.part.name: one.layer(found.network) for one in found.replaced}
    return Compression(found.network, summary, layers, {one.part.name: one.result for one in found.replaced})


def _network_copy(model: Any) -> tuple[nn.Module, frozenset[torch.dtype]]:
    """A copy in evaluation mode whose weights are finite, and the short floats that the network had.

    These become float32, in which polynomials keep their digits.
    """
    if not isinstance(model, nn.Module):
        raise InputError(f"`model` must be a torch.nn.Module. Got {type(model).__name__}.")
    types = {p.dtype for p in model.parameters()}
    if not types:
        raise InputError("`model` must have parameters. It has none.")
    short = not types <= {torch.float32, torch.float64}
    if short and not types <= {torch.float32, torch.float16, torch.bfloat16}:
        names = ", ".join(sorted(str(t) for t in types))
        raise InputError(
            f"`model` must have real numbers of 16 to 64 bits. Got {names}: convert it with model.float()."
        )
    network = twin_of(model, "model")
    for name, p in (*network.named_parameters(), *network.named_buffers()):
        bad = int(torch.count_nonzero(~torch.isfinite(p.detach()))) if p.is_floating_point() else 0
        if bad:
            raise InputError(
                f"`model` must have finite weights. {name} has {bad} that are NaN or infinite: look at how it was "
                "trained."
            )
    return (network.float(), frozenset(types - {torch.float32})) if short else (network, frozenset())


def _given_ranks(ranks: Any, budget: Any, n_parts: int) -> tuple[int, ...] | None:
    """Ranks that are asked for; None if they are to be found."""
    if budget is not None:
        if not isinstance(budget, Budget):
            raise InputError(
                f"`budget` must be dc.nn.Budget(parameters=0.25) or one like it. Got {short_repr(budget)}."
            )
        if not isinstance(ranks, str):
            raise InputError("`ranks` must be left out with `budget`, from which they follow.")
        return None
    if not isinstance(ranks, str):
        return as_counts("ranks", ranks)
    if ranks != "auto":
        raise InputError(f'`ranks` must be numbers or "auto". Got {short_repr(ranks)}.')
    if n_parts > 1:
        raise InputError(
            f'`ranks` must be numbers for several parts, or give budget=dc.nn.Budget(parameters=0.25). Got "auto" for '
            f"{n_parts} parts."
        )
    return None
