"""Model files of every kind, and the commands that use them: `predict`, `export`, `plot` and `report`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click

from .._support._shown import counted
from ._options import FileName, GivenFile, NameList, command_line

_ENDINGS = {"onnx": ".onnx", "c": ".c", "python": ".py", "matlab": ".m", "latex": ".tex"}
_NO_SAMPLES = (
    "`{model}` must hold its samples for this. It holds the model alone: write it with `decouple fit --model`, or with "
    "Result.save."
)


def load_any(path: str) -> Any:
    """A state-space model, a NARX model, a result or a model alone, as the file says."""
    import decoupling as dc

    from .._support._errors import ModelFileError

    for load in (dc.sysid.DecoupledStateSpace.load, dc.sysid.DecoupledNARX.load, dc.Result.load):
        try:
            return load(path)
        except ModelFileError:
            continue
    return dc.Decoupling.load(path)


def model_of(found: Any) -> Any:
    """The map from inputs to outputs that a file holds."""
    import decoupling as dc

    if isinstance(found, dc.Decoupling):
        return found
    return found.step if isinstance(found, dc.sysid.DecoupledStateSpace) else found.decoupling


@click.command(short_help="Predict outputs for new rows.")
@click.argument("model", type=GivenFile())
@click.argument("file", type=GivenFile())
@click.option(
    "--inputs", type=NameList(), metavar="NAME,...", default=None, help="Input columns, in the order of the model."
)
@click.option(
    "--to",
    "target",
    metavar="FILE",
    type=FileName(".csv"),
    default=None,
    help="Write the outputs here instead of printing them.",
)
def predict(model: str, file: str, inputs: tuple[str, ...] | None, target: str | None) -> None:
    """Print the outputs of MODEL for the rows of FILE (.csv, .tsv or .parquet), as CSV.

    Columns are found by the names of the model's inputs.

    \b
    decouple predict model.safetensors new.csv --to predicted.csv
    """
    import numpy as np

    from .._support._errors import InputError, SampleFileError
    from .._support._whole_files import check_target, write_text
    from ..model._names import names
    from ..samples.readers._any_file import open_table
    from ._screen import csv_text, say

    if target is not None:
        check_target(target)
    f = model_of(load_any(model))
    table = open_table(Path(file)) if Path(file).is_file() else None
    if table is None:
        raise SampleFileError(f"`{file}` must be a .csv, .tsv or .parquet file. It is none, or does not exist.")
    wanted = inputs or f.inputs or (table.names if len(table.names) == f.n_inputs else ())
    if len(wanted) != f.n_inputs or any(name not in table.names for name in wanted):
        raise InputError(
            f"`--inputs` must name the {f.n_inputs} columns of `{file}` that are the inputs of the model"
            f"{'' if f.inputs is None else ' (' + ', '.join(f.inputs) + ')'}. The file has {', '.join(table.names)}."
        )
    X, _ = table.read([table.names.index(name) for name in wanted])
    rows = np.full((len(X), f.n_outputs), np.nan)
    whole = np.isfinite(X).all(axis=1)
    rows[whole] = f(X[whole])
    text = csv_text((name.text for name in names("outputs", f.outputs, "y", f.n_outputs)), rows.tolist())
    if target is None:
        click.echo(text, nl=False)
    else:
        write_text(target, text)
        say(f"Written: {target}, {counted(len(rows), 'row')}.")
    for note in _notes(f, X[whole], len(X)):
        say(note, err=True)


def _notes(f: Any, X: Any, n_rows: int) -> list[str]:
    """Rows without a prediction, and those outside the range of the samples."""
    import numpy as np

    found = [] if len(X) == n_rows else [f"No prediction for {counted(n_rows - len(X), 'row')} with missing numbers."]
    beyond = np.zeros(len(X), dtype=bool)
    for g, u in zip(f.g, f.inner_inputs(X) if len(X) else (), strict=bool(len(X))):
        slack = 1e-6 * (g.domain[:, 1] - g.domain[:, 0])
        beyond |= np.any((u < g.domain[:, 0] - slack) | (u > g.domain[:, 1] + slack), axis=1)
    if beyond.any():
        found.append(
            f"Outside the range that the model was fitted to: {counted(int(beyond.sum()), 'row')} of {n_rows}. Do not "
            "rely on these predictions."
        )
    return found


@click.command(short_help="Write a model as ONNX, C, Python, MATLAB or LaTeX.")
@click.argument("model", type=GivenFile())
@click.option("--to", "kind", type=click.Choice(list(_ENDINGS)), required=True, help="Format.")
@click.option(
    "--file",
    "target",
    metavar="FILE",
    default=None,
    help="Write here. By default beside MODEL, with the ending of the format.",
)
def export(model: str, kind: str, target: str | None) -> None:
    """Write MODEL as ONNX, C99, Python, MATLAB or LaTeX.

    Dynamic models become C or MATLAB code with a function step(state, u) that runs them sample by sample, for example
    in Simulink.

    \b
    decouple export model.safetensors --to c
    """
    from .._support._whole_files import check_target, write_text
    from ._screen import say

    path = str(_beside(Path(model), kind)) if target is None else target
    if not path.lower().endswith(_ENDINGS[kind]):
        raise click.BadParameter(f"{path!r} must end in {_ENDINGS[kind]}.", param_hint="--file")
    check_target(path)
    found = load_any(model)
    steps = getattr(found, "step_source", None)
    if kind == "onnx":
        model_of(found).save_onnx(path)
    elif kind in ("c", "matlab") and steps is not None:
        write_text(path, steps(kind, name=_function_name(path)) if kind == "matlab" else steps(kind))
    else:
        write_text(path, model_of(found).formula(kind))
    say(f"Written: {path}")


def _beside(model: Path, kind: str) -> Path:
    """The file beside a model; in MATLAB its name is that of a function."""
    path = model.with_suffix(_ENDINGS[kind])
    if kind != "matlab":
        return path
    stem = re.sub(r"\W", "_", path.stem, flags=re.ASCII)
    return path.with_stem(stem if stem[:1].isalpha() else f"model_{stem}")


def _function_name(path: str) -> str:
    """What MATLAB finds in a file: a function with its name."""
    from .._support._errors import InputError
    from ..write._stepping import as_function_name

    try:
        return as_function_name(Path(path).stem)
    except InputError as error:
        raise click.BadParameter(
            f"{path!r} must have the name of a function, which MATLAB finds by its file: letters, digits and "
            "underscores, a letter first, and not f.",
            param_hint="--file",
        ) from error


@click.command(short_help="Draw a model.")
@click.argument("model", type=GivenFile())
@click.option(
    "--what",
    type=click.Choice(["network", "functions", "fit", "history"]),
    default="network",
    show_default=True,
    help="Which picture.",
)
@click.option(
    "--file",
    "target",
    metavar="FILE",
    type=FileName(".png", ".svg", ".pdf"),
    default=None,
    help="Write here. By default beside MODEL, as .png.",
)
@click.option("--dark", is_flag=True, help="For a dark page.")
def plot(model: str, what: str, target: str | None, dark: bool) -> None:
    """Draw MODEL: its network, its functions, the fit, or the objective step by step.

    \b
    decouple plot model.safetensors --what functions --file functions.svg
    """
    from .._support._errors import InputError
    from .._support._whole_files import check_target, replace_file
    from ._screen import say

    path = str(Path(model).with_suffix(".png")) if target is None else target
    check_target(path)
    found = load_any(model)
    name = {"network": "plot", "functions": "plot_functions", "fit": "plot_fit", "history": "plot_history"}[what]
    draw = getattr(found, name, None)
    if draw is None or found is model_of(found):
        raise InputError(_NO_SAMPLES.format(model=model))
    figure = draw(dark=dark)
    with replace_file(path) as stream:
        figure.savefig(stream, format=Path(path).suffix.lower().lstrip("."), dpi=150)
    say(f"Written: {path}")


@click.command(short_help="Write a page about a model, for a browser.")
@click.argument("model", type=GivenFile())
@click.option(
    "--file",
    "target",
    metavar="FILE",
    type=FileName(".html", ".htm"),
    default=None,
    help="Write here. By default beside MODEL, as .html.",
)
def report(model: str, target: str | None) -> None:
    """Write a page about MODEL for a browser: picture, verdict, functions, formula.

    \b
    decouple report model.safetensors
    """
    from .._support._errors import InputError
    from .._support._whole_files import check_target
    from ..fit._result import Result
    from ..report import write_report
    from ._screen import say

    path = str(Path(model).with_suffix(".html")) if target is None else target
    check_target(path)
    found = load_any(model)
    if isinstance(found, Result):
        write_report(found, path, title=f"Decoupling of {Path(model).name}", command=command_line())
    elif found is model_of(found):
        raise InputError(_NO_SAMPLES.format(model=model))
    else:
        found.report(path)
    say(f"Written: {path}")
