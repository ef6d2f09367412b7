# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Ownership of nodes and waiting pods by fleets, if several fleets share a cluster.

A node belongs to the oldest fleet that selects it. A pod belongs to the fleet that its annotation
names, and to none if there is no such fleet. Without the annotation it belongs to the oldest fleet
that places pods of its scheduler and has a node on which it may run. A suspended fleet keeps its
nodes and pods. So at most one fleet places a pod, and all runs on the same cluster state agree.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ..base.boundary import Finding, Subject, guarded, read_each, subject_of
from ..scheduling.feasibility import obstacle
from ..scheduling.intake import Intake
from ..scheduling.model import Constraints, Node
from ..scheduling.node_reader import Loads, Occupancy, read_node
from ..scheduling.pod_reader import identity, is_finished, read_pod
from ..scheduling.scope import Scope
from ..sleep.cluster.cluster_view import tainted_phase
from ..sleep.cluster.record import is_held, read_record
from ..sleep.machine import Phase
from .resource import FLEET_ANNOTATION, PowerFleet

Key = tuple[str, str]

# Before the key of the fleet that put a machine to sleep, in the record of its Node.
OWNER = "PowerFleet "

_NO_LOADS = Loads("requests", Decimal(1), {})


@dataclass(frozen=True)
class Ownership:
    """Fleets by node and by pod. ``selected_by`` has all fleets selecting a node, oldest first."""

    selected_by: t.Mapping[str, tuple[str, ...]]
    fleet_of_pod: t.Mapping[Key, str]

    @property
    def fleet_of_node(self) -> dict[str, str]:
        """The fleet of each node that has one."""
        return {node: fleets[0] for node, fleets in self.selected_by.items() if fleets}

    def scope_of(self, fleet: str) -> Scope:
        """The nodes and pods of a fleet."""
        return Scope(
            nodes=frozenset(node for node, owner in self.fleet_of_node.items() if owner == fleet),
            pods=frozenset(pod for pod, owner in self.fleet_of_pod.items() if owner == fleet),
        )

    def lost_to_older(self, fleet: str) -> int:
        """Number of nodes that the fleet selects but an older one owns."""
        return sum(fleet in fleets[1:] for fleets in self.selected_by.values())

    def kept_from_younger(self, fleet: str) -> int:
        """Number of the fleet's nodes that a younger one selects too."""
        return sum(len(fleets) > 1 and fleets[0] == fleet for fleets in self.selected_by.values())


def selects_any(fleet: PowerFleet, nodes: t.Sequence[t.Any]) -> bool:
    """Whether the fleet's selector matches any of the nodes, which are unchecked."""
    return any(fleet.selector.matches(node.labels) for node in Intake().nodes(nodes).values())


def divide(
    fleets: t.Sequence[PowerFleet], nodes: t.Sequence[t.Any], pods: t.Sequence[t.Any]
) -> Ownership:
    """The fleet of each node and each pod; ``fleets`` are in the order of their age.

    Nodes and pods are unchecked. An unreadable one has no fleet, except that a pod with a readable
    name belongs to the fleet that reports its defect.
    """
    sound = Intake().nodes(nodes)
    selected_by = {
        name: tuple(fleet.key for fleet in fleets if fleet.selector.matches(node.labels))
        for name, node in sound.items()
    }
    division = _Division(fleets, selected_by)
    for name, node in sound.items():
        for key in selected_by[name][:1]:
            division.nodes[key].append(read_node(node.given, Occupancy(), _NO_LOADS, None))
    owners: dict[Key, str] = {}
    for _pod, found in read_each(pods, "Pod", division.fleet_of, []):
        if found is not None:
            owners.setdefault(*found)
    return Ownership(selected_by, owners)


