"""Programs that `torch.export.save` wrote, as modules whose parts have names, and back."""

from __future__ import annotations

import os
import warnings
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..._support._atomic_files import replace_file
from ..._support._errors import InputError
from ._jacobian_sampling import first_line
from ._program_file import UnsafeProgramError, checked_archive


@dataclass(frozen=True)
class Program:
    """A network read from a file, and what it was exported with.

    Attributes
    ----------
    network
        Its modules, by their names.
    example
        The input it was exported with.
    least, most
        How many samples it takes.
    """

    network: nn.Module
    example: Tensor
    least: int
    most: int | None


def load_program(path: str | os.PathLike[str]) -> Program:
    """Read a program of one input whose number of samples is free."""
    rule = f"`{os.fspath(path)}` must be a program that torch.export.save wrote"
    with Path(path).open("rb") as stream:  # torch prints pages about files that are not there, or not its own
        if not zipfile.is_zipfile(stream):
            raise InputError(f"{rule}. It is none.")
        try:
            archive = checked_archive(stream)
        except UnsafeProgramError as error:
            raise InputError(f"{rule}, and nothing that could run as code. Refused because {error}.") from error
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
            raise InputError(f"{rule}. It is damaged: {first_line(error)}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.load(archive)
            network = torch.export.unflatten(program)
    except Exception as error:  # whatever torch finds in a file that is none of its own
        raise InputError(f"{rule}. {type(error).__name__}: {first_line(error)}") from error
    given_as: Any = program.example_inputs or ((), {})
    args, kwargs = given_as
    if len(args) != 1 or kwargs or not isinstance(args[0], Tensor):
        raise InputError(
            f"`{os.fspath(path)}` must be a function of one tensor. It takes {len(args) + len(kwargs)} inputs."
        )
    names: Any = program.graph_signature.user_inputs
    (given,) = (node for node in program.graph.nodes if node.op == "placeholder" and node.name in names)
    size = given.meta["val"].shape[0]
    if isinstance(size, int):
        raise InputError(
            f"`{os.fspath(path)}` must take any number of samples. It takes {size}: export it with "
            'dynamic_shapes=({0: torch.export.Dim("samples")},).'
        )
    span = program.range_constraints.get(size.node.expr)
    for module in network.modules():
        graph: Any = getattr(module, "graph", None)
        for node in () if graph is None else graph.nodes:
            node.meta = {}  # what tracing left there cannot be copied
    least, most = (2, None) if span is None else (int(span.lower), None)
    if span is not None and not str(span.upper).endswith("oo") and int(span.upper) < 2**62:  # infinite in two ways
        most = int(span.upper)
    return Program(network, args[0].detach(), least, most)


def save_program(network: nn.Module, like: Program, path: str | os.PathLike[str]) -> None:
    """Write a network as a program that takes what another one took."""
    samples = torch.export.Dim("samples", min=max(2, like.least), max=like.most)
    example = like.example if len(like.example) > 1 else torch.cat([like.example, like.example])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.export(network.eval(), (example,), dynamic_shapes=(({0: samples},),))
        with replace_file(path) as stream:
            torch.export.save(program, stream)
