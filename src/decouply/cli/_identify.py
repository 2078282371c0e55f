"""`decouply identify` and `decouply simulate`: from a record of inputs and outputs to a dynamic model, and back."""

from __future__ import annotations

import dataclasses
import math
import shlex
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .._support._errors import InputError, SolverError, pluralised, silenced
from ._columns import chosen_signals
from ._model_commands import load_any
from ._options import (
    FileName,
    Given,
    SectionCommand,
    basis_class,
    check_targets,
    command_line,
    name_list,
    option,
    options,
    section,
)

if TYPE_CHECKING:
    from numpy import ndarray

    from ..sysid.signals._records import Signals

_NARX_RANK = 2  # unless functions are named
_OF_ONE_SEARCH = (
    "oversample",
    "causal",
    "no_feedback",
    "integrating",
    "window",
    "n_starts",
)  # options of a model asked for
_SECONDS = 30.0  # that a model is looked for, unless the user says how long
_CLEARLY_BETTER = 0.9  # a model with more parameters must lower the validation error to this share
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


@dataclasses.dataclass(frozen=True)
class Record:
    """Inputs and outputs of a file, NaN at its gaps, and their names."""

    u: ndarray
    y: ndarray
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    sampling_time: Any = None  # seconds, or the times of all samples

    @classmethod
    def read(
        cls, file: str, inputs: tuple[str, ...], outputs: tuple[str, ...], sampling_time: str | None = None
    ) -> Record:
        """Signals, and times if `sampling_time` is no number but the name of a column."""
        import numpy as np

        from ..samples.readers._by_extension import read_samples

        times: tuple[str, ...] = ()
        seconds = None
        if sampling_time is not None:
            try:
                seconds = float(sampling_time)
            except ValueError:
                times = (sampling_time,)
        reading = read_samples(file, inputs=(*inputs, *times), outputs=outputs, jacobians=False, drop_missing=True)
        samples, whole = reading.samples, reading.whole
        assert samples.F is not None and whole is not None  # columns of outputs were named
        u, y = (np.full((len(whole), a.shape[1]), np.nan) for a in (samples.X, samples.F))
        u[whole], y[whole] = samples.X, samples.F
        k = len(inputs)
        names = (samples.inputs or inputs)[:k], samples.outputs or outputs
        return cls(u[:, :k], y, *names, u[:, k] if times else seconds)

    @property
    def pieces(self) -> Signals:
        """The same, cut at its gaps."""
        from ..sysid.signals._records import Signals

        return Signals.without_gaps(self.u, self.y, self.sampling_time)


