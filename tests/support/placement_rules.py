# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-scheduler's filters, restated from raw pods and nodes, without shared code.

Written for clarity, one pod and one node at a time. Objects are as Kubernetes writes them or in the
short forms of power_placement.
"""

from __future__ import annotations

import functools
import math
import re
import typing as t
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

Json = Mapping[str, t.Any]
Requests = Mapping[str, int]

SUFFIXES = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
DISKS = frozenset({"awsElasticBlockStore", "gcePersistentDisk", "iscsi", "rbd"})
HOSTNAME = "kubernetes.io/hostname"
GANG_LABEL = "scheduling.x-k8s.io/pod-group"


def get(given: Json | None, name: str, default: t.Any = None) -> t.Any:
    """A field by its Kubernetes name, even if it is written in snake_case."""
    if given is None:
        return default
    if name in given:
        return given[name]
    return given.get(re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name), default)


@functools.cache
def number(text: str) -> Fraction:
    """The value of a quantity."""
    found = re.fullmatch(r"([+-]?[\d.]+)([a-zA-Z]*)", text)
    assert found, text
    digits, suffix = found.groups()
    if suffix in BINARY:
        return Fraction(digits) * (1 << BINARY[suffix])
    return Fraction(f"{digits}e{SUFFIXES[suffix]}")


def amount(resource: str, value: object) -> int:
    """Millicores of CPU, and whole units of other resources, rounded up."""
    return math.ceil(number(str(value)) * (1000 if resource == "cpu" else 1))


def amounts(given: Json | None) -> dict[str, int]:
    return {name: amount(name, value) for name, value in (given or {}).items()}


def plus(first: Requests, second: Requests) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in {**first, **second}}


def largest(first: Requests, second: Requests) -> dict[str, int]:
    return {name: max(first.get(name, 0), second.get(name, 0)) for name in {**first, **second}}


def requests_of(spec: Json) -> dict[str, int]:
    """Requests of a whole pod: the maximum of its start and its running phase."""
    if "requests" in spec:
        spec = {**spec, "containers": [{"resources": {"requests": spec["requests"]}}]}
    running: dict[str, int] = {}
    for container in get(spec, "containers", []):
        running = plus(running, of_container(container))
    sidecars: dict[str, int] = {}
    starting: dict[str, int] = {}
    for container in get(spec, "initContainers", []):
        requests = of_container(container)
        if get(container, "restartPolicy") == "Always":
            sidecars = plus(sidecars, requests)
            starting = largest(starting, sidecars)
        else:
            starting = largest(starting, plus(sidecars, requests))
    total = largest(plus(running, sidecars), starting)
    total.update(amounts((spec.get("resources") or {}).get("requests")))
    return plus(total, amounts(get(spec, "overhead")))


def of_container(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    return {**amounts(resources.get("limits")), **amounts(resources.get("requests"))}


@dataclass(frozen=True)
class Term:
    """One term of a pod about the pods near it."""

    selector: Json | None
    namespaces: frozenset[str]
    namespace_selector: Json | None
    key: str

    def selects(self, pod: Pod) -> bool:
        meant = pod.namespace in self.namespaces
        meant = meant or selects(self.namespace_selector, pod.namespace_labels)
        return meant and selects(self.selector, pod.labels)


@dataclass(eq=False)
class Pod:
    """A pod, waiting or running; two pods are equivalent if only their names differ."""

    namespace: str
    name: str
    labels: Mapping[str, str]
    spec: Json
    daemon: bool
    phase: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    # Kind and uid of the controller.
    controller: tuple[str, str] = ("", "")
    leaving: bool = False
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    requests: Requests = field(init=False)
    away_from: Sequence[Term] = field(init=False)
    near: Sequence[Term] = field(init=False)
    ports: frozenset[tuple[str, int, str]] = field(init=False)
    disks: Sequence[Json] = field(init=False)
    spreads: Sequence[Json] = field(init=False)
    soft_spreads: Sequence[Json] = field(init=False)

    def __post_init__(self) -> None:
        self.requests = requests_of(self.spec)
        self.away_from = self._terms("podAntiAffinity")
        self.near = self._terms("podAffinity")
        self.ports = frozenset(host_ports(self.spec))
        self.disks = [
            volume for volume in get(self.spec, "volumes", []) if not DISKS.isdisjoint(volume)
        ]
        self.spreads = self._spreads("DoNotSchedule")
        self.soft_spreads = self._spreads("ScheduleAnyway")

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def priority(self) -> int:
        return get(self.spec, "priority", 0) or 0

    @property
    def gang(self) -> str | None:
        name = self.labels.get(GANG_LABEL)
        return f"{self.namespace}/{name}" if name else None

    @property
    def is_finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @property
    def is_over(self) -> bool:
        """Whether the pod has ended, or is being deleted."""
        return self.leaving or self.is_finished

    @property
    def claims_devices(self) -> bool:
        return bool(get(self.spec, "resourceClaims"))

    def likeness(self) -> str:
        metadata = self.namespace, sorted(self.labels.items()), sorted(self.annotations.items())
        return repr((metadata, self.spec, self.daemon, self.controller))

    def _spreads(self, if_not: str) -> list[Json]:
        return [
            constraint
            for constraint in get(self.spec, "topologySpreadConstraints", [])
            if get(constraint, "whenUnsatisfiable") == if_not
        ]

    def _terms(self, kind: str) -> list[Term]:
        affinity = get(get(self.spec, "affinity"), kind)
        required = get(affinity, "requiredDuringSchedulingIgnoredDuringExecution", [])
        return [self._term(term) for term in required]

    def preferred_terms(self, kind: str) -> list[tuple[int, Term]]:
        """Preferred terms with their weights."""
        affinity = get(get(self.spec, "affinity"), kind)
        return [
            (preferred["weight"], self._term(get(preferred, "podAffinityTerm")))
            for preferred in get(affinity, "preferredDuringSchedulingIgnoredDuringExecution", [])
        ]

    def _term(self, term: Json) -> Term:
        named, selector = get(term, "namespaces"), get(term, "namespaceSelector")
        own = [self.namespace] if selector is None else []
        return Term(
            get(term, "labelSelector"),
            frozenset(named or own),
            selector,
            get(term, "topologyKey"),
        )


def host_ports(spec: Json) -> Iterable[tuple[str, int, str]]:
    sidecars = [
        container
        for container in get(spec, "initContainers", [])
        if get(container, "restartPolicy") == "Always"
    ]
    for container in [*get(spec, "containers", []), *sidecars]:
        for port in get(container, "ports", []):
            number_of_host = get(port, "hostPort", 0)
            if not number_of_host and get(spec, "hostNetwork"):
                number_of_host = get(port, "containerPort")
            if number_of_host:
                address = get(port, "hostIP") or "0.0.0.0"
                yield get(port, "protocol", "TCP"), number_of_host, address


def read_pods(given: Json, namespaces: Mapping[str, Json] | None = None) -> Iterable[Pod]:
    """The pods of an entry: one, or ``count`` of them; ``namespaces`` are labels by name."""
    for pod in _pods_of(given):
        name = {"kubernetes.io/metadata.name": pod.namespace}
        pod.namespace_labels = {**name, **(namespaces or {}).get(pod.namespace, {})}
        yield pod


def _pods_of(given: Json) -> Iterable[Pod]:
    metadata = given.get("metadata")
    if metadata is not None:
        status = given.get("status") or {}
        yield pod_of(metadata, metadata["name"], given["spec"], status.get("phase", ""))
        return
    names = [given["name"]]
    if "count" in given:
        names = [f"{given['name']}-{index}" for index in range(given["count"])]
    for name in names:
        yield pod_of(given, name, given, "")


def pod_of(metadata: Json, name: str, spec: Json, phase: str) -> Pod:
    owners = get(metadata, "ownerReferences", [])
    controllers = (
        (owner["kind"], owner.get("uid", "")) for owner in owners if owner.get("controller")
    )
    return Pod(
        metadata.get("namespace", "default"),
        name,
        metadata.get("labels", {}),
        spec,
        any(owner["kind"] == "DaemonSet" for owner in owners),
        phase,
        metadata.get("annotations", {}),
        next(controllers, ("", "")),
        bool(get(metadata, "deletionTimestamp")),
    )


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector matches; an absent one matches nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = get(selector, "matchLabels", {})
    return wanted.items() <= labels.items() and all(
        demanded(labels, demand) for demand in get(selector, "matchExpressions", [])
    )


def demanded(labels: Mapping[str, str], demand: Json) -> bool:
    has, value = demand["key"] in labels, labels.get(demand["key"], "")
    match demand["operator"]:
        case "In":
            return has and value in demand["values"]
        case "NotIn":
            return not has or value not in demand["values"]
        case "Exists":
            return has
        case "DoesNotExist":
            return not has
        case "Gt":
            return is_integer(value) and int(value) > int(demand["values"][0])
        case "Lt":
            return is_integer(value) and int(value) < int(demand["values"][0])
    raise AssertionError(demand)


def is_integer(text: str) -> bool:
    return re.fullmatch("[+-]?[0-9]+", text) is not None


@dataclass(eq=False)
class Node:
    """A node before any placement."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Json]
    unschedulable: bool
    ready: bool
    free: Requests
    millicores: Fraction
    curve: Json | None
    occupied: bool
    running: Sequence[Pod]


