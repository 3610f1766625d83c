"""`make soak`: connects and disconnects clients, publishes, and kills workers, for ten minutes.

Every client verifies every message. At the end each client must have received all messages of its group once and in order,
even if its worker was killed. The memory of the server must not grow.
`make soak-edge` (`--server edge`) does the same with `fermata edge` and all kinds of clients. It also stops backends and
changes routes and certificates. At the end the edge must have released all resources of its clients.
The result is written to bench/runs/<date>-<host>/. Exits with status 1 if messages were lost, resources leaked or memory grew.
"""

from __future__ import annotations

import argparse
import json
import signal
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import machine
from bench.lib.peers import CannotRun

from .clients import LoadFailed
from .edge_soak import EDGE, EDGE_QUICK, EdgeSoak
from .network import network
from .parts import Part, note
from .plot import plot
from .report import folder
from .server import CannotStart
from .soaking import QUICK, Size, Soak, Verdict


def main() -> int:
    options = parse_options()
    every = {"php": (Soak, Size(), QUICK), "edge": (EdgeSoak, EDGE, EDGE_QUICK)}
    kind, whole, quick = every[options.server]
    size = quick if options.quick else whole
    for name in ("clients", "groups", "workers", "duration_s", "churn", "kill_every_s"):
        if (value := getattr(options, name)) is not None:
            setattr(size, name, value)
    started, facts = datetime.now(UTC), machine.facts()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    soak = kind(size, options.seed)
    with network(2 * size.clients, own=not options.no_namespace) as here:
        try:
            soak.run()
        except (LoadFailed, CannotRun, CannotStart, OSError, RuntimeError, KeyboardInterrupt) as error:
            note(f"failed: {error or 'interrupted'}")
            return 1
    verdicts = soak.verdicts(options.quick)
    where = options.out or folder(started, facts, options.quick)
    text = markdown(soak, verdicts, facts, started)
    where.mkdir(parents=True, exist_ok=True)
    stem = where / f"{soak.kind}-{started:%H%M%S}"
    stem.with_suffix(".md").write_text(f"{text}\n![The course of the run]({stem.name}.svg)\n")
    stem.with_suffix(".svg").write_text(plot([Part(name, load=load) for name, load in soak.loads.items() if "series" in load]))
    raw = {"options": vars(size), "machine": facts, "network": vars(here), "kills": soak.kills, "samples": soak.samples,
           "commands": soak.commands, "load": soak.loads["streams"]} | soak.details()
    stem.with_suffix(".json").write_text(json.dumps(raw) + "\n")
    print(text)
    return 0 if all(passed for _, passed in verdicts) else 1


def markdown(soak: Soak, verdicts: list[Verdict], facts: dict[str, str], started: datetime) -> str:
    size = soak.size
    out = [
        f"# {soak.what} of {size.clients:,} clients for {size.duration_s:,.0f} s, {started:%Y-%m-%d %H:%M} UTC",
        "",
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory']}, Linux {facts['kernel']}, commit "
        f"{facts['commit']}. {soak.about()}",
        "",
        *(f"- {'passed' if passed else '**FAILED**'}: {text}" for text, passed in verdicts),
        "",
    ]
    names = ("connects", "reconnects", "churned", "disconnects", "refusals", "published", "publish_failures", "deliveries",
             "lost", "missing", "repeated", "corrupt", "misdirected", "gap_events", "not_held")
    loads = soak.loads
    out += ["| count | " + " | ".join(loads if len(loads) > 1 else [""]) + " |", "|---|" + "---:|" * len(loads)]
    for name in names:
        found = (load["counters"].get(name) for load in loads.values())
        out.append(f"| {name.replace('_', ' ')} | " + " | ".join("–" if it is None else f"{it:,}" for it in found) + " |")
    last = loads["streams"]["last_byte_us"]
    out += [
        "",
        "| figure | |",
        "|---|---:|",
        f"| last byte p50 | {last['p50'] / 1000:,.1f} ms |",
        f"| last byte p99, replays after kills included | {last['p99'] / 1000:,.1f} ms |",
        f"| server's memory (PSS) at the end | {soak.samples[-1]['pss'] / 1e6:,.0f} MB |",
        "",
        "```sh",
        *soak.commands,
        "```",
        "",
    ]
    return "\n".join(out)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    servers = ("php", "edge")
    parser.add_argument("--server", choices=servers, default="php", help="php: server.php; edge: the edge before it and PHP-FPM")
    parser.add_argument("--quick", action="store_true", help="a few seconds and hundreds of clients, for CI")
    parser.add_argument("--clients", type=int, help="default 200,000, edge 20,000")
    parser.add_argument("--groups", type=int, help="default 200")
    parser.add_argument("--workers", type=int, help="default 14, edge 4")
    parser.add_argument("--duration-s", type=float, help="default 600")
    parser.add_argument("--churn", type=float, help="clients per second that leave and come back, default 2,000, edge 200")
    parser.add_argument("--kill-every-s", type=float, help="default 30")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of workers")
    parser.add_argument("--no-namespace", action="store_true", help="use the machine's own network and settings")
    parser.add_argument("--out", type=Path, help="folder for the results, default bench/runs/<date>-<host>")
    return parser.parse_args()
