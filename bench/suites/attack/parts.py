"""The parts of a run. Each starts a server, attacks it and checks its state afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.lib import process
from bench.lib.peers import FERMATA
from bench.suites.crowd.clients import requests, requests_result
from bench.suites.crowd.server import Server

from . import floods, holders, resets
from .slow import FIRST, SlowClients

SCRIPT = Path(__file__).with_name("server.php")
P99_MS_MAX = 50.0
WAIT_S_MAX = 60.0
LOAD_S_MAX = 300
"""Time limit of a load with a fixed number of requests, far above its usual duration."""
SLOW_BYTES_MAX = {"slow header": 8_000, "slow body": 10_000, "slow reader": 70_000}
"""Maximum private memory per slow client. Measured: 4.4 kB (a buffer of 4 KiB and the connection), 4.9 kB, and for readers
the part of 100 kB, of a stream chunk or of a file chunk that the kernel has not accepted. Double that is a second buffer."""
SLOW_BASE_BYTES_MAX = {"slow header": 256 << 10, "slow body": 256 << 10, "slow reader": 4 << 20}
"""Maximum one-time growth of both workers, caused by the first slow clients. For streams, PHP's heap grows by a chunk of 2 MiB."""
FLAT_BYTES_MAX = 128 << 10
"""Maximum growth of both workers' private memory in the million-request part after its warm-up: one byte per six
requests. Measured: 0 to 45 kB."""
FLAT_QUICK_BYTES_MAX = 256 << 10
"""Maximum growth in the quick run: 80 bytes per request. Measured: three pages."""
FLOOD_REQUESTS = 20_000
"""Number of requests whose log lines fill the disk of a megabyte several times."""
SPARE = 128
"""Number of descriptors that Fermata reserves for purposes other than client connections."""
FILE_BYTES = 8_000_000
FORM_TYPE = "multipart/form-data; boundary=B"


def temporary_files(folder: Path) -> list[Path]:
    """Returns the files left by uploads, without the lock files of running servers."""
    return [path for path in folder.iterdir() if not path.name.endswith("-lock")]


@dataclass
class Size:
    """Sizes and durations of the parts. The quick run has smaller ones."""

    clients: int = 1_000
    attack_s: float = 30
    time_out_ms: int = 10_000
    rate: int = 200
    """Requests per second of the normal client, each over a separate connection."""
    descriptors: int = 20_000
    uploads: int = 40
    byte_step: int = 1
    rounds: int = 20
    slices: int = 20
    slice_requests: int = 25_000
    """Requests per slice of each kind: with keep-alive, and with a connection per request."""


QUICK = Size(
    clients=60, attack_s=2, time_out_ms=700, rate=50, descriptors=600, uploads=6, byte_step=7, rounds=1, slices=5,
    slice_requests=500,
)


@dataclass
class Part:
    """Results of one part."""

    name: str
    figures: dict[str, Any] = field(default_factory=dict)
    verdicts: list[tuple[str, bool]] = field(default_factory=list)
    commands: list[str] = field(default_factory=list)
    skipped: str = ""

    def check(self, text: str, passed: bool) -> None:
        self.verdicts.append((text, passed))


@contextmanager
def serving(part: Part, workers: int, behind: Sequence[str] = (), **environment: str) -> Iterator[Server]:
    """Runs a server with folders for files and uploads. Checks at the end that no worker was replaced."""
    with tempfile.TemporaryDirectory(prefix="fermata-attack-") as folder:
        (assets := Path(folder, "assets")).mkdir()
        (uploads := Path(folder, "uploads")).mkdir()
        (assets / "large.bin").write_bytes(bytes(FILE_BYTES))
        more = {"ASSETS": str(assets), "FERMATA_UPLOAD_DIRECTORY": str(uploads)} | environment
        server = Server(workers, 0, 0, script=SCRIPT, behind=behind, environment=more)
        shown = {name: value for name, value in server.environment.items() if name.startswith("FERMATA_")}
        part.commands.append(" ".join([*(f"{name}={value}" for name, value in shown.items()), *server.command]))
        try:
            before = sorted(server.worker_pids())
            yield server
            part.check("no worker was replaced", sorted(server.worker_pids()) == before)
            if "FERMATA_UPLOAD_DIRECTORY" not in environment:
                left = temporary_files(uploads)
                part.check(f"no temporary file is left ({len(left)})", not left)
        finally:
            server.close()


