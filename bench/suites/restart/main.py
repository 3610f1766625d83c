"""`make bench-restart`: how long after a file is saved `fermata dev` answers with what it says.

One program, saved again and again; a request every millisecond or two sees when the answer changes. What is counted
includes the 30 ms in which the command waits for more files of the same burst.
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
"""Between the answer to one change and the next, so that none is of the same burst."""

PROGRAM = """<?php
use Fermata\\{Response, Server};
$answer = require __DIR__ . '/answer.php';
$server = new Server();
$server->get('/', fn (): Response => Response::text($answer));
$server->run();
"""


def ask(port: int) -> str:
    """The answer, or "" while one server takes the place of another."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read().decode()
    except (OSError, http.client.HTTPException):
        return ""
    finally:
        connection.close()


def save(folder: Path, answer: str) -> None:
    """As editors do: the whole file at once, under its name when it is written."""
    new = folder / "answer.php~"
    new.write_text(f"<?php return '{answer}';\n")
    new.rename(folder / "answer.php")


def wait_for(port: int, answer: str) -> float:
    """Milliseconds until the server gives this answer."""
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
