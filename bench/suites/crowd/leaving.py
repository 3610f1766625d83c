"""`make soak-leaving`: runs exchanges with the edge whose clients disconnect in all ways, for an hour.

It runs the property test of tests/edge/leaving.rs for longer. The number of exchanges by kind, by failure of the backend and
by way of disconnecting is written to bench/runs/<date>-<host>/. Exits with status 1 if the edge leaked or missed anything.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from bench.lib import machine
from bench.lib.peers import ROOT

from .parts import note
from .report import folder

TEST = ["cargo", "test", "--locked", "--quiet", "-p", "fermata-tests", "--test", "edge", "leaving::nothing_is_left"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--duration-s", type=int, default=3_600, help="default 3,600")
    parser.add_argument("--out", type=Path, help="folder for the result, default bench/runs/<date>-<host>")
    options = parser.parse_args()
    started, facts = datetime.now(UTC), machine.facts()
    settings = {"FERMATA_TEST_SECONDS": str(options.duration_s)}
    with tempfile.TemporaryDirectory(prefix="fermata-leaving-") as results:
        environment = os.environ | settings | {"FERMATA_TEST_RESULTS": results}
        done = subprocess.run(TEST, cwd=ROOT, env=environment, check=False)
        command = " ".join([*(f"{name}={value}" for name, value in settings.items()), *TEST])
        file = write("leaving", Path(results), started, facts, command, options.out)
    note(f"raw: {file}")
    return done.returncode


def write(name: str, results: Path, started: datetime, facts: dict[str, str], command: str, out: Path | None) -> Path:
    """Writes the results of all tests into one document."""
    where = out or folder(started, facts, quick=False)
    where.mkdir(parents=True, exist_ok=True)
    tests = [json.loads(found.read_text()) for found in sorted(results.glob("*.json"))]
    document = {"started": started.isoformat(), "machine": facts, "command": command, "tests": tests}
    file = where / f"{name}-{started:%H%M%S}.json"
    file.write_text(json.dumps(document, indent=1) + "\n")
    return file
