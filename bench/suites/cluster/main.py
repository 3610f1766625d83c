"""A cluster on this machine: how many events a server publishes in a second, and what its bridge costs for each.

The log, the server and its bridge share the machine, so the rate is a lower bound; the bridge's processor time is its own. An
event goes through the bridge twice: to the log, and from it to the ring.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from bench.lib import process
from bench.lib.machine import facts

ROOT = Path(__file__).resolve().parents[3]
EXTENSION = Path(os.environ.get("FERMATA_EXTENSION", ROOT / "build" / "fermata.so"))
PHP = os.environ.get("PHP", "php")
READY_SECONDS_MAX = 30.0
LOGS = ("nats",)


@contextlib.contextmanager
def log_of(kind: str, directory: str) -> Iterator[str]:
    """A log of its own; gives its address."""
    port = process.free_port()
    commands = {"nats": ["nats-server", "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", directory]}
    child = subprocess.Popen(commands[kind], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        yield f"{kind}://127.0.0.1:{port}"
    finally:
        process.stop(child)


@contextlib.contextmanager
def server_of(cluster: str, directory: str) -> Iterator[tuple[str, int]]:
    """A server with one worker; gives its address and the process of its bridge."""
    port = process.free_port()
    environment = {
        **os.environ,
        "FERMATA_CLUSTER": cluster,
        "FERMATA_CLUSTER_BYTES_MAX": "256m",
        "FERMATA_WORKERS": "1",
        "FERMATA_PUBLISH_WAIT_MS_MAX": "60000",
        "FERMATA_LOG_LEVEL": "info",
    }
    out = Path(directory, "server.log")
    command = [PHP, "-n", "-d", f"extension={EXTENSION}", str(Path(__file__).with_name("server.php")), str(port)]
    with out.open("wb") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while "connected to the log of the cluster" not in out.read_text():
            if time.monotonic() > deadline or child.poll() is not None:
                raise SystemExit(f"cluster: the server is not ready:\n{out.read_text()}")
            time.sleep(0.05)
        bridge = int(re.findall(r"bridge started pid=(\d+)", out.read_text())[-1])
        yield f"http://127.0.0.1:{port}", bridge
    finally:
        process.stop(child)


def publish(address: str, ack: str, options: argparse.Namespace, count: int) -> float:
    """Seconds in which so many events were published."""
    query = f"tasks={options.tasks}&count={count}&ack={ack}&bytes={options.bytes}"
    request = urllib.request.Request(f"{address}/publish?{query}", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=600) as answer:
        return int(answer.read()) / 1e9


def measure(kind: str, ack: str, options: argparse.Namespace) -> dict[str, object]:
    with (
        tempfile.TemporaryDirectory() as directory,
        log_of(kind, directory) as cluster,
        server_of(cluster, directory) as (address, bridge),
    ):
        publish(address, ack, options, options.tasks * 10)
        before = process.cpu_ns([bridge])
        seconds = publish(address, ack, options, options.count)
        # What was not waited for is on its way for a moment.
        time.sleep(1.0 if ack == "local" else 0.2)
        cpu_ns = process.cpu_ns([bridge]) - before
    return {
        "log": kind,
        "ack": ack,
        "events": options.count,
        "per_second": round(options.count / seconds),
        "bridge_us_per_event": round(cpu_ns / 1000 / options.count, 2),
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench cluster", description=__doc__)
    parser.add_argument("--logs", nargs="+", choices=LOGS, default=list(LOGS))
    parser.add_argument("--count", type=int, default=50_000, help="events per row")
    parser.add_argument("--tasks", type=int, default=512, help="tasks that publish at the same time")
    parser.add_argument("--bytes", type=int, default=100, help="data of an event")
    parser.add_argument("--out", type=Path, help="a folder for results.json")
    options = parser.parse_args()
    rows = []
    for kind in options.logs:
        for ack in ("cluster", "local"):
            row = measure(kind, ack, options)
            rows.append(row)
            rate, cost = row["per_second"], row["bridge_us_per_event"]
            print(f"{kind:6} ack {ack:8} {rate:>8} events/s, bridge {cost} us per event there and back", flush=True)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        result = {"command": " ".join(sys.argv), "machine": facts(), "rows": rows}
        (options.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0
