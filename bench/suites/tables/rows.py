"""The rows of the tables, and the measurement of a row."""

from __future__ import annotations

import os
import socket
import time
from dataclasses import dataclass, field

from bench.lib import process
from bench.lib.check import CONSTANT_PATH
from bench.lib.load import AB_CONCURRENCY, CONNECTIONS, Load, LoadError, ab, open_loop, wrk
from bench.lib.peers import CannotRun, Peer, Running
from bench.lib.receiver import MESSAGE_PATH, Receiver

ARRIVAL_SECONDS_MAX = 2.0
"""Maximum time without a received message, after the response to the last request."""
FIRST_BYTE_SECONDS_MAX = 20.0
FIRST_BYTE_POLL_SECONDS = 0.0002
FIRST_BYTE_WORKERS = 2
PIPELINE = 16
"""Requests per write. load/pipeline.lua contains the same number."""

TABLES = {
    "chat": "Seed 000: a chat server in PHP, and what `ab -c 10` says of it",
    "json": "Seed 004: small JSON by `wrk`",
    "files": "Seed 002: 108 KB written, read back and answered, and handlers that wait",
}

SLOW_TIMEOUT_SECONDS = 60
"""Response timeout of the load of this table. It is long because 1,000 clients share 8 processes."""
WAITING_CLIENTS = 1_000
SETTLE_SECONDS_MAX = 20.0
SETTLED_SECONDS = 0.2
SETTLED_SHARE = 0.005
"""Share of a core below which a server counts as idle."""

RATE, LATENCY, START = "rate", "latency", "start"
"""Kinds of rows. They measure requests per second, latency at a given rate, or the time to the first byte after the start."""


@dataclass(frozen=True)
class Row:
    id: str
    title: str
    table: str
    services: tuple[str, ...]
    """Services that this row can measure. The first one that a peer has is used."""
    kind: str = RATE
    script: str = ""
    """The wrk script of a closed-loop row; empty if the row uses ab."""
    message: bool = False
    """True if the load sends messages to one held receiver instead of requesting the page."""
    keep_alive: bool = False
    peers: tuple[str, ...] = ()
    """Compared peers; empty means all."""
    spread: bool = False
    """True if server and load use all cores instead of sharing one."""
    threads: int = 1
    concurrency: int = AB_CONCURRENCY
    """Number of connections of ab."""
    connections: int = CONNECTIONS
    """Number of connections of wrk."""
    requests: int = 0
    """Number of requests per measurement with ab, if lower than the default; 0: the default."""
    seconds: int = 0
    """Duration of a measurement with wrk, if longer than the default; 0: the default."""
    path: str = ""
    """Path that replaces the service's path; empty: the service's path."""
    timeout_seconds: int = 5
    backend: bool = False
    """True if a backend that responds after 50 ms runs during the measurement."""
    settles: bool = False
    """True if the server must finish pending requests before the next measurement."""
    pipelined: bool = False
    extra: bool = False
    """True if the row is measured only when --rows names it."""

    def service(self, peer: Peer) -> str | None:
        """Returns the service of a peer that this row measures, or None."""
        if self.peers and peer.id not in self.peers:
            return None
        id = next((id for id in self.services if id in peer.services), None)
        if id is None or (self.message and peer.services[id].message == ""):
            return None
        # Pipelined rows and rows at a fixed rate reuse connections, so they need keep-alive.
        return id if peer.services[id].keep_alive or not (self.pipelined or self.kind == LATENCY) else None

    def fits(self, peer: Peer) -> bool:
        return self.service(peer) is not None

    def prefix(self, core: int) -> list[str]:
        """Returns the prefix of the server's command."""
        return [] if self.spread or self.kind == START else pinned(core)


