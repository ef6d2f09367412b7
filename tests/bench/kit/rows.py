# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Result of a bench: a row of figures with their targets, and how to repeat it."""

from __future__ import annotations

import dataclasses
import math
import statistics
import typing as t
from collections.abc import Callable, Sequence
from dataclasses import dataclass

if t.TYPE_CHECKING:
    from bench.kit.stage import Stage

Json = dict[str, t.Any]


class Different(Exception):
    """The peer's answer differs from ours, which makes a comparison of speeds meaningless."""


@dataclass(frozen=True)
class Target:
    """Required value of a figure; `judged` says which of several runs is compared with it."""

    limit: float
    better: t.Literal["less", "more", "equal"] = "less"
    judged: t.Literal["median", "worst"] = "median"


def at_most(limit: float, judged: t.Literal["median", "worst"] = "median") -> Target:
    return Target(limit, "less", judged)


def at_least(limit: float, judged: t.Literal["median", "worst"] = "median") -> Target:
    return Target(limit, "more", judged)


def exactly(limit: float) -> Target:
    """Target of a count that must be right in every run."""
    return Target(limit, "equal", "worst")


@dataclass(frozen=True)
class Metric:
    """One figure over several runs; `unit` is as it is printed, such as s, MiB, × or %."""

    name: str
    unit: str
    minimum: float
    median: float
    maximum: float
    runs: int
    target: Target | None = None

    @property
    def judged(self) -> float:
        """The value that is compared with the target."""
        if self.target is None or self.target.judged == "median":
            return self.median
        return self.minimum if self.target.better == "more" else self.maximum

    @property
    def strain(self) -> float:
        """Used fraction of the target: above 1 it is missed; 0 without a target."""
        if self.target is None:
            return 0.0
        worse, better = self.judged, self.target.limit
        if self.target.better == "equal":
            return 0.0 if self.minimum == self.maximum == better else math.inf
        if self.target.better == "more":
            worse, better = better, worse
        if better <= 0.0:
            return 0.0 if worse <= better else math.inf
        return max(0.0, worse / better)


def metric(name: str, unit: str, values: Sequence[float], target: Target | None = None) -> Metric:
    """A figure from one value per run."""
    low, middle, high = map(_significant, (min(values), statistics.median(values), max(values)))
    return Metric(name, unit, low, middle, high, len(values), target)


def ratio(
    name: str, peer: Sequence[float], ours: Sequence[float], target: Target | None = None
) -> Metric:
    """Ratio of the peer's time to ours; the ends are the extreme pairs."""
    middle = statistics.median(peer) / statistics.median(ours)
    ends = (min(peer) / max(ours), middle, max(peer) / min(ours))
    low, middle, high = map(_significant, ends)
    return Metric(name, "×", low, middle, high, min(len(peer), len(ours)), target)


def _significant(value: float) -> float:
    """Round to four digits; more would be noise."""
    return float(f"{value:.4g}")


@dataclass(frozen=True)
class Peer:
    """The program that ours is compared with, and its command."""

    name: str
    command: str


@dataclass(frozen=True)
class Row:
    """A bench's result; `equal` says how the answers were compared, `notes` are remarks.

    `details` are figures for a page of their own. Other load of the machine changes the figures only
    if the row `is_timed`.
    """

    title: str
    work: str
    command: str
    metrics: Sequence[Metric]
    peers: Sequence[Peer] = ()
    equal: str = ""
    notes: Sequence[str] = ()
    details: Sequence[Json] = ()
    is_timed: bool = True

    @property
    def strain(self) -> float:
        return max((item.strain for item in self.metrics), default=0.0)

    def as_json(self) -> Json:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Json) -> Row:
        metrics = [
            Metric(**{**item, "target": Target(**item["target"]) if item["target"] else None})
            for item in document["metrics"]
        ]
        peers = [Peer(**item) for item in document["peers"]]
        return cls(**{**document, "metrics": metrics, "peers": peers})


@dataclass(frozen=True)
class Bench:
    """A row's name on the command line, and the function that measures it.

    If the function raises, the row keeps its former result and the run ends with an error.
    """

    name: str
    measure: Callable[[Stage], Row]
