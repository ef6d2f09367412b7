# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Exact sums of Kubernetes amounts in CP-SAT, which has 64-bit integers.

9 Pi in thousandths exceed 2^63. So amounts are divided by their common divisor, and capped at the
requested or available amount. Amounts that are still too large are written in two digits.
"""

from __future__ import annotations

import math
import typing as t

# Well below 2^63, because the solver adds such sums.
_MAX_SUM = 1 << 58
_DIGIT = 1 << 40


class Term(t.NamedTuple):
    """An amount that counts as often as an expression says, at most ``most`` times."""

    amount: int
    times: t.Any
    most: int = 1


def add_at_most(model: t.Any, parts: t.Iterable[Term], limit: int) -> None:
    """Bound the sum of the parts by ``limit``; a negative limit counts as 0."""
    counted = [part for part in parts if part.amount > 0]
    limit = max(0, limit)
    for part in counted:
        # A variable for several parts may still be used for some of them.
        if part.amount > limit:
            model.add(part.times == 0)
    counted = [part for part in counted if part.amount <= limit]
    if _sum(counted) <= limit:
        return
    divisor = math.gcd(*(part.amount for part in counted))
    counted = [part._replace(amount=part.amount // divisor) for part in counted]
    limit //= divisor
    if _sum(counted) <= _MAX_SUM:
        model.add(sum(part.amount * part.times for part in counted) <= limit)
        return
    high, low, most = _digits(counted)
    carried = model.new_int_var(0, most, "")
    model.add(high + carried <= limit // _DIGIT)
    model.add(low <= _DIGIT * carried + limit % _DIGIT)


def add_at_least(model: t.Any, parts: t.Iterable[Term], amount: int, taken: t.Any) -> None:
    """Require a sum of at least ``amount`` if the literal ``taken`` holds."""
    counted = [part for part in parts if part.amount > 0]
    if amount <= 0:
        return
    if not counted:
        model.add(taken == 0)
        return
    divisor = math.gcd(*(part.amount for part in counted))
    amount = -(-amount // divisor)
    # A part is capped at the requested amount, because a multiple of that suffices as well.
    counted = [part._replace(amount=min(amount, part.amount // divisor)) for part in counted]
    if max(amount, _sum(counted)) <= _MAX_SUM:
        model.add(sum(part.amount * part.times for part in counted) >= amount * taken)
        return
    high, low, most = _digits(counted)
    # One high digit is more than all low digits of the amount.
    spared = model.new_int_var(-most, 1, "")
    model.add(high - spared >= amount // _DIGIT * taken)
    model.add(low + _DIGIT * spared >= amount % _DIGIT * taken)


def _sum(parts: t.Iterable[Term]) -> int:
    return sum(part.amount * part.most for part in parts)


def _digits(parts: t.Sequence[Term]) -> tuple[t.Any, t.Any, int]:
    """The sums of the high and of the low digits, and the largest carry of the low digits."""
    high = sum(part.amount // _DIGIT * part.times for part in parts)
    low = sum(part.amount % _DIGIT * part.times for part in parts)
    return high, low, sum(part.amount % _DIGIT * part.most for part in parts) // _DIGIT + 1
