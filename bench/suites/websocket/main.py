"""`make bench-websocket`: compares Fermata with its peers for the three tables of seed 003, in one interleaved run on one core.

Peers that are not in this repository are searched in the folder given by --peers-in (or FERMATA_BENCH_PEERS). A missing peer
is reported as not run. README.md explains the figures.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import machine
from bench.lib.load import LoadError
from bench.lib.peers import BENCH, BUILD, ELSEWHERE, EXTENSION, FERMATA, SUBJECT, CannotRun, Running
from bench.suites.tables.rows import pinned
from bench.suites.tables.summary import CONTROL

from . import clients, idle, peers, protocol, rows
from .report import BEHIND, IDLE, Run, load_goals, markdown, write
from .rows import ROWS, Entry, Row

ROUNDS = 6
SECONDS = 0.4
MINUTES = 11.0
QUICK_ROUNDS = 1
QUICK_SECONDS = 0.05
SECURE_CLIENTS_MAX = 2_000
"""Maximum number of idle connections over wss. Their handshakes are slow."""
FEW = 20
"""Divisor of the number of connections for the first measurement of idle memory."""

Servers = dict[tuple[str, str], Running]


def main() -> int:
    options = parse_options()
    # Exit through the cleanup handlers on SIGTERM as well, so that servers and clients stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    known = peers.load_all(options.peers_in)
    chosen = {id: known[id] for id in options.peers or known}
    libraries = protocol.libraries(options.peers_in)
    wanted = options.rows or all_rows()
    rounds = options.rounds or (QUICK_ROUNDS if options.quick else ROUNDS)
    seconds = options.seconds or (QUICK_SECONDS if options.quick else SECONDS)
    for needed, fix in ((FERMATA, "run make"), (EXTENSION, "run make")):
        if not needed.is_file():
            print(f"bench: {needed} does not exist; {fix}", file=sys.stderr)
            return 2
    for tool in ("taskset", "openssl"):
        if shutil.which(tool) is None:
            print(f"bench: {tool} is missing (Debian: util-linux, openssl)", file=sys.stderr)
            return 2
    run = Run(
        started=datetime.now(UTC),
        machine=machine.facts(),
        options={
            "core": options.core,
            "rounds": rounds,
            "seconds": seconds,
            "seed": options.seed,
            "quick": options.quick,
            "rows": wanted,
            "command": " ".join(sys.argv),
        },
        peers=chosen,
        libraries={id: library for id, library in libraries.items() if id in chosen},
    )
    began = time.monotonic()
    deadlines = share_time(run, began, options.minutes)
    peers.environment(options.peers_in)
    peers.make_certificate()
    prepare(run)
    source = random.Random(options.seed)
    measure_protocol(run, source)
    servers: Servers = {}
    try:
        for row in ROWS:
            if row.id in wanted:
                measure_row(run, row, servers, source, deadlines[row.id])
        measure_clients(run, servers, source)
    finally:
        for server in servers.values():
            server.close()
    if IDLE in wanted:
        measure_idle(run)

    goals = load_goals()
    folder = options.out or (BUILD / "quick" if options.quick else default_folder(run))
    table, raw = write(run, goals, folder)
    print(f"\n{markdown(run, goals)}")
    note(f"table: {table}\nraw:   {raw}\ntook {time.monotonic() - began:.0f} s")
    return 1 if any(key.split("/")[0] in (SUBJECT, CONTROL) for key in run.not_run) else 0


def all_rows() -> list[str]:
    found = [row.id for row in (*protocol.CODEC_ROWS, *ROWS, *clients.CLIENT_ROWS)]
    return [*found, IDLE]


def parse_options() -> argparse.Namespace:
    def positive(text: str) -> int:
        if (number := int(text)) < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return number

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    parser.add_argument("--rows", nargs="+", choices=all_rows(), help="default: all")
    parser.add_argument("--peers", nargs="+", choices=list(peers.load_all(ELSEWHERE)), help="default: all")
    parser.add_argument(
        "--peers-in", type=Path, default=ELSEWHERE, help=f"folder of peers built elsewhere, default {ELSEWHERE}"
    )
    parser.add_argument("--rounds", type=positive, help=f"default {ROUNDS}")
    parser.add_argument("--seconds", type=float, help=f"of one measurement, default {SECONDS}")
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        help=f"a row makes fewer rounds when its share of this time is used up, default {MINUTES:.0f}",
    )
    parser.add_argument("--core", type=int, default=0, help="that server and client share, default 0")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data, default bench/runs/<date>-<host>")
    options = parser.parse_args()
    options.peers_in = options.peers_in.resolve()
    return options


def prepare(run: Run) -> None:
    """Checks the requirements of every peer. Records and skips peers that lack one."""
    for id, peer in {**run.peers, **peers.TERMINATORS}.items():
        note(f"preparing {peer.name}")
        try:
            run.versions[id] = peer.prepare()
        except CannotRun as reason:
            skip(run, id, reason)
    for id, library in run.libraries.items():
        try:
            library.check()
        except CannotRun as reason:
            run.not_run.setdefault(id, str(reason))


def measure_protocol(run: Run, source: random.Random) -> None:
    chosen = [row for row in protocol.CODEC_ROWS if row.id in run.options["rows"]]
    for row in chosen:
        run.nanoseconds[row.id] = {id: {} for id in run.libraries if id not in run.not_run}
    for round in range(1, run.options["rounds"] + 1):
        for row in chosen:
            for id in shuffled(run.nanoseconds[row.id], source):
                if f"{id}/{row.id}" in run.not_run:
                    continue
                library = run.libraries[id]
                try:
                    ns = protocol.measure(library, row, run.options["quick"], run.options["core"])
                    run.nanoseconds[row.id][id][round] = ns
                except LoadError as reason:
                    skip(run, f"{id}/{row.id}", reason)
        if chosen:
            note(f"protocol: round {round} of {run.options['rounds']}")
    for row in chosen:
        run.nanoseconds[row.id] = {id: rounds for id, rounds in run.nanoseconds[row.id].items() if rounds}


def start(run: Run, servers: Servers, id: str, service: str) -> Running:
    """Returns the running service, and starts it if necessary. Raises CannotRun."""
    if (id, service) not in servers:
        if reason := run.not_run.get(id) or run.not_run.get(f"{id}/{service}"):
            raise CannotRun(reason)
        try:
            servers[id, service] = Running(run.peers[id], service, pinned(run.options["core"]))
        except CannotRun as reason:
            run.not_run[f"{id}/{service}"] = str(reason)
            raise
    return servers[id, service]


def measure_row(run: Run, row: Row, servers: Servers, source: random.Random, deadline: float) -> None:
    entries: dict[str, Entry] = {}
    try:
        for front in row.fronts:
            for id, peer in run.peers.items():
                key = f"{id}{BEHIND}{front}" if front else id
                if not rows.fits(row, peer, front):
                    continue
                try:
                    if front in run.not_run:
                        raise CannotRun(run.not_run[front])
                    if row.clients > min(peer.clients_max, peers.TERMINATORS[front].clients_max if front else row.clients):
                        raise CannotRun(f"it takes no {row.clients} clients")
                    server = start(run, servers, id, row.service(front))
                    entries[key] = Entry(row, server, front, run.options["core"])
                except CannotRun as reason:
                    skip(run, f"{key}/{row.id}", reason)
        measure_rounds(run, row, entries, source, deadline)
    finally:
        for entry in entries.values():
            entry.close()


def measure_rounds(run: Run, row: Row, entries: dict[str, Entry], source: random.Random, deadline: float) -> None:
    """Measures all rounds. Round 0 is a warm-up, which also verifies every server."""
    if SUBJECT in entries:
        entries = {**entries, CONTROL: entries[SUBJECT]}
    for round in range(run.options["rounds"] + 1):
        if round > 1 and time.monotonic() > deadline:
            note(f"{row.id}: {round - 1} rounds of {run.options['rounds']}, its time is used up")
            break
        for key in shuffled(entries, source):
            if f"{key}/{row.id}" in run.not_run or (round == 0 and key == CONTROL):
                continue
            try:
                sample = rows.measure(row, key, entries[key], round, run.options["seconds"], run.options["core"])
            except LoadError as reason:
                skip(run, f"{key}/{row.id}", reason)
                continue
            if round > 0:
                run.samples.append(sample)
        note(f"{row.id}: " + (f"round {round} of {run.options['rounds']}" if round else "verified"))
    # Discard all figures of an entry that failed once: a median of its successful rounds would be too good.
    failed = {key for key in entries if f"{key}/{row.id}" in run.not_run}
    run.samples = [sample for sample in run.samples if sample.row != row.id or sample.entry not in failed]


def measure_clients(run: Run, servers: Servers, source: random.Random) -> None:
    count = clients.COUNT // 50 if run.options["quick"] else clients.COUNT
    for row in clients.CLIENT_ROWS:
        if row.id not in run.options["rows"]:
            continue
        port = 0
        for id in ("ext-websocket", SUBJECT):
            try:
                port = start(run, servers, id, row.mode).port
            except (CannotRun, KeyError):
                continue
            run.options["client_server"] = run.peers[id].name
            break
        if port == 0:
            for client in clients.CLIENTS:
                run.not_run[f"{client.id}/{row.id}"] = "no server is there"
            continue
        for round in range(run.options["rounds"] + 1):
            for id in shuffled({client.id: client for client in clients.CLIENTS}, source):
                client = next(client for client in clients.CLIENTS if client.id == id)
                if f"{id}/{row.id}" in run.not_run:
                    continue
                try:
                    amount = count if round else max(1, count // 10)
                    sample = clients.measure(client, row, round, port, amount, run.options["core"])
                except LoadError as reason:
                    skip(run, f"{id}/{row.id}", reason)
                    continue
                if round > 0:
                    run.clients.append(sample)
        note(f"{row.id}: done")


def measure_idle(run: Run) -> None:
    for id, peer in run.peers.items():
        for service in ("echo", "echo" + peers.TLS):
            if service not in peer.services or id in run.not_run:
                continue
            many = peer.clients_max if service == "echo" else min(peer.clients_max, SECURE_CLIENTS_MAX)
            if run.options["quick"]:
                many = 100
            try:
                run.idle.append(idle.measure(peer, service, max(1, many // FEW), many, run.options["core"]))
            except (CannotRun, LoadError) as reason:
                skip(run, f"{id}/{IDLE}{service.removeprefix('echo')}", reason)
        note(f"{IDLE}: {peer.name}")


def share_time(run: Run, began: float, minutes: float) -> dict[str, float]:
    """Returns the deadline for the start of each row's last round. Time is divided by the number of entries."""
    weights = {row.id: len(row.fronts) for row in ROWS if row.id in run.options["rows"]}
    # Protocol rows, clients and idle connections together take about as long as this many rows.
    others = 3 if IDLE in run.options["rows"] else 1
    step = minutes * 60 / (sum(weights.values()) + others)
    found, end = {}, began + step
    for id, weight in weights.items():
        end += step * weight
        found[id] = end
    return found


def shuffled(entries: dict[str, object], source: random.Random) -> list[str]:
    order = list(entries)
    source.shuffle(order)
    return order


def default_folder(run: Run) -> Path:
    return BENCH / "runs" / f"{run.started:%Y-%m-%d}-{run.machine['host']}"


def skip(run: Run, key: str, reason: Exception) -> None:
    run.not_run[key] = str(reason)
    note(f"not run: {key}: {reason}")


def note(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)
