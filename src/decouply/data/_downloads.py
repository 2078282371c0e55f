"""Files of public data sets: the folder they are kept in, the place they come from, and how they are checked.

Files lie in the folder named by the environment variable DECOUPLY_DATA, or in the user's cache directory. What is
missing there is downloaded; whatever is there is compared with its checksum before it is read.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .._support._errors import DataError
from .._support._progress import progress_callback

FOLDER_VARIABLE = "DECOUPLY_DATA"
_TIMEOUT_SECONDS = 30
_LARGEST = 500_000_000  # bytes: no file of our data sets has so many


@dataclass(frozen=True)
class Source:
    """An address of a file, or of a zip archive with the file in it."""

    url: str
    member: str | None = None


@dataclass(frozen=True)
class RemoteFile:
    """One file of a data set.

    Attributes
    ----------
    path
        Its place under the data folder.
    sha256
        Checksum of its bytes. It does not matter which address they came from.
    sources
        Addresses, tried in turn.
    """

    path: str
    sha256: str
    sources: tuple[Source, ...]


def data_folder() -> Path:
    """The folder for data sets."""
    named = os.environ.get(FOLDER_VARIABLE, "").strip()
    if named:
        try:
            return Path(named).expanduser()
        except RuntimeError as error:
            raise DataError(f"{FOLDER_VARIABLE} must name a folder. Got {named!r}: {error}.") from error
    import pooch

    return Path(pooch.os_cache("decouply"))


def fetch(file: RemoteFile) -> Path:
    """The path of a checked local copy, downloaded if there is none."""
    import pooch

    target = data_folder() / file.path
    if target.exists() and not target.is_file():
        raise DataError(f"`{target}` must be a file. It is a directory: remove it.")
    if not target.is_file():
        _download(file, target)
    if pooch.file_hash(str(target)) != file.sha256:
        raise DataError(
            f"`{target}` must have the SHA-256 checksum {file.sha256}. It is another or a damaged file: delete it to "
            "download it again."
        )
    return target


def _download(file: RemoteFile, target: Path) -> None:
    """Try the addresses until one gives the right bytes; only those are put in place."""
    failures = []
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".download-") as folder:
            for source in file.sources:
                problem = _try(source, file, Path(folder), target)
                if problem is None:
                    return
                failures.append(f"{source.url} ({problem})")
    except OSError as error:
        raise DataError(
            f"`{target}` is missing, and cannot be downloaded because the folder cannot be written to: "
            f"{error.strerror}. Set {FOLDER_VARIABLE} to a folder of yours."
        ) from error
    raise DataError(
        f"`{target}` is missing and could not be downloaded. Tried: {'; '.join(failures)}. Without a network, put the "
        f"file there yourself, or set {FOLDER_VARIABLE} to a folder that holds {file.path}."
    )


def _try(source: Source, file: RemoteFile, folder: Path, target: Path) -> str | None:
    """Download from one address; what went wrong, or None."""
    import pooch
    import requests

    got = folder / "got"
    try:
        with progress_callback(True, f"Downloading {file.path}") as report:
            bar = _DownloadBar(report)
            pooch.HTTPDownloader(timeout=_TIMEOUT_SECONDS, progressbar=bar)(source.url, str(got), None)
        if source.member is not None:
            got = _extracted(got, source.member, folder)
    except requests.exceptions.ConnectionError:
        return "no connection"
    except requests.exceptions.RequestException as error:
        return str(error)
    except _TooLargeError as error:
        return str(error)
    except (zipfile.BadZipFile, zlib.error, KeyError, NotImplementedError, RuntimeError) as error:
        return f"not the expected archive: {error}"
    if pooch.file_hash(str(got)) != file.sha256:
        return "the file there has another checksum"
    os.replace(got, target)
    return None


class _TooLargeError(Exception):
    """More bytes than any file that we know has."""


class _DownloadBar:
    """A progress bar as pooch drives it, which passes on how many bytes are here."""

    def __init__(self, report: Callable[..., None]) -> None:
        self.total = 0  # set by pooch once the server has told the size; stays 0 if it does not
        self._report = report
        self._done = 0

    def update(self, n_bytes: int) -> None:
        self._done += n_bytes
        if max(self._done, self.total) > _LARGEST:
            raise _TooLargeError(f"it is larger than {_LARGEST / 1e6:.0f} MB")
        if self.total:
            self._report(done=min(self._done, self.total), total=self.total)  # the last chunk is counted as a full one
        else:
            self._report(done=self._done, total=None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing: whoever opened the bar closes it, also after a failure."""


def _extracted(archive: Path, member: str, folder: Path) -> Path:
    """The member with this file name, in whatever folder of the archive it lies."""
    out = folder / "member"
    with zipfile.ZipFile(archive) as content:
        names = [name for name in content.namelist() if Path(name).name == member and "__MACOSX" not in name]
        if not names:
            raise KeyError(f"{member} is not in it")
        if content.getinfo(names[0]).file_size > _LARGEST:
            raise _TooLargeError(f"{member} in it is larger than {_LARGEST / 1e6:.0f} MB")
        with content.open(names[0]) as source, out.open("wb") as sink:
            shutil.copyfileobj(source, sink)
    return out
