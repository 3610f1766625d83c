"""Helpers that generate the SVG of plots."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def document(width: float, height: float, parts: Iterable[str]) -> str:
    """Returns an SVG document with a white background."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        'font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>", ""])


def text(x: float, y: float, content: str, attributes: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" {attributes}>{escape(content)}</text>'


def rectangle(x: float, y: float, width: float, height: float, colour: str) -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}" fill="{colour}"/>'


def line(path: str, colour: str) -> str:
    return f'<path d="{path}" fill="none" stroke="{colour}"/>'
