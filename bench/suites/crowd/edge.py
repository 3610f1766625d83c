"""Runs `fermata edge` as the server. PHP-FPM behind it responds to every hold with the script of seed 001."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from bench.lib import process
from bench.lib.peers import FERMATA, CannotRun, php_version

from . import kernel
from .parts import CONNECTIONS_MAX, Part, Size, Stage, note_load, note_memory
from .server import CannotStart, Server

SCRIPT = Path(__file__).with_name("stream.php")
CHILDREN = 8
"""Number of PHP-FPM's child processes. The script never waits, so a few of them use all cores."""
BACKLOG = 4096
"""Maximum number of requests that wait for a child: more than clients that connect simultaneously."""
START_SECONDS_MAX = 15.0
POOL = f"""\
[global]
error_log = {{folder}}/fpm.error
daemonize = no
log_level = warning

[seed]
listen = {{folder}}/fpm.sock
listen.backlog = {BACKLOG}
pm = static
pm.max_children = {{children}}
pm.max_requests = 0
pm.status_path = /status.php
php_admin_value[opcache.enable] = 1
php_admin_value[expose_php] = 0
"""
BODY = '{"items":[{"channel":"group-{n}","formats":{"http-stream":{"content":"data: {message}\\n\\n"}}}]}'


class Fpm:
    """A pool of PHP-FPM. `close` stops it."""

    def __init__(self, folder: Path, children: int = CHILDREN) -> None:
        program = shutil.which(f"php-fpm{php_version()}")
        if program is None:
            raise CannotRun(f"php-fpm{php_version()} is not installed")
        (folder / "fpm.conf").write_text(POOL.format(folder=folder, children=children))
        self.command = [program, "--nodaemonize", "--allow-to-run-as-root", "--fpm-config", str(folder / "fpm.conf")]
        self.socket = folder / "fpm.sock"
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, process_group=0
        )
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise CannotRun(f"PHP-FPM does not listen: {self._log(folder)}")
            time.sleep(0.02)

    def pids(self) -> list[int]:
        return process.tree(self.process.pid)

    def close(self) -> None:
        process.stop(self.process)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(str(self.socket)) == 0

    def _log(self, folder: Path) -> str:
        log = folder / "fpm.error"
        return log.read_text(errors="replace")[-500:] if log.exists() else "no output"


class Edge(Server):
    """The running edge and its backend. `close` stops both."""

    page = "/stream.php"
    """A page by PHP: the script reports that a parameter is missing."""

    def __init__(self, workers: int) -> None:
        self._own = tempfile.TemporaryDirectory(prefix="fermata-edge-")
        folder = Path(self._own.name)
        shutil.copy(SCRIPT, folder / "stream.php")
        try:
            self.fpm = Fpm(folder)
            self.control_port = process.free_port()
            port = process.free_port()
            command = [
                *(str(FERMATA), "edge", "--listen", f"127.0.0.1:{port}", "--control", f"127.0.0.1:{self.control_port}"),
                *("--route", f"* fastcgi/{self.fpm.socket},root={folder}", "--workers", str(workers)),
                *("--connections-max", str(CONNECTIONS_MAX)),
            ]
            self._launch(workers, port, command, {})
        except BaseException:
            self._end_backend()
            raise

    def streams(self) -> str:
        return self.url("/stream.php?topic=group-{n}")

    def publishing(self) -> list[str]:
        return [
            *("--publish", f"http://127.0.0.1:{self.control_port}/publish/", "--publish-body", BODY),
            *("--publish-header", "Content-Type: application/json"),
        ]

    def answered(self) -> int:
        """Returns the number of requests that PHP-FPM has accepted: its counter of connections, one per request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request("GET", "/status.php?json")
            return int(json.loads(connection.getresponse().read())["accepted conn"])
        except (OSError, ValueError, KeyError) as error:
            raise CannotStart(f"PHP-FPM's status: {error}") from error
        finally:
            connection.close()

    def close(self) -> None:
        super().close()
        self._end_backend()

    def _end_backend(self) -> None:
        if hasattr(self, "fpm"):
            self.fpm.close()
        self._own.cleanup()


def hold_through_edge(part: Part, size: Size) -> None:
    """Holds a million clients by GRIP instructions of PHP: they connect, rest with keep-alives, and receive messages."""
    edge = Edge(size.workers_for(size.clients))
    stage = Stage(part, size, edge, size.clients, size.groups)
    part.commands.insert(0, " ".join(edge.fpm.command))
    try:
        part.figures["start_all_ms"] = edge.all_started_s * 1000
        stage.warm_up()
        base = process.memory(edge.pids())
        part.figures["base_private_per_worker"] = base.private / edge.workers
        kernel_base = kernel.Kernel.now()
        answered, php_cpu, edge_cpu = edge.answered(), process.cpu_ns(edge.fpm.pids()), process.cpu_ns(edge.pids())

        def on_step(name: str) -> None:
            if name == "rest":
                part.figures["php_answers"] = edge.answered() - answered - 1
                part.figures["php_us_per_hold"] = (process.cpu_ns(edge.fpm.pids()) - php_cpu) / size.clients / 1000
                part.figures["edge_us_per_hold"] = (process.cpu_ns(edge.pids()) - edge_cpu) / size.clients / 1000
            # Measure after the resting step, when time-outs of the connecting phase have expired.
            if name == "memory":
                held = process.memory(edge.pids())
                grown = kernel.share(kernel_base, kernel.Kernel.now())
                part.details["memory"] = {"base": vars(base), "held": vars(held), "kernel": vars(grown)}
                note_memory(part, size, base, held, grown)

        steps = stage.run(
            [
                f"rest={size.rest_s}s",
                f"memory={size.rest_s / 2}s",
                f"keep-alive={size.idle_s}s",
                f"groups={size.publish_s}s,groups={size.publish_rate}",
                f"sustained={size.sustained_s}s,groups={size.sustained_rate}",
            ],
            {"groups": size.publish_s},
            on_step,
        )
    finally:
        if alive := stage.costs.get("keep-alive"):
            part.figures["keep_alive_cpu_percent"] = alive.mean * 100
        stage.close()
    note_load(part, stage, steps)
