"""Intentionally slow resources: a throttled disk, and a database for slow queries."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.lib.peers import CannotRun

THROTTLES = Path("/sys/fs/cgroup/blkio")
"""Control groups (version 1) that throttle reads and synchronous writes per device."""
UNIFIED = Path("/sys/fs/cgroup")
DATABASE_SECONDS_MAX = 30.0


@contextmanager
def disk(folder: Path, pids: list[int], bytes_per_second: int) -> Iterator[None]:
    """Limits the disk throughput of processes, for the disk that contains `folder`. Raises CannotRun."""
    device = os.stat(folder).st_dev
    name = f"{os.major(device)}:{os.minor(device)}"
    if (THROTTLES / "blkio.throttle.read_bps_device").exists():
        group = THROTTLES / f"fermata-bench-{os.getpid()}"
        lines = {f"blkio.throttle.{way}_bps_device": f"{name} {bytes_per_second}" for way in ("read", "write")}
    elif "io" in _words(UNIFIED / "cgroup.subtree_control"):
        group = UNIFIED / f"fermata-bench-{os.getpid()}"
        lines = {"io.max": f"{name} rbps={bytes_per_second} wbps={bytes_per_second}"}
    else:
        raise CannotRun("no control group can slow the disk down: neither blkio (version 1) nor io (version 2)")
    try:
        group.mkdir()
        for file, line in lines.items():
            (group / file).write_text(line)
        for pid in pids:
            (group / "cgroup.procs").write_text(str(pid))
        yield
    except OSError as error:
        raise CannotRun(f"the disk cannot be slowed down (needs root): {error}") from error
    finally:
        _remove(group)


def _remove(group: Path) -> None:
    if not group.exists():
        return
    for pid in _words(group / "cgroup.procs"):
        # The process may have exited.
        with contextlib.suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []


def forget(path: Path) -> None:
    """Removes a file from the page cache, so that the next read accesses the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def database(folder: Path, name: str, connections_max: int = 100) -> Iterator[Path]:
    """Runs a separate MariaDB with its files in the folder under this name. Yields its socket. Raises CannotRun."""
    if shutil.which("mariadbd") is None or shutil.which("mariadb-install-db") is None:
        raise CannotRun("mariadbd is not installed")
    data, path = folder / f"{name}-data", folder / f"{name}.sock"
    install = ["mariadb-install-db", "--no-defaults", "--user=root", "--auth-root-authentication-method=normal"]
    install += ["--skip-test-db", "--skip-name-resolve", f"--datadir={data}"]
    done = subprocess.run(install, capture_output=True, timeout=120, check=False)
    if done.returncode != 0:
        raise CannotRun(f"mariadb-install-db failed: {done.stderr[-200:]!r}")
    command = ["mariadbd", "--no-defaults", "--user=root", "--skip-networking", "--skip-log-bin"]
    command += [f"--datadir={data}", f"--socket={path}", f"--pid-file={folder / f'{name}.pid'}"]
    # PHP does not retry if the backlog of a Unix socket is full.
    command += [f"--max-connections={connections_max}", f"--back-log={connections_max}"]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(path, server)
        yield path
    finally:
        server.terminate()
        server.wait()


def _wait_for(path: Path, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + DATABASE_SECONDS_MAX
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
                return
            except OSError:
                time.sleep(0.05)
    raise CannotRun("mariadbd did not listen")
