# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judges the result of power_placement from its parameters alone.

Written apart from the solver and sharing no code with it: a second, simple reading of the rules,
in exact fractions. It understands nodes and pods in their short forms, with the options of tests.
"""

from __future__ import annotations

import itertools
import typing as t
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Json = Mapping[str, t.Any]

UNITS: Mapping[str, Fraction | int] = {
    "m": Fraction(1, 1000),
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "": 1,
}
TOLERANCE_WATTS = 1e-5


def number(text: object) -> Fraction:
    """The value of a quantity; of the suffixes those that tests use."""
    written = str(text)
    digits = written.rstrip("mKMGi")
    return Fraction(digits) * UNITS[written[len(digits) :]]


@dataclass(frozen=True)
class Pod:
    namespace: str
    name: str
    requests: Mapping[str, Fraction]
    priority: int
    wishes: Json
    daemon: bool


@dataclass(frozen=True)
class Node:
    name: str
    given: Json
    free: Mapping[str, Fraction]
    use: Fraction
    occupied: bool


class Fleet:
    """The task as its parameters state it."""

    def __init__(self, parameters: Json) -> None:
        self.assumption = Fraction(str(parameters.get("pod_usage_assumption", "0.8")))
        self.power_off = bool(parameters.get("allow_power_off", False))
        self.standby = Fraction(str(parameters.get("standby_watts", 0)))
        self.use_unpriced = parameters.get("unpriced", "last_resort") == "last_resort"
        self.pods = sorted(
            itertools.chain.from_iterable(map(read_pods, parameters["pods"])),
            key=lambda pod: (-pod.priority, pod.namespace, pod.name),
        )
        self.nodes = [self._read_node(node) for node in parameters["nodes"]]

    def _read_node(self, given: Json) -> Node:
        used = {key: number(value) for key, value in given.get("used", {}).items()}
        free = {
            key: number(value) - used.get(key, 0) for key, value in given["allocatable"].items()
        }
        use = used.get("cpu", Fraction(0)) * self.assumption
        if "usage_cores" in given:
            use = number(given["usage_cores"])
        return Node(given["name"], given, free, use, any(used.values()))

    def is_open(self, node: Node, pod: Pod) -> bool:
        """Whether the pod may run on the node if that were empty of other new pods."""
        if "curve" not in node.given and not self.use_unpriced:
            return False
        return (
            node.given.get("ready", True)
            and not_repelled(node.given, pod.wishes)
            and wanted(node.given, pod.wishes)
            and self.fits(node, [pod])
        )

    def fits(self, node: Node, pods: Sequence[Pod]) -> bool:
        if len(pods) > node.free.get("pods", len(pods)):
            return False
        total: Counter[str] = Counter()
        for pod in pods:
            total.update(pod.requests)
        return all(
            amount == 0 or amount <= node.free.get(resource, 0)
            for resource, amount in total.items()
        )

    def watts(self, node: Node, pods: Sequence[Pod]) -> Fraction:
        """Watts of a node with these new pods; 0 where they are not known."""
        if "curve" not in node.given:
            return Fraction(0)
        awake = node.occupied or any(not pod.daemon for pod in pods)
        if self.power_off and not awake:
            return self.standby
        cpu = sum((pod.requests.get("cpu", Fraction(0)) for pod in pods), Fraction(0))
        return on_curve(node.given["curve"], node.use + cpu * self.assumption)

    def value(self, assignment: Sequence[Sequence[Pod]]) -> tuple[t.Any, ...]:
        """How good it is, in the order of the objectives: more is better."""
        placed = Counter(pod.priority for pods in assignment for pod in pods)
        levels = sorted({pod.priority for pod in self.pods}, reverse=True)
        pairs = list(zip(self.nodes, assignment, strict=True))
        elsewhere = sum(len(pods) for node, pods in pairs if "curve" not in node.given)
        watts = sum((self.watts(node, pods) for node, pods in pairs), Fraction(0))
        return tuple(placed[level] for level in levels), -elsewhere, -watts


def read_pods(given: Json) -> Iterator[Pod]:
    names = [given["name"]]
    if "count" in given:
        names = [f"{given['name']}-{index}" for index in range(given["count"])]
    for name in names:
        yield Pod(
            given.get("namespace", "default"),
            name,
            {key: number(value) for key, value in given.get("requests", {}).items()},
            given.get("priority", 0),
            given,
            any(owner["kind"] == "DaemonSet" for owner in given.get("owner_references", [])),
        )


def on_curve(curve: Json, cores: Fraction) -> Fraction:
    points = [
        (Fraction(str(x)), Fraction(str(y)))
        for x, y in zip(curve["cpu"], curve["watts"], strict=True)
    ]
    cores = min(max(cores, points[0][0]), points[-1][0])
    for (left, low), (right, high) in itertools.pairwise(points):
        if left <= cores <= right:
            return low + (high - low) * (cores - left) / (right - left)
    raise AssertionError("a curve covers its own range")


def not_repelled(node: Json, pod: Json) -> bool:
    taints = list(node.get("taints", []))
    if node.get("unschedulable"):
        taints.append({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
    return all(
        taint["effect"] == "PreferNoSchedule"
        or any(passes(toleration, taint) for toleration in pod.get("tolerations", []))
        for taint in taints
    )


def passes(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not toleration.get("key") or toleration["key"] == taint["key"]
    same_key = bool(toleration.get("key", "") == taint["key"])
    return same_key and bool(toleration.get("value", "") == taint.get("value", ""))


def wanted(node: Json, pod: Json) -> bool:
    labels = node.get("labels", {})
    if pod.get("node_name", node["name"]) != node["name"]:
        return False
    if not pod.get("node_selector", {}).items() <= labels.items():
        return False
    affinity = pod.get("affinity", {}).get("node_affinity", {})
    required = affinity.get("required_during_scheduling_ignored_during_execution")
    if required is None:
        return True
    return any(
        term and all(demanded(labels, demand) for demand in term.get("match_expressions", []))
        for term in required["node_selector_terms"]
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
            return has and value.isdigit() and int(value) > int(demand["values"][0])
        case "Lt":
            return has and value.isdigit() and int(value) < int(demand["values"][0])
    raise AssertionError(demand)


def nodes_of_pods(fleet: Fleet, result: Json) -> dict[str, list[Pod]]:
    """What the result places on each node."""
    pods = {(pod.namespace, pod.name): pod for pod in fleet.pods}
    by_node: dict[str, list[Pod]] = {node.name: [] for node in fleet.nodes}
    for entry in result["placements"]:
        by_node[entry["node"]].append(pods[entry["namespace"], entry["pod"]])
    return by_node


def value_of(parameters: Json, result: Json) -> tuple[t.Any, ...]:
    """How good a result is: see Fleet.value."""
    fleet = Fleet(parameters)
    by_node = nodes_of_pods(fleet, result)
    return fleet.value([by_node[node.name] for node in fleet.nodes])


def violations(parameters: Json, result: Json) -> list[str]:
    """Everything that is wrong with a result; nothing should be."""
    fleet = Fleet(parameters)
    pods = {(pod.namespace, pod.name): pod for pod in fleet.pods}
    by_node = nodes_of_pods(fleet, result)
    named = [(entry["namespace"], entry["pod"]) for entry in result["placements"]]
    unplaced = [(entry["namespace"], entry["pod"]) for entry in result["unplaced"]]
    found = []
    if sorted(named + unplaced) != sorted(pods):
        found.append("the placed and the unplaced pods are not those of the input")
    if named != [key for key in pods if key in set(named)]:
        found.append("the placements are not in canonical order")
    for node in fleet.nodes:
        found += [
            f"{pod.name} may not run on {node.name}"
            for pod in by_node[node.name]
            if not fleet.is_open(node, pod)
        ]
        if not fleet.fits(node, by_node[node.name]):
            found.append(f"{node.name} is overfull")
        found += [
            f"{key} would fit on {node.name}"
            for key in unplaced
            if fleet.is_open(node, pods[key]) and fleet.fits(node, [*by_node[node.name], pods[key]])
        ]
    return found + wrong_watts(fleet, by_node, result)


def wrong_watts(fleet: Fleet, by_node: Mapping[str, Sequence[Pod]], result: Json) -> list[str]:
    watts = result["watts"]
    before = float(sum(fleet.watts(node, []) for node in fleet.nodes))
    after = float(sum(fleet.watts(node, by_node[node.name]) for node in fleet.nodes))
    gap = (watts["after"] - watts["lower_bound"]) / max(watts["lower_bound"] - watts["before"], 1)
    asleep = [
        node.name
        for node in sorted(fleet.nodes, key=lambda node: node.name)
        if fleet.power_off
        and "curve" in node.given
        and not node.occupied
        and all(pod.daemon for pod in by_node[node.name])
    ]
    checks = {
        "before": abs(watts["before"] - before) < TOLERANCE_WATTS,
        "after": abs(watts["after"] - after) < TOLERANCE_WATTS,
        "lower_bound": watts["lower_bound"] <= watts["after"],
        "gap": abs(gap - result["gap"]) < 1e-6,
        "asleep": result["asleep"] == asleep,
        "proven": not result["proven"] or watts["after"] - watts["lower_bound"] < 2e-3,
    }
    return [f"{name} is wrong" for name, is_right in checks.items() if not is_right]