@click.command(cls=SectionCommand, short_help="Fit a dynamic model to a record over time.")
@click.argument("file", type=FileName())
@options(
    *section(
        "Data",
        "--inputs",
        "--outputs",
        option("--sampling-time", metavar="SECONDS|COLUMN", help="Seconds between samples, or the column of times."),
    ),
    *section(
        "Model",
        option("--states", type=click.IntRange(min=1), help="Number of states. Without it the data choose."),
        option(
            "--functions",
            type=function_list,
            metavar="NAME,...",
            help=f"Internal functions: {', '.join(_FUNCTIONS)}; state-tanh is a tanh of the state alone. By default "
            "validation data choose among several lists.",
        ),
        option("--no-feedback", is_flag=True, help="Put the functions between two linear blocks (Wiener-Hammerstein)."),
        option("--integrating", is_flag=True, help="Outputs integrate something, as a position integrates a velocity."),
        option("--oversample", type=click.IntRange(min=1), default=1, help="Steps of the model per sample."),
        option("--causal", is_flag=True, help="Predict the inputs between samples from present and past ones."),
        option(
            "--narx",
            is_flag=True,
            help="Fit a polynomial NARX model and decouple it into as many cubics as --functions names, or two.",
        ),
    ),
    *section(
        "Search",
        option(
            "--max-seconds",
            help="Stop after about this many seconds with the best model so far, as Ctrl-C does. By default 30, and no "
            "limit if --narx or another option asks for one kind of model.",
        ),
        option("--n-starts", default=5, help="Number of starts."),
        option("--window", type=click.IntRange(min=2), help="Fit windows of this many samples first."),
        "--seed",
    ),
    *section("Output", "--model model_path", "--report report_path", "--json as_json", "--quiet"),
)
def identify(file: str, given: Given) -> None:
    """Identify a dynamic model from the record in FILE (.csv, .tsv, .parquet, .npz or .mat), one row per sample.

    Without --inputs and --outputs, the command lists the columns and asks which ones to use. In a script it takes the
    last column of numbers as the output. A record with gaps is cut there.

    \b
    decouply identify record.csv --inputs u --outputs y --report page.html --model model.safetensors
    """
    import numpy as np

    from ..sysid import percent_fit
    from ..sysid.free_run._dynamic_model import default_n_init
    from ._output import print_json, say, say_lines, say_next, say_paths, shown_progress

    if given.narx:
        _refuse_options_of_state_spaces(given.functions)
    check_targets(given.model_path, given.report_path)
    given.inputs, given.outputs = chosen_signals(file, given)
    with shown_progress("Identifying", quiet=given.quiet, limit=given.max_seconds) as progress:
        record = Record.read(file, given.inputs, given.outputs, given.sampling_time)
        pieces = record.pieces
        model, about = (_narx if given.narx else _state_space)(record, given, progress)
        progress(stage="writing")
        if given.model_path is not None:
            model.save(given.model_path)
        if given.report_path is not None:
            u, y = max(zip(pieces.u, pieces.y, strict=True), key=lambda piece: len(piece[0]))
            model.report(given.report_path, u, y, title="Identified model", command=command_line())
        measured, simulated = [], []
        with silenced():  # that the run escapes is said below
            for u, y in zip(pieces.u, pieces.y, strict=True):
                k = default_n_init(len(y), model.n_states)  # outputs that are given, and not scored
                measured.append(y[k:])
                simulated.append(model.simulate(u, y[:k])[k:])
        y_hat = np.concatenate(simulated)
        found = {"model": repr(model), **about}
        if np.isfinite(y_hat).all():
            found["percent_fit"] = percent_fit(np.concatenate(measured), y_hat)
        else:
            found["warning"] = (
                "The simulation of this model diverges on the record that it was fitted to. Leave out --narx, or all "
                "options of the search: models that diverge are then refused."
            )
        if not given.narx:
            found["starts"] = [dataclasses.asdict(row) for row in model.starts]
        found["formula"] = model.formula()
    if given.as_json:
        print_json(found)
    elif not given.quiet:
        # The reason of a search compares with a linear model already; two numbers for one would not help.
        said = ("model", "reason", "warning") if "tried" in found else ("verdict", "model", "reason", "warning")
        say_lines("\n".join(found[key] for key in said if found.get(key)))
        for i, name in enumerate(given.outputs):
            fit = f"{name}: "
            fit += (
                f"fit {found['percent_fit'][i]:.3g} % on this record" if "percent_fit" in found else "the run diverges"
            )
            if "rmse" in found:
                fit += f", RMSE {found['rmse'][i]:.3g}; the linear model it began with: {found['linear_rmse'][i]:.3g}"
            say(fit)
        say(found["formula"])
        say_paths(Model=given.model_path, Report=given.report_path)
        model_file, outputs = shlex.quote(given.model_path or ""), shlex.quote(",".join(given.outputs))
        run = f"decouply simulate {model_file} {shlex.quote(file)} --outputs {outputs} --to run.csv"
        say_next(run, f"decouply export {model_file} --format c", given=given)


def _refuse_options_of_state_spaces(functions: tuple[str, ...] | None) -> None:
    """NARX models do not have them: they are refused, not ignored."""
    for name in ("states", "sampling_time", *_OF_ONE_SEARCH):
        if _asks_for(name):
            raise click.UsageError(f"--narx has no {name.replace('_', ' ')}: leave --{name.replace('_', '-')} out.")
    if functions is not None and set(functions) != {"cubic"}:
        raise click.UsageError("--narx has cubics only: --functions cubic,cubic asks for two.")


def _asks_for(*names: str) -> bool:
    """Whether one of these options stands on the command line."""
    context = click.get_current_context()
    return any(context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE for name in names)


def _basis(name: str) -> Any:
    from ..bases import Monomial
    from ..sysid import StateFunction

    if name.startswith("state-"):
        return StateFunction(_basis(name.removeprefix("state-")))
    degrees = {"cubic": 3, "quintic": 5}
    return Monomial(degrees[name]) if name in degrees else basis_class(name)


