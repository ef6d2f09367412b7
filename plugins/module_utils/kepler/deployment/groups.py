# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Groups of nodes with one DaemonSet each, and the affinity that assigns each node to one group.

The affinity of a group consists only of labels, so it depends on the spec and not on nodes: a new,
removed or relabelled node restarts no collector elsewhere. Nodes without such labels are in a
separate group, by name.
"""

from __future__ import annotations

import itertools
import math
import typing as t
from dataclasses import dataclass

from ...base.label_selector import LabelSelector, Requirement
from ..labels import METER_LABEL, SUPPORTED_LABEL
from .nodes import ARCHITECTURE_LABEL, JudgedNode
from .system import Collector, System

# An affinity of more terms is unreadable, and names are better.
MAX_TERMS = 32

Key = tuple[str, str, str]
Term = dict[str, t.Any]


@dataclass(frozen=True)
class Group:
    """Supported nodes of one architecture, meter and pool. ``terms`` select exactly these.

    ``by_name`` means that the terms are names of nodes.
    """

    architecture: str
    meter: str
    pool: str
    by_name: bool
    collector: Collector
    nodes: tuple[str, ...]
    terms: tuple[Term, ...]

    @property
    def name(self) -> str:
        """The suffix of the names of its objects. Names of pools have no dot."""
        name = "-".join(filter(None, (self.architecture, self.meter, self.pool)))
        return f"{name}.named" if self.by_name else name


def group(system: System, nodes: t.Sequence[JudgedNode]) -> list[Group]:
    """The groups of all supported nodes, by name; each such node is in exactly one."""
    alternatives: dict[Key, list[tuple[Requirement, ...]]] = {}
    members: dict[tuple[Key, bool], list[JudgedNode]] = {}
    for node in nodes:
        if not node.reason:
            key = (node.architecture, node.meter, node.pool)
            if key not in alternatives:
                alternatives[key] = _alternatives(system, *key)
            described = any(LabelSelector(one).matches(node.labels) for one in alternatives[key])
            members.setdefault((key, not described), []).append(node)
    collectors = {pool.name: pool.collector for pool in system.pools}
    found = [
        Group(
            *key,
            by_name,
            collectors.get(key[2], system.rest),
            tuple(node.name for node in own),
            tuple(map(_named, own) if by_name else map(_described, alternatives[key])),
        )
        for (key, by_name), own in members.items()
    ]
    return sorted(found, key=lambda one: one.name)


def _alternatives(
    system: System, architecture: str, meter: str, pool: str
) -> list[tuple[Requirement, ...]]:
    """Alternative requirements, of which a node of the group meets one completely.

    A node outside of the other pools lacks one label of each; there is an alternative for each
    choice of these. There is none if there would be too many, or if the pool contradicts the labels
    of the probe.
    """
    own = next((dict(each.node_selector) for each in system.pools if each.name == pool), {})
    probed = {ARCHITECTURE_LABEL: architecture, METER_LABEL: meter, SUPPORTED_LABEL: "true"}
    if any(own.get(key, value) != value for key, value in probed.items()):
        return []
    wanted = {**probed, **own}
    lacking: list[list[tuple[str, str]]] = []
    for each in system.pools:
        selector = each.node_selector
        # Pools with different values of one label have no common node.
        is_apart = any(wanted.get(key, value) != value for key, value in selector.items())
        if each.name != pool and not is_apart:
            lacking.append([item for item in sorted(selector.items()) if item[0] not in wanted])
    if math.prod(map(len, lacking)) > MAX_TERMS:
        return []
    present = tuple(Requirement(key, "In", frozenset({value})) for key, value in wanted.items())
    return [
        present
        + tuple(Requirement(key, "NotIn", frozenset({value})) for key, value in sorted(set(chosen)))
        for chosen in itertools.product(*lacking)
    ]


def _described(requirements: t.Iterable[Requirement]) -> Term:
    """A term of a node affinity, of which a node must meet one."""
    return {
        "matchExpressions": [
            {"key": each.key, "operator": each.operator, "values": sorted(each.values)}
            for each in requirements
        ]
    }


def _named(node: JudgedNode) -> Term:
    """The API server accepts one name in each field selector."""
    term: Term = {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": [node.name]}]
    }
    if SUPPORTED_LABEL not in node.labels:
        # A labelled node belongs to the group of its labels.
        term["matchExpressions"] = [{"key": SUPPORTED_LABEL, "operator": "DoesNotExist"}]
    return term
