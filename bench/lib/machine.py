"""Describes the machine of a run: hardware, kernel settings and versions of the tools."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import time
from pathlib import Path
from statistics import median

from .peers import PHP, ROOT

PHP_STARTS = 9

SYSCTLS = (
    "net/core/somaxconn",
    "net/ipv4/tcp_tw_reuse",
    "net/ipv4/ip_local_port_range",
    "kernel/io_uring_disabled",
    "kernel/randomize_va_space",
)


def facts() -> dict[str, str]:
    """Returns name and value of each property that a reader needs to judge or repeat the run."""
    cpuinfo = _read(Path("/proc/cpuinfo"))
    memory = re.search(r"^MemTotal:\s+(\d+) kB", _read(Path("/proc/meminfo")), re.MULTILINE)
    model = re.search(r"^model name\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    found = {
        "host": platform.node(),
        "system": _os_name(),
        "kernel": platform.release(),
        "processor": model[1] if model else platform.machine(),
        "cores": str(os.cpu_count()),
        "memory": f"{int(memory[1]) / 1048576:.1f} GiB" if memory else "unknown",
        "load average": _read(Path("/proc/loadavg")).strip(),
        "commit": _first_line(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]),
        "uncommitted": str(len(_output(["git", "-C", str(ROOT), "status", "--porcelain"]).splitlines())),
        "wrk": _first_line(["wrk", "-v"]),
        "ab": _first_line(["ab", "-V"]),
        "cc": _first_line(["cc", "--version"]),
    }
    for name in SYSCTLS:
        found[name.replace("/", ".")] = _read(Path("/proc/sys") / name).strip().replace("\t", " ")
    for path in sorted(Path("/sys/devices/system/cpu/vulnerabilities").glob("*")):
        value = _read(path).strip()
        if value.startswith("Mitigation"):
            found[f"mitigation {path.name}"] = value
    return found


def php_start_ms() -> float | None:
    """Returns the time that PHP needs to start and exit, as a median of PHP_STARTS runs. None if PHP fails."""
    times = []
    for _ in range(PHP_STARTS):
        before = time.monotonic()
        try:
            subprocess.run([PHP, "-r", "exit;"], stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=10)
        except (OSError, subprocess.SubprocessError):
            return None
        times.append((time.monotonic() - before) * 1000)
    return median(times)


def _os_name() -> str:
    found = re.search(r'^PRETTY_NAME="(.*)"$', _read(Path("/etc/os-release")), re.MULTILINE)
    return found[1] if found else platform.system()


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _output(command: list[str]) -> str:
    try:
        # wrk exits with status 1 after printing its version.
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def _first_line(command: list[str]) -> str:
    return next((line.strip() for line in _output(command).splitlines() if line.strip()), "not found")
