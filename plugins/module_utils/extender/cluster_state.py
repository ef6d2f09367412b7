# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The extender's state of the cluster, updated by watches and read by calls of kube-scheduler.

A pod that was just scored is assumed on the node with the highest score until its binding is seen,
because the call for the next pod comes before that. Waiting pods count on their planned nodes.
"""

from __future__ import annotations

import itertools
import threading
import time
import typing as t
from collections import defaultdict

from .headroom import Beside, Headroom
from .pods import AssumedPod, Pods, WaitingPods
from .priced_nodes import PricedNodes
from .publication import PodKey, Publication
from .scores import HIGHEST, Prices, scores_of
from .views import Allocatable, AskingPod, Measured, NodeView, PodLoad, Requests, occupancy_of

ASSUMED_SECONDS = 5.0
# As long as the last reading of a BMC replaces a missing one.
MEASURED_SECONDS = 300.0


class Filtered(t.NamedTuple):
    """Nodes that pass, nodes without room beside reservations, and nodes beyond limits with reasons."""

    passing: t.Sequence[str]
    crowded: t.Collection[str]
    limited: t.Mapping[str, str]


class _Measurements:
    """The measured use of nodes, until it is too old."""

    def __init__(self, clock: t.Callable[[], float], seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self.of_node: dict[str, Measured] = {}
        self._until = float("inf")

    def put(self, name: str, measured: Measured) -> None:
        self.of_node[name] = measured
        self._until = min(self._until, self._end_of(measured))

    def ended(self) -> list[str]:
        """Drop measurements that are too old, and return the names of their nodes."""
        now = self._clock()
        if now < self._until:
            return []
        ended = [name for name, one in self.of_node.items() if self._end_of(one) <= now]
        for name in ended:
            del self.of_node[name]
        self._until = min(map(self._end_of, self.of_node.values()), default=float("inf"))
        return ended

    def age(self) -> float | None:
        """Seconds since the end of the oldest measurement; None without one."""
        oldest = min((one.until for one in self.of_node.values()), default=None)
        return None if oldest is None else max(0.0, self._clock() - oldest)

    def _end_of(self, measured: Measured) -> float:
        return measured.until + self._seconds


class _Publications:
    """The publications of runs by their key, and of each node the first that names it."""

    def __init__(self, clock: t.Callable[[], float]) -> None:
        self._clock = clock
        self.of_run: dict[PodKey, PricedNodes] = {}
        self.of_node: dict[str, PricedNodes] = {}
        # Of each node in a publication with limits; one without a curve may be closed.
        self._limiting: dict[str, Headroom] = {}

    @property
    def has_limits(self) -> bool:
        return bool(self._limiting)

    @property
    def need_measurements(self) -> bool:
        return any(one.publication.usage_source != "requests" for one in self.of_run.values())

    def divide_nodes(self) -> None:
        """Decide which publication counts for each node."""
        in_order = [self.of_run[key] for key in sorted(self.of_run, reverse=True)]
        self.of_node = {name: one for one in in_order for name in one.names}
        limits = {
            name: one.headroom
            for one in in_order
            for name in one.publication.closed
            if name not in self.of_node
        }
        limits.update({name: one.headroom for name, one in self.of_node.items()})
        self._limiting = {name: one for name, one in limits.items() if one is not None}

    def reasons_of_limits(
        self, pod: AskingPod, names: t.Sequence[str], beside: Beside
    ) -> dict[str, str]:
        """Why limits exclude some of these nodes; see Headroom."""
        owners = [self._limiting.get(name) for name in names]
        found: dict[str, str] = {}
        for headroom in set(filter(None, owners)):
            # Nearly always; as with prices.
            own = names
            if owners.count(headroom) < len(owners):
                own = [name for name, owner in zip(names, owners) if owner is headroom]
            found.update(headroom.reasons(pod, own, beside))
        return found

    def planned_pods(self) -> set[PodKey]:
        return {key for one in self.of_run.values() for key in one.publication.planned}

    def any_intentions_ended(self) -> bool:
        now = self._clock()
        return any(now >= one.publication.intends_until for one in self.of_run.values())

    def planned_node(self, key: PodKey, load: PodLoad | None) -> str:
        """The planned node of a waiting pod, if it is still valid."""
        now = self._clock()
        for priced in self.of_run.values():
            publication = priced.publication
            planned = publication.planned.get(key)
            if planned is None or load is None or load.node or now >= publication.intends_until:
                continue
            if not planned.uid or planned.uid == load.uid:
                return planned.node
        return ""

    def prices(self, pod: AskingPod, names: t.Sequence[str]) -> Prices:
        positions: dict[int, list[int]] = defaultdict(list)
        fleets = [self.of_node.get(name) for name in names]
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


class ClusterState:
    """Thread-safe. ``clock`` gives Unix time; measurements count for ``measured_seconds``."""

    def __init__(
        self, clock: t.Callable[[], float] = time.time, measured_seconds: float = MEASURED_SECONDS
    ) -> None:
        self._clock = clock
        # Held for one node or one request at a time, never for the whole fleet.
        self._lock = threading.RLock()
        self._nodes: dict[str, NodeView] = {}
        self._measured = _Measurements(clock, measured_seconds)
        self._pods = Pods()
        self._waiting = WaitingPods(clock)
        self._published = _Publications(clock)
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
            before = self._pods.put(key, load)
            if load is None or load.node:
                self._forget(key)
                self._waiting.settle(key, load or before)
            self._reserve(key)
            for name in {one.node for one in (before, load) if one is not None and one.node}:
                self._refresh(name)

    def set_measured(self, found: t.Mapping[str, Measured]) -> None:
        """The use of newly measured nodes; others keep theirs until it is too old."""
        for name, measured in found.items():
            with self._lock:
                self._measured.put(name, measured)
                self._refresh(name)
        with self._lock:
            self._end_measurements()

    def _end_measurements(self) -> None:
        for name in self._measured.ended():
            self._refresh(name)

    def set_publication(self, key: PodKey, publication: Publication | None) -> None:
        """Set a run's publication; None withdraws it. The first of two that name a node counts."""
        with self._publishing:
            if publication is None:
                with self._lock:
                    self._published.of_run.pop(key, None)
            else:
                arriving = PricedNodes(publication)
                with self._lock:
                    self._arriving = arriving
                for name in arriving.names:
                    with self._lock:
                        self._refresh(name)
                with self._lock:
                    self._published.of_run[key], self._arriving = arriving, None
            self._take_over()

    def _take_over(self) -> None:
        with self._lock:
            self._published.divide_nodes()
            for key in self._waiting.reserved_on.keys() | self._published.planned_pods():
                self._reserve(key)

    @property
    def needs_measurements(self) -> bool:
        """Whether any run takes the use of nodes from metrics.k8s.io."""
        with self._lock:
            return self._published.need_measurements

    def measured_age(self) -> float | None:
        """Seconds since the end of the oldest measurement that counts; None without one."""
        with self._lock:
            self._end_measurements()
            return self._measured.age()

    def counts(self) -> dict[str, int]:
        """Numbers of objects, for metrics."""
        with self._lock:
            return {
                "nodes": len(self._nodes),
                "priced_nodes": sum(name in self._nodes for name in self._published.of_node),
                "pods": len(self._pods.of_key),
                "measured_nodes": len(self._measured.of_node),
                "assumed_pods": len(self._waiting.assumed),
                "passed_pods": len(self._waiting.passed),
                "reserved_pods": len(self._waiting.reserved_on),
                "publications": len(self._published.of_run),
            }

    def scores(self, pod: AskingPod, names: t.Sequence[str]) -> list[int]:
        """The score of each node for the pod; a unique best one is its assumed node."""
        with self._lock:
            self._expire()
            self._forget(pod.key)
            node = self._planned_node(pod.key)
            planned = names.index(node) if node in names else None
            found = scores_of(self._published.prices(pod, names), planned)
            if found.count(HIGHEST) == 1:
                self._assume(pod, names[found.index(HIGHEST)])
            return found

    def prices(self, pod: AskingPod, names: t.Sequence[str]) -> Prices:
        """Cost of the pod on each node."""
        with self._lock:
            self._expire()
            return self._published.prices(pod, names)

    def filtered(self, pod: AskingPod, names: t.Sequence[str]) -> Filtered:
        """The nodes that may take the pod.

        If reservations exclude all nodes within limits, these pass. Limits exclude no pod of a
        DaemonSet, because no other node can have it. A pod that others can have as well is none,
        whatever its owner says.
        """
        with self._lock:
            has_limits = self._published.has_limits
            limited: t.Mapping[str, str] = {}
            if has_limits and (pod.load.is_workload or len(names) > 1):
                self._expire()
                self._forget(pod.key)
                beside = self._waiting.beside(pod.key)
                limited = self._published.reasons_of_limits(pod, names, beside)
            within = [name for name in names if name not in limited] if limited else names
            crowded = self.crowded(pod, within)
            passing = [name for name in within if name not in crowded]
            if not passing:
                passing, crowded = list(within), set()
            if has_limits:
                self._waiting.note_passed(pod, passing)
            return Filtered(passing, crowded, limited)

    def crowded(self, pod: AskingPod, names: t.Iterable[str]) -> set[str]:
        """Nodes without room beside planned pods of the same or a higher priority."""
        with self._lock:
            self._expire()
            own, reserved = self._planned_node(pod.key), self._waiting.reserved
            return {
                name
                for name in names
                if name != own and name in reserved and not self._has_room(pod, name)
            }

    def _has_room(self, pod: AskingPod, name: str) -> bool:
        """Whether a node has room beside the pods that are planned or nominated for it."""
        view, nominated = self._nodes.get(name), _before(pod, self._pods.nominated.on(name))
        reserved = _before(pod, self._waiting.reserved.on(name))
        if view is None or not reserved:
            return True
        promised = {**nominated, **reserved}.values()
        taken = occupancy_of([*self._pods.running.on(name).values(), *promised], 0.0).requests
        return _fits(pod.load.requests, view.allocatable, taken)

    def _planned_node(self, key: PodKey) -> str:
        return self._published.planned_node(key, self._pods.of_key.get(key))

    def _reserve(self, key: PodKey) -> None:
        """Count a waiting pod on its planned node, and nowhere else."""
        node, load = self._planned_node(key), self._pods.of_key.get(key)
        for name in list(self._waiting.reserve(key, node, load)):
            self._refresh(name)

    def _assume(self, pod: AskingPod, node: str) -> None:
        load = pod.load._replace(node=node)
        self._waiting.assumed[pod.key] = AssumedPod(load, self._clock() + ASSUMED_SECONDS)
        self._refresh(node)

    def _forget(self, key: PodKey) -> None:
        assumed = self._waiting.assumed.pop(key, None)
        if assumed is not None:
            self._refresh(assumed.load.node)

    def _expire(self) -> None:
        """Drop measurements, assumptions and intentions that are too old."""
        self._end_measurements()
        for key in self._waiting.ended():
            self._forget(key)
        if self._published.any_intentions_ended():
            for key in [key for key in self._waiting.reserved_on if not self._planned_node(key)]:
                self._reserve(key)

    def _refresh(self, name: str) -> None:
        """Update the price of a node."""
        for priced in (self._published.of_node.get(name), self._arriving):
            if priced is not None and name in priced.index:
                measured, view = self._measured.of_node.get(name), self._nodes.get(name)
                running = self._pods.running.on(name).values()
                priced.refresh(
                    name, view, itertools.chain(running, self._waiting.loads(name)), measured
                )


def _fits(requests: Requests, allocatable: Allocatable, taken: t.Mapping[str, int]) -> bool:
    return all(
        taken.get(resource, 0) + amount <= allocatable.get(resource, 0)
        for resource, amount in requests
    )


def _before(pod: AskingPod, waiting: t.Mapping[PodKey, PodLoad]) -> dict[PodKey, PodLoad]:
    """The other pods of the same or a higher priority."""
    return {
        key: load
        for key, load in waiting.items()
        if load.priority >= pod.load.priority and key != pod.key
    }
