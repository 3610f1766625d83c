"""Runs load generators: wrk for closed loops, ab for the rows of seed 000, `fermata load http` for the open loop."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import tempfile
from dataclasses import dataclass, field

from .peers import BENCH, FERMATA

CONNECTIONS = 100
"""Connections of the closed loop."""
AB_CONCURRENCY = 10
"""Concurrent requests of ab, as in seed 000."""
GRACE_SECONDS = 30.0
UNSENT_SHARE_MAX = 0.02


class LoadError(Exception):
    """The load generator failed; the message is the reason."""


@dataclass(frozen=True)
class Load:
    """Result of one run of a load generator."""

    command: str
    requests: int
    seconds: float
    client_cpu_ns: int
    errors: dict[str, int] = field(default_factory=dict)
    latency_us: dict[str, int] = field(default_factory=dict)
    kept_alive: int | None = None
    """Number of requests that reused a connection; None unless the generator is ab."""


def wrk(
    prefix: list[str],
    port: int,
    seconds: int,
    script: str,
    threads: int = 1,
    connections: int = CONNECTIONS,
    path: str = "/",
    timeout_seconds: int = 5,
) -> Load:
    """Runs wrk for `seconds` with a script in bench/load."""
    command = [
        *prefix,
        "wrk",
        f"-t{threads}",
        f"-c{connections}",
        f"-d{seconds}s",
        "--timeout",
        f"{timeout_seconds}s",
        "-s",
        str(BENCH / "load" / script),
        f"http://127.0.0.1:{port}{path}",
    ]
    text, client_cpu_ns = _run(command, seconds + GRACE_SECONDS)
    line = next((line for line in text.splitlines() if line.startswith("{")), None)
    if line is None:
        raise LoadError(f"wrk printed no summary: {text.strip()[-200:]}")
    summary = json.loads(line)
    errors = {key: summary[key] for key in ("connect", "read", "write", "status", "timeout") if summary[key]}
    if not summary["requests"]:
        raise LoadError(f"no request was answered within {seconds} s {errors or ''}".rstrip())
    return Load(
        command=" ".join(command),
        requests=summary["requests"],
        seconds=summary["duration_us"] / 1e6,
        client_cpu_ns=client_cpu_ns,
        errors=errors,
        latency_us={"p50": summary["p50_us"], "p99": summary["p99_us"]},
    )


def ab(
    prefix: list[str],
    port: int,
    requests: int,
    path: str,
    keep_alive: bool,
    concurrency: int = AB_CONCURRENCY,
    timeout_seconds: int = 5,
) -> Load:
    """Runs ab with `requests` requests, at most `concurrency` at a time. Opens a connection per request unless `keep_alive`."""
    command = [
        *prefix,
        "ab",
        "-q",
        "-n",
        str(requests),
        "-c",
        str(min(concurrency, requests)),
        "-s",
        str(timeout_seconds),
        *(["-k"] if keep_alive else []),
        f"http://127.0.0.1:{port}{path}",
    ]
    text, client_cpu_ns = _run(command, 60 + GRACE_SECONDS)
    return parse_ab(text, " ".join(command), client_cpu_ns)


def open_loop(prefix: list[str], port: int, seconds: float, rate: int) -> Load:
    """Sends `rate` requests per second, or runs a closed loop if 0. Latency is measured from each request's scheduled time."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [*prefix, str(FERMATA), "load", "http", f"http://127.0.0.1:{port}/", f"--connections={CONNECTIONS}"]
        command += [f"--duration={seconds * 1000:.0f}ms", f"--warmup={seconds * 100:.0f}ms", "--quiet"]
        command += [f"--rate={rate}"] if rate else []
        _, client_cpu_ns = _run([*command, "--json", file.name], seconds + GRACE_SECONDS)
        found = json.loads(file.read())
    counters = found["counters"]
    wrong = ("bad_responses", "connect_failures", "failures", "timeouts")
    errors = {name: counters[name] for name in wrong if counters[name]}
    # The last requests of a run may be due but unsent. A larger share means that the load did not reach its rate.
    if counters["unsent"] > UNSENT_SHARE_MAX * counters["responses"]:
        errors["unsent"] = counters["unsent"]
    return Load(
        command=" ".join(command),
        requests=counters["responses"],
        seconds=found["measured_s"],
        client_cpu_ns=client_cpu_ns,
        errors=errors,
        latency_us={name: round(found["latency_us"][name]) for name in ("p50", "p99", "p99.9")},
    )


def parse_ab(text: str, command: str, client_cpu_ns: int) -> Load:
    """Parses ab's report. Failed requests and responses other than 2xx are errors."""

    def number(pattern: str) -> float:
        found = re.search(pattern, text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    requests = int(number(r"^Complete requests:\s+(\d+)"))
    seconds = number(r"^Time taken for tests:\s+([\d.]+)")
    if not requests or not seconds:
        raise LoadError(f"ab printed no result: {text.strip()[-200:]}")
    errors = {
        "failed": int(number(r"^Failed requests:\s+(\d+)")),
        "not 2xx": int(number(r"^Non-2xx responses:\s+(\d+)")),
    }
    return Load(
        command=command,
        requests=requests,
        seconds=seconds,
        client_cpu_ns=client_cpu_ns,
        errors={key: count for key, count in errors.items() if count},
        latency_us={f"p{share}": int(number(rf"^\s+{share}%\s+(\d+)")) * 1000 for share in (50, 99)},
        kept_alive=int(number(r"^Keep-Alive requests:\s+(\d+)")),
    )


def _run(command: list[str], seconds_max: float) -> tuple[str, int]:
    """Runs a command until it exits. Returns its output and its processor time."""
    before = _children_cpu_ns()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds_max,
            check=False,
            env=os.environ | {"BENCH_LOAD": str(BENCH / "load")},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LoadError(f"`{' '.join(command)}`: {error}") from error
    if done.returncode != 0:
        raise LoadError(f"`{' '.join(command)}` failed: {done.stdout.strip()[-200:]}")
    return done.stdout, _children_cpu_ns() - before


def _children_cpu_ns() -> int:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((usage.ru_utime + usage.ru_stime) * 1e9)
