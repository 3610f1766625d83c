"""Goals for the cost of HTTP/2 and TLS compared with other servers, and the verdicts on a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import median

from bench.lib.peers import SUBJECT
from bench.lib.stats import interval, ratios

Values = Callable[[str, str, str], dict[int, float]]
"""Returns a figure by round, for a row, a peer and the figure's name: `rate` or `cpu_ns`; ignored for held streams."""

RATES = {"nginx": 1.2}
OTHERS_RATE = 1.0
"""Minimum rate for small JSON, as a multiple of every other server's rate."""
FULL_CPU_MAX, RESUMED_RATE_MIN = 1.0, 1.5
PATH_MEMORY_MAX = 0.1
CONNECTION_BYTES_MAX, STREAM_BYTES_MAX = 512, 96
"""Maximum memory of a connection and of a held stream, in addition to the memory with HTTP/1.1."""
BROADCAST_MAX = 0.2
STREAMS = 100
"""Number of streams per connection in the row `h2c-many`."""


def judged(values: Values, peers: Iterable[str]) -> list[str]:
    """Returns a line for each goal for which the run has figures."""
    lines = []
    for row, title in (("1x100", "one connection with 100 streams"), ("100x1", "100 connections with one stream")):
        for peer in peers:
            if peer != SUBJECT:
                wanted = RATES.get(peer, OTHERS_RATE)
                lines += _ratio(values, (row, SUBJECT), (row, peer), "rate", f"{title}: rate beside {peer}", at_least=wanted)
    lines += _ratio(
        values, ("full", SUBJECT), ("full", "nginx"), "cpu_ns", "full handshake: CPU beside nginx", at_most=FULL_CPU_MAX
    )
    resumed = ("resumed", SUBJECT), ("resumed", "nginx")
    lines += _ratio(values, *resumed, "rate", "resumed handshake: rate beside nginx", at_least=RESUMED_RATE_MIN)
    path = ("h2", SUBJECT), ("php-fpm", "php-fpm")
    lines += _ratio(values, *path, "", "memory of a held client over TLS beside nginx and PHP-FPM", at_most=PATH_MEMORY_MAX)
    lines += _parts(values)
    for ours, theirs, tls in (("to-h2c", "to-h1", ""), ("to-h2", "to-h1s", " over TLS")):
        title = f"an event to 1,000 streams on 10 connections{tls}: CPU beside 1,000 connections of HTTP/1.1"
        lines += _ratio(values, (ours, SUBJECT), (theirs, SUBJECT), "", title, at_most=BROADCAST_MAX)
    return lines


def _parts(values: Values) -> list[str]:
    """Returns lines with the memory of TLS, of an HTTP/2 connection, and of an additional stream."""
    found = {row: values(row, SUBJECT, "") for row in ("h1", "h1s", "h2c", "h2c-many")}
    if not all(found.values()):
        return []
    h1, tls, connection, many = (median(of.values()) for of in found.values())
    stream = (many - connection) / (STREAMS - 1)
    beyond = connection - stream - h1
    return [
        f"- a held client over HTTP/1.1: {h1:,.0f} B, and {tls - h1:,.0f} B more over TLS",
        f"- a connection of HTTP/2 without its streams, beyond one of HTTP/1.1: {beyond:,.0f} B, "
        f"goal at most {CONNECTION_BYTES_MAX}: {_word(beyond <= CONNECTION_BYTES_MAX)}",
        f"- a further held stream: {stream:,.0f} B, {stream - h1:,.0f} B beyond a held client over HTTP/1.1, "
        f"goal at most {STREAM_BYTES_MAX} beyond: {_word(stream - h1 <= STREAM_BYTES_MAX)}",
    ]


def _ratio(
    values: Values,
    ours: tuple[str, str],
    theirs: tuple[str, str],
    name: str,
    title: str,
    at_most: float | None = None,
    at_least: float | None = None,
) -> list[str]:
    found = interval(ratios(values(*ours, name), values(*theirs, name)))
    if found is None:
        return []
    good = found.median <= at_most if at_most is not None else found.median >= (at_least or 0.0)
    bound = f"at most {at_most:g}" if at_most is not None else f"at least {at_least:g}"
    return [f"- {title}: {found.median:.3g}× [{found.low:.3g}, {found.high:.3g}], goal {bound}: {_word(good)}"]


def _word(good: bool) -> str:
    return "reached" if good else "MISSED"
