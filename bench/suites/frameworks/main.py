"""Compares the cost of a request in Fermata and in PHP-FPM behind nginx, for Symfony, Laravel, Slim and a PSR-15 handler.

Both run the same applications with opcache. Every round measures each server once, in random order, with wrk over eight
keep-alive connections. wrk and the servers share the cores. The CPU time includes all processes of a server.

The floor of each application is a loop without a server that resets no state between requests. No server can use less CPU
time. `--instructions` instead counts the instructions of the loop and of both servers with callgrind.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.lib import machine, process
from bench.lib.peers import EXTENSION, PHP

from . import instructions

APPS = Path(__file__).with_name("apps")
ROOT = Path(__file__).resolve().parents[3]
ROUNDS = 5
SECONDS = 3
CONNECTIONS = 8
WORKERS = 2
START_S = 300
"""Time limit for the start of a server, sufficient with valgrind on a machine with other load."""
TARGET = "/books/7"
LOOP = "loop"
LOOP_REQUESTS = 100
"""Requests of the loop until all code is compiled. The measured run adds three times this number per second."""
JITS = ("off", "tracing", "function")
# Exclude the handling of deprecations that Debian's packages cause under a newer PHP.
QUIET = ["-d", "error_reporting=8191", "-d", "display_errors=0"]


@dataclass(frozen=True)
class Row:
    id: str
    title: str
    goal: float
    """Minimum ratio of the other server's CPU time to Fermata's, and of Fermata's rate to the other's."""
    script: Path
    target: str = TARGET
    arguments: tuple[str, ...] = ()
    loop: Path | None = None
    """Script that runs the same application without a server. Its argument is the number of requests."""


ROWS = (
    Row("symfony", "Symfony: kernel, router, a Twig template", 12, APPS / "symfony.php", loop=APPS / "symfony-loop.php"),
    Row(
        "laravel",
        "Laravel: middleware, router, a Blade page",
        15,
        ROOT / "examples/laravel/artisan",
        "/",
        ("fermata:start",),
        APPS / "laravel-loop.php",
    ),
    Row("slim", "Slim: a route that answers JSON", 20, APPS / "slim.php", loop=APPS / "slim-loop.php"),
)


class Served:
    """A running server with all its processes."""

    def __init__(self, folder: Path, commands: list[list[str]], port: int, target: str, environment: dict[str, str]) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}{target}"
        self.log = folder / f"log-{port}"
        with self.log.open("wb") as log:
            self.processes = [
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **environment})
                for command in commands
            ]
        self._wait()

    def _wait(self) -> None:
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(self.url, timeout=START_S) as answer:
                    self.body = answer.read()
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"no server at {self.url}:\n{self.log.read_text()[-2000:]}")

    def cpu_ns(self) -> int:
        return sum(process.cpu_ns(process.tree(it.pid)) for it in self.processes)

    def stop(self) -> None:
        for it in self.processes:
            process.stop(it)


def opcache(jit: str) -> list[str]:
    """Returns the opcache settings of all servers: those of `fermata serve`, with the given JIT mode."""
    settings = ["opcache.enable_cli=1", f"opcache.jit={jit}", f"opcache.jit_buffer_size={'0' if jit == 'off' else '64M'}"]
    return [word for setting in settings for word in ("-d", setting)]


def fermata(
    folder: Path, row: Row, environment: dict[str, str], jit: str, prefix: Sequence[str] = (), workers: int = WORKERS
) -> Served:
    port = process.free_port()
    command = [*prefix, PHP, "-d", f"extension={EXTENSION}", *opcache(jit), *QUIET, str(row.script), *row.arguments]
    settings = {"FERMATA_LISTEN": f"http://127.0.0.1:{port}", "FERMATA_WORKERS": str(workers)}
    return Served(folder, [command], port, row.target, {**environment, **settings})


def fpm(
    folder: Path, row: Row, environment: dict[str, str], jit: str, prefix: Sequence[str] = (), workers: int = WORKERS
) -> Served:
    port = process.free_port()
    name = f"{row.id}-{port}"
    script = ROOT / "bench/suites/frameworks/apps/laravel-fpm.php" if row.id == "laravel" else row.script
    variables = "".join(f"env[{key}] = {value}\n" for key, value in environment.items())
    (folder / f"{name}.fpm").write_text(
        # Without this time-out PHP-FPM kills its workers before callgrind has written its counts.
        f"[global]\nerror_log = {folder}/fpm-{port}.log\ndaemonize = no\nprocess_control_timeout = 60\n"
        f"[www]\nlisten = {folder}/{name}.sock\nlisten.mode = 0666\n"
        f"user = root\ngroup = root\npm = static\npm.max_children = {workers}\n{variables}"
    )
    (folder / f"{name}.nginx").write_text(
        f"daemon off; worker_processes {workers}; pid {folder}/{name}.pid; error_log {folder}/nginx-{port}.log; user root;\n"
        "events {}\nhttp { access_log off; keepalive_requests 1000000000;\n"
        f"server {{ listen 127.0.0.1:{port}; location / {{ include /etc/nginx/fastcgi_params;\n"
        f"fastcgi_param SCRIPT_FILENAME {script}; fastcgi_param SCRIPT_NAME /index.php;\n"
        f"fastcgi_pass unix:{folder}/{name}.sock; }} }} }}\n"
    )
    tell = [PHP, "-n", "-r", "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"]
    version = subprocess.run(tell, capture_output=True, text=True).stdout
    settings = [*opcache(jit), *QUIET, "-y", str(folder / f"{name}.fpm")]
    commands = [
        [*prefix, shutil.which(f"php-fpm{version}") or f"/usr/sbin/php-fpm{version}", "-R", "-F", *settings],
        [*prefix, shutil.which("nginx") or "/usr/sbin/nginx", "-c", str(folder / f"{name}.nginx")],
    ]
    return Served(folder, commands, port, row.target, environment)


def measure(server: Served, seconds: int) -> dict[str, float]:
    before = server.cpu_ns()
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--latency", server.url]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    cpu = server.cpu_ns() - before
    requests = int(re.search(r"(\d+) requests in", text).group(1))
    if "Non-2xx" in text or "Socket errors" in text:
        raise RuntimeError(f"{server.url}: {text}")
    p99 = re.search(r"99%\s+([\d.]+)(us|ms|s)", text)
    return {
        "rate": float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)),
        "cpu_us": cpu / requests / 1000,
        "p99_ms": float(p99.group(1)) * {"us": 0.001, "ms": 1, "s": 1000}[p99.group(2)],
    }


def run_row(
    row: Row, servers: dict[str, Served], rounds: int, seconds: int, environment: dict[str, str], jit: str
) -> dict[str, list[dict[str, float]]]:
    names = [*servers, LOOP] if row.loop else list(servers)
    samples: dict[str, list[dict[str, float]]] = {name: [] for name in names}
    for server in servers.values():
        measure(server, min(seconds, 1))
    for round in range(1, rounds + 1):
        order = list(names)
        random.shuffle(order)
        for name in order:
            if name == LOOP:
                samples[name].append({"cpu_us": loop_cpu_us(row.loop, environment, seconds, jit)})
            else:
                samples[name].append(measure(servers[name], seconds))
        print(f"frameworks: {row.id}, round {round} of {rounds}", file=sys.stderr, flush=True)
    return samples


def loop(script: Path, requests: int, jit: str) -> list[str]:
    return [PHP, *opcache(jit), *QUIET, str(script), str(requests)]


def loop_cpu_us(script: Path, environment: dict[str, str], seconds: int, jit: str) -> float:
    """Returns the CPU time of a request in a loop without a server, from the difference of two runs.

    As many loops run concurrently as servers have workers, because two threads of one core are slower than one."""
    few, many = LOOP_REQUESTS, LOOP_REQUESTS * (1 + 3 * seconds)
    took = []
    for requests in (few, many):
        command = loop(script, requests, jit)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        loops = [subprocess.Popen(command, env={**os.environ, **environment}) for _ in range(WORKERS)]
        if any([it.wait() for it in loops]):
            raise RuntimeError(f"{script} has failed")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return (took[1] - took[0]) / (many - few) / WORKERS * 1e6


def floor_line(title: str, samples: dict[str, list[dict[str, float]]], goal: float) -> str:
    """Returns a line that compares the goal with the ratio that a server without any cost would reach."""
    reachable = ratio(samples, "fpm", LOOP, "cpu_us")
    ours = ratio(samples, "fermata", LOOP, "cpu_us")
    floor = median(it["cpu_us"] for it in samples[LOOP])
    verdict = f"the framework alone allows CPU ≥ {goal:g}×" if reachable >= goal else f"no server meets CPU ≥ {goal:g}×"
    return f"| {title} | {floor:.0f} us; Fermata takes {ours:.2f} of it | | {reachable:.1f} | | | {verdict} |"


def ratio(samples: dict[str, list[dict[str, float]]], of: str, to: str, what: str) -> float:
    return median(a[what] / b[what] for a, b in zip(samples[of], samples[to], strict=True))


def judge(figures: dict[str, float], goals: dict[str, float]) -> str:
    """Returns each goal with its verdict."""
    return "; ".join(
        f"{what} ≥ {goal:g}×: {'met' if figures[what] >= goal else f'missed, {figures[what]:.2f}'}" for what, goal in goals.items()
    )


def line(title: str, samples: dict[str, list[dict[str, float]]], other: str, goals: dict[str, float]) -> str:
    figures = [
        f"{median(it['cpu_us'] for it in samples[name]):.0f} us, {median(it['rate'] for it in samples[name]):.0f}/s, "
        f"p99 {median(it['p99_ms'] for it in samples[name]):.1f} ms"
        for name in ("fermata", other)
    ]
    ratios = {
        "CPU": ratio(samples, other, "fermata", "cpu_us"),
        "rate": ratio(samples, "fermata", other, "rate"),
        "p99": ratio(samples, other, "fermata", "p99_ms"),
    }
    cells = [title, *figures, f"{ratios['CPU']:.1f}", f"{ratios['rate']:.2f}", f"{ratios['p99']:.1f}", judge(ratios, goals)]
    return f"| {' | '.join(cells)} |"


def production(folder: str) -> dict[str, str]:
    """Returns the environment of all servers and loops. Laravel reads the paths of its caches from it."""
    caches = {"APP_CONFIG_CACHE": f"{folder}/config.php", "APP_ROUTES_CACHE": f"{folder}/routes.php"}
    return {"BENCH_FOLDER": folder, "APP_VAR": folder, "APP_ENV": "prod", "APP_DEBUG": "0", "SESSION_DRIVER": "array", **caches}


def prepare(row: Row, environment: dict[str, str]) -> None:
    """Caches Laravel's configuration and routes, as a deployment does. All measured servers and loops use the caches."""
    if row.id != "laravel":
        return
    for what in ("config:cache", "route:cache"):
        command = [PHP, "-d", f"extension={EXTENSION}", *QUIET, str(row.script), what]
        subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, check=True)
    for name in ("APP_CONFIG_CACHE", "APP_ROUTES_CACHE"):
        if not Path(environment[name]).is_file():
            raise RuntimeError(f"artisan has not written {environment[name]}")


