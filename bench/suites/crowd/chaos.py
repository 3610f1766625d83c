"""`make chaos`: kills and stops the processes of a cluster at random for ten minutes.

It runs the tests of tests/cluster/chaos.rs and tests/cluster/checked.rs for longer, once with each log: NATS; Redis; three NATS
servers, of which one fails at a time; NATS and Redis whose log is replaced by an older copy or deleted. The result in
bench/runs/<date>-<host>/ counts injected faults by kind, acknowledged and received events, and gaps. Exits with status 1 if
an event was lost, duplicated or out of order.
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
    "nats-checked": "checked::the_history_of_a_cluster_whose_log_goes_back_has_no_fault::nats",
    "redis-checked": "checked::the_history_of_a_cluster_whose_log_goes_back_has_no_fault::redis",
}
"""Name of the test for each log."""


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
