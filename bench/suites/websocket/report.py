"""Writes the results of a run as Markdown tables with the goals of issue 4, and as JSON."""

from __future__ import annotations

import json
import tomllib
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.lib.markdown import QUICK, interval_text, machine_line, peers_section, warning
from bench.lib.peers import SUBJECT
from bench.lib.stats import Interval, interval, ratios
from bench.suites.tables.summary import CONTROL

from .clients import CLIENT_ROWS, CLIENTS, ClientSample
from .idle import Idle
from .peers import FOLDER, TERMINATORS, SocketPeer
from .protocol import CODEC_ROWS, Library
from .rows import ROWS, Sample

IDLE = "idle"
BEHIND = "@"
"""Separator between a peer and its terminator in the key of an entry."""

PLURALS = {"delivery": "deliveries"}

Values = dict[str, dict[int, float]]
"""A figure of a row, by entry and round."""


@dataclass(frozen=True)
class Goal:
    row: str
    peer: str
    metric: str
    at_least: float | None = None
    at_most: float | None = None

    def limit(self) -> str:
        return f"≥ {self.at_least}" if self.at_least is not None else f"≤ {self.at_most}"

    def met(self, value: float) -> bool:
        return value >= self.at_least if self.at_least is not None else value <= (self.at_most or 0.0)

    def verdict(self, ratio: Interval | None) -> str:
        if ratio is None:
            return "not measured"
        limit = self.at_least if self.at_least is not None else self.at_most or 0.0
        close = ", within the noise" if ratio.low < limit < ratio.high else ""
        return ("met" if self.met(ratio.median) else "missed") + close


@dataclass
class Run:
    """All results of a run."""

    started: datetime
    machine: dict[str, str]
    options: dict[str, Any]
    peers: dict[str, SocketPeer]
    libraries: dict[str, Library]
    versions: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    """Reasons, by `peer`, `peer/service` or `entry/row`."""
    nanoseconds: dict[str, Values] = field(default_factory=dict)
    """Nanoseconds per call of the protocol rows, by row."""
    samples: list[Sample] = field(default_factory=list)
    clients: list[ClientSample] = field(default_factory=list)
    idle: list[Idle] = field(default_factory=list)

    def name(self, entry: str) -> str:
        peer, _, front = entry.partition(BEHIND)
        if peer == CONTROL:
            return "Fermata again (A-A control)"
        name = self.peers[peer].name if peer in self.peers else self.libraries[peer].name
        return f"{name} behind {TERMINATORS[front].name}" if front else name

    def values(self, row: str, metric: str) -> Values:
        """Returns `rate` or `cpu` of every entry and round."""
        found: Values = {}
        if row in self.nanoseconds:
            # The rate is the inverse of the processor time.
            for entry, rounds in self.nanoseconds[row].items():
                found[entry] = {at: 1e9 / ns if metric == "rate" else ns for at, ns in rounds.items()}
        for sample in [*self.samples, *self.clients]:
            if sample.row == row:
                value = sample.rate if metric == "rate" else sample.cpu_ns
                found.setdefault(sample.entry, {})[sample.round] = value
        return found

    def ratio(self, row: str, metric: str, peer: str) -> tuple[str, Interval | None]:
        """Returns the compared entry and Fermata's ratio to it. `peer` may be `best` or `proxy`: the best entry of that group."""
        values = self.values(row, metric)
        subject = values.get(SUBJECT, {})
        if peer in ("best", "proxy"):
            entries = [entry for entry in values if self._is_rival(entry, peer == "proxy")]
            pick = max if metric == "rate" else min
            if not entries:
                return peer, None
            peer = pick(entries, key=lambda entry: median(values[entry].values()))
        return peer, interval(ratios(subject, values.get(peer, {})))

    def _is_rival(self, entry: str, behind: bool) -> bool:
        peer, _, front = entry.partition(BEHIND)
        if peer in (SUBJECT, CONTROL) or front != ("proxy" if behind else ""):
            return False
        return peer not in self.peers or not self.peers[peer].outside


def load_goals() -> list[Goal]:
    return [Goal(**goal) for goal in tomllib.loads((FOLDER / "goals.toml").read_text())["goal"]]


