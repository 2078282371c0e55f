"""`decouple show`: what is in a model file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ..model._decoupling import Decoupling


@click.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="Print weights and coefficients as JSON.")
def show(model: str, as_json: bool) -> None:
    """Print the layers of MODEL, a .safetensors file written by `decouple fit` or Decoupling.save."""
    import decoupling as dc

    from ._screen import print_json, print_table

    decoupling = dc.Decoupling.load(model)
    if as_json:
        print_json(_content(decoupling))
        return
    click.echo(repr(decoupling))
    for l, W in enumerate(decoupling.W):
        print_table(_matrix(f"W_{l}, {W.shape[0]} x {W.shape[1]}", W))
        if l < decoupling.n_layers:
            g = decoupling.g[l]
            print_table(_matrix(f"g_{l + 1}, {g.rank} functions in {g.basis!r}: coefficients, constant first", g.C))


def _content(model: Decoupling) -> dict[str, Any]:
    return {
        "n_inputs": model.n_inputs,
        "n_outputs": model.n_outputs,
        "ranks": model.ranks,
        "degrees": model.degrees,
        "n_parameters": model.n_parameters,
        "W": [W.tolist() for W in model.W],
        "g": [{"basis": [repr(b) for b in g.layer.bases], "C": g.C.tolist()} for g in model.g],
    }


def _matrix(title: str, values: Any) -> Any:
    from ._screen import plain_table

    shown = 12
    table = plain_table(title)
    for row in values[:shown]:
        cells = [f"{value + 0.0:.4g}" for value in row[:shown]]
        table.add_row(*cells, *(["..."] if len(row) > shown else []))
    if len(values) > shown:
        table.add_row(f"... {len(values) - shown} more rows")
    return table
