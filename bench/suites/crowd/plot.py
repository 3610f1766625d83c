"""Plots a run over time as SVG: held clients, connects and deliveries per second, time to the last client."""

from __future__ import annotations

from bench.lib.svg import document, text

from .parts import Part

WIDTH, LEFT, RIGHT, TOP = 900, 80, 20, 60
PANEL, GAP = 130, 56
SERIES = (
    ("held", "#06c", "open"),
    ("connects per second", "#888", "connects_per_s"),
    ("deliveries per second", "#083", "deliveries_per_s"),
    ("publish to receive, worst in each second, ms", "#c33", "max_us"),
)
NAMES_MAX = 12


def plot(parts: list[Part]) -> str:
    """Returns the SVG: for each part, a panel per series, one below the other."""
    out: list[str] = []
    y = TOP
    for part in parts:
        points = part.load.get("series", [])
        if not points:
            continue
        out.append(text(LEFT, y - 22, part.name, 'font-size="15" font-weight="bold"'))
        steps = part.load.get("steps", [])
        for title, colour, field in SERIES:
            scale = 0.001 if field == "max_us" else 1
            values = [point[field] * scale for point in points]
            if any(values):
                out += panel(y, title, colour, [point["at_s"] for point in points], values, steps)
                y += PANEL + GAP
        y += GAP // 2
    return document(WIDTH, y, out)


def panel(top: float, title: str, colour: str, times: list[float], values: list[float], steps: list[dict]) -> list[str]:
    right, bottom = WIDTH - RIGHT, top + PANEL
    end = max(times[-1], 1e-3)
    ceiling = ceiling_of(max(values))

    def x(at_s: float) -> float:
        return LEFT + at_s / end * (right - LEFT)

    def y(value: float) -> float:
        return bottom - value / ceiling * PANEL

    out = [text(LEFT, top - 6, title, f'fill="{colour}"')]
    for share in (0, 0.5, 1):
        level = y(ceiling * share)
        out.append(f'<path d="M{LEFT} {level:.1f}H{right}" stroke="#ddd"/>')
        out.append(text(LEFT - 6, level + 4, f"{ceiling * share:,.0f}", 'text-anchor="end"'))
    for step in steps[:NAMES_MAX]:
        at = x(step["from_s"])
        out.append(f'<path d="M{at:.1f} {top}V{bottom}" stroke="#bbb" stroke-dasharray="3 3"/>')
        out.append(text(at + 3, top + 11, step["name"], 'fill="#777" font-size="11"'))
    line = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in zip(times, values, strict=True))
    out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.5"/>')
    out.append(text(LEFT, bottom + 15, "0 s", 'text-anchor="middle" fill="#555"'))
    out.append(text(right, bottom + 15, f"{end:.0f} s", 'text-anchor="end" fill="#555"'))
    return out


def ceiling_of(highest: float) -> float:
    """Returns the next higher value that is 1, 2 or 5 times a power of ten."""
    power = 1.0
    while power * 10 < highest:
        power *= 10
    return next((power * factor for factor in (1, 2, 5) if power * factor >= highest), power * 10)
