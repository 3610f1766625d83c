"""Reads a server's processor time and the machine's memory during a step."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path

from . import kernel


@dataclass(frozen=True)
class Reading:
    at_s: float
    cpu_ns: int
    switches: int
    """Number of voluntary context switches, which equals the number of wake-ups."""


class Watch:
    """Reads the processes `pids` once per second until `stop`."""

    def __init__(self, pids: list[int], period_s: float = 1.0) -> None:
        self._pids = pids
        self._period_s = period_s
        self._end = threading.Event()
        self.readings = [read(pids)]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(self._period_s):
            self.readings.append(read(self._pids))

    def stop(self) -> Costs:
        self._end.set()
        self._thread.join()
        self.readings.append(read(self._pids))
        return costs(self.readings)


@dataclass(frozen=True)
class Costs:
    """Processor time as shares of one core, per second and in total."""

    seconds: float
    cpu_s: float
    mean: float
    per_second: list[float]
    wakes_per_s: float


def costs(readings: list[Reading]) -> Costs:
    first, last = readings[0], readings[-1]
    seconds = max(last.at_s - first.at_s, 1e-9)
    cpu_s = (last.cpu_ns - first.cpu_ns) / 1e9
    pairs = zip(readings, readings[1:], strict=False)
    per_second = [(b.cpu_ns - a.cpu_ns) / 1e9 / (b.at_s - a.at_s) for a, b in pairs if b.at_s - a.at_s > 0.5]
    return Costs(seconds, cpu_s, cpu_s / seconds, per_second, (last.switches - first.switches) / seconds)


def read(pids: list[int]) -> Reading:
    """Returns a reading of all processes. Only main threads are read, because the server's processes have one thread each."""
    at_s, cpu_ns, switches = time.monotonic(), 0, 0
    for pid in pids:
        try:
            cpu_ns += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        switches += int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])
    return Reading(at_s, cpu_ns, switches)


class MemoryGuard:
    """Calls `act` once if the machine's available memory falls below `bytes_min`, to protect other processes."""

    def __init__(self, bytes_min: int, act) -> None:
        self._bytes_min, self._act = bytes_min, act
        self._end = threading.Event()
        self.lowest = kernel.available_bytes()
        self.has_acted = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(0.5):
            available = kernel.available_bytes()
            self.lowest = min(self.lowest, available)
            if available < self._bytes_min:
                self.has_acted = True
                self._act()
                return

    def stop(self) -> None:
        self._end.set()
        self._thread.join()
