# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Reading JSON that may be anything: machines leave members out, change types and send null."""

from __future__ import annotations

import math
import re
import typing as t

Object = t.Mapping[str, t.Any]

_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?\s*", re.ASCII)


def number(value: t.Any) -> float | None:
    """A finite number, also where it is written as text; a boolean is none."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        as_float = float(value)
    except OverflowError:
        return None
    return as_float if math.isfinite(as_float) else None


def text(value: t.Any) -> str:
    """A text without blanks around it; empty for anything else."""
    return value.strip() if isinstance(value, str) else ""


def member(value: t.Any, *names: str) -> t.Any:
    """What stands below these names, one in the other; None where there is nothing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def objects(value: t.Any) -> list[Object]:
    """Those items of a list that are JSON objects."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