def slow(kind: str, size: Size, is_quick: bool) -> Part:
    """Runs many slow clients, and a normal client at the same time."""
    part = Part(kind)
    limits = ("FERMATA_HEADER_TIMEOUT_MS", "FERMATA_BODY_TIMEOUT_MS", "FERMATA_WRITE_TIMEOUT_MS")
    with serving(part, 2, **dict.fromkeys(limits, str(size.time_out_ms))) as server:
        quiet = normal(server, size, size.attack_s / 3)
        before = memory(server)
        attack = SlowClients(kind, server.port, size.clients, min(1.0, size.time_out_ms / 4000))
        attack.start()
        attack.all_open.wait(WAIT_S_MAX)
        peaks: list[int] = []
        beside = normal(server, size, size.attack_s, lambda: peaks.append(memory(server)))
        open_most = connections(server)
        counts = attack.stop()
        is_empty = eventually(lambda: connections(server) == 0)
        growth = max(peaks, default=before) - before
        part.figures |= {
            "attackers": size.clients, "attack": counts, "quiet": quiet, "beside": beside, "connections": open_most,
            "private_before": before, "private_peak": before + growth, "private_after": memory(server),
        }
    out = sum(number for name, number in counts.items() if name not in ("opened", "bytes"))
    allowed = size.clients * SLOW_BYTES_MAX[kind] + SLOW_BASE_BYTES_MAX[kind]
    part.check(f"the normal client was answered ({beside['responses']:,} times, {beside['faults']} faults)",
               beside["responses"] > 0 and beside["faults"] == 0)
    part.check(f"attackers were thrown out ({out:,} times) and came back ({counts['opened']:,} connections)",
               out > 0 and counts["opened"] > size.clients)
    each = growth / size.clients / 1000
    part.check(f"memory grew by {growth / 1e6:.1f} MB, {each:.1f} kB for each attacker; at most {allowed / 1e6:.1f} MB",
               growth <= allowed)
    part.check("no connection was left when they had gone", is_empty)
    if not is_quick:
        p99 = beside["latency_us"]["p99"] / 1000
        part.check(f"the normal client's p99 was {p99:.1f} ms, at most {P99_MS_MAX:.0f}", p99 <= P99_MS_MAX)
    return part


def descriptors(size: Size) -> Part:
    """Connects more clients than a worker has descriptors."""
    part = Part("descriptors")
    limit, places = size.descriptors, size.descriptors - SPARE
    # A connection limit so high that descriptors run out first.
    settings = {"FERMATA_CONNECTIONS_MAX": "1000000", "FERMATA_BODY_MEMORY_BYTES_MAX": "4k"}
    with serving(part, 1, ["prlimit", f"--nofile={limit}:{limit}"], **settings) as server:
        inside, _ = holders.ask(server.port)
        crowd = holders.Holders(server.port, places - 1 + 200)
        try:
            served, refused = crowd.counts["200"], crowd.counts["503"] + crowd.counts["closed"]
            part.check(f"with {limit:,} descriptors {served + 1:,} clients have a place, {refused} more were refused "
                       f"({crowd.counts['503']} read a 503)", (served, refused) == (places - 1, 200))
            part.check("nobody waited without an answer", not crowd.counts["waits"])
            inside.sendall(b"GET /assets/large.bin HTTP/1.1\r\nHost: a\r\n\r\n")
            part.check("who has a place still gets files", holders.answer(inside) == "200")
            inside.close()
            crowd.leave(100)
            back = sum(eventually(lambda: resets.page(server.port) == 200) for _ in range(20))
            part.check(f"when 100 leave the next clients are served ({back} of 20)", back == 20)
            part.figures |= {"limit": limit, "answers": dict(crowd.counts), "private": memory(server)}
        finally:
            crowd.close()
    return part


