"""Writes the results of the suite `held` as a Markdown table with goals, and as JSON."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.lib.markdown import QUICK, machine_line, peers_section, table
from bench.lib.peers import SUBJECT, Peer

from .rows import Broadcast, Ladder

GOALS = Path(__file__).with_name("goals.toml")
FERMATA_IS = "one worker, a closure per route"


@dataclass
class Run:
    """All results of a run."""

    started: datetime
    machine: dict[str, str]
    options: dict[str, Any]
    peers: dict[str, Peer]
    versions: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    """Reasons, by peer or by peer and row."""
    ladders: list[Ladder] = field(default_factory=list)
    broadcasts: list[Broadcast] = field(default_factory=list)

    def errors(self) -> dict[str, dict[str, int]]:
        """Returns the errors, by peer and row."""
        found: dict[str, dict[str, int]] = {}
        for one in self.ladders:
            if errors := one.errors():
                found[f"{one.peer}/{one.kind}"] = errors
        for one in self.broadcasts:
            if one.errors:
                found[f"{one.peer}/{one.kind}"] = one.errors
        return found


@dataclass(frozen=True)
class Figure:
    """A row of the table. It shows the median of a number per round."""

    id: str
    title: str
    of: Callable[[Any], float | None]
    kind: str
    show: Callable[[float], str]
    compare: bool = True


def _bytes(value: float) -> str:
    return f"{value:,.0f} B"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.1f} MB"


def _micros(value: float) -> str:
    return f"{value / 1000:.1f} µs"


def _millis(value: float) -> str:
    return f"{value / 1000:.1f} ms"


def _percent(value: float) -> str:
    return f"{value:.2%}"


def _number(value: float) -> str:
    return f"{value:,.0f}"


def _times(value: float) -> str:
    return f"{value:.1f}×"


FIGURES = [
    Figure("memory", "user memory for each held client, private pages", lambda it: it.slope("private"), "stream", _bytes),
    Figure("memory-pss", "the same, PSS", lambda it: it.slope(), "stream", _bytes),
    Figure("memory-alive", "private pages with keep-alives", lambda it: it.slope("private"), "alive", _bytes),
    Figure("memory-socket", "private pages for each held WebSocket", lambda it: it.slope("private"), "socket", _bytes),
    Figure("base", "user memory before the first client, PSS", lambda it: it.base.pss, "stream", _megabytes),
    Figure(
        "base-worker",
        "of it private to its largest process",
        lambda it: it.base_worker.private,
        "stream",
        _megabytes,
    ),
    Figure("connect-rate", "connects and subscribes per second", lambda it: it.connects_per_second(), "stream", _number),
    Figure("connect-cpu", "CPU for each of them", lambda it: it.connect_cpu_ns(), "stream", _micros),
    Figure("rest", "share of a core with all held and nothing to do", lambda it: it.rest_share(), "stream", _percent),
    Figure(
        "rest-calls",
        "system calls per second meanwhile",
        lambda it: None if it.rest_calls is None else sum(it.rest_calls.values()) / it.calls_seconds,
        "stream",
        lambda value: f"{value:,.1f}",
        compare=False,
    ),
    Figure("rest-alive", "share of a core with keep-alives every 55 s", lambda it: it.rest_share(), "alive", _percent),
    Figure(
        "burst-alive",
        "busiest second of keep-alives by the mean second",
        lambda it: it.burst(),
        "alive",
        _times,
        compare=False,
    ),
    Figure("slow-cpu", "CPU per delivery, one message at a time", lambda it: it.cpu_per_delivery_ns(), "slow", _micros),
    Figure("slow-last", "last byte to all, median", lambda it: it.last_byte_us["p50"], "slow", _millis),
    Figure("slow-last-p99", "last byte to all, p99", lambda it: it.last_byte_us["p99"], "slow", _millis),
    Figure("burst-cpu", "CPU per delivery, back to back", lambda it: it.cpu_per_delivery_ns(), "burst", _micros),
]


@dataclass(frozen=True)
class Goal:
    figure: str
    source: str
    at_least: float | None = None
    at_most: float | None = None
    against: str = ""
    """A peer. If set, the limit applies to Fermata's figure divided by the peer's."""

    def verdict(self, value: float | None) -> str:
        if value is None:
            return "not measured"
        if self.at_least is not None:
            return "met" if value >= self.at_least else "missed"
        if self.at_most is not None:
            return "met" if value <= self.at_most else "missed"
        raise ValueError(f"goal {self} has no limit")


def load_goals() -> list[Goal]:
    return [Goal(**goal) for goal in tomllib.loads(GOALS.read_text())["goal"]]


def values(run: Run, figure: Figure, peer: str) -> list[float]:
    """Returns a figure of a peer from each round that has it."""
    found = [figure.of(one) for one in [*run.ladders, *run.broadcasts] if one.peer == peer and one.kind == figure.kind]
    return [value for value in found if value is not None]


def markdown(run: Run, goals: list[Goal]) -> str:
    machine, options = run.machine, run.options
    parts = [
        f"# Held clients, {run.started:%Y-%m-%d %H:%M} UTC on {machine['host']}",
        f"{machine_line(machine)}, load average at the start {machine['load average']}. "
        f"{options['rounds']} interleaved rounds; medians, and in brackets the smallest and the largest. Memory is "
        f"the slope of a least-squares line from {options['levels'][0]:,} to {options['levels'][-1]:,} clients; "
        f"messages have {options['message_bytes']} bytes and {options['subscribers']:,} subscribers.",
    ]
    if options["quick"]:
        parts.append(QUICK)
    parts.append(_table(run))
    for key, errors in run.errors().items():
        parts.append(f"**{key} went wrong**: " + ", ".join(f"{count} {name}" for name, count in errors.items()))
    if not options["quick"]:
        parts.append(_goals(run, goals))
    parts += [_published(), _peers(run)]
    return "\n\n".join(parts) + "\n"


def _table(run: Run) -> str:
    others = [id for id in run.peers if id != SUBJECT]
    names = [run.peers[SUBJECT].name, *(run.peers[id].name for id in others)]
    ratios = [f"Fermata ÷ {run.peers[id].name}" for id in others]
    rows = []
    for figure in FIGURES:
        cells = [_cell(figure, values(run, figure, id)) for id in [SUBJECT, *others]]
        for id in others:
            ours, theirs = values(run, figure, SUBJECT), values(run, figure, id)
            known = figure.compare and ours and theirs and median(theirs) > 0
            cells.append(f"{median(ours) / median(theirs):.2g}×" if known else "–")
        rows.append([figure.title, *cells])
    return table(["", *names, *ratios], rows)


def _cell(figure: Figure, found: list[float]) -> str:
    if not found:
        return "–"
    text = figure.show(median(found))
    if len(found) > 1:
        text += f" [{figure.show(min(found))}, {figure.show(max(found))}]"
    return text


def goal_value(run: Run, goal: Goal) -> float | None:
    figure = next(figure for figure in FIGURES if figure.id == goal.figure)
    ours = values(run, figure, SUBJECT)
    if not goal.against:
        return median(ours) if ours else None
    theirs = values(run, figure, goal.against)
    return median(ours) / median(theirs) if ours and theirs and median(theirs) else None


def _goals(run: Run, goals: list[Goal]) -> str:
    lines = ["## Goals", ""]
    for goal in goals:
        figure = next(figure for figure in FIGURES if figure.id == goal.figure)
        value = goal_value(run, goal)
        limit = goal.at_least if goal.at_least is not None else goal.at_most
        sign = "≥" if goal.at_least is not None else "≤"
        assert limit is not None
        if goal.against:
            wanted, found = f"{sign} {limit}× {goal.against}", "–" if value is None else f"{value:.2g}×"
        else:
            wanted, found = f"{sign} {figure.show(limit)}", "–" if value is None else figure.show(value)
        lines.append(f"- **{goal.verdict(value)}** {figure.title} ({figure.kind}) {wanted} ({goal.source}): {found}")
    return "\n".join(lines)


def _published() -> str:
    """Returns the figures that seed 001 published. They were not measured by this suite."""
    return "\n".join(
        [
            "## What Pushpin's own demonstration published (seed 001; not measured here)",
            "",
            "- 1,000,004 connections on a server of at least 8 cores and 32 GB, Ubuntu 20.04, "
            "with 4 machines of 16 cores that connect.",
            "- 200 connects per second from each of the 4, 800 in all, which makes 21 minutes until all are there.",
            "- 1,000 groups, a keep-alive every 55 s, and no message sent in the report shown (`sent` 0).",
            "- `curl` of the server's root meanwhile: 35 ms.",
            "- Memory and CPU were not published; 32 GB for a million is an upper bound of 32 kB for each client.",
        ]
    )


def _peers(run: Run) -> str:
    shown = {id: replace(peer, about=FERMATA_IS) if id == SUBJECT else peer for id, peer in run.peers.items()}
    lines = [peers_section("Servers", shown, run.versions, run.not_run)]
    lines += [f"- {key}: not run: {reason}" for key, reason in run.not_run.items() if key not in run.peers]
    return "\n".join(lines)


def write(run: Run, goals: list[Goal], folder: Path) -> tuple[Path, Path]:
    """Writes the table and the raw data, and returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = folder / f"held-{run.started:%H%M%S}.md"
    raw = folder / f"held-{run.started:%H%M%S}.json"
    shown.write_text(markdown(run, goals))
    document = {
        "started": run.started.isoformat(),
        "machine": run.machine,
        "options": run.options,
        "peers": {
            id: {
                "name": peer.name,
                "about": peer.about,
                "version": run.versions.get(id),
                "command": run.commands.get(id),
            }
            for id, peer in run.peers.items()
        },
        "not_run": run.not_run,
        "goals": [
            {**asdict(goal), "value": (value := goal_value(run, goal)), "verdict": goal.verdict(value)}
            for goal in goals
        ],
        "figures": {
            figure.id: {id: values(run, figure, id) for id in run.peers if values(run, figure, id)}
            for figure in FIGURES
        },
        "ladders": [asdict(ladder) for ladder in run.ladders],
        "broadcasts": [asdict(broadcast) for broadcast in run.broadcasts],
    }
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return shown, raw
