"""A soak test: a server, clients that verify their messages, and disturbances of the server."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from dataclasses import dataclass
from typing import Any

from bench.lib import process

from . import kernel
from .clients import Clients, Event, LoadFailed
from .parts import COALESCE, CONNECTIONS_MAX, faults, note, progress
from .server import Server
from .watch import MemoryGuard

GROWTH_MAX = 0.05
"""Maximum growth of the server's mean memory from the second quarter of the run to the last."""
SHOW_EVERY_S = 10

Verdict = tuple[str, bool]
"""Text of a check at the end of the run, and true if it passed."""


@dataclass
class Size:
    clients: int = 200_000
    groups: int = 200
    workers: int = 14
    """Number of workers. The clients of a killed worker reconnect to all others, so each must accept more than its share."""
    duration_s: float = 600
    churn: float = 2_000
    kill_every_s: float = 30
    publish_rate: float = 10
    all_rate: float = 0.02
    settle_s: float = 60
    sample_every_s: float = 5
    memory_min: int = 2 << 30


QUICK = Size(
    clients=600, groups=12, workers=3, duration_s=9, churn=60, kill_every_s=2, publish_rate=60, all_rate=1, settle_s=30,
    sample_every_s=0.5,
)


class Soak:
    """A run: its clients, and the disturbances of the server."""

    kind = "soak"
    what = "Soak"

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self.kills: list[tuple[float, int]] = []
        self.samples: list[dict[str, float]] = []
        self.commands: list[str] = []
        self.loads: dict[str, dict[str, Any]] = {}
        """Results of the clients, by kind."""
        self._random = random.Random(seed)
        self._begun = threading.Event()
        self._shown = 0.0

    def run(self) -> None:
        size = self.size
        server = Server(size.workers, CONNECTIONS_MAX, size.groups)
        clients = guard = None
        try:
            self.commands.append(" ".join([*(f"{k}={v}" for k, v in server.environment.items()), *server.command]))
            clients = Clients(self._arguments(server), self._on_event)
            self.commands.append(" ".join(clients.command))
            guard = MemoryGuard(size.memory_min, clients.process.kill)
            while not self._begun.wait(0.1):
                if clients.process.poll() is not None:
                    raise LoadFailed("the clients ended before all were connected")
            self._disturb(server, clients)
            while clients.process.poll() is None:
                self._sample(server)
                time.sleep(size.sample_every_s)
            self.loads["streams"] = clients.result()
        finally:
            if guard:
                guard.stop()
            if clients:
                clients.close()
            server.close()

    def verdicts(self, quick: bool) -> list[Verdict]:
        counters = self.loads["streams"]["counters"]
        planned = int(self.size.duration_s / self.size.kill_every_s) - 1
        wrong = faults(self.loads["streams"])
        found = [
            (f"every client has a sequence without gap, repetition or error ({wrong} faults)", wrong == 0),
            (f"workers were killed ({len(self.kills)}, planned {planned})", len(self.kills) >= planned),
            (f"their clients came back ({counters['disconnects']:,} lost their connection)", counters["disconnects"] > 0),
            (f"clients left and came back by themselves ({counters['churned']:,})", counters["churned"] > 0),
            (f"messages arrived ({counters['deliveries']:,})", counters["deliveries"] > 0),
        ]
        # A quick run is too short for the memory to become stable.
        return found if quick else [*found, self._flat()]

    def about(self) -> str:
        size = self.size
        return (
            f"{size.workers} workers, {size.groups:,} groups; {size.churn:,.0f} clients per second leave and come back, "
            f"a worker is killed every {size.kill_every_s:g} s, {size.publish_rate:g} publishes per second to groups and "
            f"{size.all_rate:g} to all."
        )

    def details(self) -> dict[str, Any]:
        """Returns additional results of this kind of run."""
        return {}

    def _flat(self) -> Verdict:
        growth = self.growth()
        return f"memory is flat ({growth * 100:+.1f} % from the second quarter to the last)", growth <= GROWTH_MAX

    def _arguments(self, server: Server) -> list[str]:
        size = self.size
        return [
            "hold", server.url("/groups/{n}/events"), "--clients", str(size.clients), "--groups", str(size.groups),
            f"--step=soak={size.duration_s}s,groups={size.publish_rate},all={size.all_rate}",
            "--churn", str(size.churn), "--settle", f"{size.settle_s}s", "--attempts-max", "100",
            "--publish", server.url("/groups/{n}/messages"), "--publish-all", server.url("/all"),
            "--publish-queue-max", "1000000", "--coalesce", COALESCE,
        ]

    def _on_event(self, event: Event) -> None:
        if event.get("event") == "begins":
            self._begun.set()
        elif "phase" in event and event["at_s"] >= self._shown:
            self._shown = event["at_s"] + SHOW_EVERY_S
            note(progress(event))

    def _disturb(self, server: Server, clients: Clients) -> None:
        """Kills a worker every `kill_every_s`. Stops half an interval before the end of the run."""
        begin = time.monotonic()
        kill_s = self.size.kill_every_s
        while time.monotonic() - begin < self.size.duration_s - self.size.kill_every_s / 2:
            at_s = time.monotonic() - begin
            if clients.process.poll() is not None:
                return
            if at_s >= kill_s:
                kill_s += self.size.kill_every_s
                self._kill(server, at_s)
            self._sample(server)
            time.sleep(min(self.size.sample_every_s, max(kill_s - at_s, 0.01)))

    def _kill(self, server: Server, at_s: float) -> None:
        pid = self._random.choice(server.worker_pids())
        os.kill(pid, signal.SIGKILL)
        self.kills.append((at_s, pid))

    def _sample(self, server: Server) -> None:
        used = process.memory(server.pids())
        self.samples.append(
            {"at": time.monotonic(), "pss": used.pss, "private": used.private, "available": kernel.available_bytes()}
        )

    def growth(self) -> float:
        """Returns the growth of the mean memory from the second quarter of the samples to the last."""
        quarter = max(len(self.samples) // 4, 1)
        before = [sample["pss"] for sample in self.samples[quarter : 2 * quarter]]
        after = [sample["pss"] for sample in self.samples[-quarter:]]
        if not before or not after:
            return 0.0
        return (sum(after) / len(after)) / (sum(before) / len(before)) - 1
