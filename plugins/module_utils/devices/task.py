# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A task as a reader hands it on, and the pods that tie claims together."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.devices.findings import (
    Finding,
    Given,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.model import (
    ClaimAllocation,
    Instance,
    Node,
    Unit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.node_selector import selected
from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput

Json = t.Mapping[str, t.Any]

_REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Options:
    """What a user says about all objects: the only node, and what tells a device's watts."""

    node: str | None = None
    device_power: str | None = None


@dataclass(frozen=True)
class Task:
    """An instance, and what is needed to answer in the words of the API that it came from.

    ``result`` writes the allocation of a claim (by position) as its API does. ``pools`` are the
    names of all pools in published order, ``empty`` those without a device. ``pods`` are namespace
    and name of the pods of each unit.
    """

    instance: Instance
    result: t.Callable[[int, ClaimAllocation], dict[str, t.Any]]
    pods: tuple[tuple[tuple[str, str], ...], ...]
    pools: tuple[tuple[str, str, frozenset[str]], ...] = ()
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class PodDemand:
    """A pod with the positions of its claims, and the node that it has or must have."""

    given: Given
    claims: tuple[int, ...]
    nodes: frozenset[str] | None = None
    priority: int = 0


@dataclass
class _Group:
    claims: list[int] = field(default_factory=list)
    pods: list[PodDemand] = field(default_factory=list)


def units_of(
    demands: t.Sequence[PodDemand], names: t.Sequence[str]
) -> tuple[tuple[Unit, ...], tuple[tuple[tuple[str, str], ...], ...]]:
    """Units of pods; pods that share a claim are one unit, for it is on one node.

    ``names`` are those of all claims by position; claims of no pod are in no unit. Raises
    InvalidInput where pods that share a claim cannot be on one node.
    """
    groups: list[_Group] = []
    for demand in demands:
        touching = [group for group in groups if set(group.claims) & set(demand.claims)]
        joined = _Group()
        for group in touching:
            joined.claims += group.claims
            joined.pods += group.pods
            groups.remove(group)
        joined.claims += [claim for claim in demand.claims if claim not in joined.claims]
        joined.pods.append(demand)
        groups.append(joined)
    groups.sort(key=lambda group: min(group.claims, default=0))
    units = tuple(_unit(group, names) for group in groups if group.claims)
    pods = tuple(
        tuple((pod.given.namespace, pod.given.name) for pod in group.pods)
        for group in groups
        if group.claims
    )
    return units, pods


def _unit(group: _Group, names: t.Sequence[str]) -> Unit:
    nodes: frozenset[str] | None = None
    for pod in group.pods:
        if pod.nodes is None:
            continue
        if nodes is not None and not nodes & pod.nodes:
            shared = ", ".join(names[claim] for claim in group.claims)
            raise InvalidInput(
                f"{pod.given}: it must run on {', '.join(sorted(pod.nodes)) or 'no node'}, but "
                f"shares the claim {shared} with pods on {', '.join(sorted(nodes))}; a claim's "
                "devices are on one node"
            )
        nodes = pod.nodes if nodes is None else nodes & pod.nodes
    name = ", ".join(str(pod.given) for pod in group.pods)
    priority = max((pod.priority for pod in group.pods), default=0)
    return Unit(name, tuple(group.claims), nodes, priority)


def nodes_for(pod: Given, nodes: t.Sequence[Node]) -> frozenset[str] | None:
    """The nodes that a pod's nodeName, selector and required affinity leave; None for all."""
    spec = pod.manifest.get("spec") or {}
    if spec.get("nodeName"):
        return frozenset([spec["nodeName"]])
    wanted = spec.get("nodeSelector") or {}
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if not wanted and not required:
        return None
    found = frozenset(node.name for node in nodes if wanted.items() <= node.labels.items())
    return found & selected(pod, required, _REQUIRED, nodes) if required else found
