"""Parts of reports that all suites share: the machine, intervals, a warning about other load, the peers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from .stats import Interval

BUSY_SHARE_MAX = 0.02
"""Maximum share of the core that other processes or the hypervisor may use. Above it a report warns about its figures."""
QUICK = "**A quick run**: it shows that the suite works; its figures mean nothing."


class Described(Protocol):
    """The fields of a peer that a report shows."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str: ...


class Watched(Protocol):
    """A measurement with the shares of the core that other processes and the hypervisor used."""

    @property
    def foreign(self) -> float: ...

    @property
    def steal(self) -> float: ...


def machine_line(machine: Mapping[str, str]) -> str:
    """Returns a line that describes the machine of a run."""
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory']}, {machine['system']}, "
        f"Linux {machine['kernel']}, commit {machine['commit']}"
    )


def warning(samples: Sequence[Watched]) -> str:
    """Returns a warning if other processes or the hypervisor used the core during the run; otherwise empty."""
    noisy = sum(sample.foreign > BUSY_SHARE_MAX or sample.steal > BUSY_SHARE_MAX for sample in samples)
    if not noisy:
        return ""
    return (
        f"**The machine was not quiet**: in {noisy} of {len(samples)} measurements other programs or the hypervisor "
        f"took more than {BUSY_SHARE_MAX:.0%} of the core (worst: {max(sample.foreign for sample in samples):.0%} "
        f"programs, {max(sample.steal for sample in samples):.0%} hypervisor)."
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table with text in the first column and right-aligned figures in the others."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    lines += ["| " + " | ".join([*row, *[""] * (len(head) - len(row))]) + " |" for row in rows]
    return "\n".join(lines)


def peers_section(
    title: str, peers: Mapping[str, Described], versions: Mapping[str, str], not_run: Mapping[str, str]
) -> str:
    """Returns a list of all peers, each with its description and its version, or the reason why it was not run."""
    lines = [f"## {title}", ""]
    for id, peer in peers.items():
        version = versions.get(id) or f"not run: {not_run.get(id, 'not asked for')}"
        lines.append(f"- {peer.name}: {peer.about} ({version})")
    return "\n".join(lines)


def interval_text(value: Interval | None) -> str:
    """Returns a ratio with its interval as text."""
    return f"{value.median:.2f}× [{value.low:.2f}, {value.high:.2f}]" if value else "–"
