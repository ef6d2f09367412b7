# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A checker of power_placement's result, from its parameters alone.

A second, simple reading of the rules that shares no code with the solver. A placement is feasible
if three conditions hold. First, kube-scheduler would let each placed pod back onto its node after
its removal, required affinity aside. Second, in some order of binding each pod is let onto its node
beside the pods bound before (the first of a set with affinity to itself may find none, and may stay
alone). Third, of a gang all pods are placed or none.
"""

from __future__ import annotations

import bisect
import functools
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction

from support.placement_caches import Caches
from support.placement_devices import Devices
from support.placement_limits import PowerLimits
from support.placement_preferences import unmet_weight
from support.placement_rules import (
    Json,
    Node,
    Placed,
    Pod,
    amounts,
    collide,
    finds_company,
    fits,
    get,
    is_even,
    is_wanted,
    meets,
    number,
    open_to,
    plus,
    read_pods,
    same_domain,
    tolerated,
)
from support.placement_shares import shares
from support.placement_starts import Starts
from support.placement_volumes import Volumes

TOLERANCE_WATTS = 1e-5
# Objectives in their order: pods placed by priority, highest first; minus those on nodes without a
# curve; minus watts including the cost of unmet preferences. More is better.
Value = tuple[tuple[int, ...], int, float]


class Fleet:
    """The task given by its parameters."""

    def __init__(self, parameters: Json) -> None:
        self.assumption = Fraction(str(parameters.get("pod_usage_assumption", "0.8")))
        self.power_off = bool(parameters.get("allow_power_off", False))
        self.standby = float(parameters.get("standby_watts", 0))
        self.use_unpriced = parameters.get("unpriced", "last_resort") == "last_resort"
        self.preference_watts = float(parameters.get("preference_watts", 1))
        self.namespaces = {
            item["metadata"]["name"]: item["metadata"].get("labels", {})
            for item in parameters.get("namespaces") or []
        }
        self.pods = sorted(
            (pod for given in parameters["pods"] for pod in read_pods(given, self.namespaces)),
            key=lambda pod: (-pod.priority, pod.namespace, pod.name),
        )
        on: dict[str, list[Pod]] = {}
        for given in parameters.get("running", []):
            for pod in read_pods(given, self.namespaces):
                on.setdefault(get(pod.spec, "nodeName"), []).append(pod)
        self.nodes = [self._read_node(node, on) for node in parameters["nodes"]]
        self.caches = Caches(parameters, on)
        self.devices = Devices(parameters)
        self.volumes = Volumes(parameters, on)
        self.by_name = {node.name: node for node in self.nodes}
        self.running: list[Placed] = [(pod, node) for node in self.nodes for pod in node.running]
        everyone = itertools.chain(self.pods, *on.values())
        self.starts = Starts(parameters, self.nodes, everyone, self.is_possible)
        self.shares = list(shares(self.nodes, self.pods, self.running))
        self.limits = PowerLimits(parameters, self.nodes, self.awake_watts)
        self._watts: dict[tuple[str, int, bool], float] = {}
        self._open: dict[tuple[int, int], bool] = {}
        self._unmet: dict[tuple[int, int], float] = {}

    def _read_node(self, given: Json, on: Mapping[str, Sequence[Pod]]) -> Node:
        running = [pod for pod in on.get(given["name"], []) if not pod.is_finished]
        used = amounts(given.get("used"))
        starting = 0
        for pod in running:
            used = plus(used, {**pod.requests, "pods": 1})
            starting += pod.requests.get("cpu", 0) if pod.phase == "Pending" else 0
        allocatable = {"pods": 10**9, **amounts(given["allocatable"])}
        use = used.get("cpu", 0) * self.assumption
        if "usage_cores" in given:
            use = number(str(given["usage_cores"])) * 1000 + starting * self.assumption
        return Node(
            name=given["name"],
            labels=given.get("labels", {}),
            taints=given.get("taints", []),
            unschedulable=bool(given.get("unschedulable")),
            ready=given.get("ready", True),
            free={name: value - used.get(name, 0) for name, value in allocatable.items()},
            millicores=use,
            curve=given.get("curve"),
            occupied=any(amounts(given.get("used")).values())
            or any(not pod.daemon for pod in running),
            running=running,
        )

    def is_fit(self, node: Node, pod: Pod) -> bool:
        """Whether the pod may run on the node, regardless of other pods and of resources."""
        return (
            (node.curve is not None or self.use_unpriced)
            and not self.limits.is_closed(node)
            and open_to(node, pod)
            and self.devices.may_be_on(node.name, pod)
            and self.volumes.may_be_on(node, pod)
        )

    def is_possible(self, node: Node, pod: Pod) -> bool:
        """Whether the pod could come to the node if there were room for all pods that wait."""
        waiting = ((each, node) for each in self.pods)
        company = [other for other in (*self.running, *waiting) if is_wanted(pod, other[0])]
        return (
            self.is_fit(node, pod)
            and all(get(constraint, "topologyKey") in node.labels for constraint in pod.spreads)
            and all(
                any(same_domain(node, where, term.key) for _other, where in company)
                for term in pod.near
            )
            and not any(collide((pod, node), other) for other in self.running)
        )

    def is_open(self, node: Node, pod: Pod) -> bool:
        """Whether the pod may run on the node if no other pod were waiting."""
        key = (id(node), id(pod))
        if key not in self._open:
            self._open[key] = (
                self.is_fit(node, pod)
                and self.holds(node, [pod])
                and not any(collide((pod, node), other) for other in self.running)
            )
        return self._open[key]

    def holds(self, node: Node, pods: Sequence[Pod]) -> bool:
        """Whether the node has enough for all these pods."""
        return (
            fits(node, pods)
            and self.caches.hold(node.name, pods)
            and self.devices.cost({node.name: pods}) is not None
        )

    def watts(self, node: Node, pods: Sequence[Pod]) -> float:
        """Power draw of a node with these new pods, without devices; 0 if unknown."""
        return 0.0 if node.curve is None else self.curve_watts(node, pods)

    def curve_watts(self, node: Node, pods: Sequence[Pod]) -> float:
        awake = node.occupied or any(not pod.daemon for pod in pods)
        key = (node.name, sum(pod.requests.get("cpu", 0) for pod in pods), awake)
        if key not in self._watts:
            self._watts[key] = self.standby
            if awake or not self.power_off:
                cores = float((node.millicores + key[1] * self.assumption) / 1000)
                assert node.curve is not None
                self._watts[key] = on_curve(node.curve, cores)
        return self._watts[key]

    def awake_watts(self, node: Node, pods: Sequence[Pod]) -> float:
        """Power draw by the curve, even without workload; devices included."""
        assert node.curve is not None
        millicores = sum(pod.requests.get("cpu", 0) for pod in pods)
        cores = float((node.millicores + millicores * self.assumption) / 1000)
        return on_curve(node.curve, cores) + self.devices.watts({node.name: pods})

    def unmet(self, node: Node, pod: Pod) -> float:
        """The weight of the pod's unmet preferences for nodes."""
        key = (id(node), id(pod))
        if key not in self._unmet:
            affinity = get(get(pod.spec, "affinity"), "nodeAffinity")
            preferred = get(affinity, "preferredDuringSchedulingIgnoredDuringExecution", [])
            weights = [term["weight"] for term in preferred if not meets(node, term["preference"])]
            weights += [
                100
                for taint in node.taints
                if taint["effect"] == "PreferNoSchedule" and not tolerated(taint, pod)
            ]
            self._unmet[key] = sum(weights)
        return self._unmet[key]

    def all_unmet(self, placed: Sequence[Placed]) -> float:
        """Cost of all unmet preferences."""
        if not self.preference_watts:
            return 0.0
        weight = sum(self.unmet(node, pod) for pod, node in placed)
        weight += unmet_weight(placed, self.running, self.namespaces)
        weight += 100 * sum(share.exceeded(placed) for share in self.shares)
        return weight / 100 * self.preference_watts

    def value(self, placed: Sequence[Placed]) -> Value:
        """Value of a placement; more is better."""
        by_priority = Counter(pod.priority for pod, _node in placed)
        pods_on: dict[str, list[Pod]] = {node.name: [] for node in self.nodes}
        for pod, node in placed:
            pods_on[node.name].append(pod)
        elsewhere = sum(node.curve is None for _pod, node in placed)
        worth = sum(self.watts(node, pods_on[node.name]) for node in self.nodes)
        worth += self.devices.watts(pods_on) + self.all_unmet(placed)
        return tuple(by_priority[level] for level in self.levels), -elsewhere, -worth

    @functools.cached_property
    def levels(self) -> list[int]:
        return sorted({pod.priority for pod in self.pods}, reverse=True)

    @functools.cached_property
    def gangs(self) -> Counter[str]:
        """Number of waiting pods of each gang."""
        return Counter(pod.gang for pod in self.pods if pod.gang)

    def wrong(self, placed: Sequence[Placed]) -> list[str]:
        """Errors that make a placement infeasible, order of binding aside; should be empty."""
        found = [
            f"{pod.name} may not run on {node.name}"
            for pod, node in placed
            if not self.is_open(node, pod)
        ]
        pods_on: dict[str, list[Pod]] = {node.name: [] for node in self.nodes}
        for pod, node in placed:
            pods_on[node.name].append(pod)
        found += [
            f"{node.name} is overfull"
            for node in self.nodes
            if not self.holds(node, pods_on[node.name])
        ]
        if self.devices.cost(pods_on) is None:
            found.append("there are too few devices")
        else:
            found += self.limits.wrong(pods_on)
        found += [
            f"{first[0].name} on {first[1].name} and {second[0].name} on {second[1].name} collide"
            for first, second in itertools.combinations(placed, 2)
            if collide(first, second)
        ]
        found += [
            f"{first[0].name} and {second[0].name} share a claim, but no node"
            for first, second in itertools.combinations(placed, 2)
            if first[1] is not second[1]
            and first[0].namespace == second[0].namespace
            and self.devices.claims(first[0]).keys() & self.devices.claims(second[0]).keys()
        ]
        if not self.volumes.hold(placed):
            found.append("there are too few volumes, or pods share what they must not")
        found += self.uneven(placed)
        members = Counter(pod.gang for pod, _node in placed if pod.gang)
        found += [f"{gang} is not whole" for gang in members if members[gang] != self.gangs[gang]]
        return found

    def uneven(self, placed: Sequence[Placed]) -> list[str]:
        return [
            f"{pod.name} makes {node.name} uneven"
            for index, (pod, node) in enumerate(placed)
            if pod.spreads
            and not is_even(
                pod, node, [*self.running, *placed[:index], *placed[index + 1 :]], self.nodes
            )
        ]

    def may_come(self, pod: Pod, node: Node, before: Sequence[Placed]) -> bool:
        """Whether the pod is let onto the node after these are bound, by the rules that depend on
        order.

        All other rules that hold at the end hold with fewer pods too.
        """
        others = [*self.running, *before]
        return (
            finds_company(pod, node, others)
            and is_even(pod, node, others, self.nodes)
            and self.starts.accepts(pod, node, others)
        )

    def has_order(self, pod: Pod) -> bool:
        """Whether the pod's rules depend on the pods bound before it."""
        return bool(pod.near or pod.spreads or self.starts.redundancy(pod))

    def can_be_bound(self, placed: Sequence[Placed]) -> bool:
        """Whether some order of binding lets each pod onto its node; only for few pods."""
        if not any(self.has_order(pod) for pod, _node in placed):
            return True
        heads = [frozenset[int]()]
        tried = set(heads)
        while heads:
            bound = heads.pop()
            if len(bound) == len(placed):
                return True
            before = [placed[index] for index in sorted(bound)]
            for index in set(range(len(placed))) - bound:
                more = bound | {index}
                if more not in tried and self.may_come(*placed[index], before):
                    tried.add(more)
                    heads.append(more)
        return False


