"""Runs three servers that share a log, for `bench cluster --nodes`: measures the latency of events to clients of another
server, and the effect of a killed server on its clients.

In the second part, clients connect through nginx, which distributes them over the servers and routes clients of the killed
server to the others. With `--direct`, clients know the three addresses and reconnect to another server themselves. A client
reconnects with the id of its last event.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.lib import process
from bench.lib.peers import FERMATA
from bench.suites.cluster.server import Running, log_of, server_of, wait_listening
from bench.suites.crowd.network import network

NODES = 3
GROUPS = 100
"""Number of channels over which clients are distributed."""
LATENCY_CLIENTS = 300
"""Three clients per channel, because this part measures the path between servers, not fan-out."""
KILL_AFTER_SECONDS = 3.0
CONNECT_SECONDS_MAX = 120.0
RECOVERY_GOAL_SECONDS = 15.0
LATENCY_GOAL_US = 10_000
CONNECTS_PER_SECOND_MIN = 1_000
"""Minimum connection rate, through nginx with all processes on one machine. It determines the time limit for many clients."""
CLIENTS_PER_WORKER = 15_000
"""Maximum after a server is killed. A worker has 20,000 descriptors, and SO_REUSEPORT distributes clients unevenly, by hash."""
CONNECTIONS_PER_PROXY = 4_000
"""Maximum number of clients per nginx process; each client needs two descriptors."""
CLIENTS_PER_SOURCE = 15_000
"""Maximum number of clients per source address of nginx. It keeps nginx below the number of ports of one address."""
NOT_SEEN = ("lost", "missing", "repeated", "corrupt", "misdirected", "gap_events")
"""Counters that must be 0: faults that clients detected."""


@contextlib.contextmanager
def nodes_of(log: str, directory: str, workers: int = 1) -> Iterator[list[Running]]:
    with contextlib.ExitStack() as stack, log_of(log, directory) as cluster:
        nodes = []
        for number in range(NODES):
            own = Path(directory, f"node-{number}")
            own.mkdir()
            nodes.append(stack.enter_context(server_of(cluster, str(own), workers)))
        yield nodes


def load(arguments: list[str], out: Path) -> subprocess.Popen[bytes]:
    command = [str(FERMATA), "load", *arguments, "--quiet", f"--json={out}"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def latency(log: str, options: argparse.Namespace) -> dict[str, Any]:
    """Measures the latency of events published at one server to clients of another server."""
    with tempfile.TemporaryDirectory() as directory, nodes_of(log, directory) as (first, second, _):
        out = Path(directory, "load.json")
        running = load(
            [
                *("sse", f"{second.address}/events/{{n}}", f"--clients={LATENCY_CLIENTS}", f"--groups={GROUPS}"),
                f"--publish={first.address}/publish/{{n}}",
                f"--publish-rate={options.rate}",
                *("--publish-connections=16", f"--duration={options.seconds}s"),
            ],
            out,
        )
        try:
            running.wait(CONNECT_SECONDS_MAX + options.seconds)
        finally:
            process.stop(running)
        result = json.loads(out.read_text())
    return {
        "log": log,
        "published_per_second": round(result["counters"]["published"] / result["measured_s"]),
        "latency_us": result["latency_us"],
        "last_byte_us": result["last_byte_us"],
        "faults": faults(result),
    }


def loss(log: str, options: argparse.Namespace) -> dict[str, Any]:
    """Kills all processes of one of the three servers while clients are held and events are published."""
    with (
        tempfile.TemporaryDirectory() as directory,
        network(options.clients * 4, own=not options.quick),
        nodes_of(log, directory, workers_for(options.clients)) as nodes,
        front_of(nodes, options, directory) as (front, proxy),
    ):
        out, steps = Path(directory, "load.json"), Path(directory, "steps.jsonl")
        # With more clients than can reconnect within the goal, wait longer, so that their reconnects are observed as well.
        back_seconds = max(RECOVERY_GOAL_SECONDS + 5, options.clients / NODES / CONNECTS_PER_SECOND_MIN)
        hold_seconds = 8 if options.quick else KILL_AFTER_SECONDS + back_seconds
        running = load(
            [
                *("hold", f"{front[0]}/events/{{n}}", f"--clients={options.clients}", f"--groups={GROUPS}"),
                *(f"--also={address.removeprefix('http://')}" for address in front[1:]),
                f"--publish={nodes[0].address}/publish/{{n}}",
                f"--publish-rate={options.loss_rate}",
                *("--reconnect-delay=200ms", "--interval=100ms", f"--duration={hold_seconds:.0f}s", f"--events={steps}"),
            ],
            out,
        )
        try:
            wait_held(steps, options.clients, running)
            time.sleep(KILL_AFTER_SECONDS)
            parts = {"servers": [it.pid for it in nodes[:-1]], "load": [running.pid]}
            if proxy is not None:
                parts["nginx"] = [proxy]
            if options.ahead:
                go_ahead([pid for pids in parts.values() for pid in pids])
            before = {name: spent_ns(pids) for name, pids in parts.items()}
            machine, began = machine_s(), time.monotonic()
            killed_unix = time.time()
            os.killpg(nodes[-1].pid, signal.SIGKILL)
            wait_open(steps, options.clients, running, hold_seconds)
            spent = {name: spent_ns(pids) - before[name] for name, pids in parts.items()}
            wall, busy = time.monotonic() - began, machine_s() - machine
            running.wait(hold_seconds + connect_seconds(options.clients))
        finally:
            process.stop(running)
        result = json.loads(out.read_text())
    return {
        "log": log,
        "way": "direct" if options.direct else "nginx",
        "ahead": options.ahead,
        "clients": options.clients,
        "workers_per_server": workers_for(options.clients),
        "clients_of_the_killed": result["counters"]["reconnects"],
        "recovered_s": recovered(result["series"], options.clients),
        "cpu_us_per_client": {
            name: round(ns / 1000 / max(1, result["counters"]["reconnects"]), 1) for name, ns in spent.items()
        },
        "window": {"wall_s": round(wall, 1), "cpu_s": round(sum(spent.values()) / 1e9, 1), "machine_cpu_s": round(busy, 1)},
        "killed_unix": round(killed_unix, 3),
        "deliveries": result["counters"]["deliveries"],
        "latency_us": result["latency_us"],
        "faults": faults(result),
    }


def workers_for(clients: int) -> int:
    """Returns the number of workers per server, such that the remaining servers can hold all clients."""
    return max(1, -(-clients // (NODES - 1) // CLIENTS_PER_WORKER))


def connect_seconds(clients: int) -> float:
    return max(CONNECT_SECONDS_MAX, clients / CONNECTS_PER_SECOND_MIN)


def sources(clients: int) -> str:
    """Returns nginx's map from client address to the source address of the connection to a server."""
    count = clients // CLIENTS_PER_SOURCE + 1
    parts = [f"        {100 / count:.2f}% 127.2.0.{number};" for number in range(1, count)]
    return "\n".join([*parts, f"        * 127.2.0.{count};"])


