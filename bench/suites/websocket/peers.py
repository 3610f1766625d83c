"""The WebSocket servers that are compared, and the TLS terminators before them."""

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
"""What a server does: it sends every message back, chooses the subprotocol `bench` too, or sends everything to all."""
TLS = "-tls"
"""Ends the name of a service that speaks wss itself."""
CLIENTS_MAX = 19_000
"""What a server has to hold unless its peer.toml says less: the descriptor limit of one process here is 20,000."""

CERTIFICATE = OUT / "tls" / "certificate.pem"
KEY = OUT / "tls" / "key.pem"


@dataclass(frozen=True)
class SocketPeer(Peer):
    """A WebSocket server, or a terminator in front of one."""

    outside: bool = False
    """No PHP: shown as a mark, never the best peer."""
    clients_max: int = CLIENTS_MAX
    backend: int = 0
    """The port behind a terminator."""

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
            # As they are: Peer.fill() has names of its own.
            "here": self.here,
            "out": self.out,
        }
        return super().fill(Template(text).safe_substitute(names), ports, workers)


def load_all(directory: Path) -> dict[str, SocketPeer]:
    """Every peer by its folder's name, the subject first. `directory` holds the peers that were built elsewhere."""
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
    """What the servers' sources look for."""
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
    """A terminator before one server: its folder is of the pair."""

    before: str = ""

    @property
    def here(self) -> Path:
        return FOLDER / "terminators"

    @property
    def out(self) -> Path:
        return OUT / f"{self.id}-{self.before}"


def terminator(id: str, backend: int, before: str) -> Terminator:
    """The terminator `id` before the server `before`, which listens at port `backend`."""
    fields = {name: getattr(TERMINATORS[id], name) for name in TERMINATORS[id].__dataclass_fields__}
    return replace(Terminator(**fields), backend=backend, before=before)


def make_certificate() -> None:
    """A certificate for 127.0.0.1 that everybody uses: ECDSA, as new ones are."""
    CERTIFICATE.parent.mkdir(parents=True, exist_ok=True)
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    command += ["-keyout", str(KEY), "-out", str(CERTIFICATE), "-days", "30", "-subj", "/CN=bench"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotRun(f"no certificate for wss: {error}") from error
