"""Downloads with the control frames of a gRPC client, over a plain socket: http2_pings.py HOST:PORT PATH

For each DATA frame it sends a PING, unless the last one was not acknowledged yet, and opens both windows.
"""

import socket
import struct
import sys

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
ACK = END_STREAM = 1
END_HEADERS = 4


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def field(name, value):
    assert len(name) < 127 and len(value) < 127
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def main(address, path):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=60)
    head = b"\x82\x86" + field(b":path", path.encode()) + field(b":authority", host.encode())
    connection.sendall(
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0) + frame(HEADERS, END_HEADERS | END_STREAM, 1, head)
    )
    stream = connection.makefile("rb")
    received, is_pinging = 0, False
    while True:
        header = stream.read(9)
        if len(header) < 9:
            return f"{received} bytes, closed"
        length = int.from_bytes(header[:3], "big")
        kind, flags = header[3], header[4]
        payload = stream.read(length)
        answer = b""
        if kind == DATA:
            received += length
            if not is_pinging:
                answer += frame(PING, 0, 0, b"measure!")
                is_pinging = True
            if length:
                opened = struct.pack(">I", length)
                answer += frame(WINDOW_UPDATE, 0, 0, opened) + frame(WINDOW_UPDATE, 0, 1, opened)
            if flags & END_STREAM:
                return f"{received} bytes, complete"
        elif kind == PING and flags & ACK:
            is_pinging = False
        elif kind == SETTINGS and not flags & ACK:
            answer += frame(SETTINGS, ACK, 0)
        elif kind in (GOAWAY, RST_STREAM):
            return f"{received} bytes, frame {kind}: {payload!r}"
        connection.sendall(answer)


print(main(*sys.argv[1:]))
