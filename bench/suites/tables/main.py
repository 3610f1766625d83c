"""`make bench`: compares Fermata with other servers, in a table for each of the seeds 000 (`chat`), 002 (`files`), 004 (`json`).

For each table it builds and starts the servers, checks their responses, and warms up every row. Then each round measures
every peer once, in a new random order. README.md explains the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import backend, compiled, machine, process
from bench.lib.check import check, check_pipelining
from bench.lib.load import LoadError
from bench.lib.peers import (
    BENCH,
    BUILD,
    ELSEWHERE,
    FERMATA,
    SUBJECT,
    CannotRun,
    Lacks,
    Peer,
    Running,
    environment,
    load_all,
)
from bench.lib.ready import note, skip

from .report import MemoryLine, Run, markdown, write
from .rows import LATENCY, MEMORY, PIPELINE, ROWS, START, TABLES, Amounts, Row, Sample, first_byte, measure, pinned
from .summary import CONTROL, Goal, load_goals, rivals

ROUNDS = 9
AMOUNTS = Amounts(wrk_seconds=1, ab_requests=20_000, open_seconds=2.0)
MINUTES = 7.0
QUICK_ROUNDS = 1
QUICK_AMOUNTS = Amounts(wrk_seconds=1, ab_requests=300, open_seconds=0.3)
QUICK_PEERS = (SUBJECT, "c", "nginx", "node", "php-seed")
"""Peers of a quick run, chosen so that every row is measured."""
SELDOM = 3
"""Interval, in rounds, at which a peer without a goal in the row is measured."""
PACES = ("fermata", "nginx")
"""Peers of which the slower one determines the rate of a latency row."""
CLOSED_LOOP = 0

Servers = dict[str, Running]


def main() -> int:
    options = parse_options()
    # Exit through the cleanup handlers on SIGTERM as well, so that servers and clients stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    for tool in ("wrk", "ab", "taskset", "cc"):
        if shutil.which(tool) is None:
            print(f"bench: {tool} is missing (Debian: wrk, apache2-utils, util-linux, gcc)", file=sys.stderr)
            return 2
    if not FERMATA.is_file():
        print(f"bench: {FERMATA} does not exist; run make", file=sys.stderr)
        return 2
    environment(options.peers_in)
    compiled.build("receiver")
    compiled.build("backend")
    return max([run_table(table, options) for table in options.tables if wanted_rows(table, options)], default=0)


def run_table(table: str, options: argparse.Namespace) -> int:
    """Measures one table. Returns 1 if the suite or the subject failed."""
    began = time.monotonic()
    known = load_all(directory=options.peers_in)
    rows = [row for row in ROWS if row.id in wanted_rows(table, options)]
    named = options.peers or (QUICK_PEERS if options.quick else known)
    with_memory = MEMORY in wanted_rows(table, options)
    chosen = {id: known[id] for id in named if with_memory and "chat" in known[id].services or fits(known[id], rows)}
    amounts = QUICK_AMOUNTS if options.quick else AMOUNTS
    amounts = replace(
        amounts,
        wrk_seconds=options.seconds or amounts.wrk_seconds,
        ab_requests=options.requests or amounts.ab_requests,
    )
    run = Run(
        table=table,
        started=datetime.now(UTC),
        machine=machine.facts(),
        options={
            "core": options.core,
            "rounds": options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS),
            "seed": options.seed,
            "quick": options.quick,
            "wrk_seconds": amounts.wrk_seconds,
            "ab_requests": amounts.ab_requests,
            "open_seconds": amounts.open_seconds,
            "rows": [row.id for row in rows] + ([MEMORY] if with_memory else []),
            "command": " ".join(sys.argv),
        },
        peers=chosen,
    )
    prepare(run)
    if with_memory:
        measure_memory(run, amounts)
    goals = load_goals()
    source = random.Random(options.seed)
    for at, row in enumerate(rows):
        left = began + options.minutes * 60 - time.monotonic()
        share = weight(run, row) / sum(weight(run, later) for later in rows[at:])
        measure_row(run, row, amounts, goals, source, time.monotonic() + max(left, 0) * share)

    folder = options.out or default_folder(run, options.quick)
    shown, raw = write(run, goals, folder)
    print(f"\n{markdown(run, goals)}")
    note(f"table: {shown}\nraw:   {raw}\ntook {time.monotonic() - began:.0f} s")
    return exit_status(run)


def parse_options() -> argparse.Namespace:
    known_rows = [*(row.id for row in ROWS), MEMORY]
    known_peers = list(load_all())

    def positive(text: str) -> int:
        if (number := int(text)) < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return number

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"{' or '.join(TABLES)}; default: all")
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    extra = ", ".join(row.id for row in ROWS if row.extra)
    parser.add_argument("--rows", nargs="+", choices=known_rows, help=f"default: all but {extra}")
    parser.add_argument("--peers", nargs="+", choices=known_peers, help="default: all; with --quick a few")
    parser.add_argument(
        "--peers-in", type=Path, default=ELSEWHERE, help=f"folder of peers built elsewhere, default {ELSEWHERE}"
    )
    parser.add_argument("--rounds", type=positive, help=f"default {ROUNDS}")
    parser.add_argument("--seconds", type=positive, help=f"of one wrk measurement, default {AMOUNTS.wrk_seconds}")
    parser.add_argument("--requests", type=positive, help=f"of one ab measurement, default {AMOUNTS.ab_requests}")
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        help=f"a row makes fewer rounds when its share of a table's time is used up, default {MINUTES:.0f}",
    )
    parser.add_argument("--core", type=int, default=0, help="that server and client share, default 0")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for tables and raw data, default bench/runs/<date>-<host>")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    options.tables = options.tables or list(TABLES)
    options.peers_in = options.peers_in.resolve()
    return options


def wanted_rows(table: str, options: argparse.Namespace) -> list[str]:
    """Returns the selected rows of a table."""
    rows = [row for row in ROWS if row.table == table]
    found = [row.id for row in rows if (row.id in options.rows if options.rows else not row.extra)]
    if table == "chat" and (not options.rows or MEMORY in options.rows):
        found.append(MEMORY)
    return found


def fits(peer: Peer, rows: list[Row]) -> bool:
    return any(row.fits(peer) for row in rows)


def weight(run: Run, row: Row) -> int:
    """Returns a row's weight when a table's time is divided: the number of its peers plus one."""
    return sum(row.fits(peer) and id not in run.not_run for id, peer in run.peers.items()) + 1


def prepare(run: Run) -> None:
    """Builds every peer. Records and skips peers that cannot be built."""
    for id, peer in run.peers.items():
        note(f"building {peer.name}")
        try:
            run.versions[id] = peer.prepare()
        except CannotRun as reason:
            skip(run.not_run, id, reason)


def measure_row(
    run: Run, row: Row, amounts: Amounts, goals: list[Goal], source: random.Random, deadline: float
) -> None:
    entries = [id for id, peer in run.peers.items() if row.fits(peer) and id not in run.not_run]
    if row.kind == START:
        often = set(entries)
        if (alone := machine.php_start_ms()) is not None:
            run.notes[row.id] = f"PHP itself takes {alone:.1f} ms here to start and to end again, with its php.ini."
        rounds_of(run, row, entries, often, source, deadline, lambda id, at: first_byte(row, run.peers[id], at))
        return
    if row.kind == LATENCY and (os.cpu_count() or 1) < 2:
        run.notes[row.id] = "Not measured: it needs a second core."
        return
    servers: Servers = {}
    stack = contextlib.ExitStack()
    try:
        if row.backend:
            stack.enter_context(backend.Backend())
        for id in entries:
            start(run, row, servers, id)
        rate = pace(run, row, servers, amounts) if row.kind == LATENCY else 0
        if rate is None:
            return
        warm_up = replace(amounts, wrk_seconds=1, ab_requests=max(100, amounts.ab_requests // 10))
        core = run.options["core"]
        rounds_of(
            run,
            row,
            list(servers),
            rivals(goals, row.id),
            source,
            deadline,
            lambda id, at: measure(row, servers[id], at, amounts if at else warm_up, core, rate),
        )
    finally:
        for server in servers.values():
            server.close()
        stack.close()


def start(run: Run, row: Row, servers: Servers, id: str) -> None:
    """Starts a peer's service for a row, and checks its responses before the measurement."""
    service = row.service(run.peers[id])
    assert service is not None, "only peers that fit are started"
    server = None
    try:
        server = Running(run.peers[id], service, row.prefix(run.options["core"]), os.cpu_count() or 1)
        run.commands[f"{id}/{service}"] = " ".join(server.command)
        run.answers.setdefault(id, {}).update(check(server, service))
        if row.pipelined:
            check_pipelining(server.port, PIPELINE)
        server.pause()
        servers[id] = server
    except CannotRun as reason:
        skip(run.not_run, f"{id}/{row.id}", reason)
        if isinstance(reason, Lacks):
            run.lacking.add(f"{id}/{row.id}")
        if server:
            server.close()


