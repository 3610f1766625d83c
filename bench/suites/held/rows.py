"""Measures growing numbers of held clients, the idle server at the maximum, and messages to a thousand clients."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.lib import process
from bench.lib.peers import Running

from .load import Holding, Report, broadcast

SETTLE_SECONDS_MAX = 10.0
SETTLE_STEP_SECONDS = 0.25
REST_SHARE = 0.02
"""Share of a core below which a server counts as idle for one step."""
ATTACH_SECONDS = 0.5
"""Time for strace to attach to all threads."""
GROUP_CLIENTS = 50
"""Clients per channel while the number of clients grows."""
MESSAGE_BYTES = 128


@dataclass(frozen=True)
class Amounts:
    levels: tuple[int, ...]
    rest_seconds: float
    """Duration of the measurement of the idle server with all clients."""
    alive_seconds: float
    """Duration of that measurement with keep-alives: one keep-alive period."""
    subscribers: int
    slow_messages: tuple[int, int]
    """Messages sent one at a time in the short and in the long run, whose difference is measured."""
    burst_messages: tuple[int, int]


FULL = Amounts((2_000, 6_000, 10_000, 14_000, 18_000), 10.0, 55.0, 1_000, (10, 110), (20, 220))
QUICK = Amounts((100, 200, 300), 1.0, 2.0, 50, (5, 15), (10, 60))

SLOW_PER_SECOND = 20.0
BURST_PER_SECOND = 2_000.0
"""Rate above the capacity of every server. The publisher sends each message after the response to the previous one."""


@dataclass(frozen=True)
class Level:
    """State of the idle server with a number of held clients."""

    clients: int
    memory: process.Memory
    cpu_ns: int
    """Processor time since the server's start."""


@dataclass
class Ladder:
    peer: str
    round: int
    kind: str
    """`stream`: without keep-alives; `alive`: a keep-alive every 55 s; `socket`: WebSockets without pings."""
    base: process.Memory
    base_worker: process.Memory
    """Memory without clients of the largest process without children: Fermata's worker."""
    levels: list[Level] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)
    rest_seconds: float = 0.0
    rest_cpu_ns: int = 0
    rest_calls: dict[str, int] | None = None
    """System calls of the idle server in `calls_seconds`; None without strace."""
    calls_seconds: float = 0.0
    rest_bytes: list[int] = field(default_factory=list)
    """Bytes of keep-alives that all clients received in each idle second."""
    processes: dict[str, int] = field(default_factory=dict)
    """Private memory in bytes by command name, with all clients."""

    def slope(self, what: str = "pss") -> float:
        """Returns the bytes per additional client, by least squares over the levels."""
        return least_squares([(level.clients, getattr(level.memory, what)) for level in self.levels])

    def connect_cpu_ns(self) -> float:
        first, last = self.levels[0], self.levels[-1]
        return (last.cpu_ns - first.cpu_ns) / (last.clients - first.clients)

    def connects_per_second(self) -> float:
        """Returns the connection rate over all steps except the first, which includes the server's warm-up."""
        steps = self.reports[1:]
        seconds = sum(report.connected_seconds for report in steps)
        return sum(report.clients for report in steps) / seconds if seconds else 0.0

    def burst(self) -> float | None:
        """Returns the maximum of received bytes per idle second, divided by the mean. None if clients received nothing."""
        total = sum(self.rest_bytes)
        return max(self.rest_bytes) * len(self.rest_bytes) / total if total else None

    def rest_share(self) -> float:
        return self.rest_cpu_ns / (self.rest_seconds * 1e9)

    def errors(self) -> dict[str, int]:
        return merge_errors(self.reports)


@dataclass(frozen=True)
class Broadcast:
    peer: str
    round: int
    kind: str
    """`slow`: one message at a time; `burst`: messages back to back."""
    subscribers: int
    deliveries: int
    cpu_ns: int
    """Processor time. Like `deliveries`, it is the difference of the long and the short run."""
    last_byte_us: dict[str, float]
    seconds: float
    errors: dict[str, int]

    def cpu_per_delivery_ns(self) -> float:
        return self.cpu_ns / self.deliveries if self.deliveries else 0.0


