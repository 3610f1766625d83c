"""Clients that reset their connection after each byte of a request, or after some bytes of a response."""

from __future__ import annotations

import contextlib
import socket
import struct

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with a timeout of 0: close() sends a reset."""
FORM = (
    b'--B\r\nContent-Disposition: form-data; name="t"\r\n\r\ntext\r\n'
    b'--B\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\ncontent\r\n--B--\r\n'
)
REQUESTS = {
    "page": b"GET /items/7?n=1 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    "body": b"POST /body HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    "chunked": b"POST /body HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nT: t\r\n\r\n",
    "upload": b"POST /upload HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=B\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(FORM), FORM),
    "pipelined": b"GET /text HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
    # A handshake, a masked frame "hi", and half of a second frame.
    "WebSocket": b"GET /echo HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    b"\x81\x82\0\0\0\0hi\x82\xfe\x01\0\0\0\0\0half",
}
ANSWERS = ("/text", "/stream", "/assets/large.bin")
POINTS = (0, 1, 15, 16, 17, 50, 100, 150, 200, 300, 1_000, 5_000, 20_000, 70_000)


def at_every_byte(port: int, step: int) -> dict[str, int]:
    """Resets each request after every `step`th byte, once immediately and once after the server has read the bytes."""
    resets = {}
    for name, wire in REQUESTS.items():
        lengths = range(0, len(wire) + 1, step)
        for length in lengths:
            for is_read in (False, True):
                with socket.create_connection(("127.0.0.1", port)) as one:
                    one.sendall(wire[:length])
                    if is_read:
                        page(port)
                    _reset(one)
        resets[f"{name}, at every byte" if step == 1 else f"{name}, at every {step}th byte"] = 2 * len(lengths)
    return resets


def in_answers(port: int, rounds: int) -> dict[str, int]:
    """Resets connections after some bytes of a response."""
    for path in ANSWERS:
        for _ in range(rounds):
            for point in POINTS:
                with socket.socket() as one:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                    one.settimeout(20)
                    one.connect(("127.0.0.1", port))
                    one.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
                    taken = 0
                    while taken < point:
                        taken += len(one.recv(min(point - taken, 65_536))) or point
                    _reset(one)
    return {f"answer {path}, at {len(POINTS)} points": rounds * len(POINTS) for path in ANSWERS}


def page(port: int) -> int:
    """Requests a page over a separate connection and returns the status; 0 without a response."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=20) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        return int(one.recv(4096)[9:12] or 0)
    return 0


def post(port: int, path: str, content_type: str, body: bytes) -> int:
    """Posts a body and returns the status, even if the server did not read the complete body; 0 without a response."""
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=20) as one:
        with contextlib.suppress(ConnectionError):
            one.sendall(head.encode() + body)
        return int(one.recv(4096)[9:12] or 0)
    return 0


def _reset(one: socket.socket) -> None:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
