"""Goals of the runtime, and the verdict on a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """Maximum of a figure. `source` names the origin of the goal."""

    id: str
    title: str
    unit: str
    at_most: float
    source: str = "issue 7"


GOALS = (
    Goal("hello-waiting", "cost of the runtime when nothing awaits, everything hooked, fibers in the pool", "%", 2.0),
    Goal("hello-timer", "the same with an every() besides", "%", 2.0),
    Goal("switch", "suspend and resume: delay(0), processor time", "us", 0.5),
    Goal("flat-php", "100,000 awaits leave in PHP's memory", "bytes", 1024),
    Goal("flat-process", "100,000 awaits leave in the process", "bytes", 131072),
    Goal("late-file", "what slow File::read() adds to the p99 of another request", "ms", 5.0),
    Goal("late-hook", "what slow file_get_contents() under Hook::Files adds to it", "ms", 5.0),
    Goal("late-write", "what slow File::write(sync: true) adds to it", "ms", 5.0),
    Goal("crowd-compute", "p99 of `GET /` while 200 handlers begin that compute for 2 ms", "ms", 20.0, "issue 12"),
    Goal("crowd-brief", "while 200 begin that compute for 0.4 ms", "ms", 20.0, "issue 12"),
    Goal("crowd-wait", "while 200 begin that compute for 0.5 ms and wait for 20, four times", "ms", 20.0, "issue 12"),
    Goal("crowd-process", "while 200 begin that run a process", "ms", 20.0, "issue 12"),
    Goal("crowd-curl", "while 200 begin that ask another server with cURL", "ms", 20.0, "issue 12"),
    Goal("crowd-socket", "while 200 begin that ask it over a stream of their own", "ms", 20.0, "issue 12"),
    Goal("crowd-query", "while 200 begin that connect to a database with PDO and ask it", "ms", 20.0, "issue 12"),
    Goal("late-query", "what slow queries under Hook::Streams add to it", "ms", 5.0),
)


def percentile(values: Iterable[float], share: float) -> float:
    """Returns the value below which `share` of all values are; 0 without values."""
    ordered = sorted(values)
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(found: dict[str, float], not_run: dict[str, str]) -> tuple[list[str], bool]:
    """Returns a line for each goal, and true if one was missed."""
    lines, missed = ["| | goal | measured | |", "|---|---:|---:|---|"], False
    for goal in GOALS:
        limit = f"≤ {goal.at_most:,g} {goal.unit}"
        if goal.id in found:
            value = found[goal.id]
            verdict = "reached" if value <= goal.at_most else "MISSED"
            missed = missed or value > goal.at_most
            lines.append(f"| {goal.title} | {limit} | {value:,.2f} {goal.unit} | {verdict} |")
        elif goal.id in not_run:
            lines.append(f"| {goal.title} | {limit} | – | not run: {not_run[goal.id]} |")
    return lines, missed
