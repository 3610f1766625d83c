"""The compared WebSocket servers, and the TLS terminators in front of them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from string import Template

from bench.lib.peers import BUILD, CannotRun, Peer, Service, by_id, read_table
from bench.lib.peers import environment as common_environment

FOLDER = Path(__file__).parent
OUT = BUILD / "websocket"
MODES = ("echo", "subprotocol", "broadcast")
"""Modes of a server: it echoes every message; it echoes and selects the subprotocol `bench`; it sends every message to all."""
TLS = "-tls"
"""Suffix of a service that supports wss itself."""
CLIENTS_MAX = 19_000
"""Default number of clients that a server must hold; a peer.toml may lower it. The descriptor limit of a process is 20,000."""

CERTIFICATE = OUT / "tls" / "certificate.pem"
KEY = OUT / "tls" / "key.pem"


@dataclass(frozen=True)
class SocketPeer(Peer):
    """A WebSocket server, or a terminator in front of one."""

    outside: bool = False
    """True if the server does not run PHP. It is shown for comparison and never counts as the best peer."""
    clients_max: int = CLIENTS_MAX
    backend: int = 0
    """Port of the server behind a terminator."""

    @property
    def here(self) -> Path:
        return FOLDER / "peers" / self.id

    @property
    def out(self) -> Path:
        return OUT / self.id

    def fill(self, text: str, ports: tuple[int, int, int] = (0, 0, 0), workers: int = 1) -> str:
        names = {
            "certificate": CERTIFICATE,
            "key": KEY,
            "backend": self.backend,
            "websocket": FOLDER,
            "here": self.here,
            "out": self.out,
        }
        return super().fill(Template(text).safe_substitute(names), ports, workers)


def load_all(directory: Path) -> dict[str, SocketPeer]:
    """Returns all peers by folder name, the subject first. `directory` contains peers that were built elsewhere."""
    return by_id([_load(path, directory) for path in sorted((FOLDER / "peers").glob("*/peer.toml"))])


def _load(path: Path, directory: Path) -> SocketPeer:
    table, common = read_table(path, {"start", "start_tls", "tls", "outside", "clients_max"})
    services = {}
    for mode in MODES:
        services[mode] = Service(_command(table["start"], mode))
        if table.get("tls"):
            services[mode + TLS] = Service((*_command(table["start"], mode), "$certificate", "$key"))
        if "start_tls" in table:
            services[mode + TLS] = Service(_command(table["start_tls"], mode))
    return SocketPeer(
        **common,
        services=services,
        directory=directory,
        outside=table.get("outside", False),
        clients_max=table.get("clients_max", CLIENTS_MAX),
    )


def _command(words: list[str], mode: str) -> tuple[str, ...]:
    return tuple(word.replace("$mode", mode) for word in words)


def environment(directory: Path) -> None:
    """Sets the environment that the servers' sources read."""
    common_environment(directory)
    os.environ["BENCH_STATE"] = str(OUT)


TERMINATORS = {
    "proxy": SocketPeer(
        id="proxy",
        name="PHP terminator",
        about="bench/suites/websocket/terminators/proxy.php, as the one of seed 003",
        needs=("$php",),
        files=(),
        build=(),
        version=("$php", "-r", "echo 'PHP ', PHP_VERSION, ', ', OPENSSL_VERSION_TEXT;"),
        services={
            "front": Service(
                ("$php", "$websocket/terminators/proxy.php", "$port", "$backend", "$certificate", "$key")
            )
        },
        clients_max=400,
    ),
    "nginx": SocketPeer(
        id="nginx",
        name="nginx",
        about="proxy_pass with one worker",
        needs=("nginx",),
        files=(),
        build=(),
        version=("nginx", "-v"),
        services={
            "front": Service(
                ("nginx", "-e", "stderr", "-p", "$out", "-c", "$out/nginx.conf"),
                render=("nginx.conf",),
            )
        },
    ),
}


@dataclass(frozen=True)
class Terminator(SocketPeer):
    """A terminator in front of one server. Each pair has a separate build folder."""

    before: str = ""

    @property
    def here(self) -> Path:
        return FOLDER / "terminators"

    @property
    def out(self) -> Path:
        return OUT / f"{self.id}-{self.before}"


def terminator(id: str, backend: int, before: str) -> Terminator:
    """Returns the terminator `id` in front of the server `before`, which listens on port `backend`."""
    fields = {name: getattr(TERMINATORS[id], name) for name in TERMINATORS[id].__dataclass_fields__}
    return replace(Terminator(**fields), backend=backend, before=before)


def make_certificate() -> None:
    """Creates the certificate for 127.0.0.1 that all servers use (ECDSA)."""
    CERTIFICATE.parent.mkdir(parents=True, exist_ok=True)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(KEY), "-out", str(CERTIFICATE), "-days", "30", "-subj", "/CN=bench"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotRun(f"no certificate for wss: {error}") from error
