"""`make bench-fibers`: measures the cost of handlers that can wait, and whether a waiting handler delays other requests.

Prints the runtime's goals of issue 7 with the measured values, and fails if a goal is missed. `--quick` runs a tenth and
compares with no goal; it only tests the suite. Slow disks need root and control groups, and slow queries need MariaDB;
without them, these goals are reported as not run.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from bench.lib import machine, process
from bench.lib.peers import BUILD, SUBJECT, CannotRun, Peer, Running, Service, load_all
from bench.suites.counts.count import Case, connect, instructions, read_answers, request, sequential, tools_missing
from bench.suites.fibers import slow

from .goals import percentile, table

SERVER = Path(__file__).with_name("server.php")
HELLO = b'{"status":"OK"}'
ROUNDS = 5
WAITS = ("delay", "await", "mutex", "file")
FLAT_AWAITS = 100_000
SLOW_BYTES = 4 << 20
SLOW_BYTES_PER_SECOND = 2 << 20
SLOW_AT_ONCE = 4
SLOW_QUERY_MS = 500
CROWD = 200
CROWD_ROUNDS = 20
CROWDS = ("compute", "brief", "wait", "process", "curl", "socket", "query")
CROWD_CONNECTIONS_MAX = 2 * CROWD
"""Connection limit of the database. It has a reserve, because closed connections may still be counted."""
PAUSE_SECONDS = 0.0005
"""Pause between two requests of the client whose latency is measured."""


def main() -> int:
    options = parse_options()
    peer = load_all()[SUBJECT]
    found: dict[str, float] = {}
    not_run: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="fermata-fibers-", dir=BUILD.parent) as folder:
        subject = variants(peer, Path(folder))
        try:
            print(f"{peer.name} ({subject.prepare()}), {machine.facts().get('cpu', 'unknown processor')}", flush=True)
        except CannotRun as reason:
            print(f"fibers: {reason}", file=sys.stderr)
            return 2
        for measure in (hello, switches, flat, late, crowd):
            if measure.__name__ in options.parts:
                measure(subject, options.quick, found, not_run, Path(folder))
    lines, missed = table(found, not_run)
    print("\n" + "\n".join(lines))
    if options.quick:
        return 0 if found else 1
    return 1 if missed else 0


def parse_options() -> argparse.Namespace:
    parts = ["hello", "switches", "flat", "late", "crowd"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=parts, default=parts)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything, no verdict")
    return parser.parse_args()


def variants(peer: Peer, folder: Path) -> Peer:
    """Returns the subject with a service for each variant of server.php."""
    command = ("$php", "-d", "extension=$extension", str(SERVER), "$port")
    services = {name: Service(start=(*command, name, str(folder))) for name in ("plain", "waiting", "timer")}
    return replace(peer, services=services)


def hello(subject: Peer, quick: bool, found: dict[str, float], not_run: dict[str, str], _: Path) -> None:
    """Measures the instructions of a request whose handler awaits nothing, with and without the runtime in use."""
    if missing := tools_missing():
        not_run["hello-waiting"] = not_run["hello-timer"] = f"{', '.join(missing)} missing"
        return
    requests = 500 if quick else 5000
    counted: dict[str, float] = {}
    for variant in subject.services:
        case = Case(variant, variant, variant, used_then_hello, requests)
        counted[variant] = instructions(subject, case)
        print(f"GET / with the server {variant}: {counted[variant]:,.0f} instructions", flush=True)
    for variant in ("waiting", "timer"):
        found[f"hello-{variant}"] = (counted[variant] / counted["plain"] - 1) * 100


def used_then_hello(running: Running, requests: int) -> None:
    with connect(running.port) as client:
        client.sendall(request("/used", running.port))
        read_answers(client, 1, b"200", HELLO)
    sequential("/", b"200", HELLO)(running, requests)


def switches(subject: Peer, quick: bool, found: dict[str, float], _: dict[str, str], __: Path) -> None:
    """Measures the processor time per await: the minimum of some rounds, because other load can only add to it."""
    count = 10_000 if quick else 200_000
    with Running(subject, "waiting", []) as running:
        for wait in WAITS:
            amount = count // 10 if wait == "file" else count
            rounds = [float(ask(running, f"/each/{wait}/{amount}")) for _ in range(2 if quick else ROUNDS)]
            print(f"{wait}: {min(rounds):,.0f} ns each, median {statistics.median(rounds):,.0f}", flush=True)
            if wait == "delay":
                found["switch"] = min(rounds) / 1000


def flat(subject: Peer, quick: bool, found: dict[str, float], _: dict[str, str], __: Path) -> None:
    """Measures the memory growth caused by awaits, as the maximum of all kinds."""
    count = FLAT_AWAITS // 10 if quick else FLAT_AWAITS
    with Running(subject, "waiting", []) as running:
        for wait in WAITS:
            left = json.loads(ask(running, f"/flat/{wait}/{count}"))
            print(f"{count:,} times {wait}: {left['php']:,} bytes of PHP, {left['process']:,} of the process", flush=True)
            for where in ("php", "process"):
                found[f"flat-{where}"] = max(found.get(f"flat-{where}", 0), left[where])


def late(subject: Peer, quick: bool, found: dict[str, float], not_run: dict[str, str], folder: Path) -> None:
    """Measures the p99 latency of requests that wait for nothing, with and without concurrent slow requests."""
    seconds, rounds = (0.5, 1) if quick else (3.0, 3)
    for kind in ("file", "hook", "write", "query"):
        try:
            with slowness(kind, subject, folder) as (running, once):
                added = [beside(running, once, seconds) for _ in range(rounds)]
        except CannotRun as reason:
            not_run[f"late-{kind}"] = str(reason)
            continue
        for without, with_slow, ended in added:
            print(f"{kind}: p99 {without:.2f} ms alone, {with_slow:.2f} ms beside {ended} slow ones", flush=True)
        found[f"late-{kind}"] = statistics.median(with_slow - without for without, with_slow, _ in added)


def crowd(subject: Peer, quick: bool, found: dict[str, float], not_run: dict[str, str], folder: Path) -> None:
    """Measures the latency of short requests while many long requests, started at the same time, run."""
    with ExitStack() as stack:
        upstream = stack.enter_context(Running(subject, "plain", []))
        os.environ["BENCH_UPSTREAM"] = str(upstream.port)
        try:
            os.environ["BENCH_MYSQL"] = str(stack.enter_context(slow.database(folder, "crowd", CROWD_CONNECTIONS_MAX)))
        except CannotRun as reason:
            not_run["crowd-query"] = str(reason)
        running = stack.enter_context(Running(subject, "waiting", []))
        for kind in CROWDS:
            if f"crowd-{kind}" in not_run:
                continue
            took = []
            for _ in range(1 if quick else CROWD_ROUNDS):
                took += beside_crowd(running, f"/crowd/{kind}")
            worst = max(took)
            found[f"crowd-{kind}"] = percentile(took, 0.99)
            print(f"{kind}: {len(took)} visits, p50 {percentile(took, 0.5):.2f} ms, worst {worst:.2f} ms", flush=True)


def beside_crowd(running: Running, path: str) -> list[float]:
    """Returns the latencies in milliseconds of short requests, each over a separate connection, until all long ones are done."""
    took: list[float] = []
    with ExitStack() as stack, selectors.DefaultSelector() as waiting:
        clients = [stack.enter_context(connect(running.port)) for _ in range(CROWD)]
        for client in clients:
            client.sendall(request(path, running.port))
            waiting.register(client, selectors.EVENT_READ)
        while waiting.get_map():
            began = time.monotonic()
            with connect(running.port) as visitor:
                visitor.sendall(request("/", running.port))
                read_answers(visitor, 1, b"200", HELLO)
            took.append((time.monotonic() - began) * 1000)
            for key, _ in waiting.select(0):
                waiting.unregister(key.fileobj)
            time.sleep(PAUSE_SECONDS)
        for client in clients:
            read_answers(client, 1, b"200", b"")
    return took


@contextmanager
def slowness(kind: str, subject: Peer, folder: Path) -> Iterator[tuple[Running, Callable[[int], None]]]:
    """Yields a server, and a function that sends one slow request for the client with a given number."""
    if kind == "query":
        with slow.database(folder, "slow") as path:
            os.environ["BENCH_MYSQL"] = str(path)
            with Running(subject, "waiting", []) as running:
                yield running, lambda _: void(ask(running, f"/slow/query/{SLOW_QUERY_MS}"))
        return
    files = [folder / f"slow-{number}" for number in range(SLOW_AT_ONCE)]
    for file in files:
        file.write_bytes(os.urandom(SLOW_BYTES))

    def once(number: int) -> None:
        slow.forget(files[number])
        ask(running, f"/slow/{kind}/{files[number].name}")

    with Running(subject, "waiting", []) as running:
        ask(running, "/used")
        with slow.disk(folder, process.tree(running.process.pid), SLOW_BYTES_PER_SECOND):
            yield running, once


def void(_: object) -> None:
    pass


def beside(running: Running, once: Callable[[int], None], seconds: float) -> tuple[float, float, int]:
    """Returns the p99 in milliseconds without and with slow requests, and the number of slow requests that were started."""
    without = percentile(quick_requests(running, seconds), 0.99)
    ends = threading.Event()
    begun = [0] * SLOW_AT_ONCE

    def client(number: int) -> None:
        while not ends.is_set():
            begun[number] += 1
            once(number)

    clients = [threading.Thread(target=client, args=(number,), daemon=True) for number in range(SLOW_AT_ONCE)]
    for one in clients:
        one.start()
    time.sleep(0.1)
    with_slow = percentile(quick_requests(running, seconds), 0.99)
    ends.set()
    for one in clients:
        one.join()
    return without, with_slow, sum(begun)


def quick_requests(running: Running, seconds: float) -> list[float]:
    """Sends requests that wait for nothing, one after another. Returns their latencies in milliseconds."""
    took = []
    with connect(running.port) as client:
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            client.sendall(request("/", running.port))
            read_answers(client, 1, b"200", HELLO)
            took.append((time.monotonic() - began) * 1000)
            time.sleep(PAUSE_SECONDS)
    return took


def ask(running: Running, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{running.port}{path}", timeout=300) as answer:
        return answer.read().decode()
