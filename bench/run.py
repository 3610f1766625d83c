#!/usr/bin/env python3
"""`make bench`: Fermata beside its peers in one interleaved run on one core.

Every server is built and started, its answers are verified, every row is warmed up, and then each round
measures every peer once in a new random order. README.md says what the figures mean.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from suite import machine, process, receiver
from suite.check import check
from suite.load import LoadError
from suite.peers import BENCH, BUILD, SUBJECT, CannotRun, Running, load_all
from suite.report import MemoryLine, Run, markdown, write
from suite.rows import MEMORY, ROWS, Amounts, Row, measure, pinned
from suite.summary import CONTROL, load_goals

ROUNDS = 10
AMOUNTS = Amounts(wrk_seconds=3, ab_requests=20_000)
QUICK_ROUNDS = 1
QUICK_AMOUNTS = Amounts(wrk_seconds=1, ab_requests=300)


def main() -> int:
    options = parse_options()
    peers = load_all()
    chosen = {id: peers[id] for id in options.peers or peers}
    rows = [row for row in ROWS if (row.id in options.rows if options.rows else not row.extra)]
    with_memory = not options.rows or MEMORY in options.rows
    amounts = QUICK_AMOUNTS if options.quick else AMOUNTS
    amounts = replace(
        amounts,
        wrk_seconds=options.seconds or amounts.wrk_seconds,
        ab_requests=options.requests or amounts.ab_requests,
    )
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)

    for tool in ("wrk", "ab", "taskset", "cc"):
        if shutil.which(tool) is None:
            print(
                f"bench: {tool} is missing (Debian: wrk, apache2-utils, util-linux, gcc)",
                file=sys.stderr,
            )
            return 2

    run = Run(
        started=datetime.now(UTC),
        machine=machine.facts(),
        options={
            "core": options.core,
            "rounds": rounds,
            "seed": options.seed,
            "quick": options.quick,
            "wrk_seconds": amounts.wrk_seconds,
            "ab_requests": amounts.ab_requests,
            "rows": [row.id for row in rows] + ([MEMORY] if with_memory else []),
            "command": " ".join(sys.argv),
        },
        peers=chosen,
    )
    receiver.build()
    prepare(run)
    if with_memory:
        measure_memory(run, options.core, amounts)
    servers: dict[tuple[str, str], Running] = {}
    try:
        start(run, rows, servers, options.core)
        source = random.Random(options.seed)
        for row in rows:
            measure_row(run, row, servers, rounds, amounts, options.core, source)
    finally:
        for server in servers.values():
            server.close()

    goals = load_goals()
    folder = options.out or default_folder(run, options.quick)
    table, raw = write(run, goals, folder)
    print(f"\n{markdown(run, goals)}")
    note(f"table: {table}\nraw:   {raw}")
    return exit_status(run)


def parse_options() -> argparse.Namespace:
    known_rows = [row.id for row in ROWS] + [MEMORY]
    known_peers = list(load_all())

    def positive(text: str) -> int:
        if (number := int(text)) < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return number

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=known_rows,
        help="default: all but json-pipelined, page-keep-alive",
    )
    parser.add_argument("--peers", nargs="+", choices=known_peers, help="default: all")
    parser.add_argument("--rounds", type=positive, help=f"default {ROUNDS}")
    parser.add_argument("--seconds", type=positive, help=f"of one wrk measurement, default {AMOUNTS.wrk_seconds}")
    parser.add_argument("--requests", type=positive, help=f"of one ab measurement, default {AMOUNTS.ab_requests}")
    parser.add_argument("--core", type=int, default=0, help="that server and client share, default 0")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data, default bench/runs/<date>-<host>")
    return parser.parse_args()


def prepare(run: Run) -> None:
    """Build every peer; what cannot be built is noted and left out."""
    for id, peer in run.peers.items():
        note(f"building {peer.name}")
        try:
            run.versions[id] = peer.prepare()
        except CannotRun as reason:
            skip(run, id, reason)


def start(run: Run, rows: list[Row], servers: dict[tuple[str, str], Running], core: int) -> None:
    """Start every service that a row needs and verify its answers before anything is measured."""
    for service in sorted({row.service for row in rows}):
        for id, peer in run.peers.items():
            if id in run.not_run or service not in peer.services:
                continue
            try:
                server = Running(peer, service, pinned(core))
                servers[id, service] = server
                run.commands[f"{id}/{service}"] = " ".join(server.command)
                run.answers.setdefault(id, {}).update(check(server, service))
            except CannotRun as reason:
                skip(run, f"{id}/{service}", reason)
                if failed := servers.pop((id, service), None):
                    failed.close()


def measure_row(
    run: Run,
    row: Row,
    servers: dict[tuple[str, str], Running],
    rounds: int,
    amounts: Amounts,
    core: int,
    source: random.Random,
) -> None:
    entries = {
        id: servers[id, row.service]
        for id, peer in run.peers.items()
        if row.fits(peer) and (id, row.service) in servers
    }
    if SUBJECT in entries:
        entries[CONTROL] = entries[SUBJECT]
    warm_up = Amounts(wrk_seconds=1, ab_requests=max(100, amounts.ab_requests // 10))
    for round in range(rounds + 1):
        order = list(entries)
        source.shuffle(order)
        for id in order:
            if f"{id}/{row.id}" in run.not_run or (round == 0 and id == CONTROL):
                continue
            try:
                sample = measure(row, entries[id], round, warm_up if round == 0 else amounts, core)
            except (LoadError, CannotRun) as reason:
                skip(run, f"{id}/{row.id}", reason)
                continue
            if round > 0:
                run.samples.append(replace(sample, peer=id))
        if round > 0:
            note(f"{row.id}: round {round} of {rounds}")


def measure_memory(run: Run, core: int, amounts: Amounts) -> None:
    """Each chat server alone, so that no other process shares its pages."""
    page = next(row for row in ROWS if row.id == "page")
    for id, peer in run.peers.items():
        if id in run.not_run or not page.fits(peer):
            continue
        note(f"memory: {peer.name}")
        try:
            with Running(peer, "chat", pinned(core)) as server:
                check(server, "chat")
                idle = process.memory(server.pids())
                measure(page, server, 0, amounts, core)
                loaded = process.memory(server.pids())
        except (LoadError, CannotRun) as reason:
            skip(run, f"{id}/{MEMORY}", reason)
            continue
        run.memory.append(MemoryLine(id, idle, loaded, amounts.ab_requests))


def default_folder(run: Run, quick: bool) -> Path:
    if quick:
        return BUILD / "quick"
    return BENCH / "runs" / f"{run.started:%Y-%m-%d}-{run.machine['host']}"


def exit_status(run: Run) -> int:
    """1 when the suite or the subject did not work; missed goals and absent peers are no failure."""
    broken = [key for key in run.not_run if key.split("/")[0] in (SUBJECT, CONTROL)]
    return 1 if broken or run.failed() else 0


def skip(run: Run, key: str, reason: Exception) -> None:
    run.not_run[key] = str(reason)
    note(f"not run: {key}: {reason}")


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    os.environ.setdefault("GOTOOLCHAIN", "local")
    sys.exit(main())
