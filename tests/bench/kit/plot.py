# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plots for the pages: points over two axes, as plain SVG."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

Point = tuple[float, float]

WIDTH = 760
LEFT, RIGHT, TOP, BOTTOM = 230, 20, 40, 70
# Distinguishable with every kind of colour vision (Okabe and Ito), and by symbol.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#5a5a5a")


@dataclass(frozen=True)
class Axis:
    """`ticks` maps values to texts; the first and last are the ends of the axis."""

    title: str
    ticks: Mapping[float, str]
    logarithmic: bool = False

    def share(self, value: float) -> float:
        """Position of a value between the ends; values beyond an end are clamped to it."""
        ends = (min(self.ticks), max(self.ticks))
        low, high, at = (
            math.log10(each) if self.logarithmic else each
            for each in (*ends, min(max(value, ends[0]), ends[1]))
        )
        return (at - low) / (high - low)


@dataclass(frozen=True)
class Series:
    """Points of one name; `joined` draws a line through them, and `line` nothing but the line."""

    name: str
    points: Sequence[Point]
    joined: bool = False
    line: bool = False


def plot(title: str, across: Axis, up: Axis, series: Sequence[Series], height: int = 420) -> str:
    """The plot as an SVG document, without a legend if there is one series."""
    inner = (WIDTH - LEFT - RIGHT, height - TOP - BOTTOM)

    def place(point: Point) -> Point:
        x = LEFT + inner[0] * across.share(point[0])
        return x, TOP + inner[1] * (1 - up.share(point[1]))

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}" font-family="sans-serif" font-size="12" fill="#222">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="{LEFT}" y="22" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for value, text in across.ticks.items():
        x = LEFT + inner[0] * across.share(value)
        lines.append(f'<path d="M{x:.1f} {TOP}V{TOP + inner[1]}" stroke="#ddd"/>')
        lines.append(_text(x, TOP + inner[1] + 16, text, "middle"))
    for value, text in up.ticks.items():
        y = TOP + inner[1] * (1 - up.share(value))
        lines.append(f'<path d="M{LEFT} {y:.1f}H{LEFT + inner[0]}" stroke="#ddd"/>')
        lines.append(_text(LEFT - 8, y + 4, text, "end"))
    lines.append(_text(LEFT + inner[0] / 2, TOP + inner[1] + 36, across.title, "middle"))
    lines.append(_text(LEFT - 8, TOP - 12, up.title, "end"))
    for number, each in enumerate(series):
        lines += _drawn(number, each, [place(point) for point in each.points])
    if len(series) > 1:
        lines += _legend([each.name for each in series], height)
    return "\n".join([*lines, "</svg>\n"])


def _drawn(number: int, series: Series, places: Sequence[Point]) -> Iterator[str]:
    colour = COLOURS[number % len(COLOURS)]
    if series.joined or series.line:
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
    if series.line:
        return
    marks = "".join(_symbol(number, x, y) for x, y in places)
    yield f'<path d="{marks}" fill="{colour}" fill-opacity=".7"/>'


def _symbol(number: int, x: float, y: float) -> str:
    """Path of a disc, a square, a triangle, a diamond or a bar."""
    shapes = (
        "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        "m-3.5-3.5h7v7h-7z",
        "m0-4.5l4.5 8h-9z",
        "m0-5l5 5l-5 5l-5-5z",
        "m-5-1.5h10v3h-10z",
    )
    return f"M{x:.1f} {y:.1f}{shapes[number % len(shapes)]}"


def _legend(names: Sequence[str], height: int) -> Iterator[str]:
    step = (WIDTH - 2 * RIGHT) / len(names)
    for number, name in enumerate(names):
        x, y = RIGHT + number * step, height - 12
        colour = COLOURS[number % len(COLOURS)]
        yield f'<path d="{_symbol(number, x, y - 4)}" fill="{colour}"/>'
        yield _text(x + 9, y, name, "start")


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'
