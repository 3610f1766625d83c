"""`make soak`: clients that come and go, publishes, and workers that are killed, for ten minutes.

Every client verifies every message: at the end each must have got all messages of its group, in order and once,
whatever happened to its worker. The memory of the server must not grow. The result is written to
bench/runs/<date>-<host>/; the exit code is 1 when something was lost or memory grew.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.lib import machine, process

from . import kernel
from .clients import Clients, Event, LoadFailed
from .network import network
from .parts import COALESCE, CONNECTIONS_MAX, Part, faults, note, progress
from .plot import plot
from .report import folder
from .server import Server
from .watch import MemoryGuard

GROWTH_MAX = 0.05
"""Of the server's memory from the second quarter of the run to the last."""
SHOW_EVERY_S = 10


@dataclass
class Size:
    clients: int = 200_000
    groups: int = 200
    workers: int = 14
    """A killed worker's clients come back to all workers, so each needs room for more than its share."""
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
    """A run: the clients, and what is done to the server meanwhile."""

    def __init__(self, size: Size, seed: int) -> None:
        self.size = size
        self.kills: list[tuple[float, int]] = []
        self.samples: list[dict[str, float]] = []
        self.commands: list[str] = []
        self._random = random.Random(seed)
        self._begun = threading.Event()
        self._shown = 0.0

    def run(self) -> dict[str, Any]:
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
            return clients.result()
        finally:
            if guard:
                guard.stop()
            if clients:
                clients.close()
            server.close()

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
        """Kills a worker every so often, until the run has but one more such time to recover in."""
        begin = time.monotonic()
        kill_s = self.size.kill_every_s
        while time.monotonic() - begin < self.size.duration_s - self.size.kill_every_s / 2:
            at_s = time.monotonic() - begin
            if clients.process.poll() is not None:
                return
            if at_s >= kill_s:
                kill_s += self.size.kill_every_s
                pid = self._random.choice(server.worker_pids())
                os.kill(pid, signal.SIGKILL)
                self.kills.append((at_s, pid))
            self._sample(server)
            time.sleep(min(self.size.sample_every_s, max(kill_s - at_s, 0.01)))

    def _sample(self, server: Server) -> None:
        used = process.memory(server.pids())
        self.samples.append(
            {"at": time.monotonic(), "pss": used.pss, "private": used.private, "available": kernel.available_bytes()}
        )

    def growth(self) -> float:
        """Of the mean memory, from the second quarter of the samples to the last."""
        quarter = max(len(self.samples) // 4, 1)
        before = [sample["pss"] for sample in self.samples[quarter : 2 * quarter]]
        after = [sample["pss"] for sample in self.samples[-quarter:]]
        if not before or not after:
            return 0.0
        return (sum(after) / len(after)) / (sum(before) / len(before)) - 1


def main() -> int:
    options = parse_options()
    size = QUICK if options.quick else Size()
    for name in ("clients", "groups", "workers", "duration_s", "churn", "kill_every_s"):
        if (value := getattr(options, name)) is not None:
            setattr(size, name, value)
    started, facts = datetime.now(UTC), machine.facts()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    soak = Soak(size, options.seed)
    with network(2 * size.clients, own=not options.no_namespace) as here:
        try:
            load = soak.run()
        except (LoadFailed, OSError, RuntimeError, KeyboardInterrupt) as error:
            note(f"failed: {error or 'interrupted'}")
            return 1
    verdicts = judge(soak, load, options.quick)
    where = options.out or folder(started, facts, options.quick)
    text = markdown(soak, load, verdicts, facts, started)
    where.mkdir(parents=True, exist_ok=True)
    stem = where / f"soak-{started:%H%M%S}"
    stem.with_suffix(".md").write_text(f"{text}\n![The course of the run]({stem.name}.svg)\n")
    stem.with_suffix(".svg").write_text(plot([Part("soak", load=load)]))
    raw = {"options": vars(size), "machine": facts, "network": vars(here), "kills": soak.kills, "samples": soak.samples,
           "commands": soak.commands, "load": load}
    stem.with_suffix(".json").write_text(json.dumps(raw) + "\n")
    print(text)
    return 0 if all(passed for _, passed in verdicts) else 1


def judge(soak: Soak, load: dict[str, Any], quick: bool) -> list[tuple[str, bool]]:
    """What has to be true at the end, and whether it is."""
    counters = load["counters"]
    planned = int(soak.size.duration_s / soak.size.kill_every_s) - 1
    wrong = faults(load)
    verdicts = [
        (f"every client has a sequence without gap, repetition or error ({wrong} faults)", wrong == 0),
        (f"workers were killed ({len(soak.kills)}, planned {planned})", len(soak.kills) >= planned),
        (f"their clients came back ({counters['disconnects']:,} lost their connection)", counters["disconnects"] > 0),
        (f"clients left and came back by themselves ({counters['churned']:,})", counters["churned"] > 0),
        (f"messages arrived ({counters['deliveries']:,})", counters["deliveries"] > 0),
    ]
    if not quick:
        # In seconds a server does not reach the memory it needs.
        growth = soak.growth()
        verdicts.append((f"memory is flat ({growth * 100:+.1f} % from the second quarter to the last)", growth <= GROWTH_MAX))
    return verdicts


def markdown(
    soak: Soak, load: dict[str, Any], verdicts: list[tuple[str, bool]], facts: dict[str, str], started: datetime
) -> str:
    size, counters = soak.size, load["counters"]
    out = [
        f"# Soak of {size.clients:,} clients for {size.duration_s:,.0f} s, {started:%Y-%m-%d %H:%M} UTC",
        "",
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory']}, Linux {facts['kernel']}, commit "
        f"{facts['commit']}. {size.workers} workers, {size.groups:,} groups; {size.churn:,.0f} clients per second leave and "
        f"come back, a worker is killed every {size.kill_every_s:g} s, {size.publish_rate:g} publishes per second to groups and "
        f"{size.all_rate:g} to all.",
        "",
        *(f"- {'passed' if passed else '**FAILED**'}: {text}" for text, passed in verdicts),
        "",
        "| count | |",
        "|---|---:|",
    ]
    names = ("connects", "reconnects", "churned", "disconnects", "refusals", "published", "publish_failures", "deliveries",
             "lost", "missing", "repeated", "corrupt", "misdirected", "gap_events", "not_held")
    out += [f"| {name.replace('_', ' ')} | {counters[name]:,} |" for name in names]
    last = load["last_byte_us"]
    out += [
        f"| last byte p50 | {last['p50'] / 1000:,.1f} ms |",
        f"| last byte p99, replays after kills included | {last['p99'] / 1000:,.1f} ms |",
        f"| server's memory (PSS) at the end | {soak.samples[-1]['pss'] / 1e6:,.0f} MB |",
        "",
        "```sh",
        *soak.commands,
        "```",
        "",
    ]
    return "\n".join(out)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds and hundreds of clients, for CI")
    parser.add_argument("--clients", type=int, help="default 200,000")
    parser.add_argument("--groups", type=int, help="default 200")
    parser.add_argument("--workers", type=int, help="default 14")
    parser.add_argument("--duration-s", type=float, help="default 600")
    parser.add_argument("--churn", type=float, help="clients per second that leave and come back, default 2,000")
    parser.add_argument("--kill-every-s", type=float, help="default 30")
    parser.add_argument("--seed", type=int, default=1, help="of the choice of workers")
    parser.add_argument("--no-namespace", action="store_true", help="use the machine's own network and settings")
    parser.add_argument("--out", type=Path, help="folder for the results, default bench/runs/<date>-<host>")
    return parser.parse_args()