Placed = tuple[Pod, Node]


def tolerated(taint: Json, pod: Pod) -> bool:
    return any(passes(each, taint) for each in get(pod.spec, "tolerations", []))


def passes(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    same_key = bool(toleration.get("key", "") == taint["key"])
    return same_key and bool((toleration.get("value") or "") == (taint.get("value") or ""))


def accepts_taints(node: Node, pod: Pod) -> bool:
    return all(
        taint["effect"] == "PreferNoSchedule" or tolerated(taint, pod) for taint in node.taints
    )


def selected(node: Node, pod: Pod) -> bool:
    """The pod's node selector and required node affinity."""
    if not get(pod.spec, "nodeSelector", {}).items() <= node.labels.items():
        return False
    affinity = get(get(pod.spec, "affinity"), "nodeAffinity")
    required = get(affinity, "requiredDuringSchedulingIgnoredDuringExecution")
    return required is None or any(
        meets(node, term) for term in get(required, "nodeSelectorTerms", [])
    )


def meets(node: Node, term: Json) -> bool:
    labels, fields = get(term, "matchExpressions", []), get(term, "matchFields", [])
    return bool(labels or fields) and (
        all(demanded(node.labels, demand) for demand in labels)
        and all(demanded({"metadata.name": node.name}, demand) for demand in fields)
    )


def open_to(node: Node, pod: Pod) -> bool:
    """Conditions of one pod and one node that do not depend on other waiting pods."""
    cordon = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    return (
        node.ready
        and (not node.unschedulable or tolerated(cordon, pod))
        and get(pod.spec, "nodeName") in (None, "", node.name)
        and accepts_taints(node, pod)
        and selected(node, pod)
    )


def fits(node: Node, pods: Iterable[Pod]) -> bool:
    """Whether the requests of all these pods fit."""
    total: dict[str, int] = {}
    for pod in pods:
        total = plus(total, {**pod.requests, "pods": 1})
    return all(wanted <= node.free.get(name, 0) for name, wanted in total.items() if wanted)


def same_domain(first: Node, second: Node, key: str) -> bool:
    return key in first.labels and first.labels[key] == second.labels.get(key)


def collide(first: Placed, second: Placed) -> bool:
    """Whether one of two pods excludes the other: ports, disks, required anti-affinity."""
    (pod, node), (other, other_node) = first, second
    if node is other_node and (
        any(same_port(port, taken) for port in pod.ports for taken in other.ports)
        or any(disks_conflict(disk, taken) for disk in pod.disks for taken in other.disks)
    ):
        return True
    return any(
        term.selects(other) and same_domain(node, other_node, term.key) for term in pod.away_from
    ) or any(
        term.selects(pod) and same_domain(node, other_node, term.key) for term in other.away_from
    )


def same_port(first: tuple[str, int, str], second: tuple[str, int, str]) -> bool:
    overlap = first[2] == second[2] or "0.0.0.0" in (first[2], second[2])
    return first[:2] == second[:2] and overlap


def disks_conflict(first: Json, second: Json) -> bool:
    """Whether two volumes are one disk that pods of a node must not share."""
    for source in DISKS:
        if source not in first or source not in second:
            continue
        one, other = first[source], second[source]
        if source == "awsElasticBlockStore":
            return bool(one["volumeID"] == other["volumeID"])
        if one.get("readOnly") and other.get("readOnly"):
            return False
        if source == "rbd":
            same_image = (one.get("pool", "rbd"), one["image"]) == (
                other.get("pool", "rbd"),
                other["image"],
            )
            return same_image and not set(one["monitors"]).isdisjoint(other["monitors"])
        name = "pdName" if source == "gcePersistentDisk" else "iqn"
        return bool(one[name] == other[name])
    return False


def finds_company(pod: Pod, node: Node, others: Sequence[Placed]) -> bool:
    """Required affinity: a pod that all terms select, in the domain of each term.

    If there is none anywhere, a pod that its own terms select may be the first.
    """
    if not pod.near:
        return True
    if any(term.key not in node.labels for term in pod.near):
        return False
    company = [(other, where) for other, where in others if is_wanted(pod, other)]
    if all(
        any(same_domain(node, where, term.key) for _other, where in company) for term in pod.near
    ):
        return True
    exists = any(term.key in where.labels for _other, where in company for term in pod.near)
    return not exists and is_wanted(pod, pod)


def is_wanted(pod: Pod, other: Pod) -> bool:
    """Whether all terms of the pod's required affinity select the other pod."""
    return all(term.selects(other) for term in pod.near)


def is_even(pod: Pod, node: Node, others: Sequence[Placed], nodes: Sequence[Node]) -> bool:
    """Required topology spread, including the pod on the node."""
    for constraint in pod.spreads:
        key = get(constraint, "topologyKey")
        if key not in node.labels:
            return False
        counted = counted_nodes(constraint, pod, pod.spreads, nodes)
        domains = {each.labels[key]: 0 for each in counted}
        for other, where in others:
            if where in counted and matched(constraint, pod, other):
                domains[where.labels[key]] += 1
        least = min(domains.values(), default=0)
        if len(domains) < (get(constraint, "minDomains") or 1):
            least = 0
        skew = domains.get(node.labels[key], 0) + matched(constraint, pod, pod) - least
        if skew > get(constraint, "maxSkew"):
            return False
    return True


def counted_nodes(
    constraint: Json, pod: Pod, together: Iterable[Json], nodes: Iterable[Node]
) -> list[Node]:
    """Eligible nodes of one of the constraints that a pod has ``together``."""
    keys = [get(each, "topologyKey") for each in together]
    return [
        node
        for node in nodes
        if all(key in node.labels for key in keys)
        and (get(constraint, "nodeAffinityPolicy") == "Ignore" or selected(node, pod))
        and (get(constraint, "nodeTaintsPolicy") != "Honor" or accepts_taints(node, pod))
    ]


def matched(constraint: Json, pod: Pod, other: Pod) -> bool:
    """Whether the spread of ``pod`` counts ``other``; pods that leave do not count."""
    keys = [key for key in get(constraint, "matchLabelKeys", []) if key in pod.labels]
    return (
        other.namespace == pod.namespace
        and not other.leaving
        and selects(get(constraint, "labelSelector"), other.labels)
        and all(other.labels.get(key) == pod.labels[key] for key in keys)
    )