def on_curve(curve: Json, cores: float) -> float:
    xs, ys = curve["cpu"], curve["watts"]
    if cores <= xs[0]:
        return float(ys[0])
    if cores >= xs[-1]:
        return float(ys[-1])
    right = bisect.bisect_right(xs, cores)
    share = (cores - xs[right - 1]) / (xs[right] - xs[right - 1])
    return float(ys[right - 1] + share * (ys[right] - ys[right - 1]))


def placed_by(fleet: Fleet, result: Json) -> list[Placed]:
    """The placements of a result, in its order."""
    pods = {pod.key: pod for pod in fleet.pods}
    return [
        (pods[entry["namespace"], entry["pod"]], fleet.by_name[entry["node"]])
        for entry in result["placements"]
    ]


def value_of(parameters: Json, result: Json) -> Value:
    """Value of a result; see Fleet.value."""
    fleet = Fleet(parameters)
    return fleet.value(placed_by(fleet, result))


def violations(parameters: Json, result: Json, is_complete: bool = True) -> list[str]:
    """All errors of a result; should be empty.

    ``is_complete``: no pod that would still fit may be left unplaced.
    """
    fleet = Fleet(parameters)
    placed = placed_by(fleet, result)
    named = [(entry["namespace"], entry["pod"]) for entry in result["placements"]]
    unplaced = [(entry["namespace"], entry["pod"]) for entry in result["unplaced"]]
    found = []
    if sorted(named + unplaced) != sorted(pod.key for pod in fleet.pods):
        found.append("the placed and the unplaced pods are not those of the input")
    found += fleet.wrong(placed)
    found += wrong_order(fleet, placed)
    pods_on = {node.name: [pod for pod, there in placed if there is node] for node in fleet.nodes}
    found += fleet.devices.wrong(result, pods_on)
    if is_complete:
        refused = {key_of(entry) for entry in result["unplaced"] if is_refused(entry)}
        found += [
            f"{pod.name} would fit on {node.name}"
            for pod in fleet.pods
            if pod.key in set(unplaced) - refused and not pod.gang
            for node in fleet.nodes
            if fleet.is_open(node, pod)
            and fleet.may_come(pod, node, placed)
            and not fleet.wrong([*placed, (pod, node)])
        ]
    return found + wrong_watts(fleet, placed, result)