def spent_ns(pids: list[int]) -> int:
    """Returns the user and system time of processes, their threads and their descendants."""
    return process.cpu_ns([pid for parent in pids for pid in process.tree(parent)])


def go_ahead(pids: list[int]) -> None:
    """Raises the scheduling priority of the sessions that these processes lead. The nice value of a process is not
    sufficient: it only applies within its session (sched(7), the autogroup feature)."""
    for pid in pids:
        Path(f"/proc/{pid}/autogroup").write_text("-15")


def machine_s() -> float:
    """Returns the processor time used by the complete machine. In addition to the measured processes it includes the exit of
    the killed server, the log and all other processes."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    user, nice, system, _, _, irq, softirq = (int(field) for field in fields[:7])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def wait_open(steps: Path, clients: int, running: subprocess.Popen[bytes], seconds: float) -> None:
    """Waits until some clients have disconnected and all are connected again, but at most `seconds` or until `running` exits."""
    deadline, was_missed = time.monotonic() + seconds, False
    while time.monotonic() < deadline and running.poll() is None:
        time.sleep(0.1)
        with contextlib.suppress(ValueError, IndexError):
            are_all = json.loads(steps.read_text().splitlines()[-1]).get("open", 0) >= clients
            if are_all and was_missed:
                return
            was_missed |= not are_all


def faults(result: dict[str, Any]) -> dict[str, int]:
    return {name: result["counters"][name] for name in NOT_SEEN if result["counters"].get(name)}


def recovered(series: list[dict[str, Any]], clients: int) -> float | None:
    """Returns the seconds from the first interval with missing clients until all are connected; None if they never are."""
    full = next((at for at, point in enumerate(series) if point["open"] >= clients), None)
    if full is None:
        return None
    rest = series[full:]
    gone = next((point["at_s"] for point in rest if point["open"] < clients), None)
    if gone is None:
        return 0.0
    back = [point["at_s"] for point in rest if point["at_s"] > gone and point["open"] >= clients]
    return round(back[0] - gone, 2) if back else None


def wait_held(steps: Path, clients: int, running: subprocess.Popen[bytes]) -> None:
    """Waits until `fermata load` reports that all clients are connected."""
    seconds = connect_seconds(clients)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and running.poll() is None:
        lines = steps.read_text().splitlines() if steps.exists() else []
        for line in lines[-3:]:
            with contextlib.suppress(ValueError):
                if json.loads(line).get("open", 0) >= clients:
                    return
        time.sleep(0.1)
    raise SystemExit(f"cluster: not all of {clients} clients were held after {seconds:.0f} s")


@contextlib.contextmanager
def front_of(nodes: list[Running], options: argparse.Namespace, directory: str) -> Iterator[tuple[list[str], int | None]]:
    """Yields the addresses that clients connect to, and the process id of nginx, or None with `--direct`."""
    if options.direct:
        yield [node.address for node in nodes], None
        return
    with proxy_of(nodes, options.clients, directory) as (front, proxy):
        yield [front], proxy


@contextlib.contextmanager
def proxy_of(nodes: list[Running], clients: int, directory: str) -> Iterator[tuple[str, int]]:
    """Runs nginx in front of the servers, configured as in docs/cluster.md. Yields its address and process id."""
    port = process.free_port()
    servers = "\n".join(
        f"        server {node.address.removeprefix('http://')} max_fails=1 fail_timeout=30s;" for node in nodes
    )
    processes = clients // CONNECTIONS_PER_PROXY + 1
    configuration = Path(directory, "nginx.conf")
    configuration.write_text(f"""
