"""Commands that use model files of every kind: `show`, `predict`, `export`, `plot` and `report`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .._support._errors import InputError, ModelFileError, SampleFileError, pluralised
from ._options import PAGE, PICTURE, FileName, NameList, check_targets, command_line

_BEYOND = {
    "extend": "",
    "linear": "; along tangents outside the domain",
    "constant": "; constant outside the domain",
}


@click.command(short_help="Print what is in a model file.")
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
    for l, W in enumerate(decoupling.W):
        print_table(_matrix(f"W_{l}, {W.shape[0]} x {W.shape[1]}", W))
        if l < decoupling.n_layers:
            g = decoupling.g[l]
            title = (
                f"g_{l + 1}, {pluralised(g.rank, 'function')} in {g.basis!r}: domain, then coefficients, constant first"
            )
            print_table(_matrix(title + _BEYOND[g.outside], np.column_stack([g.domain, g.C])))
    if decoupling.linear is not None:
        print_table(_matrix(f"A, {decoupling.n_outputs} x {decoupling.n_inputs}: the linear part", decoupling.linear))
    if decoupling.offset is not None:
        print_table(_matrix("b: constants of the outputs", decoupling.offset[None]))


def _matrix(title: str, values: Any) -> Any:
    from ._output import plain_table

    shown = 12
    table = plain_table(title)
    for row in values[:shown]:
        cells = [f"{value + 0.0:.4g}" for value in row[:shown]]
        table.add_row(*cells, *(["..."] if len(row) > shown else []))
    if len(values) > shown:
        table.add_row(f"... {len(values) - shown} more rows")
    return table


_ENDINGS = {"onnx": ".onnx", "c": ".c", "python": ".py", "matlab": ".m", "latex": ".tex"}
_NO_SAMPLES = (
    "`{model}` must hold its samples for this. It holds the model alone: write it with `decouply fit --model`, or with "
    "Result.save."
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


@click.command(short_help="Predict outputs for new rows.")
@click.argument("model", type=FileName())
@click.argument("file", type=FileName())
@click.option("--inputs", type=NameList(), help="Input columns, in the order of the model.")
@click.option("--to", "target", type=FileName(".csv"), help="Write the outputs here instead of printing them.")
def predict(model: str, file: str, inputs: tuple[str, ...] | None, target: str | None) -> None:
    """Print the outputs of MODEL for the rows of FILE (.csv, .tsv or .parquet), as CSV.

    Columns are found by the names of the model's inputs.

    \b
    decouply predict model.safetensors new.csv --to predicted.csv
    """
    import numpy as np

    from .._support._arguments import missing
    from .._support._atomic_files import write_text
    from ..model._names import names
    from ..samples.readers._by_extension import open_table
    from ._output import csv_text, say, shown_progress

    check_targets(target)
    found = load_any(model)
    if hasattr(found, "simulate"):
        raise InputError(
            f"`{model}` must hold a map without memory. It holds a dynamic model: use `decouply simulate`."
        )
    f = model_of(found)
    table = open_table(Path(file)) if Path(file).is_file() else None
    if table is None:
        why = "It is none." if Path(file).is_file() else missing(Path(file))
        raise SampleFileError(f"`{file}` must be a .csv, .tsv or .parquet file. {why}")
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
        text = csv_text((name.text for name in names("outputs", f.outputs, "y", f.n_outputs)), rows.tolist())
    if target is None:
        click.echo(text, nl=False)
    else:
        write_text(target, text)
        say(f"Written: {target}, {pluralised(len(rows), 'row')}.")
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


@click.command(short_help="Write a model as ONNX, C, Python, MATLAB or LaTeX.")
@click.argument("model", type=FileName())
@click.option("--to", "kind", type=click.Choice(list(_ENDINGS)), required=True, help="Format.")
@click.option(
    "--file", "target", type=FileName(), help="Write here. By default beside MODEL, with the ending of the format."
)
def export(model: str, kind: str, target: str | None) -> None:
    """Write MODEL as ONNX, C99, Python, MATLAB or LaTeX.

    Dynamic models become C or MATLAB code with a function step(state, u) that runs them sample by sample, for example
    in Simulink.

    \b
    decouply export model.safetensors --to c
    """
    from .._support._atomic_files import write_text
    from ._output import say

    path = str(_beside(Path(model), kind)) if target is None else target
    if not path.lower().endswith(_ENDINGS[kind]):
        raise click.BadParameter(f"{path!r} must end in {_ENDINGS[kind]}.", param_hint="--file")
    check_targets(path)
    found = load_any(model)
    steps = getattr(found, "step_source", None)
    if kind == "onnx":
        model_of(found).save_onnx(path)
    elif kind == "matlab":
        name = _function_name(path, may_be_f=steps is None)
        source = model_of(found).formula(kind).replace("function y = f(x)", f"function y = {name}(x)", 1)
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
            param_hint="--file",
        )
    return name


@click.command(short_help="Draw a model.")
@click.argument("model", type=FileName())
@click.option(
    "--what",
    type=click.Choice(["network", "functions", "fit", "history"]),
    default="network",
    show_default=True,
    help="Which picture.",
)
@click.option("--file", "target", type=PICTURE, help="Write here. By default beside MODEL, as .png.")
@click.option("--dark", is_flag=True, help="For a dark page.")
def plot(model: str, what: str, target: str | None, dark: bool) -> None:
    """Draw MODEL: its network, its functions, the fit, or the objective step by step.

    \b
    decouply plot model.safetensors --what functions --file functions.svg
    """
    from .._support._atomic_files import replace_file
    from ._output import say, shown_progress

    path = str(Path(model).with_suffix(".png")) if target is None else target
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
        figure = draw(dark=dark)
        with replace_file(path) as stream:
            figure.savefig(stream, format=Path(path).suffix.lower().lstrip("."), dpi=150)
    say(f"Written: {path}")


@click.command(short_help="Write a page about a model, for a browser.")
@click.argument("model", type=FileName())
@click.option("--file", "target", type=PAGE, help="Write here. By default beside MODEL, as .html.")
def report(model: str, target: str | None) -> None:
    """Write a page about MODEL for a browser: picture, verdict, functions, formula.

    \b
    decouply report model.safetensors
    """
    from ..report import write_report
    from ..sysid import AbstractDynamicModel
    from ._output import say, shown_progress

    path = str(Path(model).with_suffix(".html")) if target is None else target
    check_targets(path)
    found = load_any(model)
    if found is model_of(found):
        raise InputError(_NO_SAMPLES.format(model=model))
    if isinstance(found, AbstractDynamicModel):
        outputs = ",".join(found.channel_names[1]) if found.channel_names else "y"
        raise InputError(
            f"`{model}` must be run on a record for a page, since it does not keep one: decouply simulate {model} "
            f"record.csv --output {outputs} --report page.html."
        )
    with shown_progress("Writing the page"):
        write_report(found, path, title=f"Decoupling of {Path(model).name}", command=command_line())
    say(f"Written: {path}")
