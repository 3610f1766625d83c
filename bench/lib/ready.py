"""Waits until a server that holds streams responds, and prints notes to the terminal."""

from __future__ import annotations

import sys
import time
import urllib.error
import urllib.request

from .peers import CannotRun, Running

READY_SECONDS_MAX = 15.0


def wait_for_stream(running: Running) -> None:
    """Waits until a stream opens. Pushpin's port accepts connections before its processes are connected to each other."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    reason: Exception | str = "no answer"
    while time.monotonic() < deadline:
        try:
            url = f"http://127.0.0.1:{running.port}/stream/group-0"
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.readline() + answer.readline() == b"event: message\ndata: stream open\n":
                    return
                reason = "another answer"
        except (OSError, urllib.error.URLError) as error:
            reason = error
        time.sleep(0.1)
    raise CannotRun(f"{running.peer.name} does not hold a client within {READY_SECONDS_MAX:.0f} s: {reason}")


def skip(not_run: dict[str, str], key: str, reason: Exception) -> None:
    """Records and prints the reason why an item is not measured."""
    not_run[key] = str(reason)
    note(f"not run: {key}: {reason}")


def note(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
