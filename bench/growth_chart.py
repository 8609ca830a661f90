"""A chart of times as the store grows, as SVG: both axes are logarithmic, each database has a panel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

PANEL_WIDTH, HEIGHT = 420, 330
LEFT, RIGHT, TOP, BOTTOM = 66, 44, 44, 44
TIMES = (1, 3, 10, 30, 100, 300, 1_000, 3_000)
LIMIT = 100.0  # milliseconds that no page should take
COLOURS = ("#2f6fb7", "#c0582b", "#3a8a4d", "#8a4fa3", "#9a7b1c", "#5b6770")
Curve = Mapping[int, float]  # milliseconds by size


def growth_chart(panels: Mapping[str, Mapping[str, Curve]], caption: str) -> str:
    """Draw the curves of each panel; all panels have the same axes and the same names of curves."""
    sizes = sorted({size for curves in panels.values() for curve in curves.values() for size in curve})
    times = [ms for curves in panels.values() for curve in curves.values() for ms in curve.values()]
    ticks = [one for one in TIMES if min(times) / 3 < one < max(*times, LIMIT) * 3]
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    width, legend = PANEL_WIDTH * len(panels), 18 * math.ceil(len(names) / 3) + 12
    height = HEIGHT + legend
    box = f'viewBox="0 0 {width} {height}" role="img" font-family="sans-serif" font-size="12"'
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}><title>{escape(caption)}</title>',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    for place, (title, curves) in enumerate(panels.items()):
        drawn += _panel(place * PANEL_WIDTH, title, curves, names, sizes, ticks)
    for place, name in enumerate(names):
        x, y = LEFT + (place % 3) * (width - LEFT) // 3, HEIGHT + 14 + place // 3 * 18
        drawn.append(f'<rect x="{x}" y="{y - 9}" width="14" height="4" fill="{_colour(place)}"/>')
        drawn.append(f'<text x="{x + 20}" y="{y - 3}" fill="#222222">{escape(name)}</text>')
    return "\n".join([*drawn, "</svg>", ""])


def _panel(
    left: int,
    title: str,
    curves: Mapping[str, Curve],
    names: Sequence[str],
    sizes: Sequence[int],
    ticks: Sequence[float],
) -> list[str]:
    def x(size: float) -> float:
        inner = PANEL_WIDTH - LEFT - RIGHT
        return round(left + LEFT + inner * _share(size, sizes[0], sizes[-1]), 1)

    def y(ms: float) -> float:
        low, high = ticks[0], ticks[-1]
        share = _share(min(max(ms, low), high), low, high)
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * share, 1)

    right = left + PANEL_WIDTH - RIGHT
    drawn = [f'<text x="{left + LEFT}" y="24" font-size="15" fill="#222222">{escape(title)}</text>']
    for ms in ticks:
        drawn.append(f'<path d="M{left + LEFT} {y(ms)}H{right}" stroke="#dddddd"/>')
        drawn.append(
            f'<text x="{left + LEFT - 6}" y="{y(ms) + 4}" text-anchor="end" fill="#555555">{ms:g} ms</text>'
        )
    drawn.append(f'<path d="M{left + LEFT} {y(LIMIT)}H{right}" stroke="#b00020" stroke-dasharray="5 4"/>')
    middle = 'text-anchor="middle" fill="#555555"'
    drawn += [f'<text x="{x(size)}" y="{HEIGHT - BOTTOM + 20}" {middle}>{size:,}</text>' for size in sizes]
    drawn.append(f'<text x="{(left + LEFT + right) // 2}" y="{HEIGHT - 6}" {middle}>documents</text>')
    for name, curve in curves.items():
        colour = _colour(names.index(name))
        points = " ".join(f"{x(size)},{y(ms)}" for size, ms in sorted(curve.items()))
        drawn.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn += [f'<circle cx="{x(size)}" cy="{y(ms)}" r="3" fill="{colour}"/>' for size, ms in curve.items()]
    return drawn


def _share(value: float, low: float, high: float) -> float:
    return (math.log(value) - math.log(low)) / (math.log(high) - math.log(low)) if high > low else 0.5


def _colour(place: int) -> str:
    return COLOURS[place % len(COLOURS)]
