# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Groups of nodes with one DaemonSet each, and the affinity that makes each node one group's.

Labels describe a group, so that a node that is labelled later joins it without a new run. Names
correct what labels do not tell: nodes that nobody labelled, and nodes whose labels lie.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.label_selector import (
    LabelSelector,
    Requirement,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.nodes import (
    JudgedNode,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.deployment.system import (
    Collector,
    System,
)
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.labels import (
    METER_LABEL,
    SUPPORTED_LABEL,
)

ARCHITECTURE_LABEL = "kubernetes.io/arch"

Term = dict[str, t.Any]


@dataclass(frozen=True)
class Group:
    """Supported nodes of one architecture, meter and pool. ``terms`` select exactly these."""

    architecture: str
    meter: str
    pool: str
    collector: Collector
    nodes: tuple[str, ...]
    terms: tuple[Term, ...]

    @property
    def name(self) -> str:
        """The last part of the names of its objects."""
        return "-".join(filter(None, (self.architecture, self.meter, self.pool)))


def group(system: System, nodes: t.Sequence[JudgedNode]) -> list[Group]:
    """The groups of all supported nodes, by name; each such node is in exactly one."""
    members: dict[tuple[str, str, str], list[str]] = {}
    for node in nodes:
        if not node.reason:
            key = (node.architecture, node.meter, node.pool)
            members.setdefault(key, []).append(node.name)
    collectors = {pool.name: pool.collector for pool in system.pools}
    found = [
        Group(
            *key,
            collectors.get(key[2], system.rest),
            tuple(names),
            tuple(_terms(system, key, frozenset(names), nodes)),
        )
        for key, names in members.items()
    ]
    return sorted(found, key=lambda one: one.name)


def _terms(
    system: System,
    key: tuple[str, str, str],
    members: frozenset[str],
    nodes: t.Sequence[JudgedNode],
) -> t.Iterator[Term]:
    """Terms of a node affinity, of which a node must meet one."""
    requirements = _requirements(system, *key)
    selector = LabelSelector(requirements)
    labelled = {node.name for node in nodes if selector.matches(node.labels)}
    described: Term = {"matchExpressions": [_expression(each) for each in requirements]}
    others = sorted(labelled - members)
    if others:
        described["matchFields"] = [_named("NotIn", name) for name in others]
    yield described
    for name in sorted(members - labelled):
        yield {"matchFields": [_named("In", name)]}


def _requirements(
    system: System, architecture: str, meter: str, pool: str
) -> tuple[Requirement, ...]:
    found = [
        Requirement(ARCHITECTURE_LABEL, "In", frozenset({architecture})),
        Requirement(METER_LABEL, "In", frozenset({meter})),
        Requirement(SUPPORTED_LABEL, "In", frozenset({"true"})),
    ]
    for each in system.pools:
        if each.name == pool:
            found += [
                Requirement(label, "In", frozenset({value}))
                for label, value in sorted(each.node_selector.items())
            ]
        elif len(each.node_selector) == 1:
            # More labels than one have no negation in one term; names do the rest.
            [(label, value)] = each.node_selector.items()
            found.append(Requirement(label, "NotIn", frozenset({value})))
    return tuple(found)


def _expression(requirement: Requirement) -> dict[str, t.Any]:
    return {
        "key": requirement.key,
        "operator": requirement.operator,
        "values": sorted(requirement.values),
    }


def _named(operator: str, name: str) -> dict[str, t.Any]:
    """The API server takes one name in each field selector."""
    return {"key": "metadata.name", "operator": operator, "values": [name]}
