"""Clients that do not read. Each kind is a function that connects its clients and yields their sockets."""

from __future__ import annotations

import os
import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

TIMEOUT_S = 10.0
"""Maximum time for a handshake. After it the client continues without a response."""

WINDOW_SETTING = 4
STREAMS = 100
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

MESSAGE_BYTES = 1_000_000


@dataclass
class Target:
    """The server, and the number of client addresses. One address reaches the limit per address, many reach the worker's limit."""

    port: int
    addresses: int
    is_tls: bool = False

    def connect(self, nth: int) -> socket.socket:
        it = socket.socket()
        it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        it.settimeout(TIMEOUT_S)
        nth %= self.addresses
        it.bind((f"127.0.{1 + nth // 250}.{1 + nth % 250}", 0))
        it.connect(("127.0.0.1", self.port))
        if self.is_tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            it = context.wrap_socket(it)
        return it


def _many(target: Target, count: int, request: bytes) -> Iterator[socket.socket]:
    for nth in range(count):
        with suppress(OSError):
            it = target.connect(nth)
            it.sendall(request)
            yield it


def _get(path: str, times: int = 1) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * times


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def _head(path: str) -> bytes:
    return b"\x82\x86\x04" + bytes([len(path)]) + path.encode() + b"\x41\x01x"


def _http2(target: Target, count: int, path: str) -> Iterator[socket.socket]:
    settings = struct.pack(">HI", WINDOW_SETTING, 0)
    opening = PREFACE + _frame(4, 0, 0, settings) + _frame(4, 1, 0)
    requests = b"".join(_frame(1, 5, 2 * nth + 1, _head(path)) for nth in range(STREAMS))
    return _many(target, count, opening + requests)


def _socket(target: Target, nth: int) -> socket.socket:
    it = target.connect(nth)
    it.sendall(
        b"GET /socket HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n" % target.port
    )
    it.recv(1024)
    return it


def _message(payload: bytes, announced: int | None = None) -> bytes:
    """Returns a text frame with masking key 0. Its length field may be larger than the payload."""
    size = len(payload) if announced is None else announced
    head = bytes([0x81, 0x80 | size]) if size < 126 else bytes([0x81, 0xFF]) + struct.pack(">Q", size)
    return head + bytes(4) + payload


def _sockets(target: Target, count: int, message: bytes) -> Iterator[socket.socket]:
    for nth in range(count):
        with suppress(OSError):
            it = _socket(target, nth)
            it.sendall(message)
            yield it


def _flood(target: Target, count: int) -> Iterator[socket.socket]:
    """Sends small messages as fast as the server reads them. The server replies to each."""
    burst = _message(b"20") * 2_000
    for it in _sockets(target, count, burst):
        it.settimeout(0.2)
        with suppress(OSError):
            for _ in range(20):
                it.sendall(burst)
        yield it


def _holds(target: Target, count: int) -> Iterator[socket.socket]:
    yield from list(_many(target, count, _get("/hold")))
    with target.connect(0) as publisher:
        publisher.sendall(b"POST /publish HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        publisher.recv(1024)


Way = Callable[[Target, int], Iterator[socket.socket]]

_BODY = b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % MESSAGE_BYTES + os.urandom(16) * 62_000

WAYS: dict[str, tuple[int, Way]] = {
    "http1": (300, lambda target, count: _many(target, count, _get("/big"))),
    "http1-pipelined": (300, lambda target, count: _many(target, count, _get("/big", 4))),
    "tls": (300, lambda target, count: _many(target, count, _get("/big"))),
    "http2": (6, lambda target, count: _http2(target, count, "/big")),
    "http2-late": (6, lambda target, count: _http2(target, count, "/late")),
    "files": (300, lambda target, count: _many(target, count, _get("/assets/file"))),
    "stream": (50, lambda target, count: _many(target, count, _get("/pieces"))),
    "events": (300, lambda target, count: _many(target, count, _get("/events"))),
    "output": (100, lambda target, count: _many(target, count, _get("/output"))),
    "holds": (300, _holds),
    "socket-sends": (300, lambda target, count: _sockets(target, count, _message(b"3000000"))),
    "socket-flood": (100, _flood),
    "socket-partial": (300, lambda target, count: _sockets(target, count, _message(bytes(999_000), MESSAGE_BYTES))),
    "bodies": (300, lambda target, count: _many(target, count, _BODY)),
}
"""Number of clients of each kind, and the function that connects them."""
