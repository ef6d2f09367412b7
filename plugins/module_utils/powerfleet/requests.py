# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Requests for runs of fleets: many changes become one request, and none is lost."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

# Delay from the first change on, in which two hundred pods are created.
GATHERING_SECONDS = 2.0
# Pause between two requests for a fleet.
SPACING_SECONDS = 5.0


class Request(t.NamedTuple):
    """One fleet and the reasons of its request."""

    fleet: str
    reasons: frozenset[str]


@dataclass
class _Fleet:
    """Pending reasons of a fleet, their begin, and the last request for each reason."""

    wanted: set[str] = field(default_factory=set)
    since: float = 0.0
    asked: float = float("-inf")
    asked_for: dict[str, float] = field(default_factory=dict)

    @property
    def due(self) -> float:
        if not self.wanted:
            return float("inf")
        return max(self.since + GATHERING_SECONDS, self.asked + SPACING_SECONDS)


class Requests:
    """Pending requests. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._fleets: dict[str, _Fleet] = {}

    def add(self, fleet: str, reason: str, now: float) -> None:
        """Note a change that concerns the fleet."""
        kept = self._fleets.setdefault(fleet, _Fleet())
        if not kept.wanted:
            kept.since = now
        kept.wanted.add(reason)

    @property
    def next_at(self) -> float:
        """Time of the next due request; infinite without one."""
        return min((kept.due for kept in self._fleets.values()), default=float("inf"))

    def take(self, now: float, repeat_seconds: t.Callable[[str], float]) -> list[Request]:
        """The due requests, each to be sent once.

        A request replaces the one before it, which may be unserved. So it repeats the reasons of
        the last ``repeat_seconds`` of its fleet, within which a run begins anyway.
        """
        taken = []
        for fleet, kept in self._fleets.items():
            if kept.due > now:
                continue
            longest = repeat_seconds(fleet)
            kept.asked_for = {
                reason: at for reason, at in kept.asked_for.items() if now - at < longest
            }
            taken.append(Request(fleet, frozenset(kept.wanted) | frozenset(kept.asked_for)))
            kept.asked_for |= dict.fromkeys(kept.wanted, now)
            kept.asked, kept.wanted = now, set()
        return taken

    def put_back(self, request: Request, now: float) -> None:
        """Make a request that could not be sent due again, after the usual pause."""
        for reason in request.reasons:
            self.add(request.fleet, reason, now)

    def forget(self, fleet: str) -> None:
        """Remove a deleted fleet."""
        self._fleets.pop(fleet, None)
