"""Counts the user instructions per request of the same servers and loops. Other load on the machine does not affect them.

Each count is the difference of two runs with N and 2 N sequential requests over one connection. Kernel time is not included;
PHP-FPM behind nginx uses more of it than Fermata.
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
"""Fewer requests for PHP-FPM: each takes ten times as long, and all execute the same instructions."""
WARM_UP = 120
"""Number of requests after which all code is compiled."""
END_S = 300


class Server(Protocol):
    port: int
    body: bytes
    processes: list[subprocess.Popen[bytes]]


def of_loop(command: Callable[[int], list[str]], environment: dict[str, str]) -> float:
    """Returns the instructions per request of a command whose argument is the number of requests."""

    def run(folder: Path, requests: int) -> None:
        line = [*_callgrind(folder), *command(requests)]
        subprocess.run(line, check=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment})

    # Run once without measuring, so that the application has filled its cache.
    subprocess.run(command(1), check=True, stdin=subprocess.DEVNULL, env={**os.environ, **environment})
    return _difference(run)


def of_server(start: Callable[[list[str]], Server], target: str, requests_counted: int = REQUESTS) -> float:
    """Returns the instructions per request of all processes of a server. `start` receives the tool as command prefix."""

    def run(folder: Path, requests: int) -> None:
        server = start(_callgrind(folder))
        try:
            with connect(server.port) as client:
                client.settimeout(END_S)
                for _ in range(requests):
                    client.sendall(request(target, server.port))
                    # nginx sends PHP-FPM's responses chunked, so the bytes must be parsed to find the end of the body.
                    answer = HTTPResponse(client, method="GET")
                    answer.begin()
                    if answer.status != 200 or len(answer.read()) != len(server.body):
                        raise CannotRun(f"the server answered with status {answer.status}")
        finally:
            _end(server)

    # Fill the cache first, as for loops: building a container under callgrind takes minutes, longer than the start time-out.
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
