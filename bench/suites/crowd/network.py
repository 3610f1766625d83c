"""Creates a separate network for a run, so that a million connections do not affect other processes.

A network namespace has its own loopback interface, ports, settings and connection table. The kernel removes it when its
last process exits. A setting that is not per namespace (`tcp_mem`) is changed for the run and restored afterwards.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

CLONE_NEWNET = 0x40000000
SYSCTL = Path("/proc/sys")
TABLE = "net/ipv4/tcp_child_ehash_entries"
"""Setting: number of buckets in the connection table of the next namespace; 0 shares the machine's table."""


@dataclass
class Network:
    """The network of a run, for the report."""

    is_own: bool
    settings: dict[str, str] = field(default_factory=dict)


def settings() -> dict[str, str]:
    """Returns the settings of the namespace."""
    return {
        # reno does not pace. Pacing arms a timer per send, and does not help small messages to mostly idle clients.
        "net/ipv4/tcp_congestion_control": "reno",
        # Streams are idle between messages, and would otherwise restart with a small congestion window.
        "net/ipv4/tcp_slow_start_after_idle": "0",
        # With a full backlog, the client's kernel waits a second before it retries.
        "net/core/somaxconn": "4096",
        "net/ipv4/tcp_max_syn_backlog": "8192",
        "net/ipv4/ip_local_port_range": "10240 65000",
    }


def machine_settings(connections: int) -> dict[str, str]:
    """Returns the settings that apply to the complete machine: the maximum memory of all TCP buffers, in pages.

    `connections` counts both ends, here and below.
    """
    # During a broadcast a message waits in each receiver's buffer; 2 KiB per receiver is ample.
    pages = max(connections * 2048 // os.sysconf("SC_PAGE_SIZE"), 262_144)
    return {"net/ipv4/tcp_mem": f"{pages} {pages * 4 // 3} {pages * 2}"}


@contextlib.contextmanager
def network(connections: int, own: bool = True) -> Iterator[Network]:
    """Moves this process and its future children into a separate network. Without permission, they stay in the host's."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    before: dict[str, str] = {}
    try:
        here = Network(is_own=own and _enter(connections, home))
        if here.is_own:
            here.settings = _apply(settings())
            with _inside(home):
                before, changed = _replace(machine_settings(connections))
            here.settings |= changed
        yield here
    finally:
        _setns(home)
        os.close(home)
        _apply(before)


def _enter(connections: int, home: int) -> bool:
    """Enters a new namespace with a connection table for `connections`. Returns false without permission."""
    former = _read(SYSCTL / TABLE)
    # Older kernels lack this setting: the namespace then shares the host's table.
    _apply({TABLE: str(1 << max(16, (connections - 1).bit_length()))})
    is_own = ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) == 0
    if former is not None:
        with _inside(home):
            _apply({TABLE: former})
    if is_own:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    return is_own


@contextlib.contextmanager
def _inside(namespace: int) -> Iterator[None]:
    """Enters another namespace temporarily. /proc/sys/net shows the settings of the reader's namespace."""
    own = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        _setns(namespace)
        yield
    finally:
        _setns(own)
        os.close(own)


def _setns(namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")


def _replace(wanted: dict[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Raises settings. Returns the previous and the new values of the changed ones."""
    before, changed = {}, {}
    for name, value in wanted.items():
        former = _read(SYSCTL / name)
        if former is None or int(former.split()[0]) >= int(value.split()[0]):
            continue
        if _apply({name: value}):
            before[name], changed[name] = former, value
    return before, changed


def _apply(wanted: dict[str, str]) -> dict[str, str]:
    """Writes settings. Returns those that could be written."""
    done = {}
    for name, value in wanted.items():
        try:
            (SYSCTL / name).write_text(value)
        except OSError:
            continue
        done[name] = value
    return done


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
