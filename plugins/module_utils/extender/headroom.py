# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes that a pod may not get, because it would take a power domain above its limit.

kube-scheduler filters the next pod before the binding of the last one is seen, and it may choose
any node that passed. So until then a pod counts in each domain where it may land, with the most
that it can add there: its use at the steepest part of a curve. The asking pod, and pods whose node
is known, have their exact power.
"""

from __future__ import annotations

import functools
import itertools
import typing as t
import weakref
from dataclasses import dataclass, field

from ..base.libraries import numpy
from ..power.limits.domains import above_limit, at_limit
from ..power.model.costs import NodeCosts
from ..scheduling.curve import Curve
from ..scheduling.feasibility import NO_CURVE
from ..scheduling.model import MICROCORES_PER_CORE
from ..scheduling.pod_reader import assumed_use
from .publication import Publication
from .views import AskingPod, NodeView

if t.TYPE_CHECKING:
    from ..solving.arrays import Booleans, Floats, Integers

_TOLERANCE_WATTS = 1e-6


@dataclass
class PassedPod:
    """A pod whose filter call had these passing nodes, and whose node is not known yet."""

    pod: AskingPod
    names: frozenset[str]
    until: float
    # Answers by Headroom: a publication may be replaced while the pod waits.
    _most: weakref.WeakKeyDictionary[Headroom, Floats] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def most_in(self, headroom: Headroom) -> Floats:
        """The most W that the pod can add to each domain."""
        if headroom not in self._most:
            self._most[headroom] = headroom.most_of(self.pod, self.names)
        return self._most[headroom]


class CountedPod(t.NamedTuple):
    """A waiting pod that counts on a node, as its planned or assumed one."""

    node: str
    millicores: int


class Beside(t.NamedTuple):
    """The other pods that passed, and where they and the asking pod count on a node."""

    passed: t.Sequence[PassedPod]
    counted: t.Sequence[CountedPod]


class Headroom:
    """The domains of one publication. Axes: N nodes, D domains, P pairs of a domain and its node.

    A node whose use is unknown draws its last known power, and takes no pod.
    """

    def __init__(
        self, publication: Publication, index: t.Mapping[str, int], costs: NodeCosts
    ) -> None:
        self._publication, self._index, self._costs = publication, index, costs
        # Most pods of a burst share their set of names.
        self._nodes_of = functools.lru_cache(maxsize=16)(functools.partial(_nodes_of, index))
        domains = publication.domains
        self._names, self._nodes = list(index), numpy.arange(len(index))
        self._use: Integers = numpy.zeros(len(index), dtype=numpy.int64)
        self._is_read: Booleans = numpy.zeros(len(index), dtype=bool)
        self._is_on: Booleans = numpy.zeros(len(index), dtype=bool)
        self._steepest: Floats = numpy.array(
            [_steepest(publication.curves[name]) for name in index], dtype=float
        )
        self._limit: Floats = numpy.array([one.limit_watts for one in domains], dtype=float)
        self._beside: Floats = numpy.array([one.beside_watts for one in domains], dtype=float)
        members = [[index[name] for name in one.nodes if name in index] for one in domains]
        self._pair_node: Integers = numpy.array(
            list(itertools.chain.from_iterable(members)), dtype=numpy.int64
        )
        self._pair_domain: Integers = numpy.repeat(
            numpy.arange(len(domains)), [len(one) for one in members]
        )

    def refresh(self, index: int, use_microcores: int | None, view: NodeView | None) -> None:
        """Set the CPU use of a node, None if it is unknown; a machine that is off draws nothing.

        A machine that was ready in the last run is off only if it sleeps or is gone: a lost
        connection switches none off, and the next run measures what it draws.
        """
        is_off = view is None or view.is_asleep or self._names[index] in self._publication.not_ready
        self._is_on[index] = not is_off or (view is not None and view.is_ready)
        self._is_read[index] = use_microcores is not None
        if use_microcores is not None:
            self._use[index] = use_microcores

    def reasons(self, pod: AskingPod, names: t.Sequence[str], beside: Beside) -> dict[str, str]:
        """Why the pod may not get some of these nodes."""
        found = dict(self._by_node(pod, beside)) if self._publication.domains else {}
        found.update(self._publication.closed)
        return {name: found[name] for name in names if name in found} if found else {}

    def most_of(self, pod: AskingPod, names: frozenset[str]) -> Floats:
        """The most W that the pod can add to each domain on one of these nodes."""
        may_be_there = numpy.zeros(len(self._nodes), dtype=bool)
        may_be_there[self._nodes_of(names)] = True
        added = numpy.where(may_be_there, self._most(self._use_of(pod.load.millicores)), 0.0)
        found: Floats = numpy.zeros(len(self._limit))
        numpy.maximum.at(found, self._pair_domain, added[self._pair_node])
        return found

    def _by_node(self, pod: AskingPod, beside: Beside) -> t.Iterator[tuple[str, str]]:
        """Nodes with the reason of a domain that the pod would take above its limit.

        The first domain of a node comes last.
        """
        base, use = self._without(beside.counted), self._use_of(pod.load.millicores)
        watts = self._costs.watts(self._nodes, base)
        now = numpy.where(self._is_on, watts, 0.0)
        # Exact also where others may come, because their use is counted at the steepest part.
        # A curve that falls takes no pod above a limit, either.
        rise = numpy.maximum(self._costs.watts(self._nodes, base + use) - now, 0.0)
        added = rise[self._pair_node]
        draw = self._beside + numpy.bincount(
            self._pair_domain, now[self._pair_node], len(self._limit)
        )
        pending = sum((one.most_in(self) for one in beside.passed), numpy.zeros(len(self._limit)))
        left = self._limit + _TOLERANCE_WATTS - draw - pending
        is_over = (added > left[self._pair_domain]) | ~self._is_read[self._pair_node]
        if not is_over.any():
            return
        least: Floats = numpy.full(len(self._limit), numpy.inf)
        numpy.minimum.at(least, self._pair_domain, added)
        told: dict[int, str] = {}
        for pair in reversed(is_over.nonzero()[0].tolist()):
            node, domain = self._pair_node[pair], int(self._pair_domain[pair])
            if domain not in told:
                told[domain] = self._reason(domain, draw[domain], pending[domain], least[domain])
            yield self._names[node], told[domain] if self._is_read[node] else NO_CURVE

    def _reason(self, domain: int, draw: float, pending: float, least: float) -> str:
        one = self._publication.domains[domain]
        if draw > one.limit_watts + _TOLERANCE_WATTS:
            return above_limit(one, draw)
        return at_limit(one, draw + pending, least)

    def _use_of(self, millicores: int) -> int:
        return assumed_use(millicores, self._publication.assumption)

    def _without(self, counted: t.Iterable[CountedPod]) -> Integers:
        """The CPU use of each node without these pods."""
        found = self._use.copy()
        for one in counted:
            if one.node in self._index:
                found[self._index[one.node]] -= self._use_of(one.millicores)
        return found

    def _most(self, use: int) -> Floats:
        """The most W that this use can add to each node; a machine without power starts for it."""
        started = self._costs.watts(self._nodes, self._use)
        found: Floats = self._steepest * use + numpy.where(self._is_on, 0.0, started)
        return found


def _nodes_of(index: t.Mapping[str, int], names: frozenset[str]) -> Integers:
    return numpy.array([index[name] for name in names if name in index], dtype=numpy.int64)


def _steepest(curve: Curve) -> float:
    """The most W that one more microcore adds."""
    points = list(zip(curve.cores, curve.watts))
    slopes = [
        (high - low) / (right - left) for (left, low), (right, high) in zip(points, points[1:])
    ]
    return max(0.0, *slopes) / MICROCORES_PER_CORE
