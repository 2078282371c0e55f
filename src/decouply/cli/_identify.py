"""`decouply identify` and `decouply simulate`: from a record of inputs and outputs to a dynamic model, and back."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .._support._errors import InputError, pluralised
from ._model_commands import load_any
from ._options import ON_SCREEN, FileName, Given, basis_class, check_targets, command_line, name_list, option, options

if TYPE_CHECKING:
    from ..samples._samples import Samples

_NARX_RANK = 2  # unless functions are named
_LEAST_SECONDS = 1e-3  # of a stage, if the time was used up before
_TRIED: tuple[tuple[str, ...], ...] = (("cubic", "state-tanh"), ("cubic",))  # where the user names no functions
_FUNCTIONS = ("cubic", "quintic", "spline", "tanh", "sigmoid", "saturation", "dead-zone", "relu", "friction")


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
@click.argument("file", type=FileName())
@options(
    option("--input inputs", required=True),
    option("--output outputs", required=True),
    option("--states", type=click.IntRange(min=1), help="Number of states. By default it is chosen."),
    option(
        "--narx",
        is_flag=True,
        help="Fit a polynomial NARX model instead, and decouple it into as many cubics as --functions names, or two.",
    ),
    option(
        "--functions",
        type=function_list,
        metavar="NAME,...",
        help=f"Internal functions: {', '.join(_FUNCTIONS)}; state-tanh is a tanh of the state alone. By default "
        f"held-back data choose among {' and '.join(','.join(names) for names in _TRIED)}.",
    ),
    option("--oversample", type=click.IntRange(min=1), default=1, help="Steps of the model per sample."),
    option("--no-feedback", is_flag=True, help="Put the functions between two linear blocks (Wiener-Hammerstein)."),
    option("--integrating", is_flag=True, help="Outputs integrate something, as a position integrates a velocity."),
    option("--window", type=click.IntRange(min=2), help="Fit windows of this many samples first."),
    option("--n-starts", default=5, help="Number of starts."),
    "--max-seconds",
    "--model model_path",
    option("--report report_path", help="Write a report here."),
    *ON_SCREEN,
)
def identify(file: str, given: Given) -> None:
    """Identify a dynamic model from the record in FILE (.csv, .tsv, .parquet, .npz or .mat), one row per sample.

    \b
    decouply identify data.csv --input u --output y --states 2 --report page.html --model model.safetensors
    """
    from ..sysid import percent_fit
    from ..sysid.free_run._dynamic_model import default_n_init
    from ._output import print_json, say, shown_progress

    if given.narx:
        _refuse_options_of_state_spaces(given.functions)
    check_targets(given.model_path, given.report_path)
    with shown_progress("Identifying", quiet=given.quiet) as progress:
        record = _read(file, given.inputs, given.outputs)
        u, y = record.X, record.F
        assert y is not None  # columns of outputs were named
        model, about = (_narx if given.narx else _state_space)(record, given, progress)
        progress(stage="writing")
        if given.model_path is not None:
            model.save(given.model_path)
        if given.report_path is not None:
            model.report(given.report_path, u, y, title="Identified model", command=command_line())
        k = default_n_init(len(y), model.n_states)  # outputs that are given, and not scored
        found = {"model": repr(model), **about, "percent_fit": percent_fit(y[k:], model.simulate(u, y[:k])[k:])}
        if not given.narx:
            found["starts"] = [dataclasses.asdict(row) for row in model.starts]
        found["formula"] = model.formula()
    if given.as_json:
        print_json(found)
    elif not given.quiet:
        for key in ("reason", "model", "verdict"):
            if found.get(key):
                say(found[key])
        for key, label in (("rmse", "Error"), ("linear_rmse", "Error of the linear model"), ("percent_fit", "Fit (%)")):
            if key in found:
                say(f"{label}: {', '.join(f'{value:.4g}' for value in found[key])}")
        say(found["formula"])


def _refuse_options_of_state_spaces(functions: tuple[str, ...] | None) -> None:
    """NARX models do not have them: they are refused, not ignored."""
    context = click.get_current_context()
    on_command_line = click.core.ParameterSource.COMMANDLINE
    for name in ("states", "oversample", "no_feedback", "integrating", "window", "n_starts"):
        if context.get_parameter_source(name) is on_command_line:
            raise click.UsageError(f"--narx has no {name.replace('_', ' ')}: leave --{name.replace('_', '-')} out.")
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


def _state_space(record: Samples, given: Given, progress: Callable[..., None]) -> tuple[Any, dict[str, Any]]:
    """The state-space model with the best functions, of the suggested size unless one was asked for."""
    from ..sysid import SearchOptions, suggest
    from ..sysid.state_space._order_selection import fit_with_best_functions

    u, y = record.X, record.F
    lists = _TRIED if given.functions is None else (given.functions,)
    reasons, n_states = [], given.states
    limit, began = given.max_seconds, time.monotonic()
    fit: dict[str, Any] = {"max_seconds": limit, "rng": given.seed, "progress": progress}
    if n_states is None:
        trial = fit | {"max_seconds": None if limit is None else limit / (len(lists) + 1)}
        suggestion = suggest(u, y, functions=[_basis(name) for name in lists[0]], **trial)
        n_states = suggestion.chosen.n_states
        reasons.append(suggestion.reason)
        most = max(1, suggestion.chosen.n_functions)
        lists = tuple(dict.fromkeys(names[:most] for names in lists))
    bases = {",".join(names): [_basis(name) for name in names] for names in lists}
    if limit is not None:  # what is left is shared among the lists
        fit |= {"max_seconds": max(_LEAST_SECONDS, limit - (time.monotonic() - began)) / len(lists)}
    options = {"oversample": given.oversample, "feedback": not given.no_feedback, "integrating": given.integrating}
    fit |= {"n_starts": given.n_starts, "search": SearchOptions(window=given.window)}
    model, reason = fit_with_best_functions(u, y, n_states, bases, options=options, **fit)
    reasons += [reason] if len(bases) > 1 else []
    model = model.with_names(record.inputs, record.outputs)
    return model, {
        "verdict": model.dynamics().verdict,
        "n_states": n_states,
        "reason": " ".join(reasons) or None,
        "parameters": {"canonical": model.n_canonical, "free": model.n_parameters},
        "rmse": model.fitted.rmse,
        "linear_rmse": model.fitted.linear_rmse,
    }


def _narx(record: Samples, given: Given, progress: Callable[..., None]) -> tuple[Any, dict[str, Any]]:
    """A polynomial NARX model, decoupled into cubics and refined; half of the time is for each."""
    from ..sysid import PolynomialNARX

    u, y, limit = record.X, record.F, given.max_seconds
    rank = _NARX_RANK if given.functions is None else len(given.functions)
    began, half = time.monotonic(), None if limit is None else limit / 2
    polynomial = PolynomialNARX(n_u=1, n_y=2).fit(u, y)
    model = polynomial.decouple(rank, max_seconds=half, rng=given.seed, progress=progress)
    left = None if limit is None else max(_LEAST_SECONDS, limit - (time.monotonic() - began))
    model = model.refine(u, y, max_seconds=left, progress=progress)
    return model, {"parameters": {"free": model.n_parameters}}


@click.command(short_help="Run a dynamic model on new inputs.")
@click.argument("model", type=FileName())
@click.argument("file", type=FileName())
@options(
    option(
        "--input inputs",
        help="Input columns. By default those with the names used in training; NARX files do not keep names.",
    ),
    option(
        "--output outputs",
        help="Measured outputs: the initial state is found from the first of them, the fit to the others is printed.",
    ),
    option(
        "--n-init",
        type=click.IntRange(min=1),
        help="Number of outputs from which the initial state is found. By default 50, or a quarter of a shorter "
        "record.",
    ),
    option("--to target", type=FileName(".csv"), help="Write the outputs here."),
    option("--report report_path", help="Write a page about this run; needs --output."),
)
def simulate(model: str, file: str, given: Given) -> None:
    """Run MODEL, written by `decouply identify`, on the inputs in FILE, and print its outputs as CSV or write them.

    This is a free run: the model sees its own outputs, not the measured ones.

    \b
    decouply simulate model.safetensors input.csv
    """
    import numpy as np

    from .._support._atomic_files import write_text
    from ..samples.readers._by_extension import read_columns
    from ..sysid import percent_fit
    from ..sysid.free_run._dynamic_model import default_n_init
    from ._output import csv_text, say, shown_progress

    inputs, outputs, target, report_path = given.inputs, given.outputs, given.target, given.report_path
    if report_path is not None and outputs is None:
        raise click.UsageError("--report compares with measured outputs: name them by --output.")
    check_targets(target, report_path)
    found = load_any(model)
    if not hasattr(found, "simulate"):
        raise InputError(
            f"`{model}` must hold a model with memory, written by `decouply identify`. It holds a map without one: use "
            "`decouply predict`."
        )
    of_u, of_y = found.channel_names or (None, None)
    if inputs is None and of_u is None:
        raise click.UsageError("A NARX file does not keep the names of columns: name the inputs by --input.")
    inputs = of_u if inputs is None else _in_order(inputs, of_u)
    outputs = None if outputs is None else _in_order(outputs, of_y)
    assert inputs is not None
    for hint, names, own in (("--input", inputs, of_u), ("--output", outputs, of_y)):
        if names is not None and own is not None and len(names) != len(own):
            raise click.BadParameter(
                f"must name {pluralised(len(own), 'column')}, as in training ({', '.join(own)}). "
                f"Got {', '.join(names)}.",
                param_hint=hint,
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
            k = default_n_init(len(u), found.n_states) if given.n_init is None else given.n_init
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


def _in_order(asked: tuple[str, ...], own: tuple[str, ...] | None) -> tuple[str, ...]:
    """Columns in the order in which the model has them, where it knows their names."""
    return own if own is not None and sorted(own) == sorted(asked) else asked
