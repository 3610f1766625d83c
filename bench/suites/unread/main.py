"""`python3 -m bench unread`: measures the cost of clients that do not read, for their worker and for its other clients.

Each row runs one kind of such clients. It prints the worker's memory before, at its peak and after the clients have
disconnected, and the p99 latency of another client's `GET /` during the row. Exits with status 1 if a limit is exceeded.
"""

from __future__ import annotations

import argparse
import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from bench.lib.process import free_port, leaves, stop

from .clients import WAYS, Target

ROOT = Path(__file__).resolve().parents[3]
SERVER = Path(__file__).with_name("server.php")

BOUND_MB = 128
"""Default of the setting buffered_bytes_max, in MB."""

BESIDE_MB = 160
"""Maximum other memory of a worker with some hundred clients: code, PHP values of waiting handlers, fibers."""

AFTER_MB = 60
"""Maximum growth of a worker's memory after all clients have disconnected."""

FILE_BYTES = 100_000_000
ANSWER_TIMEOUT_S = 10.0


@dataclass
class Row:
    """Result of one kind of clients. Memory is in MB and latency in ms."""

    name: str
    before: float = 0.0
    peak: float = 0.0
    after: float = 0.0
    latencies: list[float] = field(default_factory=list)
    unanswered: int = 0
    has_died: bool = False

    @property
    def p99(self) -> float:
        ordered = sorted(self.latencies) or [0.0]
        return ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]

    @property
    def passed(self) -> bool:
        is_bounded = self.peak - self.before <= BOUND_MB + BESIDE_MB and self.after - self.before <= AFTER_MB
        return is_bounded and not self.unanswered and not self.has_died and bool(self.latencies)

    def __str__(self) -> str:
        verdict = "ok" if self.passed else "FAILED"
        return (
            f"{self.name:18} {self.before:6.0f} {self.peak:6.0f} {self.after:6.0f} MB   p99 {self.p99:7.1f} ms "
            f"of {len(self.latencies):5}, {self.unanswered} unanswered{', worker died' * self.has_died}   {verdict}"
        )


def rss_mb(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    # Only private memory: every worker has the same shared memory, such as the ring.
    wanted = ("RssAnon:",)
    return sum(int(line.split()[1]) for line in status.splitlines() if line.startswith(wanted)) / 1024


class Other(threading.Thread):
    """A client that requests `/` repeatedly and measures the worker's memory."""

    def __init__(self, target: Target, worker: int, row: Row) -> None:
        super().__init__(daemon=True)
        self.target, self.worker, self.row = target, worker, row
        self.is_over = threading.Event()

    def run(self) -> None:
        connection = None
        while not self.is_over.wait(0.02):
            self.row.peak = max(self.row.peak, rss_mb(self.worker))
            begun = time.monotonic()
            try:
                if connection is None:
                    connection = http.client.HTTPConnection("127.0.0.1", self.target.port, timeout=ANSWER_TIMEOUT_S)
                    if self.target.is_tls:
                        connection.sock = self.target.connect(0)
                connection.request("GET", "/")
                connection.getresponse().read()
            except (OSError, http.client.HTTPException):
                self.row.unanswered += 1
                connection = None
                continue
            self.row.latencies.append((time.monotonic() - begun) * 1000)


def certificate(folder: Path) -> dict[str, str]:
    key, pem = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", pem, "-subj", "/CN=x"],
        check=True,
        capture_output=True,
    )
    return {"CERTIFICATE": str(pem), "KEY": str(key)}


def measure(name: str, options: argparse.Namespace, folder: Path) -> Row:
    count, way = WAYS[name]
    target = Target(free_port(), options.addresses, name == "tls")
    environment = {**os.environ, "PORT": str(target.port), "ASSETS": str(folder / "assets")}
    if target.is_tls:
        environment |= certificate(folder)
    command = ["php", "-d", f"extension={ROOT / 'build' / 'fermata.so'}", str(SERVER)]
    with (folder / f"{name}.log").open("wb") as log:
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=ROOT)
    try:
        workers = _start(server, target)
        row = Row(name, before=rss_mb(workers[0]))
        other = Other(target, workers[0], row)
        other.start()
        clients = list(way(target, count))
        time.sleep(options.hold)
        if options.sample is not None and options.sample == name:
            print((folder / f"{name}.log").read_text()[-2000:], file=sys.stderr)
        for it in clients:
            with suppress(OSError):
                it.close()
        time.sleep(options.rest)
        other.is_over.set()
        other.join()
        row.has_died = leaves(server.pid) != workers
        row.after = rss_mb(workers[0])
    finally:
        stop(server)
    return row


def _start(server: subprocess.Popen[bytes], target: Target) -> list[int]:
    for _ in range(100):
        time.sleep(0.1)
        with suppress(OSError), target.connect(0) as it:
            it.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            if it.recv(1024):
                return leaves(server.pid)
    raise SystemExit("the server does not start")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python3 -m bench unread", description=__doc__)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS), help="rows to run, all by default")
    parser.add_argument("--addresses", type=int, default=1000, help="addresses that the clients come from, 1000")
    parser.add_argument("--hold", type=float, default=5, help="seconds that they stay, 5")
    parser.add_argument("--rest", type=float, default=4, help="seconds until the memory is read again, 4")
    parser.add_argument("--sample", choices=list(WAYS), help="row whose log is printed")
    options = parser.parse_args()
    print(f"{'way':18} {'before':>6} {'peak':>6} {'after':>6}")
    rows = []
    with tempfile.TemporaryDirectory(prefix="fermata-unread-") as name:
        folder = Path(name)
        (folder / "assets").mkdir()
        with (folder / "assets" / "file").open("wb") as file:
            file.truncate(FILE_BYTES)
        for way in options.ways:
            rows.append(measure(way, options, folder))
            print(rows[-1], flush=True)
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
