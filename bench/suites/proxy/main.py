"""`python3 -m bench proxy`: compares `fermata edge`, nginx and HAProxy in front of one backend, in one interleaved run.

Rows: small requests over keep-alive connections, responses of 1 MB, request bodies of 1 MB, and proxied WebSockets. Each proxy
has one worker or thread on core 0. Load and backend use the other core, and their processor time is not counted. Every round
measures every row on every proxy in random order, and ratios compare values of the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from string import Template

from bench.lib import compiled, machine, markdown, process
from bench.lib.peers import BENCH, BUILD, EXTENSION, FERMATA, PHP
from bench.lib.ready import note
from bench.lib.stats import interval, ratios

HERE = Path(__file__).parent
OUT = BUILD / "proxy"
SUBJECT = "fermata"
FLOOR = "floor"
"""`load/proxy_floor.c`, which only copies bytes between sockets. Its cost is the minimum of every proxy."""
GOAL_PEER, GOAL_MAX = "nginx", 0.7
PROXY_CORE, LOAD_CORE = 0, 1
ROUNDS, SECONDS = 9, 3.0
QUICK_SECONDS = 0.3
READY_SECONDS_MAX = 10.0
LOAD_SECONDS_MAX = 120.0
SMALL_CONNECTIONS, LARGE_CONNECTIONS, SOCKETS = 50, 8, 50


@dataclass(frozen=True)
class Sample:
    proxy: str
    row: str
    round: int
    cpu_ns: float
    """CPU time of all processes of the proxy per unit."""
    rate: float


def wrk(port: int, seconds: float, connections: int, path: str, *arguments: str) -> tuple[int, float]:
    """Runs wrk, which supports only whole seconds. Returns the number of 2xx responses and the duration in seconds."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", *arguments]
    out = run([*command, f"http://127.0.0.1:{port}{path}"])
    found = re.search(r"(\d+) requests in ([\d.]+)(m?s)", out)
    if not found or "Non-2xx" in out or "Socket errors" in out:
        raise SystemExit(f"proxy: wrk says:\n{out}")
    return int(found[1]), float(found[2]) / (1000 if found[3] == "ms" else 1)


def echo(port: int, seconds: float) -> tuple[int, float]:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [str(FERMATA), "load", "ws", "echo", f"-c{SOCKETS}", "-q", f"-t{seconds * 1000:.0f}ms"]
        run([*command, "--json", file.name, f"ws://127.0.0.1:{port}/echo"])
        report = json.loads(Path(file.name).read_text())
    return int(report["counters"]["responses"]), float(report["measured_s"])


ROWS: dict[str, tuple[str, str, Callable[[int, float], tuple[int, float]]]] = {
    "small": ("small JSON, 50 kept connections", "request", lambda port, s: wrk(port, s, SMALL_CONNECTIONS, "/")),
    "down": ("an answer of 1 MB, 8 connections", "answer", lambda port, s: wrk(port, s, LARGE_CONNECTIONS, "/large")),
    "up": (
        "a body of 1 MB, 8 connections",
        "body",
        lambda port, s: wrk(port, s, LARGE_CONNECTIONS, "/up", "-s", str(HERE / "upload.lua")),
    ),
    "socket": ("WebSocket, 64 B and back, 50 sockets", "message", echo),
}


def start_fermata(port: int, backend: int) -> list[str]:
    route = f"* 127.0.0.1:{backend}"
    return [str(FERMATA), "edge", "--listen", f"127.0.0.1:{port}", "--workers", "1", "--route", route]


def start_nginx(port: int, backend: int) -> list[str]:
    return ["nginx", "-p", str(OUT), "-e", "stderr", "-c", str(rendered("nginx.conf", port, backend))]


def start_haproxy(port: int, backend: int) -> list[str]:
    return ["haproxy", "-db", "-q", "-f", str(rendered("haproxy.cfg", port, backend))]


def start_floor(port: int, backend: int) -> list[str]:
    return [str(BUILD / "proxy_floor"), str(port), str(backend)]


PROXIES: dict[str, tuple[str, Callable[[int, int], list[str]]]] = {
    SUBJECT: ("Fermata", start_fermata),
    "nginx": ("nginx", start_nginx),
    "haproxy": ("HAProxy", start_haproxy),
    FLOOR: ("System calls alone", start_floor),
}


def rendered(name: str, port: int, backend: int) -> Path:
    path = OUT / name
    path.write_text(Template((HERE / name).read_text()).substitute(out=OUT, port=port, backend=backend))
    return path


