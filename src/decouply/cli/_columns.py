"""Which columns of a file are inputs, outputs and Jacobians, on the command line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from ._options import NameList, option_group

if TYPE_CHECKING:
    from ..model._decoupling import Decoupling
    from ..samples.readers._table import Reading

FORMULAS = ("text", "latex", "python", "c", "matlab")


@dataclass(frozen=True)
class Columns:
    """What the options say."""

    inputs: tuple[str, ...] | None
    outputs: tuple[str, ...] | None
    jacobians: bool | None
    drop_missing: bool
    order: str | None

    def read(self, file: str) -> Reading:
        from ..samples.readers._by_extension import read_samples

        return read_samples(
            file,
            inputs=self.inputs,
            outputs=self.outputs,
            jacobians=self.jacobians,
            drop_missing=self.drop_missing,
            order=self.order,  # type: ignore[arg-type]
        )


column_options = option_group(
    "columns",
    Columns,
    click.option(
        "--inputs",
        type=NameList(),
        metavar="NAME,...",
        default=None,
        help="Input columns by name, or by number where they have none: x1,x2 or 1,2.",
    ),
    click.option(
        "--outputs",
        type=NameList(),
        metavar="NAME,...",
        default=None,
        help="Output columns by name, or by number where they have none: y or 3.",
    ),
    click.option(
        "--jacobians/--no-jacobians",
        default=None,
        help="Require columns such as dy/dx1, or ignore them. By default they are used if all are there.",
    ),
    click.option("--drop-missing", is_flag=True, help="Leave out rows with missing or infinite numbers."),
    click.option(
        "--order",
        type=click.Choice(["samples", "matlab"]),
        default=None,
        help="Which axis of .npz and .mat arrays counts samples: the first, or the last as in MATLAB.",
    ),
)


def written_formula(
    model: Decoupling, kind: str, inputs: tuple[str, ...] | None, outputs: tuple[str, ...] | None
) -> str:
    """The model written out with the names of its signals; Python source gets names that Python takes."""
    from ..model._names import label, python_names

    if kind != "python":
        return str(model.formula(kind, inputs=inputs, outputs=outputs))  # type: ignore[arg-type]
    inputs = inputs or tuple(f"x{i + 1}" for i in range(model.n_inputs))
    outputs = outputs or tuple(f"y{i + 1}" for i in range(model.n_outputs))
    near = python_names((*inputs, *outputs))
    changed = [f"# {new}: {label(old)}\n" for old, new in zip((*inputs, *outputs), near, strict=True) if old != new]
    # Python looks for the coding of a file in its first comments, where a name could pretend to be one.
    head = ["# coding: utf-8\n", *changed] if changed else []
    return "".join(head) + str(model.formula("python", inputs=near[: len(inputs)], outputs=near[len(inputs) :]))
