"""`make bench-restart`: measures the time from saving a file until `fermata dev` serves the new version.

It saves a file repeatedly and sends a request every one or two milliseconds until the response changes. The time includes
30 ms during which the command waits for other files of the same change.
"""

from __future__ import annotations

import argparse
import http.client
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.lib import process

ROOT = Path(__file__).resolve().parents[3]
COMMAND = Path(os.environ.get("FERMATA_COMMAND", ROOT / "build" / "fermata"))
EXTENSION = Path(os.environ.get("FERMATA_EXTENSION", ROOT / "build" / "fermata.so"))
PHP = os.environ.get("PHP", "php")
GOAL_MS = 300
READY_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.2
"""Pause between two changes, so that `fermata dev` does not combine them."""

PROGRAM = """<?php
use Fermata\\{Response, Server};
$answer = require __DIR__ . '/answer.php';
$server = new Server();
$server->get('/', fn (): Response => Response::text($answer));
$server->run();
"""


def ask(port: int) -> str:
    """Returns the response body, or "" if no server responds during a restart."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def save(folder: Path, answer: str) -> None:
    """Saves the file like an editor: writes a new file and renames it."""
    new = folder / "answer.php~"
    new.write_text(f"<?php return '{answer}';\n")
    new.rename(folder / "answer.php")


def wait_for(port: int, answer: str) -> float:
    """Waits until the server sends this response. Returns the time in milliseconds."""
    begun = time.monotonic()
    while ask(port) != answer:
        if time.monotonic() - begun > READY_SECONDS_MAX:
            sys.exit(f"bench: no {answer!r} within {READY_SECONDS_MAX:.0f} s")
        time.sleep(0.001)
    return (time.monotonic() - begun) * 1000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "server.php").write_text(PROGRAM)
        save(folder, "0")
        port = process.free_port()
        command = [COMMAND, "dev", "--php", PHP, "--extension", EXTENSION, "--listen", f"http://127.0.0.1:{port}"]
        with subprocess.Popen([*command, folder / "server.php"], stderr=subprocess.DEVNULL) as child:
            try:
                wait_for(port, "0")
                took = []
                for number in range(1, options.rounds + 1):
                    time.sleep(PAUSE_SECONDS)
                    save(folder, str(number))
                    took.append(wait_for(port, str(number)))
            finally:
                child.terminate()
    took.sort()
    median, worst = statistics.median(took), took[-1]
    print(f"fermata dev, from saving to the new answer, {len(took)} times: median {median:.0f} ms, longest {worst:.0f} ms")
    print(f"goal: {GOAL_MS} ms, {'met' if median <= GOAL_MS else 'missed'} by the median")
    return 0 if median <= GOAL_MS else 1


if __name__ == "__main__":
    sys.exit(main())
