"""`make chaos`: what a cluster is made of is killed and stopped at random for ten minutes, kept as a run.

It is the test of tests/cluster/chaos.rs with more time, once with each log: NATS, Redis, and three servers of NATS of which one
fails at a time. What failed how often, how many events were
acknowledged and read and how many gaps clients were told of is written to bench/runs/<date>-<host>/; the exit code is 1 when
an event was lost, doubled or out of order.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import machine
from bench.lib.peers import ROOT

from .leaving import write
from .parts import note

TEST = ["cargo", "test", "--locked", "--quiet", "-p", "fermata-tests", "--test", "cluster", "--"]
LOGS = {
    "nats": "chaos::each_event_is_read_once_whatever_is_killed::nats",
    "redis": "chaos::each_event_is_read_once_whatever_is_killed::redis",
    "nats-three": "chaos::each_event_is_read_once_whichever_of_three_servers_of_the_log_fails",
}
"""The tests by their log."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration-s", type=int, default=600, help="default 600")
    parser.add_argument("--seed", type=int, help="repeats what a run has done")
    parser.add_argument("--logs", nargs="+", choices=LOGS, default=list(LOGS), help="default all")
    parser.add_argument("--out", type=Path, help="folder for the result, default bench/runs/<date>-<host>")
    options = parser.parse_args()
    started, facts = datetime.now(UTC), machine.facts()
    settings = {"FERMATA_TEST_SECONDS": str(options.duration_s)}
    if options.seed is not None:
        settings["FERMATA_TEST_SEED"] = str(options.seed)
    with tempfile.TemporaryDirectory(prefix="fermata-chaos-") as results:
        environment = os.environ | settings | {"FERMATA_TEST_RESULTS": results}
        test = [*TEST, "--exact", *(LOGS[log] for log in options.logs)]
        done = subprocess.run(test, cwd=ROOT, env=environment, check=False)
        command = " ".join([*(f"{name}={value}" for name, value in settings.items()), *test])
        file = write("chaos", Path(results), started, facts, command, options.out)
    note(f"raw: {file}")
    return done.returncode
