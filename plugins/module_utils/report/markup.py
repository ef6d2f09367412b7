# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""HTML as values: every text is escaped unless it is markup already."""

from __future__ import annotations

import html
import re
import typing as t

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_VOID = frozenset({"meta", "br", "circle", "path", "line", "rect", "wbr"})


class Markup(str):
    """Text that is HTML: made by the functions of this file, never from what a cluster says."""

    __slots__ = ()


Child = t.Union[str, int, Markup, None, t.Iterable["Child"]]


def escape(text: str | int) -> Markup:
    """The text as HTML shows it; control and direction characters are shown as replaced."""
    if isinstance(text, Markup):
        return text
    return Markup(html.escape(_CONTROL_CHARACTERS.sub("\ufffd", str(text)), quote=True))


def element(tag: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element; ``class_`` is the attribute class, ``data_x`` is ``data-x``, None is none."""
    parts = [f"<{tag}"]
    for key, value in attributes.items():
        attribute = key.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(f" {attribute}")
        elif value is not None and value is not False:
            parts.append(f' {attribute}="{escape(str(value))}"')
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