def markdown(run: Run, goals: list[Goal]) -> str:
    machine, options = run.machine, run.options
    parts = [
        f"# WebSocket benchmark of {run.started:%Y-%m-%d %H:%M} UTC on {machine['host']}",
        f"{machine_line(machine)}. Server and load generator share core "
        f"{options['core']}; {options['rounds']} interleaved rounds of {options['seconds']} s per measurement; medians, "
        "ratios per round with a 95 % bootstrap interval. Above 1 in the column *rate* and below 1 in *CPU* Fermata is "
        "better. Every message was received and compared.",
    ]
    if options["quick"]:
        parts.append(QUICK)
    parts.append(warning(run.samples))
    parts.append(_goals(run, goals))
    parts += _protocol(run)
    section = ""
    for row in ROWS:
        if row.id not in options["rows"]:
            continue
        if row.section != section:
            section = row.section
            parts.append(f"## {section}")
        parts.append(_row(run, row.id, row.title, row.unit))
        if row.id == "upgrade-subprotocol":
            parts += _clients(run)
    if run.idle or IDLE in options["rows"]:
        parts.append(_idle(run))
    parts.append(peers_section("Peers", {**run.peers, **TERMINATORS}, run.versions, run.not_run))
    return "\n\n".join(part for part in parts if part) + "\n"


