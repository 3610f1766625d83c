"""The parts of a run. Each connects clients to a server, publishes to them, and stores figures in its `Part`.

Goals in goals.toml refer to figures by name.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from bench.lib import process

from . import kernel
from .clients import FERMATA, Clients, Event, requests, requests_result
from .server import Server
from .watch import Costs, MemoryGuard, Watch

PER_WORKER = 18_600
"""Average number of clients per worker. SO_REUSEPORT distributes them by hash, so some workers get a few hundred more."""
CONNECTIONS_MAX = 19_600
"""Maximum number of connections per worker, below the hard limit of 20,000 descriptors."""
GET_RATE = 100
WARM_UP_PER_WORKER = 100
PART_SECONDS_MAX = 300.0
SETTLE = "60s"
COALESCE = "4ms"
"""Delay of the clients' reads: without it, wake-ups take half of the machine's time. It adds to measured latencies."""


class Aborted(Exception):
    """The run was stopped early; the message is the reason."""


@dataclass
class Size:
    """Sizes and durations of the parts. The quick run has smaller ones."""

    clients: int = 1_000_000
    groups: int = 1_000
    workers: int | None = None
    rest_s: float = 13
    idle_s: float = 15
    publish_s: float = 30
    publish_rate: float = 20
    all_s: float = 9
    all_rate: float = 0.1
    sustained_s: float = 8
    sustained_rate: float = 100
    broadcast_clients: int = 100_000
    broadcast_s: float = 10
    broadcast_rate: float = 1
    keep_alive_s: int = 55
    interval_s: float = 1
    memory_min: int = 2 << 30
    part_s_max: float = PART_SECONDS_MAX

    def workers_for(self, clients: int) -> int:
        return self.workers or max(2, -(-clients // PER_WORKER))


@dataclass
class Part:
    """Results of one part."""

    name: str
    figures: dict[str, float] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    load: dict[str, Any] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)


class Stage:
    """A server and its clients, and the measurements during the clients' steps."""

    def __init__(self, part: Part, size: Size, server: Server, clients: int, groups: int) -> None:
        self.part, self.size, self.server = part, size, server
        self.clients, self.groups = clients, groups
        part.commands.append(" ".join([*(f"{k}={v}" for k, v in self.server.environment.items()), *self.server.command]))
        part.details["workers"] = self.server.workers
        self.costs: dict[str, Costs] = {}
        self.gets: dict[str, dict[str, Any]] = {}
        self.pids: list[int] = []
        self.notes: list[str] = []

    def warm_up(self, groups: int = 8) -> None:
        """Sends requests and holds a few clients on every worker. Memory that remains allocated belongs to the worker."""
        count = str(self.server.workers * WARM_UP_PER_WORKER)
        # The step sets a rate only for single groups, so no event is published to all groups.
        publishing = [*self.server.publishing(), "--publish-connections", "64"]
        for arguments in (
            ["sse", self.server.streams(), "--clients", count, "--groups", str(groups), "--step", "warm-up=1s,groups=20",
             *publishing],
            ["http", self.server.url(self.server.page), "--no-keep-alive", "--requests", str(self.server.workers * 20)],
        ):
            subprocess.run([str(FERMATA), "load", *arguments, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        self.pids = self.server.pids()

    def run(self, steps: list[str], gets: dict[str, float], on_step) -> dict[str, Any]:
        """Holds the clients through the steps. `gets` has the seconds of `GET /` load per step. `on_step(name)` is called in
        this thread at the start of a step, and must return before the step ends."""
        waiting: list[Event] = []
        watches: dict[str, Watch] = {}
        running: dict[str, subprocess.Popen[bytes]] = {}
        reached: list[str] = []

        def on_event(event: Event) -> None:
            name = event.get("step")
            if name is None:
                note(progress(event))
            elif event["event"] == "begins":
                watches[name] = Watch(self.pids)
                if seconds := gets.get(name):
                    running[name] = requests(self.server.url(self.server.page), GET_RATE, seconds)
                waiting.append(event)
            elif name in watches:
                self.costs[name] = watches[name].stop()

        arguments = [
            "hold", self.server.streams(),
            "--clients", str(self.clients), "--groups", str(self.groups), "--settle", SETTLE,
            "--interval", f"{self.size.interval_s}s",
            *self.server.publishing(), "--publish-queue-max", "1000000", "--publish-timeout", SETTLE, "--coalesce", COALESCE,
            *(f"--step={step}" for step in steps),
        ]
        clients = Clients(arguments, on_event)
        self.part.commands.append(" ".join(clients.command))
        guard = MemoryGuard(self.size.memory_min, clients.process.kill)
        deadline = time.monotonic() + self.size.part_s_max
        try:
            while clients.process.poll() is None:
                if waiting:
                    name = waiting.pop(0)["step"]
                    reached.append(name)
                    note(f"step {name}")
                    on_step(name)
                time.sleep(0.05)
                if time.monotonic() > deadline:
                    raise Aborted(f"the part \"{self.part.name}\" took more than {self.size.part_s_max:.0f} s (--part-seconds-max)")
            for name, get in running.items():
                self.gets[name] = requests_result(get)
            if guard.has_acted:
                raise Aborted(f"less than {self.size.memory_min >> 20} MiB of memory were left; see --memory-min")
            load = clients.result()
        finally:
            guard.stop()
            self._keep_costs(guard.lowest)
            for get in running.values():
                if get.poll() is None:
                    get.terminate()
                    get.wait()
            clients.close()
        self.part.load = load
        self.part.details["gets"] = {name: get["latency_us"] for name, get in self.gets.items()}
        return {step["name"]: step for step in load["steps"]}

    def _keep_costs(self, memory_lowest: int) -> None:
        self.part.details["memory_available_min"] = memory_lowest
        self.part.details["costs"] = {name: vars(cost) for name, cost in self.costs.items()}

    def stats(self) -> dict[str, Any]:
        """Returns the output of `fermata stats`."""
        command = [str(FERMATA), "stats", "--json", "--control", self.server.control]
        return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)

    def close(self) -> None:
        self.server.close()


def server_for(size: Size, clients: int, groups: int, keep_alive_s: int = 0) -> Server:
    return Server(size.workers_for(clients), CONNECTIONS_MAX, groups, keep_alive_s)


def hold_a_crowd(part: Part, size: Size) -> None:
    """Holds a million clients: they connect, rest, and receive messages."""
    before_server = kernel.Kernel.now()
    server = server_for(size, size.clients, size.groups)
    stage = Stage(part, size, server, size.clients, size.groups)
    try:
        part.figures["start_ms"] = server.first_answer_s * 1000
        part.figures["start_all_ms"] = server.all_started_s * 1000
        stage.warm_up()
        base = process.memory(server.pids())
        part.figures["base_private_per_worker"] = base.private / server.workers
        part.figures["base_pss_per_worker"] = base.pss / server.workers
        kernel_base = kernel.Kernel.now()

        def on_step(name: str) -> None:
            # Measure after the resting step, when time-outs of the connecting phase have expired.
            if name != "memory":
                return
            held = process.memory(server.pids())
            grown = kernel.share(kernel_base, kernel.Kernel.now())
            part.details["memory"] = {
                "base": vars(base), "held": vars(held), "kernel": vars(grown),
                "kernel_of_empty_workers": kernel.share(before_server, kernel_base).both,
            }
            note_memory(part, size, base, held, grown)
            part.details["largest_worker"] = max(worker["connections"]["sse"] for worker in stage.stats()["workers"])

        steps = stage.run(
            [
                f"rest={size.rest_s}s",
                f"memory={size.rest_s / 2}s",
                f"idle={size.idle_s}s",
                f"groups={size.publish_s}s,groups={size.publish_rate}",
                f"all={size.all_s}s,all={size.all_rate}",
                f"sustained={size.sustained_s}s,groups={size.sustained_rate}",
            ],
            {"groups": size.publish_s},
            on_step,
        )
    finally:
        if idle := stage.costs.get("idle"):
            part.figures["idle_cpu_percent"] = idle.mean * 100
        stage.close()
    note_load(part, stage, steps)
    part.figures["all_last_byte_ms"] = steps["all"]["last_byte_us"]["p50"] / 1000


def note_memory(part: Part, size: Size, base: process.Memory, held: process.Memory, grown: kernel.Share) -> None:
    """Stores the memory per client that was added since `base`."""
    part.figures["user_bytes_per_client"] = (held.private - base.private) / size.clients
    part.figures["user_pss_per_client"] = (held.pss - base.pss) / size.clients
    part.figures["kernel_bytes_per_client"] = grown.server / size.clients
    part.figures["server_total_gb"] = (held.pss + grown.server) / 1e9


def note_load(part: Part, stage: Stage, steps: dict[str, Any]) -> None:
    """Stores the load generator's figures for connecting, messages to groups, and sustained messages."""
    load = part.load
    part.figures["held"] = load["open_max"]
    part.figures["fill_s"] = load["connected_s"]
    part.figures["connects_per_s"] = load["counters"]["connects"] / max(load["connected_s"], 1e-9)
    groups = steps["groups"]["last_byte_us"]
    part.figures["group_last_byte_p50_ms"] = groups["p50"] / 1000
    part.figures["group_last_byte_p99_ms"] = groups["p99"] / 1000
    part.figures["get_p50_ms"] = stage.gets["groups"]["latency_us"]["p50"] / 1000
    part.figures["get_p99_ms"] = stage.gets["groups"]["latency_us"]["p99"] / 1000
    sustained = steps["sustained"]["counters"]["deliveries"]
    part.figures["deliveries_per_core_s"] = sustained / max(stage.costs["sustained"].cpu_s, 1e-9)
    part.figures["deliveries_per_s"] = rate_within(load, steps["sustained"])
    part.figures["lost"] = faults(load)


def broadcast(part: Part, size: Size) -> None:
    """Publishes to one channel with a tenth of the clients."""
    stage = Stage(part, size, server_for(size, size.broadcast_clients, 1), size.broadcast_clients, 1)
    try:
        stage.warm_up()
        steps = stage.run(
            ["rest=3s", f"broadcast={size.broadcast_s}s,all={size.broadcast_rate}"],
            {"broadcast": size.broadcast_s},
            lambda name: None,
        )
    finally:
        stage.close()
    last_byte = steps["broadcast"]["last_byte_us"]
    part.figures["broadcast_last_byte_ms"] = last_byte["p50"] / 1000
    part.figures["broadcast_last_byte_max_ms"] = last_byte["max"] / 1000
    part.figures["broadcast_get_p99_ms"] = stage.gets["broadcast"]["latency_us"]["p99"] / 1000
    deliveries = steps["broadcast"]["counters"]["deliveries"]
    part.figures["broadcast_deliveries_per_core_s"] = deliveries / max(stage.costs["broadcast"].cpu_s, 1e-9)
    part.figures["broadcast_lost"] = faults(part.load)


def keep_alive(part: Part, size: Size) -> None:
    """Holds all clients with keep-alive comments every `keep_alive_s` seconds."""
    server = server_for(size, size.clients, size.groups, size.keep_alive_s)
    stage = Stage(part, size, server, size.clients, size.groups)
    sent: list[tuple[float, int]] = []
    try:
        stage.warm_up()

        def on_step(name: str) -> None:
            if name != "keep-alive":
                return
            end = time.monotonic() + size.keep_alive_s
            while time.monotonic() < end:
                sent.append((time.monotonic(), stage.stats()["total"]["keep_alives"]))
                time.sleep(1)

        stage.run(
            [f"rest={size.keep_alive_s / 2}s", f"keep-alive={size.keep_alive_s}s"],
            {},
            on_step,
        )
    finally:
        stage.close()
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in zip(sent, sent[1:], strict=False)]
    cost = stage.costs["keep-alive"]
    part.details["keep_alives_per_s"] = rates
    part.figures["keep_alive_cpu_percent"] = cost.mean * 100
    part.figures["keep_alive_cpu_max_percent"] = max(cost.per_second, default=cost.mean) * 100
    part.figures["keep_alives_per_s"] = sum(rates) / max(len(rates), 1)
    part.figures["keep_alives_burst"] = max(rates, default=0) / max(sum(rates) / max(len(rates), 1), 1e-9)
    part.figures["keep_alive_lost"] = faults(part.load)


