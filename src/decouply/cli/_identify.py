"""`decouply identify` and `decouply simulate`: from a record of inputs and outputs to a dynamic model, and back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import click

from .._support._errors import pluralised
from ._options import (
    FileName,
    GivenFile,
    Output,
    basis_class,
    command_line,
    model_option,
    name_list,
    output_options,
    seed_option,
)

if TYPE_CHECKING:
    from ..samples._samples import Samples

_RANK = 2  # of a NARX model, unless functions are named
_TRIED: tuple[tuple[str, ...], ...] = (("cubic", "state-tanh"), ("cubic",))  # where the user names no functions
_FUNCTIONS = ("cubic", "quintic", "spline", "tanh", "sigmoid", "saturation", "dead-zone", "relu", "friction")

input_option = click.option(
    "--input",
    "inputs",
    type=name_list,
    metavar="NAME,...",
    required=True,
    help="Input columns, by name, or by number where the file has no header.",
)


def function_list(text: str) -> tuple[str, ...]:
    """Names of functions separated by commas, each of them known."""
    names = name_list(text)
    for name in names:
        if name.removeprefix("state-") not in _FUNCTIONS:
            raise click.BadParameter(
                f"{name!r} is not one of {', '.join(_FUNCTIONS)}; with state- before its name a function depends on "
                "the state alone."
            )
    return names


@click.command(short_help="Fit a dynamic model to a record.")
@click.argument("file", type=GivenFile())
@input_option
@click.option(
    "--output",
    "outputs",
    type=name_list,
    metavar="NAME,...",
    required=True,
    help="Output columns, by name, or by number where the file has no header.",
)
@click.option("--states", type=click.IntRange(min=1), default=None, help="Number of states. By default it is chosen.")
@click.option(
    "--narx",
    is_flag=True,
    help="Fit a polynomial NARX model instead, and decouple it into as many cubics as --functions names, or two.",
)
@click.option(
    "--functions",
    type=function_list,
    metavar="NAME,...",
    default=None,
    help=f"Internal functions: {', '.join(_FUNCTIONS)}; state-tanh is a tanh of the state alone. By default held-back "
    f"data choose among {' and '.join(','.join(names) for names in _TRIED)}.",
)
@click.option(
    "--oversample", type=click.IntRange(min=1), default=1, show_default=True, help="Steps of the model per sample."
)
@click.option("--no-feedback", is_flag=True, help="Put the functions between two linear blocks (Wiener-Hammerstein).")
@click.option("--integrating", is_flag=True, help="Outputs integrate something, as a position integrates a velocity.")
@click.option("--window", type=click.IntRange(min=2), default=None, help="Fit windows of this many samples first.")
@click.option("--n-starts", type=click.IntRange(min=1), default=5, show_default=True, help="Number of starts.")
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="Stop after about this many seconds with the best model so far.",
)
@model_option
@click.option(
    "--report", "report_path", metavar="FILE", type=FileName(".html", ".htm"), default=None, help="Write a report here."
)
@seed_option
@output_options
def identify(
    file: str,
    inputs: tuple[str, ...],
    outputs: tuple[str, ...],
    states: int | None,
    narx: bool,
    functions: tuple[str, ...] | None,
    oversample: int,
    no_feedback: bool,
    integrating: bool,
    window: int | None,
    n_starts: int,
    max_seconds: float | None,
    model_path: str | None,
    report_path: str | None,
    seed: int,
    output: Output,
) -> None:
    """Identify a dynamic model from the record in FILE (.csv, .tsv, .parquet, .npz or .mat), one row per sample.

    \b
    decouply identify data.csv --input u --output y --states 2 --report page.html --model model.safetensors
    """
    from .._support._atomic_files import check_target
    from ..sysid import SearchOptions
    from ._output import shown_progress

    if narx:
        _check_narx(functions)
    for path in (model_path, report_path):
        if path is not None:
            check_target(path)
    with shown_progress("Identifying", quiet=output.quiet) as progress:
        record = _read(file, inputs, outputs)
        limits = {"max_seconds": max_seconds, "rng": seed, "progress": progress}
        if narx:
            rank = _RANK if functions is None else len(functions)
            found = _narx(record, rank, limits, model_path, report_path)
        else:
            options = {"oversample": oversample, "feedback": not no_feedback, "integrating": integrating}
            fit = {"n_starts": n_starts, "search": SearchOptions(window=window)} | limits
            found = _state_space(record, states, functions, options, fit, model_path, report_path)
    _tell(found, output)


def _check_narx(functions: tuple[str, ...] | None) -> None:
    """Options of state-space models are refused, not ignored."""
    context = click.get_current_context()
    given = click.core.ParameterSource.COMMANDLINE
    for name in ("states", "oversample", "no_feedback", "integrating", "window", "n_starts"):
        if context.get_parameter_source(name) is given:
            option = "--" + name.replace("_", "-")
            raise click.UsageError(f"--narx has no {name.replace('_', ' ')}: leave {option} out.")
    if functions is not None and set(functions) != {"cubic"}:
        raise click.UsageError("--narx has cubics only: --functions cubic,cubic asks for two.")


def _read(file: str, inputs: tuple[str, ...], outputs: tuple[str, ...]) -> Samples:
    from ..samples.readers._by_extension import read_samples

    return read_samples(file, inputs=inputs, outputs=outputs, jacobians=False, in_time=True).samples


def _basis(name: str) -> Any:
    from ..bases import Monomial
    from ..sysid import StateFunction

    if name.startswith("state-"):
        return StateFunction(_basis(name.removeprefix("state-")))
    degrees = {"cubic": 3, "quintic": 5}
    return Monomial(degrees[name]) if name in degrees else basis_class(name)


def _state_space(
    record: Samples,
    states: int | None,
    functions: tuple[str, ...] | None,
    options: dict[str, Any],
    fit: dict[str, Any],
    model_path: str | None,
    report_path: str | None,
) -> dict[str, Any]:
    from ..sysid import percent_fit, suggest
    from ..sysid.free_run._dynamic_model import default_n_init
    from ..sysid.state_space._order_selection import fit_with_best_functions

    u, y = record.X, record.F
    assert y is not None  # columns of outputs were named
    lists = _TRIED if functions is None else (functions,)
    reasons = []
    limit, began = fit["max_seconds"], time.monotonic()
    if states is None:
        trial = {name: fit[name] for name in ("rng", "progress")}
        trial["max_seconds"] = None if limit is None else limit / (len(lists) + 1)
        suggestion = suggest(u, y, functions=[_basis(name) for name in lists[0]], **trial)
        states = suggestion.chosen.n_states
        reasons.append(suggestion.reason)
        most = max(1, suggestion.chosen.n_functions)
        lists = tuple(dict.fromkeys(names[:most] for names in lists))
    bases = {",".join(names): [_basis(name) for name in names] for names in lists}
    if limit is not None:  # what is left is shared among the lists
        fit = fit | {"max_seconds": max(1e-3, limit - (time.monotonic() - began)) / len(lists)}
    model, reason = fit_with_best_functions(u, y, states, bases, options=options, **fit)
    reasons += [reason] if len(bases) > 1 else []
    model = model.with_names(record.inputs, record.outputs)
    fit["progress"](stage="writing")
    if model_path is not None:
        model.save(model_path)
    if report_path is not None:
        model.report(report_path, title="Identified model", command=command_line())
    k = default_n_init(len(y), model.n_states)  # outputs that are given, and not scored
    simulated = model.simulate(u, y[:k])
    return {
        "model": repr(model),
        "verdict": model.dynamics().verdict,
        "n_states": states,
        "reason": " ".join(reasons) or None,
        "parameters": {"canonical": model.n_canonical, "free": model.n_parameters},
        "rmse": model.fitted.rmse,
        "linear_rmse": model.fitted.linear_rmse,
        "percent_fit": percent_fit(y[k:], simulated[k:]),
        "starts": model.starts,
        "formula": model.formula(),
    }


def _narx(
    record: Samples,
    rank: int,
    limits: dict[str, Any],
    model_path: str | None,
    report_path: str | None,
) -> dict[str, Any]:
    from ..sysid import PolynomialNARX, percent_fit
    from ..sysid.free_run._dynamic_model import default_n_init

    u, y = record.X, record.F
    assert y is not None  # columns of outputs were named
    max_seconds, progress = limits["max_seconds"], limits["progress"]
    began, half = time.monotonic(), None if max_seconds is None else max_seconds / 2
    model = PolynomialNARX(n_u=1, n_y=2).fit(u, y).decouple(rank, **limits | {"max_seconds": half})
    left = None if max_seconds is None else max(1e-3, max_seconds - (time.monotonic() - began))
    model = model.refine(u, y, max_seconds=left, progress=progress)
    progress(stage="writing")
    if model_path is not None:
        model.save(model_path)
    if report_path is not None:
        model.report(report_path, u, y, title="Identified model", command=command_line())
    k = default_n_init(len(y), model.n_states)  # outputs that are given, and not scored
    simulated = model.simulate(u, y[:k])
    return {
        "model": repr(model),
        "parameters": {"free": model.n_parameters},
        "percent_fit": percent_fit(y[k:], simulated[k:]),
        "formula": model.formula(),
    }


def _tell(found: dict[str, Any], output: Output) -> None:
    import dataclasses

    from ._output import print_json, say

    if output.as_json:
        rows = [dataclasses.asdict(row) for row in found.get("starts", ())]
        print_json(found | ({"starts": rows} if rows else {}))
    elif not output.quiet:
        if found.get("reason"):
            say(found["reason"])
        say(found["model"])
        if "verdict" in found:
            say(found["verdict"])
        for key, label in (("rmse", "Error"), ("linear_rmse", "Error of the linear model"), ("percent_fit", "Fit (%)")):
            if key in found:
                say(f"{label}: {', '.join(f'{value:.4g}' for value in found[key])}")
        say(found["formula"])


@click.command(short_help="Run a dynamic model on new inputs.")
@click.argument("model", type=GivenFile())
@click.argument("file", type=GivenFile())
@click.option(
    "--input",
    "inputs",
    type=name_list,
    metavar="NAME,...",
    default=None,
    help="Input columns. By default those with the names used in training; NARX files do not keep names.",
)
@click.option(
    "--output",
    "outputs",
    type=name_list,
    metavar="NAME,...",
    default=None,
    help="Measured outputs: the initial state is found from the first of them, the fit to the others is printed.",
)
@click.option(
    "--n-init",
    type=click.IntRange(min=1),
    default=None,
    help="Number of outputs from which the initial state is found. By default 50, or a quarter of a shorter record.",
)
@click.option("--to", "target", metavar="FILE", type=FileName(".csv"), default=None, help="Write the outputs here.")
@click.option(
    "--report",
    "report_path",
    metavar="FILE",
    type=FileName(".html", ".htm"),
    default=None,
    help="Write a page about this run; needs --output.",
)
def simulate(
    model: str,
    file: str,
    inputs: tuple[str, ...] | None,
    outputs: tuple[str, ...] | None,
    n_init: int | None,
    target: str | None,
    report_path: str | None,
) -> None:
    """Run MODEL, written by `decouply identify`, on the inputs in FILE, and print its outputs as CSV or write them.

    This is a free run: the model sees its own outputs, not the measured ones.

    \b
    decouply simulate model.safetensors input.csv
    """
    import numpy as np

    from .._support._atomic_files import check_target, write_text
    from ..samples.readers._by_extension import read_columns
    from ..sysid import percent_fit
    from ..sysid.free_run._dynamic_model import default_n_init
    from ._output import csv_text, say, shown_progress

    if report_path is not None and outputs is None:
        raise click.UsageError("--report compares with measured outputs: name them by --output.")
    for path in (target, report_path):
        if path is not None:
            check_target(path)
    found = _dynamic(model)
    of_u, of_y = found.channel_names or (None, None)
    if inputs is None and of_u is None:
        raise click.UsageError("A NARX file does not keep the names of columns: name the inputs by --input.")
    inputs = of_u if inputs is None else _in_order(inputs, of_u)
    outputs = None if outputs is None else _in_order(outputs, of_y)
    assert inputs is not None
    for option, names, own in (("--input", inputs, of_u), ("--output", outputs, of_y)):
        if names is not None and own is not None and len(names) != len(own):
            raise click.BadParameter(
                f"must name {pluralised(len(own), 'column')}, as in training ({', '.join(own)}). "
                f"Got {', '.join(names)}.",
                param_hint=option,
            )
    if outputs is None and of_y is None:
        raise click.UsageError("A NARX model begins with measured outputs: name them by --output.")
    measured, k = None, 0
    with shown_progress("Running the model"):
        if outputs is None:
            u = read_columns(file, "--input", inputs)
            y_hat = found.simulate(u)
        else:
            record = _read(file, inputs, outputs)
            assert record.F is not None
            u, measured = record.X, record.F
            k = default_n_init(len(u), found.n_states) if n_init is None else n_init
            if report_path is not None and k + 2 > len(u):
                raise click.BadParameter(
                    f"must leave at least two outputs for the page to score. Got {k}, and the record has "
                    f"{pluralised(len(u), 'sample')}.",
                    param_hint="--n-init",
                )
            y_hat = found.simulate(u, measured[:k])
        columns = y_hat[:, None] if y_hat.ndim == 1 else y_hat
        text = csv_text((f"{name}_hat" for name in outputs or of_y or ()), columns.tolist())
        if report_path is not None:
            found.report(report_path, u, measured, n_init=k, title=f"Free run of {model}", command=command_line())
    if target is None:
        click.echo(text, nl=False)
    else:
        write_text(target, text)
        say(f"Written: {target}, {pluralised(len(columns), 'sample')}.")
    if measured is not None and np.isfinite(columns).all():
        if k + 2 > len(columns):
            told = (
                f"No fit: the model begins with {min(k, len(columns))} of {pluralised(len(columns), 'output')}, and at "
                "least two must be left to score: lower --n-init, or give a longer record."
            )
        else:
            told = f"Fit (%): {', '.join(f'{f:.4g}' for f in percent_fit(measured[k:], columns[k:]))}"
        click.echo(told, err=target is None)


def _dynamic(path: str) -> Any:
    """A model with memory: state space or NARX."""
    from .._support._errors import InputError
    from ._model_commands import load_any

    found = load_any(path)
    if not hasattr(found, "simulate"):
        raise InputError(
            f"`{path}` must hold a model with memory, written by `decouply identify`. It holds a map without one: use "
            "`decouply predict`."
        )
    return found


def _in_order(asked: tuple[str, ...], own: tuple[str, ...] | None) -> tuple[str, ...]:
    """Columns in the order in which the model has them, where it knows their names."""
    return own if own is not None and sorted(own) == sorted(asked) else asked
