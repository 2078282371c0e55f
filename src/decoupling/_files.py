"""Writing files so that a failure leaves the old file, or none, but never half of one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ._errors import InputError


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary stream whose content takes the place of `path` when the block ends without an error."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        problem = "It is a directory." if target.is_dir() else f"The directory `{target.parent}` does not exist."
        raise InputError(f"`{target}` must be a file in an existing directory. {problem}")
    try:
        handle, draft = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise InputError(f"`{target}` must be writable. {error.strerror}.") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(draft, 0o666 & ~umask)  # mkstemp makes files that only their owner can read
        os.replace(draft, target)
    except BaseException:
        Path(draft).unlink(missing_ok=True)
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one go."""
    with replace_file(path) as stream:
        stream.write(text.encode())
