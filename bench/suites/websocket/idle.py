"""Measures the memory and processor time of an idle WebSocket connection, as a slope over the number of connections."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from bench.lib import process
from bench.lib.load import LoadError
from bench.lib.peers import Running
from bench.suites.tables.rows import pinned

from . import load
from .peers import OUT, SocketPeer

CONNECT_SECONDS_MAX = 60.0
HOLD_SECONDS = 1.5


@dataclass(frozen=True)
class Idle:
    """Result of one server with few and then with many idle clients."""

    peer: str
    service: str
    few: int
    many: int
    few_bytes: int
    """Private memory of the server with few clients."""
    many_bytes: int
    connect_seconds: float
    connect_cpu_ns: int
    """Processor time of the server for the upgrades between `few` and `many` clients."""
    hold_cpu_ns: int
    """Processor time of the server while all connections were idle."""
    hold_seconds: float

    @property
    def bytes_each(self) -> float:
        return (self.many_bytes - self.few_bytes) / (self.many - self.few)

    @property
    def connect_us(self) -> float:
        """Returns the processor time of the server per upgrade."""
        return self.connect_cpu_ns / 1000 / (self.many - self.few)

    @property
    def rate(self) -> float:
        return (self.many - self.few) / self.connect_seconds

    @property
    def hold_share(self) -> float:
        return self.hold_cpu_ns / 1e9 / self.hold_seconds


def measure(peer: SocketPeer, service: str, few: int, many: int, core: int) -> Idle:
    """Measures a server. The clients run on another core if there is one, and are not measured. Raises LoadError or CannotRun."""
    scheme = "wss" if service.endswith("-tls") else "ws"
    with Running(peer, service, pinned(core)) as server:
        url = f"{scheme}://127.0.0.1:{server.port}/"
        with _Clients(url, few, "few"):
            time.sleep(HOLD_SECONDS / 3)
            few_bytes = process.memory(server.pids()).private
            cpu, started = process.cpu_ns(server.pids()), time.monotonic()
            with _Clients(url, many - few, "many"):
                connected = time.monotonic() - started
                connect_cpu = process.cpu_ns(server.pids()) - cpu
                time.sleep(HOLD_SECONDS / 3)
                many_bytes = process.memory(server.pids()).private
                cpu, started = process.cpu_ns(server.pids()), time.monotonic()
                time.sleep(HOLD_SECONDS)
                hold_cpu, held = process.cpu_ns(server.pids()) - cpu, time.monotonic() - started
                if not server.alive():
                    raise LoadError(f"the server ended; see {server.log}")
    return Idle(peer.id, service, few, many, few_bytes, many_bytes, connected, connect_cpu, hold_cpu, held)


class _Clients:
    """A running `fermata load ws fanout --burst 0`. The `with` block starts when all clients are connected."""

    def __init__(self, url: str, count: int, name: str) -> None:
        self.count = count
        self.result = OUT / f"idle-{name}.json"
        self.events = OUT / f"idle-{name}.events"
        scenario = ["fanout", "-c", str(count), "--burst", "0", "-t", "10m", "--timeout", "30s"]
        options = ["--interval", "20ms", "--events", str(self.events), "--json", str(self.result)]
        self.words = [*load.command(scenario, url), *options]

    def __enter__(self) -> _Clients:
        for path in (self.result, self.events):
            path.unlink(missing_ok=True)
        self.process = subprocess.Popen(
            self.words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            return self._wait()
        except BaseException:
            self._end()
            raise

    def _wait(self) -> _Clients:
        deadline = time.monotonic() + CONNECT_SECONDS_MAX
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise LoadError(load._reason(self._end(), ""))
            if _open(self.events) >= self.count:
                return self
            time.sleep(0.01)
        raise LoadError(f"{_open(self.events)} of {self.count} clients connected in {CONNECT_SECONDS_MAX:.0f} s")

    def __exit__(self, kind: object, *_: object) -> None:
        output = self._end()
        counters = json.loads(self.result.read_text())["counters"] if self.result.is_file() else {"not_held": self.count}
        if kind is None and (counters["not_held"] or counters["disconnects"]):
            raise LoadError(load._reason(output, ""))

    def _end(self) -> str:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        if self.process.stdout and self.process.stdout.closed:
            return ""
        try:
            return self.process.communicate(timeout=30)[0]
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.communicate()[0]


def _open(events: Path) -> int:
    """Returns the number of open connections in the last complete line."""
    try:
        lines = events.read_text().splitlines()
    except FileNotFoundError:
        return 0
    for line in reversed(lines):
        if '"open"' in line:
            try:
                return int(json.loads(line)["open"])
            except ValueError:
                # The line is still being written.
                continue
    return 0
