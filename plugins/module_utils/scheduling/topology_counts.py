# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""How many pods of some groups are in each domain of a topology: what rules between pods look at.

Axes: G groups, N nodes, D domains. Each count has one place more than there are domains, for nodes
that are in none; their domain is -1, which numpy takes for the last place.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.libraries import numpy
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.instance import Instance

if t.TYPE_CHECKING:
    from ansible_collections.wattwise.kube.plugins.module_utils.solving.arrays import (
        Booleans,
        Integers,
    )


# The key of the topology that has one domain, with every node in it; no label has this name.
ALL_NODES = "*"
# One array for each topology count.
Counts = list["Integers"]


@dataclass(frozen=True)
class Topology:
    """The domain of each node, ``domain_of[n]``; -1 where the node lacks the label."""

    domain_of: Integers
    domains: int


@dataclass(frozen=True)
class TopologyCount:
    """Pods of the groups ``members[g]`` by domain; ``base[d]`` of them run already."""

    members: Booleans
    domain_of: Integers
    base: Integers

    @property
    def domains(self) -> int:
        return len(self.base) - 1


class TopologyCountBook:
    """Topologies and topology counts of one problem, each made once."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._topologies: dict[str, Topology] = {}
        self._indices: dict[tuple[t.Any, ...], int] = {}
        self.topology_counts: list[TopologyCount] = []

    def topology(self, key: str) -> Topology:
        """The domains of a label; with an empty key each node is one, with ALL_NODES all are."""
        if key not in self._topologies:
            nodes = self._instance.nodes
            values = [
                key if key == ALL_NODES else node.labels.get(key) if key else node.name
                for node in nodes
            ]
            present = sorted({value for value in values if value is not None})
            known = {value: index for index, value in enumerate(present)}
            domain_of = numpy.array(
                [-1 if value is None else known[value] for value in values],
                dtype=numpy.int64,
            )
            self._topologies[key] = Topology(domain_of, len(known))
        return self._topologies[key]

    def topology_count(
        self,
        members: Booleans,
        topology: Topology,
        peers: int | None = None,
        counted: Booleans | None = None,
    ) -> int:
        """The index of a topology count; with ``peers`` it begins with what of them runs.

        Of the nodes only those count that are ``counted``.
        """
        domain_of = topology.domain_of
        if counted is not None:
            domain_of = numpy.where(counted, domain_of, -1)
        key = (members.tobytes(), domain_of.tobytes(), topology.domains, peers)
        if key not in self._indices:
            base = numpy.zeros(topology.domains + 1, dtype=numpy.int64)
            if peers is not None:
                numpy.add.at(base, domain_of, self.running(peers))
            self._indices[key] = len(self.topology_counts)
            self.topology_counts.append(TopologyCount(members, domain_of, base))
        return self._indices[key]

    def running(self, peers: int) -> Integers:
        """How many pods of the peers run on each node."""
        on = self._instance.peers[peers]
        return numpy.array(
            [on.get(node.name, 0) for node in self._instance.nodes], dtype=numpy.int64
        )


def topology_counts_of(topology_counts: t.Sequence[TopologyCount], counts: Integers) -> Counts:
    """All topology counts of an assignment (groups by nodes), counted from scratch."""
    result = []
    for topology_count in topology_counts:
        found = topology_count.base.copy()
        numpy.add.at(found, topology_count.domain_of, counts[topology_count.members].sum(axis=0))
        result.append(found)
    return result
