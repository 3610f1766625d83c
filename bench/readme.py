"""Writes the newest runs of bench/runs between the markers of docs/benchmarks.md, and a few figures of them into the README.

`python3 -m bench readme` rewrites the blocks; with `--check` it only compares and fails on a difference, so that no
number stands there that no run has printed.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "bench" / "runs"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "benchmarks.md"
BLOCK = re.compile(r"(<!-- bench:begin -->\n)(.*?)(<!-- bench:end -->)", re.DOTALL)
MILLION = re.compile(r"(<!-- million:begin -->\n).*?(<!-- million:end -->)", re.DOTALL)
FIGURES = re.compile(r"(<!-- figures:begin -->\n).*?(<!-- figures:end -->)", re.DOTALL)
EDGE = re.compile(r"(<!-- edge:begin -->\n).*?(<!-- edge:end -->)", re.DOTALL)
CROWD = re.compile(r"(<!-- crowd-edge:begin -->\n).*?(<!-- crowd-edge:end -->)", re.DOTALL)
SUBJECT, CONTROL = "fermata", "control"
LEGEND = """One run each on one machine, everybody in turns; medians over the rounds. Of Fermata the table has the rate,
of all others how many times their rate Fermata's is: above 1× Fermata is faster. The C servers, Node `net` and the
bare loops in PHP (select, non-blocking, single process, Revolt) parse nothing and send a constant."""
TABLES = {
    "json": (
        "Small JSON by a PHP closure, `wrk` with 100 connections (`make bench-json`, after seed 004)",
        {
            "json-seed": "all cores",
            "json": "server and load on one core",
            "json-new-url": "a new URL each time",
            "json-pipelined": "16 in one write",
        },
        "json",
    ),
    "chat": (
        "A chat server, `ab -c 10` (`make bench-chat`, after seed 000)",
        {
            "page": "page",
            "static": "page from its file",
            "message": "message, a connection each",
            "message-keep-alive": "message, keep-alive",
        },
        "page",
    ),
    "files": (
        "108 KB through a file, `ab -c 200 -n 2000`, and handlers that wait (`make bench-files`, after seed 002)",
        {
            "files": "as in the seed",
            "files-constant": "without the generator",
            "waits": "50 ms for a backend, 1,000 clients",
            "pauses": "50 ms asleep, 1,000 clients",
        },
        "files",
    ),
}
"""Title, rows with their columns, and the row that the peers are sorted by."""

FURTHER = (
    "connect and subscribe",
    "time to fill",
    "processor of the edge per hold while it fills",
    "processor of PHP-FPM per hold",
    "server side in all: user and kernel",
    "publish to a group: last byte, median",
)
"""Of a million through the edge, beside its goals."""


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def newest(table: str) -> Path | None:
    """The raw data of the newest run of a table that is kept."""
    kept = sorted(RUNS.glob(f"*/{table}-*.json"), key=lambda path: (path.parent.name, path.name))
    return kept[-1] if kept else None


def newest_edge() -> Path | None:
    """The newest run of the edge that measured all its goals: some are kept for one row."""
    kept = sorted(RUNS.glob("*/edge-*.json"), key=lambda path: (path.parent.name, path.name))
    whole = [path for path in kept if all(goal["value"] for goal in json.loads(path.read_text())["goals"])]
    return whole[-1] if whole else None


def block(before: str) -> str:
    """The block of `make bench`: each table that has a run, and their goals. `before` stays while none has."""
    parts, goals, machine = [LEGEND], [], ""
    for table in TABLES:
        path = newest(table)
        if path is None:
            continue
        run = json.loads(path.read_text())
        facts = run["machine"]
        machine = (
            f"{facts['processor']}, {facts['cores']} cores, {facts['memory']}, {facts['system']}, "
            f"Linux {facts['kernel']}."
        )
        parts.append(compared(table, run, path))
        goals += run["goals"]
    if not goals:
        return before
    parts.insert(1, machine)
    parts.append("\n".join(["| goal | | measured | |", "|---|---|---:|---|", *map(goal_line, goals)]))
    return "\n\n".join(parts) + "\n"


def compared(table: str, run: dict[str, Any], path: Path) -> str:
    """One table: a line per peer, the strongest first."""
    title, rows, main = TABLES[table]
    figures = {row: {line["peer"]: line for line in run["summary"].get(row, [])} for row in rows}

    def ratio(peer: str, row: str) -> float | None:
        found = figures[row].get(peer, {}).get("ratios", {}).get("rate")
        return found["median"] if found else None

    def shown(peer: str, row: str) -> str:
        if peer == SUBJECT:
            line = figures[row].get(peer)
            return f"{line['values']['rate']:,.0f}/s" if line else "–"
        value = ratio(peer, row)
        return f"{value:.2f}×" if value else "–"

    measured = {peer for lines in figures.values() for peer in lines} - {CONTROL}
    order = sorted(measured, key=lambda peer: (peer != SUBJECT, ratio(peer, main) or math.inf, peer))
    lines = [f"**{title}**", "", f"| | {' | '.join(rows.values())} |", "|---|" + "---:|" * len(rows)]
    for peer in order:
        lines.append(f"| {run['peers'][peer]['name']} | {' | '.join(shown(peer, row) for row in rows)} |")
    absent = [run["peers"][id]["name"] for id in run["peers"] if id in run["not_run"]]
    folder, stem = path.parent.relative_to(ROOT), path.stem
    links = f"[everything this run printed](../{folder}/{stem}.md), [as bars](../{folder}/{stem}.svg)"
    commit = run["machine"]["commit"]
    lines += ["", f"{'Not run: ' + ', '.join(absent) + '; ' if absent else ''}{links}; commit {commit}."]
    return "\n".join(lines)


def goal_line(goal: dict[str, Any]) -> str:
    unit = f" {goal['unit']}" if goal["unit"] else f"× {goal['peer']}"
    limit = f"≥ {goal['at_least']:g}" if goal["at_least"] is not None else f"≤ {goal['at_most']:g}"
    value = goal["value"]
    measured = "–" if value is None else f"{value['median']:.2f}{' ' + goal['unit'] if goal['unit'] else '×'}"
    met = goal["verdict"] if goal["verdict"].startswith("met") else f"**{goal['verdict']}**"
    return f"| {goal['row']}: {goal['metric']} | {limit}{unit} | {measured} | {met} |"


def million(kind: str = "million", further: tuple[str, ...] = ()) -> str:
    """The block of `make bench-million`, or of that through the edge: its table up to the last goal, with those it has
    missed, and further lines."""
    tables = sorted(RUNS.glob(f"*/{kind}-*.md"), key=lambda path: (path.parent.name, path.name))
    whole = [table for table in tables if table.read_text().startswith("# 1,000,000 held clients")]
    if not whole:
        return "No run of a whole million is kept in bench/runs yet.\n"
    table = whole[-1]
    lines = table.read_text().splitlines()
    machine = next(line for line in lines if " cores" in line)
    rows = [line for line in lines if line.startswith("|")]
    wanted = ("| figure", "|---", *(f"| {about} |" for about in further))
    goals = [line for line in rows if cells(line)[-1] or line.startswith(wanted)]
    shown = f"[{table.parent.name}](../{table.relative_to(ROOT)})"
    whole_run = f"Everything this run printed, with its commands and a plot: {shown}."
    return "\n".join([machine, "", *goals, "", whole_run, ""])


def edge() -> str:
    """The block of `make bench-edge`: its goals, with both sides' figures and the ratio."""
    path = newest_edge()
    if path is None:
        return "No run of `make bench-edge` is kept in bench/runs yet.\n"
    run = json.loads(path.read_text())
    facts = run["machine"]
    machine = (
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory']}, {facts['system']}, "
        f"Linux {facts['kernel']}, commit {facts['commit']}."
    )
    lines = ["| | Fermata | Pushpin | ratio | goal | |", "|---|---:|---:|---:|---|---|"]
    for goal in run["goals"]:
        shown = run["figures"][goal["figure"]]["shown"]
        limit = f"≥ {goal['at_least']:g}×" if goal["at_least"] is not None else f"≤ {goal['at_most']:g}×"
        value = goal["value"]
        ratio = "–" if value is None else f"{value['median']:.2g}×"
        met = goal["verdict"] if goal["verdict"].startswith("met") else f"**{goal['verdict']}**"
        cells = (shown.get("fermata-edge", "–"), shown.get("pushpin", "–"), ratio, limit, met)
        lines.append(f"| {goal['title']} | {' | '.join(cells)} |")
    folder = path.parent.relative_to(ROOT)
    return "\n".join([machine, "", *lines, "", f"[Everything this run printed](../{folder}/{path.stem}.md).", ""])


