"""Clients that ask again and again: long polls, and SockJS sessions by `xhr`. A program of its own: `polls.py JSON`.

The messages are those that `fermata load` publishes and numbers; each client verifies each one. Clients leave in every
way and come back: a long poll says what it has had last, a SockJS client begins a session. At the end of the standard
input nobody leaves any more, what is still on its way has `settle_s`, and the result goes to standard output.
"""

from __future__ import annotations

import collections
import hashlib
import heapq
import json
import random
import select
import socket
import ssl
import struct
import sys
import time
from dataclasses import dataclass

MESSAGE_BYTES = 128
"""What `fermata load` sends if nothing is said."""
ANSWER_S_MAX = 60.0
"""A backend is given 20 s (`BACKEND_S_MAX` of the soak); then a long poll is answered after 20 s, and a SockJS client hears
something every 25 s."""
END_S_MAX = ANSWER_S_MAX
"""Until a connection ends whose client has ended its side: its request is answered all the same."""
RETURN_S = 1.0
SHAKING_MAX = 50
"""TLS handshakes at the same time: after a worker's death thousands want one, and the edge waits for none for long."""
FAULTS_MAX = 50
"""Of each kind, described one by one."""
LOOK_S = 0.2
"""How often it is looked whether everybody has everything."""
ABORT = struct.pack("ii", 1, 0)


@dataclass
class Plan:
    kind: str
    """`poll` or `sockjs`."""
    clients: int
    groups: int
    port: int
    tls_port: int
    """Every second client connects there; 0: none."""
    connect_rate: float
    churn: float
    settle_s: float
    seed: int = 1


@dataclass(frozen=True)
class Message:
    group: int
    sequence: int
    confirmed: int


class Messages:
    """Reads messages as crates/load/src/message.rs writes them. A fan-out brings the same bytes to many clients."""

    def __init__(self) -> None:
        self._last: tuple[bytes, Message | None] = (b"", None)

    def find(self, data: bytes) -> list[Message | None]:
        """All in the data; None for one that is damaged."""
        found, at = [], data.find(b"fl1.")
        while at >= 0:
            found.append(self._read(data[at : at + MESSAGE_BYTES]))
            at = data.find(b"fl1.", at + MESSAGE_BYTES)
        return found

    def _read(self, text: bytes) -> Message | None:
        if text != self._last[0]:
            self._last = (text, parse(text))
        return self._last[1]


def parse(text: bytes) -> Message | None:
    content, fields = text[:-8], text.split(b".")
    try:
        if len(text) != MESSAGE_BYTES or int(text[-8:], 16) != checksum(content):
            return None
        return Message(*(int(fields[at], 16) for at in (2, 3, 4)))
    except (ValueError, IndexError):
        return None


def checksum(data: bytes) -> int:
    total = len(data)
    for at in range(0, len(data), 8):
        total = ((total ^ int.from_bytes(data[at : at + 8], "little")) * 0x9E3779B97F4A7C15) & (1 << 64) - 1
        total = (total << 29 | total >> 35) & (1 << 64) - 1
    return (total ^ total >> 32) & 0xFFFFFFFF


class Client:
    """One client and its connection."""

    def __init__(self, number: int, group: int, is_tls: bool) -> None:
        self.number, self.group, self.is_tls = number, group, is_tls
        self.next = 0
        """The number it waits for in its group; 0: any, as it has had none."""
        self.socket: socket.socket | None = None
        self.is_shaking = False
        self.is_half_closed = False
        self.out, self.got = b"", b""
        self.turn = 0
        """Distinguishes timers of this request from those of the ones before."""
        self.known = False
        self.opened_s = 0.0
        self.sessions = 0
        self.step = ""
        """Of a SockJS session: what it has heard last."""


