"""Reads the process tree, processor time and memory of a running server from /proc."""

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
    """Proportional set size: private pages, plus shared pages divided by the number of processes that map them."""
    rss: int
    """Resident set size: counts shared pages once per process."""
    private: int
    """Pages that no other process maps."""


def _parents() -> dict[int, list[int]]:
    """Returns the children of every process on the machine, by parent."""
    children: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = Path("/proc", entry, "stat").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The command name may contain spaces and parentheses, so fields start after the last parenthesis.
        parent = int(stat.rpartition(")")[2].split()[1])
        children.setdefault(parent, []).append(int(entry))
    return children


def tree(pid: int) -> list[int]:
    """Returns a process and all its descendants."""
    children = _parents()
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting.extend(children.get(one, []))
    return found


def leaves(pid: int) -> list[int]:
    """Returns the processes of the tree without children: the workers of a server."""
    children = _parents()
    return [one for one in tree(pid) if not children.get(one)]


def cpu_ns(pids: list[int]) -> int:
    """Returns the processor time in nanoseconds, summed over all existing threads.

    The time of exited threads is not counted. The difference of two calls is therefore valid only for servers whose threads
    do not exit.
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
    """Returns the resident memory, summed over processes."""
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
    """Returns the one-letter state of a process (R, S, T, ...)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@dataclass(frozen=True)
class CoreTime:
    """Idle and stolen time of one core or of all cores since boot in seconds, from /proc/stat."""

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
    """Stops a server in a separate process group: sends SIGTERM to it, then SIGKILL to its group and to descendants
    in other sessions, such as PHP-FPM's."""
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
    """Returns a free port. Another process may bind it before the caller does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
