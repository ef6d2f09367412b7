# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Why nothing, or one machine, must be switched off now."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass

from ...base.fields.lenient import member, objects, text
from ...base.json_types import Object
from ..machine import Phase
from .node_changes import EXCLUDED
from .record import HOLD, NOT_REMEDIATED, PAUSES, SCALE_DOWN_DISABLED, is_held

ZONE_LABEL = "topology.kubernetes.io/zone"
# The eviction controller stops at 55 % of a zone, and the cluster autoscaler beyond 45 %.
_MAX_UNREADY_SHARE = 0.45
# Clocks of two hosts may differ.
_CLOCK_SKEW = 60.0
# Longer lists mean an API server in trouble.
_MAX_LIST_SECONDS = 60.0
# The cluster autoscaler accepts so many Nodes that are not ready, in any cluster.
_MAX_UNREADY_FOR_AUTOSCALER = 3
_SKIPPED = "cluster.x-k8s.io/skip-remediation"


@dataclass(frozen=True)
class Peers:
    """Programs that would undo a sleep: the cluster autoscaler, and health checks that run.

    ``machine_annotations`` are the annotations by which Nodes name Machines that a
    MachineHealthCheck may remediate.
    """

    has_cluster_autoscaler: bool = False
    has_node_health_checks: bool = False
    machine_annotations: frozenset[str] = frozenset()

    def pauses_for(self, node: Object) -> tuple[str, ...]:
        """The marks of PAUSES that these programs need and the Node lacks."""
        needed = {
            SCALE_DOWN_DISABLED: self.has_cluster_autoscaler,
            NOT_REMEDIATED: self.has_node_health_checks,
        }
        return tuple(
            name
            for name, part in PAUSES.items()
            if needed[name] and member(node, "metadata", part, name) != "true"
        )


@dataclass(frozen=True)
class Moment:
    """The state of the run's input. ``list_seconds`` is the time that the lists took.

    ``readings_age`` is None without readings; ``unready_share`` is that of the Nodes that should
    be ready.
    """

    list_seconds: float = 0.0
    readings_age: float | None = 0.0
    max_readings_age: float = 900.0
    unready_share: float = 0.0


def fleet_obstacle(moment: Moment) -> str:
    """Why no machine is switched off now; empty if they may be."""
    if moment.list_seconds > _MAX_LIST_SECONDS:
        return (
            f"The lists of the API server took {moment.list_seconds:.0f} s, so that it is unwell; "
            "nothing is switched off."
        )
    age = moment.readings_age
    if age is None or age < -_CLOCK_SKEW or age > moment.max_readings_age:
        told = "missing" if age is None else f"{age:.0f} s old"
        return f"The readings are {told}; nothing is switched off on old readings."
    if moment.unready_share > _MAX_UNREADY_SHARE:
        return (
            f"{moment.unready_share:.0%} of the Nodes that should be ready are not; nothing is "
            "switched off until they are."
        )
    return ""


def room_for_autoscaler(nodes: t.Collection[Object], peers: Peers) -> float:
    """How many more Nodes may become not ready until the cluster autoscaler halts."""
    if not peers.has_cluster_autoscaler:
        return math.inf
    most = max(_MAX_UNREADY_FOR_AUTOSCALER, math.floor(_MAX_UNREADY_SHARE * len(nodes)))
    return most - sum(not is_ready(node) for node in nodes)


def protection(node: Object, peers: Peers, has_bmc: bool) -> str:
    """Why an awake machine must not sleep in this cluster; empty if it may.

    The rules' own protections are those of ``sleep.protection``.
    """
    annotations = member(node, "metadata", "annotations") or {}
    if is_held(node):
        return f"The annotation {HOLD} holds it."
    if not has_bmc:
        return "Its NodeConfig names no BMC of type Redfish that could switch it."
    if not text(member(node, "status", "nodeInfo", "systemUUID")):
        return "Its Node has no systemUUID, with which its BMC could be compared."
    if peers.machine_annotations.intersection(annotations) and _SKIPPED not in annotations:
        return (
            "A MachineHealthCheck could delete its Machine while it is off; annotate the Machine with "
            f"{_SKIPPED}, and the Node, too, which confirms it."
        )
    return ""


def unready_by_zone(nodes: t.Iterable[Object]) -> dict[str, float]:
    """Share of each zone's Nodes that the control plane counts as not ready."""
    counted: dict[str, list[bool]] = {}
    for node in nodes:
        labels = member(node, "metadata", "labels") or {}
        if EXCLUDED not in labels:
            counted.setdefault(str(labels.get(ZONE_LABEL, "")), []).append(not is_ready(node))
    return {zone: sum(unready) / len(unready) for zone, unready in counted.items()}


def is_zone_open(share: float | None) -> bool:
    """Whether machines of a zone with this share of Nodes that are not ready may be switched off."""
    return (share or 0.0) <= _MAX_UNREADY_SHARE


def is_ready(node: Object) -> bool:
    conditions = objects(member(node, "status", "conditions"))
    return any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)


def machine_obstacle(
    power: str | None, problem: str, reading_is_fresh: bool, zone_share: float | None, phase: Phase
) -> str:
    """Why this machine must not be switched off now, though the decision says so."""
    if problem:
        return f"Its BMC cannot switch it: {problem}"
    if power is None:
        return "The state of its power is unknown."
    if not reading_is_fresh and phase is Phase.AWAKE:
        return "Its readings are old, or it has none."
    if not is_zone_open(zone_share):
        return "Too many Nodes of its zone are not ready."
    return ""