@dataclass
class _Division:
    fleets: t.Sequence[PowerFleet]
    selected_by: t.Mapping[str, tuple[str, ...]]
    nodes: dict[str, list[Node]] = field(init=False)
    known: dict[tuple[Constraints, tuple[str, ...]], str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = {fleet.key: [] for fleet in self.fleets}

    def fleet_of(self, pod: t.Any) -> tuple[Key, str] | None:
        """A pod and its fleet; None if it has none. Raises for a pod without a readable name."""
        key = identity(pod)
        if is_finished(pod):
            return None
        annotations = pod["metadata"].get("annotations") or {}
        named = annotations.get(FLEET_ANNOTATION)
        node = (pod.get("spec") or {}).get("nodeName")
        if node:
            owner = next(iter(self.selected_by.get(node, ())), None)
            return (key, owner) if owner and named in (None, owner) else None
        if named is not None:
            return (key, named) if isinstance(named, str) and named in self.nodes else None
        found = self._oldest_with_node(pod, [one for one in self.fleets if serves(one, pod)])
        return (key, found) if found else None

    def _oldest_with_node(self, pod: t.Any, fleets: t.Sequence[PowerFleet]) -> str | None:
        """The oldest fleet with a node for the pod; the oldest one if none has any."""
        if len(fleets) < 2:
            return fleets[0].key if fleets else None
        read = guarded(subject_of(pod, "Pod"), functools.partial(_constraints, pod))
        if isinstance(read, Finding):
            return fleets[0].key
        keys = tuple(fleet.key for fleet in fleets)
        if (read, keys) not in self.known:
            open_to = (
                key for key in keys if any(obstacle(read, node) is None for node in self.nodes[key])
            )
            self.known[read, keys] = next(open_to, keys[0])
        return self.known[read, keys]


def heirs(fleet: PowerFleet, living: t.Iterable[PowerFleet]) -> list[PowerFleet]:
    """The fleets whose nodes a deleted one leaves alone, the oldest first.

    Nodes of an older one belong to that one. A younger one goes on with sleeping machines.
    """
    return [
        one for one in living if one.seniority < fleet.seniority or _handles_sleeping_machines(one)
    ]


def abandoned(
    fleet: PowerFleet, living: t.Sequence[PowerFleet], nodes: t.Sequence[t.Any], now: float
) -> frozenset[str]:
    """Nodes of sleeping machines that this fleet has to wake, because no other fleet does.

    The record of such a machine names the fleet, or one that is gone. The node belongs to no fleet
    of the ``living`` ones, the oldest first, or to one that neither wakes machines nor lets them
    sleep. ``nodes`` are unchecked; ``now`` is in seconds since the epoch.
    """
    others = {f"{OWNER}{one.key}" for one in living} - {f"{OWNER}{fleet.key}"}
    tainted = [node for node in nodes if tainted_phase(node) is not None and not is_held(node)]
    found = set()
    for name, node in Intake().nodes(tainted).items():
        record = guarded(Subject("Node", name), functools.partial(read_record, node.given, now))
        if isinstance(record, Finding) or record is None or record.phase is Phase.QUARANTINED:
            continue
        if record.owner.startswith(OWNER) and record.owner not in others:
            of_node = next((one for one in living if one.selector.matches(node.labels)), None)
            if of_node is None or not _handles_sleeping_machines(of_node):
                found.add(name)
    return frozenset(found)


def _handles_sleeping_machines(fleet: PowerFleet) -> bool:
    """Whether each run of the fleet wakes its sleeping machines, or has a reason that they sleep."""
    sleep = fleet.spec["sleep"]
    return (
        fleet.spec["placement"]["enabled"]
        and not fleet.is_suspended
        and (sleep["mode"] == "off" or (sleep["mode"] != "dry_run" and bool(sleep["nodeSelector"])))
    )


def serves(fleet: PowerFleet, pod: t.Mapping[str, t.Any]) -> bool:
    """Whether the fleet places a waiting pod of this kind."""
    placement, devices = fleet.spec["placement"], fleet.spec["devices"]
    spec = pod.get("spec") or {}
    is_ours = (spec.get("schedulerName") or "default-scheduler") == placement["schedulerName"]
    gates = [gate.get("name") for gate in spec.get("schedulingGates") or []]
    is_gated = devices["gate"] in gates
    return (is_ours and (placement["enabled"] or devices["enabled"])) or (
        is_gated and devices["enabled"]
    )


def _constraints(pod: t.Any) -> Constraints:
    """Constraints of the pod on nodes, apart from other pods and devices. Raises InvalidField."""
    constraints = read_pod(pod, Decimal(1), frozenset()).shape.constraints
    return replace(constraints, ports=(), anti_affinity_nodes=frozenset(), device_nodes=None)
