#!/usr/bin/env python3
"""Generates the crate graph of ARCHITECTURE.md from Cargo.toml files, and checks the paths in that page and CONTRIBUTING.md.

    scripts/architecture.py [--check]

`FILE: function` in backticks names a function: the file must exist and define it. Every other path in backticks must exist.
--check changes nothing and fails on a difference. ARCHITECTURE.md may have at most BYTES_MAX bytes.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
RECIPES = ROOT / "CONTRIBUTING.md"
BYTES_MAX = 10_000
GRAPH = re.compile(r"(<!-- crates:begin -->\n).*?(<!-- crates:end -->)", re.DOTALL)
STEP = re.compile(r"`([\w./-]+\.(?:rs|c|h)): (\w+)`")
PATH = re.compile(r"`((?:crates|ext|php|tests|bench|scripts|docs|examples|packaging|fuzz)/[\w./-]+)`")
TEST_ONLY = {"fermata-testkit", "fermata-tests"}


def crates() -> dict[str, tuple[str, list[str]]]:
    """Returns the description and the dependencies within this workspace of each crate, except crates for tests."""
    found = {}
    for path in sorted((ROOT / "crates").glob("*/Cargo.toml")):
        table = tomllib.loads(path.read_text())
        name = table["package"]["name"]
        if name not in TEST_ONLY:
            ours = [it for it in table.get("dependencies", {}) if it.startswith("fermata-")]
            found[name] = (table["package"]["description"], sorted(ours))
    return found


def floors(all: dict[str, tuple[str, list[str]]]) -> list[list[str]]:
    """Returns the crates by the length of their longest dependency chain, the longest first."""
    depth: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((of(it) for it in all[name][1]), default=-1)
        return depth[name]

    for name in all:
        of(name)
    return [sorted(it for it in all if depth[it] == floor) for floor in range(max(depth.values()), -1, -1)]


def graph() -> str:
    all = crates()
    short = {name: name.removeprefix("fermata-") for name in all}
    lines = ["| crate | what it is | builds on |", "|---|---|---|"]
    for floor in floors(all):
        for name in floor:
            about, below = all[name]
            lines.append(f"| **{short[name]}** | {about} | {', '.join(short[it] for it in below) or '–'} |")
    return "\n".join(lines) + "\n"


def defines(path: Path, function: str) -> bool:
    text = path.read_text()
    if path.suffix == ".rs":
        return re.search(rf"\bfn {function}\b", text) is not None
    return re.search(rf"^[\w* ]*\b{function}\(", text, re.MULTILINE) is not None


def faults(page: str) -> list[str]:
    found = []
    for name, function in STEP.findall(page):
        path = ROOT / name
        if not path.is_file():
            found.append(f"there is no {name}")
        elif not defines(path, function):
            found.append(f"{name} defines no {function}")
    return found + [f"there is no {name}" for name in PATH.findall(page) if not (ROOT / name).exists()]


def main() -> int:
    old = PAGE.read_text()
    page = GRAPH.sub(lambda match: match[1] + graph() + match[2], old)
    found = [f"{PAGE.name}: {fault}" for fault in faults(page)]
    found += [f"{RECIPES.name}: {fault}" for fault in faults(RECIPES.read_text())]
    if (above := len(page.encode()) - BYTES_MAX) > 0:
        found.append(f"{PAGE.name}: it has {above} bytes too many: details belong into each crate's lib.rs")
    if sys.argv[1:] == ["--check"]:
        found += [f"{PAGE.name}: its graph of crates is old: scripts/architecture.py"] * (page != old)
    elif page != old:
        PAGE.write_text(page)
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
