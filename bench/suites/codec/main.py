"""Measures the time of one encode() or decode() of a WebSocket frame in PHP, compared with other libraries (seed 003).

There is no server and no socket: each measurement is a new PHP process that calls one function many times. Every round
measures each codec once, in random order. Ratios compare values of the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from bench.lib import machine
from bench.lib.peers import EXTENSION, PHP
from bench.lib.stats import Interval, interval, ratios

SCRIPT = Path(__file__).with_name("measure.php")
SUBJECT = "fermata"
PEER = "ext-websocket"
ROUNDS = 15
QUICK_ROUNDS = 2
SECONDS_MAX = 120


@dataclass(frozen=True)
class Row:
    id: str
    title: str
    calls: int
    goal: float
    """Maximum time of our call, as a multiple of the peer's time (issue 4)."""


ROWS = (
    Row("encode-64", "encode text, 64 bytes", 1_000_000, 1.2),
    Row("decode-64", "decode masked text, 64 bytes", 1_000_000, 1.5),
    Row("encode-1024", "encode text, 1024 bytes", 500_000, 1.2),
    Row("decode-1024", "decode masked text, 1024 bytes", 500_000, 1.5),
)

Samples = dict[str, dict[str, dict[int, float]]]
"""Nanoseconds per call, by row, codec and round."""


def main() -> int:
    options = parse_options()
    extensions = {SUBJECT: Path(EXTENSION)}
    not_run = ""
    if options.websocket is None:
        not_run = "not run: no path to websocket.so was given (--websocket or WEBSOCKET_EXTENSION)"
    elif not options.websocket.is_file():
        not_run = f"not run: {options.websocket} does not exist"
    else:
        extensions[PEER] = options.websocket.resolve()
    if not extensions[SUBJECT].is_file():
        print(f"codec: {extensions[SUBJECT]} not found; run make first", file=sys.stderr)
        return 2

    rounds = QUICK_ROUNDS if options.quick else options.rounds
    samples = measure_all(extensions, rounds, options)
    text = markdown(samples, rounds, not_run, options.quick)
    print(text, end="")
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "codec.md").write_text(text)
        raw = {"machine": machine.facts(), "nanoseconds": samples, "command": " ".join(sys.argv)}
        (options.out / "codec.json").write_text(json.dumps(raw, indent=1) + "\n")
    return 0


def parse_options() -> argparse.Namespace:
    def positive(text: str) -> int:
        if (number := int(text)) < 1:
            raise argparse.ArgumentTypeError("must be at least 1")
        return number

    environment = os.environ.get("WEBSOCKET_EXTENSION")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--websocket",
        type=Path,
        default=Path(environment) if environment else None,
        help="websocket.so of ext-websocket, built elsewhere; default: WEBSOCKET_EXTENSION",
    )
    parser.add_argument("--quick", action="store_true", help="a smoke test: its figures mean nothing")
    parser.add_argument("--rounds", type=positive, default=ROUNDS, help=f"default {ROUNDS}")
    parser.add_argument("--core", type=int, default=0, help="to run on, default 0")
    parser.add_argument("--seed", type=int, default=1, help="of the order in the rounds")
    parser.add_argument("--out", type=Path, help="folder for table and raw data; default: only printed")
    return parser.parse_args()


def measure_all(extensions: dict[str, Path], rounds: int, options: argparse.Namespace) -> Samples:
    source = random.Random(options.seed)
    samples: Samples = {row.id: {codec: {} for codec in extensions} for row in ROWS}
    for round in range(1, rounds + 1):
        for row in ROWS:
            order = list(extensions)
            source.shuffle(order)
            for codec in order:
                calls = row.calls // 100 if options.quick else row.calls
                samples[row.id][codec][round] = measure(codec, extensions[codec], row, calls, options.core)
        print(f"codec: round {round} of {rounds}", file=sys.stderr, flush=True)
    return samples


def measure(codec: str, extension: Path, row: Row, calls: int, core: int) -> float:
    """Returns the nanoseconds per call, measured in a new process without php.ini."""
    pinned = ["taskset", "-c", str(core)] if shutil.which("taskset") else []
    php = [PHP, "-n", "-d", "zend.assertions=-1", "-d", f"extension={extension}"]
    done = subprocess.run(
        [*pinned, *php, str(SCRIPT), codec, row.id, str(calls)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=SECONDS_MAX,
        check=True,
    )
    return float(done.stdout)


def markdown(samples: Samples, rounds: int, not_run: str, quick: bool) -> str:
    facts = machine.facts()
    lines = [
        f"## Codec, {datetime.now(UTC):%Y-%m-%d %H:%M} UTC on {facts['host']}",
        "",
        f"{facts['processor']}, Linux {facts['kernel']}, commit {facts['commit']}; {rounds} interleaved rounds. "
        "Nanoseconds per call from PHP, medians; how many times as fast Fermata is, per round, with a 95 % bootstrap "
        "interval.",
        "",
    ]
    if quick:
        lines += ["**A quick run**: it shows that the table works; its figures mean nothing.", ""]
    lines += ["| Call | Fermata | ext-websocket | ratio | goal |", "|---|---:|---:|---:|---|"]
    for row in ROWS:
        ours, theirs = samples[row.id][SUBJECT], samples[row.id].get(PEER, {})
        ratio = interval(ratios(theirs, ours))
        peer_ns = f"{median(theirs.values()):.1f}" if theirs else "not run"
        cells = [row.title, f"{median(ours.values()):.1f}", peer_ns, shown(ratio), verdict(ratio, row.goal)]
        lines.append(f"| {' | '.join(cells)} |")
    if not_run:
        lines += ["", f"ext-websocket {not_run}."]
    return "\n".join(lines) + "\n"


def shown(ratio: Interval | None) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f}-{ratio.high:.2f})" if ratio else ""


def verdict(ratio: Interval | None, goal: float) -> str:
    if ratio is None:
        return f"≥ {goal}: not measured"
    close = ", within the noise" if ratio.low < goal < ratio.high else ""
    return f"≥ {goal}: {'met' if ratio.median >= goal else 'missed'}{close}"
