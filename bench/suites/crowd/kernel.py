"""What the kernel holds for connections, by the difference of two readings.

Both ends of every connection are on this machine, so the kernel's memory is that of servers and clients together. It
is divided by kind of object: a socket, its file and its place in an epoll set are the same on both ends, so each end
has half; the table of bound ports (`tcp_bind2_bucket`) grows by clients' ports alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CLIENT_ONLY = ("tcp_bind2_bucket", "tcp_bind_bucket")


@dataclass(frozen=True)
class Kernel:
    """Bytes, unless the name says otherwise."""

    slabs: dict[str, int]
    """Memory of each kind of object, unused slots of its pages included."""
    sockets_used: int
    tcp_pages_bytes: int
    """Buffers of TCP sockets."""
    page_tables: int
    available: int
    """What the kernel says that new programs could have."""

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
    """What connections have added, in bytes."""

    both: int
    """Kernel objects and buffers of both ends."""
    server: int
    kinds: dict[str, int]
    """The largest kinds of objects, both ends."""
    available_drop: int
    """By how much the machine's available memory fell: everything, user memory of both ends included."""


def share(before: Kernel, after: Kernel) -> Share:
    """The server's part of what was added between two readings."""
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
    """Without the right to read it, everything is one kind."""
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
