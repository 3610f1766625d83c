"""The soak test of `fermata edge`: all kinds of held clients with real backends, while processes, routes and certificates change.

About two thirds of the clients hold event streams and long polls of `server.php`, which publishes to the edge with event ids.
These clients must receive every message, whichever process is killed. The others hold WebSockets and SockJS sessions. Their
backend is a PHP-FPM script with WebSocket over HTTP, and messages come from the control port. They must receive every message
while their connection is open. Half of the long polls and SockJS sessions use TLS.
"""

from __future__ import annotations

import dataclasses
import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from bench.lib import process
from bench.lib.peers import FERMATA, CannotRun

from .clients import Clients, Event, LoadFailed
from .edge import Fpm
from .parts import COALESCE, CONNECTIONS_MAX, faults, note
from .server import Server
from .soaking import Size, Soak, Verdict
from .watch import MemoryGuard

EDGE = Size(clients=20_000, workers=4, churn=200, all_rate=0)
EDGE_QUICK = Size(
    clients=400, groups=8, workers=2, duration_s=8, churn=20, kill_every_s=2.1, publish_rate=40, all_rate=0,
    settle_s=20, sample_every_s=0.5,
)
DISTURBANCES = ("reload_routes", "exchange_certificate", "restart_fpm", "restart_php", "kill_php")
"""Methods of `Front` that disturb the run, in addition to killed workers."""
DISTURBANCES_PER_KILL = 2
"""Number of disturbances between two killed workers."""
KILLS_MIN = 3.8
"""Minimum number of kill intervals in a run. With it, each disturbance occurs at least once."""
SHARES = {"streams": 0.4, "sockets": 0.2, "polls": 0.25, "sockjs": 0.15}
"""Share of the clients of each kind."""
CONNECT_RATE = 500.0
"""Long poll and SockJS clients that start per second."""
CHILDREN = 64
"""Number of PHP-FPM's child processes. After a response, a child waits until the edge closes the connection, which can be slow."""
SCRIPT = Path(__file__).with_name("socket.php")
POLLS = Path(__file__).with_name("polls.py")
PEAK_GROWTH_MAX = 0.1
"""Maximum growth of the edge's peak memory from the first half of the run to the second."""
END_S_MAX = 120.0
"""Time limit for the release of all resources. Idle connections between workers and to backends close after their timeouts."""
DESCRIPTORS_MORE = 8
"""Maximum number of additional descriptors of a worker after the run, compared with a new worker."""
SOCKET_BODY = '{"items":[{"channel":"socket-{n}","formats":{"ws-message":{"content":"{message}"}}}]}'
BACKEND_S_MAX = 20
"""Time limit of the edge for a backend's response. Clients rely on it."""
WRONG = ("lost", "missing", "repeated", "corrupt", "misdirected", "unanswered", "stays")
"""Counters of long polls and SockJS clients that must be 0."""


