"""Counts the instructions of a bridge per record and of a worker per publish, for `bench cluster --instructions`. Other load on
the machine does not affect these counts.

For the bridge, only the reader and writer of the NATS protocol are counted (crates/cluster/benches/cost.rs), without sockets,
outbox and ring. For the worker, its complete process is counted, from `Channel::publish()` until it reads the event, with and
without a cluster. A second run publishes twice as many events; the difference is divided by the additional events.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import urllib.request
from pathlib import Path

from bench.lib.peers import ROOT
from bench.suites.cluster.server import log_of, server_of

RECORDS_PER_ROUND = 40 * 256
"""Product of BATCHES and BATCH in cost.rs."""
ROUNDS = (1, 3)
"""Rounds of the two runs. Their difference excludes the cost of start and exit."""
PUBLISHES = 20_000
"""Events that a worker publishes in the first run; the second run publishes twice as many."""
TASKS = 100
"""Number of tasks in modes with concurrent publishes."""
MODES = {
    "local": ("ack: local", 1),
    "cluster": (f"ack: cluster, {TASKS} tasks", TASKS),
    "cluster-one": ("ack: cluster, one after the other", 1),
}
"""Title and number of publishing tasks of each mode, by name."""


def per_record() -> int:
    program = build()
    fewer, more = (count(program, rounds) for rounds in ROUNDS)
    return round((more - fewer) / (ROUNDS[1] - ROUNDS[0]) / RECORDS_PER_ROUND)


def build() -> str:
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "fermata-cluster", "--bench", "cost", "--no-run"]
    done = subprocess.run([*command, "--message-format=json"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    built = [json.loads(line) for line in done.stdout.splitlines() if '"executable":"' in line]
    return str(built[-1]["executable"])


def count(program: str, rounds: int) -> int:
    with tempfile.TemporaryDirectory() as directory:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out", program, str(rounds)]
        done = subprocess.run(command, check=True, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if not found:
        raise SystemExit(f"cluster: callgrind says nothing of instructions:\n{done.stderr}")
    return int(found[1])


def per_publish() -> list[dict[str, object]]:
    """Returns a row for each mode: instructions of the worker per publish, with and without a cluster."""
    rows = []
    with tempfile.TemporaryDirectory() as directory, log_of("nats", directory) as cluster:
        for name, (title, tasks) in MODES.items():
            alone, shared = (worker(name, tasks, log) for log in ("", cluster))
            rows.append({"mode": name, "title": title, "alone": alone, "cluster": shared, "ratio": round(shared / alone, 3)})
    return rows


def worker(mode: str, tasks: int, cluster: str) -> int:
    once, twice = (worker_total(mode, tasks, cluster, runs * PUBLISHES) for runs in (1, 2))
    return round((twice - once) / PUBLISHES)


def worker_total(mode: str, tasks: int, cluster: str, count: int) -> int:
    """Returns the number of instructions that the only worker of a server has executed."""
    ack = mode.partition("-")[0]
    with tempfile.TemporaryDirectory() as directory:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out.%p"]
        with server_of(cluster, directory, tool=tool) as server:
            query = f"tasks={tasks}&count={count}&ack={ack}&bytes=100"
            request = urllib.request.Request(f"{server.address}/publish?{query}", data=b"", method="POST")
            urllib.request.urlopen(request, timeout=600).read()
            pid = server.worker
        return int(re.findall(r"^(?:summary|totals): (\d+)", Path(directory, f"out.{pid}").read_text(), re.MULTILINE)[-1])
