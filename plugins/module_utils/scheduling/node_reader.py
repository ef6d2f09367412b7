# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes nodes, and their short forms, with their running pods."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ..base.boundary import InvalidField, shown
from ..base.fields.strict import mapping, mappings, required_text, text, text_mapping
from ..base.json_types import Object
from ..base.units import parse_quantity
from .amounts import quantities
from .curve import Curve, read_curve
from .model import MAX_CORES, MICROCORES_PER_CORE, UNLIMITED, DiskUse, HostPort, Node, Taint
from .peer_view import COUNTED_IF_MISSING, PeerNode, lacks_requests
from .pod_reader import assumed_use, held_requests, host_ports, is_daemon, is_finished
from .volumes.inline_disks import disk_uses

# Labels of a node's rack, in order of precedence.
RACK_LABELS = ("wattwise.github.io/rack", "topology.kubernetes.io/rack")

UsageSource = t.Literal["auto", "metrics", "requests"]

_SHORT_KEYS = frozenset(
    "name allocatable used usage_cores labels taints unschedulable ready curve".split()
)
# Each is compared with the tolerations of each pod.
_MAX_TAINTS = 500


def rack_of(labels: t.Mapping[str, t.Any]) -> str:
    """The rack of a node by its labels; empty without one."""
    return next((str(labels[one]) for one in RACK_LABELS if one in labels), "")


@dataclass
class Occupancy:
    """Requests of the pods on one node, and the part of pods that do not run yet.

    ``counted`` are kube-scheduler's amounts for scores.
    """

    requests: dict[str, int] = field(default_factory=dict)
    starting_millicores: int = 0
    hosts_workload: bool = False
    ports: set[HostPort] = field(default_factory=set)
    disks: set[DiskUse] = field(default_factory=set)
    counted: dict[str, int] = field(default_factory=dict)

    def add(self, pod: Object) -> None:
        """Count a pod on the node. Raises InvalidField without any change."""
        spec = mapping(pod.get("spec"), "spec")
        requests = {**held_requests(pod), "pods": 1}
        counted = held_requests(pod, COUNTED_IF_MISSING) if lacks_requests(spec) else requests
        starts = mapping(pod.get("status"), "status").get("phase") == "Pending"
        is_workload, ports, disks = not is_daemon(pod), host_ports(spec), disk_uses(spec)
        for total, amounts in ((self.requests, requests), (self.counted, counted)):
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
        self.starting_millicores += requests.get("cpu", 0) if starts else 0
        self.hosts_workload = self.hosts_workload or is_workload
        self.ports.update(ports)
        self.disks.update(disks)


@dataclass(frozen=True)
class Loads:
    """Source of the nodes' CPU use: measured, or assumed from their pods."""

    source: UsageSource
    assumption: Decimal
    measured_microcores: t.Mapping[str, int]

    def of(self, node: str, measured: int | None, occupancy: Occupancy) -> int | None:
        """Microcores in use on a node; None if only measurements count and there is none.

        Pods on the node that do not run yet are in no measurement, so they are added.
        """
        if measured is None and self.source != "requests":
            measured = self.measured_microcores.get(node)
        if measured is not None:
            use = measured + assumed_use(occupancy.starting_millicores, self.assumption)
        elif self.source == "metrics":
            return None
        else:
            use = assumed_use(occupancy.requests.get("cpu", 0), self.assumption)
        return min(use, MAX_CORES * MICROCORES_PER_CORE)


def occupancies(running: t.Iterable[Object]) -> dict[str, Occupancy]:
    """Running and starting pods of each node; the pods are those of ``sound_running``."""
    result: dict[str, Occupancy] = {}
    for pod in running:
        if not is_finished(pod):
            result.setdefault(pod["spec"]["nodeName"], Occupancy()).add(pod)
    return result


def measured_use(metrics: Object) -> tuple[str, int]:
    """A node and its microcores in use, from an object of metrics.k8s.io. Raises InvalidField."""
    name = mapping(metrics.get("metadata"), "metadata").get("name")
    usage = mapping(metrics.get("usage"), "usage")
    return required_text(name, "metadata.name"), _cores(usage.get("cpu"), "usage.cpu")


def _cores(value: t.Any, path: str) -> int:
    cores = parse_quantity(value, path)
    if not 0 <= cores <= MAX_CORES:
        problem = (
            f"{shown(value)} is negative or implausible; CPU use is from 0 to {MAX_CORES} cores"
        )
        raise InvalidField(path, problem)
    return round(cores * MICROCORES_PER_CORE)


def node_name(given: Object) -> str:
    """The name of a Node or of its short form. Raises InvalidField."""
    is_short = "metadata" not in given
    metadata = mapping(given if is_short else given["metadata"], "metadata")
    return required_text(metadata.get("name"), "name" if is_short else "metadata.name")


