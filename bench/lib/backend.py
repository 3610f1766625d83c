"""Runs the backend of the row `waits`: a small C server that responds after 50 ms."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from types import TracebackType

from . import process
from .peers import BACKEND, BUILD, CannotRun

READY_SECONDS_MAX = 5.0


class Backend:
    """The running backend. Peers that start while it runs get its address in BACKEND and as `$backend`."""

    def __enter__(self) -> Backend:
        port = process.free_port()
        self.process = self._start(port)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    process.stop(self.process)
                    raise CannotRun("the backend did not start") from None
                time.sleep(0.005)
        os.environ[BACKEND] = self._address(port)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.environ.pop(BACKEND, None)
        process.stop(self.process)

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(BUILD / "backend"), str(port)], stdin=subprocess.DEVNULL, process_group=0)

    def _address(self, port: int) -> str:
        return f"http://127.0.0.1:{port}/"
