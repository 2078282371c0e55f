"""What stores cost those who do not use them: fits in memory by this code and by that of a commit before it.

python -m benchmarks.slowdown                 # against the commit before stores
python -m benchmarks.slowdown --before v0.1   # against another one
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean

from .problems import table, verdict

BEFORE = "81f272f"  # the last commit without stores
ROOT = Path(__file__).parents[1]
ROUNDS, REPEATS, LIMIT = 3, 3, 1.05

# Runs in processes of both versions, so that it uses only what both have.
WORK = """
import json, sys, time
import numpy as np
import decouply as dc
from threadpoolctl import threadpool_limits

def samples(dims, degrees, count, noise, jacobians=True):
    f = dc.systems.random_system(dims, degrees, rng=3)
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (count, dims[0]))
    F, J = (a + noise * a.std() * rng.normal(size=a.shape) for a in (f(X), f.jacobian(X)))
    return dc.Samples(X, F=F, J=J if jacobians else None)

two, one, wide = (3, 2, 2, 3), (6, 4, 3), (200, 12, 10)
CASES = {
    "VarPro, exact, two layers, S = 50": (samples(two, (3, 3), 50, 0.0), (2, 2), (3, 3), dc.VarPro(), 32),
    "VarPro, noise, two layers, S = 100": (samples(two, (3, 3), 100, 0.05), (2, 2), (3, 3), dc.VarPro(ridge=0.0), 32),
    "VarPro, noise, values, S = 300": (samples(one, (3,), 300, 0.05, False), 4, 3, dc.VarPro(), 32),
    "Proj, two layers, S = 100": (samples(two, (3, 3), 100, 0.05), (2, 2), (3, 3), dc.Proj(), 8),
    "Constr, one layer, 200 inputs": (samples(wide, (3,), 200, 0.05), 12, 3, dc.Constr(), 2),
}
times = {}
with threadpool_limits(1):
    for name, (given, ranks, degrees, solver, n_starts) in CASES.items():
        for _ in range(1 + int(sys.argv[1])):
            began = time.process_time()
            dc.decouple(given, ranks, degrees, solver=solver, n_starts=n_starts, progress=False)
            times.setdefault(name, []).append(time.process_time() - began)
print(json.dumps({name: min(found[1:]) for name, found in times.items()}))
"""


def seconds(source: Path) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(source)}
    done = subprocess.run(
        [sys.executable, "-c", WORK, str(REPEATS)], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def measure_slowdown(before: str) -> dict[str, tuple[float, float]]:
    """Shortest processor times before and now, in turns, so that both meet the same machine."""
    with tempfile.TemporaryDirectory() as directory:
        old = Path(directory) / "before"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(old), before], check=True)
        try:
            rounds = [(seconds(old / "src"), seconds(ROOT / "src")) for _ in range(ROUNDS)]
        finally:
            subprocess.run([*git, "remove", "--force", str(old)], check=True)
    return {name: (min(a[name] for a, _ in rounds), min(b[name] for _, b in rounds)) for name in rounds[0][0]}


def section(_: Path, before: str = BEFORE) -> str:
    found = measure_slowdown(before)
    ratios = {name: now / then for name, (then, now) in found.items()}
    mean = geometric_mean(ratios.values())
    rows = [
        [name, f"{then * 1e3:.0f} ms", f"{now * 1e3:.0f} ms", f"{ratios[name]:.2f}"]
        for name, (then, now) in found.items()
    ]
    return (
        f"## In memory, against the code before stores (commit {before})\n\nShortest processor time of "
        f"{ROUNDS * REPEATS} fits by each, in turns. The mean ratio is {mean:.3f} ({verdict(mean, LIMIT)}).\n\n"
        + table(["fit", "before", "now", "ratio"], rows)
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=BEFORE, help="a commit or tag")
    print(section(Path("docs/speed"), parser.parse_args().before))
