# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Values of templates, formatted as by Go's fmt package."""

from __future__ import annotations

import re
import typing as t
from decimal import Decimal

Value = t.Any  # str, int, float, bool, None, a list or a dict with text keys

# Limit of a value, because nested calls of replace or repeat could exhaust the memory.
MAX_TEXT_LENGTH = 4096

_VERB = re.compile(r"%([-+ 0]*)([0-9]*)(?:\.([0-9]*))?(.?)", re.DOTALL)
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}


class Refusal(Exception):
    """A function refuses its arguments; ``str()`` is the reason without the place."""


def describe(value: Value) -> str:
    """A value and its type in words, for messages."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return f"the truth value {show(value)}"
    if isinstance(value, (int, float)):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the text {value if len(value) <= 60 else value[:57] + '...'!r}"
    return "a map" if isinstance(value, dict) else "a list"


def show(value: Value) -> str:
    """A value as Go prints it. Raises Refusal for missing values, maps and lists."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _show_float(value)
    if value is None:
        raise Refusal("has no value to write; give one with default")
    raise Refusal(f"cannot write {describe(value)} into the text; take a member with index")


def _show_float(value: float) -> str:
    """Go's ``%v``: the shortest exact digits, with an exponent for large and tiny numbers."""
    if value == 0:
        return "-0" if str(value).startswith("-") else "0"
    decimal = Decimal(repr(value)).normalize()
    sign, digits, exponent = decimal.as_tuple()
    point = len(digits) + int(exponent)
    if -4 < point <= 6:
        return f"{decimal:f}"
    fraction = "".join(map(str, digits[1:]))
    mantissa = f"{digits[0]}.{fraction}" if fraction else str(digits[0])
    return f"{'-' if sign else ''}{mantissa}e{point - 1:+03d}"


def quote(text: str) -> str:
    """Go's strconv.Quote."""
    return f'"{"".join(_quoted(character) for character in text)}"'


def _quoted(character: str) -> str:
    code = ord(character)
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def as_text(value: Value) -> str:
    if not isinstance(value, str):
        raise Refusal(f"takes text, not {describe(value)}; write toString")
    return value


def as_whole(value: Value) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Refusal(f"takes a whole number, not {describe(value)}; write int or atoi")
    return value


def as_flag(value: Value) -> bool:
    if not isinstance(value, bool):
        raise Refusal(f"takes a truth value, not {describe(value)}; write eq or empty")
    return value


def printf(layout: str, *values: Value) -> str:
    """Go's fmt.Sprintf with the verbs s, d, v, q, x, X and t.

    Raises Refusal where Go would write an error such as ``%!d(string=7)`` into the result.
    """
    rest = list(values)

    def replace(match: re.Match[str]) -> str:
        flags, width, precision, verb = match.groups()
        if match.group() == "%%":
            return "%"
        if verb not in tuple("sdvqxXt") or (precision is not None and verb != "s"):
            raise Refusal(f"has no verb {match.group()[:20]}; write %s, %d, %x, %X, %q, %t or %v")
        if len(width) > 4 or int(width or 0) > MAX_TEXT_LENGTH or len(precision or "") > 4:
            raise Refusal(
                f"makes a text of more than {MAX_TEXT_LENGTH} characters with {width[:20]}"
            )
        if not rest:
            raise Refusal(f"has no argument for {match.group()[:20]}")
        return _formatted(rest.pop(0), verb, flags, int(width or 0), precision)

    text = _VERB.sub(replace, layout)
    if rest:
        raise Refusal(f"has {len(rest)} more arguments than verbs")
    return text


def _formatted(value: Value, verb: str, flags: str, width: int, precision: str | None) -> str:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if verb in "dxX" or (verb == "v" and is_whole):
        letter = "d" if verb == "v" else verb
        return str(f"%{flags}{width or ''}{letter}" % as_whole(value))
    if verb == "t":
        value = as_flag(value)
    elif verb in "sq":
        value = as_text(value)
    text = quote(value) if verb == "q" else show(value)
    if precision is not None:
        text = text[: int(precision or 0)]
    if "-" in flags:
        return text.ljust(width)
    return text.rjust(width, "0" if "0" in flags else " ")
