"""`python3 -m bench http2`: compares small JSON over HTTP/2 and TLS, handshakes, and held streams with other servers.

Server and client are pinned to one core. Each round measures every row on every server in random order, and ratios compare
values of the same round. README.md explains the figures.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.lib import machine, markdown
from bench.lib.peers import BENCH, BUILD, EXTENSION, SUBJECT, CannotRun, Peer, Running, load_all
from bench.lib.ready import note, skip
from bench.lib.stats import interval, ratios

from . import held, rows
from .goals import judged
from .held import BROADCAST, MEMORY, HeldSample
from .rows import CORE, ROWS, LoadError, Sample

ROUNDS = 7
MEMORY_ROUNDS = 2
"""Number of rounds that measure memory. Few suffice, because it hardly varies."""
SECONDS = 3.0
QUICK_SECONDS = 0.2
HELD = "held streams"
"""Key in `not_run` for all rows of held streams."""
VERSION = 2


@dataclass
class Run:
    """All results of a run."""

    started: datetime
    machine: dict[str, str]
    options: dict[str, Any]
    peers: dict[str, Peer]
    versions: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    held: list[HeldSample] = field(default_factory=list)

    def values(self, row: str, peer: str, name: str) -> dict[int, float]:
        """Returns a figure by round."""
        if row in MEMORY or row in BROADCAST:
            return {sample.round: sample.value for sample in self.held if (sample.row, sample.peer) == (row, peer)}
        found = [sample for sample in self.samples if (sample.row, sample.peer) == (row, peer)]
        return {sample.round: getattr(sample, name) for sample in found}


def main() -> int:
    options = parse_options()
    # Exit through the cleanup handlers on SIGTERM as well, so that servers and clients stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if not EXTENSION.is_file():
        print(f"bench: {EXTENSION} does not exist; run make", file=sys.stderr)
        return 2
    for tool, package in (("taskset", "util-linux"), ("openssl", "openssl"), ("h2load", "nghttp2-client")):
        if shutil.which(tool) is None:
            print(f"bench: {tool} is missing (Debian: {package})", file=sys.stderr)
            return 2
    found = load_all(("h2", "h2held"))
    run = Run(
        started=datetime.now(UTC),
        machine=machine.facts(),
        options={
            "rounds": options.rounds or (1 if options.quick else ROUNDS),
            "seconds": QUICK_SECONDS if options.quick else options.seconds,
            "seed": options.seed,
            "quick": options.quick,
            "rows": options.rows,
            "command": " ".join(sys.argv),
        },
        peers={id: peer for id, peer in found.items() if id in options.peers},
    )
    make_certificate()
    if any(row in MEMORY or row in BROADCAST for row in options.rows):
        try:
            held.build()
        except CannotRun as reason:
            skip(run.not_run, HELD, reason)
    for id, peer in run.peers.items():
        try:
            run.versions[id] = peer.prepare()
        except CannotRun as reason:
            skip(run.not_run, id, reason)
    try:
        measure_all(run)
    except KeyboardInterrupt:
        if not run.samples and not run.held:
            raise
        run.not_run["the rest"] = "interrupted"

    default = BUILD / "quick" if options.quick else BENCH / "runs" / f"{run.started:%Y-%m-%d}-{run.machine['host']}"
    text = report(run)
    shown, raw = write(run, text, options.out or default)
    print(f"\n{text}")
    note(f"table: {shown}\nraw:   {raw}")
    return 1 if any(key.split("/")[0] == SUBJECT for key in run.not_run) else 0


def parse_options() -> argparse.Namespace:
    peers = list(load_all(("h2", "h2held")))
    every = [*ROWS, *MEMORY, *BROADCAST]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    parser.add_argument("--rows", nargs="+", choices=every, default=every)
    parser.add_argument("--peers", nargs="+", choices=peers, default=peers, help="default: all")
    parser.add_argument("--rounds", type=int, help=f"default {ROUNDS}")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"per measurement, default {SECONDS:g}")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data, default bench/runs/<date>-<host>")
    return parser.parse_args()


def make_certificate() -> None:
    """Creates the certificate of all servers, with the common curve P-256."""
    folder = BUILD / "http2"
    folder.mkdir(parents=True, exist_ok=True)
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=localhost"
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "certificate.pem"]
    subprocess.run([*command.split(), *names], cwd=folder, check=True, capture_output=True, timeout=30)
    # Avoid Fermata's warning about a key that other users can read.
    (folder / "key.pem").chmod(0o600)


def measure_all(run: Run) -> None:
    source = random.Random(run.options["seed"])
    for round in range(1, run.options["rounds"] + 1):
        order = [id for id, peer in run.peers.items() if id not in run.not_run and "h2" in peer.services]
        source.shuffle(order)
        for id in order:
            try:
                with Running(run.peers[id], "h2", ["taskset", "-c", str(CORE)]) as running:
                    run.commands[id] = " ".join(running.command)
                    measure_one(run, id, running, round)
            except CannotRun as reason:
                skip(run.not_run, id, reason)
        measure_held(run, round, source)
        note(f"round {round} of {run.options['rounds']}")


def measure_one(run: Run, id: str, running: Running, round: int) -> None:
    for row in run.options["rows"]:
        if row not in ROWS or f"{id}/{row}" in run.not_run:
            continue
        try:
            run.samples.append(rows.measure(row, running, id, round, run.options["seconds"]))
        except (LoadError, CannotRun) as reason:
            skip(run.not_run, f"{id}/{row}", reason)


def measure_held(run: Run, round: int, source: random.Random) -> None:
    """Measures each row on a new server. In a running server, connections could reuse memory freed by an earlier row."""
    if HELD in run.not_run:
        return
    asked = [row for row in run.options["rows"] if row in BROADCAST or (row in MEMORY and round <= MEMORY_ROUNDS)]
    source.shuffle(asked)
    for row in asked:
        id = (MEMORY | BROADCAST)[row].peer
        if id not in run.peers or id in run.not_run or f"{id}/{row}" in run.not_run:
            continue
        measure = held.measure_memory if row in MEMORY else held.measure_broadcast
        try:
            with Running(run.peers[id], "h2held", ["taskset", "-c", str(CORE)]) as running:
                run.held.append(measure(row, running, round, run.options["quick"]))
        except CannotRun as reason:
            skip(run.not_run, f"{id}/{row}", reason)


def report(run: Run) -> str:
    lines = ["# HTTP/2 and TLS", "", markdown.machine_line(run.machine), ""]
    if run.options["quick"]:
        lines += [markdown.QUICK, ""]
    if warned := markdown.warning(run.samples):
        lines += [warned, ""]
    for row in (row for row in ROWS if row in run.options["rows"]):
        lines += [f"## {ROWS[row].title}", "", table(run, row), ""]
    if run.held:
        lines += ["## Held streams", "", held_table(run, MEMORY, "private memory of the server for each, bytes", 1), ""]
        lines += [held_table(run, BROADCAST, "CPU of the server for each delivery of an event, µs", 1000), ""]
    lines += ["## Goals", "", *judged(run.values, list(run.peers)), ""]
    for key, reason in run.not_run.items():
        lines += [f"Not run: {key}: {reason}", ""]
    lines += [f"`{run.options['command']}`, {run.options['rounds']} rounds. `h2load` and server on one core."]
    return "\n".join(lines) + "\n"


def table(run: Run, row: str) -> str:
    shown = []
    for id, peer in run.peers.items():
        rates, costs = run.values(row, id, "rate"), run.values(row, id, "cpu_ns")
        if not rates:
            continue
        ours = run.values(row, SUBJECT, "rate"), run.values(row, SUBJECT, "cpu_ns")
        ratio = ["", ""] if id == SUBJECT else [_ratio(ours[0], rates), _ratio(ours[1], costs)]
        shown.append([peer.name, f"{median(rates.values()):,.0f}", f"{median(costs.values()) / 1000:,.1f}", *ratio])
    head = [ROWS[row].unit, "per second", "server's CPU, us", "Fermata's rate ÷", "Fermata's CPU ÷"]
    return markdown.table(head, shown)


def held_table(run: Run, kinds: dict[str, held.Held], unit: str, divisor: float) -> str:
    found = {row: run.values(row, kind.peer, "") for row, kind in kinds.items()}
    shown = [[kinds[row].title, f"{median(values.values()) / divisor:,.2f}"] for row, values in found.items() if values]
    return markdown.table(["", unit], shown)


def _ratio(ours: dict[int, float], theirs: dict[int, float]) -> str:
    found = ratios(ours, theirs)
    if not found:
        return "–"
    between = interval(found)
    text = f"{median(found):.2f}"
    return text if between is None else f"{text} [{between.low:.2f}, {between.high:.2f}]"


def write(run: Run, text: str, folder: Path) -> tuple[Path, Path]:
    """Writes the table and the raw data, and returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = folder / f"http2-{run.started:%H%M%S}.md"
    raw = folder / f"http2-{run.started:%H%M%S}.json"
    shown.write_text(text)
    document = {
        "version": VERSION,
        "started": run.started.isoformat(),
        "machine": run.machine,
        "options": run.options,
        "peers": {
            id: {
                "name": peer.name,
                "about": peer.about,
                "version": run.versions.get(id),
                "command": run.commands.get(id),
            }
            for id, peer in run.peers.items()
        },
        "not_run": run.not_run,
        "samples": [asdict(sample) for sample in run.samples],
        "held": [asdict(sample) for sample in run.held],
    }
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return shown, raw


if __name__ == "__main__":
    sys.exit(main())
