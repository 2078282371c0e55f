"""Compare our models with other packages on the Silverbox and write docs/peers.md: `make peers`.

Every peer gets an environment of its own below .venv-peers, made on first use. One that cannot be installed or run
gets a row that says so. With ``--only NAME`` one peer (or "ours") runs, its rows are printed and no page is written.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from threadpoolctl import threadpool_limits

import decoupling as dc

from . import ours
from .environments import PeerError, install, run_script
from .exchange import Row, scored, write_data
from .page import page, results
from .roster import PEERS, Peer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--output", default="docs", help="directory for peers.md")
    parser.add_argument("--only", choices=["ours", *(peer.name for peer in PEERS)], help="run one and print its rows")
    arguments = parser.parse_args()
    data = dc.data.silverbox()
    rows = []
    with tempfile.TemporaryDirectory() as scratch, threadpool_limits(1):
        for row in all_rows(data, Path(scratch), arguments.only):
            rows.append(row)
            print(results([row]).splitlines()[-1], flush=True)
    if arguments.only:
        print(results(rows))
    else:
        (Path(arguments.output) / "peers.md").write_text(page(rows) + "\n", encoding="utf-8")


def all_rows(data: dc.data.Silverbox, scratch: Path, only: str | None) -> Iterator[Row]:
    source = scratch / "data.npz"
    write_data(data, source)
    for peer in PEERS:
        if only in (None, peer.name):
            yield from peer_rows(peer, data, source)
    if only in (None, "ours"):
        yield from ours.rows(data)


def peer_rows(peer: Peer, data: dc.data.Silverbox, source: Path) -> Iterator[Row]:
    """One row per model of the peer; a failure is a row too."""
    try:
        python = install(peer)
    except (PeerError, OSError) as error:
        yield from (Row(model, failure=str(error)) for model, _ in peer.models)
        return
    for i, (model, arguments) in enumerate(peer.models):
        out = source.with_name(f"{peer.name}-{i}.npz")
        try:
            run_script(python, peer, [str(source), str(out), *arguments])
            yield scored(model, data, out)
        except (PeerError, OSError, KeyError, dc.InputError) as error:
            yield Row(model, failure=str(error))


if __name__ == "__main__":
    main()
