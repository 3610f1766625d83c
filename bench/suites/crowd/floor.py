"""`python3 -m bench floor`: compares Fermata's cost of held clients with the cost of the system calls only (the floor).

The server `load/floor.c` accepts connections, responds and sends with system calls and no other work, with one `send` or one
`writev` per connection. Each round starts every server again in random order, connects the same clients with
`fermata load hold`, and publishes to all of them. Ratios compare values of the same round: 1.0 equals the floor, and 0.9
is a ninth above it. The results are printed and written to bench/runs/<date>-<host>/.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.lib import compiled, machine, process, stats
from bench.lib.peers import BUILD, CannotRun

from .network import network
from .parts import Aborted, Part, Size, Stage, faults, note, server_for
from .report import folder
from .server import CannotStart, Server

ROWS = ("fermata", "floor send", "floor writev")
VERSION = 1
"""Version of the raw file's format. It is raised when the meaning of a field changes."""
FIGURES = {
    "connect_us": ("processor of the server per client that connects and is held, µs", 0.8),
    "connect_wall_us": ("time per client while all connect, both ends on the machine, µs", 0.8),
    "delivery_us": ("processor of the server per delivery of one message, µs", 0.9),
    "last_byte_ms": ("one message to all: last byte, median of the round, ms", 0.9),
}
"""Description of each compared figure, and the goal for its ratio floor ÷ Fermata."""


class Floor(Server):
    """`load/floor.c` in place of `server.php`."""

    def __init__(self, workers: int, kind: str) -> None:
        port = process.free_port()
        self._launch(workers, port, [str(BUILD / "floor"), str(port), str(workers), kind], {})


def measure(row: str, size: Size) -> Part:
    """Connects clients, lets them rest, and publishes messages to them."""
    part = Part(row)
    clients, workers = size.broadcast_clients, size.workers_for(size.broadcast_clients)
    server = server_for(size, clients, 1) if row == "fermata" else Floor(workers, row.removeprefix("floor "))
    stage = Stage(part, size, server, clients, 1)
    try:
        # The floor server has only one group.
        stage.warm_up(groups=1)
        before = process.cpu_ns(stage.pids)

        def on_step(name: str) -> None:
            if name == "rest":
                part.figures["connect_us"] = (process.cpu_ns(stage.pids) - before) / 1000 / clients

        steps = stage.run(
            [f"rest={size.rest_s}s", f"broadcast={size.broadcast_s}s,all={size.broadcast_rate}"], {}, on_step
        )
    finally:
        stage.close()
    broadcast = steps["broadcast"]
    deliveries = broadcast["counters"]["deliveries"]
    part.figures["connect_wall_us"] = part.load["connected_s"] * 1e6 / clients
    part.figures["delivery_us"] = stage.costs["broadcast"].cpu_s * 1e6 / max(deliveries, 1)
    part.figures["last_byte_ms"] = broadcast["last_byte_us"]["p50"] / 1000
    part.figures["lost"] = faults(part.load)
    return part


def markdown(rounds: list[dict[str, Part]], facts: dict[str, str], clients: int, started: datetime) -> str:
    """Returns a table of the figures of each row, with the ratio floor ÷ Fermata."""
    out = [
        f"# The floor of {clients:,} held clients, {started:%Y-%m-%d %H:%M} UTC",
        "",
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory']}, {facts['system']}, Linux {facts['kernel']}, "
        f"commit {facts['commit']}. Servers and clients share the machine.",
        f"Load average at the start: {facts['load average']}. {len(rounds)} rounds; medians, and ratios within a round.",
        "",
        "| figure | " + " | ".join(ROWS) + " | floor ÷ Fermata: send | writev | goal |",
        "|---|" + "---:|" * (len(ROWS) + 3),
    ]
    for name, (about, goal) in FIGURES.items():
        values = {row: {at: one[row].figures[name] for at, one in enumerate(rounds) if row in one} for row in ROWS}
        cells = [f"{median(values[row].values()):.2f}" if values[row] else "failed" for row in ROWS]
        for row in ROWS[1:]:
            share = stats.interval(stats.ratios(values[row], values["fermata"]))
            cells.append(f"{share.median:.2f} ({share.low:.2f}-{share.high:.2f})" if share else "-")
        out.append(f"| {about} | " + " | ".join(cells) + f" | ≥ {goal} |")
    return "\n".join(out) + "\n"


def main() -> int:
    options = parse_options()
    size = Size(broadcast_clients=options.clients, rest_s=3, broadcast_s=10, broadcast_rate=2)
    if options.quick:
        size = Size(broadcast_clients=1_000, workers=2, rest_s=0.5, broadcast_s=1, broadcast_rate=4, interval_s=0.1)
    rounds_wanted = 1 if options.quick else options.rounds
    try:
        compiled.build("floor")
    except CannotRun as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    started = datetime.now(UTC)
    facts = machine.facts()
    order = random.Random(options.seed)
    rounds: list[dict[str, Part]] = []
    failures: list[str] = []
    with network(2 * size.broadcast_clients, own=not options.no_namespace):
        for number in range(rounds_wanted):
            rounds.append({})
            for row in order.sample(ROWS, len(ROWS)):
                note(f"round {number + 1} of {rounds_wanted}: {row}")
                try:
                    part = measure(row, size)
                except (Aborted, CannotRun, CannotStart, OSError, RuntimeError, KeyError, subprocess.CalledProcessError) as error:
                    failures.append(f"{row}: {error}")
                    note(f"failed: {failures[-1]}")
                    continue
                rounds[-1][row] = part
                if part.figures["lost"]:
                    failures.append(f"{row}: {part.figures['lost']:.0f} messages lost, repeated or wrong")
    text = markdown(rounds, facts, size.broadcast_clients, started)
    raw: dict[str, Any] = {
        "version": VERSION,
        "started": started.isoformat(),
        "machine": facts,
        "options": vars(size) | {"command": " ".join(sys.argv), "failures": failures},
        "rounds": [{row: vars(part) for row, part in one.items()} for one in rounds],
    }
    where = options.out or folder(started, facts, options.quick)
    where.mkdir(parents=True, exist_ok=True)
    stem = where / f"floor-{started:%H%M%S}"
    stem.with_suffix(".json").write_text(json.dumps(raw, indent=1, default=str) + "\n")
    stem.with_suffix(".md").write_text(text)
    print(text)
    note(f"table: {stem.with_suffix('.md')}")
    for failure in failures:
        note(f"failed: {failure}")
    return 1 if failures else 0


def parse_options() -> argparse.Namespace:
    def positive(text: str) -> int:
        if (number := int(text)) < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return number

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="seconds and 1,000 clients: its figures mean nothing")
    parser.add_argument("--clients", type=positive, default=100_000, help="default 100,000")
    parser.add_argument("--rounds", type=positive, default=5, help="default 5")
    parser.add_argument("--seed", type=int, default=1, help="of the order within a round, default 1")
    parser.add_argument("--no-namespace", action="store_true", help="use the machine's own network and settings")
    parser.add_argument("--out", type=Path, help="folder for the results, default bench/runs/<date>-<host>")
    return parser.parse_args()
