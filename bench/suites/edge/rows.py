"""Measures an edge: held clients, proxied requests, messages, and other load on the machine."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bench.lib import process
from bench.lib.load import LoadError
from bench.lib.peers import FERMATA, Running
from bench.suites.held.rows import Amounts, climb, spread

from .backend import Backend

LADDERS = ("stream", "alive", "filter")
"""Rows that hold clients: without options, with the keep-alives of seed 001, and with a filter."""
MESSAGES = ("first", "slow", "burst")
"""Rows that publish: one message at a time to one client, one at a time to a thousand, and back to back to a thousand."""
ROWS = (*LADDERS, "proxy", *MESSAGES)

PROXY_CONNECTIONS = 50
FEWER_LEVELS = 3
GRACE_SECONDS = 60.0

FULL = Amounts((2_000, 6_000, 10_000, 14_000, 18_000), 3.0, 3.0, 1_000, (10, 110), (20, 220))
QUICK = Amounts((100, 200, 300), 0.5, 0.5, 50, (5, 15), (10, 60))
PROXY_SECONDS = {False: 4.0, True: 0.5}
"""Duration of the row `proxy`, by whether the run is quick."""


@dataclass
class Sample:
    """Result of one row of one edge in one round."""

    peer: str
    round: int
    row: str
    figures: dict[str, float] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    steal: float = 0.0
    """Share of all cores that the hypervisor gave to other machines."""
    foreign: float = 0.0
    """Share of all cores that processes other than edge, backend, clients and the benchmark used."""
    raw: dict[str, Any] = field(default_factory=dict)


def measure(row: str, running: Running, backend: Backend, id: str, round: int, quick: bool) -> Sample:
    """Measures one row of a running edge. Raises LoadError."""
    sample = Sample(id, round, row)
    amounts, out = QUICK if quick else FULL, running.peer.out
    with watched(sample, running, backend):
        if row in LADDERS:
            # The first ladder also measures connecting. The others measure only memory per client, so fewer clients suffice.
            some = amounts if row == LADDERS[0] else replace(amounts, levels=amounts.levels[:FEWER_LEVELS])
            held = climb(running, id, round, row, some, out)
            sample.raw = asdict(held)
            sample.errors = held.errors()
            sample.figures = {
                "memory": held.slope("private"),
                "memory-pss": held.slope(),
                "base": held.base.pss,
                "rate": held.connects_per_second(),
                "cpu": held.connect_cpu_ns(),
                "rest": held.rest_share(),
            }
        elif row == "proxy":
            proxied(sample, running, PROXY_SECONDS[quick])
        else:
            kind = "burst" if row == "burst" else "slow"
            some = replace(amounts, subscribers=1) if row == "first" else amounts
            found = spread(running, id, round, kind, some, out)
            sample.raw = asdict(found)
            sample.errors = found.errors
            sample.figures = {
                "cpu": found.cpu_per_delivery_ns(),
                "p50": found.last_byte_us["p50"],
                "p99": found.last_byte_us["p99"],
            }
    return sample


def proxied(sample: Sample, running: Running, seconds: float) -> None:
    """Sends proxied requests over keep-alive connections, without a rate limit."""
    pids = running.pids()
    before = process.cpu_ns(pids)
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [
            *(str(FERMATA), "load", "http", f"http://127.0.0.1:{running.port}/plain", "--quiet"),
            *(f"--connections={PROXY_CONNECTIONS}", f"--duration={seconds * 1000:.0f}ms", f"--json={file.name}"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + GRACE_SECONDS, check=False)
        text = file.read()
    if done.returncode == 2 or not text:
        raise LoadError(f"fermata load: {done.stderr.strip()[-300:]}")
    found = json.loads(text)
    counters = found["counters"]
    if not counters["responses"]:
        raise LoadError("no plain request was answered")
    wrong = ("bad_responses", "connect_failures", "failures", "timeouts")
    sample.errors = {name: counters[name] for name in wrong if counters[name]}
    sample.raw = {"counters": counters, "latency_us": found["latency_us"], "command": " ".join(command)}
    sample.figures = {
        "cpu": (process.cpu_ns(pids) - before) / counters["responses"],
        "rate": counters["responses"] / found["measured_s"],
        "p50": found["latency_us"]["p50"],
        "p99": found["latency_us"]["p99"],
    }


@contextmanager
def watched(sample: Sample, running: Running, backend: Backend) -> Iterator[None]:
    """Records the shares of the cores that other processes and the hypervisor used."""
    cores = os.cpu_count() or 1
    before, began = process.CoreTime.now(None), time.monotonic()
    busy = _busy_ns(running, backend)
    yield
    sample.seconds = time.monotonic() - began
    after = process.CoreTime.now(None)
    whole = sample.seconds * cores
    idle = (after.idle - before.idle) / whole
    sample.steal = (after.steal - before.steal) / whole
    sample.foreign = max(0.0, 1.0 - idle - sample.steal - (_busy_ns(running, backend) - busy) / 1e9 / whole)


def _busy_ns(running: Running, backend: Backend) -> int:
    """Returns the processor time of the measurement itself: edge, backend, exited clients and this process."""
    seconds = 0.0
    for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF):
        usage = resource.getrusage(who)
        seconds += usage.ru_utime + usage.ru_stime
    return process.cpu_ns(running.pids()) + backend.cpu_ns() + int(seconds * 1e9)
