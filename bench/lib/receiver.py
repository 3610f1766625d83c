"""Runs the client of the message rows: a small C program that holds an event stream and counts messages."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import time
from types import TracebackType

from . import process
from .peers import BUILD, CannotRun

NEEDLE = "mary: hello"
"""Text that `GET /msg/mary/john%20hello` publishes to john's event stream."""
MESSAGE_PATH = "/msg/mary/john%20hello"
RECEIVER_PATH = "/john"

READY_SECONDS_MAX = 5.0
_WORDS_BYTES = 4096


class Receiver:
    """The event stream of user john. Counts received messages until it is closed."""

    def __init__(self, port: int, prefix: list[str]) -> None:
        path = BUILD / f"receiver-{os.getpid()}.count"
        path.write_bytes(bytes(_WORDS_BYTES))
        self.process = subprocess.Popen(
            [*prefix, str(BUILD / "receiver"), str(port), RECEIVER_PATH, NEEDLE, str(path)],
            stdin=subprocess.DEVNULL,
            process_group=0,
        )
        # The client truncates the file to zero and then to full size before it connects, so the file is
        # mapped only after the response head has arrived.
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not _head_arrived(path.read_bytes()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                process.stop(self.process)
                raise CannotRun("the event stream did not open")
            time.sleep(0.005)
        with path.open("rb") as file:
            self._words = mmap.mmap(file.fileno(), _WORDS_BYTES, access=mmap.ACCESS_READ)
        path.unlink()

    def __enter__(self) -> Receiver:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process.stop(self.process)
        self._words.close()

    def count(self) -> int:
        """Returns the number of received messages."""
        return int(struct.unpack_from("=Q", self._words, 0)[0])

    def cpu_ns(self) -> int:
        return process.cpu_ns([self.process.pid])

    def wait_for(self, count: int, seconds_max: float) -> int:
        """Waits until `count` messages were received, or none for `seconds_max`. Returns the number of received messages."""
        last, since = self.count(), time.monotonic()
        while last < count and time.monotonic() - since < seconds_max:
            time.sleep(0.005)
            if (now := self.count()) != last:
                last, since = now, time.monotonic()
        return last


def _head_arrived(words: bytes) -> bool:
    return len(words) == _WORDS_BYTES and struct.unpack_from("=Q", words, 8)[0] == 1
