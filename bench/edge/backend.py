"""The backend that all edges ask: nginx with constant answers, whose own time counts for nobody."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path
from string import Template
from types import TracebackType

from suite import process
from suite.peers import BACKEND, BUILD, CannotRun

CONFIGURATION = Path(__file__).with_name("backend.conf")
READY_SECONDS_MAX = 5.0


class Backend:
    """The running backend; edges that start meanwhile find its address as `$backend`."""

    def __enter__(self) -> Backend:
        port = process.free_port()
        out = BUILD / "edge-backend"
        out.mkdir(parents=True, exist_ok=True)
        rendered = out / "nginx.conf"
        rendered.write_text(Template(CONFIGURATION.read_text()).safe_substitute(out=out, port=port))
        with (out / "log").open("wb") as log:
            self.process = subprocess.Popen(
                ["nginx", "-p", str(out), "-e", "stderr", "-c", str(rendered)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )
        deadline = time.monotonic() + READY_SECONDS_MAX
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    process.stop(self.process)
                    raise CannotRun(f"nginx did not start; see {out / 'log'}") from None
                time.sleep(0.005)
        os.environ[BACKEND] = f"127.0.0.1:{port}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.environ.pop(BACKEND, None)
        process.stop(self.process)

    def cpu_ns(self) -> int:
        return process.cpu_ns(process.tree(self.process.pid))
