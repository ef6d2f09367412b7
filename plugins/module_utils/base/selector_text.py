# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Label selectors in the text form of kubectl: ``hall=2,rack in (a, b),!spare``."""

from __future__ import annotations

import re

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import (
    LabelSelector,
    Requirement,
)

_KEY = r"[A-Za-z0-9](?:[-\w./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-\w.]*[A-Za-z0-9])?)?"
_COMPARED = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE})", re.ASCII)
_LISTED = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)", re.ASCII)
_PRESENT = re.compile(rf"(!?)\s*({_KEY})", re.ASCII)
_COMMA_OUTSIDE_PARENTHESES = re.compile(r",(?![^()]*\))")


def parse_selector_text(text: str, where: str = "selector") -> LabelSelector:
    """Parse a selector; an empty text selects everything. Raises InvalidInput."""
    parts = _COMMA_OUTSIDE_PARENTHESES.split(text) if text.strip() else []
    return LabelSelector(tuple(_requirement(part.strip(), where) for part in parts))


def _requirement(text: str, where: str) -> Requirement:
    compared = _COMPARED.fullmatch(text)
    if compared is not None:
        key, operator, value = compared.groups()
        return Requirement(key, "NotIn" if operator == "!=" else "In", frozenset({value}))
    listed = _LISTED.fullmatch(text)
    if listed is not None:
        key, operator, values = listed.groups()
        members = frozenset(value.strip() for value in values.split(","))
        if all(re.fullmatch(_VALUE, member, re.ASCII) for member in members):
            return Requirement(key, "In" if operator == "in" else "NotIn", members)
    present = _PRESENT.fullmatch(text)
    if present is not None:
        return Requirement(present.group(2), "DoesNotExist" if present.group(1) else "Exists")
    raise InvalidInput(
        f"{where}: {text!r} is not a requirement of a label selector; write one such as hall=2, "
        "hall!=2, hall in (1, 2), hall or !hall, separated by commas"
    )
