"""The compared hubs: their commands, and requests that publish events to them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import http.client
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.lib import compiled, process
from bench.lib.peers import BUILD, FERMATA, CannotRun

from .clients import CHANNEL, EVENT

APP, KEY, SECRET = "1", "bench-key", "bench-secret"
JWT_KEY = "!ChangeThisMercureHubJWTSecretKey!"
READY_SECONDS_MAX = 60.0
CONNECTIONS_MAX = 100_000
"""Connection limit of each of our workers. The descriptor limit of a process is usually lower."""
WORKERS = 2
"""Number of workers of our hub. The others use their defaults."""


def _sockudo(port: int, _: Path, __: int) -> tuple[list[str], dict[str, str]]:
    return ["sockudo"], {
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "SOCKUDO_DEFAULT_APP_ID": APP,
        "SOCKUDO_DEFAULT_APP_KEY": KEY,
        "SOCKUDO_DEFAULT_APP_SECRET": SECRET,
        "SOCKUDO_DEFAULT_APP_ENABLED": "true",
        "METRICS_ENABLED": "false",
        # Required because all subscribers connect from one address.
        "RATE_LIMITER_ENABLED": "false",
        "SOCKUDO_DEFAULT_APP_MAX_CONNECTIONS": str(CONNECTIONS_MAX),
        "SOCKUDO_MAX_CONNECTIONS": str(CONNECTIONS_MAX),
        "SOCKUDO_DEFAULT_APP_MAX_BACKEND_EVENTS_PER_SECOND": "100000",
    }


def _soketi(port: int, _: Path, __: int) -> tuple[list[str], dict[str, str]]:
    return ["soketi", "start"], {
        "SOKETI_HOST": "127.0.0.1",
        "SOKETI_PORT": str(port),
        "SOKETI_DEFAULT_APP_ID": APP,
        "SOKETI_DEFAULT_APP_KEY": KEY,
        "SOKETI_DEFAULT_APP_SECRET": SECRET,
        "SOKETI_METRICS_ENABLED": "false",
    }


def _mercure(port: int, folder: Path, _: int) -> tuple[list[str], dict[str, str]]:
    (folder / "Caddyfile").write_text(
        f"{{\n\tadmin off\n}}\nhttp://127.0.0.1:{port} {{\n\tmercure {{\n\t\ttransport local\n\t\tanonymous\n"
        f"\t\tpublisher_jwt {JWT_KEY}\n\t\tsubscriber_jwt {JWT_KEY}\n\t}}\n}}\n"
    )
    return ["mercure", "run", "--config", str(folder / "Caddyfile")], {}


def _fermata(port: int, folder: Path, workers: int) -> tuple[list[str], dict[str, str]]:
    command = [str(FERMATA), "hub", "--app", f"{APP}:{KEY}:{SECRET}", "--listen", f"127.0.0.1:{port}", "--workers", str(workers)]
    command += ["--connections-max", str(CONNECTIONS_MAX), "--control", f"unix:{folder / 'control.sock'}"]
    return command, {
        "MERCURE_PUBLISHER_JWT_KEY": JWT_KEY,
        "MERCURE_SUBSCRIBER_JWT_KEY": JWT_KEY,
        "MERCURE_EXTRA_DIRECTIVES": "anonymous",
    }


def _floor(port: int, _: Path, workers: int) -> tuple[list[str], dict[str, str]]:
    compiled.build("floor")
    return [str(BUILD / "floor"), str(port), str(workers), "hub"], {}


@dataclass(frozen=True)
class Hub:
    id: str
    name: str
    protocols: tuple[str, ...]
    start: Callable[[int, Path, int], tuple[list[str], dict[str, str]]]
    source: str = ""
    """Source of the hub, shown if it is not installed."""


SUBJECT = "fermata"
FLOOR = "floor"
"""A server that makes only the system calls. It shows the kernel's share of the cost and has no goal."""
HUBS = {
    hub.id: hub
    for hub in (
        Hub(SUBJECT, "Fermata", ("pusher", "mercure"), _fermata),
        Hub(FLOOR, "System calls alone", ("pusher", "mercure"), _floor, "a C compiler"),
        Hub("sockudo", "Sockudo", ("pusher",), _sockudo, "cargo install sockudo, with protoc on the PATH"),
        Hub("soketi", "soketi", ("pusher",), _soketi, "npm install --global @soketi/soketi, with GitHub in reach"),
        Hub("mercure", "Mercure hub", ("mercure",), _mercure, "go install github.com/dunglas/mercure/caddy/mercure@latest"),
    )
}


