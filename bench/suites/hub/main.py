"""`python3 -m bench hub`: compares the cost of subscribers of `fermata hub` with other hubs, for Pusher and Mercure.

Each round starts every hub again, in random order. Clients connect and subscribe while the server's memory and processor time
are measured; then events are published to all. All figures belong to the server only, so ratios are also valid on a machine with
other load. Times and rates would not be. README.md explains the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.lib import machine, markdown, process
from bench.lib.peers import BENCH, BUILD, FERMATA, ROOT, CannotRun
from bench.lib.ready import note, skip
from bench.lib.stats import interval, ratios
from bench.suites.crowd.network import network

from . import crowd
from .servers import FLOOR, HUBS, KEY, SUBJECT, WORKERS, Hub, running

VERSION = 1
ROUNDS = 3
FEW = 100
"""Subscribers before the first measurement of memory. By then a hub has allocated its permanent memory."""
MANY = 10_000
HEARERS = 1_000
EVENTS = 200
QUICK_MANY, QUICK_HEARERS, QUICK_EVENTS = 600, 200, 20
PER_PROCESS_MAX = 15_000
"""Maximum number of clients per process, because of its descriptors and the ports of its address."""
SETTLE_SECONDS = 2.0
GOALS = (
    ("bytes", "memory per idle subscriber", "bytes", "at most 400 bytes"),
    ("connect_us", "processor time of a connection that subscribes", "us", "at most 0.2× the peer's"),
    ("publish_us", "processor time of an event to its subscribers", "us", "at most 0.2× the peer's"),
)
BYTES_MAX = 400.0
RATIO_MAX = 0.2


@dataclass(frozen=True)
class Sample:
    """Result of one hub in one round."""

    hub: str
    protocol: str
    round: int
    subscribers: int
    bytes: float
    connect_us: float
    hearers: int
    publish_us: float
    load: float
    """Load average of the machine over 1 minute, at the end of the measurement."""


@dataclass
class Run:
    started: datetime
    machine: dict[str, str]
    options: dict[str, Any]
    commands: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)

    def values(self, hub: str, protocol: str, name: str) -> dict[int, float]:
        """Returns a figure by round."""
        found = [it for it in self.samples if (it.hub, it.protocol) == (hub, protocol)]
        return {it.round: getattr(it, name) for it in found}


class Clients:
    """Client processes, over which the requested clients are distributed."""

    def __init__(self, protocol: str, port: int, count: int) -> None:
        self.count = -(-count // PER_PROCESS_MAX)
        self.heard = [0] * self.count
        self.ready = [0] * self.count
        self.last = 0.0
        command = [sys.executable, "-m", "bench.suites.hub.clients", protocol, str(port), KEY]
        self.children = [
            subprocess.Popen(
                [*command, f"127.0.0.{2 + at}"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for at in range(self.count)
        ]

    def open(self, count: int) -> None:
        share, more = divmod(count, self.count)
        self._ask("open", [share + (at < more) for at in range(self.count)])

    def hear(self, events: int) -> None:
        """Waits until every subscriber has received `events` more events."""
        self._ask("hear", [heard + events * ready for heard, ready in zip(self.heard, self.ready, strict=True)])

    def _ask(self, word: str, counts: list[int]) -> None:
        for child, count in zip(self.children, counts, strict=True):
            child.stdin.write(f"{word} {count}\n")
            child.stdin.flush()
        for at, child in enumerate(self.children):
            answer = json.loads(child.stdout.readline() or '{"error": "the clients have ended"}')
            if "error" in answer:
                raise CannotRun(answer["error"])
            self.heard[at], self.ready[at] = answer["heard"], answer["ready"]
            self.last = max(self.last, answer["last"])

    def end(self) -> None:
        for child in self.children:
            with contextlib.suppress(OSError):
                child.stdin.close()
        for child in self.children:
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


@contextlib.contextmanager
def clients_of(protocol: str, port: int, count: int) -> Iterator[Clients]:
    clients = Clients(protocol, port, count)
    try:
        yield clients
    finally:
        clients.end()


def main() -> int:
    options = parse_options()
    # Exit through the cleanup handlers on SIGTERM as well, so that servers and clients stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not FERMATA.exists():
        print(f"bench: {FERMATA} does not exist; run `make`", file=sys.stderr)
        return 2
    if options.crowd:
        return hold_crowd(options)
    run = Run(
        started=datetime.now(UTC),
        machine=machine.facts(),
        options={
            "rounds": options.rounds,
            "seed": options.seed,
            "quick": options.quick,
            "subscribers": options.clients,
            "hearers": options.hearers,
            "events": options.events,
            "workers": options.workers,
            "command": " ".join(sys.argv),
        },
    )
    try:
        measure_all(run, options)
    except KeyboardInterrupt:
        if not run.samples:
            raise
        run.not_run["the rest"] = "interrupted"
    default = BUILD / "quick" if options.quick else BENCH / "runs" / f"{run.started:%Y-%m-%d}-{run.machine['host']}"
    table, raw = write(run, options.out or default)
    print(f"\n{report(run)}")
    note(f"table: {table}\nraw:   {raw}")
    return 1 if any(key.split("/")[0] == SUBJECT for key in run.not_run) else 0


def parse_options() -> argparse.Namespace:
    others = [id for id in HUBS if id not in (SUBJECT, FLOOR)]
    parser = argparse.ArgumentParser(prog="python3 -m bench hub", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    parser.add_argument("--crowd", action="store_true", help=f"{crowd.MANY:,} clients of Echo at Fermata alone; see crowd.py")
    parser.add_argument("--build", default="", help="how FERMATA_COMMAND was built, for the report of --crowd")
    parser.add_argument("--peers", nargs="*", choices=others, default=others, help="beside Fermata; default: all")
    parser.add_argument("--protocols", nargs="+", choices=("pusher", "mercure"), default=["pusher", "mercure"])
    parser.add_argument("--clients", type=int, help=f"subscribers that are held, default {MANY:,}; 100000 take the kernel 2 GB")
    parser.add_argument("--hearers", type=int, help=f"subscribers that events are published to, default {HEARERS:,}")
    parser.add_argument("--events", type=int, help=f"events that are published to them, default {EVENTS}")
    parser.add_argument("--workers", type=int, help=f"of Fermata, default {WORKERS}; each has its descriptors")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data, default bench/runs/<date>-<host>")
    options = parser.parse_args()
    if options.crowd:
        options.clients = options.clients or (crowd.QUICK_MANY if options.quick else crowd.MANY)
        options.events = options.events or (crowd.QUICK_EVENTS if options.quick else crowd.EVENTS)
        # The kernel distributes connections by a hash of their addresses, so PER_PROCESS_MAX leaves room for uneven shares.
        options.workers = options.workers or max(WORKERS, -(-options.clients // PER_PROCESS_MAX))
    options.workers = options.workers or WORKERS
    options.clients = options.clients or (QUICK_MANY if options.quick else MANY)
    options.hearers = options.hearers or (QUICK_HEARERS if options.quick else HEARERS)
    options.events = options.events or (QUICK_EVENTS if options.quick else EVENTS)
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    if options.clients <= FEW:
        parser.error(f"--clients: more than {FEW}, of which the first are not counted")
    return options


def hold_crowd(options: argparse.Namespace) -> int:
    started, facts = datetime.now(UTC), machine.facts()
    default = BUILD / "quick" if options.quick else BENCH / "runs" / f"{started:%Y-%m-%d}-{facts['host']}"
    shown = {
        "quick": options.quick,
        "subscribers": options.clients,
        "events": options.events,
        "workers": options.workers,
        "build": options.build,
        "command": " ".join(word for word in sys.argv if word not in ("--build", options.build)),
    }
    with network(2 * options.clients) as here:
        idle_s = 1.0 if options.quick else crowd.IDLE_SECONDS
        return crowd.run(clients_of, shown, facts, started, here, options.out or default, idle_s)


def measure_all(run: Run, options: argparse.Namespace) -> None:
    source = random.Random(options.seed)
    for round in range(1, options.rounds + 1):
        for protocol in options.protocols:
            hubs = [hub for hub in HUBS.values() if protocol in hub.protocols and hub.id in (SUBJECT, FLOOR, *options.peers)]
            source.shuffle(hubs)
            for hub in hubs:
                key = f"{hub.id}/{protocol}"
                if key in run.not_run:
                    continue
                try:
                    run.samples.append(measure(run, hub, protocol, round, options))
                except (CannotRun, OSError) as reason:
                    skip(run.not_run, key, reason)
        note(f"round {round} of {options.rounds}")


def measure(run: Run, hub: Hub, protocol: str, round: int, options: argparse.Namespace) -> Sample:
    """Measures memory and connects with `clients` subscribers, then events with `hearers` subscribers, each on a new hub."""
    with running(hub, options.workers) as server, clients_of(protocol, server.port, options.clients) as clients:
        run.commands[f"{hub.id}/{protocol}"] = " ".join(server.command)
        clients.open(FEW)
        time.sleep(SETTLE_SECONDS)
        pids = server.pids()
        few_bytes, cpu_ns = process.memory(pids).private, process.cpu_ns(pids)
        clients.open(options.clients - FEW)
        connect_ns = process.cpu_ns(pids) - cpu_ns
        time.sleep(SETTLE_SECONDS)
        each = (process.memory(pids).private - few_bytes) / (options.clients - FEW)
        if server.pids() != pids:
            raise CannotRun("its processes have changed while it was measured")
    with running(hub, options.workers) as server, clients_of(protocol, server.port, options.hearers) as clients:
        clients.open(options.hearers)
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        # The first event is not measured: it includes one-time costs.
        server.publish(protocol, line)
        clients.hear(1)
        pids = server.pids()
        cpu_ns = process.cpu_ns(pids)
        # Wait until all clients have received an event before publishing the next one. Otherwise events arrive while subscribers
        # are still awake, and a hub that wakes no subscriber sends at a third of the cost.
        for _ in range(options.events):
            server.publish(protocol, line)
            clients.hear(1)
        publish_ns = process.cpu_ns(pids) - cpu_ns
        line.close()
    return Sample(
        hub.id,
        protocol,
        round,
        options.clients,
        each,
        connect_ns / (options.clients - FEW) / 1000,
        options.hearers,
        publish_ns / options.events / 1000,
        os.getloadavg()[0],
    )


def report(run: Run) -> str:
    options = run.options
    loads = [sample.load for sample in run.samples]
    lines = [
        "# Hubs: subscribers by Pusher and by Mercure",
        "",
        markdown.machine_line(run.machine),
        "",
        f"`{options['command']}`, {options['rounds']} rounds; the machine's load was "
        + (f"{min(loads):.1f} to {max(loads):.1f}." if loads else "not seen."),
        f"{options['subscribers']:,} subscribers are held; {options['events']} events are published to {options['hearers']:,}.",
        "Medians of the rounds; a ratio is ours by theirs within a round.",
    ]
    for protocol in ("pusher", "mercure"):
        hubs = [hub for hub in HUBS.values() if protocol in hub.protocols]
        names = {hub.id: hub.name for hub in hubs}
        rows = []
        for hub in hubs:
            missing = run.not_run.get(f"{hub.id}/{protocol}")
            if missing is not None:
                rows.append([hub.name, "not run: " + missing.splitlines()[0].replace("|", "\\|"), "", ""])
            elif run.values(hub.id, protocol, "bytes"):
                rows.append([hub.name, *(f"{median(run.values(hub.id, protocol, it[0]).values()):,.1f}" for it in GOALS)])
        if not rows:
            continue
        head = [protocol.capitalize(), *(f"{title} ({unit})" for _, title, unit, _ in GOALS)]
        lines += ["", f"## {protocol.capitalize()}", "", markdown.table(head, rows), ""]
        lines += [f"- {line}" for line in verdicts(run, protocol, names)]
    return "\n".join(lines) + "\n"


def verdicts(run: Run, protocol: str, names: dict[str, str]) -> list[str]:
    """Returns a sentence for each goal and peer."""
    lines = []
    for figure, title, unit, wanted in GOALS:
        ours = run.values(SUBJECT, protocol, figure)
        if not ours:
            continue
        if figure == "bytes":
            value = median(ours.values())
            lines.append(f"{title}: {value:,.0f} {unit}, {wanted}: {'reached' if value <= BYTES_MAX else 'MISSED'}")
        floor = run.values(FLOOR, protocol, figure)
        for id, name in names.items():
            theirs = run.values(id, protocol, figure)
            found = interval(ratios(ours, theirs)) if id != SUBJECT else None
            if found is None:
                continue
            between = f"({found.low:.3f} to {found.high:.3f})"
            if id == FLOOR:
                # The floor stores no state for its clients, so its memory is not comparable.
                if figure != "bytes":
                    lines.append(f"{title}: {found.median:.2f}× what its system calls take alone {between}")
                continue
            verdict = "" if figure == "bytes" else f", {wanted}: {'reached' if found.median <= RATIO_MAX else 'MISSED'}"
            lines.append(f"{title}: {found.median:.3f}× {name}'s {between}{verdict}")
            calls = interval(ratios(floor, theirs)) if figure != "bytes" else None
            if calls is not None and calls.median > RATIO_MAX:
                lines.append(f"{title}: system calls alone take {calls.median:.3f}× {name}'s, above the goal")
    return lines


def write(run: Run, folder: Path) -> tuple[Path, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    table, raw = (folder / f"hub-{run.started:%H%M%S}.{ending}" for ending in ("md", "json"))
    document = {
        "version": VERSION,
        "started": run.started.isoformat(timespec="seconds"),
        "machine": run.machine,
        "options": run.options,
        "commands": run.commands,
        "programs": {id: shutil.which(id) or "" for id in HUBS if id not in (SUBJECT, FLOOR)},
        "not_run": run.not_run,
        "samples": [asdict(sample) for sample in run.samples],
    }
    table.write_text(report(run))
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return table, raw


if __name__ == "__main__":
    sys.exit(main())
