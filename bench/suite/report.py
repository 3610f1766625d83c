"""A run as a Markdown table for people and as JSON for everything else."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from .check import Captured
from .peers import Peer
from .process import Memory
from .rows import MEMORY, ROWS, Row, Sample
from .stats import Interval
from .summary import CONTROL, Goal, Line, summarise

BUSY_SHARE_MAX = 0.02
"""Above this share of foreign work or stolen time on the core, the run's figures are marked as unreliable."""


@dataclass(frozen=True)
class MemoryLine:
    peer: str
    idle: Memory
    loaded: Memory
    requests: int


@dataclass
class Run:
    """Everything a run has found out."""

    started: datetime
    machine: dict[str, str]
    options: dict[str, Any]
    peers: dict[str, Peer]
    versions: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    answers: dict[str, dict[str, Captured]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    """Reason by `peer` or `peer/row`."""
    samples: list[Sample] = field(default_factory=list)
    memory: list[MemoryLine] = field(default_factory=list)

    def name(self, peer: str) -> str:
        return "Fermata again (A-A control)" if peer == CONTROL else self.peers[peer].name

    def lines(self, row: Row) -> list[Line]:
        return summarise(self.samples, row.id, [*self.peers, CONTROL])

    def failed(self) -> bool:
        """A measurement had errors (lost messages, wrong answers, refused connections)."""
        return any(sample.errors for sample in self.samples)


def markdown(run: Run, goals: list[Goal]) -> str:
    machine = run.machine
    parts = [
        f"# Benchmark of {run.started:%Y-%m-%d %H:%M} UTC on {machine['host']}",
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}, "
        f"Linux {machine['kernel']}, commit {machine['commit']}. Server and load generator share core "
        f"{run.options['core']}; {run.options['rounds']} interleaved rounds; medians, ratios per round with a "
        "95 % bootstrap interval. Above 1 in the column *rate* and below 1 in *CPU* Fermata is better.",
    ]
    if run.options["quick"]:
        parts.append("**A quick run**: it shows that the suite works; its figures mean nothing.")
    if warning := _warning(run):
        parts.append(warning)
    parts += [_row(run, row) for row in ROWS if row.id in run.options["rows"]]
    if run.memory:
        parts.append(_memory(run))
    parts.append(_goals(run, goals))
    parts.append(_peers(run))
    return "\n\n".join(parts) + "\n"


def write(run: Run, goals: list[Goal], folder: Path) -> tuple[Path, Path]:
    """Write the table and the raw data; the paths of both."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / f"{run.started:%H%M%S}.md"
    raw = folder / f"{run.started:%H%M%S}.json"
    table.write_text(markdown(run, goals))
    document = {
        "started": run.started.isoformat(),
        "machine": run.machine,
        "options": run.options,
        "peers": {
            id: {
                "name": peer.name,
                "about": peer.about,
                "version": run.versions.get(id),
                "commands": {key: value for key, value in run.commands.items() if key.split("/")[0] == id},
                "answers": {key: asdict(value) for key, value in run.answers.get(id, {}).items()},
            }
            for id, peer in run.peers.items()
        },
        "not_run": run.not_run,
        "goals": [{**asdict(goal), "verdict": goal.verdict(_goal_ratio(run, goal))} for goal in goals],
        "summary": {row.id: [asdict(line) for line in run.lines(row)] for row in ROWS},
        "memory": [asdict(line) for line in run.memory],
        "samples": [asdict(sample) for sample in run.samples],
    }
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return table, raw


def _row(run: Run, row: Row) -> str:
    lines = [
        f"## {row.title}",
        "",
        "| | requests/s | rate, Fermata ÷ it | server CPU/request | CPU, Fermata ÷ it | p99 |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for line in run.lines(row):
        errors = ", ".join(f"{count} {name}" for name, count in line.errors.items())
        lines.append(
            f"| {run.name(line.peer)}{' **(' + errors + ')**' if errors else ''} | {line.rate:,.0f} "
            f"| {_interval(line.rate_ratio)} | {line.cpu_ns / 1000:.2f} µs | {_interval(line.cpu_ratio)} "
            f"| {line.p99_us / 1000:.1f} ms |"
        )
    for id, peer in run.peers.items():
        reason = run.not_run.get(id) or run.not_run.get(f"{id}/{row.service}") or run.not_run.get(f"{id}/{row.id}")
        if row.fits(peer) and reason:
            lines.append(f"| {peer.name} | not run: {reason} | | | | |")
    return "\n".join(lines)


def _memory(run: Run) -> str:
    lines = [
        f"## Resident memory of the chat servers, each alone, after {run.memory[0].requests:,} pages",
        "",
        "| | PSS at start | PSS | RSS | private |",
        "|---|---:|---:|---:|---:|",
    ]
    for line in sorted(run.memory, key=lambda line: line.loaded.pss):
        sizes = (line.idle.pss, line.loaded.pss, line.loaded.rss, line.loaded.private)
        lines.append(f"| {run.name(line.peer)} | " + " | ".join(f"{size / 1e6:.1f} MB" for size in sizes) + " |")
    for id, peer in run.peers.items():
        reason = run.not_run.get(id) or run.not_run.get(f"{id}/{MEMORY}")
        if "chat" in peer.services and reason:
            lines.append(f"| {peer.name} | not run: {reason} | | | |")
    return "\n".join(lines)


def _goals(run: Run, goals: list[Goal]) -> str:
    lines = ["## Goals", ""]
    for goal in goals:
        if goal.row in run.options["rows"]:
            ratio = _goal_ratio(run, goal)
            lines.append(f"- **{goal.verdict(ratio)}** {goal.sentence()}: {_interval(ratio)}")
    return "\n".join(lines)


def _peers(run: Run) -> str:
    lines = ["## Peers", ""]
    for id, peer in run.peers.items():
        version = run.versions.get(id) or f"not run: {run.not_run.get(id, 'not asked for')}"
        lines.append(f"- {peer.name}: {peer.about} ({version})")
    return "\n".join(lines)


def _goal_ratio(run: Run, goal: Goal) -> Interval | None:
    row = next(row for row in ROWS if row.id == goal.row)
    line = next((line for line in run.lines(row) if line.peer == goal.peer), None)
    if line is None:
        return None
    return line.cpu_ratio if goal.metric == "cpu" else line.rate_ratio


def _warning(run: Run) -> str:
    worst_foreign = max((sample.foreign for sample in run.samples), default=0.0)
    worst_steal = max((sample.steal for sample in run.samples), default=0.0)
    noisy = sum(sample.foreign > BUSY_SHARE_MAX or sample.steal > BUSY_SHARE_MAX for sample in run.samples)
    if not noisy:
        return ""
    return (
        f"**The machine was not quiet**: in {noisy} of {len(run.samples)} measurements other programs or the "
        f"hypervisor took more than {BUSY_SHARE_MAX:.0%} of the core (worst: {worst_foreign:.0%} programs, "
        f"{worst_steal:.0%} hypervisor)."
    )


def _interval(value: Interval | None) -> str:
    return f"{value.median:.2f}× [{value.low:.2f}, {value.high:.2f}]" if value else "–"
