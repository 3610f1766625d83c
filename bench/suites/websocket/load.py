"""Runs the load generator `fermata load ws`, which receives and verifies every message."""

from __future__ import annotations

import json
import resource
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from bench.lib.load import LoadError
from bench.lib.peers import FERMATA

from .peers import OUT

SECONDS_MAX = 30.0


@dataclass(frozen=True)
class Load:
    """Result of one run of the generator."""

    command: str
    result: dict[str, Any]
    wall_seconds: float
    client_cpu_ns: int

    def count(self, name: str) -> int:
        return int(self.result["counters"][name])


def command(scenario: list[str], url: str) -> list[str]:
    words = [str(FERMATA), "load", "ws", *scenario[:1], url, *scenario[1:], "--quiet"]
    return [*words, "--insecure"] if url.startswith("wss:") else words


def run(prefix: list[str], scenario: list[str], url: str, watched: list[int]) -> Load:
    """Runs a scenario. Raises LoadError if a message was lost, changed, duplicated or refused."""
    OUT.mkdir(parents=True, exist_ok=True)
    out = OUT / "load.json"
    out.unlink(missing_ok=True)
    words = [*prefix, *command(scenario, url), "--json", str(out)]
    if scenario[0] == "fanout":
        words += [word for pid in watched for word in ("--watch", str(pid))]
    before, started = _children_ns(), time.monotonic()
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"the load did not end within {SECONDS_MAX:.0f} s") from error
    wall = time.monotonic() - started
    if done.returncode != 0:
        raise LoadError(_reason(done.stdout, done.stderr))
    return Load(" ".join(words), json.loads(out.read_text()), wall, _children_ns() - before)


def _reason(stdout: str, stderr: str) -> str:
    """Returns the lines of the output that describe errors."""
    ignored = ("measured", "connections", "received", "latency", "first answer", "connect to close", "echo ", "ws ")
    lines = [" ".join(line.split()) for line in (stdout + stderr).splitlines() if line.strip()]
    return "; ".join(line for line in lines if not line.startswith(ignored))[:300] or "no output"


def _children_ns() -> int:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)
