"""The servers that are compared: read from peers/*/peer.toml, built, started and stopped.

Some peers cannot be had from a package registry; they are looked for in the folder that FERMATA_BENCH_PEERS or
--peers-in names (`$peers` in a peer.toml) and reported as not run where it has none.
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
"""Where the servers write files. In memory: an ext4 without a journal looks through all inodes freed in the last minutes
for each file that is made, so on such a disk the rows would measure how much had been deleted before."""
PAGE = BENCH / "page.html"
EXTENSION = Path(os.environ.get("FERMATA_EXTENSION", ROOT / "build" / "fermata.so"))
FERMATA = Path(os.environ.get("FERMATA_COMMAND", ROOT / "build" / "fermata"))
"""The command, for `fermata load`."""
PHP = os.environ.get("FERMATA_PHP", "php")
ELSEWHERE = Path(os.environ.get("FERMATA_BENCH_PEERS", BUILD / "peers"))
"""Where peers are that this repository does not have, unless --peers-in says otherwise."""
BACKEND = "BENCH_BACKEND"
"""The environment variable with the address of the backend: the peers of the waiting row wait for it, edges ask it."""

SUBJECT = "fermata"
"""The peer that all ratios are about."""

START_SECONDS_MAX = 15.0
BUILD_SECONDS_MAX = 300.0
SERVICES = ("json", "cores", "chat", "static", "held", "edge", "echo", "script", "waits", "pauses", "h2", "h2held", "proxy")
COMPARED = ("json", "cores", "chat", "script", "waits", "pauses")
"""The services of the peers in `run.py` and `counts.py`; `held`, `edge` and those of HTTP/2 belong to suites of their own."""
MESSAGES = ("", "answered", "closed")


class CannotRun(Exception):
    """A peer cannot be measured here; the text is the reason shown in the table."""


class Lacks(CannotRun):
    """This build of Fermata does not have what the service needs, which is no failure of the suite."""


@dataclass(frozen=True)
class Service:
    """One program of a peer: `json` answers GET / with small JSON from one process or worker, `cores` does so with as
    many as there are cores, `chat` is seed 000's server, `static` serves its page from a file, `held` holds event
    streams, `edge` holds those of a GRIP backend and proxies its other answers, `echo` sends WebSocket messages back,
    `script` is seed 002's script, `waits` and `pauses` take 50 ms for an answer: of a backend, or of nobody,
    `h2` is `json` over HTTP/2 and TLS, `h2held` holds event streams at `port` and, over HTTP/2 and TLS, at `port2`,
    `proxy` asks a backend for each answer."""

    start: tuple[str, ...]
    render: tuple[str, ...] = ()
    """Files of the peer's folder that are copied to its build folder with $names replaced."""
    message: str = ""
    """How a message send ends: "" (cannot send), "answered" (2xx), "closed" (no answer at all)."""
    publish: str = ""
    """Where a held service takes messages: {n} is replaced by the number of the group."""
    publish_body: str = "{message}"
    path: str = "/"
    """Of the service's first row."""
    requires: str = ""
    """An expression in PHP that is true when the extension has what the service needs."""
    keep_alive: bool = True
    """False when every connection is closed after one answer."""
    spins: bool = False
    """It uses the processor also while nothing comes, so it is stopped while others are measured."""


@dataclass(frozen=True)
class Peer:
    """A server that is compared; its name is that of its folder."""

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
    directory: Path = ELSEWHERE
    """Where peers are that this repository does not have."""

    @property
    def here(self) -> Path:
        return BENCH / "peers" / self.id

    @property
    def out(self) -> Path:
        return BUILD / self.id

    def fill(self, text: str, ports: tuple[int, int, int] = (0, 0, 0), workers: int = 1) -> str:
        """Replace the names that README.md lists; any other $ stays as it is."""
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
        """Check what it needs, build it, and return its version. Raises CannotRun."""
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
        """Where the `script` service writes."""
        return SCRATCH / self.id

    def clear_scratch(self) -> None:
        """Remove what the `script` service has written."""
        for file in self.scratch.glob("*.txt"):
            file.unlink(missing_ok=True)

    def check_requires(self, service: str) -> None:
        """Raises Lacks when the extension does not have what the service needs."""
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
    """A started service of a peer, pinned to a core. Use it as a context manager or call close()."""

    def __init__(self, peer: Peer, service: str, prefix: list[str], workers: int = 1, wait: bool = True) -> None:
        """Start, and wait until the port accepts. `prefix` wraps the command (taskset, valgrind, ...)."""
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
                # Not a session of its own: Linux schedules sessions as groups against each other
                # (sched_autogroup), and two commands of one shell, as the seeds ran them, are one.
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
        """Stop a server that spins until resume()."""
        if self.service.spins and self.alive():
            os.killpg(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a server that pause() has stopped go on."""
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
    """Every peer that has one of the services, by its folder's name, the subject first."""
    found = [_load(path, directory) for path in sorted((BENCH / "peers").glob("*/peer.toml"))]
    return by_id([peer for peer in found if not peer.services.keys().isdisjoint(services)])


def by_id(peers: list[P]) -> dict[str, P]:
    """Peers by their name, the subject first."""
    return {peer.id: peer for peer in sorted(peers, key=lambda peer: peer.id != SUBJECT)}


def read_table(path: Path, extra: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A peer.toml, and what every kind of Peer takes from it. `extra` are the keys beside those; others are errors."""
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
    """What the sources of peers look for: an autoloader outside the repository."""
    os.environ["BENCH_AUTOLOAD"] = str(directory / "autoload.php")
    os.environ.setdefault("GOTOOLCHAIN", "local")


@cache
def php_version() -> str:
    """`8.2` for 8.2.1, as Debian names PHP's other programs."""
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
    """Ports that are free now. Another program may take one before the server does; then start fails."""
    with socket.socket() as one, socket.socket() as two, socket.socket() as three:
        for probe in (one, two, three):
            probe.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1], three.getsockname()[1]


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")
