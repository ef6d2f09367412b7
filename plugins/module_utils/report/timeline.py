# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A picture of values over hours, such as awake machines under the demand."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from .markup import Markup, element
from .numbers import number

# In user units of the picture.
_WIDTH, _HEIGHT = 760, 190


@dataclass(frozen=True)
class Line:
    """Values on a scale from 0 to ``most``; ``name`` says what they are.

    A ``bold`` line is drawn in colour, and another one in ink, so that colour is not the only
    distinction. In a staircase, each value holds until the next hour.
    """

    name: str
    values: t.Sequence[float]
    most: float
    bold: bool = False
    is_staircase: bool = True


def timeline(hours: t.Sequence[float], lines: t.Sequence[Line], words: str) -> list[Markup]:
    """A legend, and a picture of one height on all screens, with days below it.

    ``words`` are its text alternative. ``hours`` begin at 0, and the last one is above 0. Later
    lines are drawn above earlier ones.
    """
    grid = "".join(f"M0 {_HEIGHT * step / 4:.1f}H{_WIDTH}" for step in range(5))
    picture = element(
        "svg",
        element("path", d=grid, class_="axis"),
        [
            element("path", d=_path(line, hours), class_="way" if line.bold else "mark")
            for line in lines
        ],
        viewBox=f"0 -2 {_WIDTH} {_HEIGHT + 4}",
        class_="timeline",
        preserveAspectRatio="none",
        role="img",
        aria_label=words,
    )
    days = hours[-1] / 24
    parts = next((count for count in range(8, 1, -1) if round(days) % count == 0), 4)
    marks = [days * step / parts for step in range(parts + 1)]
    decimals = 0 if all(abs(mark - round(mark)) < 0.05 for mark in marks) else 1
    ends = element(
        "div", [element("span", f"{number(mark, decimals)} d") for mark in marks], class_="figures"
    )
    keys = [
        element(
            "li",
            element("i", class_="key is" if line.bold else "key dash"),
            f"{line.name}, 0 to {number(line.most)}",
        )
        for line in reversed(lines)
    ]
    return [element("ul", keys, class_="legend"), element("figure", picture, ends)]


def _path(line: Line, hours: t.Sequence[float]) -> Markup:
    """Numbers alone, and longer than a text may be."""
    points = [
        (f"{_WIDTH * hour / hours[-1]:.1f}", f"{_HEIGHT * (1 - value / line.most):.1f}")
        for hour, value in zip(hours, line.values)
    ]
    if not line.is_staircase:
        return Markup("M" + "L".join(f"{x} {y}" for x, y in points))
    return Markup(f"M{' '.join(points[0])}" + "".join(f"H{x}V{y}" for x, y in points[1:]))
