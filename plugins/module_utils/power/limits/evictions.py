# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Evictions: which pods leave the machines of a domain that caps do not bring below its limit.

Pods of the lowest priority leave first, of these the cheapest to move, of these the smallest that
is enough, else the largest. Afterwards each pod whose eviction turned out to be unnecessary stays,
the highest priority first.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...scheduling.curve import Curve
from .domains import Limit

_TOLERANCE_WATTS = 1e-6


@dataclass(frozen=True)
class EvictionNode:
    """A node with its power draw in W, the CPUs that its pods use, and the cap that holds it in W.

    ``watts`` are those without the cap, as far as they are known. Without a curve no pod is known to
    save power.
    """

    watts: float
    cores: float
    curve: Curve | None
    cap_watts: float | None = None

    @property
    def idle_watts(self) -> float:
        return 0.0 if self.curve is None else self.curve.watts[0]

    def watts_without(self, cores: float) -> float:
        """The power draw after pods with these CPUs left; a cap that holds hides their saving."""
        watts = self._without_cap(cores)
        return watts if self.cap_watts is None else min(watts, self.cap_watts)

    def without(self, cores: float) -> EvictionNode:
        """The node after pods with these CPUs left."""
        return replace(self, watts=self._without_cap(cores), cores=self.cores - cores)

    def _without_cap(self, cores: float) -> float:
        if self.curve is None:
            return self.watts
        saved = self.curve.watts_at(self.cores) - self.curve.watts_at(self.cores - cores)
        return max(0.0, self.watts - saved)


class EvictablePod(t.NamedTuple):
    """A pod that may be evicted; ``cost`` ranks what its move costs its users.

    ``budget`` is the index of the disruption budget that the eviction uses up, if any.
    """

    namespace: str
    name: str
    uid: str
    node: str
    cores: float
    priority: int = 0
    cost: int = 0
    budget: int | None = None


class Eviction(t.NamedTuple):
    """A pod to evict, and the place in the list of limits of the one for which it leaves."""

    pod: EvictablePod
    limit: int


@dataclass(frozen=True)
class EvictionPlan:
    """The evictions, and the watts above each limit after them, by its place in the list."""

    evictions: tuple[Eviction, ...] = ()
    left: t.Mapping[int, float] = field(default_factory=dict)


def plan_evictions(
    limits: t.Sequence[Limit],
    nodes: t.Mapping[str, EvictionNode],
    pods: t.Sequence[EvictablePod],
    allowed: t.Sequence[int] = (),
    most: int = 1,
) -> EvictionPlan:
    """At most ``most`` evictions that bring the domains below their limits, and none beyond.

    Nodes without a fresh reading are left out. ``allowed`` are the evictions of each budget. A limit
    below the idle power of its machines evicts nobody, as no eviction reaches it.
    """
    search = _Search(limits, nodes, allowed)
    chosen: list[Eviction] = []
    # By node, since each of thousands of nodes may be above a limit of its own.
    left: dict[str, list[EvictablePod]] = {}
    for pod in pods:
        left.setdefault(pod.node, []).append(pod)
    while len(chosen) < most:
        found = next(filter(None, (search.next_of(one, left) for one in search.exceeded())), None)
        if found is None:
            break
        search.take(found.pod, 1)
        left[found.pod.node].remove(found.pod)
        chosen.append(found)
    for one in sorted(chosen, key=lambda one: (-one.pod.priority, -one.pod.cost)):
        if search.is_spared(one.pod):
            chosen.remove(one)
    return EvictionPlan(tuple(chosen), search.exceeded())


class _Search:
    """The power draw of the domains after the evictions so far."""

    def __init__(
        self,
        limits: t.Sequence[Limit],
        nodes: t.Mapping[str, EvictionNode],
        allowed: t.Sequence[int],
    ) -> None:
        self._limits, self._nodes = limits, nodes
        self._cores = dict.fromkeys(nodes, 0.0)
        self._allowed = list(allowed)
        self._reachable = {
            index
            for index, limit in enumerate(limits)
            if sum(nodes[one].idle_watts for one in limit.nodes if one in nodes) <= limit.watts
        }

    def exceeded(self) -> dict[int, float]:
        """The watts above each limit that is exceeded."""
        return {
            index: above
            for index, limit in enumerate(self._limits)
            for above in [self._draw(limit) - limit.watts]
            if above > _TOLERANCE_WATTS
        }

    def next_of(
        self, index: int, pods: t.Mapping[str, t.Sequence[EvictablePod]]
    ) -> Eviction | None:
        """The next pod to leave the domain; None if no eviction lowers its power draw."""
        if index not in self._reachable:
            return None
        savings = [
            (self._saving(pod), pod)
            for name in self._limits[index].nodes
            if name in self._nodes
            for pod in pods.get(name, ())
            if self._is_allowed(pod)
        ]
        savings = [(saving, pod) for saving, pod in savings if saving > _TOLERANCE_WATTS]
        if not savings:
            return None
        first = min((pod.priority, pod.cost) for _saving, pod in savings)
        candidates = [one for one in savings if (one[1].priority, one[1].cost) == first]
        excess = self._draw(self._limits[index]) - self._limits[index].watts
        enough = [one for one in candidates if one[0] >= excess - _TOLERANCE_WATTS]
        if enough:
            _watts, pod = min(enough, key=lambda one: (one[0], one[1].namespace, one[1].name))
        else:
            _watts, pod = min(candidates, key=lambda one: (-one[0], one[1].namespace, one[1].name))
        return Eviction(pod, index)

    def take(self, pod: EvictablePod, count: t.Literal[1, -1]) -> None:
        """Evict the pod, or take its eviction back."""
        self._cores[pod.node] += count * pod.cores
        if pod.budget is not None:
            self._allowed[pod.budget] -= count

    def is_spared(self, pod: EvictablePod) -> bool:
        """Take the eviction back if no domain is above its limit by more without it."""
        before = self.exceeded()
        self.take(pod, -1)
        after = self.exceeded()
        if all(above <= before.get(index, 0.0) for index, above in after.items()):
            return True
        self.take(pod, 1)
        return False

    def _draw(self, limit: Limit) -> float:
        return sum(
            self._nodes[name].watts_without(self._cores[name])
            for name in limit.nodes
            if name in self._nodes
        )

    def _saving(self, pod: EvictablePod) -> float:
        node, gone = self._nodes[pod.node], self._cores[pod.node]
        return node.watts_without(gone) - node.watts_without(gone + pod.cores)

    def _is_allowed(self, pod: EvictablePod) -> bool:
        return pod.budget is None or self._allowed[pod.budget] > 0
