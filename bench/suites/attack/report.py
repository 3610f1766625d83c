"""Writes the report of the suite `attack`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bench.lib.markdown import QUICK as QUICK_RUN
from bench.lib.markdown import machine_line, table

from .parts import Part, Size


def passed(parts: Sequence[Part], wanted: int) -> bool:
    """Returns true if every part was run or skipped for a reason, and all checks passed."""
    complete = len(parts) == wanted and all(part.verdicts or part.skipped for part in parts)
    return complete and all(is_true for part in parts for _, is_true in part.verdicts)


def markdown(parts: Sequence[Part], size: Size, facts: Mapping[str, str], started: datetime, is_quick: bool) -> str:
    out = [
        f"# Hostile clients, {started:%Y-%m-%d %H:%M} UTC on {facts['host']}",
        f"{machine_line(facts)}. Load average at the start: {facts['load average']}.",
        f"Server, attackers and the normal client share the machine. {size.clients:,} slow clients send or take some "
        f"bytes every second and come back when they are thrown out, after {size.time_out_ms / 1000:g} s; the normal "
        f"client asks for a page {size.rate:,} times per second on schedule, over a new connection each.",
    ]
    if is_quick:
        out.append(QUICK_RUN)
    if rows := [_latencies(part) for part in parts if "quiet" in part.figures]:
        head = ["normal client", "p50 alone", "p99 alone", "p50", "p99", "max", "memory for each attacker"]
        out += ["## Slow clients", table(head, rows)]
    for part in parts:
        lines = [f"- {'passed' if is_true else '**FAILED**'}: {text}" for text, is_true in part.verdicts]
        if part.skipped:
            lines.append(f"- not run: {part.skipped}")
        out += [f"## {part.name.capitalize()}", "\n".join(lines)]
        if "floods" in part.figures:
            head = ["flood", "p50", "p99", "max", "connections that it cost"]
            rows = [_flood("none", part.figures["quiet_alone"])]
            rows += [_flood(name, beside) for name, beside in part.figures["floods"].items()]
            out.append(table(head, rows))
        if "samples" in part.figures:
            head = ["requests", "private", "PSS", "RSS"]
            out.append(table(head, [_sample(sample) for sample in part.figures["samples"]]))
        if part.commands:
            out.append("```sh\n" + "\n".join(dict.fromkeys(part.commands)) + "\n```")
    return "\n\n".join(out) + "\n"


def _latencies(part: Part) -> list[str]:
    found = part.figures
    quiet, beside = found["quiet"]["latency_us"], found["beside"]["latency_us"]
    values = (quiet["p50"], quiet["p99"], beside["p50"], beside["p99"], beside["max"])
    grown = (found["private_peak"] - found["private_before"]) / found["attackers"]
    return [part.name, *(f"{value / 1000:.2f} ms" for value in values), f"{grown / 1000:.1f} kB"]


def _flood(name: str, beside: Mapping[str, Any]) -> list[str]:
    latency = beside["latency_us"]
    values = (f"{latency[key] / 1000:.2f} ms" for key in ("p50", "p99", "max"))
    return [name.replace("_", " "), *values, f"{beside.get('ended', 0):,}"]


def _sample(sample: Mapping[str, Any]) -> list[str]:
    sizes = (f"{sample[name] / 1e6:.2f} MB" for name in ("private", "pss", "rss"))
    return [f"{sample['requests']:,}", *sizes]
