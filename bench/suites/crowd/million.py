"""`make bench-million`: measures a million clients held by one server, with both ends on this machine.

It starts a server and as many client processes as the descriptor limit requires. It connects the clients, lets them rest,
and publishes to groups and to all. Further parts have one channel of 100,000 clients, and clients with keep-alives.
With `--server edge` the server is `fermata edge`, and PHP-FPM behind it responds to every client.
The results are printed with their goals and written to bench/runs/<date>-<host>/.
"""

from __future__ import annotations

import argparse
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import machine
from bench.lib.peers import CannotRun

from .edge import hold_through_edge
from .network import network
from .parts import Aborted, Part, Size, broadcast, hold_a_crowd, keep_alive, note
from .report import folder, markdown, write

QUICK = Size(
    clients=2_000, groups=20, workers=4, rest_s=0.5, idle_s=1, publish_s=1, publish_rate=20, all_s=1, all_rate=2,
    sustained_s=1, sustained_rate=50, broadcast_clients=1_000, broadcast_s=1, broadcast_rate=4, keep_alive_s=2,
    interval_s=0.1,
)
PARTS = {"crowd": hold_a_crowd, "broadcast": broadcast, "keep-alive": keep_alive}
EDGE_PARTS = {"edge": hold_through_edge}
EDGE_SECONDS_MAX = 660.0
"""Time limit of the run through the edge. PHP responds to every client, so connecting takes longer."""


def main() -> int:
    options = parse_options()
    size = QUICK if options.quick else Size()
    kind, every = ("crowd-edge", EDGE_PARTS) if options.server == "edge" else ("million", PARTS)
    names = options.parts or list(every)
    if unknown := set(names) - set(every):
        print(f"bench: --server {options.server} has no part {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    if options.server == "edge":
        size.part_s_max = EDGE_SECONDS_MAX
    for name in ("clients", "groups", "workers", "broadcast_clients", "keep_alive_s"):
        if (value := getattr(options, name)) is not None:
            setattr(size, name, value)
    size.part_s_max = options.part_seconds_max or size.part_s_max
    if options.memory_min is not None:
        size.memory_min = options.memory_min << 20
    size.groups = min(size.groups, size.clients)

    started = datetime.now(UTC)
    facts = machine.facts()
    parts: list[Part] = []
    failures: list[str] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with network(2 * size.clients, own=not options.no_namespace) as here:
        note("in a network namespace of its own" if here.is_own else "in the machine's own network")
        for name in names:
            note(f"part {name}")
            # Add the part before it runs, so that the report includes the figures of a failed part.
            parts.append(Part(name))
            try:
                every[name](parts[-1], size)
            except (Aborted, CannotRun, OSError, RuntimeError, KeyError) as error:
                failures.append(f"{name}: {error}")
                note(f"failed: {failures[-1]}")
            except KeyboardInterrupt:
                failures.append(f"{name}: interrupted")
                break
    shown = vars(size) | {"command": " ".join(sys.argv), "parts": names, "failures": failures}
    table = write(kind, parts, facts, here, started, shown, options.out or folder(started, facts, options.quick))
    print(markdown(parts, facts, here, started, shown, kind))
    note(f"table: {table}")
    for failure in failures:
        note(f"failed: {failure}")
    lost = sum(value for part in parts for name, value in part.figures.items() if name.endswith("lost"))
    if lost:
        note("failed: verification; see the figures above")
    return 1 if failures or lost else 0


def parse_options() -> argparse.Namespace:
    def positive(text: str) -> int:
        if (number := int(text)) < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return number

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="seconds and 2,000 clients: its figures mean nothing")
    parser.add_argument("--clients", type=positive, help="default 1,000,000")
    parser.add_argument("--groups", type=positive, help="default 1,000")
    parser.add_argument("--workers", type=positive, help="default: clients / 18,600")
    parser.add_argument("--broadcast-clients", type=positive, help="of the one channel, default 100,000")
    parser.add_argument("--keep-alive-s", type=positive, help="default 55")
    servers = ("php", "edge")
    parser.add_argument("--server", choices=servers, default="php", help="php: server.php; edge: with PHP-FPM behind it")
    parser.add_argument("--parts", nargs="+", choices=[*PARTS, *EDGE_PARTS], help="default: all of the server's")
    parser.add_argument("--part-seconds-max", type=positive, help="end a part that takes longer, default 300, edge 660")
    parser.add_argument("--memory-min", type=positive, metavar="MIB", help="end when less is left, default 2048")
    parser.add_argument("--no-namespace", action="store_true", help="use the machine's own network and settings")
    parser.add_argument("--out", type=Path, help="folder for the results, default bench/runs/<date>-<host>")
    return parser.parse_args()
