"""Measures held streams over HTTP/2: the memory of their parts, and the CPU time of an event to a thousand streams."""

from __future__ import annotations

import http.client
import subprocess
import time
from dataclasses import dataclass
from types import TracebackType

from bench.lib import compiled, process
from bench.lib.peers import BUILD, SUBJECT, CannotRun, Running
from bench.suites.held.rows import least_squares, rest

CLIENT_CORE = 1
"""Core of the client. The server runs on another core."""
LEVELS = (2_000, 6_000, 10_000, 14_000, 18_000)
"""Numbers of connections, within the descriptor limit of one worker and one client."""
MANY_LEVELS = (20, 60, 100, 140, 180)
"""Numbers of connections with a hundred streams each."""
PHP_LEVELS = (20, 40, 60, 80, 100)
"""Numbers of clients of PHP-FPM, which needs a process for each."""
QUICK_DIVISOR = 20
EVENTS = 200
EVENT = b"x" * 128
STEP_SECONDS_MAX = 120.0
HEAR_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class Held:
    """A kind of connections to one server."""

    title: str
    mode: str
    """Mode argument of `h2hold`."""
    streams: int = 1
    """Number of streams per connection."""
    peer: str = SUBJECT


MEMORY = {
    "h1": Held("a connection of HTTP/1.1 with its stream", "h1"),
    "h1s": Held("a connection of HTTP/1.1 over TLS with its stream", "h1s"),
    "h2c": Held("a connection of HTTP/2 with one stream", "h2c"),
    "h2c-many": Held("a hundred streams on a connection of HTTP/2", "h2c", streams=100),
    "h2": Held("a connection of HTTP/2 over TLS with one stream", "h2"),
    "php-fpm": Held("the same at nginx before PHP-FPM", "h2", peer="php-fpm"),
}
BROADCAST = {
    "to-h1": Held("1,000 connections of HTTP/1.1", "h1"),
    "to-h2c": Held("10 connections of HTTP/2 with 100 streams each", "h2c", streams=100),
    "to-h1s": Held("1,000 connections of HTTP/1.1 over TLS", "h1s"),
    "to-h2": Held("10 connections of HTTP/2 over TLS with 100 streams each", "h2", streams=100),
}
BROADCAST_STREAMS = 1_000


@dataclass(frozen=True)
class HeldSample:
    """One measurement: private memory of all processes of a server in bytes per connection, or CPU time in ns per delivery."""

    row: str
    peer: str
    round: int
    value: float


class Client:
    """A running `load/h2hold.go`, which opens and holds connections."""

    def __init__(self, held: Held, running: Running) -> None:
        secure = held.mode in ("h1s", "h2")
        url = f"{'https' if secure else 'http'}://127.0.0.1:{running.ports[1 if secure else 0]}/held"
        command = ["taskset", "-c", str(CLIENT_CORE), str(BUILD / "h2hold"), url, str(held.streams), held.mode]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()

    def open(self, connections: int) -> None:
        """Waits until `connections` connections are open and all their streams are held."""
        self._step(f"open {connections}")

    def events(self) -> tuple[int, int]:
        """Returns the minimum and the maximum number of events that a stream has received."""
        _, _, least, most = self._step("events").split()
        return int(least), int(most)

    def _step(self, line: str) -> str:
        assert self.process.stdin and self.process.stdout and self.process.stderr
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise CannotRun(self.process.stderr.read().strip() or "h2hold has ended without a word")
        return answer


def measure_memory(row: str, running: Running, round: int, quick: bool) -> HeldSample:
    """Measures the bytes per additional connection: the slope of the regression line through the levels."""
    held = MEMORY[row]
    levels = LEVELS if held.streams == 1 else MANY_LEVELS
    if held.peer != SUBJECT:
        levels = PHP_LEVELS
    if quick:
        levels = tuple(level // QUICK_DIVISOR for level in levels)
    points = []
    with Client(held, running) as client:
        for level in levels:
            client.open(level)
            rest(running.pids())
            points.append((level, process.memory(running.pids()).private))
    return HeldSample(row, held.peer, round, least_squares(points))


def measure_broadcast(row: str, running: Running, round: int, quick: bool) -> HeldSample:
    """Measures the server's CPU time per delivery. Each event is published after all streams received the previous one."""
    held = BROADCAST[row]
    events = EVENTS // QUICK_DIVISOR if quick else EVENTS
    with Client(held, running) as client:
        client.open(BROADCAST_STREAMS // held.streams)
        rest(running.pids())
        publisher = http.client.HTTPConnection("127.0.0.1", running.port, timeout=HEAR_SECONDS_MAX)
        # Each stream has already received a first event.
        got, _ = client.events()
        before = 0
        for number in range(events + 1):
            # The first publish warms the caches and is not measured.
            if number == 1:
                before = process.cpu_ns(running.pids())
            publisher.request("POST", "/publish", EVENT)
            if publisher.getresponse().read() != b"":
                raise CannotRun("the publish was not answered with 202")
            got += 1
            wait_for(client, got)
        spent = process.cpu_ns(running.pids()) - before
        publisher.close()
    return HeldSample(row, held.peer, round, spent / (events * BROADCAST_STREAMS))


def wait_for(client: Client, events: int) -> None:
    """Waits until every stream has received `events` events. Raises CannotRun if one receives more, or after a timeout."""
    deadline = time.monotonic() + HEAR_SECONDS_MAX
    while True:
        least, most = client.events()
        if most > events:
            raise CannotRun(f"a stream has got {most} events of {events}")
        if least == events:
            return
        if time.monotonic() > deadline:
            raise CannotRun(f"a stream has got {least} events of {events}")
        time.sleep(0.001)


def build() -> None:
    """Compiles the client. Raises CannotRun."""
    compiled.build("h2hold")
