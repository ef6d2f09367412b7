# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reading JSON that may be anything: machines leave members out, change types and send null."""

from __future__ import annotations

import math
import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.texts import shown_text

Object = t.Mapping[str, t.Any]

LONGEST_TEXT = 1024
_LONGEST_NUMBER = 40
_LARGEST_WHOLE = 2**31 - 1
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?", re.ASCII)


def number(value: t.Any) -> float | None:
    """A finite number, also where it is written as text; a boolean is none."""
    if isinstance(value, str):
        # Firmware pads numbers with a few blanks, never with thousands.
        given = value.strip() if len(value) <= 2 * _LONGEST_NUMBER else ""
        is_number = len(given) <= _LONGEST_NUMBER and _NUMBER.fullmatch(given)
        value = float(given) if is_number else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


def whole(value: t.Any) -> int | None:
    """A number as an integer of 32 bits, which is what Kubernetes' objects hold of it."""
    found = number(value)
    return int(found) if found is not None and abs(found) <= _LARGEST_WHOLE else None


def text(value: t.Any, longest: int = LONGEST_TEXT) -> str:
    """A text without blanks around it, printable and not long; empty for anything else."""
    if not isinstance(value, str):
        return ""
    return shown_text(value[: 4 * longest].strip(), longest)[:longest]


def member(value: t.Any, *names: str) -> t.Any:
    """What stands below these names, one in the other; None where there is nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects(value: t.Any) -> list[Object]:
    """Those items of a list that are JSON objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
