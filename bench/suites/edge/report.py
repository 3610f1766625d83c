"""Writes the results of the suite `edge` as a Markdown table with goals, and as JSON."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.lib.markdown import QUICK, interval_text, machine_line, peers_section, table, warning
from bench.lib.peers import Peer
from bench.lib.stats import Interval, interval, ratios

from .rows import FEWER_LEVELS, Sample

GOALS = Path(__file__).with_name("goals.toml")
SUBJECT, RIVAL = "fermata-edge", "pushpin"
VERSION = 1
"""Version of the raw file's format. It is raised when the meaning of a field changes."""


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
    samples: list[Sample] = field(default_factory=list)

    def errors(self) -> dict[str, dict[str, int]]:
        """Returns the errors of all rounds, by peer and row."""
        found: dict[str, dict[str, int]] = {}
        for sample in self.samples:
            for name, count in sample.errors.items():
                errors = found.setdefault(f"{sample.peer}/{sample.row}", {})
                errors[name] = errors.get(name, 0) + count
        return found

    def values(self, figure: Figure, peer: str) -> dict[int, float]:
        """Returns a figure of a peer by round."""
        wanted = (sample for sample in self.samples if sample.peer == peer and sample.row == figure.row)
        return {sample.round: sample.figures[figure.name] for sample in wanted if figure.name in sample.figures}

    def ratio(self, figure: Figure, peer: str = RIVAL) -> Interval | None:
        """Returns Fermata's value divided by the peer's, compared within a round."""
        return interval(ratios(self.values(figure, SUBJECT), self.values(figure, peer)))


@dataclass(frozen=True)
class Figure:
    """A row of the table."""

    row: str
    name: str
    title: str
    show: Callable[[float], str]

    @property
    def id(self) -> str:
        return f"{self.row}-{self.name}"


def _bytes(value: float) -> str:
    return f"{value:,.0f} B"


def _megabytes(value: float) -> str:
    return f"{value / 1e6:.1f} MB"


def _of_ns(value: float) -> str:
    micros = value / 1000
    return f"{micros:,.0f} µs" if micros >= 100 else f"{micros:.1f} µs" if micros >= 1 else f"{micros:.2f} µs"


def _of_us(value: float) -> str:
    return f"{value / 1000:.2f} ms"


def _percent(value: float) -> str:
    return f"{value:.2%}"


def _rate(value: float) -> str:
    return f"{value:,.0f}/s"


FIGURES = (
    Figure("stream", "memory", "user memory for each held client, private pages", _bytes),
    Figure("stream", "memory-pss", "the same, PSS", _bytes),
    Figure("alive", "memory", "the same with keep-alives every 55 s, private pages", _bytes),
    Figure("filter", "memory", "the same with a filter and meta, private pages", _bytes),
    Figure("stream", "base", "user memory before the first client, PSS", _megabytes),
    Figure("stream", "rate", "connects, asking the backend, and subscribes", _rate),
    Figure("stream", "cpu", "CPU for each of them", _of_ns),
    Figure("stream", "rest", "share of a core with all held and nothing to do", _percent),
    Figure("proxy", "cpu", "CPU of a plain request through the edge", _of_ns),
    Figure("proxy", "rate", "plain requests", _rate),
    Figure("proxy", "p50", "their latency, median", _of_us),
    Figure("slow", "cpu", "CPU per delivery, one message at a time to 1,000", _of_ns),
    Figure("burst", "cpu", "CPU per delivery, back to back to 1,000", _of_ns),
    Figure("first", "p50", "publish to first byte, median", _of_us),
    Figure("first", "p99", "publish to first byte, p99", _of_us),
    Figure("slow", "p50", "last byte to 1,000, median", _of_us),
    Figure("slow", "p99", "last byte to 1,000, p99", _of_us),
)


@dataclass(frozen=True)
class Goal:
    """A limit for a ratio."""

    figure: str
    peer: str = RIVAL
    at_least: float | None = None
    at_most: float | None = None

    def limit(self) -> str:
        return f"≥ {self.at_least:g}×" if self.at_least is not None else f"≤ {self.at_most:g}×"

    def verdict(self, value: Interval | None) -> str:
        """Returns "met" or "missed". If the limit is inside the interval, adds that the result is within the noise."""
        if value is None:
            return "not measured"
        if self.at_least is not None:
            met, doubt = value.median >= self.at_least, value.low < self.at_least <= value.high
        else:
            bound = self.at_most or 0.0
            met, doubt = value.median <= bound, value.low <= bound < value.high
        return ("met" if met else "missed") + (", within the noise" if doubt else "")


