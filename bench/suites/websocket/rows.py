"""The rows of the tables, and the measurement of a row."""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.lib import process
from bench.lib.load import LoadError
from bench.lib.peers import CannotRun, Running
from bench.suites.tables.rows import pinned

from . import load
from .peers import TLS, SocketPeer, terminator

OWN = ""
"""Front of entries without a terminator: the server itself supports TLS, or the row has no TLS."""


@dataclass(frozen=True)
class Row:
    id: str
    section: str
    title: str
    mode: str
    unit: str
    scenario: tuple[str, ...]
    """Arguments of `fermata load ws`."""
    clients: int
    amount: int = 0
    """Number of requests of the warm-up, from which the number for the requested duration is calculated; 0 if the scenario
    accepts a duration."""
    secure: bool = False
    fronts: tuple[str, ...] = (OWN,)
    """TLS terminators. OWN stands for the server itself, if it supports TLS."""
    marks: bool = True
    """True if the row also measures servers that do not run PHP."""

    def service(self, front: str) -> str:
        return self.mode + TLS if self.secure and front == OWN else self.mode


CONNECTIONS = ("-c", "10")
CLIENTS = ("-c", "50")
BEHIND = (OWN, "proxy", "nginx")

ROWS = [
    Row("upgrade", "Server runtime", "Upgrade and close, 10 at a time", "echo", "connection", ("upgrade", *CONNECTIONS), 10, 500),
    Row(
        "upgrade-subprotocol", "Server runtime", "The same with a subprotocol", "subprotocol", "connection",
        ("upgrade", *CONNECTIONS, "--subprotocol", "bench"), 10, 500,
    ),
    Row(
        "echo-64", "Messages", "Echo, 50 clients, 1,000 messages of 64 B in flight on each", "echo", "message",
        ("echo", *CLIENTS, "--pipeline", "1000", "--message-bytes", "64"), 50, 50_000,
    ),
    Row(
        "echo-1024", "Messages", "Echo, 50 clients, 1,000 messages of 1,024 B in flight on each", "echo", "message",
        ("echo", *CLIENTS, "--pipeline", "1000", "--message-bytes", "1024"), 50, 50_000,
    ),
    Row(
        "broadcast-64", "Messages", "Broadcast to 1,000 clients, bursts of 100 messages of 64 B", "broadcast", "delivery",
        ("fanout", "-c", "1000", "--burst", "100", "--message-bytes", "64"), 1000,
    ),
    Row(
        "broadcast-single", "Messages", "Broadcast to 1,000 clients, one message of 64 B at a time", "broadcast",
        "delivery", ("fanout", "-c", "1000", "--burst", "1", "--message-bytes", "64"), 1000,
    ),
    Row(
        "broadcast-1024", "Messages", "Broadcast to 50 clients, bursts of 1,000 messages of 1,024 B", "broadcast",
        "delivery", ("fanout", *CLIENTS, "--burst", "1000", "--message-bytes", "1024"), 50,
    ),
    Row(
        "wss-upgrade", "Messages over wss", "Upgrade and close over TLS, a full handshake each, 10 at a time", "echo",
        "connection", ("upgrade", *CONNECTIONS), 10, 100, True, BEHIND,
    ),
    Row(
        "wss-echo-1024", "Messages over wss", "Echo over TLS, 50 clients, 1,000 messages of 1,024 B in flight on each",
        "echo", "message", ("echo", *CLIENTS, "--pipeline", "1000", "--message-bytes", "1024"), 50, 50_000, True, BEHIND,
    ),
    Row(
        "wss-broadcast-1024", "Messages over wss",
        "Broadcast over TLS to 50 clients, bursts of 1,000 messages of 1,024 B", "broadcast", "delivery",
        ("fanout", *CLIENTS, "--burst", "1000", "--message-bytes", "1024"), 50, 0, True, BEHIND,
    ),
]


@dataclass(frozen=True)
class Sample:
    """One measurement of one entry in one round."""

    row: str
    entry: str
    round: int
    units: int
    seconds: float
    server_cpu_ns: int
    """Processor time of the server and its terminator."""
    client_cpu_ns: int
    idle: float
    """Share of the wall time during which the core was idle."""
    steal: float
    """Share that the hypervisor gave to other machines."""
    foreign: float
    """Share that processes other than server and client used."""
    command: str
    latency_us: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return self.units / self.seconds

    @property
    def cpu_ns(self) -> float:
        return self.server_cpu_ns / self.units


class Entry:
    """A server measured by a row, with the terminator in front of it, if any."""

    def __init__(self, row: Row, server: Running, front: str, core: int) -> None:
        self.server = server
        self.front = None
        self.amount = row.amount
        scheme = "wss" if row.secure else "ws"
        port = server.port
        if front != OWN:
            proxy = terminator(front, server.port, f"{server.peer.id}-{row.mode}")
            proxy.prepare()
            self.front = Running(proxy, "front", pinned(core))
            port = self.front.port
        self.url = f"{scheme}://127.0.0.1:{port}/"

    def close(self) -> None:
        if self.front:
            self.front.close()

    def pids(self) -> list[int]:
        return self.server.pids() + (self.front.pids() if self.front else [])

    def alive(self) -> bool:
        return self.server.alive() and (self.front is None or self.front.alive())


def fits(row: Row, peer: SocketPeer, front: str) -> bool:
    """Returns true if a peer with this front is an entry of the row."""
    return row.service(front) in peer.services and (row.marks and front == OWN or not peer.outside)


def measure(row: Row, key: str, entry: Entry, round: int, seconds: float, core: int) -> Sample:
    """Runs a row's load once. Round 0 is a warm-up that determines the number of requests. Raises LoadError."""
    scenario = list(row.scenario)
    if row.amount:
        scenario += ["-n", str(entry.amount)]
    else:
        scenario += ["-t", f"{seconds if round else seconds / 5:.3f}s"]
    pids = entry.pids()
    core_before, cpu_before = process.CoreTime.now(core), process.cpu_ns(pids)
    found = load.run(pinned(core), scenario, entry.url, pids)
    server = process.cpu_ns(pids) - cpu_before
    core_after = process.CoreTime.now(core)
    if not entry.alive():
        raise LoadError(f"the server ended during the measurement; see {entry.server.log}")
    units = found.count("deliveries" if row.unit == "delivery" else "responses")
    measured = max(found.result["measured_s"], 1e-6)
    if row.amount and round == 0:
        # A multiple of row.amount, so that every client sends the same number.
        entry.amount = row.amount * max(1, min(40, int(units / measured * seconds / row.amount + 0.5)))
    idle = min(1.0, (core_after.idle - core_before.idle) / found.wall_seconds)
    busy = (server + found.client_cpu_ns) / 1e9 / found.wall_seconds
    return Sample(
        row=row.id,
        entry=key,
        round=round,
        units=units,
        seconds=measured,
        server_cpu_ns=found.count("watched_cpu_ns") if row.unit == "delivery" else server,
        client_cpu_ns=found.client_cpu_ns,
        idle=idle,
        steal=(core_after.steal - core_before.steal) / found.wall_seconds,
        foreign=max(0.0, 1.0 - idle - busy),
        command=found.command,
        latency_us={name: found.result["latency_us"][name] for name in ("p50", "p99")},
    )


__all__ = ["OWN", "ROWS", "CannotRun", "Entry", "LoadError", "Row", "Sample", "fits", "measure"]