class Polls:
    """All clients of a process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts: collections.Counter[str] = collections.Counter()
        self.statuses: collections.Counter[str] = collections.Counter()
        self.certificates: list[str] = []
        """Those shown, in the order in which they were first seen."""
        self.newest = [0] * plan.groups
        self.faults: list[dict] = []
        self.turn_s_max = 0.0
        """The longest turn of the loop: so late may this program itself be."""
        self._random = random.Random(plan.seed)
        self._messages = Messages()
        self._epoll = select.epoll()
        self._clients: dict[int, Client] = {}
        self._timers: list[tuple[float, int, int, str]] = []
        self._waiting: collections.deque[Client] = collections.deque()
        """Those that are to connect as soon as others have."""
        self._shaking = 0
        every = range(plan.clients)
        self.clients = [Client(n, n % plan.groups, bool(plan.tls_port) and n % 2 == 1) for n in every]
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE

    def run(self) -> dict:
        begin = last = time.monotonic()
        started, churn, ended, look = 0, 0.0, None, 0.0
        self._epoll.register(sys.stdin.fileno(), select.EPOLLIN)
        while True:
            now = time.monotonic()
            self.turn_s_max, last = max(self.turn_s_max, now - last), now
            while started < len(self.clients) and started < (now - begin) * self.plan.connect_rate:
                self._waiting.append(self.clients[started])
                started += 1
                if started == len(self.clients):
                    print(json.dumps({"event": "begins"}), flush=True)
                    churn = now
            while ended is None and churn and self.plan.churn and churn < now:
                churn += 1 / self.plan.churn
                self._leave(self._random.choice(self.clients))
            while self._timers and self._timers[0][0] <= now:
                _, number, turn, what = heapq.heappop(self._timers)
                self._on_timer(self.clients[number], turn, what)
            while self._waiting and self._shaking < SHAKING_MAX:
                self._open(self._waiting.popleft())
            if ended is not None and now > look:
                look = now + LOOK_S
                if now > ended + self.plan.settle_s or not self.missing():
                    return self._result()
            for fd, events in self._epoll.poll(0.02):
                if fd == sys.stdin.fileno():
                    self._epoll.unregister(fd)
                    ended = now
                elif client := self._clients.get(fd):
                    self._on_event(client, events)

    def missing(self) -> int:
        """What was seen by some client of a group, and not by others who wait for it."""
        return sum(max(self.newest[client.group] - client.next + 1, 0) for client in self.clients if client.next)

    def _result(self) -> dict:
        missing = self.missing()
        for client in self.clients:
            self._close(client)
        return {
            "counters": dict(self.counts) | {"missing": missing},
            "statuses": dict(self.statuses),
            "certificates": self.certificates,
            "faults": self.faults,
            "turn_s_max": self.turn_s_max,
        }

    def _open(self, client: Client) -> None:
        self._close(client)
        made = socket.socket()
        made.setblocking(False)
        made.connect_ex(("127.0.0.1", self.plan.tls_port if client.is_tls else self.plan.port))
        if client.is_tls:
            made = self._tls.wrap_socket(made, do_handshake_on_connect=False, server_hostname="localhost")
        client.socket, client.is_shaking, client.is_half_closed = made, client.is_tls, False
        self._shaking += client.is_shaking
        client.out = client.got = b""
        if self.plan.kind == "sockjs":
            # What is published between two sessions nobody keeps.
            client.sessions, client.next, client.step = client.sessions + 1, 0, ""
        self._clients[made.fileno()] = client
        self._epoll.register(made.fileno(), select.EPOLLIN | select.EPOLLOUT)
        self.counts["reconnects" if client.known else "connects"] += 1
        client.known = True
        client.opened_s = time.monotonic()
        self._ask(client)

    def _close(self, client: Client) -> None:
        if client.socket is not None:
            del self._clients[client.socket.fileno()]
            self._epoll.unregister(client.socket.fileno())
            client.socket.close()
            client.socket = None
            self._shaking -= client.is_shaking
            client.is_shaking = False

    def _ask(self, client: Client) -> None:
        """The next request, by the connection that is there."""
        method, body = "GET", b""
        path = f"/groups/{client.group}/poll?after={max(client.next - 1, 0)}"
        if self.plan.kind == "sockjs":
            method, path = "POST", f"/sockjs/{client.number % 1000:03}/{client.number}-{client.sessions}/xhr"
            if client.step == "o":
                path, body = f"{path}_send", json.dumps([f"join {client.group}"]).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
        if method == "POST":
            head += f"Content-Length: {len(body)}\r\n"
        client.out += head.encode() + b"\r\n" + body
        self.counts["requests"] += 1
        # The one before is answered, and its timer is of no use.
        client.turn += 1
        self._arm(client, ANSWER_S_MAX, "answer")

    def _leave(self, client: Client) -> None:
        if client.socket is None or client.is_half_closed:
            return
        way = self._random.choice(("close", "reset", "half-close"))
        self.counts["churned"] += 1
        if way == "half-close" and not client.is_shaking:
            try:
                client.socket.shutdown(socket.SHUT_WR)
            except OSError:
                return self._fail(client, "disconnects")
            client.is_half_closed = True
            client.turn += 1
            return self._arm(client, END_S_MAX, "end")
        if way == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
        self._return(client)

    def _on_timer(self, client: Client, turn: int, what: str) -> None:
        if what != "return" and turn == client.turn and client.socket is not None:
            # What has come and was not read yet came in time.
            self._on_event(client, select.EPOLLIN)
        if turn != client.turn:
            return
        if what == "answer":
            self._fail(client, "unanswered")
        elif what == "end":
            self._fail(client, "stays")
        else:
            self._waiting.append(client)

    def _return(self, client: Client) -> None:
        """It connects again as soon as it may."""
        self._close(client)
        client.turn += 1
        self._waiting.append(client)

    def _arm(self, client: Client, in_s: float, what: str) -> None:
        heapq.heappush(self._timers, (time.monotonic() + in_s, client.number, client.turn, what))

    def _fail(self, client: Client, count: str) -> None:
        self.counts[count] += 1
        self._close(client)
        client.turn += 1
        if self.plan.kind == "sockjs":
            client.next = 0
        self._arm(client, RETURN_S * (0.5 + self._random.random()), "return")

    def _on_event(self, client: Client, events: int) -> None:
        try:
            if client.is_shaking:
                client.socket.do_handshake()
                client.is_shaking = False
                self._shaking -= 1
                self._note_certificate(client.socket.getpeercert(binary_form=True))
            if events & ~select.EPOLLOUT:
                self._read(client)
            self._write(client)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError, BlockingIOError) as wanted:
            self._watch(client, not isinstance(wanted, ssl.SSLWantReadError))
        except OSError:
            self._fail(client, "ended" if client.is_half_closed else "disconnects")

    def _write(self, client: Client) -> None:
        """As much of the request as goes."""
        if client.socket is None:
            return
        if client.out and not client.is_half_closed:
            client.out = client.out[client.socket.send(client.out) :]
        self._watch(client, bool(client.out) and not client.is_half_closed)

    def _watch(self, client: Client, is_writing: bool) -> None:
        self._epoll.modify(client.socket.fileno(), select.EPOLLIN | (select.EPOLLOUT if is_writing else 0))

    def _note_certificate(self, certificate: bytes | None) -> None:
        mark = hashlib.sha256(certificate or b"").hexdigest()
        if mark not in self.certificates:
            self.certificates.append(mark)

    def _read(self, client: Client) -> None:
        """All that has come."""
        while client.socket is not None:
            try:
                got = client.socket.recv(65_536)
            except (ssl.SSLWantReadError, BlockingIOError):
                return None
            if not got:
                return self._fail(client, "ended" if client.is_half_closed else "disconnects")
            if client.is_half_closed and client.is_tls:
                # Python has forgotten the session: these bytes nobody can read, and only their end counts.
                continue
            client.got += got
            while (answer := self._answer(client)) is not None:
                self._on_answer(client, *answer)
        return None

    def _answer(self, client: Client) -> tuple[int, bytes] | None:
        """Status and body of an answer that is complete."""
        head, found, rest = client.got.partition(b"\r\n\r\n")
        if not found or client.socket is None:
            return None
        lines = head.decode("latin-1").lower().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)
        status = int(lines[0].split(" ")[1])
        if headers.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                size, found, rest = rest.partition(b"\r\n")
                length = int(size, 16) if found else 0
                if not found or len(rest) < length + 2:
                    return None
                body, rest = body + rest[:length], rest[length + 2 :]
                if length == 0:
                    break
        else:
            length = int(headers.get("content-length", 0))
            if len(rest) < length:
                return None
            body, rest = rest[:length], rest[length:]
        client.got = rest
        return status, body

    def _on_answer(self, client: Client, status: int, body: bytes) -> None:
        if status not in (200, 204):
            self.statuses[str(status)] += 1
            return self._fail(client, "refusals")
        if self.plan.kind == "poll":
            self._take(client, body)
        elif not self._on_frame(client, body):
            return self._fail(client, "sessions_ended")
        if not client.is_half_closed:
            self._ask(client)

    def _on_frame(self, client: Client, body: bytes) -> bool:
        """What a SockJS session says. False: it has ended, also when its worker has died and another begins it anew."""
        if body == b"o\n" and client.step:
            return False
        if client.step == "o":
            client.step = "joining"
        elif body == b"o\n":
            client.step = "o"
        elif body.startswith(b"a"):
            for text in json.loads(body[1:]):
                if text == "joined":
                    client.step = "joined"
                self._take(client, text.encode())
        elif body.startswith(b"c"):
            return False
        return True

    def _note_fault(self, client: Client, what: str, message: Message) -> None:
        if len(self.faults) < FAULTS_MAX:
            now = time.monotonic()
            self.faults.append({
                "at": now, "what": what, "client": vars(client) | {"socket": None, "out": "", "got": ""},
                "connected_s": now - client.opened_s, "message": vars(message),
            })

    def _take(self, client: Client, data: bytes) -> None:
        for message in self._messages.find(data):
            if message is None:
                self.counts["corrupt"] += 1
            elif message.group != client.group:
                self.counts["misdirected"] += 1
            elif client.next and message.sequence < client.next:
                self.counts["repeated"] += 1
                self._note_fault(client, "repeated", message)
            else:
                if client.next:
                    # Of those in between, what was not confirmed may never have been published.
                    skipped = message.sequence - client.next
                    lost = max(min(message.confirmed, message.sequence - 1) - client.next + 1, 0)
                    if lost:
                        self._note_fault(client, "lost", message)
                    self.counts["lost"] += lost
                    self.counts["unconfirmed"] += skipped - lost
                self.counts["deliveries"] += 1
                client.next = message.sequence + 1
                self.newest[client.group] = max(self.newest[client.group], message.sequence)


if __name__ == "__main__":
    print(json.dumps(Polls(Plan(**json.loads(sys.argv[1]))).run()))
