"""Writes the results of the newest runs in bench/runs into docs/benchmarks.md and a few of them into the README.

`python3 -m bench readme` rewrites the text between the markers. `--check` changes nothing and fails if the text is outdated, or
if a figure of the README is older than COMMITS_MAX commits or DAYS_MAX days. `--check --any-age` ignores the age.
"""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from datetime import UTC, date, datetime
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
COMMITS_MAX, DAYS_MAX = 300, 30
"""Maximum age of a figure in the README."""
SUBJECT, CONTROL = "fermata", "control"
LEGEND = """Each table is one run of all servers in turns, on one machine; the figures are medians over the rounds. The row of
Fermata has its rate. Every other row has Fermata's rate divided by that server's: above 1× Fermata is faster. \
The C servers, Node `net` and the bare loops in PHP (select, non-blocking, single process, Revolt) parse no
request and send a constant."""
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
"""Title of each table, its rows with their column headings, and the row by which peers are sorted."""

FURTHER = (
    "connect and subscribe",
    "time to fill",
    "processor of the edge per hold while it fills",
    "processor of PHP-FPM per hold",
    "server side in all: user and kernel",
    "publish to a group: last byte, median",
)
"""Figures that the table of a million clients through the edge shows in addition to its goals."""


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def newest(table: str) -> Path | None:
    """Returns the raw data of a table's newest stored run."""
    kept = sorted(RUNS.glob(f"*/{table}-*.json"), key=lambda path: (path.parent.name, path.name))
    return kept[-1] if kept else None


def newest_edge() -> Path | None:
    """Returns the newest stored run of the edge that measured all goals. Some runs measured only one row."""
    kept = sorted(RUNS.glob("*/edge-*.json"), key=lambda path: (path.parent.name, path.name))
    whole = [path for path in kept if all(goal["value"] for goal in json.loads(path.read_text())["goals"])]
    return whole[-1] if whole else None


def block(before: str) -> str:
    """Returns the block of `make bench`: each table with a stored run, and the goals. Returns `before` if no table has a run."""
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
    """Returns one table: a line per peer, the fastest first."""
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
    """Returns the block of `make bench-million`, or of the same run through the edge: the rows with a goal, and the rows
    named in `further`."""
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
    """Returns the block of `make bench-edge`: each goal with the figures of Fermata and Pushpin and their ratio."""
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


def commit_of(path: Path) -> str:
    """Returns the commit that a stored run measured."""
    if path.suffix == ".json":
        return str(json.loads(path.read_text())["machine"]["commit"])
    found = re.search(r"\bcommit (\w+)", path.read_text())
    return found[1] if found else ""


def newest_million() -> Path | None:
    kept = [path for path in RUNS.glob("*/million-*.md") if path.read_text().startswith("# 1,000,000 held clients")]
    return max(kept, key=lambda path: (path.parent.name, path.name), default=None)


def figure_sources() -> list[Path]:
    """Returns the runs that provide the README's figures."""
    return [path for path in (newest_million(), newest("json"), newest("files"), newest_edge()) if path is not None]


def figures() -> str:
    """Returns the README's block: the memory of a held client and four ratios, each with the date and commit of its run."""
    lines = ["| | | Measured |", "|---|---|---|"]

    def add(title: str, value: str, path: Path) -> None:
        lines.append(f"| {title} | {value} | {path.parent.name[:10]}, commit {commit_of(path)} |")

    crowd = newest_million()
    if crowd is not None:
        rows = crowd.read_text().splitlines()
        memory = next(cells(row)[1] for row in rows if row.startswith("| server's user memory per client"))
        title = "a million event streams, server and clients on one machine with two cores and 24 GiB"
        add(title, f"{memory} of the server's memory each", crowd)
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
        add(title, ", ".join(shown), path)
    path = newest_edge()
    if path is not None:
        by_figure = {goal["figure"]: goal["value"] for goal in json.loads(path.read_text())["goals"] if goal["value"]}
        memory, rate = by_figure["stream-memory"]["median"], by_figure["stream-rate"]["median"]
        value = f"1/{1 / memory:.0f} of its memory, {rate:.0f}× its connects per second"
        add("a client held by the edge, compared with Pushpin", value, path)
    return "\n".join(lines) + "\n"


def too_old(today: date) -> list[str]:
    """Returns a line for each outdated run used by the README. In a shallow clone, only the age in days is checked."""
    found = []
    for path in figure_sources():
        commit = commit_of(path)
        days = (today - date.fromisoformat(path.parent.name[:10])).days
        count = subprocess.run(
            ["git", "rev-list", "--count", f"{commit}..HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        commits = int(count.stdout) if count.returncode == 0 else 0
        if commits > COMMITS_MAX or days > DAYS_MAX:
            age = f"{commits} commits and {days} days old"
            found.append(f"{path.relative_to(ROOT)}: {age}, at most {COMMITS_MAX} and {DAYS_MAX}; measure again")
    return found


def main() -> int:
    arguments = sys.argv[1:]
    if arguments not in ([], ["--check"], ["--check", "--any-age"]):
        print("usage: python3 -m bench readme [--check [--any-age]]", file=sys.stderr)
        return 2
    page, readme = PAGE.read_text(), README.read_text()
    tables = BLOCK.sub(lambda match: match[1] + block(match[2]) + match[3], page)
    tables = MILLION.sub(lambda match: match[1] + million() + match[2], tables)
    tables = CROWD.sub(lambda match: match[1] + million("crowd-edge", FURTHER) + match[2], tables)
    tables = EDGE.sub(lambda match: match[1] + edge() + match[2], tables)
    few = FIGURES.sub(lambda match: match[1] + figures() + match[2], readme)
    if (tables, few) == (page, readme):
        old = too_old(datetime.now(UTC).date()) if arguments == ["--check"] else []
        print("".join(f"{line}\n" for line in old), end="", file=sys.stderr)
        return 1 if old else 0
    if arguments:
        print("README.md or docs/benchmarks.md does not show the newest runs: python3 -m bench readme", file=sys.stderr)
        return 1
    PAGE.write_text(tables)
    README.write_text(few)
    return 0
