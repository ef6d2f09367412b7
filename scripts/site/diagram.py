# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Mermaid flowcharts from bottom to top as SVG, so that the site needs no program of Mermaid.

The charts have lines `a[text]`, `a --> b` and `a ==text==> b`; thick arrows do not move boxes.
"""

from __future__ import annotations

import re
from html import escape
from itertools import pairwise

BOX_WIDTH, BOX_HEIGHT, GAP, LAYER = 96, 28, 14, 76
# Place that an arrow takes where it passes a layer.
PASSAGE = 12
# Thick arrows begin and end beside the middle of a box, where thin ones are.
ASIDE = 30
MARGIN = 12
Point = tuple[float, float]
_THIN = re.compile(r"^ *(\w+) --> (\w+)$", re.MULTILINE)
_THICK = re.compile(r"^ *(\w+) ==(.+?)==> (\w+)$", re.MULTILINE)
_BOX = re.compile(r"^ *(\w+)\[(.+)\]$", re.MULTILINE)


def svg(chart: str) -> str:
    """The chart in the colours of the page around it."""
    boxes = dict(_BOX.findall(chart))
    thin = _THIN.findall(chart)
    layers, ways = _with_passages(_layers(list(boxes), thin), thin)
    layers = _ordered(layers, [step for way in ways for step in pairwise(way)])
    widths = [sum(_width(name) + GAP for name in layer) - GAP for layer in layers]
    width = max(widths) + 2 * MARGIN
    height = (len(layers) - 1) * LAYER + BOX_HEIGHT + 2 * MARGIN
    places: dict[str, Point] = {}
    for level, layer in enumerate(layers):
        left = (width - widths[level]) / 2
        for name in layer:
            y = height - MARGIN - BOX_HEIGHT / 2 - level * LAYER
            places[name] = (left + _width(name) / 2, y)
            left += _width(name) + GAP
    parts = [_way([places[name] for name in way]) for way in ways]
    parts += [_box(places[name], text) for name, text in boxes.items()]
    parts += [_flow(places[a], places[b], text) for a, text, b in _THICK.findall(chart)]
    return (
        f'<svg class="diagram" role="img" aria-label="Diagram of {", ".join(boxes.values())}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" style="min-width: {width * 0.7:.0f}px">'
        f"{''.join(parts)}</svg>"
    )


def _width(name: str) -> int:
    return BOX_WIDTH if name.isidentifier() else PASSAGE


def _layers(names: list[str], arrows: list[tuple[str, str]]) -> list[list[str]]:
    """The boxes, the lowest layer first: each is above all boxes that lead to it."""
    heights = dict.fromkeys(names, 0)
    for _round in names:
        for start, end in arrows:
            heights[end] = max(heights[end], heights[start] + 1)
    return [
        [name for name in names if heights[name] == level]
        for level in range(max(heights.values()) + 1)
    ]


def _with_passages(
    layers: list[list[str]], arrows: list[tuple[str, str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """The layers with a passage for each arrow that crosses them, and the way of each arrow."""
    level = {name: number for number, layer in enumerate(layers) for name in layer}
    layers = [list(layer) for layer in layers]
    ways = []
    for start, end in arrows:
        crossed = range(level[start] + 1, level[end])
        passages = [f"{start} {end} {number}" for number in crossed]
        for number, passage in zip(crossed, passages, strict=True):
            layers[number].append(passage)
        ways.append([start, *passages, end])
    return layers, ways


def _ordered(layers: list[list[str]], steps: list[tuple[str, str]]) -> list[list[str]]:
    """The layers with each member near the middle of its neighbours below and above."""
    for _round in range(12):
        share = {
            name: (position + 0.5) / len(layer)
            for layer in layers
            for position, name in enumerate(layer)
        }

        def middle(name: str, share: dict[str, float] = share) -> float:
            near = [share[a] for a, b in steps if b == name]
            near += [share[b] for a, b in steps if a == name]
            return sum(near) / len(near) if near else share[name]

        layers = [sorted(layer, key=middle) for layer in layers]
    return layers


def _way(points: list[Point]) -> str:
    """An arrow upwards through its passages."""
    path = ""
    last = len(points) - 2
    for number, ((x1, y1), (x2, y2)) in enumerate(pairwise(points)):
        low = y1 - BOX_HEIGHT / 2
        high = y2 + BOX_HEIGHT / 2 + (5 if number == last else 0)
        bend = (low + high) / 2
        path += f"M{x1:.0f} {low:.0f}C{x1:.0f} {bend:.0f} {x2:.0f} {bend:.0f} {x2:.0f} {high:.0f}"
        if number < last:
            path += f"V{y2 - BOX_HEIGHT / 2:.0f}"
    return f'<path class="thin" d="{path}"/>{_tip(points[-1][0], high, 1, "thin")}'


def _flow(start: Point, end: Point, text: str) -> str:
    """A thick arrow with its text; an arc above the boxes if both are in one layer."""
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:
        top = y1 - BOX_HEIGHT / 2
        arc = f"M{x1:.0f} {top:.0f}C{x1:.0f} {top - 30:.0f} {x2:.0f} {top - 30:.0f} {x2:.0f} {top - 6:.0f}"
        label = ((x1 + x2) / 2, top - 24)
        tip = _tip(x2, top - 5, -1, "thick")
    else:
        up = 1 if y1 > y2 else -1
        x1, x2 = x1 + up * ASIDE, x2 + up * ASIDE
        low, high = y1 - up * BOX_HEIGHT / 2, y2 + up * (BOX_HEIGHT / 2 + 5)
        bend = (low + high) / 2
        arc = f"M{x1:.0f} {low:.0f}C{x1:.0f} {bend:.0f} {x2:.0f} {bend:.0f} {x2:.0f} {high:.0f}"
        # Between the last two layers, where no box is.
        label = (x1 + 0.85 * (x2 - x1) + up * ASIDE, high + up * (LAYER - BOX_HEIGHT) / 2)
        tip = _tip(x2, high, up, "thick")
    where = f'x="{label[0]:.0f}" y="{label[1] + 4:.0f}"'
    return f'<path class="thick" d="{arc}"/>{tip}<text class="label" {where}>{escape(text)}</text>'


def _tip(x: float, y: float, up: int, kind: str) -> str:
    """The head of an arrow that ends at this height; `up` is 1, or -1 for down."""
    base = y + up * 3
    return f'<path class="{kind} tip" d="M{x - 4:.0f} {base:.0f}L{x:.0f} {y - up * 4:.0f}L{x + 4:.0f} {base:.0f}Z"/>'


def _box(place: Point, text: str) -> str:
    x, y = place
    box = f'x="{x - BOX_WIDTH / 2:.0f}" y="{y - BOX_HEIGHT / 2:.0f}"'
    return (
        f'<rect {box} width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="5"/>'
        f'<text x="{x:.0f}" y="{y + 4:.0f}">{escape(text)}</text>'
    )
