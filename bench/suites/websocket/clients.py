"""The client rows: a PHP script that opens and closes WebSockets, one after another."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.lib.load import LoadError
from bench.lib.peers import EXTENSION, PHP, SUBJECT
from bench.suites.tables.rows import pinned

from .load import SECONDS_MAX
from .peers import FOLDER


@dataclass(frozen=True)
class Client:
    id: str
    name: str
    script: Path
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClientRow:
    id: str
    title: str
    mode: str
    subprotocol: str


CLIENT_ROWS = [
    ClientRow("client", "PHP client, open and close, one after the other", "echo", ""),
    ClientRow("client-subprotocol", "The same with a subprotocol", "subprotocol", "bench"),
]
COUNT = 1_000
"""Number of connections per measurement, as in seed 003."""

CLIENTS = [
    Client(SUBJECT, "Fermata\\WebSocket\\Client", FOLDER / "clients/fermata.php", ("-d", f"extension={EXTENSION}")),
    Client("streams", "PHP streams, as the loop of seed 003", FOLDER / "clients/streams.php"),
]


@dataclass(frozen=True)
class ClientSample:
    row: str
    entry: str
    round: int
    connections: int
    seconds: float
    cpu_ns_total: int

    @property
    def rate(self) -> float:
        return self.connections / self.seconds

    @property
    def cpu_ns(self) -> float:
        return self.cpu_ns_total / self.connections


def measure(client: Client, row: ClientRow, round: int, port: int, count: int, core: int) -> ClientSample:
    """Runs a client once. Raises LoadError."""
    words = [*pinned(core), PHP, "-n", "-d", "zend.assertions=-1", *client.options, str(client.script)]
    words += [f"ws://127.0.0.1:{port}/", str(count), row.subprotocol]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        raise LoadError((done.stdout + done.stderr).strip()[-300:] or "no output") from error
    return ClientSample(row.id, client.id, round, count, found["seconds"], found["cpu_ns"])
