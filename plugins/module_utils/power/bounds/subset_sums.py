# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Subset sums of integers, as the bits of one large integer.

Bit s is set if s is a subset sum. Adding a number shifts all bits at once, so Bellman's recursion
for subset sums takes microseconds.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Integers

NOTHING = 1


def subset_sums(sizes: t.Sequence[int], counts: t.Sequence[int], most: int) -> int:
    """The sums up to ``most`` of at most ``counts[i]`` numbers ``sizes[i]`` each."""
    within = (1 << (most + 1)) - 1
    sums = NOTHING
    for size, count in zip(sizes, counts):
        # So many copies are those of the powers of two, and of the rest, that add up to them.
        copies, left = 1, count if size else 0
        while left:
            copies = min(copies, left)
            sums |= (sums << (copies * size)) & within
            left -= copies
            copies *= 2
    return sums


def set_bits(bits: int, low: int, high: int) -> Integers:
    """The positions of the bits from ``low`` to ``high``, both included, that are set."""
    if high < low:
        return numpy.zeros(0, dtype=numpy.int64)
    part = (bits >> low) & ((1 << (high - low + 1)) - 1)
    octets = part.to_bytes((high - low) // 8 + 1, "little")
    unpacked = numpy.unpackbits(numpy.frombuffer(octets, numpy.uint8), bitorder="little")
    return numpy.flatnonzero(unpacked) + low