ROWS = [
    Row("page", "Page, a connection per request (ab -c 10)", "chat", ("chat",)),
    Row(
        "static",
        "The page from its file, a connection per request (ab -c 10)",
        "chat",
        ("static", "chat"),
        peers=("fermata", "c", "nginx", "apache"),
    ),
    Row("page-keep-alive", "Page, keep-alive (ab -c 10 -k)", "chat", ("chat",), keep_alive=True, extra=True),
    Row(
        "message",
        "Message to one held receiver, a connection per request (ab -c 10)",
        "chat",
        ("chat",),
        message=True,
    ),
    Row(
        "message-keep-alive",
        "Message to one held receiver, keep-alive (ab -c 10 -k)",
        "chat",
        ("chat",),
        message=True,
        keep_alive=True,
    ),
    Row(
        "json-seed",
        "`GET /`, small JSON, as in the seed: all cores, as many workers (wrk -t3 -c100)",
        "json",
        ("cores", "json"),
        script="report.lua",
        spread=True,
        threads=3,
    ),
    Row(
        "json",
        "`GET /`, small JSON, one-core closed loop (wrk, 100 connections)",
        "json",
        ("json",),
        script="report.lua",
    ),
    Row(
        "json-new-url",
        "The same with a URL never seen before in every request",
        "json",
        ("json",),
        script="new_url.lua",
    ),
    Row(
        "json-pipelined",
        f"The same with {PIPELINE} requests in one write",
        "json",
        ("json",),
        script="pipeline.lua",
        pipelined=True,
    ),
    Row(
        "half-load",
        "Half of what the slower of Fermata and nginx can, in an open loop, server and load on a core each",
        "json",
        ("json",),
        kind=LATENCY,
        peers=("fermata", "fermata-uring", "nginx", "c", "go", "swoole", "openswoole", "workerman"),
    ),
    Row(
        "cold-start",
        f"From the start of the program to the first byte of an answer, {FIRST_BYTE_WORKERS} workers",
        "json",
        ("cores", "json"),
        kind=START,
    ),
    Row(
        "files",
        "108 KB of random text made, written, read and answered, as in the seed: all cores (ab -c 200 -n 2000)",
        "files",
        ("script",),
        spread=True,
        concurrency=200,
        requests=2_000,
        timeout_seconds=SLOW_TIMEOUT_SECONDS,
    ),
    Row(
        "files-constant",
        "The same without the loop that makes the text",
        "files",
        ("script",),
        spread=True,
        concurrency=200,
        requests=2_000,
        path=CONSTANT_PATH,
        timeout_seconds=SLOW_TIMEOUT_SECONDS,
    ),
    Row(
        "waits",
        f"A handler that waits 50 ms for an HTTP backend: all cores, {WAITING_CLIENTS:,} clients (wrk)",
        "files",
        ("waits",),
        script="report.lua",
        spread=True,
        threads=2,
        connections=WAITING_CLIENTS,
        seconds=2,
        timeout_seconds=SLOW_TIMEOUT_SECONDS,
        backend=True,
        settles=True,
    ),
    Row(
        "pauses",
        f"A handler that sleeps for 50 ms: all cores, {WAITING_CLIENTS:,} clients (wrk)",
        "files",
        ("pauses",),
        script="report.lua",
        spread=True,
        threads=2,
        connections=WAITING_CLIENTS,
        seconds=2,
        timeout_seconds=SLOW_TIMEOUT_SECONDS,
        settles=True,
    ),
]

MEMORY = "memory"
"""Row that measures resident memory after the load of the row `page`, with one server of the chat table at a time."""


@dataclass(frozen=True)
class Amounts:
    """Size of one measurement, by load generator."""

    wrk_seconds: int
    ab_requests: int
    open_seconds: float


@dataclass(frozen=True)
class Sample:
    """One measurement of one peer in one round."""

    row: str
    peer: str
    round: int
    requests: int
    seconds: float
    server_cpu_ns: int
    client_cpu_ns: int
    receiver_cpu_ns: int
    idle: float
    """Share of the wall time during which the core was idle."""
    steal: float
    """Share that the hypervisor gave to other machines."""
    foreign: float
    """Share that processes other than server, client and receiver used."""
    delivered: int | None
    """Number of messages that the receiver received; None for rows without a receiver."""
    command: str
    errors: dict[str, int] = field(default_factory=dict)
    latency_us: dict[str, int] = field(default_factory=dict)
    kept_alive: int | None = None

    @property
    def rate(self) -> float:
        """Returns the requests per second."""
        return self.requests / self.seconds

    @property
    def cpu_ns(self) -> float:
        """Returns the processor time of the server per request."""
        return self.server_cpu_ns / self.requests


def measure(row: Row, running: Running, round: int, amounts: Amounts, core: int, rate: int = 0) -> Sample:
    """Runs a row's load once on a running server. `rate` applies to latency rows. Raises LoadError."""
    pin = pinned(core)
    if row.spread:
        pin = []
    elif row.kind == LATENCY:
        pin = pinned(other(core))
    running.resume()
    try:
        if not row.message:
            return _measure(row, running, round, amounts, core, pin, None, rate)
        with Receiver(running.port, pin) as receiver:
            return _measure(row, running, round, amounts, core, pin, receiver, rate)
    finally:
        if row.settles:
            settle(running)
        running.peer.clear_scratch()
        running.pause()


def settle(running: Running) -> None:
    """Waits until the server has also processed the requests of clients that have disconnected."""
    until = time.monotonic() + SETTLE_SECONDS_MAX
    before = process.cpu_ns(running.pids())
    while time.monotonic() < until:
        time.sleep(SETTLED_SECONDS)
        now = process.cpu_ns(running.pids())
        if now - before < SETTLED_SHARE * SETTLED_SECONDS * 1e9:
            return
        before = now


