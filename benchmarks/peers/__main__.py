"""Compare our models with other packages on measured systems and write docs/peers/peers.md: `make peers`.

Every peer gets an environment of its own below .venv-peers, made on first use. One that cannot be installed or run
gets a row that says so. Rows are kept in peers.json beside the page: with ``--only NAME`` one peer (or "state space" or
"narx", which are ours) runs, with ``--on CONTEST`` on one data set, and the page is written again with the other rows
as they were.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from threadpoolctl import threadpool_limits

import decouply as dc

from . import ours
from .environments import PeerError, install, run_script
from .exchange import CONTESTS, Contest, Row, scored, write_data
from .page import page, results
from .roster import PEERS, Peer

OURS = {"state space": ours.state_space, "narx": ours.narx}
Rows = dict[str, dict[str, list[Row]]]  # by contest and by who wrote them


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--output", default="docs/peers", help="directory for peers.md and peers.json")
    parser.add_argument("--only", choices=[*OURS, *(peer.name for peer in PEERS)], help="run one, keep other rows")
    parser.add_argument("--on", choices=list(CONTESTS), help="run on one data set, keep other rows")
    arguments = parser.parse_args()
    store = Path(arguments.output) / "peers.json"
    rows = read(store)
    with tempfile.TemporaryDirectory() as scratch, threadpool_limits(1):
        for name, contest in CONTESTS.items():
            if arguments.on in (None, name):
                source = Path(scratch) / f"{name}.npz"
                write_data(contest, source)
                for who, found in run_all(name, contest, source, arguments.only):
                    rows.setdefault(name, {})[who] = found
                    print(results(contest, found), flush=True)
                    write(store, rows)
    of_contest = {name: [row for some in rows.get(name, {}).values() for row in some] for name in CONTESTS}
    (Path(arguments.output) / "peers.md").write_text(page(of_contest) + "\n", encoding="utf-8")


def read(store: Path) -> Rows:
    """Rows of runs before."""
    if not store.exists():
        return {}
    kept = json.loads(store.read_text(encoding="utf-8"))
    return {
        name: {who: [Row(**{**row, "rmse": tuple(row["rmse"])}) for row in found] for who, found in some.items()}
        for name, some in kept.items()
    }


def write(store: Path, rows: Rows) -> None:
    plain = {
        name: {who: [dataclasses.asdict(row) for row in found] for who, found in some.items()}
        for name, some in rows.items()
    }
    store.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def run_all(name: str, contest: Contest, source: Path, only: str | None) -> Iterator[tuple[str, list[Row]]]:
    for peer in PEERS:
        if only in (None, peer.name) and name in peer.models:
            yield peer.name, list(peer_rows(peer, name, contest, source))
    for who, rows in OURS.items():
        if only in (None, who):
            yield who, list(rows(name, contest))


def peer_rows(peer: Peer, name: str, contest: Contest, source: Path) -> Iterator[Row]:
    """One row per model of the peer; a failure is a row too."""
    models = peer.models[name]
    try:
        python = install(peer)
    except (PeerError, OSError) as error:
        yield from (Row(model, failure=str(error)) for model, _ in models)
        return
    for i, (model, arguments) in enumerate(models):
        out = source.with_name(f"{name}-{peer.name}-{i}.npz")
        try:
            run_script(python, peer, [str(source), str(out), *arguments])
            yield scored(model, contest, out)
        except (PeerError, OSError, KeyError, dc.InputError) as error:
            yield Row(model, failure=str(error))


if __name__ == "__main__":
    main()
