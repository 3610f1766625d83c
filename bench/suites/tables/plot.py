"""Plots a table as SVG: a bar per peer in every row, with the range over its rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.lib.svg import document, line, rectangle, text

WIDTH, LEFT, RIGHT, TOP = 900, 210, 170, 48
BAR, GAP, TITLE = 16, 6, 34
OURS, CONTROL, OTHERS = "#06c", "#7ab", "#bbb"


@dataclass(frozen=True)
class Bar:
    """The bar of one peer."""

    name: str
    value: float
    lowest: float
    highest: float
    note: str
    """Text behind the figure, such as a ratio."""
    colour: str


@dataclass(frozen=True)
class Panel:
    """A row of the table, the best peer first."""

    title: str
    bars: list[Bar]
    show: Callable[[float], str]


def plot(title: str, panels: list[Panel]) -> str:
    """Returns an SVG with all panels, one below the other."""
    out = [text(12, 26, title, 'font-size="17" font-weight="bold"')]
    y = float(TOP)
    for panel in panels:
        out.append(text(12, y + 18, panel.title, 'font-weight="bold"'))
        y += TITLE
        longest = max((bar.highest for bar in panel.bars), default=0) or 1.0
        for bar in panel.bars:
            out += _bar(y, bar, (WIDTH - LEFT - RIGHT) / longest, panel.show)
            y += BAR + GAP
        y += GAP
    return document(WIDTH, y + GAP, out)


def _bar(y: float, bar: Bar, scale: float, show: Callable[[float], str]) -> list[str]:
    middle = y + BAR / 2
    low, high = LEFT + bar.lowest * scale, LEFT + bar.highest * scale
    label = f"{show(bar.value)}  {bar.note}".rstrip()
    return [
        text(LEFT - 8, y + 12, bar.name, 'text-anchor="end"'),
        rectangle(LEFT, y, bar.value * scale, BAR, bar.colour),
        line(f"M{low:.1f} {middle:.1f}H{high:.1f}M{low:.1f} {y + 4:.1f}v8M{high:.1f} {y + 4:.1f}v8", "#444"),
        text(high + 6, y + 12, label, 'fill="#333"'),
    ]