def first_byte(row: Row, peer: Peer, round: int) -> Sample:
    """Starts a peer's server and measures the time until the first byte of its first response. Raises CannotRun."""
    service = row.service(peer)
    assert service is not None, "only peers that fit are measured"
    request = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with Running(peer, service, [], FIRST_BYTE_WORKERS, wait=False) as running:
        while True:
            if not running.alive() or time.monotonic() - running.started > FIRST_BYTE_SECONDS_MAX:
                raise CannotRun(f"no answer within {FIRST_BYTE_SECONDS_MAX:.0f} s; see {running.log}")
            try:
                with socket.create_connection(("127.0.0.1", running.port), FIRST_BYTE_SECONDS_MAX) as client:
                    client.sendall(request)
                    if client.recv(1):
                        break
            except OSError:
                time.sleep(FIRST_BYTE_POLL_SECONDS)
        seconds = time.monotonic() - running.started
        cpu = process.cpu_ns(running.pids())
        command = " ".join(running.command)
    return Sample(
        row=row.id,
        peer=peer.id,
        round=round,
        requests=1,
        seconds=seconds,
        server_cpu_ns=cpu,
        client_cpu_ns=0,
        receiver_cpu_ns=0,
        idle=0.0,
        steal=0.0,
        foreign=0.0,
        delivered=None,
        command=command,
    )


def _measure(
    row: Row,
    running: Running,
    round: int,
    amounts: Amounts,
    core: int,
    pin: list[str],
    receiver: Receiver | None,
    rate: int,
) -> Sample:
    pids = running.pids()
    watched = None if row.spread or row.kind == LATENCY else core
    cores = (os.cpu_count() or 1) if watched is None else 1
    arrived_before = receiver.count() if receiver else 0
    receiver_before = receiver.cpu_ns() if receiver else 0
    core_before, cpu_before = process.CoreTime.now(watched), process.cpu_ns(pids)

    started = time.monotonic()
    load = _load(row, running, amounts, pin, rate)
    wall = time.monotonic() - started
    expected = load.requests
    arrived = receiver.wait_for(arrived_before + expected, ARRIVAL_SECONDS_MAX) if receiver else 0

    server = process.cpu_ns(pids) - cpu_before
    core_after = process.CoreTime.now(watched)
    receiver_cpu = receiver.cpu_ns() - receiver_before if receiver else 0
    delivered = arrived - arrived_before if receiver else None
    if not running.alive():
        raise LoadError(f"the server ended during the measurement; see {running.log}")

    errors = dict(load.errors)
    if delivered is not None and delivered != expected:
        errors["not delivered"] = expected - delivered
    busy = (server + load.client_cpu_ns + receiver_cpu) / 1e9
    # A run at a fixed rate includes a warm-up, so use its elapsed time. Other loads measure their complete run.
    seconds = wall if row.kind == LATENCY else load.seconds
    idle = (core_after.idle - core_before.idle) / seconds / cores
    return Sample(
        row=row.id,
        peer=running.peer.id,
        round=round,
        requests=load.requests,
        seconds=load.seconds,
        server_cpu_ns=server,
        client_cpu_ns=load.client_cpu_ns,
        receiver_cpu_ns=receiver_cpu,
        idle=min(1.0, idle),
        steal=(core_after.steal - core_before.steal) / seconds / cores,
        foreign=max(0.0, 1.0 - idle - busy / seconds / cores),
        delivered=delivered,
        command=load.command,
        errors=errors,
        latency_us=load.latency_us,
        kept_alive=load.kept_alive,
    )


def _load(row: Row, running: Running, amounts: Amounts, pin: list[str], rate: int) -> Load:
    port, path = running.port, row.path or running.service.path
    if row.kind == LATENCY:
        return open_loop(pin, port, amounts.open_seconds, rate)
    if row.script:
        seconds = max(row.seconds, amounts.wrk_seconds)
        return wrk(pin, port, seconds, row.script, row.threads, row.connections, path, row.timeout_seconds)
    requests = min(row.requests or amounts.ab_requests, amounts.ab_requests)
    path = MESSAGE_PATH if row.message else path
    return ab(pin, port, requests, path, row.keep_alive, row.concurrency, row.timeout_seconds)


def pinned(core: int) -> list[str]:
    """Returns the command prefix that pins a process to one core."""
    return ["taskset", "-c", str(core)]


def other(core: int) -> int:
    """Returns another core. Raises LoadError on a machine with one core."""
    if (os.cpu_count() or 1) < 2:
        raise LoadError("this row needs a second core")
    return 1 if core == 0 else 0
