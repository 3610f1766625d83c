"""Counts user instructions and system calls per request, message or delivery: figures with almost no variation.

Both are differences: the server serves N requests in one run and 2 N in another, and the difference is divided by N.
This excludes the cost of start, warm-up and shutdown.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bench.lib import process
from bench.lib.check import JSON_BODY
from bench.lib.load import AB_CONCURRENCY
from bench.lib.peers import BACKEND, EXTENSION, FERMATA, PAGE, CannotRun, Peer, Running
from bench.lib.receiver import MESSAGE_PATH, Receiver

BATCH_CONNECTIONS = 100
STOP_POLLS_MAX = 4000
IDLE_POLLS = 3
POLL_SECONDS = 0.0003
TIMEOUT_SECONDS = 60.0
SETTLE_SECONDS = 0.1
TOP_FUNCTIONS = 40
TIMED = ("sched_yield",)
"""System calls that are not counted because their number depends on other load on the core."""
POSITIONS = tuple("0123456789+-*")
"""First characters of a cost line in a callgrind file."""
HELD_CLIENTS = 100
EVENT = b"data: a message of sixty-four bytes, as long as a line in a chat is, more or less.\n\n"
BACKEND_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(JSON_BODY) + JSON_BODY
FRAME = b"\x81\xc0" + bytes(4) + EVENT[:64]
"""A masked text frame of 64 bytes. The masking key is zero, which does not change the cost."""
STATIC_FOLDER = "$out/static"
"""Folder of a static service."""
STATIC_PARENT = "/tmp"
"""Parent folder of its replacement during a count."""
OURS = (EXTENSION.name, FERMATA.name)
"""Binaries that contain Fermata's own code: the extension and the command."""
COUNTING_FOLDER = "crates/engine/src/admin/stats/"
"""Folder of the code that counts and copies statistics."""


@dataclass(frozen=True)
class Case:
    """A sequence of requests for which the server does exactly the same work in each run."""

    id: str
    title: str
    service: str
    send: Callable[[Running, int], None]
    requests: int
    """Number of requests for the count of instructions. System calls are counted with a tenth of it."""
    message: bool = False
    units: int = 1
    """Number of counted units per request, such as the deliveries of one publish."""
    proxied: bool = False
    """True if a backend responds, which runs outside of the counting tools."""


@dataclass(frozen=True)
class Counts:
    instructions: float
    own: float
    """Instructions in the extension or the command. Excludes PHP and the C library, whose versions differ between machines."""
    syscalls: float
    """Successful system calls. The number of failed ones, such as EAGAIN, depends on the speed of the client."""
    by_syscall: dict[str, float]
    fruitless: float = 0.0
    """Failed system calls, usually EAGAIN."""


