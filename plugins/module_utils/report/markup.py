# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""HTML as values; every text is escaped unless it is markup."""

from __future__ import annotations

import html
import re
import typing as t

# Control characters, invisible ones, direction marks and surrogates.
_CONTROL_CHARACTERS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    r"\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff]"
)
# Longest text of one cell.
_MAX_TEXT_LENGTH = 4000
_VOID = frozenset({"meta", "br", "circle", "path", "line", "rect", "wbr"})


class Markup(str):
    """HTML text; only the functions of this file create it, never from texts of a cluster."""

    __slots__ = ()


Child = t.Union[str, int, Markup, None, t.Iterable["Child"]]


def escape(text: str | int) -> Markup:
    """The text escaped for HTML and shortened if very long.

    Control and direction characters are replaced by a symbol.
    """
    if isinstance(text, Markup):
        return text
    shown = str(text)
    if len(shown) > _MAX_TEXT_LENGTH:
        shown = f"{shown[: _MAX_TEXT_LENGTH - 1]}…"
    return Markup(html.escape(_CONTROL_CHARACTERS.sub("\ufffd", shown), quote=True))


def element(tag: str, *children: Child, **attributes: str | float | bool | None) -> Markup:
    """One element; ``class_`` is the attribute class, ``data_x`` is ``data-x``, None omits it."""
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
    """Concatenation of children; None is omitted."""
    return Markup("".join(map(_as_markup, children)))


def _as_markup(child: Child) -> Markup:
    if child is None:
        return Markup()
    if isinstance(child, (str, int)):
        return escape(child)
    return join(child)