def _state_space(record: Record, given: Given, progress: Callable[..., None]) -> tuple[Any, dict[str, Any]]:
    """The best model that `identify` can vouch for, unless options ask for one of another kind."""
    from ..sysid import identify

    if _asks_for(*_OF_ONE_SEARCH):
        return _as_asked(record, given, progress)
    seconds = _SECONDS if given.max_seconds is None else given.max_seconds
    wanted = None if given.functions is None else [_basis(name) for name in given.functions]
    found = identify(
        record.u,
        record.y,
        n_states=given.states,
        functions=wanted,
        sampling_time=record.sampling_time,
        max_seconds=seconds,
        rng=given.seed,
        progress=progress,
    )
    model = found.model.with_names(record.inputs, record.outputs)
    tried = {"tried": [dataclasses.asdict(row) for row in found.tried], "is_bounded": found.is_bounded}
    return model, _about(model) | {"reason": found.verdict} | tried


def _as_asked(record: Record, given: Given, progress: Callable[..., None]) -> tuple[Any, dict[str, Any]]:
    """A model with the structure that options ask for; validation data choose its functions if nobody names them."""
    from ..sysid import DecoupledStateSpace, SearchOptions, identify

    pieces, n_states = record.pieces, given.states
    u, y = list(pieces.u), list(pieces.y)
    lists = _TRIED if given.functions is None else (given.functions,)
    reasons, limit, began = [], given.max_seconds, time.monotonic()
    if n_states is None:
        share = None if limit is None else limit / (len(lists) + 1)
        linear = identify(u, y, functions=[], max_seconds=share, rng=given.seed, progress=progress)
        of_linear = next(row.n_states for row in linear.tried if row.note == "chosen")
        least = 2 if given.no_feedback else 1 + len(record.outputs) * given.integrating
        n_states = max(of_linear, least)
        reasons.append(f"{pluralised(n_states, 'state')}; the best linear model has {of_linear}.")
    # Every list of functions; of two models the larger one must be clearly better on validation data.
    tried: list[tuple[str, float, Any]] = []
    failed = None
    for i, functions in enumerate(lists):
        left = None if limit is None else max(_LEAST_SECONDS, limit - (time.monotonic() - began)) / (len(lists) - i)
        model = DecoupledStateSpace(
            n_states, [_basis(name) for name in functions],
            oversample=given.oversample, feedback=not given.no_feedback, integrating=given.integrating,
            causal=given.causal,
        )  # fmt: skip
        try:
            with silenced():  # remarks on the record are told once, below
                model = model.fit(
                    u, y, n_starts=given.n_starts, search=SearchOptions(window=given.window), max_seconds=left,
                    rng=given.seed, progress=progress,
                )  # fmt: skip
        except SolverError as error:
            failed = error
            continue
        validation = next((row.validation for row in model.starts if row.chosen), math.inf)
        tried.append((",".join(functions), validation, model))
    if failed is not None and not tried:
        raise failed
    best, *larger = sorted(tried, key=lambda row: row[2].n_canonical)
    for row in larger:
        best = row if row[1] < _CLEARLY_BETTER * best[1] else best
    if len(tried) > 1:
        others = ", ".join(
            f"{100.0 * share:.3g} % with {names}" for names, share, other in tried if other is not best[2]
        )
        reasons.append(f"Functions: {best[0]}; {100.0 * best[1]:.3g} % of the signal on validation data, {others}.")
    reasons += pieces.remarks()
    model = best[2].with_names(record.inputs, record.outputs)
    model = model.of(model.structure, dataclasses.replace(model.fitted, sampling_time=pieces.sampling_time))
    return model, _about(model) | {"reason": " ".join(reasons) or None}


def _about(model: Any) -> dict[str, Any]:
    """What is said of a state-space model."""
    return {
        "verdict": model.dynamics().verdict,
        "n_states": model.n_states,
        "parameters": {"canonical": model.n_canonical, "free": model.n_parameters},
        "rmse": model.fitted.rmse,
        "linear_rmse": model.fitted.linear_rmse,
    }


def _narx(record: Record, given: Given, progress: Callable[..., None]) -> tuple[Any, dict[str, Any]]:
    """A polynomial NARX model, decoupled into cubics and refined; half of the time is for each."""
    from ..sysid import PolynomialNARX

    pieces, limit = record.pieces, given.max_seconds
    u, y = list(pieces.u), list(pieces.y)
    rank = _NARX_RANK if given.functions is None else len(given.functions)
    began, half = time.monotonic(), None if limit is None else limit / 2
    polynomial = PolynomialNARX(n_u=1, n_y=2).fit(u, y)
    model = polynomial.decouple(rank, max_seconds=half, rng=given.seed, progress=progress)
    left = None if limit is None else max(_LEAST_SECONDS, limit - (time.monotonic() - began))
    model = model.refine(u, y, max_seconds=left, progress=progress)
    return model, {"parameters": {"free": model.n_parameters}, "reason": pieces.gaps or None}


