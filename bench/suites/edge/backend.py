"""Runs the backend of all edges: nginx with constant responses. Its processor time does not count for any edge."""

from __future__ import annotations

import subprocess
from pathlib import Path
from string import Template

from bench.lib import backend, process
from bench.lib.peers import BUILD

CONFIGURATION = Path(__file__).with_name("backend.conf")


class Backend(backend.Backend):
    """The running backend. Edges that start while it runs get its address as `$backend`."""

    def __enter__(self) -> Backend:
        super().__enter__()
        return self

    def cpu_ns(self) -> int:
        return process.cpu_ns(process.tree(self.process.pid))

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        out = BUILD / "edge-backend"
        out.mkdir(parents=True, exist_ok=True)
        rendered = out / "nginx.conf"
        rendered.write_text(Template(CONFIGURATION.read_text()).safe_substitute(out=out, port=port))
        with (out / "log").open("wb") as log:
            return subprocess.Popen(
                ["nginx", "-p", str(out), "-e", "stderr", "-c", str(rendered)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def _address(self, port: int) -> str:
        return f"127.0.0.1:{port}"