def climb(server: Running, id: str, round: int, kind: str, amounts: Amounts, folder: Path) -> Ladder:
    """Holds a growing number of clients, measures the memory at every level, and the idle server at the last level."""
    pids = server.pids()
    rest(pids)
    leaves = [process.memory([pid]) for pid in process.leaves(server.process.pid)]
    ladder = Ladder(id, round, kind, process.memory(pids), max(leaves, key=lambda memory: memory.private))
    loads: list[Holding] = []
    try:
        held = 0
        for level in amounts.levels:
            clients = level - held
            groups = max(1, clients // GROUP_CLIENTS)
            scheme = "ws" if kind == "socket" else "http"
            url = f"{scheme}://127.0.0.1:{server.port}/{kind}/group-{{n}}"
            load = Holding(url, clients, groups, len(loads), folder)
            loads.append(load)
            load.wait_connected()
            held = level
            pids = server.pids()
            rest(pids)
            ladder.levels.append(Level(held, process.memory(pids), process.cpu_ns(pids)))
        ladder.processes = by_program(pids)
        before, began = process.cpu_ns(pids), time.monotonic()
        ladder.rest_bytes = watch(loads, amounts.alive_seconds if kind == "alive" else amounts.rest_seconds)
        ladder.rest_seconds = time.monotonic() - began
        ladder.rest_cpu_ns = process.cpu_ns(pids) - before
        if kind == "stream":
            ladder.calls_seconds = amounts.rest_seconds
            ladder.rest_calls = system_calls(pids, amounts.rest_seconds)
        ladder.reports = [load.end() for load in loads]
    finally:
        for load in loads:
            load.kill()
    return ladder


def spread(server: Running, id: str, round: int, kind: str, amounts: Amounts, folder: Path) -> Broadcast:
    """Publishes to one group in a short and a long run. Returns their difference, so the cost of connecting is excluded."""
    counts = amounts.slow_messages if kind == "slow" else amounts.burst_messages
    per_second = SLOW_PER_SECOND if kind == "slow" else BURST_PER_SECOND
    body, publish = server.service.publish_body, server.peer.fill(server.service.publish, server.ports)
    # There is a single group, so replace {n} by its number, 0.
    body, publish = body.replace("{n}", "0"), publish.replace("{n}", "0")
    url = f"http://127.0.0.1:{server.port}/stream/group-0"
    found: list[tuple[int, Report]] = []
    seconds = 0.0
    for count in counts:
        pids = server.pids()
        rest(pids)
        before = process.cpu_ns(pids)
        seconds = count / per_second
        report = broadcast(
            url,
            publish,
            body,
            amounts.subscribers,
            per_second,
            seconds,
            MESSAGE_BYTES,
            folder,
        )
        rest(pids)
        found.append((process.cpu_ns(pids) - before, report))
    (short_cpu, short), (long_cpu, long) = found
    return Broadcast(
        peer=id,
        round=round,
        kind=kind,
        subscribers=amounts.subscribers,
        deliveries=long.deliveries - short.deliveries,
        cpu_ns=long_cpu - short_cpu,
        last_byte_us=long.last_byte_us,
        seconds=seconds,
        errors=merge_errors([short, long]),
    )


def rest(pids: list[int]) -> None:
    """Waits until the server is almost idle, but at most SETTLE_SECONDS_MAX, because some servers never are."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    last = process.cpu_ns(pids)
    while time.monotonic() < deadline:
        time.sleep(SETTLE_STEP_SECONDS)
        now = process.cpu_ns(pids)
        if now - last < REST_SHARE * SETTLE_STEP_SECONDS * 1e9:
            return
        last = now


def system_calls(pids: list[int], seconds: float) -> dict[str, int] | None:
    """Returns the system calls of processes within `seconds`, by name. None if strace is missing or fails."""
    if shutil.which("strace") is None:
        return None
    with tempfile.NamedTemporaryFile() as file:
        attach = [word for pid in pids for word in ("-p", str(pid))]
        command = ["strace", "-f", "-qq", "-ttt", "-o", file.name, *attach]
        watcher = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Wait first: attaching interrupts the system call in which a process sleeps, and causes calls of its own.
        time.sleep(ATTACH_SECONDS)
        attached = time.time()
        time.sleep(seconds)
        if watcher.poll() is not None:
            return None
        watcher.terminate()
        watcher.wait()
        return completed_calls(Path(file.name).read_text(errors="replace"), attached)


def completed_calls(text: str, since: float) -> dict[str, int]:
    """Returns the number of system calls that returned after `since`, by name, from a trace with timestamps."""
    calls: dict[str, int] = {}
    for at, name in re.findall(r"^\d+ +(\d+\.\d+) (?:<\.\.\. )?(\w+)[( ].* = ", text, re.MULTILINE):
        if float(at) >= since:
            calls[name] = calls.get(name, 0) + 1
    return calls


def watch(loads: list[Holding], seconds: float) -> list[int]:
    """Returns the bytes that clients received in each second. It queries only the load processes, not the server."""
    got: list[int] = []
    last = sum(load.received() for load in loads)
    began = time.monotonic()
    while len(got) < seconds:
        time.sleep(max(0.0, began + len(got) + 1 - time.monotonic()))
        now = sum(load.received() for load in loads)
        got.append(now - last)
        last = now
    return got


def by_program(pids: list[int]) -> dict[str, int]:
    """Returns the private memory in bytes, by command name."""
    found: dict[str, int] = {}
    for pid in pids:
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            continue
        found[name] = found.get(name, 0) + process.memory([pid]).private
    return found


def merge_errors(reports: list[Report]) -> dict[str, int]:
    errors: dict[str, int] = {}
    for report in reports:
        for name, count in report.errors.items():
            errors[name] = errors.get(name, 0) + count
    return errors


def least_squares(points: list[tuple[float, float]]) -> float:
    """Returns the slope of the regression line through the points."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count
    mean_y = sum(y for _, y in points) / count
    across = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / across if across else 0.0
