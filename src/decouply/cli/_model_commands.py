"""Commands that use model files of every kind: `show`, `predict`, `export`, `plot` and `report`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from .._support._errors import InputError, ModelFileError, SampleFileError, pluralised
from ._options import PAGE, PICTURE, FileName, Given, SectionCommand, check_targets, command_line, option, options

_BEYOND = {
    "extend": "",
    "linear": "; along tangents outside the domain",
    "constant": "; constant outside the domain",
}


@click.command(cls=SectionCommand, short_help="Print the numbers in a model file.")
@click.argument("model", type=FileName())
@click.option("--json", "as_json", is_flag=True, help="Print weights and coefficients as JSON.")
def show(model: str, as_json: bool) -> None:
    """Print the layers of MODEL, a .safetensors file written by `decouply fit` or Decoupling.save."""
    import numpy as np

    import decouply as dc

    from ..model._names import label
    from ._output import print_json, print_table, say

    decoupling = dc.Decoupling.load(model)
    if as_json:
        first = ("n_inputs", "n_outputs", "ranks", "degrees", "n_parameters", "inputs", "outputs", "W")
        functions = [
            {"basis": [repr(b) for b in g.layer.bases], "C": g.C, "domain": g.domain, "outside": g.outside}
            for g in decoupling.g
        ]
        rest = {"g": functions, "linear": decoupling.linear, "offset": decoupling.offset}
        print_json({name: getattr(decoupling, name) for name in first} | rest)
        return
    click.echo(repr(decoupling))
    for side, names in (("Inputs", decoupling.inputs), ("Outputs", decoupling.outputs)):
        if names is not None:
            say(f"{side}: {', '.join(map(label, names))}")
    heads = [names_of("inputs", decoupling.inputs, "x", decoupling.n_inputs)]
    heads += [_function_names(l + 1, g.rank, decoupling.n_layers) for l, g in enumerate(decoupling.g)]
    heads.append(names_of("outputs", decoupling.outputs, "y", decoupling.n_outputs))
    for l, W in enumerate(decoupling.W):
        print_table(_matrix(f"W_{l}, {W.shape[0]} x {W.shape[1]}", W, heads[l], heads[l + 1]))
        if l < decoupling.n_layers:
            g = decoupling.g[l]
            title = f"g_{l + 1}, {pluralised(g.rank, 'function')} in {g.basis!r}{_BEYOND[g.outside]}"
            columns = ("from", "to", *(f"c{i}" for i in range(g.C.shape[1])))
            print_table(_matrix(title, np.column_stack([g.domain, g.C]), columns, heads[l + 1]))
    if decoupling.linear is not None:
        title = f"A, {decoupling.n_outputs} x {decoupling.n_inputs}: the linear part"
        print_table(_matrix(title, decoupling.linear, heads[0], heads[-1]))
    if decoupling.offset is not None:
        print_table(_matrix("b: constants of the outputs", decoupling.offset[None], heads[-1], ("",)))


def names_of(which: str, given: Sequence[str] | None, letter: str, count: int) -> tuple[str, ...]:
    """Labels of inputs or outputs."""
    from ..model._names import names

    return tuple(name.text for name in names(which, given, letter, count))


def _function_names(layer: int, rank: int, n_layers: int) -> tuple[str, ...]:
    """What pages and formulas call the functions of a layer."""
    from ..fit.interpret._recognise import symbol

    return tuple(symbol(layer, j + 1, n_layers) for j in range(rank))


def _matrix(title: str, values: Any, columns: Sequence[str], rows: Sequence[str]) -> Any:
    from rich.text import Text

    from ..model._names import printable
    from ._output import table_of

    shown = 12
    table = table_of(title, header=True)
    table.add_column("", style="bold")
    for name in [*columns[:shown], *(["..."] if len(columns) > shown else [])]:
        table.add_column(Text(printable(name)), justify="right")
    for name, row in zip(rows[:shown], values[:shown], strict=True):
        cells = [f"{value + 0.0:.4g}" for value in row[:shown]]
        table.add_row(Text(printable(name)), *cells, *(["..."] if len(row) > shown else []))
    if len(values) > shown:
        table.add_row(f"... {len(values) - shown} more rows")
    return table


_DIGITS = 6  # of predictions
_ENDINGS = {"onnx": ".onnx", "c": ".c", "python": ".py", "matlab": ".m", "latex": ".tex", "fmu": ".fmu"}
_NO_SAMPLES = (
    "`{model}` holds a model without its samples, which pages and pictures need. Write it with `decouply fit --model`, "
    "or with Result.save."
)


def load_any(path: str) -> Any:
    """A state-space model, a NARX model, a result or a model alone, as the file says."""
    import decouply as dc

    if (dynamic := dc.sysid.load_dynamic_model(path)) is not None:
        return dynamic
    try:
        return dc.Result.load(path)
    except ModelFileError:
        return dc.Decoupling.load(path)


def model_of(found: Any) -> Any:
    """The map from inputs to outputs that a file holds."""
    import decouply as dc

    return found if isinstance(found, dc.Decoupling) else found.decoupling


@click.command(cls=SectionCommand, short_help="Predict outputs for the rows of a table.")
@click.argument("model", type=FileName())
@click.argument("file", type=FileName())
@options(
    option("--inputs", help="Input columns, in the order of the model. By default those with its names."),
    option("--to target", type=FileName(".csv"), help="Write the table here instead of printing it."),
    option("--only", is_flag=True, help="Leave the input columns out."),
)
def predict(model: str, file: str, given: Given) -> None:
    """Print the inputs and the predicted outputs of MODEL for the rows of FILE (.csv, .tsv or .parquet), as CSV.

    Predictions have six digits, and `_predicted` after the name of the output.

    \b
    decouply predict model.safetensors new.csv --to predicted.csv
    """
    import numpy as np

    from .._support._arguments import missing
    from .._support._atomic_files import write_text
    from ..model._names import names
    from ..samples.readers._by_extension import open_table
    from ._output import csv_text, say, shown_progress

    inputs, target = given.inputs, given.target
    check_targets(target)
    found = load_any(model)
    if hasattr(found, "simulate"):
        raise InputError(
            f"`{model}` is a dynamic model, and `decouply predict` takes models without memory. Use `decouply simulate "
            f"{model} {file}`."
        )
    f = model_of(found)
    table = open_table(Path(file)) if Path(file).is_file() else None
    if table is None:
        is_there = Path(file).is_file()
        raise SampleFileError(
            f"`{file}` must be a .csv, .tsv or .parquet file. It is none." if is_there else missing(Path(file))
        )
    wanted = inputs or f.inputs or (table.names if len(table.names) == f.n_inputs else ())
    if len(wanted) != f.n_inputs or any(name not in table.names for name in wanted):
        raise InputError(
            f"`--inputs` must name the {f.n_inputs} columns of `{file}` that are the inputs of the model"
            f"{'' if f.inputs is None else ' (' + ', '.join(f.inputs) + ')'}. The file has {', '.join(table.names)}."
        )
    with shown_progress("Predicting"):
        X, _ = table.read([table.names.index(name) for name in wanted])
        rows = np.full((len(X), f.n_outputs), np.nan)
        whole = np.isfinite(X).all(axis=1)
        rows[whole] = f(X[whole])
        head = [f"{name.text}_predicted" for name in names("outputs", f.outputs, "y", f.n_outputs)]
        if not given.only:
            head, rows = [*wanted, *head], np.column_stack([X, rows])
        text = csv_text(head, rows.tolist(), _DIGITS)
    if target is None:
        click.echo(text, nl=False)
    else:
        write_text(target, text)
        say(f"Predictions: {target}, {pluralised(len(rows), 'row')}")
    for note in _notes(f, X[whole], len(X)):
        say(note, err=True)


def _notes(f: Any, X: Any, n_rows: int) -> list[str]:
    """Rows without a prediction, and those outside the range of the samples."""
    import numpy as np

    found = (
        [] if len(X) == n_rows else [f"No prediction for {pluralised(n_rows - len(X), 'row')} with missing numbers."]
    )
    beyond = np.zeros(len(X), dtype=bool)
    for g, u in zip(f.g, f.inner_inputs(X) if len(X) else (), strict=bool(len(X))):
        slack = 1e-6 * (g.domain[:, 1] - g.domain[:, 0])
        beyond |= np.any((u < g.domain[:, 0] - slack) | (u > g.domain[:, 1] + slack), axis=1)
    if beyond.any():
        found.append(
            f"Outside the range that the model was fitted to: {pluralised(int(beyond.sum()), 'row')} of {n_rows}. "
            "Do not rely on these predictions."
        )
    return found


@click.command(cls=SectionCommand, short_help="Write a model as ONNX, C, Python, MATLAB, LaTeX or FMU.")
@click.argument("model", type=FileName())
@options(
    option("--format kind", type=click.Choice(list(_ENDINGS)), required=True, help="What to write."),
    option("--to target", help="Write here. By default beside MODEL, with the ending of the format."),
    option(
        "--sampling-time",
        type=float,
        help="Seconds per step of a dynamic model, for an FMU. By default those of its record, or 1.",
    ),
)
def export(model: str, given: Given) -> None:
    """Write MODEL as ONNX, C99, Python, MATLAB or LaTeX, or as an FMU for simulation programs.

    Dynamic models become C or MATLAB code with a function step(state, u) that runs them sample by sample, for example
    in Simulink.

    \b
    decouply export model.safetensors --format c
    """
    from .._support._atomic_files import write_text
    from ._output import say

    kind = given.kind
    path = str(_beside(Path(model), kind)) if given.target is None else given.target
    if not path.lower().endswith(_ENDINGS[kind]):
        raise click.BadParameter(f"{path!r} must end in {_ENDINGS[kind]}.", param_hint="--to")
    check_targets(path)
    found = load_any(model)
    steps = getattr(found, "step_source", None)
    if kind == "onnx":
        model_of(found).save_onnx(path)
    elif kind == "fmu" and hasattr(found, "simulate"):
        if given.sampling_time is None and found.sampling_time is None:
            say("The FMU makes a step every second: --sampling-time gives that of the record.")
        found.save_fmu(path, sampling_time=given.sampling_time)
    elif kind == "fmu":
        if given.sampling_time is not None:
            raise click.BadParameter("the model has no memory, and so no sampling time.", param_hint="--sampling-time")
        model_of(found).save_fmu(path)
    elif kind == "matlab":
        name = _function_name(path, may_be_f=steps is None)
        source = model_of(found).formula(kind).replace("[y, J] = f(x)", f"[y, J] = {name}(x)", 1)
        write_text(path, source if steps is None else steps(kind, name=name))
    elif kind == "c" and steps is not None:
        write_text(path, steps(kind))
    else:
        write_text(path, model_of(found).formula(kind))
    say(f"Written: {path}")


def _beside(model: Path, kind: str) -> Path:
    """The file beside a model; in MATLAB its name is that of a function."""
    from ..write._step_source import near_function_name

    path = model.with_suffix(_ENDINGS[kind])
    return path if kind != "matlab" else path.with_stem(near_function_name(path.stem, "matlab"))


def _function_name(path: str, *, may_be_f: bool) -> str:
    """What MATLAB finds in a file: a function with its name."""
    from ..write._step_source import near_function_name, what_is_wrong

    name = Path(path).stem
    wrong = "" if may_be_f and name == "f" else what_is_wrong(name, "matlab")
    if wrong:
        raise click.BadParameter(
            f"{path!r} must have the name of a function, which MATLAB finds by its file: a letter, then letters, "
            f"digits and underscores. {name!r} cannot be used, {wrong}: take {near_function_name(name, 'matlab')}.m.",
            param_hint="--to",
        )
    return name


@click.command(cls=SectionCommand, short_help="Draw a model.")
@click.argument("model", type=FileName())
@options(
    option(
        "--what",
        type=click.Choice(["network", "functions", "fit", "history"]),
        default="network",
        help="Which picture.",
    ),
    option("--to target", type=PICTURE, help="Write here. By default beside MODEL, as MODEL-network.png and so on."),
    option("--dark", is_flag=True, help="For a dark page."),
)
def plot(model: str, given: Given) -> None:
    """Draw MODEL: its network, its functions, the fit, or the objective step by step.

    \b
    decouply plot model.safetensors --what functions --to functions.svg
    """
    from ._output import save_figure, say, shown_progress

    what = given.what
    beside = Path(model).with_name(f"{Path(model).stem}-{what}.png")
    path = str(beside) if given.target is None else given.target
    check_targets(path)
    found = load_any(model)
    name = {"network": "plot", "functions": "plot_functions", "fit": "plot_fit", "history": "plot_history"}[what]
    draw = getattr(found, name, None)
    if draw is None and hasattr(found, "simulate"):
        raise InputError(
            f"`--what` must be network for the dynamic model in `{model}`. Got {what}: `decouply simulate --report` "
            "shows a run and the functions."
        )
    if draw is None or found is model_of(found):
        raise InputError(_NO_SAMPLES.format(model=model))
    with shown_progress("Drawing"):
        save_figure(draw(dark=given.dark), path)
    say(f"Picture: {path}")


@click.command(cls=SectionCommand, short_help="Write a page about a model, for a browser.")
@click.argument("model", type=FileName())
@options(option("--to target", type=PAGE, help="Write here. By default beside MODEL, as .html."))
def report(model: str, given: Given) -> None:
    """Write a page about MODEL for a browser: picture, verdict, functions, formula.

    \b
    decouply report model.safetensors
    """
    from ..report import write_report
    from ..sysid import AbstractDynamicModel
    from ._output import say, shown_progress

    path = str(Path(model).with_suffix(".html")) if given.target is None else given.target
    check_targets(path)
    found = load_any(model)
    if found is model_of(found):
        raise InputError(_NO_SAMPLES.format(model=model))
    if isinstance(found, AbstractDynamicModel):
        outputs = ",".join(found.channel_names[1]) if found.channel_names else "y"
        raise InputError(
            f"`{model}` must be run on a record for a page, since it does not keep one: decouply simulate "
            f"{shlex.quote(model)} record.csv --outputs {shlex.quote(outputs)} --report page.html."
        )
    with shown_progress("Writing the page"):
        write_report(found, path, title=f"Decoupling of {Path(model).name}", command=command_line())
    say(f"Report: {path}")
