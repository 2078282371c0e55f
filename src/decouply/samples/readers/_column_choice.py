"""Columns of the arrays X and F of a file, chosen by name or number."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy import ndarray

from ..._support._errors import InputError
from ..._support._messages import pluralised
from ...model._names import label

_ARRAY = {"inputs": "X", "outputs": "F"}
_DEFAULT = {"inputs": "x", "outputs": "y"}  # what samples without names call them


@dataclass(frozen=True)
class Side:
    """Inputs or outputs as the user wants them: which columns, and what they are called; None for all, and no names."""

    columns: list[int] | None = None
    names: tuple[str, ...] | None = None


def belongs_to(which: str, name: Any, arrays: Mapping[str, ndarray]) -> bool:
    """Whether a name is that of a column of X or F, such as X2, and of no array of its own."""
    array = _ARRAY[which]
    return re.fullmatch(rf"{array}\d*", str(name)) is not None and (name == array or str(name) not in arrays)


def side(path: Path, which: str, given: tuple[Any, ...] | None, own: tuple[str, ...] | None, count: int) -> Side:
    """What `given` asks for among `count` columns, of which the file may have names of its `own`."""
    if given is None:
        return Side(names=own)
    array, asked = _ARRAY[which], tuple(str(name).strip() for name in given)
    own = own if own is not None and len(own) == count else None
    numbered = tuple(f"{array}{i + 1}" for i in range(count)) if count > 1 else (array,)
    numbers = tuple(str(i + 1) for i in range(count))
    called = own or tuple(f"{_DEFAULT[which]}{i + 1}" for i in range(count))
    for known, theirs in ((own or (), called), (numbered, numbered), (numbers, called)):
        if asked and set(asked) <= set(known):
            columns = [known.index(name) for name in asked]
            if len(set(asked)) < len(asked):
                raise InputError(f"`{which}` must name every column once. Got {', '.join(map(label, asked))}.")
            return Side(columns, tuple(theirs[i] for i in columns))
    whose = f", by name ({', '.join(map(label, own))}) or" if own else ""
    raise InputError(
        f"`{which}` must choose among the {pluralised(count, 'column')} of {array} in `{path}`{whose} by number "
        f"({numbers[0]} to {numbers[-1]}). Got {', '.join(map(label, asked))}."
    )


def taken(parts: Mapping[str, ndarray], inputs: Side, outputs: Side) -> dict[str, ndarray]:
    """The arrays X, F, J and weights with the chosen columns only."""
    chosen = dict(parts)
    if inputs.columns is not None:
        chosen["X"] = chosen["X"][:, inputs.columns]
        if "J" in chosen:
            chosen["J"] = chosen["J"][:, :, inputs.columns]
    if outputs.columns is not None:
        for name in ("F", "J"):
            if name in chosen:
                chosen[name] = chosen[name][:, outputs.columns]
        weights = chosen.get("weights")
        if weights is not None and weights.ndim > 1:
            chosen["weights"] = weights[:, outputs.columns]
    return chosen
