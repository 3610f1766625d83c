"""Measures the kernel's memory for connections, as the difference of two readings.

Both ends of every connection are on this machine, so the kernel's memory includes the memory of servers and of clients. It
is divided by kind of object: a socket, its file and its epoll entry are the same on both ends, so half of their memory
counts for the server. The table of bound ports (`tcp_bind2_bucket`) grows only by the clients' ports.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CLIENT_ONLY = ("tcp_bind2_bucket", "tcp_bind_bucket")


@dataclass(frozen=True)
class Kernel:
    """A reading. All values except `sockets_used` are bytes."""

    slabs: dict[str, int]
    """Memory of each kind of object, including unused slots of its pages."""
    sockets_used: int
    tcp_pages_bytes: int
    """Memory of TCP socket buffers."""
    page_tables: int
    available: int
    """MemAvailable: memory that new processes can use, as estimated by the kernel."""

    @staticmethod
    def now() -> Kernel:
        meminfo = _meminfo()
        used, pages = 0, 0
        for line in Path("/proc/net/sockstat").read_text().splitlines():
            fields = line.split()
            if fields[0] == "sockets:":
                used = int(fields[2])
            elif fields[0] == "TCP:":
                pages = int(fields[fields.index("mem") + 1])
        return Kernel(_slabs(), used, pages * 4096, meminfo["PageTables"], meminfo["MemAvailable"])


@dataclass(frozen=True)
class Share:
    """Memory that connections have added, in bytes."""

    both: int
    """Kernel objects and buffers of both ends."""
    server: int
    kinds: dict[str, int]
    """Growth of the largest kinds of objects, both ends."""
    available_drop: int
    """Decrease of the machine's available memory, including user memory of both ends."""


def share(before: Kernel, after: Kernel) -> Share:
    """Returns the growth between two readings, with the server's share."""
    grown = {name: size - before.slabs.get(name, 0) for name, size in after.slabs.items()}
    client_only = sum(grown.get(name, 0) for name in CLIENT_ONLY)
    both = sum(grown.values()) + after.tcp_pages_bytes - before.tcp_pages_bytes
    largest = sorted(grown.items(), key=lambda item: -item[1])[:12]
    return Share(
        both=both,
        server=(both - client_only) // 2,
        kinds={name: size for name, size in largest if size > 1_000_000},
        available_drop=before.available - after.available,
    )


def available_bytes() -> int:
    return _meminfo()["MemAvailable"]


def _slabs() -> dict[str, int]:
    """Returns the memory of each kind of kernel object. Without permission to read slabinfo, all objects count as one kind."""
    try:
        lines = Path("/proc/slabinfo").read_text().splitlines()[2:]
    except PermissionError:
        return {"all": _meminfo()["SUnreclaim"]}
    slabs = {}
    for line in lines:
        name, _, _, _, _, pages_per_slab, *rest = line.split()
        slab_count = int(rest[rest.index("slabdata") + 2])
        slabs[name] = slab_count * int(pages_per_slab) * 4096
    return slabs


def _meminfo() -> dict[str, int]:
    found = {}
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, _, rest = line.partition(":")
        found[name] = int(rest.split()[0]) * 1024
    return found