class Front(Server):
    """The edge and its backends. `close` stops them."""

    page = "/socket.php"

    def __init__(self, workers: int, groups: int) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="fermata-soak-")
        self._at = Path(self._own.name)
        self._groups, self._serial = groups, 0
        ports = [process.free_port() for _ in range(4)]
        self.php_port, self.control_port, self.metrics_port, self.tls_port = ports
        self.php = self.fpm = None
        shutil.copy(SCRIPT, self._at / "socket.php")
        try:
            for serial in range(2):
                self._make_certificate(serial)
            self.exchange_certificate()
            self.start_fpm()
            self.start_php()
            self.reload_routes()
            port = process.free_port()
            command = [
                *(str(FERMATA), "edge", "--listen", f"127.0.0.1:{port}", "--listen-tls", f"127.0.0.1:{self.tls_port}"),
                *("--tls-certificates", str(self._at / "certificates"), "--routes", str(self._at / "routes")),
                *("--control", f"127.0.0.1:{self.control_port}", "--prometheus", f"127.0.0.1:{self.metrics_port}"),
                *("--workers", str(workers), "--connections-max", str(CONNECTIONS_MAX), "--sig-key", "soak"),
                *("--subscription-linger-ms", "1000", "--origin-response-timeout-ms", str(BACKEND_S_MAX * 1000)),
            ]
            self._launch(workers, port, command, {})
        except BaseException:
            self._end_backends()
            raise

    def start_fpm(self) -> None:
        self.fpm = Fpm(self._at, CHILDREN)

    def start_php(self) -> None:
        """Starts `server.php` with the history file of the previous process."""
        environment = {
            "FERMATA_GRIP_URL": f"http://127.0.0.1:{self.control_port}?key=soak",
            "FERMATA_HISTORY_PATH": str(self._at / "history"),
            # Short enough for the edge's idle connections to close before the soak's final check.
            "FERMATA_IDLE_TIMEOUT_MS": "3000",
        }
        self.php = Server(2, CONNECTIONS_MAX, self._groups, environment=environment, port=self.php_port)

    def restart_php(self) -> None:
        self.php.stop()
        self.start_php()

    def restart_fpm(self) -> None:
        self.fpm.close()
        self.start_fpm()

    def kill_php(self) -> None:
        """Kills one of the workers of `server.php`."""
        os.kill(self.php.worker_pids()[self._serial % 2], signal.SIGKILL)

    def reload_routes(self) -> None:
        """Writes the same routes with new names, and adds or removes an unused route."""
        self._serial += 1
        fpm = f"fastcgi/{self.fpm.socket},root={self._at},over_http"
        lines = [
            f"*,id=sockets-{self._serial},path_beg=/socket.php {fpm}",
            f"*,id=sockjs-{self._serial},path_beg=/sockjs,sockjs=/sockjs,sockjs_as_path=/socket.php {fpm}",
            f"*,id=groups-{self._serial} 127.0.0.1:{self.php_port}",
            *([f"unused.test 127.0.0.1:{self.php_port}"] if self._serial % 2 else []),
        ]
        new = self._at / "routes.new"
        new.write_text("\n".join([*lines, ""]))
        new.rename(self._at / "routes")

    def exchange_certificate(self) -> None:
        """Replaces the certificate by the other one of two, and makes the edge reload its settings."""
        self._serial += 1
        folder = self._at / "certificates"
        folder.mkdir(exist_ok=True)
        for kind in ("key", "crt"):
            new = self._at / "certificate.new"
            shutil.copy(self._at / f"{self._serial % 2}.{kind}", new)
            new.rename(folder / f"localhost.{kind}")
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGHUP)

    def left(self) -> dict[str, float]:
        """Returns the edge's metrics of open connections, exchanges and subscriptions that are not 0."""
        connection = http.client.HTTPConnection("127.0.0.1", self.metrics_port, timeout=30)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        names = ("fermata_connections{", "fermata_edge_open{", "fermata_subscriptions{", "fermata_tls_connections{")
        found = (line.rsplit(" ", 1) for line in text.splitlines() if line.startswith(names))
        # Exclude the scrape's own connection, and connections that workers keep open to each other.
        return {
            name: float(value) for name, value in found
            if float(value) and "control" not in name and "idle_connection" not in name
        }

    def descriptors(self) -> int:
        """Returns the number of open descriptors of the worker with the most."""
        return max(len(os.listdir(f"/proc/{pid}/fd")) for pid in self.worker_pids())

    def close(self) -> None:
        super().close()
        self._end_backends()

    def _make_certificate(self, serial: int) -> None:
        command = [
            *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "30"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", str(self._at / f"{serial}.key"), "-out", str(self._at / f"{serial}.crt")),
        ]
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except FileNotFoundError as error:
            raise CannotRun("openssl is not installed") from error

    def _end_backends(self) -> None:
        for one in (self.php, self.fpm):
            if one is not None:
                one.close()
        self._own.cleanup()


