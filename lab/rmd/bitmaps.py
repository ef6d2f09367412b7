# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of CPUs and of cache ways in RMD's formats.

A set of ways is an integer whose bit n is way n; way 0 is the lowest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

GROUP_BITS = 32
_TOKEN = re.compile(r"\^?(\d+)(?:-(\d+))?")


class WrongExpressionError(Exception):
    """An invalid list of CPUs; `str()` is the daemon's text."""


class PanicError(Exception):
    """The daemon's goroutine dies: the connection is closed without an answer."""


def cpus_of(expressions: Sequence[str], strips: bool = False) -> frozenset[int]:
    """The CPUs of lists such as `["1-8,^3-4,^7", "9"]`; `^` excludes, in order.

    `strips` is v0.3's tolerance for blanks around a list. A range such as `9-4` has no CPU. Raises
    WrongExpressionError, and PanicError for a list without a digit, at which v0.2 dies.
    """
    found: set[int] = set()
    for expression in expressions:
        if not re.search(r"\d", expression):
            raise PanicError(expression)
        for token in (expression.strip() if strips else expression).split(","):
            match = _TOKEN.fullmatch(token)
            if match is None:
                raise WrongExpressionError(f"wrong expression : {token}")
            first, last = int(match[1]), int(match[2] or match[1])
            cpus = range(first, last + 1)
            found = found.difference(cpus) if token.startswith("^") else found.union(cpus)
    return frozenset(found)


def backward_mask(expressions: Sequence[str], length: int) -> str:
    """The mask that v0.2 writes for the first range such as `9-4`; empty without one.

    The range is a negative number of bits, which Go prints with its sign.
    """
    for token in ",".join(expressions).split(","):
        match = _TOKEN.fullmatch(token)
        if match and match[2] and int(match[2]) < int(match[1]):
            groups = ["0"] * max(1, -(-length // GROUP_BITS))
            number, bit = divmod(int(match[1]), GROUP_BITS)
            groups[-1 - number] = f"{-(1 << bit):08x}"
            return ",".join(groups)
    return ""


def bits_of(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def numbers_of(bits: int) -> list[int]:
    return [number for number in range(bits.bit_length()) if bits >> number & 1]


def hex_groups(bits: int, length: int) -> str:
    """32-bit groups, the high one first and without leading zeros, as the kernel writes masks."""
    groups = max(1, -(-length // GROUP_BITS))
    parts = [bits >> GROUP_BITS * number & 0xFFFFFFFF for number in reversed(range(groups))]
    return ",".join([f"{parts[0]:x}", *(f"{part:08x}" for part in parts[1:])])


def list_text(bits: int) -> str:
    """`"2-3,16"` for these bits, empty for none."""
    return ",".join(
        str(start) if length == 1 else f"{start}-{start + length - 1}"
        for start, length in runs(bits)
    )


def runs(bits: int) -> list[tuple[int, int]]:
    """First bit and length of each run of ones, from the lowest."""
    found: list[tuple[int, int]] = []
    for number in numbers_of(bits):
        if found and number == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((number, 1))
    return found


def longest_run(bits: int) -> int:
    """The bits of the longest run; of equal runs, the lowest."""
    start, length = max(runs(bits), key=lambda run: run[1], default=(0, 0))
    return ones(length) << start


def ones(count: int) -> int:
    return (1 << count) - 1


def take_from_top(bits: int, count: int, length: int, offset: int = 0) -> int:
    """The highest `count` ones in a row, below the `offset` topmost of `length` bits; 0 if none."""
    for start in range(length - offset - count, -1, -1):
        if bits >> start & ones(count) == ones(count):
            return ones(count) << start
    return 0


def take_from_bottom(bits: int, count: int, length: int, offset: int = 0) -> int:
    """The lowest `count` ones in a row, above the `offset` lowest bits; 0 if there are none."""
    for start in range(offset, length - count + 1):
        if bits >> start & ones(count) == ones(count):
            return ones(count) << start
    return 0
