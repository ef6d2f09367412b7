# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The extender's state of the cluster, updated by watches and read by calls of kube-scheduler.

A pod that was just scored is assumed on the node with the highest score until its binding is seen,
because the call for the next pod comes before that. Waiting pods count on their planned nodes.
"""

from __future__ import annotations

import threading
import time
import typing as t
from collections import defaultdict

from .priced_nodes import PricedNodes
from .publication import PodKey, Publication
from .scores import HIGHEST, Prices, scores_of
from .views import AskingPod, Measured, NodeView, PodLoad, occupancy_of

ASSUMED_SECONDS = 5.0
# As long as the last reading of a BMC replaces a missing one.
MEASURED_SECONDS = 300.0


class _Assumed(t.NamedTuple):
    load: PodLoad
    until: float


class ClusterState:
    """Thread-safe. ``clock`` gives Unix time; measurements count for ``measured_seconds``."""

    def __init__(
        self,
        clock: t.Callable[[], float] = time.time,
        measured_seconds: float = MEASURED_SECONDS,
    ) -> None:
        self._clock = clock
        self._measured_seconds = measured_seconds
        # Held for one node or one request at a time, never for the whole fleet.
        self._lock = threading.RLock()
        self._nodes: dict[str, NodeView] = {}
        self._measured: dict[str, Measured] = {}
        self._measured_until = float("inf")
        self._pods: dict[PodKey, PodLoad] = {}
        # By node: its pods, and waiting pods that kube-scheduler or the plan wants there.
        self._running: dict[str, dict[PodKey, PodLoad]] = {}
        self._nominated: dict[str, dict[PodKey, PodLoad]] = {}
        self._reserved: dict[str, dict[PodKey, PodLoad]] = {}
        self._reserved_on: dict[PodKey, str] = {}
        self._assumed: dict[PodKey, _Assumed] = {}
        self._priced: dict[PodKey, PricedNodes] = {}
        self._priced_of: dict[str, PricedNodes] = {}
        self._arriving: PricedNodes | None = None
        # One at a time: two concurrent publications would miss each other's nodes.
        self._publishing = threading.Lock()

    def set_node(self, name: str, view: NodeView | None) -> None:
        """A node as ``views.view_node`` gives it; None if it is gone."""
        with self._lock:
            if view is None:
                self._nodes.pop(name, None)
            else:
                self._nodes[name] = view
            self._refresh(name)

    def set_pod(self, key: PodKey, load: PodLoad | None) -> None:
        """A waiting or running pod; None if it is gone or finished."""
        with self._lock:
            before = self._pods.pop(key, None)
            if before is not None and before.node:
                _take(self._running, before.node, key)
            if before is not None and before.nominated_for:
                _take(self._nominated, before.nominated_for, key)
            if load is not None:
                self._pods[key] = load
                if load.node:
                    self._running.setdefault(load.node, {})[key] = load
                if load.nominated_for:
                    self._nominated.setdefault(load.nominated_for, {})[key] = load
            if load is None or load.node:
                self._forget(key)
            self._reserve(key)
            for name in {one.node for one in (before, load) if one is not None and one.node}:
                self._refresh(name)

    def set_measured(self, found: t.Mapping[str, Measured]) -> None:
        """The use of newly measured nodes; others keep theirs until it is too old."""
        for name, measured in found.items():
            with self._lock:
                self._measured[name] = measured
                self._measured_until = min(self._measured_until, self._end_of(measured))
                self._refresh(name)
        with self._lock:
            self._end_measurements()

    def _end_of(self, measured: Measured) -> float:
        return measured.until + self._measured_seconds

    def _end_measurements(self) -> None:
        """Drop measurements that are too old."""
        now = self._clock()
        if now < self._measured_until:
            return
        ended = [name for name, one in self._measured.items() if self._end_of(one) <= now]
        for name in ended:
            del self._measured[name]
            self._refresh(name)
        ends = map(self._end_of, self._measured.values())
        self._measured_until = min(ends, default=float("inf"))

    def set_publication(self, key: PodKey, publication: Publication | None) -> None:
        """Set a run's publication; None withdraws it. The first of two that name a node counts."""
        with self._publishing:
            if publication is None:
                with self._lock:
                    self._priced.pop(key, None)
            else:
                arriving = PricedNodes(publication)
                with self._lock:
                    self._arriving = arriving
                for name in arriving.names:
                    with self._lock:
                        self._refresh(name)
                with self._lock:
                    self._priced[key], self._arriving = arriving, None
            self._take_over()

    def _take_over(self) -> None:
        with self._lock:
            self._priced_of = {
                name: self._priced[key]
                for key in sorted(self._priced, reverse=True)
                for name in self._priced[key].names
            }
            planned = {key for one in self._priced.values() for key in one.publication.planned}
            for key in self._reserved_on.keys() | planned:
                self._reserve(key)

    @property
    def needs_measurements(self) -> bool:
        """Whether any run takes the use of nodes from metrics.k8s.io."""
        with self._lock:
            return any(one.publication.usage_source != "requests" for one in self._priced.values())

    def measured_age(self) -> float | None:
        """Seconds since the end of the oldest measurement that counts; None without one."""
        with self._lock:
            self._end_measurements()
            oldest = min((one.until for one in self._measured.values()), default=None)
            return None if oldest is None else max(0.0, self._clock() - oldest)

    def counts(self) -> dict[str, int]:
        """Numbers of objects, for metrics."""
        with self._lock:
            return {
                "nodes": len(self._nodes),
                "priced_nodes": sum(name in self._nodes for name in self._priced_of),
                "pods": len(self._pods),
                "measured_nodes": len(self._measured),
                "assumed_pods": len(self._assumed),
                "reserved_pods": len(self._reserved_on),
                "publications": len(self._priced),
            }

    def scores(self, pod: AskingPod, names: t.Sequence[str]) -> list[int]:
        """The score of each node for the pod; a unique best one is its assumed node."""
        with self._lock:
            self._expire()
            self._forget(pod.key)
            node = self._planned_node(pod.key)
            planned = names.index(node) if node in names else None
            found = scores_of(self._prices(pod, names), planned)
            if found.count(HIGHEST) == 1:
                self._assume(pod, names[found.index(HIGHEST)])
            return found

    def prices(self, pod: AskingPod, names: t.Sequence[str]) -> Prices:
        """Cost of the pod on each node."""
        with self._lock:
            self._expire()
            return self._prices(pod, names)

    def crowded(self, pod: AskingPod, names: t.Iterable[str]) -> set[str]:
        """Nodes without room beside planned pods of the same or a higher priority."""
        with self._lock:
            self._expire()
            own = self._planned_node(pod.key)
            return {
                name
                for name in names
                if name != own and name in self._reserved and not self._has_room(pod, name)
            }

    def _prices(self, pod: AskingPod, names: t.Sequence[str]) -> Prices:
        positions: dict[int, list[int]] = defaultdict(list)
        fleets = [self._priced_of.get(name) for name in names]
        # Nearly always; splitting a thousand names takes as long as pricing them.
        if fleets and fleets[0] is not None and fleets.count(fleets[0]) == len(fleets):
            return fleets[0].prices(pod, names, self._clock())
        for position, fleet in enumerate(fleets):
            positions[id(fleet)].append(position)
        found = Prices.unknown(len(names))
        for own in positions.values():
            fleet = fleets[own[0]]
            if fleet is not None:
                prices = fleet.prices(pod, [names[at] for at in own], self._clock())
                found.put(own, prices)
        return found

    def _has_room(self, pod: AskingPod, name: str) -> bool:
        view = self._nodes.get(name)
        if view is None:
            return True
        reserved, nominated = (
            {
                key: load
                for key, load in waiting.get(name, {}).items()
                if load.priority >= pod.load.priority and key != pod.key
            }
            for waiting in (self._reserved, self._nominated)
        )
        if not reserved:
            return True
        running = self._running.get(name, {}).values()
        promised = {**nominated, **reserved}.values()
        taken = occupancy_of([*running, *promised], 0.0).requests
        return all(
            taken.get(resource, 0) + amount <= view.allocatable.get(resource, 0)
            for resource, amount in pod.load.requests
        )

    def _planned_node(self, key: PodKey) -> str:
        """The planned node of a waiting pod, if it is still valid."""
        load, now = self._pods.get(key), self._clock()
        for priced in self._priced.values():
            publication = priced.publication
            planned = publication.planned.get(key)
            if planned is None or load is None or load.node or now >= publication.intends_until:
                continue
            if not planned.uid or planned.uid == load.uid:
                return planned.node
        return ""

    def _reserve(self, key: PodKey) -> None:
        """Count a waiting pod on its planned node, and nowhere else."""
        former = self._reserved_on.pop(key, None)
        if former is not None:
            _take(self._reserved, former, key)
            self._refresh(former)
        node = self._planned_node(key)
        if node:
            self._reserved_on[key] = node
            self._reserved.setdefault(node, {})[key] = self._pods[key]
            self._refresh(node)

    def _assume(self, pod: AskingPod, node: str) -> None:
        load = pod.load._replace(node=node)
        self._assumed[pod.key] = _Assumed(load, self._clock() + ASSUMED_SECONDS)
        self._refresh(node)

    def _forget(self, key: PodKey) -> None:
        assumed = self._assumed.pop(key, None)
        if assumed is not None:
            self._refresh(assumed.load.node)

    def _expire(self) -> None:
        """Drop measurements, assumptions and intentions that are too old."""
        self._end_measurements()
        now = self._clock()
        for key in [key for key, one in self._assumed.items() if one.until <= now]:
            self._forget(key)
        if any(now >= one.publication.intends_until for one in self._priced.values()):
            for key in [key for key in self._reserved_on if not self._planned_node(key)]:
                self._reserve(key)

    def _refresh(self, name: str) -> None:
        """Update the price of a node."""
        for priced in (self._priced_of.get(name), self._arriving):
            if priced is not None and name in priced.index:
                measured, view = self._measured.get(name), self._nodes.get(name)
                priced.refresh(name, view, self._loads(name), measured)

    def _loads(self, name: str) -> t.Iterator[PodLoad]:
        reserved = self._reserved.get(name, {})
        yield from self._running.get(name, {}).values()
        yield from reserved.values()
        for key, assumed in self._assumed.items():
            if assumed.load.node == name and key not in reserved:
                yield assumed.load


def _take(pods: dict[str, dict[PodKey, PodLoad]], node: str, key: PodKey) -> None:
    """Remove a pod from a node; a node without pods is dropped."""
    pods[node].pop(key, None)
    if not pods[node]:
        del pods[node]
