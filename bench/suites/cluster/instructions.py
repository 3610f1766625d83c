"""What a record costs a bridge in instructions, for `bench cluster --instructions`: a count that does not depend on what else
the machine does.

Counted is what reads and writes the protocol of NATS (crates/cluster/benches/cost.rs); sockets, outbox and ring are not there.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile

from bench.lib.peers import ROOT

RECORDS_PER_ROUND = 40 * 256
"""BATCHES and BATCH there."""
ROUNDS = (1, 3)
"""Begin and end cost the same in both."""


def per_record() -> int:
    program = build()
    fewer, more = (count(program, rounds) for rounds in ROUNDS)
    return round((more - fewer) / (ROUNDS[1] - ROUNDS[0]) / RECORDS_PER_ROUND)


def build() -> str:
    command = ["cargo", "bench", "--locked", "--quiet", "-p", "fermata-cluster", "--bench", "cost", "--no-run"]
    done = subprocess.run([*command, "--message-format=json"], cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE)
    built = [json.loads(line) for line in done.stdout.splitlines() if '"executable":"' in line]
    return str(built[-1]["executable"])


def count(program: str, rounds: int) -> int:
    with tempfile.TemporaryDirectory() as directory:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={directory}/out", program, str(rounds)]
        done = subprocess.run(command, check=True, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if not found:
        raise SystemExit(f"cluster: callgrind says nothing of instructions:\n{done.stderr}")
    return int(found[1])
