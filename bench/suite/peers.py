"""The servers that are compared: read from peers/*/peer.toml, built, started and stopped."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from string import Template

from . import process

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
BUILD = ROOT / "build" / "bench"
PAGE = BENCH / "page.html"
EXTENSION = Path(os.environ.get("FERMATA_EXTENSION", ROOT / "build" / "fermata.so"))
PHP = os.environ.get("FERMATA_PHP", "php")

SUBJECT = "fermata"
"""The peer that all ratios are about."""

START_SECONDS_MAX = 15.0
BUILD_SECONDS_MAX = 300.0
SERVICES = ("json", "chat", "held")
COMPARED = ("json", "chat")
"""The services of `run.py` and `counts.py`; `held` belongs to `held.py`."""
MESSAGES = ("", "answered", "closed")


class CannotRun(Exception):
    """A peer cannot be measured here; the text is the reason shown in the table."""


@dataclass(frozen=True)
class Service:
    """One program of a peer: `json` answers GET / with small JSON, `chat` is seed 000's server, `held` holds event
    streams."""

    start: tuple[str, ...]
    render: tuple[str, ...] = ()
    """Files of the peer's folder that are copied to its build folder with $names replaced."""
    message: str = ""
    """How a message send ends: "" (cannot send), "answered" (2xx), "closed" (no answer at all)."""
    publish: str = ""
    """Where a held service takes messages: {n} is replaced by the number of the group."""
    publish_body: str = "{message}"


@dataclass(frozen=True)
class Peer:
    id: str
    name: str
    about: str
    needs: tuple[str, ...]
    """Programs that have to be on the PATH."""
    files: tuple[str, ...]
    """Files that have to exist."""
    build: tuple[tuple[str, ...], ...]
    version: tuple[str, ...]
    services: dict[str, Service]

    @property
    def here(self) -> Path:
        return BENCH / "peers" / self.id

    @property
    def out(self) -> Path:
        return BUILD / self.id

    def fill(self, text: str, ports: tuple[int, int, int] = (0, 0, 0)) -> str:
        """Replace the names that README.md lists; any other $ stays as it is."""
        return Template(text).safe_substitute(
            root=ROOT,
            here=self.here,
            out=self.out,
            page=PAGE,
            port=ports[0],
            port2=ports[1],
            port3=ports[2],
            php=PHP,
            extension=EXTENSION,
        )

    def prepare(self) -> str:
        """Check what it needs, build it, and return its version. Raises CannotRun."""
        for program in map(self.fill, self.needs):
            if shutil.which(program) is None:
                raise CannotRun(f"{program} is not installed")
        for name in self.files:
            path = Path(self.fill(name))
            if not path.exists():
                raise CannotRun(f"{path} does not exist; run `make`")
        self.out.mkdir(parents=True, exist_ok=True)
        for command in self.build:
            self._run(command)
        return next(iter(self._run(self.version).strip().splitlines()), "unknown")

    def _run(self, command: tuple[str, ...]) -> str:
        filled = [self.fill(word) for word in command]
        try:
            done = subprocess.run(
                filled,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=BUILD_SECONDS_MAX,
                cwd=self.out,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotRun(f"`{' '.join(filled)}`: {error}") from error
        if done.returncode != 0:
            raise CannotRun(f"`{' '.join(filled)}` failed: {_last_line(done.stdout)}")
        return done.stdout


class Running:
    """A started service of a peer, pinned to a core. Use it as a context manager or call close()."""

    def __init__(self, peer: Peer, service: str, prefix: list[str]) -> None:
        """Start and wait until the port accepts. `prefix` wraps the command (taskset, valgrind, ...)."""
        self.peer = peer
        self.service = peer.services[service]
        self.ports = _free_ports()
        self.port = self.ports[0]
        self.log = peer.out / f"{service}.log"
        peer.out.mkdir(parents=True, exist_ok=True)
        for name in self.service.render:
            text = (peer.here / name).read_text()
            (peer.out / name).write_text(peer.fill(text, self.ports))
        self.command = prefix + [peer.fill(word, self.ports) for word in self.service.start]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=peer.out,
                # Not a session of its own: Linux schedules sessions as groups against each other
                # (sched_autogroup), and two commands of one shell, as the seeds ran them, are one.
                process_group=0,
            )
        try:
            self._wait_for_port()
        except CannotRun:
            self.close()
            raise

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        process.stop(self.process)

    def alive(self) -> bool:
        return self.process.poll() is None

    def pids(self) -> list[int]:
        return process.tree(self.process.pid)

    def _wait_for_port(self) -> None:
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline:
            if not self.alive():
                reason = _last_line(self.log.read_text(errors="replace")) or "no output"
                raise CannotRun(f"ended at start with {self.process.returncode}: {reason}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise CannotRun(f"did not listen within {START_SECONDS_MAX:.0f} s; see {self.log}")


def load_all(services: tuple[str, ...] = COMPARED) -> dict[str, Peer]:
    """Every peer that has one of the services, by its folder's name, the subject first."""
    found = [_load(path) for path in sorted((BENCH / "peers").glob("*/peer.toml"))]
    found = [peer for peer in found if not peer.services.keys().isdisjoint(services)]
    found.sort(key=lambda peer: peer.id != SUBJECT)
    return {peer.id: peer for peer in found}


def _load(path: Path) -> Peer:
    table = tomllib.loads(path.read_text())
    known = {"name", "about", "needs", "files", "build", "version", *SERVICES}
    if unknown := set(table) - known:
        raise ValueError(f"{path}: unknown keys {sorted(unknown)}; known are {sorted(known)}")
    services = {}
    for id in SERVICES:
        if id not in table:
            continue
        service = table[id]
        if unknown := set(service) - {"start", "render", "message", "publish", "publish_body"}:
            raise ValueError(f"{path}: unknown keys {sorted(unknown)} in [{id}]")
        message = service.get("message", "")
        if message not in MESSAGES:
            raise ValueError(f"{path}: message is {message!r}, expected one of {MESSAGES}")
        services[id] = Service(
            tuple(service["start"]),
            tuple(service.get("render", ())),
            message,
            service.get("publish", ""),
            service.get("publish_body", "{message}"),
        )
    return Peer(
        id=path.parent.name,
        name=table["name"],
        about=table["about"],
        needs=tuple(table.get("needs", ())),
        files=tuple(table.get("files", ())),
        build=tuple(tuple(command) for command in table.get("build", ())),
        version=tuple(table["version"]),
        services=services,
    )


def _free_ports() -> tuple[int, int, int]:
    """Ports that are free now. Another program may take one before the server does; then start fails."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for probe in (one, two, three):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