def count(rows: list[Row], jit: str) -> int:
    print("| | bare loop | Fermata | of which not the loop's | nginx and PHP-FPM | PHP-FPM's / Fermata's |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="fermata-frameworks-") as place:
        folder, environment = Path(place), production(place)
        for row in rows:
            prepare(row, environment)
            alone = instructions.of_loop(lambda requests, row=row: loop(row.loop, requests, jit), environment)
            started = {
                start: lambda prefix, row=row, start=start: start(folder, row, environment, jit, prefix, 1)
                for start in (fermata, fpm)
            }
            ours = instructions.of_server(started[fermata], row.target)
            theirs = instructions.of_server(started[fpm], row.target, instructions.REQUESTS_FPM)
            cells = [row.title, *(f"{it:,.0f}" for it in (alone, ours, ours - alone, theirs)), f"{theirs / ours:.1f}"]
            print(f"| {' | '.join(cells)} |", flush=True)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a smoke test: its figures mean nothing")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="of each measurement")
    parser.add_argument("--out", type=Path, help="folder for table and raw data; default: only printed")
    parser.add_argument("--jit", choices=JITS, default="tracing", help="of both sides; default: as `fermata serve` has it")
    parser.add_argument("--rows", nargs="+", choices=[row.id for row in ROWS], default=[row.id for row in ROWS])
    parser.add_argument(
        "--instructions", action="store_true", help="count instructions per request, whatever else the machine does"
    )
    options = parser.parse_args()
    if options.instructions:
        return count([row for row in ROWS if row.id in options.rows], options.jit)
    rounds, seconds = (1, 1) if options.quick else (options.rounds, options.seconds)
    raw: dict[str, dict[str, list[dict[str, float]]]] = {}
    lines = [
        "| | Fermata: CPU per request, rate | the other | the other's CPU / Fermata's | Fermata's rate / the other's "
        "| the other's p99 / Fermata's | goals |",
        "|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory(prefix="fermata-frameworks-") as place:
        folder = Path(place)
        environment = production(place)
        for row in ROWS:
            if row.id not in options.rows:
                continue
            prepare(row, environment)
            servers = {"fermata": fermata(folder, row, environment, options.jit)}
            try:
                servers["fpm"] = fpm(folder, row, environment, options.jit)
                raw[row.id] = run_row(row, servers, rounds, seconds, environment, options.jit)
            finally:
                for server in servers.values():
                    server.stop()
            lines.append(line(f"{row.title}; nginx and PHP-FPM", raw[row.id], "fpm", {"CPU": row.goal, "rate": row.goal, "p99": 1}))
            if row.loop is not None:
                title = f"{row.title}: in a bare loop, without a server; nginx and PHP-FPM"
                lines.append(floor_line(title, raw[row.id], row.goal))
        for title, variables in (("with superglobals", {}), ("without", {"BENCH_GLOBALS": "0"})):
            row = Row(f"psr15 {title}", f"PSR-15, a handler that does nothing, {title}; a native route", 0, APPS / "psr15.php")
            servers = {"fermata": fermata(folder, row, {**environment, **variables, "FERMATA_HANDLERS_MAX": "1"}, options.jit)}
            try:
                servers["native"] = fermata(folder, Row("native", "", 0, APPS / "native.php"), environment, options.jit)
                raw[row.id] = run_row(row, servers, rounds, seconds, environment, options.jit)
            finally:
                for server in servers.values():
                    server.stop()
            lines.append(line(row.title, raw[row.id], "native", {"rate": 0.5}))
    text = "\n".join(lines) + "\n"
    print(text, end="")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "frameworks.md").write_text(text)
        data = {"machine": machine.facts(), "samples": raw, "command": " ".join(sys.argv)}
        (options.out / "frameworks.json").write_text(json.dumps(data, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
