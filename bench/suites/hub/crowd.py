"""`python3 -m bench hub --crowd`: measures very many clients of Echo at one `fermata hub`, with both ends on this machine.

It connects subscribers of one channel, measures their user and kernel memory, checks that the hub counts all of them, and
publishes events to all, one after another. As in the other parts of `bench hub`, processor time is the hub's only. Times and
rates include the clients, which share the machine's cores, so they are bounds for the hub.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Protocol

from bench.lib import markdown, process
from bench.lib.peers import CannotRun
from bench.lib.ready import note
from bench.suites.crowd.kernel import Kernel, share
from bench.suites.crowd.network import Network

from .servers import HUBS, SUBJECT, Running, channel_info, running

VERSION = 1
"""Version of the raw file's format. It is raised when the meaning of a field changes."""
MANY = 100_000
QUICK_MANY = 2_000
EVENTS = 10
QUICK_EVENTS = 2
FEW_EACH = 100
"""Subscribers per worker before the first measurement of memory. By then a worker has allocated its permanent memory."""
SETTLE_SECONDS = 2.0
IDLE_SECONDS = 20.0
BYTES_MAX = 400.0
FIGURES = (
    ("subscribers", "subscribers, by the hub's own count", ""),
    ("connects_per_s", "connect and subscribe, both ends on the machine", "/s"),
    ("fill_s", "time to fill", "s"),
    ("connect_us", "processor of the hub per connection that subscribes", "µs"),
    ("user_bytes", "user memory per idle subscriber", "B"),
    ("kernel_bytes", "kernel memory per idle subscriber, the hub's half", "B"),
    ("base_private_per_worker", f"private memory of a worker with {FEW_EACH} subscribers", "B"),
    ("idle_cpu_percent", "processor with all of them idle, share of a core", "%"),
    ("answered_ms", "one event to all: until its publisher is answered, median", "ms"),
    ("last_ms", "one event to all: until the last has it, median", "ms"),
    ("last_max_ms", "one event to all: until the last has it, worst", "ms"),
    ("publish_ms", "processor of the hub for one event to all", "ms"),
    ("deliveries_per_core_s", "deliveries per second of the hub's processor", "/s"),
)


class Clients(Protocol):
    """The interface of `Clients` in main.py."""

    last: float

    def open(self, count: int) -> None: ...

    def hear(self, events: int) -> None: ...


def count_of(server: Running) -> int:
    """Returns the channel's number of subscribers, as reported by the hub."""
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(line):
        path = channel_info()
        line.request("GET", path)
        answer = line.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise CannotRun(f"a question for the channel was answered {answer.status}: {text[:200]!r}")
        return int(json.loads(text)["subscription_count"])


