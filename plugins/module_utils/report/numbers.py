# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Numbers for people: grouped, with unit, minus sign and no-break space."""

from __future__ import annotations

import math
import typing as t

_SPACE = "\u202f"
_MINUS = "\u2212"
LACKING = "\u2013"
# Larger numbers get an exponent.
_MAX_WRITTEN_OUT = 1e15
# Limit below which sums and squares stay finite.
_MAX_NUMBER = 1e100


def number(value: float | None, decimals: int = 0, sign: bool = False) -> str:
    """``1234.5`` as ``1,234`` (or ``+1,234`` with ``sign``); None as a dash, never 0.

    Non-finite numbers are dashes too.
    """
    if value is None or not is_finite(value):
        return LACKING
    layout = f",.{decimals}f" if abs(value) < _MAX_WRITTEN_OUT else ".3g"
    text = f"{value:{'+' if sign else ''}{layout}}"
    if not any(digit in text for digit in "123456789"):
        text = text.lstrip("+-")
    return text.replace("-", _MINUS)


def is_finite(value: float) -> bool:
    """Whether arithmetic with a number is safe; integers may be too large."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_number(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def finite(value: t.Any) -> t.Any:
    """A JSON value with None for every number that is unsafe in arithmetic."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    if is_number(value) and not -_MAX_NUMBER < value < _MAX_NUMBER:
        return None
    return value


def quantity(value: float | None, unit: str, decimals: int = 0, sign: bool = False) -> str:
    """A number with its unit; None is a dash without unit."""
    return LACKING if value is None else f"{number(value, decimals, sign)}{_SPACE}{unit}"


def watts(value: float | None, decimals: int = 0, sign: bool = False) -> str:
    return quantity(value, "W", decimals, sign)


def money(value: float | None, currency: str) -> str:
    """An amount of money; the currency may be unknown."""
    return quantity(value, currency, 2) if currency else number(value, 2)


def celsius(value: float | None) -> str:
    return quantity(value, "°C", 1)


def percent(value: float | None, decimals: int = 1, sign: bool = False) -> str:
    return quantity(value, "%", decimals, sign)


def moment(time: str) -> str:
    """A time of a document for people."""
    return time.replace("T", " ").replace("Z", " UTC")


def counted(count: int, noun: str, plural: str = "") -> str:
    """``1 node``, ``2 nodes``."""
    return f"{number(count)} {noun if count == 1 else plural or noun + 's'}"


def listed(names: list[str], most: int = 3) -> str:
    """``a, b and c``, or ``a, b, c and 4 more``."""
    shown, more = names[:most], len(names) - most
    if more > 0:
        return f"{', '.join(shown)} and {number(more)} more"
    return " and ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]]))
