"""requirements.txt: what constraints.txt pins, with the SHA-256 sums of the files that an index of packages has of it.

python tools/hashes.py            writes it; asks the index that pip asks
pip install --require-hashes -r requirements.txt && pip install --no-deps --no-build-isolation -e .
"""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS, HASHED = ROOT / "constraints.txt", ROOT / "requirements.txt"
_LINK = re.compile(r"<a[^>]*#sha256=([0-9a-f]{64})[^>]*>([^<]+)</a>", re.IGNORECASE)
_PYTHONS = r"(py3|py2\.py3|cp3\d+-abi3|cp3[0-9]-abi3|cp31[123]-cp31[123]|cp31[123]-none)"
_PLACES = r"(any|.*manylinux.*_(x86_64|aarch64)|.*linux_x86_64|macosx.*|win_amd64)"
_WHEEL = re.compile(rf".*-{_PYTHONS}(-none)?-{_PLACES}\.whl")


def pins() -> list[tuple[str, str]]:
    """Names and versions of constraints.txt."""
    lines = PINS.read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("==")) for line in lines if line and not line.startswith("#")]  # type: ignore[misc]


def main() -> int:
    index, parts = _index(), [f"# Made by tools/hashes.py from {PINS.name}; for Python 3.11 to 3.13.\n"]
    for name, version in pins():
        request = urllib.request.Request(f"{index}/{_normal(name)}/", headers={"Accept": "text/html"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            files = _LINK.findall(answer.read().decode())
        sums = sorted({digest for digest, file in files if _is_of(file.strip(), name, version)})
        if not sums:
            print(f"The index has no file of {name} {version}.", file=sys.stderr)
            return 1
        parts.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in sums)]) + "\n")
    HASHED.write_text("".join(parts), encoding="utf-8")
    return 0


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_of(file: str, name: str, version: str) -> bool:
    """Whether a file is of this version: its source, or a wheel for one of our Pythons."""
    stem, _, rest = file.partition("-")
    if file.endswith(".tar.gz"):
        return _normal(file.removesuffix(".tar.gz")) == f"{_normal(name)}-{_normal(version)}"
    return _normal(stem) == _normal(name) and rest.startswith(f"{version}-") and _WHEEL.fullmatch(file) is not None


def _index() -> str:
    """The address that pip is configured for, or its own default."""
    from pip._internal.models.index import PyPI

    for key in ("global.index-url", "install.index-url", ":env:.index-url"):
        done = subprocess.run([sys.executable, "-m", "pip", "config", "get", key], capture_output=True, text=True)
        if done.returncode == 0:
            return done.stdout.strip().rstrip("/")
    return PyPI.simple_url.rstrip("/")


if __name__ == "__main__":
    sys.exit(main())
