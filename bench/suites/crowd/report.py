"""Writes the results of a run: a table with the goals, the raw figures, a plot."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.lib.peers import BENCH, BUILD

from .network import Network
from .parts import Part
from .plot import plot

GOALS = {
    "million": Path(__file__).with_name("goals.toml"),
    "soak": Path(__file__).with_name("goals.toml"),
    "crowd-edge": Path(__file__).with_name("goals-edge.toml"),
}
"""File with the goals of each kind of run."""
TITLES = {"crowd-edge": " through the edge, each answered by PHP-FPM"}
VERSION = 1
"""Version of the raw file's format. It is raised when the meaning of a field changes."""

FURTHER = (
    ("connects_per_s", "connect and subscribe", "/s"),
    ("fill_s", "time to fill", "s"),
    ("edge_us_per_hold", "processor of the edge per hold while it fills", "µs"),
    ("php_us_per_hold", "processor of PHP-FPM per hold", "µs"),
    ("user_pss_per_client", "user memory per client, by PSS", "B"),
    ("server_total_gb", "server side in all: user and kernel", "GB"),
    ("keep_alive_cpu_percent", "processor with a comment to each every 55 s, share of a core", "%"),
    ("group_last_byte_p99_ms", "publish to a group: last byte, p99", "ms"),
    ("get_p99_ms", "a plain page meanwhile, a connection each, p99", "ms"),
    ("deliveries_per_core_s", "one message per socket: deliveries per second of server processor", "/s"),
    ("start_all_ms", "all workers forked", "ms"),
    ("base_private_per_worker", "private memory of an empty worker that has served", "B"),
    ("base_pss_per_worker", "the same by PSS", "B"),
    ("kernel_bytes_per_client", "kernel memory per client, the server's half", "B"),
    ("group_last_byte_p50_ms", "publish to a group: last byte, median", "ms"),
    ("get_p50_ms", "`GET /` meanwhile, median", "ms"),
    ("all_last_byte_ms", "one message to every client: last byte", "ms"),
    ("deliveries_per_s", "deliveries per second while sustained, both ends on the machine", "/s"),
    ("broadcast_last_byte_max_ms", "one message to 100,000 clients: last byte, worst", "ms"),
    ("keep_alives_per_s", "comments per second", "/s"),
    ("keep_alive_cpu_max_percent", "processor with comments, busiest second", "%"),
)


@dataclass(frozen=True)
class Goal:
    figure: str
    about: str
    unit: str
    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, value: float) -> bool:
        above = self.at_least is None or value >= self.at_least
        return above and (self.at_most is None or value <= self.at_most)

    def text(self) -> str:
        if self.at_least is not None:
            return f"≥ {amount(self.at_least, self.unit)}"
        return f"≤ {amount(self.at_most or 0, self.unit)}"


def goals(kind: str = "million") -> list[Goal]:
    return [Goal(**goal) for goal in tomllib.loads(GOALS[kind].read_text())["goal"]]


def amount(value: float, unit: str) -> str:
    """Returns a value with about three significant digits and its unit: `22,431/s`, `4.12 GB`, `0.31 %`."""
    digits = 0 if abs(value) >= 100 or value == int(value) else 1 if abs(value) >= 10 else 2
    space = "" if unit in ("", "/s", "×") else " "
    return f"{value:,.{digits}f}{space}{unit}"


def markdown(
    parts: list[Part],
    facts: dict[str, str],
    network: Network,
    started: datetime,
    options: dict[str, Any],
    kind: str = "million",
) -> str:
    """Returns the report as Markdown."""
    wanted = goals(kind)
    figures = {name: value for part in parts for name, value in part.figures.items()}
    is_whole = options["clients"] == 1_000_000
    out = [
        f"# {options['clients']:,} held clients{TITLES.get(kind, '')}, {started:%Y-%m-%d %H:%M} UTC",
        "",
        f"{facts['processor']}, {facts['cores']} cores, {facts['memory']}, {facts['system']}, Linux {facts['kernel']}, "
        f"commit {facts['commit']}. Server and clients share the machine.",
        f"Load average at the start: {facts['load average']}.",
        "",
        "| figure | measured | goal | |",
        "|---|---:|---:|---|",
    ]
    for goal in wanted:
        if (value := figures.get(goal.figure)) is not None:
            # The goals apply only to a run with a million clients.
            verdict = ("met" if goal.is_met(value) else "**missed**") if is_whole else ""
            out.append(f"| {goal.about} | {amount(value, goal.unit)} | {goal.text()} | {verdict} |")
    shown = {goal.figure for goal in wanted}
    for name, about, unit in FURTHER:
        if name not in shown and (value := figures.get(name)) is not None:
            out.append(f"| {about} | {amount(value, unit)} | | |")
    out += ["", "## How", ""]
    for part in parts:
        out += [f"{part.name}: {part.details.get('workers', 'no')} workers", "", "```sh", *part.commands, "```", ""]
    if failures := options.get("failures"):
        out += ["Failed: " + "; ".join(failures) + ".", ""]
    memory = next((part.details["memory"] for part in parts if "memory" in part.details), None)
    if memory is not None:
        kernel = memory["kernel"]
        kinds = ", ".join(f"{name} {size / 1e6:,.0f} MB" for name, size in kernel["kinds"].items())
        out += [
            f"Kernel memory of both ends: {kernel['both'] / 1e9:.2f} GB ({kinds}). The server's part is half of it, after "
            "what only clients have: both ends of a connection are the same objects.",
            f"The machine's available memory fell by {kernel['available_drop'] / 1e9:.2f} GB, which is both ends, user "
            "memory included.",
            "",
        ]
    where = "A network namespace of its own" if network.is_own else "The machine's own network, unchanged"
    settings = "; ".join(f"{name.replace('/', '.')} = {value}" for name, value in network.settings.items())
    out += [f"{where}. {settings}".strip(), ""]
    return "\n".join(out)


def folder(started: datetime, facts: dict[str, str], quick: bool) -> Path:
    """Returns the folder for the results of a run. Results of a quick run go to the build folder."""
    return BUILD / "quick" if quick else BENCH / "runs" / f"{started:%Y-%m-%d}-{facts['host']}"


def write(
    kind: str,
    parts: list[Part],
    facts: dict[str, str],
    network: Network,
    started: datetime,
    options: dict[str, Any],
    folder: Path,
) -> Path:
    """Writes the report, the raw figures and the plots. Returns the path of the report."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = folder / f"{kind}-{started:%H%M%S}"
    table = stem.with_suffix(".md")
    text = markdown(parts, facts, network, started, options, kind)
    raw = {
        "version": VERSION,
        "started": started.isoformat(),
        "options": options,
        "machine": facts,
        "network": vars(network),
        "parts": [vars(part) for part in parts],
    }
    stem.with_suffix(".json").write_text(json.dumps(raw, indent=1) + "\n")
    picture = stem.with_suffix(".svg")
    picture.write_text(plot(parts))
    table.write_text(f"{text}\n![Clients, rates and last byte over time]({picture.name})\n")
    return table
