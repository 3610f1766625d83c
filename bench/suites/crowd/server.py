"""Runs the server under load: `server.php` with many workers."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.lib import process
from bench.lib.peers import EXTENSION, PHP, ROOT

SCRIPT = Path(__file__).with_name("server.php")
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 120.0
STARTED = re.compile(r"worker (\d+) started pid=(\d+)")


class CannotStart(Exception):
    """The server did not start; the message contains its log."""


class Server:
    """A running server. `close` stops it."""

    page = "/"
    """Path of the page that is requested while clients are held."""

    def __init__(
        self,
        workers: int,
        connections: int,
        groups: int,
        keep_alive_s: int = 0,
        *,
        script: Path = SCRIPT,
        behind: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> None:
        """`behind` is a command that executes the rest of its arguments, such as `prlimit`. Without `port`, a free port is used."""
        port = port or process.free_port()
        command = [*behind, PHP, "-d", f"extension={EXTENSION}", "-d", "opcache.enable_cli=1", str(script)]
        own = {
            "WORKERS": str(workers),
            "CONNECTIONS": str(connections),
            "KEEP_ALIVE": str(keep_alive_s),
            "CONTROL": "unix:{folder}/control",
            "GROUPS": str(groups),
            "PORT": str(port),
        }
        self._launch(workers, port, command, own | dict(environment or {}))

    def _launch(self, workers: int, port: int, command: list[str], environment: Mapping[str, str]) -> None:
        """Starts the server. `{folder}` in the environment is replaced by a new temporary folder."""
        self.workers = workers
        self.port = port
        self._folder = tempfile.TemporaryDirectory(prefix="fermata-crowd-")
        self.log_path = Path(self._folder.name, "log")
        self.control = f"unix:{self._folder.name}/control"
        self.command = command
        self.environment = {key: value.replace("{folder}", self._folder.name) for key, value in environment.items()}
        begin = time.monotonic()
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | self.environment,
                # A separate session, so that Ctrl-C reaches only this process, which stops the clients first.
                start_new_session=True,
            )
        try:
            self.first_answer_s = self._wait_for_answer(begin)
            self.all_started_s = self._wait_for_workers(begin)
        except BaseException:
            self.close()
            raise

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def streams(self) -> str:
        """Returns the URL of the held streams. {n} stands for the number of the group."""
        return self.url("/groups/{n}/events")

    def publishing(self) -> list[str]:
        """Returns the arguments of `fermata load` for publishing."""
        return ["--publish", self.url("/groups/{n}/messages"), "--publish-all", self.url("/all")]

    def log(self) -> str:
        return self.log_path.read_text(errors="replace")

    def pids(self) -> list[int]:
        """Returns the process ids of the master and its workers."""
        return process.tree(self.process.pid)

    def worker_pids(self) -> list[int]:
        return [pid for pid in self.pids() if pid != self.process.pid]

    def stop(self) -> None:
        """Stops the server with SIGTERM, like an administrator."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        finally:
            self.close()

    def close(self) -> None:
        """Kills the server immediately, without waiting for its clients."""
        if self.process.poll() is None:
            for pid in [*self.worker_pids(), self.process.pid]:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    continue
        # Wait for the whole process group: the last process closes tens of thousands of connections.
        self.process.wait()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while _group_lives(self.process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        self._folder.cleanup()

    def _wait_for_answer(self, begin: float) -> float:
        while True:
            if self.process.poll() is not None:
                raise CannotStart(f"the server ended: {self.log()[-2000:]}")
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            try:
                connection.request("GET", self.page)
                if connection.getresponse().status == 200:
                    return time.monotonic() - begin
            except OSError:
                pass
            finally:
                connection.close()
            if time.monotonic() - begin > START_SECONDS_MAX:
                raise CannotStart(f"no answer: {self.log()[-2000:]}")
            time.sleep(0.002)

    def _wait_for_workers(self, begin: float) -> float:
        while len(STARTED.findall(self.log())) < self.workers:
            if time.monotonic() - begin > START_SECONDS_MAX:
                raise CannotStart(f"only some workers started: {self.log()[-2000:]}")
            time.sleep(0.01)
        return time.monotonic() - begin


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