def pace(run: Run, row: Row, servers: Servers, amounts: Amounts) -> int | None:
    """Returns the rate of a latency row: half of the rate of the slower peer of PACES. Skips peers that cannot reach it."""
    reached = {}
    for id in list(servers):
        try:
            reached[id] = measure(row, servers[id], 0, amounts, run.options["core"], CLOSED_LOOP).rate
        except LoadError as reason:
            skip(run.not_run, f"{id}/{row.id}", reason)
            servers.pop(id).close()
    if SUBJECT not in reached:
        return None
    rate = round(min(reached[id] for id in PACES if id in reached) / 2)
    for id, most in reached.items():
        if most < 1.2 * rate:
            skip(run.not_run, f"{id}/{row.id}", CannotRun(f"it answers no more than {most:,.0f}/s"))
            servers.pop(id).close()
    run.notes[row.id] = f"{rate:,} requests per second to each; a latency counts from the time a request was due."
    return rate


def rounds_of(
    run: Run,
    row: Row,
    entries: list[str],
    often: set[str],
    source: random.Random,
    deadline: float,
    take: Callable[[str, int], Sample],
) -> None:
    """Measures all rounds; round 0 is a warm-up. The subject, its control and peers in `often` run in every round."""
    keys = [*entries, CONTROL] if SUBJECT in entries else entries
    always = often | {SUBJECT, CONTROL}
    for round in range(run.options["rounds"] + 1):
        if round > 1 and time.monotonic() > deadline:
            note(f"{row.id}: {round - 1} rounds of {run.options['rounds']}, its time is used up")
            break
        turn = [key for key in keys if round == 0 or round % SELDOM == 1 or key in always]
        source.shuffle(turn)
        for key in turn:
            if f"{key}/{row.id}" in run.not_run or (round == 0 and key == CONTROL):
                continue
            try:
                sample: Sample = take(SUBJECT if key == CONTROL else key, round)
            except (LoadError, CannotRun) as reason:
                skip(run.not_run, f"{key}/{row.id}", reason)
                continue
            if round > 0:
                run.samples.append(replace(sample, peer=key))
        if round > 0:
            note(f"{row.id}: round {round} of {run.options['rounds']}")


def measure_memory(run: Run, amounts: Amounts) -> None:
    """Measures the memory of each chat server while no other server runs that could share its pages."""
    page = next(row for row in ROWS if row.id == "page")
    core = run.options["core"]
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
                worker = max(process.memory([pid]).private for pid in process.leaves(server.process.pid))
        except (LoadError, CannotRun) as reason:
            skip(run.not_run, f"{id}/{MEMORY}", reason)
            continue
        run.memory.append(MemoryLine(id, idle, loaded, worker, amounts.ab_requests))


def default_folder(run: Run, quick: bool) -> Path:
    if quick:
        return BUILD / "quick"
    return BENCH / "runs" / f"{run.started:%Y-%m-%d}-{run.machine['host']}"


def exit_status(run: Run) -> int:
    """Returns 1 if the suite or the subject failed. Missed goals and missing peers are not failures."""
    # If the subject is missing, so is its control.
    absent = run.lacking | {key.replace(SUBJECT, CONTROL, 1) for key in run.lacking}
    broken = [key for key in run.not_run if key.split("/")[0] in (SUBJECT, CONTROL) and key not in absent]
    return 1 if broken or run.failed() else 0
