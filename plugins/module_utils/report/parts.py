# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pictures of divided resources to scale, such as cache ways and GPU slices.

Each holder has a letter and one of four colours, so that colour is never the only distinction.
"""

from __future__ import annotations

import string
import typing as t
from dataclasses import dataclass

from .markup import Child, Markup, element

# More parts would be indistinguishable.
_MAX_STEPS = 512
# In user units; 16 equal the text height.
UNIT = 16
_HEIGHT, _FOOT = 18, 15
_COLOURS = 4
_LETTER = 8

Kind = t.Literal["free", "held", "unknown", "system", "unused"]


@dataclass(frozen=True)
class Part:
    """Adjacent equal units.

    ``letters`` are those of the holders; ``text`` is the caption of a part without holders.
    """

    first: float
    size: float
    kind: Kind
    letters: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True)
class Mark:
    """A line below related units, with its letter."""

    first: float
    size: float
    letter: str


def letter(number: int) -> str:
    """Letters of a holder: A to Z, then AA, AB and so on."""
    first, second = divmod(number, len(string.ascii_uppercase))
    return (letter(first - 1) if first else "") + string.ascii_uppercase[second]


def colour(letters: str) -> str:
    """CSS class of the colour of a holder."""
    value = 0
    for one in letters:
        value = value * len(string.ascii_uppercase) + ord(one) - ord("A") + 1
    return f"h{(value - 1) % _COLOURS}"


def holder(letters: str, name: str, what: str) -> Markup:
    """The entry of a holder below a picture."""
    return element(
        "li",
        element("b", letters, class_=f"holder {colour(letters)}"),
        element("span", name, " ", element("small", what)),
    )


def figure(drawn: Child, title: str, words: str) -> Markup:
    """Pictures with their caption."""
    return element("figure", drawn, element("figcaption", element("b", title), words))


def card(heading: str, figures: Child, holders: t.Sequence[Markup], more: Child = None) -> Markup:
    """The figures of a node, with the entries of its holders."""
    listed = element("ul", holders, class_="holders") if holders else None
    return element("div", element("h3", heading), figures, more, listed, class_="card")


def picture(
    units: float, parts: t.Sequence[Part], words: str, marks: t.Sequence[Mark] = (), steps: int = 0
) -> Markup:
    """A row of parts; ``words`` are the text alternative, "" if adjacent text says the same.

    ``steps`` is the number of units with separating lines.
    """
    height = _HEIGHT + (_FOOT if marks else 0)
    shapes = [shape for part in parts for shape in _box(part)]
    if 1 < steps <= _MAX_STEPS:
        lines = "".join(f"M{_short(units * UNIT * step / steps)} 0v18" for step in range(1, steps))
        shapes.append(element("path", d=lines, class_="cut"))
    step = units / steps if steps else 0.0
    shapes += [text for part in parts for text in _caption(part, step)]
    for mark in marks:
        begin, end = mark.first * UNIT, (mark.first + mark.size) * UNIT
        shapes.append(element("path", d=f"M{_short(begin + 1)} 21H{_short(end - 1)}"))
        shapes.append(_text((begin + end) / 2, 32, mark.letter, "pool"))
    return element(
        "svg",
        shapes,
        viewBox=f"0 0 {_short(units * UNIT)} {height}",
        style=f"width:{_short(units)}rem",
        class_="parts",
        role="img" if words else None,
        aria_label=words or None,
        aria_hidden=None if words else "true",
    )


def _box(part: Part) -> t.Iterator[Markup]:
    x, width = part.first * UNIT, part.size * UNIT
    class_ = colour(part.letters[0]) if part.kind == "held" else part.kind
    left, wide = _short(x + 0.5), _short(width - 1)
    yield element("rect", x=left, y=0.5, width=wide, height=_HEIGHT - 1, class_=class_)
    if part.kind == "unknown" and part.size <= _MAX_STEPS:
        slashes = "".join(
            f"M{_short(x + place)} 17l8-16" for place in range(1, max(2, int(width) - 8), 5)
        )
        yield element("path", d=slashes)


def _caption(part: Part, step: float) -> t.Iterator[Markup]:
    """Letter or text of a part, in its middle and beside any line between units."""
    text = part.text
    if part.letters:
        text = part.letters[0] if len(part.letters) == 1 else f"{part.letters[0]}+"
    if not text or len(text) * _LETTER > part.size * UNIT:
        return
    middle = part.size / 2
    if step:
        middle = ((round(part.size / step) - 1) // 2 + 0.5) * step
    x = (part.first + middle) * UNIT
    yield _text(x, 13.5, text, "on" if part.kind == "held" else None)


def _text(x: float, y: float, text: str, class_: str | None) -> Markup:
    return element("text", text, x=_short(x), y=y, class_=class_)


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
