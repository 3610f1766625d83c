"""Measures a cluster on this machine: events published per second, and processor time of the bridge per event. `--nodes`
measures the latency of events between three servers, and the effect of a killed server on its clients.

The log, the servers and their bridges share the machine, so rates are lower bounds and times are upper bounds. Processor
time of a bridge excludes other processes. An event passes the bridge twice: to the log, and from the log to the ring.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from bench.lib import process
from bench.lib.machine import facts
from bench.suites.cluster import instructions, nodes
from bench.suites.cluster.server import LOGS, log_of, server_of


def publish(address: str, ack: str, options: argparse.Namespace, count: int) -> float:
    """Publishes `count` events and returns the time in seconds."""
    query = f"tasks={options.tasks}&count={count}&ack={ack}&bytes={options.bytes}"
    request = urllib.request.Request(f"{address}/publish?{query}", data=b"", method="POST")
    with urllib.request.urlopen(request, timeout=600) as answer:
        return int(answer.read()) / 1e9


def measure(kind: str, ack: str, options: argparse.Namespace) -> dict[str, object]:
    with (
        tempfile.TemporaryDirectory() as directory,
        log_of(kind, directory) as cluster,
        server_of(cluster, directory) as server,
    ):
        publish(server.address, ack, options, options.tasks * 10)
        before = process.cpu_ns([server.bridge])
        seconds = publish(server.address, ack, options, options.count)
        # Include the processor time for events whose acknowledgement was not awaited.
        time.sleep(1.0 if ack == "local" else 0.2)
        cpu_ns = process.cpu_ns([server.bridge]) - before
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
    parser.add_argument("--nodes", action="store_true", help="three servers instead")
    parser.add_argument(
        "--instructions", action="store_true", help="of a bridge per record and a worker per publish instead, by callgrind"
    )
    parser.add_argument("--rate", type=int, default=1_000, help="of --nodes: publishes per second, default 1,000")
    parser.add_argument("--seconds", type=int, default=10, help="of --nodes: how long they are published, default 10")
    parser.add_argument("--clients", type=int, default=30_000, help="of --nodes: held when a server is killed, default 30,000")
    parser.add_argument("--direct", action="store_true", help="of --nodes: clients know all servers; no nginx, no latency")
    parser.add_argument("--ahead", action="store_true", help="of --nodes, as root: the kernel runs it before other programs")
    parser.add_argument("--loss-rate", type=int, default=20, help="of --nodes: publishes per second meanwhile, default 20")
    parser.add_argument("--quick", action="store_true", help="of --nodes: a smoke test, whose figures mean nothing")
    options = parser.parse_args()
    if options.instructions:
        print(f"nats   a record there and back: {instructions.per_record()} instructions of the bridge's protocol")
        for row in instructions.per_publish():
            print(f"worker a publish, {row['title']}: {row['cluster']} instructions, {row['alone']} without a cluster", flush=True)
        return 0
    if options.quick:
        options.logs, options.rate, options.seconds, options.clients = ["nats"], 50, 1, 300
    rows = nodes.run(options) if options.nodes else rates(options)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        result = {"command": " ".join(sys.argv), "machine": facts(), "rows": rows}
        (options.out / "results.json").write_text(json.dumps(result, indent=1) + "\n")
    return 0


def rates(options: argparse.Namespace) -> list[dict[str, object]]:
    rows = []
    for kind in options.logs:
        for ack in ("cluster", "local"):
            row = measure(kind, ack, options)
            rows.append(row)
            rate, cost = row["per_second"], row["bridge_us_per_event"]
            print(f"{kind:6} ack {ack:8} {rate:>8} events/s, bridge {cost} us per event there and back", flush=True)
    return rows
