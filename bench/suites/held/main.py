"""`make bench-held`: compares the cost of a held client in Fermata and in Pushpin, in one interleaved run.

Each round starts every server in random order and holds a growing number of clients on it. Then it restarts the servers
and publishes to a thousand clients. README.md explains the figures.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.lib import machine
from bench.lib.load import LoadError
from bench.lib.peers import BENCH, BUILD, FERMATA, SUBJECT, CannotRun, Running, load_all
from bench.lib.ready import note, skip, wait_for_stream

from .report import Run, load_goals, markdown, write
from .rows import FULL, MESSAGE_BYTES, QUICK, Amounts, climb, spread

ROUNDS = 3
ROWS = ("stream", "alive", "socket", "slow", "burst")
LADDERS = ("stream", "alive", "socket")
ALONE = ("socket",)
"""Rows that measure only Fermata. The other servers terminate WebSockets and use another protocol to their backend."""


def main() -> int:
    options = parse_options()
    # Exit through the cleanup handlers on SIGTERM as well, so that servers and clients stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not FERMATA.exists():
        print(f"bench: {FERMATA} does not exist; run `make`", file=sys.stderr)
        return 2
    peers = {id: peer for id, peer in load_all(("held",)).items() if id == SUBJECT or id in options.peers}
    amounts = QUICK if options.quick else FULL
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    run = Run(
        started=datetime.now(UTC),
        machine=machine.facts(),
        options={
            "rounds": rounds,
            "seed": options.seed,
            "quick": options.quick,
            "levels": amounts.levels,
            "subscribers": amounts.subscribers,
            "message_bytes": MESSAGE_BYTES,
            "rows": options.rows,
            "command": " ".join(sys.argv),
        },
        peers=peers,
    )
    for id, peer in peers.items():
        try:
            run.versions[id] = peer.prepare()
        except CannotRun as reason:
            skip(run.not_run, id, reason)
    try:
        measure_all(run, options.rows, rounds, amounts, random.Random(options.seed))
    except KeyboardInterrupt:
        if not run.ladders and not run.broadcasts:
            raise
        run.not_run["the rest"] = "interrupted"

    goals = load_goals()
    default = BUILD / "quick" if options.quick else BENCH / "runs" / f"{run.started:%Y-%m-%d}-{run.machine['host']}"
    table, raw = write(run, goals, options.out or default)
    print(f"\n{markdown(run, goals)}")
    note(f"table: {table}\nraw:   {raw}")
    ours = [key for key in [*run.not_run, *run.errors()] if key.split("/")[0] == SUBJECT]
    return 1 if ours else 0


def parse_options() -> argparse.Namespace:
    others = [id for id in load_all(("held",)) if id != SUBJECT]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--peers", nargs="*", choices=others, default=others, help="beside Fermata; default: all")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data, default bench/runs/<date>-<host>")
    return parser.parse_args()


def measure_all(run: Run, rows: list[str], rounds: int, amounts: Amounts, source: random.Random) -> None:
    for round in range(1, rounds + 1):
        for row in rows:
            order = [id for id in run.peers if id == SUBJECT or row not in ALONE]
            source.shuffle(order)
            for id in order:
                if id not in run.not_run and f"{id}/{row}" not in run.not_run:
                    measure(run, id, row, round, amounts)
            note(f"{row}: round {round} of {rounds}")


def measure(run: Run, id: str, row: str, round: int, amounts: Amounts) -> None:
    """Starts a server and measures one row. On failure, records the reason."""
    peer = run.peers[id]
    try:
        with Running(peer, "held", []) as server:
            run.commands[id] = " ".join(server.command)
            wait_for_stream(server)
            one: Callable[..., Any] = climb if row in LADDERS else spread
            found = one(server, id, round, row, amounts, peer.out)
    except (LoadError, CannotRun) as reason:
        skip(run.not_run, f"{id}/{row}", reason)
        return
    (run.ladders if row in LADDERS else run.broadcasts).append(found)
