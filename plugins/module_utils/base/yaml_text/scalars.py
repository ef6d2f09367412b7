# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Scalars of YAML as kubectl reads them: neither YAML 1.1 nor 1.2, but sigs.k8s.io/yaml.

``yes`` and ``on`` are true and 010 is 8, as in YAML 1.1; 0o10 is 8 too, as in 1.2. Dates, times,
``=`` and addresses with colons are texts. tests/conformance/kubectl_yaml has Go's answers.
"""

from __future__ import annotations

import base64
import math
import re
import struct
import typing as t
from decimal import Decimal

Scalar = t.Union[str, int, float, bool, None]

_TAG = "tag:yaml.org,2002:"
_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(
        ("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"), True
    ),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_RESOLVED_TAGS = frozenset(("bool", "int", "float", "null", "timestamp"))
_WHOLE = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)"
    r"|0[oO]?(?P<octal>[0-7]+)|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES = {"hexadecimal": 16, "binary": 2, "octal": 8, "decimal": 10}
# 2^64 has 64 binary digits; leading zeros are no digits of a value.
_MAX_DIGITS = {"hexadecimal": 16, "binary": 64, "octal": 22, "decimal": 20}
_FRACTION = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
# Before a point Go takes underscores away, after it they must stand between digits.
_POINT = re.compile(r"\.[0-9]+(_[0-9]+)*([eE][-+]?[0-9]+(_[0-9]+)*)?")
_MIN, _MAX, _MAX_UNSIGNED = -(2**63), 2**63 - 1, 2**64 - 1
# Go writes larger numbers with an exponent, in values and in keys.
_FIRST_WITH_EXPONENT = 1e21
_KEYS_WITHOUT_EXPONENT = range(-4, 6)


def scalar(text: str, tag: str | None, is_plain: bool) -> Scalar:
    """The value of a scalar with these fields of its event. Raises ValueError with a reason."""
    kind = tag.removeprefix(_TAG) if tag else ""
    if tag == "!" or kind == "str" or (not tag and not is_plain):
        return text
    if kind == "binary":
        return _binary(text)
    if tag and (kind == tag or kind not in _RESOLVED_TAGS):
        return text
    value = _resolved(text)
    if kind == "float" and isinstance(value, int) and _kind(value) == "int" and value <= _MAX:
        return float(value)
    if kind and _kind(value) != kind:
        raise ValueError(f"a scalar with the tag !!{kind} is of another type")
    return value


def json_value(value: Scalar) -> Scalar:
    """The value as it comes back from JSON, where Go writes 1000.0 as 1000.

    Raises ValueError for infinity and NaN.
    """
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError("JSON has no .inf and no .nan")
    if value.is_integer() and abs(value) < _FIRST_WITH_EXPONENT:
        return int(Decimal(repr(value)))
    return value


def key_text(value: Scalar) -> str:
    """The member name for a key. Raises ValueError for null and for numbers over 2^63."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _in_single_precision(value)
    if value is None or value > _MAX:
        raise ValueError("a key is null or too large a number; put it in quotation marks")
    return str(value)


def _kind(value: Scalar) -> str:
    names = {bool: "bool", int: "int", float: "float", str: "str"}
    return names.get(type(value), "null")


def _resolved(text: str) -> Scalar:
    if text in _WORDS:
        return _WORDS[text]
    if text[0] == ".":
        return _float(text, text) if _POINT.fullmatch(text) else text
    if text[0] not in "+-0123456789":
        return text
    plain = text.replace("_", "")
    whole = _whole(plain)
    if whole is not None:
        return whole
    return _float(plain, text) if _FRACTION.fullmatch(plain) else text


def _whole(plain: str) -> int | None:
    match = _WHOLE.fullmatch(plain)
    if match is None:
        return None
    name = match.lastgroup or ""
    digits = match[name].lstrip("0") or "0"
    if len(digits) > _MAX_DIGITS[name]:
        return None
    value = int(match["sign"] + digits, _BASES[name])
    # Go reads numbers of 64 bits, and those over 2^63 only without a sign.
    largest = _MAX if match["sign"] else _MAX_UNSIGNED
    return value if _MIN <= value <= largest else None


def _float(plain: str, text: str) -> float | str:
    """The number, or the text if no float is so large: Go reads 1e999 as a text."""
    value = float(plain)
    return value if math.isfinite(value) else text


def _binary(text: str) -> str:
    try:
        return base64.b64decode(re.sub(r"[\r\n]", "", text), validate=True).decode("utf-8")
    except ValueError:
        raise ValueError("a scalar with the tag !!binary is not base64 of UTF-8") from None


def _in_single_precision(value: float) -> str:
    """The shortest digits of the number in single precision, as Go writes keys."""
    if math.isnan(value):
        return ".nan"
    single = _single(value)
    if math.isinf(single):
        return ".inf" if single > 0 else "-.inf"
    tries = (f"{single:.{digits}e}" for digits in range(10))
    written = next(text for text in tries if _single(float(text)) == single)
    if int(written.split("e")[1]) in _KEYS_WITHOUT_EXPONENT:
        return format(Decimal(written), "f")
    return written


def _single(value: float) -> float:
    try:
        found: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return found
