# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes nodes, and their short forms, with what runs on them."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ansible_collections.wattwise.kube.plugins.module_utils.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.power.curve import Curve, read_curve
from ansible_collections.wattwise.kube.plugins.module_utils.power.instance import (
    MICROCORES_PER_CORE,
    UNLIMITED,
    HostPort,
    Node,
    Taint,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.peer_view import PeerNode
from ansible_collections.wattwise.kube.plugins.module_utils.power.pod_reader import (
    assumed_use,
    counted_requests,
    describe,
    effective_requests,
    host_ports,
    identity,
    is_daemon,
    is_finished,
)
from ansible_collections.wattwise.kube.plugins.module_utils.power.reading import (
    Object,
    mapping,
    mappings,
    quantities,
    required_text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.units import parse_quantity

UsageSource = t.Literal["auto", "metrics", "requests"]

_SHORT_KEYS = frozenset(
    "name allocatable used usage_cores labels taints unschedulable ready curve".split()
)


@dataclass
class Occupancy:
    """What the pods on one node request, and of that what those request that do not run yet.

    ``counted`` is what kube-scheduler counts for them when it scores nodes.
    """

    requests: dict[str, int] = field(default_factory=dict)
    starting_millicores: int = 0
    hosts_workload: bool = False
    ports: frozenset[HostPort] = frozenset()
    counted: dict[str, int] = field(default_factory=dict)

    def add(self, pod: Object, where: str) -> None:
        spec = mapping(pod.get("spec"), f"{where}: spec")
        requests = {**effective_requests(spec, where), "pods": 1}
        self.requests = _sum(self.requests, requests)
        self.counted = _sum(self.counted, counted_requests(spec, requests, where))
        if (pod.get("status") or {}).get("phase") == "Pending":
            self.starting_millicores += requests.get("cpu", 0)
        self.hosts_workload = self.hosts_workload or not is_daemon(pod)
        self.ports |= frozenset(host_ports(spec, where))


@dataclass(frozen=True)
class Loads:
    """How the CPU use of nodes is known: measured, or assumed from what runs on them."""

    source: UsageSource
    assumption: Decimal
    measured_microcores: t.Mapping[str, int]

    def of(self, node: str, measured: int | None, occupancy: Occupancy) -> int | None:
        """Microcores in use on a node; None where only a measurement counts and there is none.

        Pods that have a node but do not run yet are in no measurement, so they are added.
        """
        if measured is None and self.source != "requests":
            measured = self.measured_microcores.get(node)
        if measured is not None:
            return measured + assumed_use(occupancy.starting_millicores, self.assumption)
        if self.source == "metrics":
            return None
        return assumed_use(occupancy.requests.get("cpu", 0), self.assumption)


def occupancies(running: t.Iterable[Object]) -> dict[str, Occupancy]:
    """What runs, or is about to run, on each node. Raises InvalidInput."""
    result: dict[str, Occupancy] = {}
    for pod in running:
        where = describe(*identity(pod, "running"))
        node = mapping(pod.get("spec"), f"{where}: spec").get("nodeName")
        if not node:
            raise InvalidInput(f"{where} stands in running but has no nodeName; say where it runs")
        if not is_finished(pod):
            result.setdefault(node, Occupancy()).add(pod, where)
    return result


def measured_use(node_metrics: t.Any, where: str) -> dict[str, int]:
    """Microcores in use by node, from objects of metrics.k8s.io. Raises InvalidInput."""
    return {
        required_text(mapping(item.get("metadata"), where).get("name"), f"{where}: name"): _cores(
            mapping(item.get("usage"), where).get("cpu"), f"{where}: usage.cpu"
        )
        for item in mappings(node_metrics, where)
    }


def _cores(value: t.Any, where: str) -> int:
    cores = parse_quantity(value, where)
    if cores < 0:
        raise InvalidInput(f"{where}: {value!r} is negative; CPU use is 0 or more")
    return round(cores * MICROCORES_PER_CORE)


def node_name(given: Object, where: str) -> str:
    """The name of a Node or of its short form. Raises InvalidInput."""
    metadata = mapping(given.get("metadata", given), where)
    return required_text(metadata.get("name"), f"{where}: the node's name")


def read_node(given: Object, occupancy: Occupancy, loads: Loads, curve: Curve | None) -> Node:
    """A node from the Kubernetes object or the short form. Raises InvalidInput."""
    if "metadata" in given:
        return _from_kubernetes(given, occupancy, loads, curve)
    return _from_short_form(given, occupancy, loads, curve)


def _from_kubernetes(
    given: Object, occupancy: Occupancy, loads: Loads, curve: Curve | None
) -> Node:
    name = given["metadata"]["name"]
    where = f"node {name}"
    spec = mapping(given.get("spec"), f"{where}: spec")
    status = mapping(given.get("status"), f"{where}: status")
    allocatable = quantities(status.get("allocatable"), f"{where}: status.allocatable")
    conditions = mappings(status.get("conditions"), f"{where}: status.conditions")
    return _node(
        name,
        allocatable=allocatable,
        free=_less(allocatable, occupancy.requests),
        use=loads.of(name, None, occupancy),
        curve=curve,
        labels=mapping(given["metadata"].get("labels"), f"{where}: labels"),
        taints=_taints(spec.get("taints"), where),
        unschedulable=bool(spec.get("unschedulable")),
        ready=all(item.get("status") == "True" for item in conditions if item["type"] == "Ready"),
        hosts_workload=occupancy.hosts_workload,
        ports=occupancy.ports,
        peer_view=_peer_view(
            quantities(status.get("capacity"), f"{where}: status.capacity"), allocatable, occupancy
        ),
    )


def _from_short_form(
    given: Object, occupancy: Occupancy, loads: Loads, curve: Curve | None
) -> Node:
    name = given["name"]
    where = f"node {name}"
    unknown = sorted(given.keys() - _SHORT_KEYS)
    if unknown:
        raise InvalidInput(
            f"{where}: {unknown[0]!r} is not known here; write {', '.join(sorted(_SHORT_KEYS))}"
        )
    allocatable = {
        "pods": UNLIMITED,
        **quantities(given.get("allocatable"), f"{where}: allocatable"),
    }
    used = quantities(given.get("used"), f"{where}: used")
    occupied = replace(
        occupancy,
        requests=_sum(used, occupancy.requests),
        counted=_sum(used, occupancy.counted),
    )
    usage_cores = given.get("usage_cores")
    measured = None if usage_cores is None else _cores(usage_cores, f"{where}: usage_cores")
    return _node(
        name,
        allocatable=allocatable,
        free=_less(allocatable, occupied.requests),
        use=loads.of(name, measured, occupied),
        curve=curve
        if given.get("curve") is None
        else read_curve(given["curve"], f"{where}: curve"),
        labels=mapping(given.get("labels"), f"{where}: labels"),
        taints=_taints(given.get("taints"), where),
        unschedulable=bool(given.get("unschedulable")),
        ready=given.get("ready") is not False,
        hosts_workload=occupied.hosts_workload or any(used.values()),
        ports=occupied.ports,
        peer_view=_peer_view({}, allocatable, occupied),
    )


def _peer_view(
    capacity: t.Mapping[str, int], allocatable: t.Mapping[str, int], occupancy: Occupancy
) -> PeerNode:
    """Where no capacity is given, all of it is allocatable."""
    return PeerNode(
        capacity_millicores=capacity.get("cpu", allocatable.get("cpu", 0)),
        allocatable_millicores=allocatable.get("cpu", 0),
        allocatable_bytes=allocatable.get("memory", 0),
        counted_millicores=occupancy.counted.get("cpu", 0),
        counted_bytes=occupancy.counted.get("memory", 0),
    )


def _node(name: str, *, use: int | None, curve: Curve | None, **known: t.Any) -> Node:
    """A node whose use is not known cannot be priced either: it has no point on its curve."""
    if use is None:
        return Node(name, use_microcores=0, curve=None, **known)
    return Node(name, use_microcores=use, curve=curve, **known)


def _less(allocatable: t.Mapping[str, int], requests: t.Mapping[str, int]) -> dict[str, int]:
    return {name: value - requests.get(name, 0) for name, value in allocatable.items()}


def _sum(first: t.Mapping[str, int], second: t.Mapping[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def _taints(given: t.Any, where: str) -> tuple[Taint, ...]:
    return tuple(
        Taint(
            required_text(item.get("key"), f"{where}: taint key"),
            item.get("value") or "",
            item.get("effect") or "",
        )
        for item in mappings(given, f"{where}: taints")
    )
