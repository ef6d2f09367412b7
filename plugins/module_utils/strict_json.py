# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""JSON as RFC 8259 has it, within limits: finite numbers, bounded depth, members and digits.

Python's own reader takes NaN, makes infinity of 1e999, and lets a small text become large values.
"""

from __future__ import annotations

import json
import math
import typing as t
from dataclasses import dataclass

_LONGEST_NUMBER = 40
_DEEPEST = 100
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))


@dataclass(frozen=True)
class JsonLimits:
    """Bounds of one text: its bytes, its members and items together, and its depth."""

    size: int
    members: int
    depth: int = _DEEPEST


def parse(
    text: str | bytes,
    limits: JsonLimits | None = None,
    object_hook: t.Callable[[dict[str, t.Any]], t.Any] | None = None,
) -> t.Any:
    """The value of a JSON text. Raises ValueError, whose message says what is wrong with it.

    Limits are checked before any value is built, so that work and memory stay proportional to the
    size that they allow.
    """
    if limits is not None:
        _check(text, limits)
    try:
        return json.loads(
            text,
            object_hook=object_hook,
            parse_int=_whole_number,
            parse_float=_finite_number,
            parse_constant=_refuse_constant,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def format_compact(value: t.Any, *, sort_keys: bool = False) -> str:
    """JSON without blanks, in ASCII. Raises ValueError for numbers that are not finite."""
    return json.dumps(value, separators=(",", ":"), sort_keys=sort_keys, allow_nan=False)


def _check(text: str | bytes, limits: JsonLimits) -> None:
    if len(text) > limits.size:
        raise ValueError(f"it has {len(text)} bytes, and {limits.size} are the limit")
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    # Every member but the first of its parent has a comma before it.
    openings = raw.count(b"{") + raw.count(b"[")
    if raw.count(b",") + openings > limits.members:
        raise ValueError(f"it has more than {limits.members} members")
    if openings > limits.depth and _depth(raw) > limits.depth:
        raise ValueError(f"it is nested more than {limits.depth} deep")


def _depth(raw: bytes) -> int:
    """How deep brackets are nested outside of texts."""
    outside = raw.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2]
    depth = deepest = 0
    for bracket in b"".join(outside).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"{[" else -1
        deepest = max(deepest, depth)
    return deepest


def _whole_number(digits: str) -> int:
    if len(digits) > _LONGEST_NUMBER:
        raise ValueError(f"it holds a number of {len(digits)} digits")
    return int(digits)


def _finite_number(digits: str) -> float:
    value = float(digits) if len(digits) <= 10 * _LONGEST_NUMBER else math.inf
    if not math.isfinite(value):
        raise ValueError("it holds a number that is not finite or has too many digits")
    return value


def _refuse_constant(name: str) -> t.NoReturn:
    raise ValueError(f"it holds {name}, which is no number of JSON")
