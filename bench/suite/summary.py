"""From samples to the figures of the tables: medians, ratios to the subject, goals met or missed."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from .peers import BENCH, SUBJECT
from .rows import Sample
from .stats import Interval, interval, ratios

CONTROL = "control"
"""The subject measured a second time in every round; its ratio is the noise floor."""

METRICS: dict[str, Callable[[Sample], float]] = {
    "rate": lambda sample: sample.rate,
    "cpu": lambda sample: sample.cpu_ns,
}


@dataclass(frozen=True)
class Line:
    """One peer's figures in one row."""

    peer: str
    rate: float
    cpu_ns: float
    rate_ratio: Interval | None
    """The subject's rate by this peer's."""
    cpu_ratio: Interval | None
    p99_us: int
    foreign: float
    """The worst round's share of the core that other programs took."""
    steal: float
    errors: dict[str, int]


@dataclass(frozen=True)
class Goal:
    row: str
    peer: str
    metric: str
    source: str
    at_least: float | None = None
    at_most: float | None = None

    def verdict(self, ratio: Interval | None) -> str:
        """`met`, `missed` or `not measured`; with a mark when the interval holds the limit."""
        if ratio is None:
            return "not measured"
        if self.at_least is not None:
            limit, met = self.at_least, ratio.median >= self.at_least
        elif self.at_most is not None:
            limit, met = self.at_most, ratio.median <= self.at_most
        else:
            raise ValueError(f"goal {self} has no limit")
        close = ratio.low < limit < ratio.high
        return ("met" if met else "missed") + (", within the noise" if close else "")

    def sentence(self) -> str:
        what = "server CPU per request" if self.metric == "cpu" else "rate"
        limit = f"≥ {self.at_least}×" if self.at_least is not None else f"≤ {self.at_most}×"
        return f"{self.row}: {what} {limit} {self.peer} ({self.source})"


def load_goals() -> list[Goal]:
    table = tomllib.loads((BENCH / "goals.toml").read_text())
    return [Goal(**goal) for goal in table["goal"]]


def summarise(samples: list[Sample], row: str, measured: list[str]) -> list[Line]:
    """A line per peer (and control) that has samples of the row, the fastest first."""
    by_peer: dict[str, dict[int, Sample]] = {}
    for sample in samples:
        if sample.row == row:
            by_peer.setdefault(sample.peer, {})[sample.round] = sample
    lines = [_line(peer, by_peer[peer], by_peer.get(SUBJECT, {})) for peer in measured if peer in by_peer]
    return sorted(lines, key=lambda line: -line.rate)


def _line(peer: str, samples: dict[int, Sample], subject: dict[int, Sample]) -> Line:
    found = list(samples.values())
    errors: dict[str, int] = {}
    for sample in found:
        for name, count in sample.errors.items():
            errors[name] = errors.get(name, 0) + count
    return Line(
        peer=peer,
        rate=median(sample.rate for sample in found),
        cpu_ns=median(sample.cpu_ns for sample in found),
        rate_ratio=_ratio("rate", samples, subject) if peer != SUBJECT else None,
        cpu_ratio=_ratio("cpu", samples, subject) if peer != SUBJECT else None,
        p99_us=int(median(sample.latency_us.get("p99", 0) for sample in found)),
        foreign=max(sample.foreign for sample in found),
        steal=max(sample.steal for sample in found),
        errors=errors,
    )


def _ratio(metric: str, samples: dict[int, Sample], subject: dict[int, Sample]) -> Interval | None:
    value = METRICS[metric]
    ours = {round: value(sample) for round, sample in subject.items()}
    theirs = {round: value(sample) for round, sample in samples.items()}
    return interval(ratios(ours, theirs))
