"""Clients that only occupy connections. They run in separate processes because of the limit of descriptors per process."""

from __future__ import annotations

import contextlib
import multiprocessing
import socket
from collections import Counter
from multiprocessing.connection import Connection

PER_PROCESS = 10_000
TIMEOUT_S = 20.0


class Holders:
    """`count` connections, each of which has requested a page. `counts` has the number of each outcome, see `answer`."""

    def __init__(self, port: int, count: int) -> None:
        self.counts: Counter[str] = Counter()
        self._processes = []
        fork = multiprocessing.get_context("fork")
        for first in range(0, count, PER_PROCESS):
            ours, theirs = fork.Pipe()
            process = fork.Process(target=_hold, args=(port, min(PER_PROCESS, count - first), theirs), daemon=True)
            process.start()
            self._processes.append((process, ours))
            # Start processes one after another, so that refused clients are always the latest.
            self.counts.update(ours.recv())

    def leave(self, count: int) -> None:
        """Closes the first `count` connections."""
        _, pipe = self._processes[0]
        pipe.send(count)
        pipe.recv()

    def close(self) -> None:
        for process, pipe in self._processes:
            with contextlib.suppress(OSError):
                pipe.send(None)
            process.join(TIMEOUT_S)


def ask(port: int, timeout_s: float = TIMEOUT_S) -> tuple[socket.socket, str]:
    """Connects and requests `/`. Returns the connection and the status; "waits" after a timeout, "closed" after a close."""
    one = socket.socket()
    one.settimeout(timeout_s)
    try:
        one.connect(("127.0.0.1", port))
        one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        return one, answer(one)
    except TimeoutError:
        return one, "waits"
    except ConnectionError:
        return one, "closed"


def answer(one: socket.socket) -> str:
    """Returns the status of the next response, also if no request was sent; "waits" or "closed" without a response."""
    try:
        head = one.recv(4096)
    except TimeoutError:
        return "waits"
    except ConnectionError:
        return "closed"
    return head[9:12].decode() if head else "closed"


def _hold(port: int, count: int, pipe: Connection) -> None:
    held, counts = [], Counter()
    for _ in range(count):
        one, found = ask(port)
        counts[found] += 1
        held.append(one)
    pipe.send(counts)
    while (leaving := pipe.recv()) is not None:
        for one in held[:leaving]:
            one.close()
        del held[:leaving]
        pipe.send(len(held))
