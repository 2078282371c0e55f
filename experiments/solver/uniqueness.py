"""Which shapes data determine in general: ranks of derivatives at a random model of each shape.

For one layer the table has the largest number of functions that are determined; for more layers, shape by shape, which
functions are free.
"""

from __future__ import annotations

from decouply.solvers.inference._uniqueness import identifiable
from experiments.harness import Content, Experiment, Outcome, Task, markdown, matching

SIZES = ((2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (2, 3), (3, 3), (4, 3), (4, 4))
DEGREES = (2, 3, 4, 5, 6)
DEEP = (
    (3, 3, (2, 2), (2, 2)),
    (3, 3, (2, 2), (3, 3)),
    (3, 3, (3, 3), (2, 2)),
    (2, 2, (3, 2), (3, 3)),
    (2, 2, (2, 3), (3, 3)),
    (2, 2, (3, 3), (3, 3)),
    (4, 3, (3, 2), (3, 4)),
    (4, 4, (3, 2, 3), (3, 3, 3)),
    (4, 4, (2, 3, 2), (3, 3, 3)),
    (3, 1, (2, 2), (3, 3)),
    (2, 1, (2, 2), (3, 3)),
    (3, 1, (2, 2, 2), (2, 2, 2)),
    (3, 3, (2, 2, 2, 2), (2, 2, 2, 2)),
)


def tasks(*, seed: int) -> list[Task]:
    single = [
        {"m": m, "n": n, "ranks": [r], "degrees": [d]} for m, n in SIZES for d in DEGREES for r in range(1, m * n + 2)
    ]
    deep = [{"m": m, "n": n, "ranks": list(ranks), "degrees": list(degrees)} for m, n, ranks, degrees in DEEP]
    return [task | {"seed": seed} for task in single + deep]


def work(m: int, n: int, ranks: list[int], degrees: list[int], seed: int) -> Outcome:  # noqa: ARG001 (all have one)
    """One shape."""
    found = identifiable(m, n, ranks, degrees)
    wanted = found.n_parameters - found.n_ambiguities
    known = {"unique": found.locally_unique, "rank": found.rank, "wanted": wanted, "free": found.in_words}
    return known | {"theorem": found.theorem}


def table(content: Content) -> str:
    """The largest determined rank of one layer, then shapes of more layers."""
    rows = []
    for m, n in SIZES:
        cells = []
        for d in DEGREES:
            runs = [run for run in matching(content["runs"], m=m, n=n, degrees=[d]) if run["unique"]]
            cells.append(str(max((run["ranks"][0] for run in runs), default=0)))
        # At the largest degree: the others determine fewer slopes.
        everywhere = max((run["ranks"][0] for run in runs if run["theorem"]), default=0)
        rows.append([str(m), str(n), *cells, str(m * n), str(everywhere)])
    head = ["inputs", "outputs", *(f"degree {d}" for d in DEGREES), "m·n", f"by Kruskal, degree {DEGREES[-1]}"]
    single = markdown(head, rows)
    rows = [
        [
            "-".join(map(str, (run["m"], *run["ranks"], run["n"]))),
            ", ".join(map(str, run["degrees"])),
            "yes" if run["unique"] else "no",
            f"{run['rank']} of {run['wanted']}",
            run["theorem"] or "–",
            (run["free"] or "–").replace("_", "\\_"),
        ]
        for run in content["runs"]
        if len(run["ranks"]) > 1
    ]
    deep = markdown(
        ["shape", "degrees", "locally unique", "parameters determined", "unique everywhere by", "free functions"], rows
    )
    return "\n\n".join(
        [
            "One layer: the largest number of functions that values and Jacobians determine locally, up to scales. In "
            "the last column, that for which Kruskal's theorem rules out other models anywhere.",
            single,
            "Two and more layers, shape by shape:",
            deep,
        ]
    )


UNIQUENESS = Experiment.of(
    globals(),
    "uniqueness",
    "Which shapes data determine in general, by ranks at random models.",
)