class Asking:
    """A running process of polls.py."""

    def __init__(self, **plan: Any) -> None:
        self.command = [sys.executable, str(POLLS), json.dumps(plan)]
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.begun = threading.Event()
        self._result: dict[str, Any] | None = None
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        for line in self.process.stdout:
            said = json.loads(line)
            if said.get("event") == "begins":
                self.begun.set()
            else:
                self._result = said

    def result(self) -> dict[str, Any]:
        """Stops it and returns its result."""
        self.process.stdin.close()
        self.process.wait()
        self._thread.join()
        if self._result is None:
            raise LoadFailed(f"{POLLS.name} ended with {self.process.returncode}")
        return self._result

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class EdgeSoak(Soak):
    """A run: all kinds of clients at the same time, and disturbances of the edge and its backends."""

    kind = "soak-edge"
    what = "Soak of the edge"

    def __init__(self, size: Size, seed: int) -> None:
        # Even in a short run each part is disturbed at least once.
        size = dataclasses.replace(size, kill_every_s=min(size.kill_every_s, size.duration_s / KILLS_MIN))
        super().__init__(size, seed)
        self.done: list[tuple[float, str]] = []
        """Disturbances other than killed workers: time and name of the method."""
        self.rest: dict[str, Any] = {}

    def run(self) -> None:
        front = Front(self.size.workers, self.size.groups)
        running: list[Clients | Asking] = []
        guard = None
        try:
            self.commands.append(" ".join(front.command))
            self.commands.append(" ".join(f"{key}={value}" for key, value in front.php.environment.items()))
            self.commands[-1] += " " + " ".join(front.php.command)
            self.commands.append(" ".join(front.fpm.command))
            before = process.memory(front.pids()), front.descriptors()
            streams = Clients(self._streams(front), self._on_event)
            begun = threading.Event()
            sockets = Clients(self._sockets(front), lambda event: self._on_begin(event, begun))
            asking = {kind: Asking(**self._asking(front, kind)) for kind in ("polls", "sockjs")}
            running += [streams, sockets, *asking.values()]
            self.commands += [" ".join(one.command) for one in running]
            guard = MemoryGuard(self.size.memory_min, streams.process.kill)
            for event in (self._begun, begun, *(one.begun for one in asking.values())):
                while not event.wait(0.1):
                    if any(one.process.poll() is not None for one in running):
                        raise LoadFailed("clients ended before all were connected")
            note("all clients are there")
            self._disturb(front, streams)
            while streams.process.poll() is None or sockets.process.poll() is None:
                self._sample(front)
                time.sleep(self.size.sample_every_s)
            self.loads["streams"], self.loads["sockets"] = streams.result(), sockets.result()
            note("streams and sockets have ended")
            for kind, one in asking.items():
                begun_at = time.monotonic()
                self.loads[kind] = one.result()
                self.rest[f"{kind}_settled_s"] = time.monotonic() - begun_at
            note("all clients have left")
            self._wait_for_nothing(front, *before)
        finally:
            if guard:
                guard.stop()
            for one in running:
                one.close()
            front.close()

    def verdicts(self, quick: bool) -> list[Verdict]:
        loads, size = self.loads, self.size
        found = []
        # A disconnected socket cannot resume and misses events, so incomplete publishes are no fault of the edge.
        away = loads["sockets"] | {"incomplete_publishes": 0}
        for kind, load in (("streams", loads["streams"]), ("sockets", away)):
            wrong = faults(load)
            found.append((f"{kind} have sequences without gap, repetition or error ({wrong} faults)", wrong == 0))
        for kind in ("polls", "sockjs"):
            counters = loads[kind]["counters"]
            wrong = {name: counters[name] for name in WRONG if counters.get(name)}
            found.append((f"{kind} likewise, and none stays when it leaves ({wrong or 'no'} faults)", not wrong))
        for kind, load in loads.items():
            count = load["counters"].get("deliveries", 0)
            found.append((f"{kind} got messages ({count:,})", count > 0))
        planned = int(size.duration_s / size.kill_every_s) - 1
        found.append((f"workers were killed ({len(self.kills)}, planned {planned})", len(self.kills) >= planned))
        names = [name for _, name in self.done]
        text = ", ".join(f"{name.replace('_', ' ')} {names.count(name)}" for name in DISTURBANCES)
        found.append((f"all was disturbed ({text})", set(names) == set(DISTURBANCES)))
        shown = max(len(loads[kind]["certificates"]) for kind in ("polls", "sockjs"))
        found.append((f"clients saw both certificates ({shown})", shown == 2))
        found.append((
            f"nothing is left ({self.rest['left'] or 'no connection, session, subscription or request to a backend'}; "
            f"{self.rest['descriptors']} descriptors, {self.rest['descriptors_before']} before)",
            not self.rest["left"] and self.rest["descriptors"] <= self.rest["descriptors_before"] + DESCRIPTORS_MORE,
        ))
        # A quick run is too short for the memory to become stable.
        return found if quick else [*found, self._flat()]

    def _flat(self) -> Verdict:
        # Compare peaks: replaced workers start with little memory, so the mean varies more than a leak would add.
        begin = self.samples[0]["at"]
        held = [sample["pss"] for sample in self.samples if sample["at"] < begin + self.size.duration_s]
        growth = max(held[len(held) // 2 :]) / max(held[: len(held) // 2]) - 1
        text = f"memory is flat (its peak {growth * 100:+.1f} % from the first half to the second)"
        return text, growth <= PEAK_GROWTH_MAX

    def about(self) -> str:
        size = self.size
        parts = ", ".join(f"{self._count(kind):,} {kind}" for kind in SHARES)
        return (
            f"{size.workers} workers, {size.groups:,} groups, {parts}; {size.churn:,.0f} clients per second leave and "
            f"come back, a worker is killed every {size.kill_every_s:g} s, in between routes or certificates change, a "
            f"backend is stopped and started or loses a worker; {2 * size.publish_rate:g} publishes per second. "
            f"Private memory of the edge before the first client {self.rest['private_before'] / 1e6:.0f} MB, after the "
            f"last one {self.rest['private'] / 1e6:.0f} MB."
        )

    def details(self) -> dict[str, Any]:
        others = {f"load_{kind}": load for kind, load in self.loads.items() if kind != "streams"}
        return {"done": self.done, "rest": self.rest} | others

    def _count(self, kind: str) -> int:
        return int(self.size.clients * SHARES[kind])

    def _streams(self, front: Front) -> list[str]:
        return [
            *("hold", front.url("/groups/{n}/events"), *self._load("streams")),
            *("--attempts-max", "100", "--publish", f"http://127.0.0.1:{front.php_port}/groups/{{n}}/messages"),
        ]

    def _sockets(self, front: Front) -> list[str]:
        return [
            *("ws", "broadcast", front.url("/socket.php?group={n}").replace("http", "ws", 1), *self._load("sockets")),
            *("--attempts-max", "100", "--publish", f"http://127.0.0.1:{front.control_port}/publish/"),
            *("--publish-body", SOCKET_BODY, "--publish-header", "Content-Type: application/json"),
        ]

    def _load(self, kind: str) -> list[str]:
        size = self.size
        return [
            *("--clients", str(self._count(kind)), "--groups", str(size.groups)),
            f"--step=soak={size.duration_s}s,groups={size.publish_rate}",
            *("--churn", str(size.churn * SHARES[kind]), "--settle", f"{size.settle_s}s"),
            *("--publish-queue-max", "1000000", "--coalesce", COALESCE),
        ]

    def _asking(self, front: Front, kind: str) -> dict[str, Any]:
        size = self.size
        return {
            "kind": "poll" if kind == "polls" else kind, "clients": self._count(kind), "groups": size.groups,
            "port": front.port, "tls_port": front.tls_port, "connect_rate": CONNECT_RATE,
            "churn": size.churn * SHARES[kind], "settle_s": size.settle_s,
        }

    def _on_begin(self, event: Event, begun: threading.Event) -> None:
        if event.get("event") == "begins":
            begun.set()

    def _disturb(self, front: Front, clients: Clients) -> None:
        """Kills workers and disturbs backends in turns, in random order. Stops half a kill interval before the end of the run."""
        begin = time.monotonic()
        every_s = self.size.kill_every_s / (DISTURBANCES_PER_KILL + 1)
        turn, waiting = 1, []
        while (at_s := time.monotonic() - begin) < self.size.duration_s - self.size.kill_every_s / 2:
            if clients.process.poll() is not None:
                return
            if at_s >= turn * every_s:
                if turn % (DISTURBANCES_PER_KILL + 1) == 0:
                    self._kill(front, at_s)
                else:
                    waiting = waiting or self._random.sample(DISTURBANCES, len(DISTURBANCES))
                    name = waiting.pop()
                    getattr(front, name)()
                    self.done.append((at_s, name))
                turn += 1
            self._sample(front)
            time.sleep(min(self.size.sample_every_s, max(turn * every_s - at_s, 0.01)))

    def _wait_for_nothing(self, front: Front, before: process.Memory, descriptors: int) -> None:
        end = time.monotonic() + END_S_MAX
        while True:
            left, now = front.left(), front.descriptors()
            if not left and now <= descriptors + DESCRIPTORS_MORE or time.monotonic() > end:
                break
            time.sleep(0.2)
        self.rest |= {
            "left": left, "descriptors": now, "descriptors_before": descriptors,
            "private_before": before.private, "private": process.memory(front.pids()).private,
        }
