"""The command `decouply compress`: parts of an exported PyTorch program become decouplings."""

from __future__ import annotations

from typing import Any

import click

from ._options import FileName, GivenFile, NameList


@click.command(short_help="Replace parts of a PyTorch program by decouplings.")
@click.argument("program", type=GivenFile())
@click.option(
    "--parts",
    type=NameList(),
    metavar="NAME,...",
    required=True,
    help="Modules by name or pattern, such as blocks.*.mlp.",
)
@click.option(
    "--data", metavar="FILE", type=GivenFile(), required=True, help="Inputs of the network, an array in a .npy file."
)
@click.option("--budget", type=float, default=None, help="Share of the parameters to keep, or their number.")
@click.option("--ranks", type=int, default=None, help="Functions per part, instead of a budget.")
@click.option("--degree", type=int, default=4, show_default=True, help="Degree of the functions.")
@click.option(
    "--task",
    type=click.Choice(["classification", "regression"]),
    default=None,
    help="Classification: the largest output counts; regression: all outputs.",
)
@click.option("--steps", type=int, default=6000, show_default=True, help="Training steps for each part.")
@click.option(
    "--to", "target", metavar="FILE", type=FileName(".pt2"), default=None, help="Write the smaller program here."
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=None,
    help="Take the best so far after about so long.",
)
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Random seed: the same seed gives the same result."
)
@click.option("--quiet", is_flag=True, help="Print nothing but errors.")
def compress(
    program: str,
    parts: tuple[str, ...],
    data: str,
    budget: float | None,
    ranks: int | None,
    degree: int,
    task: Any,
    steps: int,
    target: str | None,
    max_seconds: float | None,
    seed: int,
    quiet: bool,
) -> None:
    """Replace parts of PROGRAM, written by torch.export.save, by decouplings, and report what changed.

    Parts have the names that they had in the network before it was exported; export it with a dynamic number of
    samples. No labels are needed. PyTorch reads the file, so open only programs that you trust.

    \b
    decouply compress net.pt2 --parts 'blocks.*.mlp' --data inputs.npy --budget 0.25 --to small.pt2
    """
    import warnings
    from pathlib import Path
    from zipfile import BadZipFile

    import numpy as np

    from .._support._atomic_files import check_target
    from .._support._errors import InputError, SampleFileError
    from .._support._optional_packages import needed
    from ._output import say, shown_progress

    needed("torch", "torch", "`decouply compress`")
    from .. import nn
    from ..nn.carving._exported_program import load_program, save_program

    if target is not None:
        check_target(target)
    if (budget is None) == (ranks is None):
        got = "neither" if budget is None else "both"
        raise InputError(f"`--budget` or `--ranks` must say how small the parts become. Got {got}.")
    try:
        with Path(data).open("rb") as stream:  # NumPy leaves files that it cannot read open
            X = np.load(stream, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:  # what NumPy says of other files is about pickles
        raise SampleFileError(
            f"`{data}` must be an array of numbers in a .npy file, as np.save writes it, and whole. From a table: "
            "np.save('inputs.npy', table.to_numpy())."
        ) from error
    if not isinstance(X, np.ndarray):
        raise SampleFileError(f"`{data}` must be an array in a .npy file. It holds several: save one with np.save.")
    with shown_progress("Compressing", quiet=quiet) as progress:
        found = load_program(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's own, about what runs programs
            out = nn.compress(
                found.network,
                parts=list(parts),
                data=X,
                ranks="auto" if ranks is None else ranks,
                budget=None if budget is None else nn.Budget(parameters=budget),
                degrees=degree,
                task=task,
                fitting=nn.Fitting(start="random"),
                training=nn.Training(refine=nn.Distil(max_steps=steps), max_seconds=max_seconds),
                rng=seed,
                progress=progress,
            )
        if target is not None:
            save_program(out.model, found, target)
    if not quiet:
        say(str(out.report))
        say("Times before are those of a program that is interpreted, node by node.")
        if target is not None:
            say(f"Program: {target}")
