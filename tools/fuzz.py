"""The long form of tests/robustness: many trials from one seed, and the table that it prints.

python tools/fuzz.py                        all parts, with the counts of the table
python tools/fuzz.py calls --count 500      one part
python tools/fuzz.py calls --page           ... whose row then stands on the page
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")  # trials are small
sys.path.insert(0, str(Path(__file__).parents[1]))

PAGE = Path(__file__).parents[1] / "notes" / "reliability.md"
HEADER = "| trials | seed | looked for | found |\n|---|---|---|---|"
_BEGIN, _END = "<!-- begin: python tools/fuzz.py --page -->", "<!-- end -->"
_SHOWN = 20  # failures that are listed
_MEMORY = 12 * 1024**3  # bytes: libraries reserve several that they do not use


@dataclass(frozen=True)
class Part:
    """`where` is module:function of tests/robustness, which gives outcomes for a count and a seed."""

    where: str
    count: int
    trials: str
    wrong: str


PARTS = {
    "calls": Part(
        "public_names:hostile_calls", 20_000, "hostile calls", "raw errors, hangs, silent non-finite, NumPy warnings"
    ),
    "fits": Part("zoo:fits", 1_000, "fits of the zoo", "false statuses and tables, errors wrong by 1 %, raw, warnings"),
    "truths": Part(
        "truths:verdicts", 200, "known functions with known noise", "misfit called noise, noise called misfit"
    ),
    "files": Part("corpus:files", 1_000, "special and damaged files", "raw errors, hangs, over 3 s, over 1.5 GB"),
    "models": Part("model_files:damaged_models", 2_000, "model files with one part changed", "raw errors"),
    "names": Part("names:names", 1_000, "sets of hostile names, each for one writer", "escapes, hidden codes, raw"),
    "kills": Part(
        "ended:kills", 100, "writers and commands killed by SIGKILL", "lost files and tasks, drafts, orphans"
    ),
    "signals": Part(
        "ended:signals", 100, "commands that got Ctrl-C or SIGTERM", "tracebacks, hangs, orphans, lost models"
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"{', '.join(PARTS)}; all of them by default")
    parser.add_argument("--seed", type=int, default=int(time.strftime("%Y%m%d")), help="that of the day by default")
    parser.add_argument("--count", type=int, help="trials per part, instead of those of the table")
    parser.add_argument("--page", action="store_true", help=f"write what was found into {PAGE.name}")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}: choose among {', '.join(PARTS)}")
    bounded()
    rows, failures = [], 0
    for name in options.parts or PARTS:
        row, bad = run(PARTS[name], options.count or PARTS[name].count, options.seed)
        rows.append(row)
        failures += bad
        if options.page:
            keep(name, row)
    print("\n".join([HEADER, *map(line, rows)]))
    return int(failures > 0)


def line(row: dict[str, str]) -> str:
    """A row of the table."""
    return f"| {' | '.join(row.values())} |"


def keep(name: str, row: dict[str, str]) -> None:
    """Put the row of a part into the page, in the order of the parts, beside those that stand there."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(_BEGIN)
    table, _, after = rest.partition(_END)
    if not after:
        raise SystemExit(f"{PAGE.name} must hold {_BEGIN} and {_END} around the table.")
    known = {PARTS[part].trials: part for part in PARTS}
    old = [one for one in table.splitlines() if one.startswith("| ") and one != HEADER.splitlines()[0]]
    lines = {next(part for trials, part in known.items() if trials in one): one for one in old}
    lines[name] = line(row)
    whole = "\n".join([HEADER, *(lines[part] for part in PARTS if part in lines)])
    PAGE.write_text(f"{before}{_BEGIN}\n\n{whole}\n\n{_END}{after}", encoding="utf-8")


def bounded() -> None:
    """What asks for very much memory is told so, instead of taking that of everybody else."""
    if resource is not None:
        now = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        most = now + _MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def run(part: Part, count: int, seed: int) -> tuple[dict[str, str], int]:
    """One row of the table, and how many trials went wrong."""
    module, function = part.where.split(":")
    done = shown = 0
    wrong: Counter[str] = Counter()
    for outcome in getattr(importlib.import_module(f"tests.robustness.{module}"), function)(count, seed):
        done += 1
        if outcome.verdict != "fine":
            wrong[outcome.verdict] += 1
            if (shown := shown + 1) <= _SHOWN:
                print(f"{outcome.verdict}: {outcome.trial}\n    {outcome.detail}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{part.trials}: {done} of {count}", end="", file=sys.stderr, flush=True)
    found = ", ".join(f"{number} {verdict}" for verdict, number in sorted(wrong.items())) or "0"
    row = {"trials": f"{done} {part.trials}", "seed": str(seed), "looked for": part.wrong, "found": found}
    return row, sum(wrong.values())


if __name__ == "__main__":
    sys.exit(main())
