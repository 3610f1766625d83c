"""The protocol rows: the time of one encode or decode in PHP, without a server or a socket.

Each measurement is a new PHP process without php.ini that calls one function many times.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from bench.lib.load import LoadError
from bench.lib.peers import EXTENSION, PHP, SUBJECT, CannotRun
from bench.suites.codec.main import SCRIPT, SECONDS_MAX
from bench.suites.tables.rows import pinned


@dataclass(frozen=True)
class Library:
    id: str
    name: str
    needs: Path
    extension: bool
    slow: int = 1
    """Divisor of the number of calls per measurement, for slow libraries."""

    def check(self) -> None:
        if not self.needs.exists():
            raise CannotRun(f"{self.needs} does not exist")


@dataclass(frozen=True)
class CodecRow:
    id: str
    title: str
    calls: int


CODEC_ROWS = [
    CodecRow("encode-64", "Encode text, 64 B", 1_000_000),
    CodecRow("decode-64", "Decode masked text, 64 B", 1_000_000),
    CodecRow("encode-1024", "Encode text, 1,024 B", 500_000),
    CodecRow("decode-1024", "Decode masked text, 1,024 B", 500_000),
]


def libraries(directory: Path) -> dict[str, Library]:
    autoload = directory / "autoload.php"
    found = [
        Library(SUBJECT, "Fermata", Path(EXTENSION), True),
        Library("ext-websocket", "ext-websocket", directory / "ext-websocket/modules/websocket.so", True),
        Library("openswoole", "OpenSwoole", directory / "openswoole/modules/openswoole.so", True),
        Library("swoole", "Swoole", directory / "swoole/modules/swoole.so", True),
        Library("workerman", "Workerman", autoload, False, 10),
        Library("amphp", "AMPHP", autoload, False, 10),
        Library("ratchet", "Ratchet", autoload, False, 20),
    ]
    return {library.id: library for library in found}


def measure(library: Library, row: CodecRow, quick: bool, core: int) -> float:
    """Returns the nanoseconds per call. Raises LoadError."""
    calls = row.calls // library.slow // (100 if quick else 1)
    php = [PHP, "-n", "-d", "zend.assertions=-1", "-d", "error_reporting=8191"]
    if library.extension:
        php += ["-d", f"extension={library.needs}"]
    done = subprocess.run(
        [*pinned(core), *php, str(SCRIPT), library.id, row.id, str(calls)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )
    try:
        return float(done.stdout)
    except ValueError as error:
        raise LoadError((done.stdout + done.stderr).strip()[-300:] or "no output") from error
