"""What a running server costs: its process tree, processor time and memory, read from /proc."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

STOP_SECONDS_MAX = 5.0


@dataclass(frozen=True)
class Memory:
    """Resident memory of a process tree in bytes."""

    pss: int
    """Proportional share: private pages, plus shared ones divided by those who map them."""
    rss: int
    """Everything mapped and resident; counts shared pages once per process."""
    private: int
    """Pages nobody else maps."""


def _parents() -> dict[int, list[int]]:
    """Children by parent for every process of the machine."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The command name may hold spaces and parentheses; fields count from the last one.
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry))
    return children


def tree(pid: int) -> list[int]:
    """The process and all its descendants."""
    children = _parents()
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting.extend(children.get(one, []))
    return found


def leaves(pid: int) -> list[int]:
    """The descendants (or the process itself) that have no children: the workers of a server."""
    children = _parents()
    return [one for one in tree(pid) if not children.get(one)]


def cpu_ns(pids: list[int]) -> int:
    """Nanoseconds on a processor, summed over the threads that live now.

    Threads that have ended take their time with them, so call this before and after a measurement
    on servers whose threads stay.
    """
    total = 0
    for pid in pids:
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
        except FileNotFoundError:
            continue
        for task in tasks:
            try:
                total += int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue
    return total


def memory(pids: list[int]) -> Memory:
    """Resident memory summed over processes."""
    sums = {"Pss": 0, "Rss": 0, "Private_Clean": 0, "Private_Dirty": 0}
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        for line in text.splitlines()[1:]:
            key, _, value = line.partition(":")
            if key in sums:
                sums[key] += int(value.split()[0]) * 1024
    return Memory(sums["Pss"], sums["Rss"], sums["Private_Clean"] + sums["Private_Dirty"])


def state(pid: int) -> str:
    """The one-letter state of a process (R, S, T, ...)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@dataclass(frozen=True)
class CoreTime:
    """A reading of one core's line in /proc/stat, or of that of all, in seconds since boot."""

    idle: float
    steal: float

    @staticmethod
    def now(core: int | None) -> CoreTime:
        tick = os.sysconf("SC_CLK_TCK")
        for line in Path("/proc/stat").read_text().splitlines():
            name, *fields = line.split()
            if name == ("cpu" if core is None else f"cpu{core}"):
                return CoreTime((int(fields[3]) + int(fields[4])) / tick, int(fields[7]) / tick)
        raise ValueError(f"this machine has no core {core}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a server started in a process group of its own: SIGTERM to it, SIGKILL to its group if it lingers, and to what
    had made itself a session of its own, as PHP-FPM does."""
    others = tree(process.pid)[1:]
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pid in others:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    """A port that is free now. Another program may take it before the one it is for."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
