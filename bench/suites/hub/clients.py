"""Clients of a hub, in one process: `python3 -m bench.suites.hub.clients PROTOCOL PORT KEY SOURCE`.

It reads one command per line from standard input and replies with a line of JSON. `open COUNT` connects COUNT more clients and
waits until they are subscribed. `hear COUNT` waits until all clients together have received COUNT events since the start. In a
reply, `last` is the time of the last event, by the machine's monotonic clock.
The cost of this process is not measured, so its code is simple and not optimized.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time

CHANNEL = "bench"
EVENT = b"bench-event"
"""Text that every published event contains, and no other message."""
OPENING_MAX = 64
"""Maximum number of connections that are not subscribed yet."""
SILENCE_SECONDS_MAX = 60.0
"""Maximum time without progress, after which a command fails."""
IP_BIND_ADDRESS_NO_PORT = 24
"""Socket option of Linux, for which Python has no constant."""
PONG = bytes([0x8A, 0x80, 0, 0, 0, 0])
PING_OPCODE = 9
CLOSE_OPCODE = 8


def masked(text: str) -> bytes:
    """Returns a client's text frame with a zero masking key, for payloads of at most 125 bytes."""
    payload = text.encode()
    if len(payload) > 125:
        raise ValueError("too long")
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload


class Frames:
    """Splits received bytes into WebSocket frames."""

    def __init__(self) -> None:
        self.left = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        data, frames = self.left + data, []
        while len(data) >= 2:
            length, start = data[1], 2
            if length in (126, 127):
                start = 4 if length == 126 else 10
                length = int.from_bytes(data[2:start])
            if len(data) < start + length:
                break
            frames.append((data[0] & 15, data[start : start + length]))
            data = data[start + length :]
        self.left = data
        return frames


