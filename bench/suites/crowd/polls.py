"""Clients that poll repeatedly: long polls, and SockJS sessions by `xhr`. Runs as a separate process: `polls.py JSON`.

Each client verifies the numbered messages that `fermata load` publishes. Clients disconnect in several ways and reconnect: a
long poll sends the number of its last message, and a SockJS client opens a new session. When standard input is closed, no
more clients disconnect. After at most `settle_s` for pending messages, the result is written to standard output.
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
"""Default message size of `fermata load`."""
ANSWER_S_MAX = 60.0
"""Time limit for a response. The backend has 20 s (`BACKEND_S_MAX` of the soak); a long poll then completes after 20 s, and a
SockJS client receives a frame every 25 s."""
END_S_MAX = ANSWER_S_MAX
"""Time until the server must close a half-closed connection. It still responds to the pending request."""
RETURN_S = 1.0
SHAKING_MAX = 50
"""Maximum number of concurrent TLS handshakes: after a worker's exit thousands reconnect, and handshakes have a timeout."""
FAULTS_MAX = 50
"""Maximum number of faults that are described in detail."""
LOOK_S = 0.2
"""Interval of the check whether all clients have received all messages."""
ABORT = struct.pack("ii", 1, 0)


@dataclass
class Plan:
    kind: str
    """Kind of clients: `poll` or `sockjs`."""
    clients: int
    groups: int
    port: int
    tls_port: int
    """Port to which every second client connects with TLS; 0: no client."""
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
    """Parses messages in the format of crates/load/src/message.rs. Many clients receive the same bytes, so the last is cached."""

    def __init__(self) -> None:
        self._last: tuple[bytes, Message | None] = (b"", None)

    def find(self, data: bytes) -> list[Message | None]:
        """Returns all messages in the data; None for a damaged one."""
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
    """A client and its connection."""

    def __init__(self, number: int, group: int, is_tls: bool) -> None:
        self.number, self.group, self.is_tls = number, group, is_tls
        self.next = 0
        """Number of the next message expected in its group; 0: any, because it has received none."""
        self.socket: socket.socket | None = None
        self.is_shaking = False
        self.is_half_closed = False
        self.out, self.got = b"", b""
        self.turn = 0
        """Request counter, by which a timer of an earlier request is recognized and ignored."""
        self.known = False
        self.opened_s = 0.0
        self.sessions = 0
        self.step = ""
        """State of a SockJS session, after the last received frame."""


class Polls:
    """All clients of this process, and their event loop."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.counts: collections.Counter[str] = collections.Counter()
        self.statuses: collections.Counter[str] = collections.Counter()
        self.certificates: list[str] = []
        """Certificates that the server presented, in order of their first appearance."""
        self.newest = [0] * plan.groups
        self.faults: list[dict] = []
        self.turn_s_max = 0.0
        """Longest iteration of the event loop, in seconds: the maximum delay caused by this process."""
        self._random = random.Random(plan.seed)
        self._messages = Messages()
        self._epoll = select.epoll()
        self._clients: dict[int, Client] = {}
        self._timers: list[tuple[float, int, int, str]] = []
        self._waiting: collections.deque[Client] = collections.deque()
        """Clients that wait to connect because of SHAKING_MAX."""
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
        """Returns the number of messages that some client of a group has received and other clients of the group have not."""
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
            # Events published between two sessions are lost, so a new session accepts any first number.
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
        """Sends the next request over the open connection."""
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
        # The previous request has its response, so this cancels its timer.
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
            # Read bytes that have arrived but were not read: they count as in time.
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
        """Closes the connection and queues the client for a reconnect."""
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
        """Writes as many bytes of the request as the socket accepts."""
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
        """Reads all received bytes and handles the complete responses."""
        while client.socket is not None:
            try:
                got = client.socket.recv(65_536)
            except (ssl.SSLWantReadError, BlockingIOError):
                return None
            if not got:
                return self._fail(client, "ended" if client.is_half_closed else "disconnects")
            if client.is_half_closed and client.is_tls:
                # Python has discarded the TLS session, so these bytes cannot be decrypted. Only the end of the connection matters.
                continue
            client.got += got
            while (answer := self._answer(client)) is not None:
                self._on_answer(client, *answer)
        return None

    def _answer(self, client: Client) -> tuple[int, bytes] | None:
        """Returns status and body of the first response if it is complete, otherwise None."""
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
        """Handles a SockJS frame. Returns false if the session has ended, or if a new one replaced it after a worker crashed."""
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
                    # Only confirmed messages in the gap count as lost; unconfirmed ones may not have been published.
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
