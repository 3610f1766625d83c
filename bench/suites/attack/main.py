"""`make attack`: measures how hostile clients, a full disk and too few descriptors affect a server and its other clients.

The parts: a thousand clients with slow headers, slow bodies and slow reading; more clients than descriptors; uploads and
logs on a full disk; resets at every byte; HTTP/2 floods; memory of the workers over a million requests. The result is
written to bench/runs/<date>-<host>/. Exits with status 1 if a check fails.
"""

from __future__ import annotations

import argparse
import json
import resource
import signal
import subprocess
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import machine
from bench.suites.crowd.clients import LoadFailed
from bench.suites.crowd.network import network
from bench.suites.crowd.parts import note
from bench.suites.crowd.report import folder
from bench.suites.crowd.server import CannotStart

from .parts import PARTS, QUICK, Part, Size
from .report import markdown, passed

CONNECTIONS = 60_000
"""Maximum number of simultaneously open connections, both ends counted."""


def main() -> int:
    options = parse_options()
    size = QUICK if options.quick else Size()
    for name in ("clients", "attack_s", "slices", "slice_requests"):
        if (value := getattr(options, name)) is not None:
            setattr(size, name, value)
    started, facts = datetime.now(UTC), machine.facts()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    size.descriptors = min(size.descriptors, hard)
    parts = []
    with network(CONNECTIONS, own=not options.no_namespace):
        for name in options.parts:
            note(name)
            try:
                parts.append(PARTS[name](size, options.quick))
            except (LoadFailed, CannotStart, OSError, subprocess.SubprocessError) as error:
                failed = Part(name)
                failed.check(f"it ran to its end: {error}", False)
                parts.append(failed)
            except KeyboardInterrupt:
                note("interrupted")
                break
    text = markdown(parts, size, facts, started, options.quick)
    where = options.out or folder(started, facts, options.quick)
    where.mkdir(parents=True, exist_ok=True)
    stem = where / f"attack-{started:%H%M%S}"
    stem.with_suffix(".md").write_text(text)
    raw = {"options": asdict(size), "machine": facts, "parts": [asdict(part) for part in parts]}
    stem.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    print(text)
    return 0 if passed(parts, len(options.parts)) else 1


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds and dozens of clients, for CI")
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS), metavar="PART",
                        help=f"default all: {', '.join(PARTS)}")
    parser.add_argument("--clients", type=int, help="slow ones, default 1,000")
    parser.add_argument("--attack-s", type=float, help="of each slow attack, default 30")
    parser.add_argument("--slices", type=int, help="of the requests of part memory, default 20")
    parser.add_argument("--slice-requests", type=int, help="of each of its two kinds, default 25,000")
    parser.add_argument("--no-namespace", action="store_true", help="use the machine's own network and settings")
    parser.add_argument("--out", type=Path, help="folder for the results, default bench/runs/<date>-<host>")
    return parser.parse_args()
