"""What a record costs a bridge, and a publish its worker, in instructions, for `bench cluster --instructions`: counts that do
not depend on what else the machine does.

Of a bridge it is what reads and writes the protocol of NATS (crates/cluster/benches/cost.rs); sockets, outbox and ring are not
there. Of a worker it is everything in its process, from `Channel::publish()` to its reading of the event, once in a cluster and
once without: what the server publishes more in a second run is what is divided.
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
"""BATCHES and BATCH there."""
ROUNDS = (1, 3)
"""Begin and end cost the same in both."""
PUBLISHES = 20_000
"""Of a worker in the first run; twice as many in the second."""
TASKS = 100
"""That publish at the same time, where they do."""
MODES = {
    "local": ("ack: local", 1),
    "cluster": (f"ack: cluster, {TASKS} tasks", TASKS),
    "cluster-one": ("ack: cluster, one after the other", 1),
}
"""By their names: what they are called, and how many tasks publish."""


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
    """A row for each way to publish: instructions of the worker with a cluster and without."""
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
    """All that the one worker of a server has run."""
    ack = mode.partition("-")[0]
    with tempfile.TemporaryDirectory() as directory:
        tool = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out.%p"]
        with server_of(cluster, directory, tool=tool) as server:
            query = f"tasks={tasks}&count={count}&ack={ack}&bytes=100"
            request = urllib.request.Request(f"{server.address}/publish?{query}", data=b"", method="POST")
            urllib.request.urlopen(request, timeout=600).read()
            pid = server.worker
        return int(re.findall(r"^(?:summary|totals): (\d+)", Path(directory, f"out.{pid}").read_text(), re.MULTILINE)[-1])
