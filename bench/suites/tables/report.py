"""Writes the results of one table as Markdown and SVG for readers, and as JSON for programs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.lib.check import Captured
from bench.lib.markdown import QUICK, interval_text, machine_line, peers_section, table, warning
from bench.lib.peers import SUBJECT, Peer
from bench.lib.process import Memory
from bench.lib.stats import Interval, interval

from . import plot
from .rows import LATENCY, MEMORY, RATE, ROWS, START, TABLES, Row, Sample
from .summary import CONTROL, MAIN, MEMORY_METRIC, METRICS, UNITS, Goal, Line, summarise

COLUMNS: dict[str, list[tuple[str, str, bool]]] = {
    RATE: [
        ("requests/s", "rate", False),
        ("rate, Fermata ÷ it", "rate", True),
        ("server CPU/request", "cpu", False),
        ("CPU, Fermata ÷ it", "cpu", True),
        ("p99", "p99", False),
    ],
    LATENCY: [
        ("p50", "p50", False),
        ("p50, Fermata ÷ it", "p50", True),
        ("p99", "p99", False),
        ("p99, Fermata ÷ it", "p99", True),
        ("p99.9", "p99.9", False),
    ],
    START: [
        ("first byte", "first-byte", False),
        ("first byte, Fermata ÷ it", "first-byte", True),
        ("CPU until then", "start-cpu", False),
        ("CPU, Fermata ÷ it", "start-cpu", True),
    ],
}
"""Title and metric of every column, and true if the column shows the ratio to the subject."""


PICTURED = {RATE: "requests per second", LATENCY: "p99", START: "time"}
GOAL_TITLES = {"cpu": "CPU", "first-byte": "first byte", MEMORY_METRIC: "private memory of a worker"}


@dataclass(frozen=True)
class MemoryLine:
    peer: str
    idle: Memory
    loaded: Memory
    worker: int
    """Private memory of the largest worker process."""
    requests: int


@dataclass
class Run:
    """All results of a run for one table."""

    table: str
    started: datetime
    machine: dict[str, str]
    options: dict[str, Any]
    peers: dict[str, Peer]
    versions: dict[str, str] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    answers: dict[str, dict[str, Captured]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    """Reasons, by `peer`, `peer/service` or `peer/row`."""
    lacking: set[str] = field(default_factory=set)
    """Keys of `not_run` whose reason is a feature that this build of Fermata lacks."""
    notes: dict[str, str] = field(default_factory=dict)
    """Note shown above a row's figures, by row."""
    samples: list[Sample] = field(default_factory=list)
    memory: list[MemoryLine] = field(default_factory=list)
    _lines: dict[tuple[str, int], list[Line]] = field(default_factory=dict)

    def name(self, peer: str) -> str:
        return "Fermata again (A-A control)" if peer == CONTROL else self.peers[peer].name

    def rows(self) -> list[Row]:
        return [row for row in ROWS if row.id in self.options["rows"]]

    def lines(self, row: Row) -> list[Line]:
        key = (row.id, len(self.samples))
        if key not in self._lines:
            self._lines[key] = summarise(self.samples, row, [*self.peers, CONTROL])
        return self._lines[key]

    def failed(self) -> bool:
        """Returns true if a measurement of the subject had errors: lost messages, wrong responses, refused connections.

        A quick run ignores requests that were sent too late, because their number depends on other load on the machine.
        """
        ignored = {"unsent"} if self.options.get("quick") else set()
        return any(set(sample.errors) - ignored for sample in self.samples if sample.peer in (SUBJECT, CONTROL))

    def why_not(self, row: Row, id: str) -> str | None:
        """Returns the reason why a peer has no figures in a row, or None."""
        service = row.service(self.peers[id])
        return self.not_run.get(id) or self.not_run.get(f"{id}/{service}") or self.not_run.get(f"{id}/{row.id}")

    def value(self, goal: Goal) -> Interval | None:
        """Returns the value that the goal limits: a ratio, or the subject's value in the goal's unit."""
        if goal.metric == MEMORY_METRIC:
            found = [line.worker / UNITS[goal.unit] for line in self.memory if line.peer == SUBJECT]
            return interval(found)
        row = next(row for row in ROWS if row.id == goal.row)
        if not goal.peer:
            metric = METRICS[goal.metric]
            own = [sample for sample in self.samples if (sample.row, sample.peer) == (goal.row, SUBJECT)]
            return interval([metric.of(sample) / UNITS[goal.unit] for sample in own])
        line = next((line for line in self.lines(row) if line.peer == goal.peer), None)
        return line.ratios.get(goal.metric) if line else None


def markdown(run: Run, goals: list[Goal]) -> str:
    options = run.options
    parts = [
        f"# {TABLES[run.table]}",
        f"{run.started:%Y-%m-%d %H:%M} UTC on {run.machine['host']}: {machine_line(run.machine)}.",
        f"Where a row does not say otherwise, server and load generator share core {options['core']}. Up to "
        f"{options['rounds']} interleaved rounds; medians, and ratios per round with a 95 % bootstrap interval. A rate "
        "above 1 and everything else below 1 mean that Fermata is better.",
    ]
    if options["quick"]:
        parts.append(QUICK)
    if found := warning(run.samples):
        parts.append(found)
    parts.append(_goals(run, goals))
    if any(run.lines(row) for row in run.rows()):
        parts.append(f"![The rows as bars]({_stem(run)}.svg)")
    parts += [_row(run, row) for row in run.rows()]
    if run.memory:
        parts.append(_memory(run))
    parts.append(peers_section("Peers", run.peers, run.versions, run.not_run))
    return "\n\n".join(part for part in parts if part) + "\n"