@dataclass
class Running:
    """A running hub."""

    hub: Hub
    port: int
    child: subprocess.Popen[bytes]
    command: list[str]
    log: Path
    published: int = field(default=0)

    def pids(self) -> list[int]:
        return process.tree(self.child.pid)

    def publish(self, protocol: str, line: http.client.HTTPConnection) -> None:
        self.published += 1
        path, body, headers = (pusher_event if protocol == "pusher" else mercure_update)(self.published)
        line.request("POST", path, body, headers)
        answer = line.getresponse()
        text = answer.read()
        if answer.status != 200:
            raise CannotRun(f"an event was answered {answer.status}: {text[:200]!r}")


def pusher_event(number: int, now_s: int | None = None) -> tuple[str, bytes, dict[str, str]]:
    """Returns path, body and headers of a signed request that publishes an event with Pusher's HTTP API."""
    data = json.dumps({"number": number, "name": EVENT.decode()})
    body = json.dumps({"name": "told", "channel": CHANNEL, "data": data}).encode()
    path = _signed("POST", f"/apps/{APP}/events", {"body_md5": hashlib.md5(body).hexdigest()}, now_s)
    return path, body, {"Content-Type": "application/json"}


def channel_info(now_s: int | None = None) -> str:
    """Returns the path of a GET request for the channel's number of subscribers."""
    return _signed("GET", f"/apps/{APP}/channels/{CHANNEL}", {"info": "subscription_count"}, now_s)


def _signed(method: str, path: str, values: dict[str, str], now_s: int | None) -> str:
    """Returns the path with its signed query. Parameters are sorted by name for the signature."""
    own = {"auth_key": KEY, "auth_timestamp": str(int(time.time()) if now_s is None else now_s), "auth_version": "1.0"}
    query = urllib.parse.urlencode(sorted((own | values).items()))
    signature = hmac.new(SECRET.encode(), f"{method}\n{path}\n{query}".encode(), hashlib.sha256).hexdigest()
    return f"{path}?{query}&auth_signature={signature}"


def mercure_update(number: int) -> tuple[str, bytes, dict[str, str]]:
    """Returns path, body and headers of a Mercure publisher's request, with its token."""

    def encode(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    head, claims = encode(b'{"alg":"HS256","typ":"JWT"}'), encode(b'{"mercure":{"publish":["*"]}}')
    signed = f"{head}.{claims}"
    token = f"{signed}.{encode(hmac.new(JWT_KEY.encode(), signed.encode(), hashlib.sha256).digest())}"
    data = json.dumps({"number": number, "name": EVENT.decode()})
    body = urllib.parse.urlencode({"topic": CHANNEL, "data": data}).encode()
    return "/.well-known/mercure", body, {"Authorization": f"Bearer {token}", "Content-Type": "application/x-www-form-urlencoded"}


@contextlib.contextmanager
def running(hub: Hub, workers: int) -> Iterator[Running]:
    """Runs a hub. Yields it when it accepts requests. Raises CannotRun."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        port = process.free_port()
        command, environment = hub.start(port, folder, workers)
        if shutil.which(command[0]) is None:
            raise CannotRun(f"{command[0]} is not here: {hub.source or 'make'}")
        log = folder / "log"
        with log.open("wb") as out:
            child = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        try:
            _wait(child, port, log)
            yield Running(hub, port, child, command, log)
        finally:
            process.stop(child)


def _wait(child: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline:
        if child.poll() is not None:
            break
        try:
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            line.request("GET", "/")
            line.getresponse().read()
            return
        except OSError:
            time.sleep(0.1)
        finally:
            line.close()
    raise CannotRun(f"it does not answer: {log.read_text(errors='replace')[-300:]}")