def load_goals() -> list[Goal]:
    return [Goal(**goal) for goal in tomllib.loads(GOALS.read_text())["goal"]]


def figure_of(id: str) -> Figure:
    return next(figure for figure in FIGURES if figure.id == id)


def markdown(run: Run, goals: list[Goal]) -> str:
    machine, options = run.machine, run.options
    levels = options["levels"]
    parts = [
        f"# The edge beside Pushpin, {run.started:%Y-%m-%d %H:%M} UTC on {machine['host']}",
        f"{machine_line(machine)}, load average at the start {machine['load average']}. "
        f"{options['rounds']} interleaved rounds; medians, and in brackets the smallest and the largest; ratios are "
        f"taken within a round, with a 95 % bootstrap interval. Memory is the slope of a least-squares line from "
        f"{levels[0]:,} to {levels[-1]:,} clients, with keep-alives or a filter to {levels[FEWER_LEVELS - 1]:,}.",
    ]
    if options["quick"]:
        parts.append(QUICK)
    elif noisy := warning(run.samples):
        parts.append(noisy)
    parts.append(_table(run))
    for key, errors in run.errors().items():
        parts.append(f"**{key} went wrong**: " + ", ".join(f"{count} {name}" for name, count in errors.items()))
    if not options["quick"]:
        rows = []
        for goal in goals:
            value = run.ratio(figure_of(goal.figure), goal.peer)
            beside = "" if goal.peer == RIVAL or goal.peer not in run.peers else f", beside {run.peers[goal.peer].name}"
            rows.append([_title(figure_of(goal.figure)) + beside, goal.limit(), ratio_text(value), f"**{goal.verdict(value)}**"])
        parts.append("## Goals\n\n" + table(["Fermata ÷ Pushpin where no other is named", "goal", "measured", ""], rows))
    parts.append(
        "Both have the same pushpin.conf and one nginx as backend, whose time counts for neither. Pushpin's limits of "
        "clients and of messages per second are raised there (`client_maxconn`, `message_rate`, `message_hwm`). CPU is "
        "that of all processes of an edge: condure, pushpin-proxy, pushpin-handler and zurl; the master and the one "
        "worker of `fermata edge`."
    )
    lines = [peers_section("Edges", run.peers, run.versions, run.not_run)]
    lines += [f"- {key}: not run: {reason}" for key, reason in run.not_run.items() if key not in run.peers]
    lines += ["", "```sh", *(run.commands[id] for id in run.peers if id in run.commands), "```"]
    parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def ratio_text(value: Interval | None) -> str:
    """Returns a ratio with its interval as text; with more digits if it is far below 1."""
    if value is None or value.median >= 0.1:
        return interval_text(value)
    return f"{value.median:.4f}× [{value.low:.4f}, {value.high:.4f}]"


def _title(figure: Figure) -> str:
    if figure.row in ("alive", "filter"):
        return figure.title.replace("the same", "user memory for each held client")
    return figure.title


def _table(run: Run) -> str:
    ids = list(run.peers)
    rows = []
    for figure in FIGURES:
        found = {id: list(run.values(figure, id).values()) for id in ids}
        if any(found.values()):
            rows.append([figure.title, *(_cell(figure, found[id]) for id in ids), ratio_text(run.ratio(figure))])
    return table(["", *(run.peers[id].name for id in ids), "Fermata ÷ Pushpin"], rows)


def _cell(figure: Figure, found: list[float]) -> str:
    if not found:
        return "–"
    text = figure.show(median(found))
    return text if len(found) == 1 else f"{text} [{figure.show(min(found))}, {figure.show(max(found))}]"


def write(run: Run, goals: list[Goal], folder: Path) -> tuple[Path, Path]:
    """Writes the table and the raw data, and returns both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    shown = folder / f"edge-{run.started:%H%M%S}.md"
    raw = folder / f"edge-{run.started:%H%M%S}.json"
    shown.write_text(markdown(run, goals))
    document = {
        "version": VERSION,
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
            {
                **asdict(goal),
                "title": _title(figure_of(goal.figure)),
                "value": asdict(value) if (value := run.ratio(figure_of(goal.figure))) else None,
                "verdict": goal.verdict(value),
            }
            for goal in goals
        ],
        "figures": {
            figure.id: {
                "title": _title(figure),
                "shown": {
                    id: figure.show(median(found))
                    for id in run.peers
                    if (found := list(run.values(figure, id).values()))
                },
            }
            for figure in FIGURES
        },
        "samples": [asdict(sample) for sample in run.samples],
    }
    raw.write_text(json.dumps(document, indent=1) + "\n")
    return shown, raw
