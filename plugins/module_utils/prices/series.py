# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A series of prices by time, and the guess where it has none.

Only ratios of its prices count, so that the unit is for people alone. A constant series gives
ratios of exactly 1: sums are of differences from the mean.
"""

from __future__ import annotations

import bisect
import math
import statistics
import typing as t
from dataclasses import dataclass, replace
from functools import cached_property

from ..base.errors import InvalidInput

_HOUR, _DAY = 3600.0, 86400.0
# A year of quarters of an hour; beyond, a file is mistaken.
_MAX_PRICES = 40_000
_MAX_PRICE = 1e6
# The years 2000 to 2100, in seconds since the epoch.
_TIMES = (946_684_800.0, 4_102_444_800.0)
_MIN_STEP_SECONDS = 60.0
# Beyond twice the usual distance, the next price is not that of the time before it.
_HOLE = 2.0
_DAYS_BACK = 7


class Piece(t.NamedTuple):
    """A time with one price, in seconds since the epoch."""

    start: float
    end: float
    price: float


@dataclass(frozen=True)
class PriceSeries:
    """Prices from ascending times on, in seconds since the epoch; negative ones are real.

    A price holds until the next one; before a hole, and at the end, as long as most do. Elsewhere
    the price is that of the same time on the last of seven days before that has one, else the mean.
    """

    times: tuple[float, ...]
    prices: tuple[float, ...]
    unit: str = ""

    def __post_init__(self) -> None:
        """Raises InvalidInput."""
        if not self.times or len(self.times) != len(self.prices):
            raise InvalidInput(
                f"prices: {len(self.times)} times and {len(self.prices)} prices; give as many of "
                "both, and one at least"
            )
        if len(self.times) > _MAX_PRICES:
            raise InvalidInput(f"prices: {len(self.times)} prices; give at most {_MAX_PRICES}")
        for index, (time, price) in enumerate(zip(self.times, self.prices)):
            if not _TIMES[0] <= time <= _TIMES[1]:
                raise InvalidInput(
                    f"prices[{index}]: {time:g} is no time from 2000 to 2100 in seconds since the "
                    "epoch"
                )
            if not math.isfinite(price) or abs(price) > _MAX_PRICE:
                raise InvalidInput(
                    f"prices[{index}]: {price:g} is no price; give a number up to {_MAX_PRICE:g}"
                )
            if index and time - self.times[index - 1] < _MIN_STEP_SECONDS:
                raise InvalidInput(
                    f"prices[{index}]: its time is not a minute or more after the one before; "
                    "give each time once, in ascending order"
                )

    @cached_property
    def step(self) -> float:
        """Seconds for which most prices hold; an hour for a single one."""
        gaps = [after - before for before, after in zip(self.times, self.times[1:])]
        return statistics.median(gaps) if gaps else _HOUR

    @property
    def end(self) -> float:
        """The time from which on the series has no price."""
        return self.times[-1] + self.step

    @cached_property
    def holes(self) -> int:
        """Times within the series that have no price."""
        return sum(self._until(index) < after for index, after in enumerate(self.times[1:]))

    @cached_property
    def average(self) -> float:
        """The mean over all times that have a price."""
        seconds = [self._until(index) - time for index, time in enumerate(self.times)]
        first = self.prices[0]
        total = math.fsum((price - first) * each for price, each in zip(self.prices, seconds))
        return first + total / math.fsum(seconds)

    @cached_property
    def _found(self) -> dict[float, Piece]:
        """Pieces by their begin, since thousands of pods ask for the same week."""
        return {}

    def at(self, time: float) -> float:
        """The price at a time, or the guess."""
        return self._piece(time).price

    def pieces(self, start: float, end: float) -> t.Iterator[Piece]:
        """The time from ``start`` to ``end`` in pieces with one price each."""
        time = start
        while time < end:
            # From the second one on, pieces of any time begin at the same times.
            piece = self._found.get(time) or self._found.setdefault(time, self._piece(time))
            yield Piece(time, min(piece.end, end), piece.price)
            time = piece.end

    def mean(self, start: float, end: float) -> float:
        """The mean price of a time that is not empty."""
        average = self.average
        total = math.fsum(
            (piece.price - average) * (piece.end - piece.start) for piece in self.pieces(start, end)
        )
        return average + total / (end - start)

    def without_negatives(self) -> PriceSeries:
        """The same series, in which energy is never cheaper than for nothing."""
        return replace(self, prices=tuple(max(0.0, price) for price in self.prices))

    def weight(self, start: float, end: float) -> float:
        """The mean of a time over that of the series, where negative prices count as 0.

        1 if energy costs nothing at any time.
        """
        series = self.without_negatives() if min(self.prices) < 0 else self
        return series.mean(start, end) / series.average if series.average > 0 else 1.0

    def _until(self, index: int) -> float:
        """The end of a price."""
        time = self.times[index]
        after = self.times[index + 1] if index + 1 < len(self.times) else math.inf
        return after if after - time <= _HOLE * self.step else time + self.step

    def _known(self, time: float) -> tuple[float, float] | None:
        """The price at a time with its end; None in a hole, and outside of the series."""
        index = bisect.bisect_right(self.times, time) - 1
        if index < 0 or time >= self._until(index):
            return None
        return self.prices[index], self._until(index)

    def _piece(self, time: float) -> Piece:
        """The price at a time, until it or the day that it comes from changes."""
        end = math.inf
        for days in range(_DAYS_BACK + 1):
            shift = days * _DAY
            known = self._known(time - shift)
            if known is not None:
                return Piece(time, min(end, known[1] + shift), known[0])
            following = bisect.bisect_right(self.times, time - shift)
            if following < len(self.times):
                end = min(end, self.times[following] + shift)
        return Piece(time, end, self.average)