def write(run: Run, goals: list[Goal], folder: Path) -> tuple[Path, Path]:
    """Writes the tables and the raw data, and returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    table = folder / f"websocket-{run.started:%H%M%S}.md"
    raw = table.with_suffix(".json")
    table.write_text(markdown(run, goals))
    document = {
        "started": run.started.isoformat(),
        "machine": run.machine,
        "options": run.options,
        "versions": run.versions,
        "not_run": run.not_run,
        "goals": [_judged(run, goal) for goal in goals],
        "nanoseconds": run.nanoseconds,
        "clients": [asdict(sample) for sample in run.clients],
        "idle": [{**asdict(line), "bytes_each": line.bytes_each} for line in run.idle],
        "samples": [asdict(sample) for sample in run.samples],
    }
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return table, raw


def _row(run: Run, id: str, title: str, unit: str) -> str:
    rates, costs = run.values(id, "rate"), run.values(id, "cpu")
    lines = [
        f"### {title}",
        "",
        f"| | {PLURALS.get(unit, unit + 's')}/s | rate, Fermata ÷ it | CPU/{unit} | CPU, Fermata ÷ it |",
        "|---|---:|---:|---:|---:|",
    ]
    for entry in sorted(rates, key=lambda entry: -median(rates[entry].values())):
        cells = [
            run.name(entry),
            f"{median(rates[entry].values()):,.0f}",
            _shown(run, id, "rate", entry),
            f"{median(costs[entry].values()) / 1000:.3f} µs",
            _shown(run, id, "cpu", entry),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    for key, reason in run.not_run.items():
        entry, _, row = key.partition("/")
        if row == id:
            lines.append(f"| {run.name(entry)} | not run: {reason} | | | |")
    return "\n".join(lines)


def _protocol(run: Run) -> list[str]:
    rows = [row for row in CODEC_ROWS if row.id in run.options["rows"]]
    if not rows:
        return []
    lines = [
        "## Protocol: nanoseconds per call from PHP, and how many times as fast Fermata is",
        "",
        "| | " + " | ".join(row.title for row in rows) + " |",
        "|---|" + "---:|" * len(rows),
    ]
    for id, library in run.libraries.items():
        if id in run.not_run:
            lines.append(f"| {library.name} | not run: {run.not_run[id]}" + " |" * len(rows))
            continue
        cells = []
        for row in rows:
            values = run.nanoseconds.get(row.id, {}).get(id)
            if not values:
                cells.append(f"not run: {run.not_run.get(f'{id}/{row.id}', 'not asked for')}")
                continue
            shown = f"{median(values.values()):.1f}"
            cells.append(shown if id == SUBJECT else f"{shown} · {_shown(run, row.id, 'rate', id)}")
        lines.append(f"| {library.name} | " + " | ".join(cells) + " |")
    return ["\n".join(lines)]


def _clients(run: Run) -> list[str]:
    names = {client.id: client.name for client in CLIENTS}
    parts = []
    for row in CLIENT_ROWS:
        if row.id not in run.options["rows"]:
            continue
        rates, costs = run.values(row.id, "rate"), run.values(row.id, "cpu")
        server = run.options.get("client_server", "none")
        lines = [
            f"### {row.title} (server: {server})",
            "",
            "| | connections/s | rate, Fermata ÷ it | client CPU/connection | CPU, Fermata ÷ it |",
            "|---|---:|---:|---:|---:|",
        ]
        for entry in sorted(rates, key=lambda entry: -median(rates[entry].values())):
            lines.append(
                f"| {names[entry]} | {median(rates[entry].values()):,.0f} | {_shown(run, row.id, 'rate', entry)} "
                f"| {median(costs[entry].values()) / 1000:.1f} µs | {_shown(run, row.id, 'cpu', entry)} |"
            )
        for client in CLIENTS:
            if reason := run.not_run.get(f"{client.id}/{row.id}"):
                lines.append(f"| {client.name} | not run: {reason} | | | |")
        parts.append("\n".join(lines))
    return parts


def _idle(run: Run) -> str:
    lines = [
        "## Idle upgraded connections, each server alone",
        "",
        "| | connections | memory each | upgrades/s | CPU/upgrade | CPU while idle |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for line in sorted(run.idle, key=lambda line: (line.service, line.bytes_each)):
        transport = " over wss" if line.service.endswith("-tls") else ""
        lines.append(
            f"| {run.name(line.peer)}{transport} | {line.many:,} | {line.bytes_each:,.0f} B | {line.rate:,.0f} "
            f"| {line.connect_us:.1f} µs | {line.hold_share:.2%} |"
        )
    for key, reason in run.not_run.items():
        entry, _, row = key.partition("/")
        if row.startswith(IDLE):
            lines.append(f"| {run.name(entry)}{' over wss' if row.endswith('-tls') else ''} | not run: {reason} | | | | |")
    lines += ["", "Private memory of the server's processes, the slope between few and many connections."]
    return "\n".join(lines)


def _judged(run: Run, goal: Goal) -> dict[str, Any]:
    if goal.metric == "bytes":
        line = next((line for line in run.idle if (line.peer, line.service) == (SUBJECT, "echo")), None)
        value = line.bytes_each if line else None
        verdict = "not measured" if value is None else "met" if goal.met(value) else "missed"
        return {**asdict(goal), "against": "", "value": value, "verdict": verdict}
    against, ratio = run.ratio(goal.row, goal.metric, goal.peer)
    return {**asdict(goal), "against": against, "value": ratio and asdict(ratio), "verdict": goal.verdict(ratio)}


def _goals(run: Run, goals: list[Goal]) -> str:
    lines = ["## Goals", "", "| | Fermata's | ÷ | goal | measured | |", "|---|---|---|---:|---:|---|"]
    for goal in goals:
        if goal.row not in run.options["rows"]:
            continue
        judged = _judged(run, goal)
        if goal.metric == "bytes":
            value = judged["value"]
            lines.append(
                f"| {goal.row} | memory | | {goal.limit()} B | {'–' if value is None else f'{value:,.0f} B'} "
                f"| **{judged['verdict']}** |"
            )
            continue
        _, ratio = run.ratio(goal.row, goal.metric, goal.peer)
        against = judged["against"]
        known = against.partition(BEHIND)[0] in {**run.peers, **run.libraries}
        who = run.name(against) if known else against
        best = " (the best)" if goal.peer == "best" and known else ""
        lines.append(
            f"| {goal.row} | {goal.metric} | {who}{best} | {goal.limit()} | {interval_text(ratio)} | **{judged['verdict']}** |"
        )
    return "\n".join(lines)


def _shown(run: Run, row: str, metric: str, entry: str) -> str:
    return "" if entry == SUBJECT else interval_text(run.ratio(row, metric, entry)[1])
