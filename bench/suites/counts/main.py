"""Counts user instructions and system calls per request. Other load on the machine does not affect these figures.

Without options, prints the counts of Fermata. `--check` compares them with counts.json and fails if they grew;
`--record` writes that file. Instructions are compared only if the compiler and PHP are the recorded ones, because they
depend on both; otherwise they are only shown. System calls are always compared. `--profile CASE` lists the functions
that execute the instructions. `--counting` shows the cost of updating the counters of `fermata stats`; with `--record`
it writes the table into docs/metrics.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.lib import compiled
from bench.lib.peers import PHP, ROOT, SUBJECT, CannotRun, Peer, load_all

from .count import CASES, Case, Counts, counting, measure, profile, tools_missing

BUDGET = Path(__file__).with_name("counts.json")
METRICS_PAGE = ROOT / "docs" / "metrics.md"
COUNTING_BEGIN = "<!-- counting: written by `python3 -m bench counts --counting --record` -->\n"
COUNTING_END = "<!-- end of counting -->\n"
INSTRUCTIONS_GROWTH_MAX = 0.03
"""Maximum growth as a share of the recorded count. One additional allocation exceeds it."""
PROFILE = "CARGO_PROFILE_RELEASE_"
COMPARABLE = {
    "own": ("machine", "rustc", "cc", "profile"),
    "instructions": ("machine", "PHP", "rustc", "cc", "profile"),
}
"""Parts of the environment that must equal the recorded ones for a figure to be compared."""
TRIES_MAX = 3
FRUITLESS_MAX = 0.5
"""Maximum number of failed system calls per request."""
SYSCALLS_GROWTH_MAX = 0.1
"""Maximum growth of system calls per request. A batch read in two polls instead of one adds a few hundredths."""


def main() -> int:
    options = parse_options()
    if missing := tools_missing():
        print(
            f"counts: {', '.join(missing)} missing (apt install valgrind strace gcc)",
            file=sys.stderr,
        )
        return 2
    peers = load_all()
    compiled.build("receiver")
    if options.profile:
        case = next(case for case in CASES if case.id == options.profile)
        peer = peers[options.peers[0]]
        peer.prepare()
        print_profile(peer, case)
        return 0
    if options.counting:
        return print_counting(peers[SUBJECT], options.cases, options.record)

    found: dict[str, dict[str, Counts]] = {}
    failed = False
    for id in options.peers:
        try:
            version = peers[id].prepare()
        except CannotRun as reason:
            print(f"{peers[id].name}: not run: {reason}", flush=True)
            failed = failed or id == SUBJECT
            continue
        print(f"{peers[id].name} ({version})", flush=True)
        for case in CASES:
            if case.id not in options.cases or not fits(peers[id], case):
                continue
            try:
                counts = measured(peers[id], case, options.check)
                found.setdefault(id, {})[case.id] = counts
            except CannotRun as reason:
                print(f"  {case.title}: not run: {reason}", flush=True)
                failed = failed or id == SUBJECT
                continue
            calls = ", ".join(f"{name} {count:.2f}" for name, count in counts.by_syscall.items())
            print(
                f"  {case.title}: {counts.instructions:,.0f} instructions ({counts.own:,.0f} of our own), "
                f"{counts.syscalls:.2f} system calls ({calls})",
                flush=True,
            )
    if options.record and not failed:
        record(found.get(SUBJECT, {}))
    if options.check:
        failed = check(found.get(SUBJECT, {}), options.cases) or failed
    return 1 if failed else 0


def measured(peer: Peer, case: Case, is_check: bool) -> Counts:
    """Returns the counts of a case. In a check, a case above its budget is measured again, and the minimum counts.

    Other load on the machine affects how often the event loop sleeps and wakes between requests. This adds system calls
    and instructions to some tries, while the cost of a code change is in every try."""
    counts = measure(peer, case)
    # check() reports a missing budget.
    budget = json.loads(BUDGET.read_text())["cases"].get(case.id) if is_check and BUDGET.exists() else None
    for _ in range(TRIES_MAX - 1):
        if budget is None or not has_grown(counts, budget, ("own", "instructions")):
            break
        again = measure(peer, case)
        figures = ("instructions", "own", "syscalls", "fruitless")
        least = {figure: min(getattr(counts, figure), getattr(again, figure)) for figure in figures}
        counts = replace(counts if counts.syscalls < again.syscalls else again, **least)
    return counts


def has_grown(now: Counts, limit: dict[str, Any], figures: Iterable[str]) -> bool:
    """Returns true if a count exceeds its budget by more than the tolerance. Of instructions, only `figures` are compared."""
    is_above = any(getattr(now, figure) > limit[figure] * (1 + INSTRUCTIONS_GROWTH_MAX) for figure in figures)
    return is_above or now.syscalls > limit["syscalls"] + SYSCALLS_GROWTH_MAX or now.fruitless > FRUITLESS_MAX


def parse_options() -> argparse.Namespace:
    known_cases, known_peers = [case.id for case in CASES], list(load_all())
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", choices=known_peers, default=[SUBJECT])
    parser.add_argument("--cases", nargs="+", choices=known_cases, default=known_cases)
    parser.add_argument("--check", action="store_true", help=f"fail when over {BUDGET.name}")
    parser.add_argument("--record", action="store_true", help=f"write {BUDGET.name}")
    parser.add_argument("--profile", choices=known_cases, metavar="CASE", help="instructions by function")
    parser.add_argument("--counting", action="store_true", help="instructions that only keep figures")
    options = parser.parse_args()
    if (options.check or options.record) and SUBJECT not in options.peers:
        parser.error(f"--check and --record are about {SUBJECT}")
    return options


def fits(peer: Peer, case: Case) -> bool:
    service = peer.services.get(case.service)
    return service is not None and (not case.message or service.message == "answered")


def check(found: dict[str, Counts], cases: list[str]) -> bool:
    """Compares the counts with the recorded budget. Returns true if a count grew or has no budget."""
    if not BUDGET.exists():
        print(f"check: {BUDGET.name} does not exist; write it with --record")
        return True
    budget: dict[str, Any] = json.loads(BUDGET.read_text())
    grown, notes = judge(found, cases, budget, environment())
    print("\n".join(f"check: {note}" for note in notes))
    return grown


def judge(
    found: dict[str, Counts], cases: list[str], budget: dict[str, Any], here: dict[str, str]
) -> tuple[bool, list[str]]:
    """Returns true if a count grew, and a line for each case."""
    there = budget["recorded_with"]
    figures = [figure for figure, needs in COMPARABLE.items() if all(here[name] == there.get(name) for name in needs)]
    others = [
        f"{name} {there.get(name)} there, {value} here" for name, value in here.items() if value != there.get(name)
    ]
    notes = []
    if "instructions" not in figures:
        what = "only those of our own are" if "own" in figures else "instructions are not"
        notes.append(f"{what} compared, since the budget was recorded with others: {'; '.join(others)}")
    grown = False
    for id in cases:
        if id not in found:
            continue
        limit = budget["cases"].get(id)
        if limit is None:
            notes.append(f"{id}: no budget; write it with --record")
            grown = True
            continue
        now = found[id]
        verdict = "ok"
        if has_grown(now, limit, figures):
            verdict = "GREW"
        elif any(getattr(now, figure) < limit[figure] * (1 - INSTRUCTIONS_GROWTH_MAX) for figure in figures):
            verdict = "shrank; record it"
        notes.append(
            f"{id}: {verdict}: {now.instructions:,.0f} instructions (budget {limit['instructions']:,.0f}), "
            f"{now.own:,.0f} of our own ({limit['own']:,.0f}), "
            f"{now.syscalls:.2f} system calls ({limit['syscalls']:.2f}) and {now.fruitless:.2f} that found nothing"
        )
        grown = grown or verdict == "GREW"
    return grown, notes


def record(found: dict[str, Counts]) -> None:
    """Writes the budget. Cases that were not measured are not changed."""
    old = json.loads(BUDGET.read_text())["cases"] if BUDGET.exists() else {}
    new = {
        id: {
            "instructions": round(counts.instructions),
            "own": round(counts.own),
            "syscalls": round(counts.syscalls, 2),
            "by_syscall": {name: round(count, 2) for name, count in counts.by_syscall.items()},
        }
        for id, counts in found.items()
    }
    known = {case.id for case in CASES}
    cases = {id: limit for id, limit in (old | new).items() if id in known}
    BUDGET.write_text(json.dumps({"recorded_with": environment(), "cases": cases}, indent=1) + "\n")
    print(f"recorded: {BUDGET}")


def environment() -> dict[str, str]:
    """Returns the parts of the environment that affect counts: machine, versions of tools, build profile."""

    def line(*command: str) -> str:
        try:
            return subprocess.run(command, capture_output=True, text=True, check=False).stdout.split("\n")[0]
        except OSError:
            return "not found"

    changed = sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(PROFILE))
    return {
        "machine": platform.machine(),
        "PHP": line(PHP, "-n", "-r", "echo PHP_MAJOR_VERSION, '.', PHP_MINOR_VERSION;"),
        "rustc": ".".join(line("rustc", "--version").split(" ")[1:2]).rpartition(".")[0],
        "cc": line("cc", "--version"),
        "valgrind": line("valgrind", "--version"),
        "profile": " ".join(changed) or "release",
    }


def print_counting(peer: Peer, cases: list[str], is_recorded: bool) -> int:
    """Prints the cost of counting as a table, and writes it into docs/metrics.md if `is_recorded`."""
    made_with = ", ".join(f"{name} {value}" for name, value in environment().items())
    lines = [
        f"`python3 -m bench counts --counting`, user instructions by callgrind; {made_with}.",
        "",
        "| | instructions | of them counting | without | share |",
        "|---|---:|---:|---:|---:|",
    ]
    try:
        peer.prepare()
        for case in CASES:
            if case.id in cases and fits(peer, case) and not case.proxied:
                found = counting(peer, case)
                lines.append(
                    f"| {case.title} | {found.instructions:,.0f} | {found.counting:,.0f} "
                    f"| {found.instructions - found.counting:,.0f} | {found.counting / found.instructions:.1%} |"
                )
    except CannotRun as reason:
        print(f"counts: not run: {reason}", file=sys.stderr)
        return 1
    text = "\n".join(lines) + "\n"
    print(text)
    if is_recorded:
        before, _, rest = METRICS_PAGE.read_text().partition(COUNTING_BEGIN)
        _, _, after = rest.partition(COUNTING_END)
        METRICS_PAGE.write_text(f"{before}{COUNTING_BEGIN}{text}{COUNTING_END}{after}")
        print(f"recorded: {METRICS_PAGE}")
    return 0


def print_profile(peer: Peer, case: Case) -> None:
    print(f"{peer.name}, {case.title}: instructions per request by function")
    for cost, name in profile(peer, case):
        print(f"{cost:10,.1f}  {name}")
