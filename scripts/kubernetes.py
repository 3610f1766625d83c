#!/usr/bin/env python3
"""Checks packaging/kubernetes: validates every manifest against Kubernetes' schemas, and runs the cluster of cluster.yml.

Three real nats-server processes run on loopback with the configuration from the manifest. Two Fermata servers run with the
environment of its Deployment. Only the pod names, which become addresses, and the storage size of the log are changed.
Needs kubernetes-validate (PyPI), nats-server and a built extension.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
MANIFESTS = ROOT / "packaging" / "kubernetes"
EXTENSION = os.environ.get("FERMATA_EXTENSION", str(ROOT / "build" / "fermata.so"))
PHP = os.environ.get("PHP", "php")
NODES = 3
SECONDS_MAX = 60.0
PASSWORD = "secret-of-the-test"
SERVER = """<?php
use Fermata\\{Channel, Hold, Response, Server};
$server = new Server(workers: 1);
$server->get('/events', fn () => Hold::sse('news'));
$server->post('/publish', fn ($request) => Response::text(Channel::get('news')->publish($request->body())));
$server->run();
"""


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def validate() -> None:
    files = [str(path) for path in sorted(MANIFESTS.glob("*.yml"))]
    subprocess.run([sys.executable, "-m", "kubernetes_validate", "--strict", "--quiet", *files], check=True)


def documents() -> dict[tuple[str, str], dict[str, Any]]:
    found = yaml.safe_load_all((MANIFESTS / "cluster.yml").read_text())
    return {(one["kind"], one["metadata"]["name"]): one for one in found}


def environment(workload: dict[str, Any], pod: str) -> dict[str, str]:
    """Returns the environment of a pod. Expands $(NAME) and resolves secrets and the pod's name, as Kubernetes does."""
    values: dict[str, str] = {}
    for one in workload["spec"]["template"]["spec"]["containers"][0]["env"]:
        if "value" in one:
            values[one["name"]] = re.sub(r"\$\((\w+)\)", lambda name: values[name[1]], one["value"])
        else:
            values[one["name"]] = PASSWORD if "secretKeyRef" in one["valueFrom"] else pod
    return values


@contextlib.contextmanager
def running(command: list[str], env: dict[str, str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        child = subprocess.Popen(command, env={**os.environ, **env}, stdout=out, stderr=out)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def wait(what: str, logs: list[Path], url: str, expected: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    said = ""
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5) as answer:
                said = answer.read().decode()
                if expected in said:
                    return
        except urllib.error.HTTPError as error:
            said = error.read().decode()
        except OSError as error:
            said = str(error)
        time.sleep(0.1)
    text = "\n".join(log.read_text()[-2000:] for log in logs)
    raise SystemExit(f"{what}: not after {SECONDS_MAX:.0f} s, but {said.strip()}\n{text}")


def publish(port: int, text: str) -> None:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/publish", data=text.encode(), method="POST")
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        assert answer.read(), "the event has an id"


def try_cluster(directory: Path) -> None:
    found = documents()
    log, chat = found["StatefulSet", "chat-log"], found["Deployment", "chat"]
    assert log["spec"]["replicas"] == NODES
    client, route, monitor = ([free_port() for _ in range(NODES)] for _ in range(3))

    def here(text: str) -> str:
        for node in range(NODES):
            host = f"chat-log-{node}.chat-log"
            text = text.replace(f"{host}:4222", f"127.0.0.1:{client[node]}").replace(f"{host}:6222", f"127.0.0.1:{route[node]}")
        return text

    with contextlib.ExitStack() as stack:
        logs, nodes = [], []
        for node in range(NODES):
            text = found["ConfigMap", "chat-log"]["data"]["nats.conf"]
            for port, own in ((4222, client), (6222, route), (8222, monitor)):
                assert f"0.0.0.0:{port}" in text
                text = text.replace(f"0.0.0.0:{port}", f"127.0.0.1:{own[node]}")
            configuration = directory / f"nats-{node}.conf"
            configuration.write_text(text.replace('"/data"', f'"{directory}/data-{node}"'))
            env = {name: here(value) for name, value in environment(log, f"chat-log-{node}").items()}
            logs.append(directory / f"nats-{node}.log")
            nodes.append(stack.enter_context(running(["nats-server", "-c", str(configuration)], env, logs[-1])))
        probe = log["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"]
        for node in range(NODES):
            wait("a server of the log is ready", logs, f"http://127.0.0.1:{monitor[node]}{probe}", '"ok"')

        (directory / "password").write_text(PASSWORD)
        (directory / "server.php").write_text(SERVER)
        servers = []
        for number in range(2):
            listen, metrics = free_port(), free_port()
            env = {name: here(value) for name, value in environment(chat, f"chat-{number}").items()}
            assert env["FERMATA_LISTEN"] == "http://0.0.0.0:8080" and env["FERMATA_METRICS_LISTEN"] == "http://0.0.0.0:9464"
            env |= {"FERMATA_LISTEN": f"http://127.0.0.1:{listen}", "FERMATA_METRICS_LISTEN": f"http://127.0.0.1:{metrics}"}
            env |= {"FERMATA_CLUSTER_PASSWORD_FILE": f"{directory}/password", "FERMATA_CLUSTER_BYTES_MAX": "64m"}
            command = [PHP, "-d", f"extension={EXTENSION}", str(directory / "server.php")]
            logs.append(directory / f"chat-{number}.log")
            stack.enter_context(running(command, env, logs[-1]))
            servers.append((listen, metrics))
        probe = chat["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]["httpGet"]["path"]
        for _, metrics in servers:
            wait("a replica is ready", logs, f"http://127.0.0.1:{metrics}{probe}", "")

        with urllib.request.urlopen(f"http://127.0.0.1:{servers[1][0]}/events", timeout=SECONDS_MAX) as held:
            publish(servers[0][0], "while all are there")
            nodes[0].kill()
            nodes[0].wait()
            publish(servers[0][0], "while one is gone")
            text = ""
            while "while one is gone" not in text:
                line = held.readline().decode()
                assert line, f"the client was let go after {text}"
                text += line
            assert text.count("data: while all are there") == 1 and text.count("data: while one is gone") == 1, text


def main() -> None:
    validate()
    with tempfile.TemporaryDirectory() as directory:
        try_cluster(Path(directory))


if __name__ == "__main__":
    main()
