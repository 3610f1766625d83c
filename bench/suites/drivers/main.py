"""Compares epoll and io_uring: runs the same server with each, for several workloads. docs/io.md contains the table. With
--before, compares this build and an earlier one instead, both with epoll, and the edge of each build.

Server and load share core 0. Held clients are an exception: their load runs on core 1. Each round starts the servers again
in random order, and ratios compare values of the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.lib import process

ROOT = Path(__file__).resolve().parents[3]
HERE = Path(__file__).parent
LOAD = Path(os.environ.get("FERMATA_COMMAND", ROOT / "build" / "fermata"))
EXTENSION = Path(os.environ.get("FERMATA_EXTENSION", ROOT / "build" / "fermata.so"))
PHP = os.environ.get("PHP", "php")
READY_SECONDS_MAX = 10.0
HELD_REST_SECONDS = 2


@dataclass(frozen=True)
class Variant:
    """A build and the kernel interface that it uses."""

    name: str
    extension: Path
    command: Path
    driver: str


EPOLL = Variant("epoll", EXTENSION, LOAD, "epoll")
IO_URING = Variant("io_uring", EXTENSION, LOAD, "io_uring")


@dataclass(frozen=True)
class Sample:
    """Result of one variant in one round of one row."""

    per_second: float
    cpu_ns: float
    """Processor time of the server per unit."""
    last_byte_ms: float = 0.0


class Server:
    """A running server of a variant."""

    def __init__(self, variant: Variant, core: int) -> None:
        self.variant = variant
        self.port = process.free_port()
        self.child = self.start(
            [PHP, "-d", f"extension={variant.extension}", "-d", "fermata.connections_max=19500"]
            + [str(HERE / "server.php"), str(self.port)],
            core,
        )
        self.wait(self.port)

    def start(self, command: list[str], core: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            env={**os.environ, "FERMATA_IO": self.variant.driver, "FERMATA_LOG_LEVEL": "error"},
            start_new_session=True,
        )

    def wait(self, port: int) -> None:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.__exit__()
        raise SystemExit(f"drivers: the server {self.variant.name} does not answer")

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        process.stop(self.child)

    def cpu_ns(self) -> int:
        return process.cpu_ns(process.tree(self.child.pid))


class Edge(Server):
    """The edge of a variant in front of a server of this build, which runs on the other core."""

    def __init__(self, variant: Variant, core: int) -> None:
        self.backend = Server(EPOLL, 1 - core)
        self.variant = variant
        self.port = process.free_port()
        command = [str(variant.command), "edge", "--listen", f"127.0.0.1:{self.port}", "--workers", "1"]
        self.child = self.start([*command, "--route", f"* 127.0.0.1:{self.backend.port}"], core)
        self.wait(self.port)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.backend.__exit__()


def run(command: list[str], core: int) -> str:
    done = subprocess.run(["taskset", "-c", str(core), *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"drivers: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def measure(server: Server, load: Callable[[], tuple[int, float]]) -> Sample:
    before = server.cpu_ns()
    units, seconds = load()
    return Sample(units / seconds, (server.cpu_ns() - before) / units)


def wrk(server: Server, seconds: float) -> Sample:
    def load() -> tuple[int, float]:
        out = run(["wrk", "-t1", "-c100", f"-d{seconds:.0f}s", f"http://127.0.0.1:{server.port}/"], 0)
        found = re.search(r"(\d+) requests in ([\d.]+)(m?s)", out)
        if not found or "Non-2xx" in out:
            raise SystemExit(f"drivers: wrk says:\n{out}")
        return int(found[1]), float(found[2])

    return measure(server, load)


def connections(server: Server, seconds: float) -> Sample:
    def load() -> tuple[int, float]:
        out = run(["ab", "-q", "-c10", f"-n{int(seconds * 8000)}", f"http://127.0.0.1:{server.port}/"], 0)
        done = re.search(r"Complete requests: +(\d+)", out)
        took = re.search(r"Time taken for tests: +([\d.]+)", out)
        if not done or not took or "Failed requests:        0" not in out:
            raise SystemExit(f"drivers: ab says:\n{out}")
        return int(done[1]), float(took[1])

    return measure(server, load)


def fermata(server: Server, arguments: list[str], url: str, seconds: float) -> Sample:
    def load() -> tuple[int, float]:
        with tempfile.NamedTemporaryFile() as file:
            run([str(LOAD), "load", *arguments, "-q", f"-t{seconds:.0f}s", "--json", file.name, url], 0)
            report = json.loads(Path(file.name).read_text())
        return int(report["counters"]["responses"]), float(report["measured_s"])

    return measure(server, load)


def pipelined(server: Server, seconds: float) -> Sample:
    return fermata(server, ["http", "-c20", "-p16"], f"http://127.0.0.1:{server.port}/", seconds)


def echo(server: Server, seconds: float) -> Sample:
    return fermata(server, ["ws", "echo", "-c100"], f"ws://127.0.0.1:{server.port}/echo", seconds)


def echo_pipelined(server: Server, seconds: float) -> Sample:
    arguments = ["ws", "echo", "-c50", "-p16", "--message-bytes=1024"]
    return fermata(server, arguments, f"ws://127.0.0.1:{server.port}/echo", seconds)


def held(clients: int) -> Callable[[Server, float], Sample]:
    """Returns a row that publishes messages to held clients. The time to connect and close is not measured."""

    def row(server: Server, seconds: float) -> Sample:
        url = f"http://127.0.0.1:{server.port}"
        with tempfile.TemporaryDirectory() as folder:
            events, result = Path(folder, "events"), Path(folder, "json")
            command = [str(LOAD), "load", "hold", f"{url}/hold", f"-c{clients}", "-g1", "-q"]
            command += ["--publish", f"{url}/publish", "--publish-connections=1", "--coalesce=2ms"]
            command += [f"--step=rest={HELD_REST_SECONDS}s", f"--step=talk={seconds:.0f}s,groups=2"]
            command += ["--events", str(events), "--json", str(result)]
            child = subprocess.Popen(["taskset", "-c", "1", *command], stdout=subprocess.DEVNULL)
            before = at(server, child, events, "begins")
            after = at(server, child, events, "ends")
            if child.wait() != 0:
                raise SystemExit("drivers: fermata load has found faults")
            report = json.loads(result.read_text())
        deliveries = report["counters"]["deliveries"]
        last_byte_ms = report["last_byte_us"]["p50"] / 1000
        return Sample(deliveries / seconds, (after - before) / deliveries, last_byte_ms)

    return row


def at(server: Server, child: subprocess.Popen[bytes], events: Path, what: str) -> int:
    """Waits for an event of the step `talk` and returns the processor time that the server has used until then."""
    while True:
        if events.exists() and re.search(rf'"event":"{what}","step":"talk"', events.read_text()):
            return server.cpu_ns()
        if child.poll() is not None:
            raise SystemExit(f"drivers: fermata load ended with {child.returncode}")
        time.sleep(0.01)


ROWS: dict[str, tuple[str, type[Server], Callable[[Server, float], Sample]]] = {
    "json": ("small JSON, 100 keep-alive connections", Server, wrk),
    "connection": ("a connection per request, 10 at a time", Server, connections),
    "pipelined": ("16-deep pipelining, 20 connections", Server, pipelined),
    "echo": ("WebSocket echo, 64 B, 100 sockets", Server, echo),
    "echo-pipelined": ("WebSocket echo, 1 KB, 16 deep, 50 sockets", Server, echo_pipelined),
    "held": ("one message to 1,000 held clients", Server, held(1_000)),
    "held-15000": ("one message to 15,000 held clients", Server, held(15_000)),
    "edge": ("small JSON through the edge, 100 keep-alive connections", Edge, wrk),
}
BEFORE_ALONE = {"edge"}
"""Rows that run only with --before."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="with fermata.so and fermata of the other build")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), help="default: all that the comparison has")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of load, per variant and round")
    parser.add_argument("--quick", action="store_true", help="a smoke test: one round of a second, fewer clients")
    parser.add_argument("--json", type=Path, help="keep every sample in this file")
    options = parser.parse_args()
    variants = (EPOLL, IO_URING)
    if options.before:
        files = [options.before / name for name in ("fermata.so", "fermata")]
        if missing := [str(file) for file in files if not file.is_file()]:
            parser.error(f"--before: no {' and no '.join(missing)}; make in a checkout of the other commit builds both")
        before = Variant("before", files[0].resolve(), files[1].resolve(), "epoll")
        variants = (before, Variant("now", EXTENSION, LOAD, "epoll"))
    known = [row for row in ROWS if options.before or row not in BEFORE_ALONE]
    rows = options.rows or [row for row in known if not (options.quick and row == "held-15000")]
    if unknown := set(rows) - set(known):
        parser.error(f"--rows: {', '.join(sorted(unknown))} is a row of --before")
    rounds, seconds = (1, 1.0) if options.quick else (options.rounds, options.seconds)
    samples: dict[str, dict[str, list[Sample]]] = {row: {one.name: [] for one in variants} for row in rows}
    for round in range(rounds):
        for row in rows:
            _, kind, load = ROWS[row]
            for variant in random.sample(variants, k=len(variants)):
                with kind(variant, 0) as server:
                    samples[row][variant.name].append(load(server, seconds))
            print(f"{row}: round {round + 1} of {rounds}", file=sys.stderr, flush=True)
    if options.json:
        plain = {row: {one: [vars(it) for it in its] for one, its in both.items()} for row, both in samples.items()}
        options.json.write_text(json.dumps(plain, indent=1))
    print(table(samples, [variant.name for variant in variants]))
    return 0


def table(samples: dict[str, dict[str, list[Sample]]], names: list[str]) -> str:
    base, other = names
    lines = [
        f"| workload | server CPU each, {base} | CPU, {other} ÷ {base} | rate, {other} ÷ {base} |",
        "|---|---:|---:|---:|",
    ]
    for row, by_name in samples.items():
        cost = statistics.median(it.cpu_ns for it in by_name[base]) / 1000
        pairs = list(zip(by_name[base], by_name[other], strict=True))
        cpu = ratio([it.cpu_ns / first.cpu_ns for first, it in pairs])
        if pairs[0][0].last_byte_ms > 0:
            rate = "last byte " + ratio([it.last_byte_ms / first.last_byte_ms for first, it in pairs])
        else:
            rate = ratio([it.per_second / first.per_second for first, it in pairs])
        lines.append(f"| {ROWS[row][0]} | {cost:.2f} µs | {cpu} | {rate} |")
    return "\n".join(lines)


def ratio(values: list[float]) -> str:
    """Returns the median and the range as text. There are too few rounds for a narrower interval."""
    return f"{statistics.median(values):.2f}× [{min(values):.2f}, {max(values):.2f}]"