def figures() -> str:
    """The README's: what a held client costs, and four ratios, each from the newest run of its suite."""
    lines = ["| | |", "|---|---|"]
    crowds = [path for path in RUNS.glob("*/million-*.md") if path.read_text().startswith("# 1,000,000 held clients")]
    if crowds:
        rows = max(crowds, key=lambda path: (path.parent.name, path.name)).read_text().splitlines()
        memory = next(cells(row)[1] for row in rows if row.startswith("| server's user memory per client"))
        title = "a million event streams held on two cores and 24 GiB, both ends on that machine"
        lines.append(f"| {title} | {memory} of the server's memory each |")
    ratios = {
        "json": ("small JSON by a PHP closure, one core", "json", "rate", ("nginx", "swoole", "node", "php-fpm")),
        "files": ("1,000 clients whose handlers wait 50 ms for a backend", "waits", "rate", ("node", "php-fpm")),
    }
    for table, (title, row, metric, peers) in ratios.items():
        path = newest(table)
        if path is None:
            continue
        run = json.loads(path.read_text())
        found = {line["peer"]: line["ratios"].get(metric) for line in run["summary"].get(row, [])}
        shown = [f"{found[peer]['median']:.2g}× {run['peers'][peer]['name']}" for peer in peers if found.get(peer)]
        lines.append(f"| {title} | {', '.join(shown)} |")
    path = newest_edge()
    if path is not None:
        by_figure = {goal["figure"]: goal["value"] for goal in json.loads(path.read_text())["goals"] if goal["value"]}
        memory, rate = by_figure["stream-memory"]["median"], by_figure["stream-rate"]["median"]
        value = f"1/{1 / memory:.0f} of its memory, {rate:.0f}× its connects per second"
        lines.append(f"| a client held by the edge, beside Pushpin | {value} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"]):
        print("usage: python3 -m bench readme [--check]", file=sys.stderr)
        return 2
    page, readme = PAGE.read_text(), README.read_text()
    tables = BLOCK.sub(lambda match: match[1] + block(match[2]) + match[3], page)
    tables = MILLION.sub(lambda match: match[1] + million() + match[2], tables)
    tables = CROWD.sub(lambda match: match[1] + million("crowd-edge", FURTHER) + match[2], tables)
    tables = EDGE.sub(lambda match: match[1] + edge() + match[2], tables)
    few = FIGURES.sub(lambda match: match[1] + figures() + match[2], readme)
    if (tables, few) == (page, readme):
        return 0
    if arguments:
        print("README.md or docs/benchmarks.md does not show the newest runs: python3 -m bench readme", file=sys.stderr)
        return 1
    PAGE.write_text(tables)
    README.write_text(few)
    return 0
