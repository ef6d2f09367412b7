# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""HTML as values: every text is escaped unless it is markup already."""

from __future__ import annotations

import html
import re
import typing as t

# Control characters, invisible ones, those that turn the direction, and halves of characters.
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
# The longest text of one cell: a message of a page, not a page.
_LONGEST_TEXT = 4000
_VOID = frozenset({"meta", "br", "circle", "path", "line", "rect", "wbr"})


class Markup(str):
    """Text that is HTML: made by the functions of this file, never from what a cluster says."""

    __slots__ = ()


Child = t.Union[str, int, Markup, None, t.Iterable["Child"]]


def escape(text: str | int) -> Markup:
    """The text as HTML shows it, cut where it is very long.

    Control and direction characters are shown as replaced.
    """
    if isinstance(text, Markup):
        return text
    shown = str(text)
    if len(shown) > _LONGEST_TEXT:
        shown = f"{shown[: _LONGEST_TEXT - 1]}…"
    return Markup(html.escape(_CONTROL_CHARACTERS.sub("\ufffd", shown), quote=True))


def element(tag: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element; ``class_`` is the attribute class, ``data_x`` is ``data-x``, None is none."""
    parts = [f"<{tag}"]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {attribute}")
        elif value is not None and value is not False:
            parts.append(
                f' {attribute}="{escape(value if isinstance(value, str) else str(value))}"'
            )
    if tag in _VOID:
        return Markup("".join(parts) + ("/>" if tag not in ("meta", "br", "wbr") else ">"))
    return Markup("".join(parts) + f">{join(children)}</{tag}>")


def join(children: t.Iterable[Child]) -> Markup:
    """Children one after the other; None is nothing."""
    return Markup("".join(map(_as_markup, children)))


def _as_markup(child: Child) -> Markup:
    if child is None:
        return Markup()
    if isinstance(child, (str, int)):
        return escape(child)
    return join(child)
