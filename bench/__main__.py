"""Runs one benchmark suite: `python3 -m bench SUITE`. `python3 -m bench SUITE --help` lists the suite's options."""

from __future__ import annotations

import importlib
import sys

TABLES = ("chat", "files", "json")
"""Rows of the suite `tables`, which compares servers. Each of these names runs that suite with the name as its argument."""
SUITES = {
    "attack": "bench.suites.attack.main",
    "chaos": "bench.suites.crowd.chaos",
    "cluster": "bench.suites.cluster.main",
    "codec": "bench.suites.codec.main",
    "counts": "bench.suites.counts.main",
    "drivers": "bench.suites.drivers.main",
    "edge": "bench.suites.edge.main",
    "fibers": "bench.suites.fibers.main",
    "floor": "bench.suites.crowd.floor",
    "frameworks": "bench.suites.frameworks.main",
    "held": "bench.suites.held.main",
    "http2": "bench.suites.http2.main",
    "hub": "bench.suites.hub.main",
    "leaving": "bench.suites.crowd.leaving",
    "million": "bench.suites.crowd.million",
    "proxy": "bench.suites.proxy.main",
    "readme": "bench.readme",
    "restart": "bench.suites.restart.main",
    "soak": "bench.suites.crowd.soak",
    "unread": "bench.suites.unread.main",
    "websocket": "bench.suites.websocket.main",
}


def main() -> int:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name in SUITES:
        module = importlib.import_module(SUITES[name])
        del sys.argv[1]
    elif not name or name in TABLES or (name.startswith("-") and name not in ("-h", "--help")):
        module = importlib.import_module("bench.suites.tables.main")
        name = ""
    else:
        known = ", ".join(sorted([*TABLES, *SUITES]))
        print(f"usage: python3 -m bench [SUITE] [options]\n\nThe suites are {known}; without a name all tables.")
        return 0 if name in ("-h", "--help") else 2
    # Runs record sys.argv as the command that reproduces them.
    sys.argv[0] = f"python3 -m bench {name}".strip()
    return module.main()


if __name__ == "__main__":
    sys.exit(main())
