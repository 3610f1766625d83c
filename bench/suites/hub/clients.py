"""Clients of a hub, in one process: `python3 -m bench.suites.hub.clients PROTOCOL PORT KEY SOURCE`.

It reads commands from its input, a line each, and answers each with a line of JSON: `open COUNT` connects so many more and
waits until they are subscribed, `hear COUNT` waits until so many events have come to them all together since the start. `last`
of an answer is when the last event came, by the clock that all processes of the machine share.
What it costs is not measured, so it is as plain as can be.
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
"""In each event that is published, and in nothing else."""
OPENING_MAX = 64
"""Connections that are being opened at a time."""
SILENCE_SECONDS_MAX = 60.0
"""A command during which nothing comes for so long has failed."""
IP_BIND_ADDRESS_NO_PORT = 24
"""Of Linux; Python has no name for it."""
PONG = bytes([0x8A, 0x80, 0, 0, 0, 0])
PING_OPCODE = 9
CLOSE_OPCODE = 8


def masked(text: str) -> bytes:
    """A text message of a client, short ones only; the mask is zero."""
    payload = text.encode()
    if len(payload) > 125:
        raise ValueError("too long")
    return bytes([0x81, 0x80 | len(payload), 0, 0, 0, 0]) + payload


class Frames:
    """Splits what a server sends into frames."""

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
    """One connection; `is_ready` when it is subscribed."""

    def __init__(self, line: socket.socket) -> None:
        self.line = line
        self.head = b""
        self.is_ready = False

    def request(self, key: str) -> bytes:
        raise NotImplementedError

    def feed(self, data: bytes) -> int:
        """Takes bytes behind the head; how many events were in them."""
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
        """The head has come."""


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
        # The rest of an event that comes in two parts, and nothing that was counted.
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
        """Answers commands until the input ends. Servers are answered meanwhile, too."""
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
        # So many that the ports of one address would not do. Which port it is is chosen with the address of the hub: for one
        # that is free for all hubs the kernel searches long when earlier clients' connections are still kept by it, clients
        # come one by one then, and each costs a hub that sleeps in between several times as much.
        line.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        line.bind((self.source, 0))
        line.connect(("127.0.0.1", self.port))
        client = self.kind(line)
        line.send(client.request(self.key))
        line.setblocking(False)
        self.clients[line.fileno()] = client
        self.poll.register(line.fileno(), select.EPOLLIN)

    def turn(self, seconds: float) -> bool:
        """Takes what has come; whether a command has."""
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
