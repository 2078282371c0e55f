"""Writing files so that a failure leaves the old file, or none, but never half of one."""

from __future__ import annotations

import glob
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ._arguments import as_path
from ._errors import InputError

_LONGEST_BEGINNING = 48  # letters of the name of a file in that of its draft


def check_target(path: str | os.PathLike[str]) -> Path:
    """Complain about a place that no file can be written to, before any work is done for it."""
    target = Path(os.path.realpath(as_path("path", path)))  # a link stays a link: what it points to is written
    rule = f"`{Path(path)}` must be a file in an existing, writable directory"
    if target.exists() and not target.is_file():
        raise InputError(f"{rule}. It is {'a directory' if target.is_dir() else 'not a regular file'}.")
    if not target.parent.is_dir():
        raise InputError(f"{rule}. The directory `{target.parent}` does not exist.")
    if not os.access(target.parent, os.W_OK):
        raise InputError(f"{rule}. The directory `{target.parent}` is read-only.")
    return target


@contextmanager
def replace_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary stream whose content takes the place of `path` when the block ends without an error."""
    target = check_target(path)
    _forget_drafts(target)
    draft = target.with_name(f".{_beginning(target)}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        with named(target), _opened(draft, target) as stream:
            yield stream
        if target.exists():
            draft.chmod(stat.S_IMODE(target.stat().st_mode))  # a file that only its owner can read stays one
        os.replace(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _opened(draft: Path, target: Path) -> IO[bytes]:
    """A new file with the rights of any; people have asked for another name, which errors have."""
    try:
        return draft.open("xb")
    except OSError as error:
        error.filename = os.fspath(target)
        raise


@contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Errors of the file system that name no file get this name: a full disk does not say whose."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = os.fspath(path)
        raise


def _forget_drafts(target: Path) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    for draft in target.parent.glob(f".{glob.escape(_beginning(target))}.*.*"):
        pid = draft.name.removeprefix(f".{_beginning(target)}.").split(".")[0]
        if pid.isdigit() and not _is_alive(int(pid)):
            draft.unlink(missing_ok=True)


def _beginning(target: Path) -> str:
    """A name, cut so that a file system takes it with more behind it."""
    return target.name[:_LONGEST_BEGINNING]


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # there, signal 0 ends a process; drafts are left to people
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file in one go."""
    with replace_file(path) as stream:
        stream.write(text.encode())