def disk_full(size: Size) -> Part:
    """Sends uploads and large bodies and fills the access log, on a disk of a megabyte mounted only for the server."""
    part = Part("disk full")
    probe = ["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]
    if subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        part.skipped = "mounting a small disk needs root"
        return part
    with tempfile.TemporaryDirectory(prefix="fermata-disk-") as folder:
        mount = 'mount -t tmpfs -o size=1m none "$0" && mkdir "$0/uploads" && exec "$@"'
        settings = {
            "FERMATA_UPLOAD_DIRECTORY": f"{folder}/uploads", "FERMATA_ACCESS_LOG": f"{folder}/access.log",
            "FERMATA_BODY_BYTES_MAX": "8m", "FERMATA_BODY_MEMORY_BYTES_MAX": "16k",
            "FERMATA_ACCESS_LOG_BUFFER_BYTES_MAX": "64k", "FERMATA_ACCESS_LOG_FORMAT": "json",
        }
        with serving(part, 2, ["unshare", "--mount", "sh", "-c", mount, folder], **settings) as server:
            seen = Path(f"/proc/{server.process.pid}/root{folder}")
            answers: Counter[int] = Counter()
            kinds = (("/upload", FORM_TYPE, form(3_000_000)), ("/body", "text/plain", bytes(3_000_000)))

            def send(number: int) -> None:
                answers[resets.post(server.port, *kinds[number % 2])] += 1

            def upload_all() -> None:
                for first in range(0, size.uploads, 4):
                    together = [threading.Thread(target=send, args=(first + number,)) for number in range(4)]
                    for one in together:
                        one.start()
                    for one in together:
                        one.join()

            uploading = threading.Thread(target=upload_all)
            uploading.start()
            beside = normal(server, size, size.attack_s / 3)
            uploading.join()
            # Send requests until the access log has filled the space that the uploads left.
            flood = finish(load(server, "/", FLOOD_REQUESTS, keeps_alive=True))
            is_empty = eventually(lambda: not temporary_files(seen.joinpath("uploads")))
            seen.joinpath("access.log").unlink()
            os.kill(server.process.pid, signal.SIGUSR1)
            log = seen.joinpath("access.log")
            opened = eventually(lambda: resets.page(server.port) == 200 and log.exists() and log.stat().st_size > 0)
            again = resets.post(server.port, "/upload", FORM_TYPE, form(100_000))
            dropped = stats(server)["access_log_dropped"]
            part.figures |= {"answers": dict(answers), "beside": beside, "flood": flood, "log_lines_dropped": dropped}
            total = sum(answers.values())
            part.check(f"all {total} uploads and bodies of 3 MB were answered 507 ({answers[507]})",
                       answers[507] == total > 0)
            part.check(f"the normal client was answered ({beside['responses']:,} times, {beside['faults']} faults)",
                       beside["responses"] > 0 and beside["faults"] == 0)
            part.check(f"requests were answered under a full log ({flood['responses']:,}; {dropped:,} lines dropped)",
                       flood["faults"] == 0 and flood["responses"] == FLOOD_REQUESTS and dropped > 0)
            part.check("the disk was empty again", is_empty)
            part.check("the log goes on when there is room and it is opened anew", opened)
            part.check(f"an upload that fits is taken afterwards ({again})", again == 200)
    return part


def client_resets(size: Size, is_quick: bool) -> Part:
    """Resets connections at every point of requests and responses."""
    part = Part("resets")
    with serving(part, 2, FERMATA_BODY_MEMORY_BYTES_MAX="4k") as server:
        running = requests(server.url("/"), size.rate, size.attack_s / 3)
        counts = resets.at_every_byte(server.port, size.byte_step) | resets.in_answers(server.port, size.rounds)
        beside = figures(requests_result(running))
        is_empty = eventually(lambda: connections(server) == 0)
        part.figures |= {"resets": counts, "beside": beside}
    part.check(f"{sum(counts.values()):,} connections were reset", sum(counts.values()) > 0)
    part.check("none of them was left", is_empty)
    part.check(f"the normal client was answered ({beside['responses']:,} times, {beside['faults']} faults)",
               beside["responses"] > 0 and beside["faults"] == 0)
    return part


def http2_floods(size: Size, is_quick: bool) -> Part:
    """Runs each HTTP/2 flood, and a normal client at the same time."""
    part = Part("floods")
    seconds = size.attack_s / 3
    with serving(part, 2) as server:
        quiet = normal(server, size, seconds)
        beside = {}
        for name in floods.ATTACKS:
            flood = floods.Flood(name, server.port)
            flood.start()
            try:
                beside[name] = normal(server, size, seconds)
            finally:
                beside_ended = flood.stop()
            beside[name]["ended"] = beside_ended
        is_empty = eventually(lambda: connections(server) == 0)
        closed = stats(server)["http2_closed"]
        part.figures |= {"quiet_alone": quiet, "floods": beside, "closed": closed}
    faults = sum(one["faults"] for one in beside.values())
    answered = sum(one["responses"] for one in beside.values())
    part.check(f"the normal client was answered ({answered:,} times, {faults} faults)", answered > 0 and faults == 0)
    for name in floods.CLOSED:
        count = closed[f"flood_{name}"]
        part.check(f"{name} ended their connections ({count:,} times)", count > 0)
    part.check("no connection was left when they had gone", is_empty)
    if not is_quick:
        worst = max(beside, key=lambda name: beside[name]["latency_us"]["p99"])
        p99 = beside[worst]["latency_us"]["p99"] / 1000
        part.check(f"the normal client's p99 was {p99:.1f} ms at the most, under {worst}; at most {P99_MS_MAX:.0f}",
                   p99 <= P99_MS_MAX)
    return part


def million(size: Size, is_quick: bool) -> Part:
    """Sends a million requests in slices, and measures the workers' memory after each slice."""
    part = Part("memory")
    samples = []
    with serving(part, 2) as server:
        answered = faults = 0
        for _ in range(size.slices):
            together = [
                load(server, "/items/{n}?x={n}", size.slice_requests, keeps_alive=True),
                load(server, "/body", size.slice_requests, keeps_alive=False, body="{n} and what else a body has"),
            ]
            found = [finish(one) for one in together]
            answered += sum(one["responses"] for one in found)
            faults += sum(one["faults"] for one in found)
            used = process.memory(server.worker_pids())
            samples.append({"requests": answered, "pss": used.pss, "private": used.private, "rss": used.rss})
        part.commands += [" ".join(one.args[:-3]) for one in together]
    # By the first fifth of the samples, a worker has allocated its permanent memory.
    warm, last = samples[len(samples) // 5], samples[-1]
    growth = last["private"] - warm["private"]
    part.figures |= {"samples": samples, "warm": warm, "last": last, "growth": growth}
    part.check(f"{answered:,} requests were answered, half of them over a connection each ({faults} faults)",
               faults == 0 and answered == 2 * size.slices * size.slice_requests)
    part.check(f"private memory of both workers grew by {growth / 1000:,.0f} kB from request {warm['requests']:,} "
               f"to the last ({warm['private'] / 1e6:.2f} to {last['private'] / 1e6:.2f} MB)",
               growth <= (FLAT_QUICK_BYTES_MAX if is_quick else FLAT_BYTES_MAX))
    return part


PARTS: dict[str, Callable[[Size, bool], Part]] = {
    **{kind.replace(" ", "-"): lambda size, is_quick, kind=kind: slow(kind, size, is_quick) for kind in FIRST},
    "descriptors": lambda size, _: descriptors(size),
    "disk-full": lambda size, _: disk_full(size),
    "resets": client_resets,
    "http2-floods": http2_floods,
    "memory": million,
}


def normal(server: Server, size: Size, seconds: float, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Runs the normal client, which requests a page at a fixed rate, and returns its figures."""
    running = requests(server.url("/"), size.rate, seconds)
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.2):
            meanwhile()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        return figures(requests_result(running))
    finally:
        ended.set()
        looking.join()


def load(server: Server, path: str, count: int, *, keeps_alive: bool, body: str = "") -> subprocess.Popen[bytes]:
    """Starts a load of `count` requests over 16 connections, without a rate limit."""
    command = [str(FERMATA), "load", "http", server.url(path), "--connections", "16", "--requests", str(count)]
    command += ["--duration", f"{LOAD_S_MAX}s"]
    command += [] if keeps_alive else ["--no-keep-alive"]
    command += ["--body", body] if body else []
    command += ["--quiet", "--json", "/dev/fd/1"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def finish(running: subprocess.Popen[bytes]) -> dict[str, Any]:
    return figures(requests_result(running))


def figures(result: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the stored part of a result of `fermata load http`."""
    counters = result["counters"]
    faults = sum(error["count"] for error in result["errors"]) + (not result["passed"])
    return {"responses": counters["responses"], "faults": faults, "latency_us": result["latency_us"]}


def form(file_bytes: int) -> bytes:
    """Returns the body of a form with one file."""
    head = b'--B\r\nContent-Disposition: form-data; name="f"; filename="x"\r\n\r\n'
    return head + bytes(file_bytes) + b"\r\n--B--\r\n"


def memory(server: Server) -> int:
    """Returns the private memory of the workers."""
    return process.memory(server.worker_pids()).private


def stats(server: Server) -> dict[str, Any]:
    command = [str(FERMATA), "stats", "--json"]
    environment = os.environ | {"FERMATA_CONTROL": server.control}
    done = subprocess.run(command, env=environment, capture_output=True, check=True, timeout=WAIT_S_MAX)
    return json.loads(done.stdout)["total"]


def connections(server: Server) -> int:
    """Returns the number of open connections, without control connections."""
    return sum(number for kind, number in stats(server)["connections"].items() if kind != "control")


def eventually(condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False
