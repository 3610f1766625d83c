"""What the reports of all suites have in common: the machine, intervals, a warning about noise, the peers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from .stats import Interval

BUSY_SHARE_MAX = 0.02
"""Above this share of foreign work or stolen time on the core, a run's figures are marked as unreliable."""
QUICK = "**A quick run**: it shows that the suite works; its figures mean nothing."


class Described(Protocol):
    """A peer as far as a report shows it."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str: ...


class Watched(Protocol):
    """A measurement that knows who else was on the core."""

    @property
    def foreign(self) -> float: ...

    @property
    def steal(self) -> float: ...


def machine_line(machine: Mapping[str, str]) -> str:
    """Where a run was made."""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}, "
        f"Linux {machine['kernel']}, commit {machine['commit']}"
    )


def warning(samples: Sequence[Watched]) -> str:
    """That the machine was not quiet, or nothing."""
    noisy = sum(sample.foreign > BUSY_SHARE_MAX or sample.steal > BUSY_SHARE_MAX for sample in samples)
    if not noisy:
        return ""
    return (
        f"**The machine was not quiet**: in {noisy} of {len(samples)} measurements other programs or the hypervisor "
        f"took more than {BUSY_SHARE_MAX:.0%} of the core (worst: {max(sample.foreign for sample in samples):.0%} "
        f"programs, {max(sample.steal for sample in samples):.0%} hypervisor)."
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are figures."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join([*row, *[""] * (len(head) - len(row))]) + " |" for row in rows]
    return "\n".join(lines)


def peers_section(
    title: str, peers: Mapping[str, Described], versions: Mapping[str, str], not_run: Mapping[str, str]
) -> str:
    """What every peer is, with its version or why it was not run."""
    lines = [f"## {title}", ""]
    for id, peer in peers.items():
        version = versions.get(id) or f"not run: {not_run.get(id, 'not asked for')}"
        lines.append(f"- {peer.name}: {peer.about} ({version})")
    return "\n".join(lines)


def interval_text(value: Interval | None) -> str:
    """A ratio with its interval."""
    return f"{value.median:.2f}× [{value.low:.2f}, {value.high:.2f}]" if value else "–"
