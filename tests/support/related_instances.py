# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small random instances whose pods have rules about each other, and a plain reading of the rules.

The reading goes pod by pod as kube-scheduler's filters do, without topology counts.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from ansible_collections.wattwise.kube.plugins.module_utils.power.constraints.instance import (
    Instance,
    Rules,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.model.assignment import Assignment
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.model import (
    Constraints,
    EvenStart,
    HostPort,
    Node,
    PeerPreference,
    Pod,
    PodAffinity,
    PodAntiAffinity,
    PodRelations,
    Shape,
    Spreading,
)

KEYS = ("zone", "host")
PORTS = (
    HostPort("TCP", 80, "0.0.0.0"),
    HostPort("TCP", 80, "10.0.0.1"),
    HostPort("TCP", 80, "10.0.0.2"),
    HostPort("UDP", 80, "10.0.0.1"),
)
PEERS = 4
# The pods of the ReplicaSet that starts evenly.
REPLICA_SET = PEERS
# Place of a pod: its shape, the node's index, and whether it is one to be placed.
Placed = tuple[Shape, int, bool]


def random_instance(seed: int, *, gangs: bool = False) -> Instance:
    source = random.Random(seed)
    nodes = tuple(_node(source, index) for index in range(source.randint(2, 5)))
    running = tuple(
        {node.name: source.choice([0, 0, 0, 1, 2]) for node in nodes} for _peers in range(PEERS + 1)
    )
    start = EvenStart(REPLICA_SET, source.choice(["", "zone"]), source.choice([3, 5]))
    shapes = [_shape(source, start, gangs) for _group in range(source.randint(1, 4))]
    pods = [
        Pod("default", f"{group}-{number}", shape)
        for group, shape in enumerate(shapes)
        for number in range(source.randint(1, 4))
    ]
    return Instance(nodes, tuple(pods), Rules(preference_watts=1.0), running)


def _node(source: random.Random, index: int) -> Node:
    labels = {"host": f"n{index}", "zone": source.choice(["a", "b", "c"])}
    if source.random() < 0.15:
        del labels[source.choice(KEYS)]
    curve = Curve((0.0, 4.0), (100.0, 100.0 + source.randint(1, 9) * 10))
    ports = frozenset(source.sample(PORTS, source.choice([0, 0, 0, 1])))
    return Node(f"n{index}", {"cpu": 4000, "pods": 6}, 0, curve, labels, ports=ports)


def _shape(source: random.Random, start: EvenStart, gangs: bool) -> Shape:
    def peers() -> int:
        return source.randrange(PEERS)

    def some(chance: float) -> bool:
        return source.random() < chance

    cpu = source.choice([250, 500, 1000])
    spreadings = [
        Spreading(peers(), key, source.choice([1, 1, 2]), source.choice([1, 1, 3]))
        for key in KEYS
        if some(0.2)
    ]
    affinity = PodAffinity(peers(), tuple(source.sample(KEYS, source.choice([1, 1, 2]))))
    starts_evenly = some(0.15)
    keys = tuple(spreading.topology_key for spreading in spreadings)
    return Shape(
        (("cpu", cpu), ("pods", 1)),
        cpu * 800,
        constraints=Constraints(ports=tuple(source.sample(PORTS, 1)) if some(0.2) else ()),
        relations=PodRelations(
            member_of=frozenset(
                source.sample(range(PEERS), source.randint(0, 2)) + [REPLICA_SET] * starts_evenly
            ),
            anti_affinity=tuple(PodAntiAffinity(peers(), key) for key in KEYS if some(0.2)),
            affinity=affinity if some(0.3) else None,
            spreadings=tuple(each._replace(required_keys=keys) for each in spreadings),
            even_start=start if starts_evenly else None,
            peer_preferences=(PeerPreference(50, peers(), "zone", some(0.5)),) if some(0.3) else (),
            soft_spreadings=(Spreading(peers(), "zone"),) if some(0.2) else (),
            gang="default/gang" if gangs and some(0.4) else "",
        ),
    )


