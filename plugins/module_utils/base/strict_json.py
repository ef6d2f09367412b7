# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""JSON by RFC 8259 within limits: finite numbers, bounded depth, members and digits.

Python's reader accepts NaN, reads 1e999 as infinity, and lets small texts become large values.
"""

from __future__ import annotations

import json
import math
import typing as t
from dataclasses import dataclass

from .json_types import MutableObject

_MAX_NUMBER_LENGTH = 40
_DEEPEST = 100
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))


@dataclass(frozen=True)
class JsonLimits:
    """Limits of one document: bytes, members plus items, depth, and bytes of one text."""

    size: int
    members: int
    depth: int = _DEEPEST
    text: int | None = None


def parse(
    text: str | bytes,
    limits: JsonLimits | None = None,
    object_hook: t.Callable[[MutableObject], t.Any] | None = None,
    *,
    lenient: bool = False,
) -> t.Any:
    """Parse a JSON text. Raises ValueError, whose message names the defect.

    Limits are checked before any value is built, so that they bound work and memory. A ``lenient``
    reading treats invalid numbers as null, because firmware writes NaN for a missing reading beside
    valid ones.
    """
    if limits is not None:
        _check(text, limits)
    try:
        return json.loads(
            text,
            object_hook=object_hook,
            parse_int=_or_none(_whole_number) if lenient else _whole_number,
            parse_float=_or_none(_finite_number) if lenient else _finite_number,
            parse_constant=_or_none(_refuse_constant) if lenient else _refuse_constant,
        )
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def decode_at(text: str, position: int) -> tuple[t.Any, int]:
    """The value that begins at ``position``, and its end. Raises ValueError like ``parse``."""
    try:
        return _DECODER.raw_decode(text, position)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def format_compact(value: t.Any, *, sort_keys: bool = False) -> str:
    """JSON without blanks, in ASCII. Raises ValueError for non-finite numbers."""
    return json.dumps(value, separators=(",", ":"), sort_keys=sort_keys, allow_nan=False)


def members_of(raw: bytes) -> int:
    """Upper bound of the members and items of a JSON document, counted without parsing.

    Every member except the first of its parent follows a comma.
    """
    return raw.count(b",") + raw.count(b"{") + raw.count(b"[")


def _check(text: str | bytes, limits: JsonLimits) -> None:
    if len(text) > limits.size:
        raise ValueError(f"it has {len(text)} bytes; the limit is {limits.size}")
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if members_of(raw) > limits.members:
        raise ValueError(f"it has more than {limits.members} members")
    is_deep = raw.count(b"{") + raw.count(b"[") > limits.depth
    is_long = limits.text is not None and len(raw) > limits.text
    if not is_deep and not is_long:
        return
    pieces = raw.replace(rb"\\", b"__").replace(rb"\"", b"__")
    # A member has at most two texts, so more quotation marks are no valid JSON.
    if pieces.count(b'"') > 4 * (limits.members + 1):
        raise ValueError(f"it has more than {limits.members} members")
    parts = pieces.split(b'"')
    if is_deep and _depth(parts[::2]) > limits.depth:
        raise ValueError(f"it is nested more than {limits.depth} deep")
    if limits.text is not None and max(map(len, parts[1::2]), default=0) > limits.text:
        raise ValueError(f"it holds a text of more than {limits.text} bytes")


def _depth(outside: t.Sequence[bytes]) -> int:
    """Nesting depth of the brackets outside of texts."""
    depth = deepest = 0
    for bracket in b"".join(outside).translate(None, _NO_BRACKETS):
        depth += 1 if bracket in b"{[" else -1
        deepest = max(deepest, depth)
    return deepest


def _or_none(read: t.Callable[[str], t.Any]) -> t.Callable[[str], t.Any]:
    def read_or_none(text: str) -> t.Any:
        try:
            return read(text)
        except ValueError:
            return None

    return read_or_none


def _whole_number(digits: str) -> int:
    if len(digits) > _MAX_NUMBER_LENGTH:
        raise ValueError(f"it holds a number of {len(digits)} digits")
    return int(digits)


def _finite_number(digits: str) -> float:
    value = float(digits) if len(digits) <= 10 * _MAX_NUMBER_LENGTH else math.inf
    if not math.isfinite(value):
        raise ValueError("it holds a number that is not finite or has too many digits")
    return value


def _refuse_constant(name: str) -> t.NoReturn:
    raise ValueError(f"it holds {name}, which is not a JSON number")


_DECODER = json.JSONDecoder(
    parse_int=_whole_number, parse_float=_finite_number, parse_constant=_refuse_constant
)
