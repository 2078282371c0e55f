"""The command `decouply compress`: parts of an exported PyTorch program become decouplings."""

from __future__ import annotations

import click

from ._options import FileName, Given, NameList, SectionCommand, check_targets, option, options


@click.command(cls=SectionCommand, short_help="Replace parts of a PyTorch program by decouplings.")
@click.argument("program", type=FileName())
@options(
    option("--parts", type=NameList(), required=True, help="Modules by name or pattern, such as blocks.*.mlp."),
    option("--data", type=FileName(), required=True, help="Inputs of the network, an array in a .npy file."),
    option("--budget", type=float, help="Share of the parameters to keep, or their number."),
    option("--ranks", type=int, help="Functions per part, instead of a budget."),
    option("--degree", type=int, help="Polynomials of this degree, instead of functions like activations."),
    option(
        "--task",
        type=click.Choice(["classification", "regression"]),
        help="Classification: the largest output counts; regression: all outputs.",
    ),
    option("--steps", type=int, default=6000, help="Training steps for each part."),
    option("--to target", type=FileName(".pt2"), help="Write the smaller program here."),
    option("--max-seconds", help="Stop after about this many seconds with the best parts so far."),
    option("--seed", type=int),
    "--quiet",
)
def compress(program: str, given: Given) -> None:
    """Replace parts of PROGRAM, written by torch.export.save, by decouplings, and report what changed.

    Parts have the names that they had in the network before it was exported; export it with a dynamic number of
    samples. No labels are needed. The library checks PROGRAM, and loads a copy of what it knows.

    \b
    decouply compress net.pt2 --parts 'blocks.*.mlp' --data inputs.npy --budget 0.25 --to small.pt2
    """
    import warnings
    from pathlib import Path
    from zipfile import BadZipFile

    import numpy as np

    from .._support._errors import InputError, SampleFileError
    from .._support._optional_packages import needed
    from ._output import say, say_paths, shown_progress

    needed("torch", "torch", "`decouply compress`")
    from .. import nn
    from ..nn.carving._exported_program import load_program, save_program

    check_targets(given.target)
    if (given.budget is None) == (given.ranks is None):
        got = "neither" if given.budget is None else "both"
        raise InputError(f"`--budget` or `--ranks` must say how small the parts become. Got {got}.")
    try:
        with Path(given.data).open("rb") as stream:  # NumPy leaves files that it cannot read open
            X = np.load(stream, allow_pickle=False)
    except (ValueError, EOFError, BadZipFile) as error:  # what NumPy says of other files is about pickles
        raise SampleFileError(
            f"`{given.data}` must be an array of numbers in a .npy file, as np.save writes it, and whole. From a "
            "table: np.save('inputs.npy', table.to_numpy())."
        ) from error
    if not isinstance(X, np.ndarray):
        raise SampleFileError(
            f"`{given.data}` must be an array in a .npy file. It holds several: save one with np.save."
        )
    with shown_progress("Compressing", quiet=given.quiet, limit=given.max_seconds) as progress:
        found = load_program(program)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # torch's own, about what runs programs
            out = nn.compress(
                found.network,
                parts=list(given.parts),
                data=X,
                ranks="auto" if given.ranks is None else given.ranks,
                budget=None if given.budget is None else nn.Budget(parameters=given.budget),
                degrees=given.degree,
                task=given.task,
                fitting=nn.Fitting(start="random"),
                training=nn.Training(refine=nn.Distil(max_steps=given.steps), max_seconds=given.max_seconds),
                rng=given.seed,
                progress=progress,
            )
        if given.target is not None:
            save_program(out.model, found, given.target)
    if not given.quiet:
        say(str(out.report))
        say("Times before are those of a program that is interpreted, node by node.")
        say_paths(Program=given.target)
