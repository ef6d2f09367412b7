# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of nodes and networks, and claims of pods, restated: by trying every choice.

It shares no code with the placer or the allocator. A DeviceClass is understood by its name alone: a
model's name, or ``any``. Attributes are ``model``, ``watts`` and ``numa`` of the driver.
"""

from __future__ import annotations

import itertools
import typing as t
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from support.placement_rules import Json, Pod, get

# Rank of the alternatives and watts: less is better.
Cost = tuple[int, float]


# Capacity of the counter "slots" in pools of a network that have it.
SLOTS = 2


@dataclass(frozen=True)
class Device:
    """A device, the nodes that can use it, and its consumption of the pool's slots."""

    pool: str
    name: str
    model: str
    watts: float
    numa: int
    nodes: frozenset[str]
    slots: int = 0


class Devices:
    """The devices and claims in a task's ``device_objects``."""

    def __init__(self, parameters: Json) -> None:
        nodes = parameters["nodes"]
        self._racks = {node["name"]: node.get("labels", {}).get("rack") for node in nodes}
        self._priced = {node["name"] for node in nodes if node.get("curve")}
        self._free: list[Device] = []
        self._specs: dict[tuple[str, str, str], Json] = {}
        self._counts_watts = parameters.get("device_power") is not None
        self._known: dict[tuple[tuple[str, int], ...], Cost | None] = {}
        self.home: dict[tuple[str, str], str] = {}
        taken = set()
        for item in parameters.get("device_objects", []):
            name = item["metadata"]["name"]
            if item["kind"] == "ResourceSlice":
                self._free += self._devices(item["spec"])
            elif item["kind"] in ("ResourceClaim", "ResourceClaimTemplate"):
                namespace = item["metadata"]["namespace"]
                spec = item["spec"]
                self._specs[item["kind"], namespace, name] = spec.get("spec", spec)
                results = (item.get("status") or {}).get("allocation", {}).get("devices", {})
                for result in results.get("results", []):
                    self.home[namespace, name] = result["pool"]
                    taken.add((result["pool"], result["device"]))
        self._free = [one for one in self._free if (one.pool, one.name) not in taken]

    def _devices(self, spec: Json) -> Iterator[Device]:
        for given in spec["devices"]:
            attributes = given["attributes"]
            counters = [part["counters"]["slots"] for part in given.get("consumesCounters", [])]
            yield Device(
                spec["pool"]["name"],
                given["name"],
                attributes["model"]["string"],
                float(attributes["watts"]["int"]),
                attributes["numa"]["int"],
                self._reach(given if spec.get("perDeviceNodeSelection") else spec),
                sum(int(counter["value"]) for counter in counters),
            )

    def _reach(self, where: Json) -> frozenset[str]:
        if "nodeName" in where:
            return frozenset([where["nodeName"]])
        if "allNodes" in where:
            return frozenset(self._racks)
        [term] = where["nodeSelector"]["nodeSelectorTerms"]
        [expression] = term["matchExpressions"]
        chosen = expression["values"]
        return frozenset(node for node, rack in self._racks.items() if rack in chosen)

    def claims(self, pod: Pod) -> dict[str, Json]:
        """A pod's unallocated claims by name."""
        found = {}
        for item in get(pod.spec, "resourceClaims", []):
            name = item.get("resourceClaimName")
            if name is None:
                template = "ResourceClaimTemplate", pod.namespace, item["resourceClaimTemplateName"]
                found[f"{pod.name}-{item['name']}"] = self._specs[template]
            elif (pod.namespace, name) not in self.home:
                found[name] = self._specs["ResourceClaim", pod.namespace, name]
        return found

    def may_be_on(self, node: str, pod: Pod) -> bool:
        """Whether the pod's allocated claims permit the node."""
        names = [item.get("resourceClaimName") for item in get(pod.spec, "resourceClaims", [])]
        homes = {
            self.home[pod.namespace, name] for name in names if (pod.namespace, name) in self.home
        }
        return homes <= {node}

    def cost(self, pods_on: Mapping[str, Sequence[Pod]]) -> Cost | None:
        """The best cost of devices for all these pods together; None if there are too few.

        A device's watts count only for a pod on a node with a curve.
        """
        if any(len(device.nodes) > 1 or device.slots for device in self._free):
            return self._together(pods_on)
        costs = [self._together({node: pods}) for node, pods in pods_on.items()]
        known = [cost for cost in costs if cost is not None]
        return (
            (sum(rank for rank, _watts in known), sum(watts for _rank, watts in known))
            if len(known) == len(costs)
            else None
        )

    def _together(self, pods_on: Mapping[str, Sequence[Pod]]) -> Cost | None:
        wanted = {
            (pod.namespace, name): (node, spec)
            for node, pods in pods_on.items()
            for pod in pods
            for name, spec in self.claims(pod).items()
        }
        asked = sorted(wanted.values(), key=lambda item: (item[0], id(item[1])))
        key = tuple((node, id(spec)) for node, spec in asked)
        if key not in self._known:
            self._known[key] = self._best(asked, frozenset(self._free), (0, 0.0), None)
        return self._known[key]

    def watts(self, pods_on: Mapping[str, Sequence[Pod]]) -> float:
        cost = self.cost(pods_on)
        return 0.0 if cost is None or not self._counts_watts else cost[1]

    def _best(
        self,
        asked: Sequence[tuple[str, Json]],
        free: frozenset[Device],
        so_far: Cost,
        best: Cost | None,
    ) -> Cost | None:
        if best is not None and so_far >= best:
            return best
        if not asked:
            return so_far
        (node, spec), *others = asked
        there = frozenset(device for device in free if node in device.nodes)
        for rank, chosen in _ways(there, spec["devices"]):
            if self._slots_suffice(free - chosen):
                drawn = sum(device.watts for device in chosen) if node in self._priced else 0.0
                cost = so_far[0] + rank, so_far[1] + drawn
                best = self._best(others, free - chosen, cost, best)
        return best

    def _slots_suffice(self, left: frozenset[Device]) -> bool:
        """Whether the slots of each pool suffice for all devices that are not left."""
        taken = Counter[str]()
        for device in self._free:
            if device not in left:
                taken[device.pool] += device.slots
        return all(number <= SLOTS for number in taken.values())

    def wrong(self, result: Json, pods: Mapping[str, Sequence[Pod]]) -> list[str]:
        """Errors in the allocations of a result; ``pods`` are placed on the nodes."""
        given = {(entry["namespace"], entry["name"]): entry for entry in result["allocations"]}
        found: list[str] = []
        used: frozenset[Device] = frozenset()
        wanted = {
            (pod.namespace, name): (node, spec["devices"])
            for node, its_pods in pods.items()
            for pod in its_pods
            for name, spec in self.claims(pod).items()
        }
        if given.keys() != wanted.keys():
            found.append(f"{sorted(given)} have devices, and {sorted(wanted)} should")
        for key, entry in given.items():
            node, spec = wanted.get(key, ("", {"requests": []}))
            results = entry["allocation"]["devices"]["results"]
            places = {(one["pool"], one["device"]) for one in results}
            chosen = frozenset(one for one in self._free if (one.pool, one.name) in places)
            if entry["node"] != node or chosen not in [way for _rank, way in _ways(chosen, spec)]:
                found.append(f"{sorted(places)} on {entry['node']} do not satisfy {key}")
            if len(chosen) < len(results) or chosen & used:
                found.append(f"of {sorted(places)} some are given twice, or were not free")
            if not all(node in device.nodes for device in chosen):
                found.append(f"{sorted(places)} cannot all be used from {node}")
            used |= chosen
        if not self._slots_suffice(frozenset(self._free) - used):
            found.append("a pool has too few slots for what is given")
        return found


def _ways(free: frozenset[Device], spec: Json) -> Iterator[tuple[int, frozenset[Device]]]:
    """Every choice of devices for one claim, with the rank of its alternatives."""
    choices = [list(_choices(free, request)) for request in spec["requests"]]
    for combination in itertools.product(*choices):
        chosen = [device for _rank, devices in combination for device in devices]
        same = not spec.get("constraints") or len({device.numa for device in chosen}) == 1
        if len(set(chosen)) == len(chosen) and same:
            yield sum(rank for rank, _devices in combination), frozenset(chosen)


def _choices(free: frozenset[Device], request: Json) -> Iterator[tuple[int, tuple[Device, ...]]]:
    ways: list[t.Any] = request.get("firstAvailable") or [request["exactly"]]
    for rank, way in enumerate(ways):
        fitting = sorted(
            (each for each in free if way["deviceClassName"] in ("any", each.model)),
            key=lambda each: each.name,
        )
        for devices in itertools.combinations(fitting, way.get("count", 1)):
            yield rank, devices