def key_of(entry: Json) -> tuple[str, str]:
    return entry["namespace"], entry["pod"]


def is_refused(entry: Json) -> bool:
    """Whether the pod has an unsupported field."""
    return any(reason.startswith("unsupported: ") for reason in entry["reasons"])


def wrong_order(fleet: Fleet, placed: Sequence[Placed]) -> list[str]:
    """Check that each pod is let onto its node beside the pods bound before it."""
    return [
        f"{pod.name} is bound to {node.name} too early"
        for index, (pod, node) in enumerate(placed)
        if not fleet.may_come(pod, node, placed[:index])
    ]


def wrong_watts(fleet: Fleet, placed: Sequence[Placed], result: Json) -> list[str]:
    watts = result["watts"]
    pods_on: dict[str, list[Pod]] = {node.name: [] for node in fleet.nodes}
    for pod, node in placed:
        pods_on[node.name].append(pod)
    before = sum(fleet.watts(node, []) for node in fleet.nodes)
    after = sum(fleet.watts(node, pods_on[node.name]) for node in fleet.nodes)
    after += fleet.devices.watts(pods_on)
    gap = (watts["after"] - watts["lower_bound"]) / max(watts["lower_bound"] - watts["before"], 1)
    asleep = [
        node.name
        for node in sorted(fleet.nodes, key=lambda node: node.name)
        if fleet.power_off
        and node.curve is not None
        and not node.occupied
        and all(pod.daemon for pod in pods_on[node.name])
    ]
    checks = {
        "before": abs(watts["before"] - before) < TOLERANCE_WATTS,
        "after": abs(watts["after"] - after) < TOLERANCE_WATTS,
        "lower_bound": watts["lower_bound"] <= watts["after"],
        "gap": abs(gap - result["gap"]) <= 1e-6 * max(1.0, abs(gap)),
        "asleep": result["asleep"] == asleep,
        "preference_watts": abs(result["preference_watts"] - fleet.all_unmet(placed))
        < TOLERANCE_WATTS,
        "proven": not result["proven"] or watts["after"] - watts["lower_bound"] < 2e-3,
    }
    return [f"{name} is wrong" for name, is_right in checks.items() if not is_right]
