"""`decouply show`: what is in a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .._support._messages import pluralised

if TYPE_CHECKING:
    from ..model._decoupling import Decoupling


_BEYOND = {
    "extend": "",
    "linear": "; along tangents outside the domain",
    "constant": "; constant outside the domain",
}


@click.command(short_help="Print what is in a model file.")
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print weights and coefficients as JSON.")
def show(model: str, as_json: bool) -> None:
    """Print the layers of MODEL, a .safetensors file written by `decouply fit` or Decoupling.save."""
    import numpy as np

    import decouply as dc

    from ..model._names import label
    from ._output import print_json, print_table, say

    decoupling = dc.Decoupling.load(model)
    if as_json:
        print_json(_content(decoupling))
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


def _content(model: Decoupling) -> dict[str, Any]:
    return {
        "n_inputs": model.n_inputs,
        "n_outputs": model.n_outputs,
        "ranks": model.ranks,
        "degrees": model.degrees,
        "n_parameters": model.n_parameters,
        "inputs": model.inputs,
        "outputs": model.outputs,
        "W": [W.tolist() for W in model.W],
        "g": [
            {
                "basis": [repr(b) for b in g.layer.bases],
                "C": g.C.tolist(),
                "domain": g.domain.tolist(),
                "outside": g.outside,
            }
            for g in model.g
        ],
        "linear": None if model.linear is None else model.linear.tolist(),
        "offset": None if model.offset is None else model.offset.tolist(),
    }


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
