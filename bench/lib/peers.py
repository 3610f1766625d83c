"""Reads the compared servers from peers/*/peer.toml; builds, starts and stops them.

Peers that no package registry provides are searched in a folder: FERMATA_BENCH_PEERS or --peers-in names it, and peer.toml
files use it as `$peers`. If a peer is missing there, the report lists it as not run.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
import tomllib
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from string import Template
from typing import Any, TypeVar

from . import process

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
BUILD = ROOT / "build" / "bench"
SCRATCH = Path(os.environ.get("FERMATA_BENCH_SCRATCH", "/dev/shm/fermata-bench"))
"""Folder where the servers write files. It is in memory: when an ext4 without a journal creates a file, it scans all inodes
freed in the last minutes. On such a disk the results would depend on the number of files deleted before."""
PAGE = BENCH / "page.html"
EXTENSION = Path(os.environ.get("FERMATA_EXTENSION", ROOT / "build" / "fermata.so"))
FERMATA = Path(os.environ.get("FERMATA_COMMAND", ROOT / "build" / "fermata"))
"""Path of the command `fermata`, for `fermata load`."""
PHP = os.environ.get("FERMATA_PHP", "php")
ELSEWHERE = Path(os.environ.get("FERMATA_BENCH_PEERS", BUILD / "peers"))
"""Default folder of peers that are not in this repository; --peers-in overrides it."""
BACKEND = "BENCH_BACKEND"
"""Name of the environment variable with the backend's address, for the service `waits` and for edges."""

SUBJECT = "fermata"
"""The peer that all ratios compare with the others."""

START_SECONDS_MAX = 15.0
BUILD_SECONDS_MAX = 300.0
SERVICES = ("json", "cores", "chat", "static", "held", "edge", "echo", "script", "waits", "pauses", "h2", "h2held", "proxy")
COMPARED = ("json", "cores", "chat", "script", "waits", "pauses")
"""Services that the suites `tables` and `counts` measure. Each other service has a separate suite."""
MESSAGES = ("", "answered", "closed")


class CannotRun(Exception):
    """A peer cannot be measured on this machine; the message is the reason shown in the report."""


class Lacks(CannotRun):
    """This build of Fermata lacks a feature that the service needs. The suite does not fail."""


@dataclass(frozen=True)
class Service:
    """A server program of a peer. `json`: small JSON for GET /, from one process or worker. `cores`: `json` with one
    process or worker per core. `chat`: the chat of seed 000. `static`: the page of that chat, from a file. `script`: the
    script of seed 002. `held`: event streams. `edge`: streams of a GRIP backend, whose other responses are proxied.
    `echo`: returns WebSocket messages. `waits`: responds after waiting 50 ms for a backend. `pauses`: responds after 50 ms
    of sleep. `h2`: `json` over HTTP/2 and TLS. `h2held`: event streams at `port`, and over HTTP/2 and TLS at `port2`.
    `proxy`: forwards each request to a backend."""

    start: tuple[str, ...]
    render: tuple[str, ...] = ()
    """Files copied from the peer's folder to its build folder, with $names replaced."""
    message: str = ""
    """How the server completes the request that sends a message: "" (cannot send), "answered" (2xx), "closed" (no response)."""
    publish: str = ""
    """URL to which messages for a held service are posted. {n} is replaced by the group's number."""
    publish_body: str = "{message}"
    path: str = "/"
    """Path that the service's first row requests."""
    requires: str = ""
    """PHP expression that is true if the extension has the features that the service needs."""
    keep_alive: bool = True
    """False if the server closes every connection after one response."""
    spins: bool = False
    """True if the server uses the processor even when idle. It is stopped while other peers are measured."""