def picture(run: Run) -> str:
    """Returns an SVG with the main figure of every row."""
    panels = []
    for row in run.rows():
        metric = METRICS[MAIN[row.kind]]
        bars = [_bar(run, line, MAIN[row.kind]) for line in run.lines(row)]
        if bars:
            panels.append(plot.Panel(f"{row.title}: {PICTURED[row.kind]}".replace("`", ""), bars, metric.show))
    if run.memory:
        panels.append(plot.Panel("Private memory of the largest worker", _memory_bars(run), "{:.1f} MB".format))
    return plot.plot(TABLES[run.table].replace("`", ""), panels)


def write(run: Run, goals: list[Goal], folder: Path) -> tuple[Path, Path]:
    """Writes the table, its plot and the raw data. Returns the paths of the table and of the raw data."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = _stem(run)
    shown, raw = folder / f"{stem}.md", folder / f"{stem}.json"
    shown.write_text(markdown(run, goals))
    (folder / f"{stem}.svg").write_text(picture(run))
    document = {
        "table": run.table,
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
        "notes": run.notes,
        "goals": [
            {**asdict(goal), "value": (value := run.value(goal)) and asdict(value), "verdict": goal.verdict(value)}
            for goal in _wanted(run, goals)
        ],
        "summary": {row.id: [asdict(line) for line in run.lines(row)] for row in run.rows()},
        "memory": [asdict(line) for line in run.memory],
        "samples": [asdict(sample) for sample in run.samples],
    }
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return shown, raw


def _stem(run: Run) -> str:
    return f"{run.table}-{run.started:%H%M%S}"


def _bar(run: Run, line: Line, metric: str) -> plot.Bar:
    ratio = line.ratios.get(metric)
    return plot.Bar(
        name="Fermata again" if line.peer == CONTROL else run.name(line.peer),
        value=line.values[metric],
        lowest=line.lowest,
        highest=line.highest,
        note=f"({ratio.median:.2f}×)" if ratio else "",
        colour={SUBJECT: plot.OURS, CONTROL: plot.CONTROL}.get(line.peer, plot.OTHERS),
    )


def _memory_bars(run: Run) -> list[plot.Bar]:
    bars = []
    for line in sorted(run.memory, key=lambda line: line.worker):
        size = line.worker / 1e6
        colour = plot.OURS if line.peer == SUBJECT else plot.OTHERS
        bars.append(plot.Bar(run.name(line.peer), size, size, size, "", colour))
    return bars


def _row(run: Run, row: Row) -> str:
    columns = COLUMNS[row.kind]
    rows = []
    for line in run.lines(row):
        errors = ", ".join(f"{count} {name}" for name, count in line.errors.items())
        cells = [f"{run.name(line.peer)}{' **(' + errors + ')**' if errors else ''}"]
        for _, metric, is_ratio in columns:
            # wrk reports no latency of pipelined requests, and ab none below one millisecond: both are zero here.
            shown = METRICS[metric].show(line.values[metric]) if line.values[metric] else "–"
            cells.append(interval_text(line.ratios.get(metric)) if is_ratio else shown)
        rows.append(cells)
    for id, peer in run.peers.items():
        if row.fits(peer) and (reason := run.why_not(row, id)):
            rows.append([peer.name, f"not run: {reason}"])
    parts = [f"## {row.title}", run.notes.get(row.id, ""), table(["", *(column[0] for column in columns)], rows)]
    return "\n\n".join(part for part in parts if part)


def _memory(run: Run) -> str:
    rows = []
    for line in sorted(run.memory, key=lambda line: line.loaded.pss):
        sizes = (line.idle.pss, line.loaded.pss, line.loaded.rss, line.loaded.private, line.worker)
        rows.append([run.name(line.peer), *(f"{size / 1e6:.1f} MB" for size in sizes)])
    for id, peer in run.peers.items():
        reason = run.not_run.get(id) or run.not_run.get(f"{id}/{MEMORY}")
        if "chat" in peer.services and reason:
            rows.append([peer.name, f"not run: {reason}"])
    title = f"## Resident memory of the chat servers, each alone, after {run.memory[0].requests:,} pages"
    head = ["", "PSS at start", "PSS", "RSS", "private", "private, the largest worker"]
    return f"{title}\n\n{table(head, rows)}"


def _wanted(run: Run, goals: list[Goal]) -> list[Goal]:
    return [goal for goal in goals if goal.row in run.options["rows"]]


def _goals(run: Run, goals: list[Goal]) -> str:
    rows = []
    for goal in _wanted(run, goals):
        value = run.value(goal)
        shown = f"{value.median:.1f} {goal.unit}" if value and goal.unit else interval_text(value)
        what = f"{goal.row}: {GOAL_TITLES.get(goal.metric, goal.metric)}"
        rows.append([what, goal.limit(), shown, f"**{goal.verdict(value)}**", goal.source])
    return "## Goals\n\n" + table(["", "goal", "measured", "", "of"], rows) if rows else ""
