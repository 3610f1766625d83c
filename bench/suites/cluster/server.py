"""Starts a log and servers that share it, as child processes of the benchmark."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.lib import process

ROOT = Path(__file__).resolve().parents[3]
EXTENSION = Path(os.environ.get("FERMATA_EXTENSION", ROOT / "build" / "fermata.so"))
PHP = os.environ.get("PHP", "php")
READY_SECONDS_MAX = 30.0
LOGS = ("nats", "redis")


@dataclass
class Running:
    address: str
    pid: int
    """Process id of the master, which leads a separate process group."""
    bridge: int
    """Process id of the bridge, which is connected to the log; 0 without a bridge."""
    worker: int
    """Process id of the first worker."""


def wait_listening(port: int, child: subprocess.Popen[bytes]) -> None:
    """Waits until a child process accepts connections."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline and child.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise SystemExit(f"cluster: {child.args[0]} does not listen on port {port}")


@contextlib.contextmanager
def log_of(kind: str, directory: str) -> Iterator[str]:
    """Runs a log and yields its address."""
    port = process.free_port()
    commands = {
        "nats": ["nats-server", "-js", "-a", "127.0.0.1", "-p", str(port), "-sd", directory],
        "redis": [
            *("redis-server", "--bind", "127.0.0.1", "--port", str(port), "--dir", directory),
            *("--save", "", "--appendonly", "yes"),
        ],
    }
    child = subprocess.Popen(commands[kind], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_listening(port, child)
        yield f"{kind}://127.0.0.1:{port}"
    finally:
        process.stop(child)


@contextlib.contextmanager
def server_of(cluster: str, directory: str, workers: int = 1, tool: Sequence[str] = ()) -> Iterator[Running]:
    """Runs a server with `workers` workers, in a cluster if `cluster` is not empty. `tool` prefixes its command."""
    port = process.free_port()
    environment = {
        **os.environ,
        "FERMATA_CLUSTER": cluster,
        "FERMATA_CLUSTER_BYTES_MAX": "256m",
        "FERMATA_WORKERS": str(workers),
        "FERMATA_PUBLISH_WAIT_MS_MAX": "60000",
        "FERMATA_LOG_LEVEL": "info",
        "FERMATA_CONNECTIONS_MAX": "19000",
    }
    out = Path(directory, "server.log")
    command = [*tool, PHP, "-n", "-d", f"extension={EXTENSION}", str(Path(__file__).with_name("server.php")), str(port)]
    with out.open("wb") as log:
        child = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        is_ready = "connected to the log of the cluster" if cluster else "worker 0 started"
        while is_ready not in out.read_text():
            if time.monotonic() > deadline or child.poll() is not None:
                raise SystemExit(f"cluster: the server is not ready:\n{out.read_text()}")
            time.sleep(0.05)
        pids = {name: int(pid) for name, pid in re.findall(r"(bridge|worker 0) started pid=(\d+)", out.read_text())}
        yield Running(f"http://127.0.0.1:{port}", child.pid, pids.get("bridge", 0), pids["worker 0"])
    finally:
        process.stop(child)