@dataclass(frozen=True)
class Peer:
    """A compared server. `id` is the name of its folder."""

    id: str
    name: str
    about: str
    needs: tuple[str, ...]
    """Commands that must be on the PATH."""
    files: tuple[str, ...]
    """Files that must exist."""
    build: tuple[tuple[str, ...], ...]
    version: tuple[str, ...]
    services: dict[str, Service]
    directory: Path = ELSEWHERE
    """Folder of peers that are not in this repository."""

    @property
    def here(self) -> Path:
        return BENCH / "peers" / self.id

    @property
    def out(self) -> Path:
        return BUILD / self.id

    def fill(self, text: str, ports: tuple[int, int, int] = (0, 0, 0), workers: int = 1) -> str:
        """Replaces the $names that README.md lists. Any other $ is unchanged."""
        names: dict[str, object] = {
            "root": ROOT,
            "here": self.here,
            "out": self.out,
            "scratch": self.scratch,
            "peers": self.directory,
            "page": PAGE,
            "port": ports[0],
            "port2": ports[1],
            "port3": ports[2],
            "workers": workers,
            "php": PHP,
            "extension": EXTENSION,
            "fermata": FERMATA,
            "backend": os.environ.get(BACKEND, ""),
        }
        if "$phpversion" in text or "${phpversion}" in text:
            names["phpversion"] = php_version()
        return Template(text).safe_substitute(names)

    def prepare(self) -> str:
        """Checks requirements, builds the peer and returns its version. Raises CannotRun."""
        for program in map(self.fill, self.needs):
            if shutil.which(program) is None:
                raise CannotRun(f"{program} is not installed")
        for name in self.files:
            path = Path(self.fill(name))
            if not path.exists():
                if path.is_relative_to(self.directory):
                    raise CannotRun(f"{path} does not exist; FERMATA_BENCH_PEERS names a folder that has it")
                raise CannotRun(f"{path} does not exist; run `make`" if path.is_relative_to(ROOT) else f"no {path}")
        self.out.mkdir(parents=True, exist_ok=True)
        for command in self.build:
            self._run(command)
        return next(iter(self._run(self.version).strip().splitlines()), "unknown")

    @property
    def scratch(self) -> Path:
        """Folder where the service `script` writes."""
        return SCRATCH / self.id

    def clear_scratch(self) -> None:
        """Removes the files that the service `script` has written."""
        for file in self.scratch.glob("*.txt"):
            file.unlink(missing_ok=True)

    def check_requires(self, service: str) -> None:
        """Raises Lacks if the extension lacks a feature that the service needs."""
        if requires := self.services[service].requires:
            command = [PHP, "-d", f"extension={EXTENSION}", "-r", f"exit((int) !({requires}));"]
            if subprocess.run(command, capture_output=True, timeout=30, check=False).returncode != 0:
                raise Lacks(f"this build of Fermata lacks what it needs: {requires} is false")

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
    """A running service of a peer. Use it as a context manager or call close()."""

    def __init__(self, peer: Peer, service: str, prefix: list[str], workers: int = 1, wait: bool = True) -> None:
        """Starts the server, and waits until its port accepts connections if `wait`. `prefix` wraps the command (taskset …)."""
        self.peer = peer
        self.service = peer.services[service]
        self.ports = _free_ports()
        self.port = self.ports[0]
        self.log = peer.out / f"{service}.log"
        peer.scratch.mkdir(parents=True, exist_ok=True)
        peer.check_requires(service)
        for name in self.service.render:
            text = (peer.here / name).read_text()
            (peer.out / Path(name).name).write_text(peer.fill(text, self.ports, workers))
        self.command = prefix + [peer.fill(word, self.ports, workers) for word in self.service.start]
        with self.log.open("wb") as log:
            self.started = time.monotonic()
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=peer.out,
                # A separate process group but not a session: Linux schedules each session as one group
                # (sched_autogroup), and the seeds ran server and load from one shell, hence in one session.
                process_group=0,
            )
        if not wait:
            return
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

    def pause(self) -> None:
        """Stops a server that spins until resume() is called."""
        if self.service.spins and self.alive():
            os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Continues a server that pause() has stopped."""
        if self.service.spins and self.alive():
            os.killpg(self.process.pid, signal.SIGCONT)

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


P = TypeVar("P", bound=Peer)


def load_all(services: tuple[str, ...] = COMPARED, directory: Path = ELSEWHERE) -> dict[str, Peer]:
    """Returns all peers that have one of the services, by folder name, the subject first."""
    found = [_load(path, directory) for path in sorted((BENCH / "peers").glob("*/peer.toml"))]
    return by_id([peer for peer in found if not peer.services.keys().isdisjoint(services)])


def by_id(peers: list[P]) -> dict[str, P]:
    """Returns the peers by id, the subject first."""
    return {peer.id: peer for peer in sorted(peers, key=lambda peer: peer.id != SUBJECT)}


def read_table(path: Path, extra: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns a peer.toml, and the arguments in it that every kind of Peer has. Other keys must be in `extra`."""
    table = tomllib.loads(path.read_text())
    known = {"name", "about", "needs", "files", "build", "version"} | extra
    if unknown := set(table) - known:
        raise ValueError(f"{path}: unknown keys {sorted(unknown)}; known are {sorted(known)}")
    common = {
        "id": path.parent.name,
        "name": table["name"],
        "about": table["about"],
        "needs": tuple(table.get("needs", ())),
        "files": tuple(table.get("files", ())),
        "build": tuple(tuple(command) for command in table.get("build", ())),
        "version": tuple(table["version"]),
    }
    return table, common


def environment(directory: Path) -> None:
    """Sets the environment that peers read: the path of an autoloader outside the repository, and Go's toolchain."""
    os.environ["BENCH_AUTOLOAD"] = str(directory / "autoload.php")
    os.environ.setdefault("GOTOOLCHAIN", "local")


@cache
def php_version() -> str:
    """Returns PHP's version without the patch number, as in the names of Debian's PHP commands: `8.2` for 8.2.1."""
    command = [PHP, "-n", "-r", "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise CannotRun(f"{PHP}: {error}") from error


def _load(path: Path, directory: Path) -> Peer:
    table, common = read_table(path, set(SERVICES))
    services = {id: _service(path, id, table[id]) for id in SERVICES if id in table}
    return Peer(**common, services=services, directory=directory)


def _service(path: Path, id: str, table: dict[str, Any]) -> Service:
    known = set(Service.__dataclass_fields__)
    if unknown := set(table) - known:
        raise ValueError(f"{path}: unknown keys {sorted(unknown)} in [{id}]; known are {sorted(known)}")
    service = replace(Service(start=tuple(table["start"])), **table)
    if service.message not in MESSAGES:
        raise ValueError(f"{path}: message is {service.message!r}, expected one of {MESSAGES}")
    return replace(service, start=tuple(service.start), render=tuple(service.render))


def _free_ports() -> tuple[int, int, int]:
    """Returns three free ports. If another process binds one before the server does, the start fails."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for probe in (one, two, three):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
