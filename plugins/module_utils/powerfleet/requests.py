# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""When a fleet is asked for a run: many changes become one request, and none is forgotten."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

# From the first change on: two hundred pods are made in less.
GATHERING_SECONDS = 2.0
# Between two requests for a fleet.
SPACING_SECONDS = 5.0


class Request(t.NamedTuple):
    """One fleet and why it is asked for a run."""

    fleet: str
    reasons: frozenset[str]


@dataclass
class _Fleet:
    """What is wanted of a fleet, since when, and when it was last asked for each reason."""

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
    """The requests to come. Times are seconds of a clock that never goes back."""

    def __init__(self) -> None:
        self._fleets: dict[str, _Fleet] = {}

    def add(self, fleet: str, reason: str, now: float) -> None:
        """Something has changed that concerns the fleet."""
        kept = self._fleets.setdefault(fleet, _Fleet())
        if not kept.wanted:
            kept.since = now
        kept.wanted.add(reason)

    @property
    def next_at(self) -> float:
        """When the next request is due; infinite where none is to come."""
        return min((kept.due for kept in self._fleets.values()), default=float("inf"))

    def take(self, now: float, repeat_seconds: t.Callable[[str], float]) -> list[Request]:
        """The requests that are due, each to be sent once.

        A request replaces the one before it, which may not have been served yet. So it repeats the
        reasons of the last ``repeat_seconds`` of its fleet, within which a run begins anyway.
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
        """A request that could not be sent is due again, not sooner than any other."""
        for reason in request.reasons:
            self.add(request.fleet, reason, now)

    def forget(self, fleet: str) -> None:
        """The fleet is no more."""
        self._fleets.pop(fleet, None)