def measure(clients_of: Any, count: int, events: int, workers: int, idle_s: float) -> Iterator[tuple[str, Any]]:
    """Yields every figure immediately, so that figures measured before a failure are stored."""
    with running(HUBS[SUBJECT], workers) as server, clients_of("pusher", server.port, count) as clients:
        yield "command", " ".join(server.command)
        few = min(FEW_EACH * workers, count // 2)
        clients.open(few)
        time.sleep(SETTLE_SECONDS)
        pids = server.pids()
        few_bytes, kernel, cpu_ns = process.memory(pids).private, Kernel.now(), process.cpu_ns(pids)
        yield "base_private_per_worker", few_bytes / workers
        start = time.monotonic()
        clients.open(count - few)
        seconds = time.monotonic() - start
        connect_ns = process.cpu_ns(pids) - cpu_ns
        yield "fill_s", seconds
        yield "connects_per_s", (count - few) / seconds
        yield "connect_us", connect_ns / (count - few) / 1000
        note(f"{count:,} subscribers in {seconds:.1f} s")
        time.sleep(SETTLE_SECONDS)
        found = share(kernel, Kernel.now())
        yield "user_bytes", (process.memory(pids).private - few_bytes) / (count - few)
        yield "kernel_bytes", found.server / (count - few)
        yield "kernel_kinds", found.kinds
        subscribers = count_of(server)
        yield "subscribers", subscribers
        if subscribers != count:
            raise CannotRun(f"the hub counts {subscribers:,} of {count:,} subscribers")
        cpu_ns = process.cpu_ns(pids)
        time.sleep(idle_s)
        yield "idle_cpu_percent", (process.cpu_ns(pids) - cpu_ns) / idle_s / 1e7
        yield from _publish(server, clients, count, events, pids)
        if server.pids() != pids:
            raise CannotRun("its processes have changed while it was measured")
        if (subscribers := count_of(server)) != count:
            raise CannotRun(f"the hub counts {subscribers:,} of {count:,} subscribers at the end")


def _publish(server: Running, clients: Clients, count: int, events: int, pids: list[int]) -> Iterator[tuple[str, Any]]:
    line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    answered, last, spent = [], [], []
    with contextlib.closing(line):
        # The first event is not measured: it includes one-time costs.
        for at in range(events + 1):
            cpu_ns, start = process.cpu_ns(pids), time.monotonic()
            server.publish("pusher", line)
            end = time.monotonic()
            clients.hear(1)
            if at:
                answered.append((end - start) * 1000)
                last.append((clients.last - start) * 1000)
                spent.append((process.cpu_ns(pids) - cpu_ns) / 1e6)
    yield "each_last_ms", last
    yield "answered_ms", median(answered)
    yield "last_ms", median(last)
    yield "last_max_ms", max(last)
    yield "publish_ms", median(spent)
    yield "deliveries_per_core_s", count / median(spent) * 1000


def report(figures: dict[str, Any], options: dict[str, Any], facts: dict[str, str], here: Network, failure: str) -> str:
    lines = [
        f"# {options['subscribers']:,} clients of Echo at one hub",
        "",
        markdown.machine_line(facts),
        "",
        f"`{options['command']}`, {options['workers']} workers, one channel, {options['events']} events, "
        f"{'in a network namespace of its own' if here.is_own else 'in the network of the machine'}; "
        f"the machine's load was {options['load']:.1f}.",
    ]
    if options["build"]:
        lines += ["", f"The hub's program: {options['build']}."]
    if failure:
        lines += ["", f"**Failed**: {failure}"]
    rows = [(about, _shown(figures[name], unit)) for name, about, unit in FIGURES if name in figures]
    lines += ["", markdown.table(("Figure", "Found"), rows), ""]
    if "user_bytes" in figures:
        value = figures["user_bytes"]
        lines.append(f"- user memory: {value:,.0f} B, at most {BYTES_MAX:.0f} B: {'reached' if value <= BYTES_MAX else 'MISSED'}")
    lines.append("- The clients are Python and share the cores with the hub: rates and times are of both ends together.")
    return "\n".join(lines) + "\n"


def _shown(value: float, unit: str) -> str:
    """Returns a value with its unit. Bytes and counts are rounded to integers."""
    return f"{value:,.{0 if unit in ('', 'B', '/s') else 1}f} {unit}".strip()


def write(
    folder: Path, started: datetime, figures: dict[str, Any], options: dict[str, Any], facts: dict[str, str], here: Network,
    failure: str,
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    table, raw = (folder / f"crowd-hub-{started:%H%M%S}.{ending}" for ending in ("md", "json"))
    document = {
        "version": VERSION,
        "started": started.isoformat(timespec="seconds"),
        "machine": facts,
        "options": options,
        "settings": here.settings,
        "figures": figures,
        "failure": failure,
    }
    table.write_text(report(figures, options, facts, here, failure))
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return table


def run(
    clients_of: Any, options: dict[str, Any], facts: dict[str, str], started: datetime, here: Network, folder: Path, idle_s: float
) -> int:
    """Measures, prints and stores the figures. Returns 1 if a client was lost or the hub failed."""
    figures: dict[str, Any] = {}
    failure = ""
    try:
        for name, value in measure(clients_of, options["subscribers"], options["events"], options["workers"], idle_s):
            figures[name] = value
    except (CannotRun, OSError, KeyError, ValueError) as reason:
        failure = str(reason) or type(reason).__name__
    options["load"] = os.getloadavg()[0]
    table = write(folder, started, figures, options, facts, here, failure)
    print(table.read_text())
    note(f"table: {table}")
    if failure:
        note(f"failed: {failure}")
    return 1 if failure else 0