@click.command(cls=SectionCommand, short_help="Run a dynamic model on new inputs.")
@click.argument("model", type=FileName())
@click.argument("file", type=FileName())
@options(
    option(
        "--inputs",
        help="Input columns. By default those with the names used in training; NARX files do not keep names.",
    ),
    option(
        "--outputs",
        help="Measured outputs: the initial state is found from the first of them, the fit to the others is printed.",
    ),
    option(
        "--n-init",
        type=click.IntRange(min=1),
        help="Number of outputs from which the initial state is found. By default 50, or a quarter of a shorter "
        "record.",
    ),
    option("--to target", type=FileName(".csv"), help="Write the outputs here instead of printing them."),
    option("--report report_path", help="Write a page about this run; needs --outputs."),
)
def simulate(model: str, file: str, given: Given) -> None:
    """Run MODEL, written by `decouply identify`, on the inputs in FILE, and print its outputs as CSV or write them.

    This is a simulation: the model sees its own outputs, not the measured ones.

    \b
    decouply simulate model.safetensors input.csv
    """
    import numpy as np

    from .._support._atomic_files import write_text
    from ..samples.readers._by_extension import read_columns, read_samples
    from ..sysid import percent_fit
    from ..sysid.free_run._dynamic_model import default_n_init
    from ._output import csv_text, say, shown_progress

    inputs, outputs, target, report_path = given.inputs, given.outputs, given.target, given.report_path
    if report_path is not None and outputs is None:
        raise click.UsageError("--report compares with measured outputs: name them by --outputs.")
    check_targets(target, report_path)
    found = load_any(model)
    if not hasattr(found, "simulate"):
        raise InputError(
            f"`{model}` is a model without memory, and `decouply simulate` takes models of `decouply identify`. Use "
            f"`decouply predict {model} {file}`."
        )
    of_u, of_y = found.channel_names or (None, None)
    if inputs is None and of_u is None:
        raise click.UsageError("A NARX file does not keep the names of columns: name the inputs by --inputs.")
    inputs = of_u if inputs is None else _in_order(inputs, of_u)
    outputs = None if outputs is None else _in_order(outputs, of_y)
    assert inputs is not None
    for hint, names, own in (("--inputs", inputs, of_u), ("--outputs", outputs, of_y)):
        if names is not None and own is not None and len(names) != len(own):
            raise click.BadParameter(
                f"must name {pluralised(len(own), 'column')}, as in training ({', '.join(own)}). "
                f"Got {', '.join(names)}.",
                param_hint=hint,
            )
    if outputs is None and of_y is None:
        raise click.UsageError("A NARX model begins with measured outputs: name them by --outputs.")
    measured, k = None, 0
    with shown_progress("Running the model"):
        if outputs is None:
            u = read_columns(file, "--inputs", inputs)
            y_hat = found.simulate(u)
        else:
            record = read_samples(file, inputs=inputs, outputs=outputs, jacobians=False, in_time=True).samples
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
            found.report(report_path, u, measured, n_init=k, title=f"Simulation of {model}", command=command_line())
    if target is None:
        click.echo(text, nl=False)
    else:
        write_text(target, text)
        say(f"Predictions: {target}, {pluralised(len(columns), 'sample')}")
    if measured is not None and np.isfinite(columns).all():
        if k + 2 > len(columns):
            told = (
                f"No fit: the model begins with {min(k, len(columns))} of {pluralised(len(columns), 'output')}, and at "
                "least two must be left to score: lower --n-init, or give a longer record."
            )
        else:
            told = f"Fit (%): {', '.join(f'{f:.4g}' for f in percent_fit(measured[k:], columns[k:]))}"
        click.echo(told, err=target is None)
    if report_path is not None:
        say(f"Report: {report_path}", err=target is None)


def _in_order(asked: tuple[str, ...], own: tuple[str, ...] | None) -> tuple[str, ...]:
    """Columns in the order in which the model has them, if it knows their names."""
    return own if own is not None and sorted(own) == sorted(asked) else asked