def without_starts(instance: Instance) -> Instance:
    """The instance without even starts, which kube-scheduler does not know."""
    pods = tuple(
        replace(
            pod, shape=replace(pod.shape, relations=replace(pod.shape.relations, even_start=None))
        )
        for pod in instance.pods
    )
    return replace(instance, pods=pods)


def placed_pods(assignment: Assignment) -> list[Placed]:
    """The pods of an assignment, each with its node."""
    groups = assignment.problem.groups
    return [
        (groups[group].shape, node, True)
        for group, row in enumerate(assignment.counts.tolist())
        for node, number in enumerate(row)
        for _pod in range(number)
    ]


class Cluster:
    """Pods on nodes, and whether a filter would let one more pod onto a node."""

    def __init__(self, instance: Instance) -> None:
        self.nodes = instance.nodes
        self.running = instance.peers

    def accepts(self, shape: Shape, node: int, others: Sequence[Placed]) -> bool:
        rules = shape.relations
        return (
            self._ports(shape, node, others)
            and all(self._no_peer(each, node, others) for each in rules.anti_affinity)
            and not self._unwanted(shape, node, others)
            and (rules.affinity is None or self._near(shape, node, others))
            and all(self._even(each, shape, node, others) for each in rules.spreadings)
        )

    def _domain(self, key: str, node: int) -> str | None:
        return self.nodes[node].labels.get(key)

    def _members(self, peers: int, others: Iterable[Placed]) -> Iterator[int]:
        """The node of each pod of the peers."""
        yield from (node for shape, node, _new in others if peers in shape.relations.member_of)
        for index, node in enumerate(self.nodes):
            yield from [index] * self.running[peers][node.name]

    def _ports(self, shape: Shape, node: int, others: Sequence[Placed]) -> bool:
        taken = [*self.nodes[node].ports]
        for other, at, _new in others:
            taken += other.constraints.ports if at == node else ()
        return not any(
            mine[:2] == theirs[:2] and (mine[2] == theirs[2] or "0.0.0.0" in (mine[2], theirs[2]))
            for mine in shape.constraints.ports
            for theirs in taken
        )

    def _no_peer(self, anti_affinity: PodAntiAffinity, node: int, others: Sequence[Placed]) -> bool:
        domain = self._domain(anti_affinity.topology_key, node)
        members = self._members(anti_affinity.peers, others)
        return domain is None or all(
            self._domain(anti_affinity.topology_key, at) != domain for at in members
        )

    def _unwanted(self, shape: Shape, node: int, others: Sequence[Placed]) -> bool:
        return any(
            anti_affinity.peers in shape.relations.member_of
            and self._domain(anti_affinity.topology_key, at) is not None
            and self._domain(anti_affinity.topology_key, at)
            == self._domain(anti_affinity.topology_key, node)
            for other, at, _new in others
            for anti_affinity in other.relations.anti_affinity
        )

    def _near(self, shape: Shape, node: int, others: Sequence[Placed]) -> bool:
        affinity = shape.relations.affinity
        assert affinity is not None
        keys = affinity.topology_keys
        if any(self._domain(key, node) is None for key in keys):
            return False
        members = list(self._members(affinity.peers, others))
        counts = [(key, self._domain(key, at)) for at in members for key in keys]
        if not any(domain is not None for _key, domain in counts):
            return affinity.peers in shape.relations.member_of
        return all((key, self._domain(key, node)) in counts for key in keys)

    def _even(
        self, spreading: Spreading, shape: Shape, node: int, others: Sequence[Placed]
    ) -> bool:
        key = spreading.topology_key
        if self._domain(key, node) is None:
            return False
        counted = [
            index
            for index in range(len(self.nodes))
            if all(self._domain(name, index) is not None for name in spreading.required_keys)
        ]
        counts = {self._domain(key, index): 0 for index in counted}
        for at in self._members(spreading.peers, others):
            if at in counted:
                counts[self._domain(key, at)] += 1
        least = min(counts.values(), default=0)
        if len(counts) < spreading.min_domains:
            least = 0
        own = spreading.peers in shape.relations.member_of
        return counts.get(self._domain(key, node), 0) + own - least <= spreading.max_skew
