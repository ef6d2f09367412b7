# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Topology counts: pods of some groups in each domain, the input of rules between pods.

Axes: G groups, N nodes, D domains. Each count has an additional last place for nodes without a
domain; their domain is -1, the last index in numpy.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ...base.libraries import numpy
from ...scheduling.model import NominatedMember, Shape
from ...solving.arrays import Booleans, Integers
from .instance import Instance

# The key of the topology with one domain of all nodes; no label has this name.
ALL_NODES = "*"
# One array for each topology count.
Counts = list["Integers"]


@dataclass(frozen=True)
class Topology:
    """The domain of each node, ``domain_of[n]``; -1 if the node lacks the label."""

    domain_of: Integers
    domains: int


@dataclass(frozen=True, eq=False)
class TopologyCount:
    """Pods of the groups ``members[g]`` by domain; ``base[d]`` of them are running already.

    ``index`` is its position in Counts.
    """

    index: int
    members: Booleans
    domain_of: Integers
    base: Integers

    def at_nodes(self, counts: Counts) -> Integers:
        """Number of pods in the domain of each node."""
        return counts[self.index][self.domain_of]


class TopologyCountBook:
    """Topologies and topology counts of one problem, each made once; ``shapes[g]`` of a group."""

    def __init__(self, instance: Instance, shapes: t.Sequence[Shape]) -> None:
        self.instance = instance
        self.shapes = shapes
        self._of_peers: dict[int, list[int]] = {}
        for group, shape in enumerate(shapes):
            for peers in shape.relations.member_of:
                self._of_peers.setdefault(peers, []).append(group)
        self._topologies: dict[str, Topology] = {}
        self._known: dict[tuple[bytes, ...], TopologyCount] = {}
        self._node_index = {node.name: index for index, node in enumerate(instance.nodes)}
        self._running: dict[int, Integers] = {}

    @property
    def topology_counts(self) -> tuple[TopologyCount, ...]:
        return tuple(self._known.values())

    def mask(self, groups: t.Iterable[int]) -> Booleans:
        mask = numpy.zeros(len(self.shapes), dtype=bool)
        mask[list(groups)] = True
        return mask

    def members(self, peers: int) -> Booleans:
        """Mask of the groups that belong to the peers."""
        return self.mask(self._of_peers.get(peers, []))

    def topology(self, key: str) -> Topology:
        """The domains of a label; an empty key gives one for each node, ALL_NODES one for all."""
        if key not in self._topologies:
            nodes = self.instance.nodes
            values = [
                key if key == ALL_NODES else node.labels.get(key) if key else node.name
                for node in nodes
            ]
            present = sorted({value for value in values if value is not None})
            known = {value: index for index, value in enumerate(present)}
            domain_of = numpy.array(
                [-1 if value is None else known[value] for value in values], dtype=numpy.int64
            )
            self._topologies[key] = Topology(domain_of, len(known))
        return self._topologies[key]

    def topology_count(
        self,
        members: Booleans,
        topology: Topology,
        peers: int | None = None,
        counted: Booleans | None = None,
        nominated: t.Sequence[NominatedMember] = (),
    ) -> TopologyCount:
        """A topology count; with ``peers`` it starts with their running pods, and with these
        nominated ones.

        Only ``counted`` nodes count. Equal topology counts are one, whatever they are of.
        """
        domain_of = topology.domain_of
        if counted is not None:
            domain_of = numpy.where(counted, domain_of, -1)
        base = numpy.zeros(topology.domains + 1, dtype=numpy.int64)
        if peers is not None:
            numpy.add.at(base, domain_of, self.running(peers))
        for member in nominated:
            base[domain_of[self._node_index[member.node]]] += 1
        key = (members.tobytes(), domain_of.tobytes(), base.tobytes())
        if key not in self._known:
            self._known[key] = TopologyCount(len(self._known), members, domain_of, base)
        return self._known[key]

    def running(self, peers: int) -> Integers:
        """Number of running pods of the peers on each node."""
        if peers not in self._running:
            found = numpy.zeros(len(self._node_index), dtype=numpy.int64)
            for name, number in self.instance.peers[peers].items():
                if name in self._node_index:
                    found[self._node_index[name]] = number
            self._running[peers] = found
        return self._running[peers]
