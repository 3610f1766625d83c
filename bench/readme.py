"""Writes the newest runs of bench/runs into the README, between its markers: bench/run.py and bench/million.py.

`python3 bench/readme.py` rewrites the blocks; with `--check` it only compares and fails on a difference, so that no
number stands in the README that no run has printed.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUNS = ROOT / "bench" / "runs"
README = ROOT / "README.md"
BLOCK = re.compile(r"(<!-- bench:begin -->\n).*?(<!-- bench:end -->)", re.DOTALL)
MILLION = re.compile(r"(<!-- million:begin -->\n).*?(<!-- million:end -->)", re.DOTALL)
CONTROL = "A-A control"
# Ratios of a row: the name, then the columns "rate, Fermata ÷ it" and "CPU, Fermata ÷ it".
NAME, RATE, RATE_RATIO, CPU, CPU_RATIO = range(5)


def newest() -> Path:
    """The table of the newest run of run.py that is kept; other suites put their name in front of the time."""
    tables = sorted(RUNS.glob("*/[0-9]*.md"), key=lambda path: (path.parent.name, path.name))
    if not tables:
        raise SystemExit("bench/runs holds no run: `make bench` makes one")
    return tables[-1]


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def block(table: Path) -> str:
    """The README's block: one line per row of the run, one column per peer would be too wide, so one line per peer."""
    text = table.read_text()
    machine = next(line for line in text.splitlines() if "cores" in line)
    out = [
        "One core for server and client, medians of interleaved rounds, ratios per round with their 95 % interval;",
        "a rate above 1× and a CPU below 1× mean that Fermata is better.",
        machine.split("; medians")[0].strip() + ".",
        "",
    ]
    for section in text.split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        rows = [cells(line) for line in body.splitlines() if line.startswith("|")]
        if len(rows) < 3 or "÷" not in " ".join(rows[0]):
            continue
        own = next((row for row in rows[2:] if row[NAME] == "Fermata"), None)
        if own is None:
            continue
        out += [
            f"**{title}**: Fermata {own[RATE]}/s, {own[CPU]} of server CPU each",
            "",
            "| against | its rate | rate, Fermata ÷ it | CPU, Fermata ÷ it |",
            "|---|---:|---:|---:|",
        ]
        out += [
            f"| {row[NAME]} | {row[RATE]}/s | {row[RATE_RATIO]} | {row[CPU_RATIO]} |"
            for row in rows[2:]
            if row[NAME] != "Fermata" and CONTROL not in row[NAME]
        ]
        out.append("")
    out += [f"Everything this run printed, with its goals met and missed: [{table.parent.name}]"
            f"({table.relative_to(ROOT)}).", ""]
    return "\n".join(out)


def million() -> str:
    """The block of `make bench-million`: its table up to the last goal, with those it has missed."""
    tables = sorted(RUNS.glob("*/million-*.md"), key=lambda path: (path.parent.name, path.name))
    whole = [table for table in tables if table.read_text().startswith("# 1,000,000 held clients")]
    if not whole:
        return "No run of a whole million is kept in bench/runs yet.\n"
    table = whole[-1]
    lines = table.read_text().splitlines()
    machine = next(line for line in lines if " cores" in line)
    rows = [line for line in lines if line.startswith("|")]
    goals = [line for line in rows if cells(line)[-1] or line.startswith(("| figure", "|---"))]
    shown = f"[{table.parent.name}]({table.relative_to(ROOT)})"
    return "\n".join([machine, "", *goals, "", f"Everything this run printed, with its commands and a plot: {shown}.", ""])


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: readme.py [--check]", file=sys.stderr)
        return 2
    old = README.read_text()
    new = BLOCK.sub(lambda match: match[1] + block(newest()) + match[2], old)
    new = MILLION.sub(lambda match: match[1] + million() + match[2], new)
    if new == old:
        return 0
    if arguments:
        print("README.md does not show the newest runs: python3 bench/readme.py", file=sys.stderr)
        return 1
    README.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
