"""Measures requests with h2load, and TLS handshakes with Python's ssl module."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import time
from dataclasses import dataclass

from bench.lib import process
from bench.lib.peers import Running
from bench.lib.process import CoreTime

CORE = 0
WARM_SECONDS = 0.1
LOAD_SECONDS_MAX = 120.0
SOCKET_SECONDS_MAX = 60.0
BODY = b'{"status":"OK"}'


class LoadError(Exception):
    """A measurement failed; the message is the reason."""


@dataclass(frozen=True)
class Row:
    title: str
    unit: str
    arguments: tuple[str, ...] = ()
    """Arguments of h2load; empty for rows that measure handshakes."""
    resumes: bool = False


ROWS = {
    "1x100": Row("Small JSON, one connection with 100 streams", "requests", ("-c", "1", "-m", "100")),
    "100x1": Row("Small JSON, 100 connections with one stream", "requests", ("-c", "100", "-m", "1")),
    "full": Row("Connections with a full handshake and one request", "connections"),
    "resumed": Row("Connections with a resumed handshake and one request", "connections", resumes=True),
}


@dataclass(frozen=True)
class Sample:
    row: str
    peer: str
    round: int
    rate: float
    """Requests or handshakes per second, with client and server on one core."""
    cpu_ns: float
    """CPU time of the server per request or handshake."""
    done: int
    foreign: float
    """Share of the core that other processes used."""
    steal: float


def measure(row: str, running: Running, peer: str, round: int, seconds: float) -> Sample:
    kind = ROWS[row]
    pids = running.pids()
    load = _requests if kind.arguments else _handshakes
    load(kind, running, WARM_SECONDS)
    before, core, children, began = process.cpu_ns(pids), CoreTime.now(CORE), _own_cpu_s(), time.monotonic()
    done, spent_s = load(kind, running, seconds)
    elapsed_s = time.monotonic() - began
    server_ns = process.cpu_ns(pids) - before
    now = CoreTime.now(CORE)
    if not done or not running.alive():
        raise LoadError("nothing was answered")
    steal = (now.steal - core.steal) / elapsed_s
    used_s = server_ns / 1e9 + _own_cpu_s() - children
    idle_s = now.idle - core.idle
    foreign = max(0.0, 1.0 - (used_s + idle_s) / elapsed_s - steal)
    return Sample(row, peer, round, done / spent_s, server_ns / done, done, foreign, steal)


def _own_cpu_s() -> float:
    """Returns the CPU time of this process and of its exited children, in seconds."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _requests(kind: Row, running: Running, seconds: float) -> tuple[int, float]:
    url = f"https://127.0.0.1:{running.port}/"
    command = ["taskset", "-c", str(CORE), "h2load", *kind.arguments, "-D", f"{seconds:g}", url]
    # h2load's -D accepts only whole seconds, so shorter runs use a number of requests.
    if seconds < 1:
        command[command.index("-D") : command.index("-D") + 2] = ["-n", str(max(200, int(5_000 * seconds)))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_SECONDS_MAX, check=False)
    except subprocess.TimeoutExpired as error:
        raise LoadError(f"h2load took longer than {LOAD_SECONDS_MAX:.0f} s") from error
    return read_h2load(done.stdout + done.stderr)


def read_h2load(text: str) -> tuple[int, float]:
    """Returns the number of 2xx responses and the duration in seconds from h2load's report. Raises LoadError."""
    if "Application protocol: h2" not in text:
        raise LoadError("HTTP/2 was not agreed to")
    finished = re.search(r"finished in ([\d.]+)(ms|us|s), ([\d.]+) req/s", text)
    codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", text)
    failed = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", text)
    if not finished or not codes or not failed:
        raise LoadError(text.strip().splitlines()[-1] if text.strip() else "h2load has said nothing")
    if any(map(int, failed.groups())) or any(map(int, codes.groups()[1:])):
        raise LoadError(f"{failed.group(0)}; {codes.group(0)}")
    answered, rate = int(codes.group(1)), float(finished.group(3))
    if not rate:
        raise LoadError("nothing was answered")
    # The rate excludes start and warm-up, so the duration follows from it.
    return answered, answered / rate


def _handshakes(kind: Row, running: Running, seconds: float) -> tuple[int, float]:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {CORE})
    try:
        session = _connect(context, running.port, None)[0] if kind.resumes else None
        began, done = time.monotonic(), 0
        while time.monotonic() - began < seconds:
            again, was_resumed = _connect(context, running.port, session)
            if was_resumed != kind.resumes:
                raise LoadError("a session was not resumed" if kind.resumes else "a session was resumed")
            session = again if kind.resumes else None
            done += 1
        return done, time.monotonic() - began
    except OSError as error:
        raise LoadError(str(error)) from error
    finally:
        os.sched_setaffinity(0, before)


def _connect(context: ssl.SSLContext, port: int, session: ssl.SSLSession | None) -> tuple[ssl.SSLSession | None, bool]:
    """Sends one HTTP/1.1 request over a new connection. Returns its TLS session, and true if it resumed the given one."""
    plain = socket.create_connection(("127.0.0.1", port), timeout=SOCKET_SECONDS_MAX)
    with context.wrap_socket(plain, server_hostname="localhost", session=session) as secure:
        secure.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = b""
        while BODY not in answer:
            piece = secure.recv(4096)
            if not piece:
                raise LoadError(f"the answer was {answer[:200]!r}")
            answer += piece
        return secure.session, bool(secure.session_reused)