def measure(peer: Peer, case: Case) -> Counts:
    """Counts instructions and system calls of a case. Raises CannotRun."""
    few = max(BATCH_CONNECTIONS, case.requests // 10) if case.units == 1 else case.requests
    (calls_once, fruitless_once), (calls_twice, fruitless_twice) = _syscalls(peer, case, few), _syscalls(peer, case, 2 * few)
    fruitless = (fruitless_twice - fruitless_once) / few / case.units
    by_syscall = {name: (calls_twice[name] - calls_once.get(name, 0)) / few for name in sorted(calls_twice)}
    by_syscall = {name: count / case.units for name, count in by_syscall.items() if abs(count) >= 0.001}
    once, twice = _instructions(peer, case, case.requests), _instructions(peer, case, 2 * case.requests)

    def each(is_counted: Callable[[str], bool]) -> float:
        more = sum(cost - once.get(name, 0) for name, cost in twice.items() if is_counted(name))
        return more / case.requests / case.units

    return Counts(each(lambda _: True), each(lambda name: name in OURS), sum(by_syscall.values()), by_syscall, fruitless)


def instructions(peer: Peer, case: Case) -> float:
    """Returns only the instructions per request. Raises CannotRun."""
    once, twice = (_instructions(peer, case, runs * case.requests) for runs in (1, 2))
    return (sum(twice.values()) - sum(once.values())) / case.requests


def profile(peer: Peer, case: Case) -> list[tuple[float, str]]:
    """Returns the instructions per request by library and by function, the most expensive first."""
    with tempfile.TemporaryDirectory() as folder:
        once = _functions(peer, case, case.requests, Path(folder) / "once")
        twice = _functions(peer, case, 2 * case.requests, Path(folder) / "twice")
    costs = [((cost - once.get(name, 0)) / case.requests, name) for name, cost in twice.items()]
    libraries: dict[str, float] = {}
    for cost, name in costs:
        library = name.partition(": ")[0]
        libraries[library] = libraries.get(library, 0.0) + cost
    totals = [(cost, f"all of {library}") for library, cost in libraries.items() if cost >= 1]
    return sorted(totals, reverse=True) + sorted(costs, reverse=True)[:TOP_FUNCTIONS]


@dataclass(frozen=True)
class Counting:
    """Instructions per request, and the part of them that only updates the counters of `fermata stats`."""

    instructions: float
    counting: float


def counting(peer: Peer, case: Case) -> Counting:
    """Measures both figures of a case. Inlined code is attributed to its source file."""
    with tempfile.TemporaryDirectory() as folder:
        once = _by_file(peer, case, case.requests, Path(folder) / "once")
        twice = _by_file(peer, case, 2 * case.requests, Path(folder) / "twice")

    def per_request(is_counted: Callable[[str], bool]) -> float:
        costs = (sum(cost for file, cost in files.items() if is_counted(file)) for files in (twice, once))
        return (next(costs) - next(costs)) / case.requests

    found = Counting(per_request(lambda _: True), per_request(lambda file: COUNTING_FOLDER in file))
    if found.counting <= 0:
        raise CannotRun("no instruction belongs to the figures: the extension was built without debug information")
    return found


def tools_missing() -> list[str]:
    return [tool for tool in ("valgrind", "strace", "cc") if shutil.which(tool) is None]


def _instructions(peer: Peer, case: Case, requests: int) -> dict[str, int]:
    """Returns the instructions of all processes of the server in one run, by library."""
    with tempfile.TemporaryDirectory() as folder:
        costs: dict[str, int] = {}
        for file in _callgrind(peer, case, requests, Path(folder)):
            for name, cost in by_library(file.read_text().splitlines()).items():
                costs[name] = costs.get(name, 0) + cost
        return costs


def by_library(lines: Iterable[str]) -> dict[str, int]:
    """Returns the instructions in a callgrind file, by name of the library."""
    names: dict[str, str] = {}
    costs: dict[str, int] = {}
    library, inclusive = "?", False
    for line in lines:
        if line.startswith("ob="):
            # callgrind writes the full name only at the first use of a number, here or in a `cob=` line.
            library = _named(line[3:], names)
        elif line.startswith("cob="):
            _named(line[4:], names)
        elif line.startswith("calls="):
            inclusive = True
        elif line[:1] in POSITIONS:
            # Skip the inclusive cost of a call: the lines of the called function contain it.
            if not inclusive:
                costs[library] = costs.get(library, 0) + int(line.split()[1])
            inclusive = False
    return costs


def _named(text: str, names: dict[str, str]) -> str:
    number, _, path = text.partition(" ")
    if path:
        names[number] = Path(path).name
    return names.get(number, "?")


def _functions(peer: Peer, case: Case, requests: int, folder: Path) -> dict[str, int]:
    """Returns instructions by `library: function`. Inlined code has no library in callgrind's output; its function's is used."""
    folder.mkdir()
    rows: list[tuple[int, str, str]] = []
    for file in _callgrind(peer, case, requests, folder):
        text = _annotate(file)
        found = re.findall(r"^ *([\d,]+)  \S*?:(.+?)(?: \[(.*)\])?$", text, re.MULTILINE)
        rows += [(int(count.replace(",", "")), name, Path(library).name) for count, name, library in found]
    libraries = {function: library for _, function, library in rows if library}
    costs: dict[str, int] = {}
    for count, function, library in rows:
        name = f"{library or libraries.get(function, '?')}: {function}"
        costs[name] = costs.get(name, 0) + count
    return costs


def _by_file(peer: Peer, case: Case, requests: int, folder: Path) -> dict[str, int]:
    """Returns instructions by source file; `???` for code without debug information."""
    folder.mkdir()
    costs: dict[str, int] = {}
    for file in _callgrind(peer, case, requests, folder):
        for cost, source in re.findall(r"^ *([\d,]+)  (\S*?):.", _annotate(file), re.MULTILINE):
            costs[source] = costs.get(source, 0) + int(cost.replace(",", ""))
    return costs


def _annotate(file: Path) -> str:
    return subprocess.run(
        ["callgrind_annotate", "--threshold=100", "--show-percs=no", str(file)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def _callgrind(peer: Peer, case: Case, requests: int, folder: Path) -> list[Path]:
    prefix = [
        "valgrind",
        "--tool=callgrind",
        "--quiet",
        "--trace-children=yes",
        f"--callgrind-out-file={folder}/%p",
    ]
    _serve(peer, case, requests, prefix)
    files = [path for path in folder.iterdir() if path.stat().st_size > 0]
    if not files:
        raise CannotRun("callgrind wrote nothing")
    return files


def _syscalls(peer: Peer, case: Case, requests: int) -> tuple[dict[str, int], int]:
    """Returns the server's system calls in one run: the successful ones by name, and the number of failed ones."""
    with tempfile.NamedTemporaryFile() as file:
        _serve(peer, case, requests, ["strace", "-f", "-qq", "-c", "-U", "calls,errors,name", "-o", file.name])
        text = Path(file.name).read_text()
    rows = re.findall(r"^ *(\d+) +(\d*) *([a-z]\w*)$", text, re.MULTILINE)
    rows = [(int(calls), int(errors or 0), name) for calls, errors, name in rows if name not in ("total", *TIMED)]
    return {name: calls - errors for calls, errors, name in rows}, sum(errors for _, errors, _ in rows)


def _serve(peer: Peer, case: Case, requests: int, prefix: list[str]) -> None:
    """Starts the server under a tool, sends the requests, and stops the server so that the tool writes its result."""
    with (
        _backend() if case.proxied else nullcontext(),
        static_at_fixed_depth(peer, case) as peer,
        Running(peer, case.service, prefix) as running,
    ):
        try:
            _send(running, case, requests)
            _settle(running)
        except OSError as error:
            raise CannotRun(f"not under {prefix[0]}: {error}") from error
        _end(running)


@contextmanager
def static_at_fixed_depth(peer: Peer, case: Case) -> Iterator[Peer]:
    """Yields the peer with its page in a folder whose path has the same depth on every machine.

    valgrind 3.19 does not support openat2(). Without it the server resolves each component of a file's path; in a deep
    checkout this added 50 % to the count.
    """
    service = peer.services[case.service]
    if STATIC_FOLDER not in service.start:
        yield peer
        return
    with tempfile.TemporaryDirectory(prefix="fermata-counts-", dir=STATIC_PARENT) as folder:
        shutil.copy(PAGE, Path(folder) / "index.html")
        start = tuple(folder if word == STATIC_FOLDER else word for word in service.start)
        yield replace(peer, services=peer.services | {case.service: replace(service, start=start)})


@contextmanager
def _backend() -> Iterator[None]:
    """Runs a server that sends the same response to every request, with keep-alive. Peers get its address as `$backend`."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        os.environ[BACKEND] = f"127.0.0.1:{server.server_port:05d}"
        try:
            yield
        finally:
            del os.environ[BACKEND]
            server.shutdown()


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.wfile.write(BACKEND_ANSWER)


def _send(running: Running, case: Case, requests: int) -> None:
    # The master listens before its workers exist. A response proves that they do.
    with connect(running.port) as client:
        client.sendall(request("/", running.port))
        client.recv(65536)
    _settle(running)
    if not case.message:
        case.send(running, requests)
        return
    with Receiver(running.port, []) as receiver:
        case.send(running, requests)
        if (arrived := receiver.wait_for(requests, 5.0)) != requests:
            raise CannotRun(f"{arrived} of {requests} messages arrived")


def _settle(running: Running) -> None:
    """Waits until the server is idle, for example until it has closed the clients' connections."""
    pids, last = running.pids(), -1
    while (now := process.cpu_ns(pids)) != last:
        last = now
        time.sleep(SETTLE_SECONDS)


def _end(running: Running) -> None:
    """Sends SIGTERM to the server, not to strace, which is its parent. Then waits until the tool exits."""
    pids = running.pids()
    children = [pid for pid in pids if pid != running.process.pid]
    name = Path(f"/proc/{running.process.pid}/comm").read_text().strip()
    target = min(children) if name == "strace" and children else running.process.pid
    os.kill(target, signal.SIGTERM)
    try:
        running.process.wait(TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise CannotRun("the server did not end on SIGTERM") from error


# --- sending requests ---


def sequential(path: str, status: bytes, body: bytes) -> Callable[[Running, int], None]:
    """Sends requests on one connection, each after the response to the previous one."""

    def send(running: Running, requests: int) -> None:
        with connect(running.port) as client:
            for _ in range(requests):
                client.sendall(request(path, running.port))
                read_answers(client, 1, status, body)

    return send


def _new_connections(path: str, status: bytes, body: bytes) -> Callable[[Running, int], None]:
    """Opens a connection per request, ten at a time like ab. When the server accepts one, its request has already arrived.

    The server is stopped while the previous ten connections are closed and the next ten are opened. Otherwise the number
    of events per poll would vary between runs.
    """

    def send(running: Running, requests: int) -> None:
        request = (
            f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{running.port:05d}\r\n"
            "User-Agent: ApacheBench/2.3\r\nAccept: */*\r\n\r\n"
        ).encode()
        workers = _workers(running)
        clients: list[socket.socket] = []
        for _ in range(requests // AB_CONCURRENCY):
            _stop(workers)
            for client in clients:
                client.close()
            clients = [connect(running.port) for _ in range(AB_CONCURRENCY)]
            for client in clients:
                client.sendall(request)
            _continue(workers)
            for client in clients:
                read_answers(client, 1, status, body)
        for client in clients:
            client.close()

    return send


def _batched(path: str, status: bytes, body: bytes) -> Callable[[Running, int], None]:
    """Makes 100 connections readable before the server polls, as on a busy server.

    The server is stopped while the requests are written. Otherwise the number of events per poll would vary between runs.
    """

    def send(running: Running, requests: int) -> None:
        with ExitStack() as stack:
            clients = [stack.enter_context(connect(running.port)) for _ in range(BATCH_CONNECTIONS)]
            workers = _workers(running)
            for _ in range(requests // BATCH_CONNECTIONS):
                _stop(workers)
                for client in clients:
                    client.sendall(request(path, running.port))
                _continue(workers)
                for client in clients:
                    read_answers(client, 1, status, body)

    return send


def _new_urls(status: bytes, body: bytes) -> Callable[[Running, int], None]:
    """Like `sequential`, but each request has a new query of constant length."""

    def send(running: Running, requests: int) -> None:
        with connect(running.port) as client:
            for number in range(requests):
                client.sendall(request(f"/?n={number:06d}", running.port))
                read_answers(client, 1, status, body)

    return send


def _publish(running: Running, requests: int) -> None:
    """Publishes events to many held streams of one topic, each after all clients have received the previous event."""
    with ExitStack() as stack:
        clients = [stack.enter_context(connect(running.port)) for _ in range(HELD_CLIENTS)]
        for client in clients:
            client.sendall(request("/stream/counted", running.port))
            _read_until(client, b"data: stream open\n\n")
        publisher = stack.enter_context(connect(running.port))
        body = EVENT.removeprefix(b"data: ").strip()
        head = f"POST /publish/counted HTTP/1.1\r\nHost: 127.0.0.1:{running.port:05d}\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        for _ in range(requests):
            publisher.sendall(head.encode() + body)
            read_answers(publisher, 1, b"202", b"")
            for client in clients:
                _read_until(client, EVENT)


def _echo(running: Running, requests: int) -> None:
    """Sends messages over one WebSocket, each after the previous one was echoed."""
    with connect(running.port) as client:
        client.sendall(
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{running.port:05d}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )
        _read_until(client, b"\r\n\r\n")
        answer = b"\x81\x40" + FRAME[6:]
        for _ in range(requests):
            client.sendall(FRAME)
            if (got := _read_until(client, answer)) != answer:
                raise CannotRun(f"wrong message: {got[:60]!r}")


def _pipelined(path: str, status: bytes, body: bytes) -> Callable[[Running, int], None]:
    """Sends 16 requests per write on one connection."""

    def send(running: Running, requests: int) -> None:
        with connect(running.port) as client:
            for _ in range(requests // 16):
                client.sendall(request(path, running.port) * 16)
                read_answers(client, 16, status, body)

    return send


def connect(port: int) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


def request(path: str, port: int) -> bytes:
    """Returns the same request that wrk sends. The port always has five digits, so that it does not affect the count."""
    return f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port:05d}\r\n\r\n".encode()


def read_answers(client: socket.socket, count: int, status: bytes, body: bytes) -> None:
    """Reads exactly `count` responses that end with `body`. Raises CannotRun for any other response."""
    got = b""
    while got.count(b"\r\n\r\n") < count or (body and not got.endswith(body)):
        part = client.recv(65536)
        if not part:
            raise CannotRun(f"the server closed after {got[-60:]!r}")
        got += part
    if got.count(b"HTTP/1.1 " + status) != count:
        raise CannotRun(f"wrong answer: {got[:60]!r}")


def _read_until(client: socket.socket, wanted: bytes) -> bytes:
    """Reads until `wanted` was received. Returns all received bytes."""
    got = b""
    while wanted not in got:
        part = client.recv(65536)
        if not part:
            raise CannotRun(f"the server closed after {got[-60:]!r}")
        got += part
    return got


def _workers(running: Running) -> list[int]:
    """Returns the processes that serve requests, without the tool that traces them."""
    return process.leaves(running.process.pid)


def _stop(pids: list[int]) -> None:
    """Waits until processes are idle and stops them.

    strace also stops a process at every system call. The state is the same, so the processes must be idle before the stop.
    """
    for pid in pids:
        idle_polls = 0
        for _ in range(STOP_POLLS_MAX):
            idle_polls = idle_polls + 1 if process.state(pid) == "S" else 0
            if idle_polls == IDLE_POLLS:
                break
            time.sleep(POLL_SECONDS)
        os.kill(pid, signal.SIGSTOP)
    for pid in pids:
        for _ in range(STOP_POLLS_MAX):
            if process.state(pid) in "Tt":
                break
            time.sleep(POLL_SECONDS)
        else:
            raise CannotRun(f"process {pid} does not stop")


def _continue(pids: list[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


_JSON = ("/", b"200", JSON_BODY)
_MESSAGE = (MESSAGE_PATH, b"202", b"")

CASES = [
    Case("json", "GET /, one connection", "json", sequential(*_JSON), 5000),
    Case("json-batch", "GET /, 100 connections ready at once", "json", _batched(*_JSON), 5000),
    Case("json-new-url", "GET /?n=1, 2, 3, …, one connection", "json", _new_urls(b"200", JSON_BODY), 5000),
    Case("json-pipelined", "GET /, 16 requests in one write", "json", _pipelined(*_JSON), 4800),
    Case(
        "json-connect",
        "GET /, a connection per request, ten at once",
        "json",
        _new_connections(*_JSON),
        2000,
    ),
    Case(
        "message",
        "message to one held receiver, one connection",
        "chat",
        sequential(*_MESSAGE),
        2000,
        message=True,
    ),
    Case(
        "static",
        "a page of 2 kB from its file, one connection",
        "static",
        sequential("/", b"200", PAGE.read_bytes()),
        2000,
    ),
    Case(
        "sse-delivery",
        f"an event to each of {HELD_CLIENTS} held streams",
        "held",
        _publish,
        200,
        units=HELD_CLIENTS,
    ),
    Case("proxy", "GET / through the edge, one connection", "proxy", sequential(*_JSON), 2000, proxied=True),
    Case("websocket-echo", "a WebSocket message of 64 bytes and back", "echo", _echo, 5000),
]
