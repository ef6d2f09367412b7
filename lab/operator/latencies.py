# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latencies from events to the states that follow them, by kind of event."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from lab.errors import LabError
from lab.gotools import Say

MAX_SECONDS = 60.0
POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Expectation:
    """A state that follows an event; ``holds`` is polled until it is true."""

    kind: str
    what: str
    holds: Callable[[], bool]
    since: float


@dataclass
class Latencies:
    """The events so far: completed ones by kind, and open ones."""

    say: Say
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    seconds: dict[str, list[float]] = field(default_factory=dict)
    _open: list[Expectation] = field(default_factory=list)

    def expect(self, kind: str, what: str, holds: Callable[[], bool]) -> None:
        """Record an event now; ``what`` names the state that follows it."""
        self._open.append(Expectation(kind, what, holds, self.clock()))

    def settle(self, longest: float = MAX_SECONDS) -> None:
        """Return when all expected states hold. Raises LabError after ``longest`` seconds."""
        deadline = self.clock() + longest
        while self._open:
            for one in [one for one in self._open if one.holds()]:
                self._open.remove(one)
                seconds = self.clock() - one.since
                self.seconds.setdefault(one.kind, []).append(seconds)
                self.say(f"  {one.what} (after {seconds:.1f} s)")
            if self._open and self.clock() > deadline:
                missing = "; ".join(one.what for one in self._open)
                raise LabError(f"Timed out after {longest:g} s: {missing}.")
            if self._open:
                self.sleep(POLL_SECONDS)

    def table(self) -> list[str]:
        """A line for each kind of event, in the order of their first answers."""
        width = max(map(len, self.seconds), default=0)
        lines = [f"{'EVENT → STATE':<{width}}  EVENTS  MEDIAN  MAXIMUM"]
        for kind, values in self.seconds.items():
            middle, most = statistics.median(values), max(values)
            lines.append(f"{kind:<{width}}  {len(values):>6}  {middle:>4.1f} s  {most:>5.1f} s")
        return lines
