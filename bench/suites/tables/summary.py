"""Calculates the figures of the tables from samples: medians, ratios to the subject, verdicts on goals."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.lib.peers import SUBJECT
from bench.lib.stats import Interval, interval, ratios

from .rows import LATENCY, RATE, START, Row, Sample

CONTROL = "control"
"""Key of a second measurement of the subject in every round. Its ratio shows the noise."""


@dataclass(frozen=True)
class Metric:
    """A figure calculated from a sample."""

    of: Callable[[Sample], float]
    show: Callable[[float], str]
    less: bool = True
    """True if a lower value is better."""


METRICS = {
    "rate": Metric(lambda sample: sample.rate, lambda value: f"{value:,.0f}", less=False),
    "cpu": Metric(lambda sample: sample.cpu_ns, lambda value: f"{value / 1000:.2f} µs"),
    "p50": Metric(lambda sample: sample.latency_us.get("p50", 0), lambda value: f"{value / 1000:.2f} ms"),
    "p99": Metric(lambda sample: sample.latency_us.get("p99", 0), lambda value: f"{value / 1000:.2f} ms"),
    "p99.9": Metric(lambda sample: sample.latency_us.get("p99.9", 0), lambda value: f"{value / 1000:.2f} ms"),
    "first-byte": Metric(lambda sample: sample.seconds, lambda value: f"{value * 1000:.1f} ms"),
    "start-cpu": Metric(lambda sample: sample.cpu_ns, lambda value: f"{value / 1e6:.1f} ms"),
}
MEMORY_METRIC = "worker"
"""Metric of goals for the memory row: private memory of one worker."""

SHOWN = {
    RATE: ("rate", "cpu", "p99"),
    LATENCY: ("p50", "p99", "p99.9"),
    START: ("first-byte", "start-cpu"),
}
"""Metrics of each kind of row."""
COMPARED = {RATE: ("rate", "cpu"), LATENCY: ("p50", "p99"), START: ("first-byte", "start-cpu")}
"""Metrics of each kind of row for which the ratio to the subject is calculated."""
MAIN = {RATE: "rate", LATENCY: "p99", START: "first-byte"}
"""Metric by which each kind of row is sorted and plotted."""


@dataclass(frozen=True)
class Line:
    """Figures of one peer in one row."""

    peer: str
    values: dict[str, float]
    """Median over the rounds, by metric."""
    lowest: float
    """Minimum of the row's main metric over the rounds. `highest` is the maximum."""
    highest: float
    ratios: dict[str, Interval]
    """The subject's value divided by this peer's, by metric."""
    foreign: float
    """Maximum over the rounds of the core's share that other processes used."""
    steal: float
    errors: dict[str, int]


@dataclass(frozen=True)
class Goal:
    row: str
    metric: str
    source: str
    peer: str = ""
    """If set, the limit applies to Fermata's value divided by this peer's; otherwise to Fermata's value in `unit`."""
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None

    def verdict(self, value: Interval | None) -> str:
        """Returns `met`, `missed` or `not measured`, with a note if the interval contains the limit."""
        if value is None:
            return "not measured"
        if self.at_least is not None:
            limit, met = self.at_least, value.median >= self.at_least
        elif self.at_most is not None:
            limit, met = self.at_most, value.median <= self.at_most
        else:
            raise ValueError(f"goal {self} has no limit")
        close = value.low < limit < value.high
        return ("met" if met else "missed") + (", within the noise" if close else "")

    def limit(self) -> str:
        unit = f" {self.unit}" if self.unit else f"× {self.peer}"
        return f"≥ {self.at_least:g}{unit}" if self.at_least is not None else f"≤ {self.at_most:g}{unit}"


UNITS = {"ms": 1e-3, "MB": 1e6}
"""Factor from a goal's unit to the unit of its metric."""


def load_goals() -> list[Goal]:
    table = tomllib.loads(Path(__file__).with_name("goals.toml").read_text())
    return [Goal(**goal) for goal in table["goal"]]


def rivals(goals: list[Goal], row: str) -> set[str]:
    """Returns the peers named by goals of a row."""
    return {goal.peer for goal in goals if goal.row == row and goal.peer}


def summarise(samples: list[Sample], row: Row, measured: list[str]) -> list[Line]:
    """Returns a line per peer with samples of the row, including the control. The best peer is first."""
    by_peer: dict[str, dict[int, Sample]] = {}
    for sample in samples:
        if sample.row == row.id:
            by_peer.setdefault(sample.peer, {})[sample.round] = sample
    lines = [_line(row.kind, peer, by_peer[peer], by_peer.get(SUBJECT, {})) for peer in measured if peer in by_peer]
    main = MAIN[row.kind]
    sign = 1 if METRICS[main].less else -1
    return sorted(lines, key=lambda line: sign * line.values[main])


def _line(kind: str, peer: str, samples: dict[int, Sample], subject: dict[int, Sample]) -> Line:
    found = list(samples.values())
    errors: dict[str, int] = {}
    for sample in found:
        for name, count in sample.errors.items():
            errors[name] = errors.get(name, 0) + count
    main = [METRICS[MAIN[kind]].of(sample) for sample in found]
    against = {id: _ratio(METRICS[id], samples, subject) for id in COMPARED[kind]} if peer != SUBJECT else {}
    return Line(
        peer=peer,
        values={id: median(METRICS[id].of(sample) for sample in found) for id in SHOWN[kind]},
        lowest=min(main),
        highest=max(main),
        ratios={id: ratio for id, ratio in against.items() if ratio},
        foreign=max(sample.foreign for sample in found),
        steal=max(sample.steal for sample in found),
        errors=errors,
    )


def _ratio(metric: Metric, samples: dict[int, Sample], subject: dict[int, Sample]) -> Interval | None:
    ours = {round: metric.of(sample) for round, sample in subject.items()}
    theirs = {round: metric.of(sample) for round, sample in samples.items()}
    return interval(ratios(ours, theirs))
