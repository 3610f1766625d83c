"""Intentionally slow clients. Each sends or reads a few bytes per second, and reconnects when the server closes its connection."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter

HEAD = b"GET /items/1 HTTP/1.1\r\nHost: a\r\nX-Slow: "
BODIES = (
    b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n",
    b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n7a120\r\n",
    b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=B\r\n"
    b"Content-Length: 500000\r\n\r\n"
    b'--B\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n',
)
READS = tuple(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode() for path in ("/text", "/stream", "/assets/large.bin"))
FIRST = {"slow header": (HEAD,), "slow body": BODIES, "slow reader": READS}
"""First bytes that each kind of client sends. Consecutive clients use different ones."""
RECEIVE_BYTES = 4096
"""Receive buffer of slow readers. It is small, so that data waits in the server and not in the kernel."""
BYTES_PER_TURN = 16
SEGMENT_BYTES = 1460
"""Segment size of a real network. The kernel queues twenty segments for a client that reads nothing; loopback has 64 KiB each."""


class SlowClients(threading.Thread):
    """`count` clients of one kind; runs until `stop` is called."""

    def __init__(self, kind: str, port: int, count: int, period_s: float) -> None:
        super().__init__(daemon=True)
        self._first, self._reads = FIRST[kind], kind == "slow reader"
        self._address, self._count, self._period_s = ("127.0.0.1", port), count, period_s
        self._end = threading.Event()
        self._sockets: list[socket.socket | None] = [None] * count
        self.counts: Counter[str] = Counter()
        """Numbers of opened connections, exchanged bytes, and ended connections by status, or "closed" or "reset"."""
        self.all_open = threading.Event()
        """Set when each client has connected at least once."""

    def run(self) -> None:
        while not self._end.is_set():
            begin = time.monotonic()
            for number in range(self._count):
                self._turn(number)
                # Spread the sends evenly over the period: real clients do not share a clock.
                ahead = begin + self._period_s * number / self._count - time.monotonic()
                if ahead > 0.005 and self.all_open.is_set() and self._end.wait(ahead):
                    break
            self.all_open.set()
            self._end.wait(max(begin + self._period_s - time.monotonic(), 0))
        for one in self._sockets:
            if one:
                one.close()

    def stop(self) -> dict[str, int]:
        """Closes all connections and returns the counts."""
        self._end.set()
        self.join()
        return dict(self.counts)

    def _turn(self, number: int) -> None:
        one = self._sockets[number]
        try:
            if one is None:
                self._sockets[number] = self._open(number)
            elif self._reads:
                self._take(number, one)
            else:
                self._drip(number, one)
        except BlockingIOError:
            return
        except OSError:
            self._ended(number, "closed")

    def _open(self, number: int) -> socket.socket:
        one = socket.socket()
        if self._reads:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
        one.settimeout(5)
        one.connect(self._address)
        one.sendall(self._first[number % len(self._first)])
        one.setblocking(False)
        self.counts["opened"] += 1
        return one

    def _take(self, number: int, one: socket.socket) -> None:
        # Check for a reset first: recv() would still return bytes that arrived before it.
        if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._ended(number, "reset")
            return
        taken = one.recv(BYTES_PER_TURN)
        if not taken:
            self._ended(number, "closed")
        self.counts["bytes"] += len(taken)

    def _drip(self, number: int, one: socket.socket) -> None:
        try:
            answer = one.recv(4096)
        except BlockingIOError:
            self.counts["bytes"] += one.send(b"y")
            return
        is_status = answer.startswith(b"HTTP/1.1 ")
        self._ended(number, f"answered {answer[9:12].decode()}" if is_status else "closed")

    def _ended(self, number: int, how: str) -> None:
        if one := self._sockets[number]:
            one.close()
        self._sockets[number] = None
        self.counts[how] += 1
