"""Runs `fermata load` as a child process: clients that connect, stay until a signal, and report results."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.lib.load import LoadError
from bench.lib.peers import FERMATA

CONNECT_SECONDS_MAX = 120.0
END_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1
CLIENTS_PER_SOURCE = 7_000
"""Maximum number of clients per source address, the same as in `fermata load`."""


@dataclass(frozen=True)
class Report:
    """The used part of a report of `fermata load --json`."""

    clients: int
    connected_seconds: float
    deliveries: int
    published: int
    last_byte_us: dict[str, float]
    first_answer_us: dict[str, float]
    errors: dict[str, int]


class Holding:
    """Clients of one load process that stay connected until `end()`."""

    def __init__(self, url: str, clients: int, groups: int, number: int, folder: Path) -> None:
        """`number` is unique among the load processes of a server. It selects separate source addresses for each."""
        self.clients = clients
        self._json = folder / f"load-{number}.json"
        self._json.unlink(missing_ok=True)
        # Up to four source addresses for each process, starting at 127.0.1.1.
        source = f"127.0.{1 + number // 60}.{1 + number % 60 * 4}"
        self.process = subprocess.Popen(
            [
                str(FERMATA),
                "load",
                *(["ws", "broadcast"] if url.startswith("ws:") else ["hold"]),
                url,
                f"--clients={clients}",
                f"--groups={groups}",
                f"--source={source}",
                "--duration=15m",
                "--interval=100ms",
                "--quiet",
                "--prometheus=127.0.0.1:0",
                f"--json={self._json}",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr
        line = self.process.stderr.readline()
        found = re.search(r"http://\S+/metrics", line)
        if not found:
            self.process.kill()
            raise LoadError(f"fermata load: {line.strip() or 'no output'}")
        self._metrics = found[0]

    def wait_connected(self) -> None:
        """Waits until every client is held. Raises LoadError."""
        deadline = time.monotonic() + CONNECT_SECONDS_MAX
        held = 0
        while time.monotonic() < deadline:
            held = self.open()
            if held == self.clients:
                return
            if self.process.poll() is not None:
                raise LoadError(f"fermata load ended with {self.process.returncode}")
            time.sleep(POLL_SECONDS)
        raise LoadError(f"{held} of {self.clients} clients were held after {CONNECT_SECONDS_MAX:.0f} s")

    def open(self) -> int:
        return self._figure("open")

    def received(self) -> int:
        return self._figure("bytes_received_total")

    def _figure(self, name: str) -> int:
        with urllib.request.urlopen(self._metrics, timeout=10) as answer:
            found = re.search(rf"^fermata_load_{name}\{{.*\}} (\d+)$", answer.read().decode(), re.MULTILINE)
        # The metric is missing until the first interval has passed.
        return int(found[1]) if found else 0

    def end(self) -> Report:
        """Disconnects the clients and returns the report."""
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        assert self.process.stderr
        self.process.stderr.close()
        return _report(self._json, self.clients)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def broadcast(
    url: str,
    publish: str,
    body: str,
    clients: int,
    messages_per_second: float,
    seconds: float,
    bytes: int,
    folder: Path,
) -> Report:
    """Connects clients to one group, publishes at a fixed rate, and waits until all clients have received all messages."""
    path = folder / "broadcast.json"
    path.unlink(missing_ok=True)
    command = [
        str(FERMATA),
        "load",
        "sse",
        url,
        f"--clients={clients}",
        f"--publish={publish}",
        f"--publish-body={body}",
        f"--publish-rate={messages_per_second}",
        "--publish-connections=1",
        "--publish-header=Content-Type: application/json",
        f"--message-bytes={bytes}",
        f"--duration={round(seconds * 1000)}ms",
        "--settle=60s",
        "--quiet",
        f"--json={path}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    if done.returncode == 2 or not path.exists():
        raise LoadError(f"fermata load: {done.stderr.strip()[-300:]}")
    return _report(path, clients)


FAULTS = (
    "not_held",
    "connect_failures",
    "bad_responses",
    "failures",
    "publish_skipped",
    "publish_failures",
    "lost",
    "missing",
    "repeated",
    "corrupt",
    "misdirected",
    "gap_events",
)


def _report(path: Path, clients: int) -> Report:
    if not path.exists():
        raise LoadError("fermata load left no result")
    found: dict[str, Any] = json.loads(path.read_text())
    counters = found["counters"]
    return Report(
        clients=clients,
        connected_seconds=found["connected_s"],
        deliveries=counters["deliveries"],
        published=counters["published"],
        last_byte_us=found["last_byte_us"],
        first_answer_us=found["first_answer_us"],
        errors={name: counters[name] for name in FAULTS if counters.get(name)},
    )