class Client:
    """A connection. `is_ready` is true when it is subscribed."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.head = b""
        self.is_ready = False

    def request(self, key: str) -> bytes:
        raise NotImplementedError

    def feed(self, data: bytes) -> int:
        """Handles bytes of the body. Returns the number of events in them."""
        raise NotImplementedError

    def receive(self, data: bytes) -> int:
        if self.head is not None:
            self.head += data
            head, found, data = self.head.partition(b"\r\n\r\n")
            if not found:
                return 0
            status = head.split(b" ", 2)[1]
            if status not in (b"101", b"200"):
                raise ConnectionError(f"refused: {head[:200]!r}")
            self.head = None
            self.welcome()
        return self.feed(data) if data else 0

    def welcome(self) -> None:
        """Called when the response head was received."""


class PusherClient(Client):
    def __init__(self, line: socket.socket) -> None:
        super().__init__(line)
        self.frames = Frames()

    def request(self, key: str) -> bytes:
        return (
            f"GET /app/{key}?protocol=7&client=bench&version=1 HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\n"
            "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
        ).encode()

    def feed(self, data: bytes) -> int:
        heard = 0
        for opcode, payload in self.frames.feed(data):
            if opcode == PING_OPCODE:
                self.line.send(PONG)
            elif opcode == CLOSE_OPCODE:
                raise ConnectionError(f"closed: {payload!r}")
            elif EVENT in payload:
                heard += 1
            elif b"connection_established" in payload:
                self.line.send(masked(json.dumps({"event": "pusher:subscribe", "data": {"channel": CHANNEL}})))
            elif b"subscription_succeeded" in payload:
                self.is_ready = True
            elif b"pusher:ping" in payload:
                self.line.send(masked('{"event":"pusher:pong"}'))
            elif b"pusher:error" in payload:
                raise ConnectionError(payload.decode(errors="replace"))
        return heard


class MercureClient(Client):
    def __init__(self, line: socket.socket) -> None:
        super().__init__(line)
        self.tail = b""

    def request(self, key: str) -> bytes:
        return f"GET /.well-known/mercure?topic={CHANNEL} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n\r\n".encode()

    def welcome(self) -> None:
        self.is_ready = True

    def feed(self, data: bytes) -> int:
        data = self.tail + data
        heard = data.count(EVENT)
        # Keep bytes that may start a split event, but none of a counted event.
        start = data.rfind(EVENT)
        rest = data if start < 0 else data[start + len(EVENT) :]
        self.tail = rest[1 - len(EVENT) :]
        return heard


PROTOCOLS: dict[str, type[Client]] = {"pusher": PusherClient, "mercure": MercureClient}


class Crowd:
    """All clients of this process."""

    def __init__(self, protocol: str, port: int, key: str, source: str) -> None:
        self.kind, self.port, self.key, self.source = PROTOCOLS[protocol], port, key, source
        self.poll = select.epoll()
        self.clients: dict[int, Client] = {}
        self.ready = 0
        self.heard = 0
        self.last = 0.0
        self.commands = sys.stdin.fileno()
        self.poll.register(self.commands, select.EPOLLIN)

    def run(self) -> None:
        """Executes commands until standard input is closed. Between commands it still reads and responds to pings."""
        pending = b""
        while True:
            if b"\n" not in pending:
                if self.turn(1.0):
                    chunk = os.read(self.commands, 4096)
                    if not chunk:
                        return
                    pending += chunk
                continue
            line, _, pending = pending.partition(b"\n")
            word, count = line.split()
            self.until_ready(int(count)) if word == b"open" else self.until_heard(int(count))
            print(json.dumps({"ready": self.ready, "heard": self.heard, "last": self.last}), flush=True)

    def until_ready(self, more: int) -> None:
        wanted, opened = self.ready + more, len(self.clients)
        seen = time.monotonic()
        while self.ready < wanted:
            before = self.ready
            while opened < wanted and opened - self.ready < OPENING_MAX:
                self.connect()
                opened += 1
            self.turn(0.5)
            seen = self.check(seen, self.ready != before)

    def until_heard(self, wanted: int) -> None:
        seen = time.monotonic()
        while self.heard < wanted:
            before = self.heard
            self.turn(0.5)
            seen = self.check(seen, self.heard != before)

    def check(self, seen: float, has_moved: bool) -> float:
        now = time.monotonic()
        if not has_moved and now - seen > SILENCE_SECONDS_MAX:
            raise ConnectionError(f"nothing has come for {SILENCE_SECONDS_MAX:.0f} s: {self.ready} ready, {self.heard} events")
        return now if has_moved else seen

    def connect(self) -> None:
        line = socket.socket()
        # The ports of one address do not suffice for all clients, so each source address is bound explicitly. With
        # IP_BIND_ADDRESS_NO_PORT the kernel selects the port in connect(), for this destination only. A port that is free for all
        # destinations takes long to find while connections of earlier clients are in TIME_WAIT. Clients would then arrive one
        # at a time, and each would cost a hub that sleeps in between several times as much.
        line.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        line.bind((self.source, 0))
        line.connect(("127.0.0.1", self.port))
        client = self.kind(line)
        line.send(client.request(self.key))
        line.setblocking(False)
        self.clients[line.fileno()] = client
        self.poll.register(line.fileno(), select.EPOLLIN)

    def turn(self, seconds: float) -> bool:
        """Reads from all readable connections. Returns true if a command is available."""
        has_command = False
        for number, _ in self.poll.poll(seconds, 1024):
            if number == self.commands:
                has_command = True
                continue
            client = self.clients[number]
            data = client.line.recv(65536)
            if not data:
                raise ConnectionError("the server has closed a connection")
            was_ready = client.is_ready
            heard = client.receive(data)
            if heard:
                self.heard += heard
                self.last = time.monotonic()
            self.ready += client.is_ready and not was_ready
        return has_command


def main() -> int:
    protocol, port, key, source = sys.argv[1:]
    try:
        Crowd(protocol, int(port), key, source).run()
    except (OSError, ValueError) as reason:
        print(json.dumps({"error": str(reason)}), flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
