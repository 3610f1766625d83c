"""Runs `fermata load` as the clients, and reads its progress events."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.lib import process
from bench.lib.peers import FERMATA

END_SECONDS_MAX = 180.0

Event = dict[str, Any]


class LoadFailed(Exception):
    """The load generator wrote no result."""


class Clients:
    """A running `fermata load`. `on_event` receives its progress events."""

    def __init__(self, arguments: list[str], on_event: Callable[[Event], None]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="fermata-crowd-")
        self._json = Path(self._folder.name, "result.json")
        reading, writing = os.pipe()
        self.command = [str(FERMATA), "load", *arguments]
        own = ["--json", str(self._json), "--events", f"/dev/fd/{writing}", "--quiet"]
        self._stderr = Path(self._folder.name, "stderr")
        with self._stderr.open("wb") as stderr:
            self.process = subprocess.Popen(
                [*self.command, *own],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                pass_fds=(writing,),
                start_new_session=True,
            )
        os.close(writing)
        self._thread = threading.Thread(target=self._follow, args=(reading, on_event), daemon=True)
        self._thread.start()

    def _follow(self, reading: int, on_event: Callable[[Event], None]) -> None:
        with os.fdopen(reading) as lines:
            for line in lines:
                on_event(json.loads(line))

    def pids(self) -> list[int]:
        return process.tree(self.process.pid)

    def wait(self, timeout_s: float | None = None) -> None:
        """Waits until it exits. Raises subprocess.TimeoutExpired."""
        self.process.wait(timeout_s)

    def result(self) -> dict[str, Any]:
        """Waits until it exits and returns its JSON result. Raises LoadFailed."""
        self.process.wait()
        self._thread.join(timeout=5)
        try:
            return json.loads(self._json.read_text())
        except (OSError, ValueError) as error:
            text = self._stderr.read_text(errors="replace")[-2000:]
            raise LoadFailed(f"fermata load ended with {self.process.returncode}: {text}") from error

    def close(self) -> None:
        """Stops it with SIGTERM, and after END_SECONDS_MAX with SIGKILL."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                # Its child processes are killed with it.
                self.process.kill()
                self.process.wait()
        self._folder.cleanup()


def requests(url: str, rate: int, seconds: float) -> subprocess.Popen[bytes]:
    """Starts a load of `GET url` at a fixed rate, with a connection per request. It writes its result to a pipe as JSON."""
    command = [
        *(str(FERMATA), "load", "http", url, "--no-keep-alive", "--connections", "16", "--quiet"),
        *("--rate", str(rate), "--duration", f"{seconds}s", "--json", "/dev/fd/1"),
    ]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def requests_result(running: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Returns the result of `requests`. The output contains a text report, followed by JSON."""
    output, _ = running.communicate()
    text = output.decode()
    start = text.find("\n{")
    if start < 0:
        raise LoadFailed(f"fermata load http ended with {running.returncode}")
    return json.loads(text[start:])
