"""Calculates medians of per-round ratios, with a bootstrap interval."""

from __future__ import annotations

import random
from dataclasses import dataclass
from statistics import median

RESAMPLES = 4000
COVERAGE = 0.95


@dataclass(frozen=True)
class Interval:
    """A median, and the interval that contains the medians of 95 % of the resamples."""

    median: float
    low: float
    high: float
    rounds: int


def ratios(ours: dict[int, float], theirs: dict[int, float]) -> list[float]:
    """Returns our value divided by theirs, for every round with both values."""
    return [ours[round] / theirs[round] for round in sorted(ours) if theirs.get(round)]


def interval(values: list[float], seed: int = 1) -> Interval | None:
    """Returns the median and its percentile bootstrap interval; None without values. The result is deterministic."""
    if not values:
        return None
    source = random.Random(seed)
    medians = sorted(median(source.choices(values, k=len(values))) for _ in range(RESAMPLES))
    edge = (1 - COVERAGE) / 2
    return Interval(
        median=median(values),
        low=medians[int(edge * RESAMPLES)],
        high=medians[int((1 - edge) * RESAMPLES) - 1],
        rounds=len(values),
    )
