# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection's messages, with a mark for each part that is filled in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import yaml

from support.pages import ROOT

HOLE = "…"
_EXPRESSION = re.compile(r"\{\{.*?\}\}", re.DOTALL)


@cache
def code_texts() -> frozenset[str]:
    """Texts of the library, the modules and the lab, and failure messages of roles."""
    found: set[str] = set()
    for folder in ("plugins", "lab"):
        for path in (ROOT / folder).rglob("*.py"):
            found.update(_texts(ast.parse(path.read_text(encoding="utf-8"))))
    for path in (ROOT / "roles").glob("*/tasks/*.yml"):
        found.update(_messages(yaml.safe_load(path.read_text(encoding="utf-8"))))
    return frozenset(found)


def matches(message: str, text: str) -> bool:
    """Whether the text is an instance of the message, whose holes may be anything."""
    if message == HOLE or not text.strip(f"{HOLE} "):
        return False
    parts = message.split(HOLE)
    # Few texts contain all parts; the regular expression, which also checks their order, is slow.
    if not all(part in text for part in parts):
        return False
    return re.search(".+?".join(map(re.escape, parts)), text) is not None


def _texts(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else HOLE for part in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _messages(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key in ("fail_msg", "msg") and isinstance(member, str):
                yield " ".join(_EXPRESSION.sub(HOLE, member).split())
            yield from _messages(member)
    elif isinstance(value, list):
        for item in value:
            yield from _messages(item)
