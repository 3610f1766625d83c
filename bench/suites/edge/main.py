"""`make bench-edge`: compares Fermata's GRIP edge with Pushpin, with equivalent configurations and the same backend.

Each round starts every edge again and measures every row, in random order. README.md explains the figures.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import machine
from bench.lib.load import LoadError
from bench.lib.peers import BENCH, BUILD, FERMATA, CannotRun, Running, load_all
from bench.lib.ready import note, skip, wait_for_stream

from .backend import Backend
from .report import RIVAL, SUBJECT, Run, load_goals, markdown, write
from .rows import FULL, LADDERS, QUICK, ROWS, measure

ROUNDS = 3
MARKS = {"nginx-proxy": ("proxy",)}
"""Peers that are not GRIP edges, and the rows that measure them."""


def main() -> int:
    options = parse_options()
    # Exit through the cleanup handlers on SIGTERM as well, so that edges and clients stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not FERMATA.exists():
        print(f"bench: {FERMATA} does not exist; run `make`", file=sys.stderr)
        return 2
    found = load_all(("edge",))
    rounds = options.rounds or (1 if options.quick else ROUNDS)
    amounts = QUICK if options.quick else FULL
    run = Run(
        started=datetime.now(UTC),
        machine=machine.facts(),
        options={
            "rounds": rounds,
            "seed": options.seed,
            "quick": options.quick,
            "rows": options.rows,
            "levels": amounts.levels,
            "subscribers": amounts.subscribers,
            "command": " ".join(sys.argv),
        },
        peers={id: found[id] for id in sorted(found, key=lambda id: (id != SUBJECT, id)) if id in options.peers},
    )
    for id, peer in run.peers.items():
        try:
            run.versions[id] = peer.prepare()
        except CannotRun as reason:
            skip(run.not_run, id, reason)
    try:
        with Backend() as backend:
            measure_all(run, backend, rounds, random.Random(options.seed))
    except CannotRun as reason:
        skip(run.not_run, SUBJECT, reason)
    except KeyboardInterrupt:
        if not run.samples:
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
    peers = list(load_all(("edge",)))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--peers", nargs="+", choices=peers, default=peers, help="default: all")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data, default bench/runs/<date>-<host>")
    return parser.parse_args()


def measure_all(run: Run, backend: Backend, rounds: int, source: random.Random) -> None:
    for round in range(1, rounds + 1):
        for row in run.options["rows"]:
            # Variants of a peer that differ only in the state stored for held clients.
            marks = [id for id in run.peers if row in MARKS.get(id, ())]
            order = [id for id in run.peers if id not in MARKS and (id in (SUBJECT, RIVAL) or row in LADDERS)] + marks
            source.shuffle(order)
            for id in order:
                if id in run.not_run or f"{id}/{row}" in run.not_run:
                    continue
                try:
                    with Running(run.peers[id], "edge", []) as running:
                        run.commands[id] = " ".join(running.command)
                        wait_for_stream(running)
                        run.samples.append(measure(row, running, backend, id, round, run.options["quick"]))
                except (LoadError, CannotRun) as reason:
                    skip(run.not_run, f"{id}/{row}", reason)
            note(f"{row}: round {round} of {rounds}")
