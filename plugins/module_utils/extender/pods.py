# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pods as the extender knows them: running ones by node, and waiting ones where they count."""

from __future__ import annotations

import functools
import sys
import typing as t

from .headroom import Beside, CountedPod, PassedPod
from .publication import PodKey
from .views import AskingPod, PodLoad

# kube-scheduler's bindTimeoutSeconds: a pod that waits longer for its volumes is filtered again.
PASSED_SECONDS = 600.0


class AssumedPod(t.NamedTuple):
    """A pod that was just scored, on the node with the highest score, until a time of the clock."""

    load: PodLoad
    until: float


class PodsByNode:
    """Pods on their nodes; a node without pods takes no memory."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[PodKey, PodLoad]] = {}

    def __contains__(self, node: str) -> bool:
        return node in self._pods

    def on(self, node: str) -> t.Mapping[PodKey, PodLoad]:
        return self._pods.get(node, {})

    def put(self, node: str, key: PodKey, load: PodLoad) -> None:
        self._pods.setdefault(node, {})[key] = load

    def take(self, node: str, key: PodKey) -> None:
        self._pods[node].pop(key, None)
        if not self._pods[node]:
            del self._pods[node]


class Pods:
    """Pods by key, running ones by node, and waiting ones by the node that kube-scheduler wants."""

    def __init__(self) -> None:
        self.of_key: dict[PodKey, PodLoad] = {}
        self.running, self.nominated = PodsByNode(), PodsByNode()

    def put(self, key: PodKey, load: PodLoad | None) -> PodLoad | None:
        """Set a pod, or remove it; returns the former one."""
        before = self.of_key.pop(key, None)
        if before is not None and before.node:
            self.running.take(before.node, key)
        if before is not None and before.nominated_for:
            self.nominated.take(before.nominated_for, key)
        if load is not None:
            self.of_key[key] = load
            if load.node:
                self.running.put(load.node, key, load)
            if load.nominated_for:
                self.nominated.put(load.nominated_for, key, load)
        return before


class WaitingPods:
    """Pods without a node count on their planned or assumed one, and where they may land."""

    def __init__(self, clock: t.Callable[[], float]) -> None:
        self._clock = clock
        self.reserved = PodsByNode()
        self.reserved_on: dict[PodKey, str] = {}
        self.assumed: dict[PodKey, AssumedPod] = {}
        self.passed: dict[PodKey, PassedPod] = {}

    def loads(self, node: str) -> t.Iterator[PodLoad]:
        """The pods that count on the node."""
        reserved = self.reserved.on(node)
        yield from reserved.values()
        for key, assumed in self.assumed.items():
            if assumed.load.node == node and key not in reserved:
                yield assumed.load

    def beside(self, key: PodKey) -> Beside:
        """The pods that passed, without this one, and the nodes on which they and it count."""
        passed = [one for other, one in self.passed.items() if other != key]
        keys = (key, *(one.pod.key for one in passed))
        return Beside(passed, [one for other in keys for one in self._counted(other)])

    def _counted(self, key: PodKey) -> t.Iterator[CountedPod]:
        node, assumed = self.reserved_on.get(key, ""), self.assumed.get(key)
        if node:
            yield CountedPod(node, self.reserved.on(node)[key].millicores)
        if assumed is not None and assumed.load.node != node:
            yield CountedPod(assumed.load.node, assumed.load.millicores)

    def reserve(self, key: PodKey, node: str, load: PodLoad | None) -> t.Iterator[str]:
        """Count a pod on this node and nowhere else; the changed nodes."""
        former = self.reserved_on.pop(key, None)
        if former is not None:
            self.reserved.take(former, key)
            yield former
        if node and load is not None:
            self.reserved_on[key] = node
            self.reserved.put(node, key, load)
            yield node

    def note_passed(self, pod: AskingPod, names: t.Sequence[str]) -> None:
        """The pod may get one of these nodes, and none that passed before."""
        self.passed.pop(pod.key, None)
        if names:
            nodes = _shared(frozenset(names))
            self.passed[pod.key] = PassedPod(pod, nodes, self._clock() + PASSED_SECONDS)

    def settle(self, key: PodKey, load: PodLoad | None) -> None:
        """The pod has its node, or is gone; not if another one of its name has passed since."""
        passed = self.passed.get(key)
        if passed is not None and load is not None and passed.pod.load.uid == load.uid:
            del self.passed[key]

    def ended(self) -> list[PodKey]:
        """Forget pods that passed long ago; the pods whose assumption is too old."""
        now = self._clock()
        self.passed = {key: one for key, one in self.passed.items() if one.until > now}
        return [key for key, one in self.assumed.items() if one.until <= now]


@functools.lru_cache(maxsize=16)
def _shared(names: frozenset[str]) -> frozenset[str]:
    """The same set for most pods of a burst, because a fleet has thousands of names."""
    return frozenset(map(sys.intern, names))
