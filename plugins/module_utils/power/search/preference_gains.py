# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Change of the cost of soft caps by one pod more or fewer, updated incrementally.

A pod on one node changes it on all nodes of a domain, but only for groups with preferred terms
about each other. So it is separate from the cost of a node itself.
"""

from __future__ import annotations

import typing as t

from ...base.libraries import numpy
from ...solving.arrays import Floats, Integers
from ..model.assignment import Assignment


class PreferredTermGains:
    """``arrival[k, n]`` and ``departure[k, n]`` in watts, of one pod of ``groups[k]`` at a node."""

    def __init__(self, assignment: Assignment, groups: t.Sequence[int]) -> None:
        self._assignment = assignment
        shape = (len(groups), len(assignment.all_nodes))
        self.arrival: Floats = numpy.zeros(shape)
        self.departure: Floats = numpy.zeros(shape)
        relations = assignment.problem.relations
        self._counted: dict[int, tuple[int, set[int]]] = {}
        for position, group in enumerate(groups):
            caps = relations.caps_of(group) if relations is not None else []
            if caps:
                self._counted[position] = (
                    group,
                    {each.index for cap in caps for each in cap.topology_counts},
                )
        self._seen: dict[int, Integers] = {}

    @property
    def matter(self) -> bool:
        """Whether any of the groups has such preferred terms; else everything stays zero."""
        return bool(self._counted)

    def refresh(self) -> Integers:
        """The nodes that have changed since the last call."""
        changed = self._changed_topology_counts()
        nodes = numpy.zeros(self.arrival.shape[1], dtype=bool)
        state = self._assignment.related
        if state is None:
            return nodes.nonzero()[0]
        for position, (group, topology_counts) in self._counted.items():
            if not topology_counts.isdisjoint(changed):
                for table, number in ((self.arrival, 1), (self.departure, -1)):
                    added = state.relations.added_by_caps(
                        state.counted, group, self._assignment.all_nodes, number
                    )
                    nodes |= table[position] != added
                    table[position] = added
        return nodes.nonzero()[0]

    def _changed_topology_counts(self) -> set[int]:
        state = self._assignment.related
        if state is None:
            return set()
        used = {
            topology_count
            for _group, topology_counts in self._counted.values()
            for topology_count in topology_counts
        }
        changed = {
            topology_count
            for topology_count in used
            if topology_count not in self._seen
            or not numpy.array_equal(self._seen[topology_count], state.counted[topology_count])
        }
        self._seen.update(
            {topology_count: state.counted[topology_count].copy() for topology_count in changed}
        )
        return changed
