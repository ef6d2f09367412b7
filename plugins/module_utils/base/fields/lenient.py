# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lenient access to JSON with missing members, changed types and nulls, as machines send it."""

from __future__ import annotations

import math
import re
import typing as t

from ..json_types import MutableObject, Object
from ..texts import shown_text

MAX_TEXT_LENGTH = 1024
_MAX_NUMBER_LENGTH = 40
_MAX_WHOLE = 2**31 - 1
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)


def number(value: t.Any) -> float | None:
    """A finite number, also from a text; None for booleans and anything else."""
    if isinstance(value, str):
        # Firmware pads numbers with a few blanks; longer texts are no numbers.
        given = value.strip() if len(value) <= 2 * _MAX_NUMBER_LENGTH else ""
        is_number = len(given) <= _MAX_NUMBER_LENGTH and _NUMBER.fullmatch(given)
        value = float(given) if is_number else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


def whole(value: t.Any) -> int | None:
    """A number as an integer of 32 bits, the type in Kubernetes objects."""
    found = number(value)
    return int(found) if found is not None and abs(found) <= _MAX_WHOLE else None


def count(value: t.Any, most: int = _MAX_WHOLE) -> int | None:
    """A number from 1 to ``most`` as an integer; None for anything else."""
    found = number(value)
    return int(found) if found is not None and 1 <= found <= most else None


def text(value: t.Any, longest: int = MAX_TEXT_LENGTH) -> str:
    """A stripped, printable text of limited length; empty for anything else."""
    if not isinstance(value, str):
        return ""
    return shown_text(value[: 4 * longest].strip(), longest)[:longest]


def member(value: t.Any, *names: str) -> t.Any:
    """The value under these nested names; None if there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects(value: t.Any) -> list[Object]:
    """The items of a list that are JSON objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def only(*paths: str) -> t.Callable[[Object], MutableObject]:
    """A function that keeps only these members of an object, each a path like ``metadata.name``."""
    kept = [path.split(".") for path in paths]

    def trim(item: Object) -> MutableObject:
        found: MutableObject = {}
        for names in kept:
            value = member(item, *names)
            if value is not None:
                place = found
                for name in names[:-1]:
                    place = place.setdefault(name, {})
                place[names[-1]] = value
        return found

    return trim