def rate_within(load: dict[str, Any], step: dict[str, Any]) -> float:
    """Returns the deliveries per second in the middle of a step, without its first second."""
    begin, end = step["from_s"] + 1, step["from_s"] + step["hold_s"]
    points = [point["deliveries_per_s"] for point in load["series"] if begin < point["at_s"] <= end]
    return sum(points) / len(points) if points else 0.0


def faults(load: dict[str, Any]) -> int:
    """Returns the number of faults that clients detected. Any other failure of the generator counts as one."""
    names = ("not_held", "lost", "missing", "repeated", "corrupt", "misdirected", "gap_events", "publish_skipped")
    # A publish without a response may not have taken effect.
    incomplete = max(load["incomplete_publishes"] - load["counters"]["publish_failures"], 0)
    found = sum(load["counters"][name] for name in names) + incomplete
    return found or int(not load["passed"])


def progress(event: Event) -> str:
    text = f"{event['at_s']:7.1f} s  {event['phase']:<12} {event['open']:>9,} held"
    if event["connects_per_s"]:
        text += f"  {event['connects_per_s']:>8,.0f} connects/s"
    if event["deliveries_per_s"]:
        text += f"  {event['deliveries_per_s']:>9,.0f} deliveries/s, p99 {event['p99_us'] / 1000:,.1f} ms"
    return text


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
