"""A network of its own for a run, so that a million connections touch nobody else's.

A network namespace has its own loopback interface, ports, settings and table of connections, and all of it ends with
the last process in it. What is not per namespace (`tcp_mem`) is set for the time of the run and put back.
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
"""Buckets of the next namespace's table of connections; 0 shares the machine's."""


@dataclass
class Network:
    """Where a run takes place, for the report."""

    is_own: bool
    settings: dict[str, str] = field(default_factory=dict)


def settings() -> dict[str, str]:
    """What a namespace is given."""
    return {
        # Small messages to mostly idle clients: nothing is gained by pacing, which arms a timer per send.
        "net/ipv4/tcp_congestion_control": "reno",
        # Every stream is idle between two messages.
        "net/ipv4/tcp_slow_start_after_idle": "0",
        # A full backlog makes the client's kernel wait a second before it tries again.
        "net/core/somaxconn": "4096",
        "net/ipv4/tcp_max_syn_backlog": "8192",
        "net/ipv4/ip_local_port_range": "10240 65000",
    }


def machine_settings(connections: int) -> dict[str, str]:
    """What holds for the whole machine and is put back: the pages that all sockets may buffer together.

    `connections` counts both ends, here and below.
    """
    # A message waits in each receiver's buffer during a broadcast; 2 KiB each is more than enough.
    pages = max(connections * 2048 // os.sysconf("SC_PAGE_SIZE"), 262_144)
    return {"net/ipv4/tcp_mem": f"{pages} {pages * 4 // 3} {pages * 2}"}


@contextlib.contextmanager
def network(connections: int, own: bool = True) -> Iterator[Network]:
    """Puts this process, and those it starts, into a network of its own; without the rights to do so, into none."""
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
    """Makes a namespace whose table of connections is as large as the machine's would be with more memory."""
    former = _read(SYSCTL / TABLE)
    # An older kernel has no such setting: the namespace then shares the machine's table.
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
    """For a moment in another namespace: /proc/sys/net shows that of the reader."""
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
    """Raises settings; returns what they were before, and those that were changed."""
    before, changed = {}, {}
    for name, value in wanted.items():
        former = _read(SYSCTL / name)
        if former is None or int(former.split()[0]) >= int(value.split()[0]):
            continue
        if _apply({name: value}):
            before[name], changed[name] = former, value
    return before, changed


def _apply(wanted: dict[str, str]) -> dict[str, str]:
    """Sets what can be set; returns it."""
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
