"""The rows of the tables and how one measurement of each is taken."""

from __future__ import annotations

from dataclasses import dataclass, field

from . import process
from .load import Load, LoadError, ab, wrk
from .peers import Peer, Running
from .receiver import MESSAGE_PATH, Receiver

ARRIVAL_SECONDS_MAX = 2.0
"""How long a message may be on its way after the last request has been answered."""


@dataclass(frozen=True)
class Row:
    id: str
    title: str
    service: str
    script: str = ""
    """The wrk script of a closed-loop row; empty for a row of ab."""
    message: bool = False
    """Sends messages to one held receiver instead of fetching the page."""
    keep_alive: bool = False
    extra: bool = False
    """Not one of issue 2's rows: measured only when named."""

    def fits(self, peer: Peer) -> bool:
        service = peer.services.get(self.service)
        return service is not None and (not self.message or service.message != "")


ROWS = [
    Row(
        "json",
        "`GET /`, small JSON, one-core closed loop (wrk, 100 connections)",
        "json",
        "report.lua",
    ),
    Row(
        "json-new-url",
        "The same with a URL never seen before in every request",
        "json",
        "new_url.lua",
    ),
    Row(
        "json-pipelined",
        "The same with 16 requests in one write",
        "json",
        "pipeline.lua",
        extra=True,
    ),
    Row("page", "Page, a connection per request (ab -c 10)", "chat"),
    Row("page-keep-alive", "Page, keep-alive (ab -c 10 -k)", "chat", keep_alive=True, extra=True),
    Row(
        "message",
        "Message to one held receiver, a connection per request (ab -c 10)",
        "chat",
        message=True,
    ),
    Row(
        "message-keep-alive",
        "Message to one held receiver, keep-alive (ab -c 10 -k)",
        "chat",
        message=True,
        keep_alive=True,
    ),
]

MEMORY = "memory"
"""Not a rate: resident memory after the page row's load, each server alone."""


@dataclass(frozen=True)
class Amounts:
    """How much one measurement does."""

    wrk_seconds: int
    ab_requests: int


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


def measure(row: Row, running: Running, round: int, amounts: Amounts, core: int) -> Sample:
    """Run the row's load once against a running server. Raises LoadError."""
    pin = pinned(core)
    if not row.message:
        return _measure(row, running, round, amounts, core, pin, None)
    with Receiver(running.port, pin) as receiver:
        return _measure(row, running, round, amounts, core, pin, receiver)


def _measure(
    row: Row,
    running: Running,
    round: int,
    amounts: Amounts,
    core: int,
    pin: list[str],
    receiver: Receiver | None,
) -> Sample:
    pids = running.pids()
    arrived_before = receiver.count() if receiver else 0
    receiver_before = receiver.cpu_ns() if receiver else 0
    core_before, cpu_before = process.CoreTime.now(core), process.cpu_ns(pids)

    load = _load(row, running.port, amounts, pin)
    expected = load.requests
    arrived = receiver.wait_for(arrived_before + expected, ARRIVAL_SECONDS_MAX) if receiver else 0

    server = process.cpu_ns(pids) - cpu_before
    core_after = process.CoreTime.now(core)
    receiver_cpu = receiver.cpu_ns() - receiver_before if receiver else 0
    delivered = arrived - arrived_before if receiver else None
    if not running.alive():
        raise LoadError(f"the server ended during the measurement; see {running.log}")

    errors = dict(load.errors)
    if delivered is not None and delivered != expected:
        errors["not delivered"] = expected - delivered
    busy = (server + load.client_cpu_ns + receiver_cpu) / 1e9
    idle = (core_after.idle - core_before.idle) / load.seconds
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
        steal=(core_after.steal - core_before.steal) / load.seconds,
        foreign=max(0.0, 1.0 - idle - busy / load.seconds),
        delivered=delivered,
        command=load.command,
        errors=errors,
        latency_us=load.latency_us,
        kept_alive=load.kept_alive,
    )


def _load(row: Row, port: int, amounts: Amounts, pin: list[str]) -> Load:
    if row.script:
        return wrk(pin, port, amounts.wrk_seconds, row.script)
    return ab(pin, port, amounts.ab_requests, MESSAGE_PATH if row.message else "/", row.keep_alive)


def pinned(core: int) -> list[str]:
    """The command prefix that keeps a program on one core."""
    return ["taskset", "-c", str(core)]