def read_node(given: Object, occupancy: Occupancy, loads: Loads, curve: Curve | None) -> Node:
    """A node from the Kubernetes object or the short form. Raises InvalidField."""
    if "metadata" in given:
        return _from_kubernetes(given, occupancy, loads, curve)
    return _from_short_form(given, occupancy, loads, curve)


def _from_kubernetes(
    given: Object, occupancy: Occupancy, loads: Loads, curve: Curve | None
) -> Node:
    name = node_name(given)
    spec = mapping(given.get("spec"), "spec")
    status = mapping(given.get("status"), "status")
    allocatable = quantities(status.get("allocatable"), "status.allocatable")
    conditions = mappings(status.get("conditions"), "status.conditions")
    return _node(
        name,
        allocatable=allocatable,
        free=_less(allocatable, occupancy.requests),
        use=loads.of(name, None, occupancy),
        curve=curve,
        labels=text_mapping(given["metadata"].get("labels"), "metadata.labels"),
        taints=_taints(spec.get("taints"), "spec.taints"),
        unschedulable=bool(spec.get("unschedulable")),
        ready=all(
            item.get("status") == "True" for item in conditions if item.get("type") == "Ready"
        ),
        hosts_workload=occupancy.hosts_workload,
        ports=frozenset(occupancy.ports),
        disks=frozenset(occupancy.disks),
        peer_view=_peer_view(
            quantities(status.get("capacity"), "status.capacity"), allocatable, occupancy
        ),
    )


def _from_short_form(
    given: Object, occupancy: Occupancy, loads: Loads, curve: Curve | None
) -> Node:
    name = node_name(given)
    unknown = sorted(given.keys() - _SHORT_KEYS)
    if unknown:
        problem = f"it is not known here; write {', '.join(sorted(_SHORT_KEYS))}"
        raise InvalidField(unknown[0], problem)
    allocatable = {"pods": UNLIMITED, **quantities(given.get("allocatable"), "allocatable")}
    used = quantities(given.get("used"), "used")
    occupied = replace(
        occupancy, requests=_sum(used, occupancy.requests), counted=_sum(used, occupancy.counted)
    )
    usage_cores = given.get("usage_cores")
    measured = None if usage_cores is None else _cores(usage_cores, "usage_cores")
    return _node(
        name,
        allocatable=allocatable,
        free=_less(allocatable, occupied.requests),
        use=loads.of(name, measured, occupied),
        curve=curve if given.get("curve") is None else read_curve(given["curve"], "curve"),
        labels=text_mapping(given.get("labels"), "labels"),
        taints=_taints(given.get("taints"), "taints"),
        unschedulable=bool(given.get("unschedulable")),
        ready=given.get("ready") is not False,
        hosts_workload=occupied.hosts_workload or any(used.values()),
        ports=frozenset(occupied.ports),
        disks=frozenset(occupied.disks),
        peer_view=_peer_view({}, allocatable, occupied),
    )


def _peer_view(
    capacity: t.Mapping[str, int], allocatable: t.Mapping[str, int], occupancy: Occupancy
) -> PeerNode:
    """The node for the placers; the allocatable amount replaces a missing capacity."""
    return PeerNode(
        capacity_millicores=capacity.get("cpu", allocatable.get("cpu", 0)),
        allocatable_millicores=allocatable.get("cpu", 0),
        allocatable_bytes=allocatable.get("memory", 0),
        counted_millicores=occupancy.counted.get("cpu", 0),
        counted_bytes=occupancy.counted.get("memory", 0),
    )


def _node(name: str, *, use: int | None, curve: Curve | None, **known: t.Any) -> Node:
    """The node; unpriced if its use is unknown, because it has no point on its curve."""
    if use is None:
        return Node(name, use_microcores=0, curve=None, **known)
    return Node(name, use_microcores=use, curve=curve, **known)


def _less(allocatable: t.Mapping[str, int], requests: t.Mapping[str, int]) -> dict[str, int]:
    return {name: value - requests.get(name, 0) for name, value in allocatable.items()}


def _sum(first: t.Mapping[str, int], second: t.Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _taints(given: t.Any, path: str) -> tuple[Taint, ...]:
    taints = mappings(given, path)
    if len(taints) > _MAX_TAINTS:
        raise InvalidField(
            path, f"{len(taints)} taints are too many; at most {_MAX_TAINTS} are read"
        )
    return tuple(
        Taint(
            required_text(item.get("key"), f"{path}[{index}].key"),
            text(item.get("value"), f"{path}[{index}].value"),
            text(item.get("effect"), f"{path}[{index}].effect"),
        )
        for index, item in enumerate(taints)
    )
