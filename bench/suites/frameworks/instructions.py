"""Instructions per request of the same servers and loops: what does not depend on how busy the machine is.

Each is the difference of two runs, of N requests and of 2 N, one at a time over one connection. Time in the kernel is not in it,
and PHP-FPM behind nginx spends more of it than Fermata.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable
from http.client import HTTPResponse
from pathlib import Path
from typing import Protocol

from bench.lib.peers import CannotRun
from bench.suites.counts.count import by_library, connect, request

REQUESTS = 150
REQUESTS_FPM = 30
"""Each takes ten times as long, and is as the one before."""
WARM_UP = 120
"""Requests after which all is compiled."""
END_S = 300


class Server(Protocol):
    port: int
    body: bytes
    processes: list[subprocess.Popen[bytes]]


def of_loop(command: Callable[[int], list[str]], environment: dict[str, str]) -> float:
    """Of a program that is told how many requests to answer."""

    def run(folder: Path, requests: int) -> None:
        line = [*_callgrind(folder), *command(requests)]
        subprocess.run(line, check=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment})

    # What an application writes to its cache, it writes once.
    subprocess.run(command(1), check=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    return _difference(run)


def of_server(start: Callable[[list[str]], Server], target: str, requests_counted: int = REQUESTS) -> float:
    """Of all processes of a server, which `start` starts under the tool that it is given."""

    def run(folder: Path, requests: int) -> None:
        server = start(_callgrind(folder))
        try:
            with connect(server.port) as client:
                client.settimeout(END_S)
                for _ in range(requests):
                    client.sendall(request(target, server.port))
                    # nginx sends what PHP-FPM answers in chunks, so that the body is not what comes last.
                    answer = HTTPResponse(client, method="GET")
                    answer.begin()
                    if answer.status != 200 or len(answer.read()) != len(server.body):
                        raise CannotRun(f"the server answered with status {answer.status}")
        finally:
            _end(server)

    # As of a loop: to build a container takes minutes under the tool, on a busy machine longer than any server is waited for.
    _end(start([]))
    return _difference(run, requests_counted)


def _end(server: Server) -> None:
    for it in server.processes:
        it.terminate()
    for it in server.processes:
        it.wait(END_S)


def _callgrind(folder: Path) -> list[str]:
    return ["valgrind", "--tool=callgrind", "--quiet", "--trace-children=yes", f"--callgrind-out-file={folder}/%p"]


def _difference(run: Callable[[Path, int], None], requests: int = REQUESTS) -> float:
    warm_up = min(WARM_UP, 2 * requests)
    few, many = (_total(run, warm_up + times * requests) for times in (1, 2))
    return (many - few) / requests


def _total(run: Callable[[Path, int], None], requests: int) -> int:
    with tempfile.TemporaryDirectory(prefix="fermata-instructions-") as place:
        run(Path(place), requests)
        files = [path for path in Path(place).iterdir() if path.stat().st_size > 0]
        if not files:
            raise CannotRun("callgrind wrote nothing")
        return sum(sum(by_library(file.read_text().splitlines()).values()) for file in files)
