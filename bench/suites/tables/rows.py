"""The rows of the tables and how one measurement of each is taken."""

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
"""How long a message may be on its way after the last request has been answered."""
FIRST_BYTE_SECONDS_MAX = 20.0
FIRST_BYTE_POLL_SECONDS = 0.0002
FIRST_BYTE_WORKERS = 2
PIPELINE = 16
"""Requests in one write; load/pipeline.lua has the same number."""

TABLES = {
    "chat": "Seed 000: a chat server in PHP, and what `ab -c 10` says of it",
    "json": "Seed 004: small JSON by `wrk`",
    "files": "Seed 002: 108 KB written, read back and answered, and handlers that wait",
}

SLOW_TIMEOUT_SECONDS = 60
"""How long the load of this table waits for an answer: 1,000 clients before 8 processes wait long."""
WAITING_CLIENTS = 1_000
SETTLE_SECONDS_MAX = 20.0
SETTLED_SECONDS = 0.2
SETTLED_SHARE = 0.005
"""Of a core: what a server uses that has come to rest."""

RATE, LATENCY, START = "rate", "latency", "start"
"""What a row is about: requests per second, the time to answer at a given rate, or the time to the first byte."""


@dataclass(frozen=True)
class Row:
    id: str
    title: str
    table: str
    services: tuple[str, ...]
    """The peers' services that this row measures; the first that a peer has."""
    kind: str = RATE
    script: str = ""
    """The wrk script of a closed-loop row; empty for a row of ab."""
    message: bool = False
    """Sends messages to one held receiver instead of fetching the page."""
    keep_alive: bool = False
    peers: tuple[str, ...] = ()
    """Those that are compared, where not all are."""
    spread: bool = False
    """Server and load have all cores instead of sharing one."""
    threads: int = 1
    concurrency: int = AB_CONCURRENCY
    """Connections of a row of ab."""
    connections: int = CONNECTIONS
    """Those of a row of wrk."""
    requests: int = 0
    """Of one measurement with ab, when fewer than in other rows."""
    seconds: int = 0
    """Of one measurement with wrk, when more than in other rows."""
    path: str = ""
    """Instead of the service's own."""
    timeout_seconds: int = 5
    backend: bool = False
    """A backend that answers after 50 ms is there while the row is measured."""
    settles: bool = False
    """What the load has left behind is worked off before anything else is measured."""
    pipelined: bool = False
    extra: bool = False
    """Measured only when named."""

    def service(self, peer: Peer) -> str | None:
        """The service of the peer that this row measures, if it has one."""
        if self.peers and peer.id not in self.peers:
            return None
        id = next((id for id in self.services if id in peer.services), None)
        if id is None or (self.message and peer.services[id].message == ""):
            return None
        # The load waits for pipelined answers, and for answers at a rate over the same connections.
        return id if peer.services[id].keep_alive or not (self.pipelined or self.kind == LATENCY) else None

    def fits(self, peer: Peer) -> bool:
        return self.service(peer) is not None

    def prefix(self, core: int) -> list[str]:
        """What the server's command begins with."""
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
"""Not a rate: resident memory after the page row's load, each server of the chat table alone."""


@dataclass(frozen=True)
class Amounts:
    """How much one measurement does."""

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
    """Share of the wall time that the core idled."""
    steal: float
    """Share that the hypervisor gave to others."""
    foreign: float
    """Share that neither server, client, receiver nor idling explains: other programs."""
    delivered: int | None
    """Messages that arrived at the receiver; None for rows without one."""
    command: str
    errors: dict[str, int] = field(default_factory=dict)
    latency_us: dict[str, int] = field(default_factory=dict)
    kept_alive: int | None = None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def cpu_ns(self) -> float:
        """Server processor time per request."""
        return self.server_cpu_ns / self.requests


def measure(row: Row, running: Running, round: int, amounts: Amounts, core: int, rate: int = 0) -> Sample:
    """Run the row's load once against a running server; `rate` is that of a latency row. Raises LoadError."""
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
    """Wait until the server has answered also those requests whose clients have left."""
    until = time.monotonic() + SETTLE_SECONDS_MAX
    before = process.cpu_ns(running.pids())
    while time.monotonic() < until:
        time.sleep(SETTLED_SECONDS)
        now = process.cpu_ns(running.pids())
        if now - before < SETTLED_SHARE * SETTLED_SECONDS * 1e9:
            return
        before = now


def first_byte(row: Row, peer: Peer, round: int) -> Sample:
    """Start the peer's server and measure until the first byte of its first answer. Raises CannotRun."""
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
    # An open loop also warms up; the others measure all the time that they run.
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
    """The command prefix that keeps a program on one core."""
    return ["taskset", "-c", str(core)]


def other(core: int) -> int:
    """A core beside this one. Raises LoadError on a machine with one."""
    if (os.cpu_count() or 1) < 2:
        raise LoadError("this row needs a second core")
    return 1 if core == 0 else 0
