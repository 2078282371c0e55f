"""`python -m tests.golden [CASE ...]`: record numbers anew, of all cases or of those whose names contain a word.

Tells which cases changed, and by how much. With --check nothing is written.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

import decouply as dc

from . import areas, golden


def main(words: list[str]) -> int:
    checks = "--check" in words
    words = [word for word in words if word != "--check"]
    if not checks and words and golden.FINGERPRINT.exists() and golden.recorded_fingerprint() != golden.fingerprint():
        print("The other cases were recorded with other arithmetic: record all of them, without naming any.")
        return 2
    chosen = [name for name in golden.CASES if not words or any(word in name for word in words)]
    before = {area: golden.recorded(area) for area in areas.AREAS}
    kept = {
        area: {name: values for name, values in before[area].items() if words and name in golden.CASES}
        for area in areas.AREAS
    }
    print(f"Numbers of {Path(dc.__file__).parent}")
    n_changed, began = 0, time.perf_counter()
    for name in chosen:
        area, started = golden.CASES[name].area, time.perf_counter()
        if any(part not in golden.fingerprint() for part in golden.CASES[name].needs):
            print(f"not here  {name}: needs {', '.join(golden.CASES[name].needs)}")
            kept[area][name] = before[area].get(name, {})
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = json.loads(json.dumps(golden.made(name, Path(folder))))
        old = before[area].get(name)
        off = ["new"] if old is None else golden.differences(found, old)
        n_changed += bool(off)
        print(f"{'changed' if off else 'same   '} {time.perf_counter() - started:6.2f} s  {name}")
        for line in off[:8]:
            print(f"    {line}")
        kept[area][name] = found if off else old
    print(f"{n_changed} of {len(chosen)} cases changed, {time.perf_counter() - began:.0f} s.")
    if not checks:
        for area in areas.AREAS:
            golden.keep(area, kept[area])
        golden.FINGERPRINT.write_text(json.dumps(golden.fingerprint(), indent=2) + "\n")
    return int(checks and n_changed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