worker_processes {processes};
worker_rlimit_nofile 20000;
pid {directory}/nginx.pid;
error_log {directory}/nginx.log error;
daemon off;
events {{ worker_connections 19000; multi_accept on; }}
http {{
    access_log off;
    client_body_temp_path {directory};
    proxy_temp_path {directory};
    split_clients "$remote_addr:$remote_port" $source {{
{sources(clients)}
    }}
    upstream nodes {{
        least_conn;
{servers}
    }}
    server {{
        listen 127.0.0.1:{port} backlog=8192 reuseport;
        location / {{
            proxy_pass http://nodes;
            proxy_bind $source;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffering off;
            proxy_read_timeout 1h;
            proxy_connect_timeout 5s;
            proxy_next_upstream error timeout;
        }}
    }}
}}
""")
    command = ["nginx", "-e", f"{directory}/nginx.log", "-p", directory, "-c", str(configuration)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_listening(port, child)
        yield f"http://127.0.0.1:{port}", child.pid
    finally:
        process.stop(child)


def show_loss(row: dict[str, Any]) -> None:
    after = row["recovered_s"]
    goal = "met" if after is not None and after <= RECOVERY_GOAL_SECONDS and not row["faults"] else "MISSED"
    print(
        f"{row['log']:6} one of {NODES} servers killed under {row['clients']} clients: {row['clients_of_the_killed']} came back "
        f"elsewhere, all after {after} s (goal {RECOVERY_GOAL_SECONDS:.0f} s: {goal}), {row['deliveries']} deliveries, "
        f"faults {row['faults'] or 'none'}; processor time for each: "
        + ", ".join(f"{name} {us} us" for name, us in row["cpu_us_per_client"].items())
        + f"; {row['window']['cpu_s']} of the machine's {row['window']['machine_cpu_s']} s in {row['window']['wall_s']} s",
        flush=True,
    )


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Runs both parts with each log, and prints the figures of the goals."""
    rows = []
    for log in options.logs:
        if options.direct:
            row = loss(log, options)
            rows.append({"part": "loss"} | row)
            show_loss(row)
            continue
        row = latency(log, options)
        rows.append({"part": "latency"} | row)
        p99 = row["latency_us"]["p99"]
        goal = "met" if p99 <= LATENCY_GOAL_US and not row["faults"] else "MISSED"
        print(
            f"{log:6} to clients of another server: p50 {row['latency_us']['p50'] / 1000:.2f} ms, p99 {p99 / 1000:.2f} ms "
            f"at {row['published_per_second']} publishes/s (goal 10 ms: {goal}), faults {row['faults'] or 'none'}",
            flush=True,
        )
        row = loss(log, options)
        rows.append({"part": "loss"} | row)
        show_loss(row)
    if options.quick and any(row["faults"] for row in rows):
        raise SystemExit("cluster: a client has missed or repeated something")
    return rows
