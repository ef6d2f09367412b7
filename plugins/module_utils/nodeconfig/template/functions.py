# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The functions of templates: a subset of Go's text/template and of sprig v3.

Names, argument order and results are theirs (https://pkg.go.dev/text/template,
https://masterminds.github.io/sprig/). Silent wrong results of the originals, such as 0 for a text
that is no number, are errors here.
"""

from __future__ import annotations

import math
import re
import typing as t
from dataclasses import dataclass

from .values import (
    MAX_TEXT_LENGTH,
    Refusal,
    Value,
    as_flag,
    as_text,
    as_whole,
    describe,
    printf,
    quote,
    show,
)

_GO_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008"
_GO_SPACE += "\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
_INTEGER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+|0|[1-9][0-9]*)")


def _as_list(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise Refusal(f"takes a list, not {describe(value)}; write splitList")
    return value


def _as_number(value: Value) -> int:
    """Sprig's cast to int64, also from decimal text or text with the prefix 0x, 0o or 0b."""
    if isinstance(value, (bool, int, float)):
        return int(value)
    if isinstance(value, str) and len(value) <= 64 and _INTEGER.fullmatch(value):
        return int(value, 0)
    hint = "; write atoi where zeros lead" if isinstance(value, str) and value[:1] == "0" else ""
    raise Refusal(f"takes whole numbers, not {describe(value)}{hint}")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(part: bytes) -> str:
    try:
        return part.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refusal("would cut a character in two: positions count bytes") from error


def _trim_prefix(prefix: str, text: str) -> str:
    return text[len(prefix) :] if text.startswith(prefix) else text


def _trim_suffix(suffix: str, text: str) -> str:
    return text[: -len(suffix)] if suffix and text.endswith(suffix) else text


def _lower(text: str) -> str:
    return "".join(character.lower()[0] for character in text)


def _upper(text: str) -> str:
    """Upper case by rune as in Go, without Python's expansion to several characters."""
    changed = ((character, character.upper()) for character in text)
    return "".join(upper if len(upper) == 1 else character for character, upper in changed)


def _substr(start: int, end: int, text: str) -> str:
    octets = _bytes(text)
    if start < 0:
        start = 0
    elif end < 0 or end > len(octets):
        end = len(octets)
    if not 0 <= start <= end <= len(octets):
        raise Refusal(f"cannot cut from {start} to {end}, as {describe(text)} is shorter")
    return _text(octets[start:end])


def _trunc(length: int, text: str) -> str:
    octets = _bytes(text)
    return _text(octets[length:] if length < 0 else octets[:length])


def _repeat(count: int, text: str) -> str:
    if count < 0 or count * len(text) > MAX_TEXT_LENGTH:
        raise Refusal(f"cannot repeat {describe(text)} {count} times")
    return text * count


def _split_list(separator: str, text: str) -> list[str]:
    return text.split(separator) if separator else list(text)


def _split(separator: str, text: str) -> dict[str, str]:
    return {f"_{index}": part for index, part in enumerate(_split_list(separator, text))}


def _divide(dividend: int, divisor: int) -> int:
    if divisor == 0:
        raise Refusal("cannot divide by 0")
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _atoi(text: str) -> int:
    if re.fullmatch(r"[+-]?[0-9]{1,19}", text) is None:
        raise Refusal(f"takes a whole number in decimal, not {describe(text)}")
    return int(text)


def _default(fallback: Value, *given: Value) -> Value:
    return given[0] if given and given[0] else fallback


def _and(*values: Value) -> Value:
    return next((value for value in values if not value), values[-1])


def _or(*values: Value) -> Value:
    return next((value for value in values if value), values[-1])


def _index(value: Value, *keys: Value) -> Value:
    for key in keys:
        if isinstance(value, dict):
            value = value.get(as_text(key), "")
        elif isinstance(value, list):
            if not 0 <= as_whole(key) < len(value):
                raise Refusal(f"has no member {key}: the list has {len(value)}, counted from 0")
            value = value[key]
        else:
            raise Refusal(f"takes a map or a list, not {describe(value)}")
    return value


def _length(value: Value) -> int:
    if isinstance(value, str):
        return len(_bytes(value))
    if isinstance(value, (list, dict)):
        return len(value)
    raise Refusal(f"takes text, a list or a map, not {describe(value)}")


def _check_alike(left: Value, right: Value, kinds: tuple[type, ...]) -> None:
    same = (isinstance(left, str) and isinstance(right, str)) or type(left) is type(right)
    if not same or not isinstance(left, kinds):
        raise Refusal(f"cannot compare {describe(left)} with {describe(right)}")


def _equal(first: Value, *others: Value) -> bool:
    for other in others:
        _check_alike(first, other, (str, int, float, bool))
    return first in others


def _less(left: Value, right: Value) -> bool:
    _check_alike(left, right, (str, int, float))
    if isinstance(left, bool):
        raise Refusal("cannot order truth values")
    return bool(left < right)


def _bounded(value: Value) -> Value:
    """Check the length of an argument, because annotations may have 256 KiB."""
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        raise Refusal(f"takes texts of at most {MAX_TEXT_LENGTH} characters, not {len(value)}")
    return value


def _replace(old: str, new: str, text: str) -> str:
    if text.count(old) * len(new) > MAX_TEXT_LENGTH:
        raise Refusal(f"makes a text of more than {MAX_TEXT_LENGTH} characters")
    return text.replace(old, new)


@dataclass(frozen=True)
class Function:
    """A function and the kinds of its arguments; a last kind with ``*`` may repeat."""

    run: t.Callable[..., Value]
    kinds: str

    def __call__(self, *arguments: Value) -> Value:
        """The result. Raises Refusal for unsuitable arguments."""
        kinds = self.kinds.split()
        fixed = len(kinds) - self.kinds.count("*")
        if len(arguments) < fixed or (len(arguments) > fixed and "*" not in self.kinds):
            least = "at least " if "*" in self.kinds else ""
            plural = "" if fixed == 1 else "s"
            raise Refusal(f"takes {least}{fixed} argument{plural}, not {len(arguments)}")
        kinds += kinds[-1:] * (len(arguments) - len(kinds))
        given = (_KINDS[kind.rstrip("*")](each) for kind, each in zip(kinds, arguments))
        result = self.run(*map(_bounded, given))
        if isinstance(result, str) and len(result) > MAX_TEXT_LENGTH:
            raise Refusal(f"makes a text of more than {MAX_TEXT_LENGTH} characters")
        if isinstance(result, int) and not -(2**63) <= result < 2**63:
            raise Refusal("gives a number that 64 bits cannot hold")
        return result


_KINDS: dict[str, t.Callable[[Value], Value]] = {
    "any": lambda value: value,
    "text": as_text,
    "whole": as_whole,
    "number": _as_number,
    "flag": as_flag,
    "list": _as_list,
}

FUNCTIONS: t.Mapping[str, Function] = {
    # sprig: text
    "trim": Function(lambda text: text.strip(_GO_SPACE), "text"),
    "trimAll": Function(lambda cutset, text: text.strip(cutset) if cutset else text, "text text"),
    "trimPrefix": Function(_trim_prefix, "text text"),
    "trimSuffix": Function(_trim_suffix, "text text"),
    "lower": Function(_lower, "text"),
    "upper": Function(_upper, "text"),
    "replace": Function(_replace, "text text text"),
    "substr": Function(_substr, "whole whole text"),
    "trunc": Function(_trunc, "whole text"),
    "repeat": Function(_repeat, "whole text"),
    "nospace": Function(lambda text: "".join(c for c in text if c not in _GO_SPACE), "text"),
    "contains": Function(lambda part, text: part in text, "text text"),
    "hasPrefix": Function(lambda prefix, text: text.startswith(prefix), "text text"),
    "hasSuffix": Function(lambda suffix, text: text.endswith(suffix), "text text"),
    "quote": Function(lambda *values: " ".join(quote(show(each)) for each in values), "any*"),
    "toString": Function(show, "any"),
    "split": Function(_split, "text text"),
    "splitList": Function(_split_list, "text text"),
    "first": Function(lambda values: values[0] if values else None, "list"),
    "last": Function(lambda values: values[-1] if values else None, "list"),
    # sprig: whole numbers
    "int": Function(int, "number"),
    "int64": Function(int, "number"),
    "atoi": Function(_atoi, "text"),
    "add": Function(lambda *numbers: sum(numbers), "number*"),
    "add1": Function(lambda number: number + 1, "number"),
    "sub": Function(lambda left, right: left - right, "number number"),
    "mul": Function(lambda *numbers: math.prod(numbers), "number number*"),
    "div": Function(_divide, "number number"),
    "mod": Function(lambda left, right: left - right * _divide(left, right), "number number"),
    "max": Function(lambda *numbers: max(numbers), "number number*"),
    "min": Function(lambda *numbers: min(numbers), "number number*"),
    # sprig: defaults
    "default": Function(_default, "any any*"),
    "empty": Function(lambda value: not value, "any"),
    "coalesce": Function(lambda *values: next(filter(None, values), None), "any*"),
    "ternary": Function(lambda yes, no, flag: yes if flag else no, "any any flag"),
    # Go
    "and": Function(_and, "any any*"),
    "or": Function(_or, "any any*"),
    "not": Function(lambda value: not value, "any"),
    "eq": Function(_equal, "any any any*"),
    "ne": Function(lambda left, right: not _equal(left, right), "any any"),
    "lt": Function(_less, "any any"),
    "le": Function(lambda left, right: _less(left, right) or left == right, "any any"),
    "gt": Function(lambda left, right: not (_less(left, right) or left == right), "any any"),
    "ge": Function(lambda left, right: not _less(left, right), "any any"),
    "index": Function(_index, "any any*"),
    "len": Function(_length, "any"),
    "printf": Function(printf, "text any*"),
}
