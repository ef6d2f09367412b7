# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Values of devices: typed attributes, and amounts of counters and capacities."""

from __future__ import annotations

import functools
import re
import typing as t
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from ..base.boundary import InvalidField, shown
from ..base.units import parse_quantity

# Amounts are whole thousandths of a unit (milli), so that arithmetic is exact and solvers get
# integers: 40Gi is 42949672960000.
THOUSANDTHS = 1000

# https://semver.org/spec/v2.0.0.html, section 2 and the grammar of section 9 and 10.
_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(?:-({_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?",
    re.ASCII,
)
_MAX_VERSION_LENGTH = 256
_MAX_OF_A_VERSION = 2**64 - 1
# Kubernetes caps a binary quantity at this and leaves a decimal one exact.
# Source: ParseQuantity of k8s.io/apimachinery 0.37.2.
_MAX_BINARY = Decimal(2**63 - 1)
# Sums of 100,000 such amounts still fit the two digits of solve/node_model.py.
_MAX_AMOUNT = Decimal(10**21)
_BINARY_SUFFIXES = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki")


@functools.total_ordering
@dataclass(frozen=True)
class Version:
    """A semantic version; the order is that of section 11, so build metadata does not count."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()

    @property
    def precedence(self) -> tuple[t.Any, ...]:
        """A key that sorts: numbers before words, and a pre-release before its release."""
        rank = tuple(
            (0, int(part), "") if part.isdigit() else (1, 0, part) for part in self.prerelease
        )
        return self.major, self.minor, self.patch, not self.prerelease, rank

    def __lt__(self, other: Version) -> bool:
        return bool(self.precedence < other.precedence)

    def __str__(self) -> str:
        text = f"{self.major}.{self.minor}.{self.patch}"
        return f"{text}-{'.'.join(self.prerelease)}" if self.prerelease else text


@dataclass(frozen=True)
class Quantity:
    """A Kubernetes quantity as an attribute, compared by value."""

    value: Decimal


Scalar = t.Union[bool, int, str, Version, Quantity]
Attribute = t.Union[Scalar, tuple[Scalar, ...]]


def parse_version(text: str, where: str) -> Version:
    """A semantic version such as ``1.2.3-beta.1+build.5``. Raises InvalidInput."""
    is_text = isinstance(text, str) and len(text) <= _MAX_VERSION_LENGTH
    match = _VERSION.fullmatch(text) if is_text else None
    numeric = match and [part for part in (match[4] or "").split(".") if part.isdigit()]
    if match is None or any(part != "0" and part.startswith("0") for part in numeric or ()):
        raise InvalidField(
            where,
            f"{shown(text)} is not a semantic version (No Major.Minor.Patch elements found); "
            "write three numbers such as 1.2.3",
        )
    numbers = [int(match[part]) for part in (1, 2, 3)]
    if max(numbers) > _MAX_OF_A_VERSION:
        raise InvalidField(where, f"a number of the version {shown(text)} is larger than 2^64 - 1")
    prerelease = tuple(match[4].split(".")) if match[4] else ()
    return Version(numbers[0], numbers[1], numbers[2], prerelease)


def scalar_of(value: t.Any, kind: type, most: int, where: str) -> Scalar:
    """A boolean, a text of at most this many bytes, or an integer of 64 bits.

    A boolean is no integer. Raises InvalidField.
    """
    is_of_kind = isinstance(value, kind) and (kind is bool or not isinstance(value, bool))
    if not is_of_kind:
        raise InvalidField(where, f"{shown(value)} is not of this type")
    if isinstance(value, str) and not is_short_text(value, most):
        raise InvalidField(where, f"{shown(value)} is not a text of up to {most} bytes")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InvalidField(where, f"{shown(value)} is beyond 64 bits")
    scalar: Scalar = value
    return scalar


def is_short_text(value: str, most: int) -> bool:
    """Whether a text is UTF-8 of limited length; half a surrogate pair is not."""
    try:
        return len(value) <= most and len(value.encode()) <= most
    except UnicodeEncodeError:
        return False


def identities(value: Attribute) -> frozenset[tuple[str, Scalar]]:
    """The values of an attribute with their types; one for a scalar, each item of a list.

    Two attributes match where these sets have an element in common: Kubernetes treats a scalar as a
    list of one. The type is a part, because ``1``, ``True`` and ``"1"`` are three values.
    """
    items = value if isinstance(value, tuple) else (value,)
    return frozenset((type(item).__name__, item) for item in items)


def quantity_of(value: t.Any, where: str) -> Decimal:
    """Units of a quantity as Kubernetes compares them. Raises InvalidInput."""
    if isinstance(value, str) and value.endswith("i"):
        return min(parse_quantity(value, where, _MAX_AMOUNT**2), _MAX_BINARY)
    return parse_quantity(value, where, _MAX_AMOUNT)


def demand_of(value: t.Any, where: str) -> int:
    """Thousandths of a requested quantity, rounded up. Raises InvalidInput."""
    return _thousandths(value, where, ROUND_CEILING)


def supply_of(value: t.Any, where: str) -> int:
    """Thousandths of an available quantity, rounded down. Raises InvalidInput."""
    return _thousandths(value, where, ROUND_FLOOR)


def _thousandths(value: t.Any, where: str, rounding: str) -> int:
    amount = quantity_of(value, where) * THOUSANDTHS
    if amount < 0:
        raise InvalidField(where, f"{shown(value)} is negative; an amount is 0 or more")
    return int(amount.to_integral_value(rounding=rounding))


def rounded_up(amount: int, block: int) -> int:
    """The next multiple of ``block``, both in thousandths."""
    return -(-amount // block) * block


def quantity_text(amount: int) -> str:
    """Thousandths as a Kubernetes quantity: ``"10Gi"``, ``"1500m"``, ``"8"``."""
    units, rest = divmod(amount, THOUSANDTHS)
    if rest:
        return f"{amount}m"
    for power, suffix in zip(range(6, 0, -1), _BINARY_SUFFIXES):
        if units and units % 1024**power == 0:
            return f"{units // 1024**power}{suffix}"
    return str(units)