def run(command: list[str]) -> str:
    done = subprocess.run(
        ["taskset", "-c", str(LOAD_CORE), *command],
        capture_output=True,
        text=True,
        timeout=LOAD_SECONDS_MAX,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"proxy: {' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


@contextmanager
def running(command: list[str], port: int, core: int) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "FERMATA_LOG_LEVEL": "error"}
    with (OUT / f"{Path(command[0]).name}.log").open("wb") as log:
        child = subprocess.Popen(
            ["taskset", "-c", str(core), *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                if child.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"proxy: {command[0]} does not listen; see {log.name}") from None
                time.sleep(0.02)
        yield child
    finally:
        process.stop(child)


def main() -> int:
    options = parse_options()
    # Exit through the cleanup handlers on SIGTERM as well, so that servers stop.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if FLOOR in options.proxies:
        compiled.build("proxy_floor")
    tools = {"wrk": "wrk", "taskset": "util-linux", "nginx": "nginx-light", "haproxy": "haproxy"}
    wanted = {"wrk", "taskset", *(set(options.proxies) - {SUBJECT, FLOOR})}
    if missing := [package for tool, package in tools.items() if tool in wanted and shutil.which(tool) is None]:
        print(f"bench: missing (apt install {' '.join(missing)})", file=sys.stderr)
        return 2
    OUT.mkdir(parents=True, exist_ok=True)
    rounds, seconds = (1, QUICK_SECONDS) if options.quick else (options.rounds, options.seconds)
    started, samples = datetime.now(UTC), list[Sample]()
    source = random.Random(options.seed)
    backend = process.free_port()
    server = [PHP, "-d", f"extension={EXTENSION}", str(HERE / "server.php"), str(backend)]
    with running(server, backend, LOAD_CORE):
        for round in range(1, rounds + 1):
            for row in options.rows:
                for id in source.sample(options.proxies, k=len(options.proxies)):
                    samples.append(measure(id, row, round, seconds, backend))
            note(f"round {round} of {rounds}")
    facts = machine.facts()
    text = report(samples, options, facts, rounds)
    default = BUILD / "quick" if options.quick else BENCH / "runs" / f"{started:%Y-%m-%d}-{facts['host']}"
    folder = options.out or default
    folder.mkdir(parents=True, exist_ok=True)
    shown, raw = (folder / f"proxy-{started:%H%M%S}.{kind}" for kind in ("md", "json"))
    shown.write_text(text)
    document = {"started": started.isoformat(), "machine": facts, "command": " ".join(sys.argv)}
    document["samples"] = [asdict(sample) for sample in samples]
    raw.write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{text}")
    note(f"table: {shown}\nraw:   {raw}")
    return 0


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test of the suite: its figures mean nothing")
    parser.add_argument("--rows", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--proxies", nargs="+", choices=list(PROXIES), default=list(PROXIES))
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load, per proxy and row")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data, default bench/runs/<date>-<host>")
    return parser.parse_args()


def measure(id: str, row: str, round: int, seconds: float, backend: int) -> Sample:
    """Starts a proxy, warms it up, and measures one row."""
    _, _, load = ROWS[row]
    port = process.free_port()
    with running(PROXIES[id][1](port, backend), port, PROXY_CORE) as child:
        load(port, QUICK_SECONDS)
        pids = process.tree(child.pid)
        before = process.cpu_ns(pids)
        units, took_s = load(port, seconds)
        if not units:
            raise SystemExit(f"proxy: {id} has answered nothing ({row})")
        return Sample(id, row, round, (process.cpu_ns(pids) - before) / units, units / took_s)


def report(samples: list[Sample], options: argparse.Namespace, facts: dict[str, str], rounds: int) -> str:
    lines = ["# Proxies before one backend", "", markdown.machine_line(facts), ""]
    if options.quick:
        lines += [markdown.QUICK, ""]
    for row in options.rows:
        title, unit, _ = ROWS[row]
        costs = {
            id: {it.round: it.cpu_ns for it in samples if (it.proxy, it.row) == (id, row)} for id in options.proxies
        }
        shown = []
        for id, cost in costs.items():
            ratio = "" if id == SUBJECT or SUBJECT not in costs else compared(costs[SUBJECT], cost)
            rate = median(it.rate for it in samples if (it.proxy, it.row) == (id, row))
            shown.append([PROXIES[id][0], f"{median(cost.values()) / 1000:,.2f}", ratio, f"{rate:,.0f}"])
        lines += [f"## {title}", ""]
        lines += [markdown.table(["", f"CPU per {unit}, us", "Fermata's ÷", "per second"], shown), ""]
        lines += verdict(costs)
    lines += [f"`{' '.join(sys.argv)}`, {rounds} rounds; CPU by schedstat of all processes of each proxy."]
    return "\n".join(lines) + "\n"


def verdict(costs: dict[str, dict[int, float]]) -> list[str]:
    """Returns the verdict on the goal, and the ratio of the system calls only, which is the minimum."""
    ours, goal, floor = (costs.get(id, {}) for id in (SUBJECT, GOAL_PEER, FLOOR))
    found, least = interval(ratios(ours, goal)), interval(ratios(floor, goal))
    if found is None:
        return []
    name = PROXIES[GOAL_PEER][0]
    word = "reached" if found.median <= GOAL_MAX else "MISSED"
    text = f"Goal: at most {GOAL_MAX}× the CPU of {name}: {found.median:.2f}×, {word}."
    if least is not None:
        text += f" System calls alone take {least.median:.2f}× of {name}'s."
    return [text, ""]


def compared(ours: dict[int, float], theirs: dict[int, float]) -> str:
    return markdown.interval_text(interval(ratios(ours, theirs)))


if __name__ == "__main__":
    sys.exit(main())
