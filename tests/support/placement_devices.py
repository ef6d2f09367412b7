# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Devices of nodes and claims of pods, a second time: by trying every choice of devices.

Shares no code with the placer or the allocator. A DeviceClass is understood by its name alone: that
of a model, or ``any``. Attributes are ``model``, ``watts`` and ``numa`` of the driver.
"""

from __future__ import annotations

import itertools
import typing as t
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from support.placement_rules import Json, Pod, get

# Rank of the alternatives and watts: less is better.
Cost = tuple[int, float]


@dataclass(frozen=True)
class Device:
    """One device of a node."""

    name: str
    model: str
    watts: float
    numa: int


class Devices:
    """The devices and claims of a task as its ``device_objects`` tell them."""

    def __init__(self, parameters: Json) -> None:
        self._on: dict[str, list[Device]] = {}
        self._specs: dict[tuple[str, str, str], Json] = {}
        self._counts_watts = parameters.get("device_power") is not None
        self.home: dict[tuple[str, str], str] = {}
        taken = set()
        for item in parameters.get("device_objects", []):
            name = item["metadata"]["name"]
            if item["kind"] == "ResourceSlice":
                node = item["spec"]["nodeName"]
                self._on[node] = [_device(each) for each in item["spec"]["devices"]]
            elif item["kind"] in ("ResourceClaim", "ResourceClaimTemplate"):
                namespace = item["metadata"]["namespace"]
                spec = item["spec"]
                self._specs[item["kind"], namespace, name] = spec.get("spec", spec)
                results = (item.get("status") or {}).get("allocation", {}).get("devices", {})
                for result in results.get("results", []):
                    self.home[namespace, name] = result["pool"]
                    taken.add((result["pool"], result["device"]))
        self._on = {
            node: [device for device in devices if (node, device.name) not in taken]
            for node, devices in self._on.items()
        }

    def claims(self, pod: Pod) -> dict[str, Json]:
        """What a pod asks for, by the name of the claim; not what it has already."""
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
        """Whether claims that have their devices already let the pod onto the node."""
        names = [item.get("resourceClaimName") for item in get(pod.spec, "resourceClaims", [])]
        homes = {
            self.home[pod.namespace, name] for name in names if (pod.namespace, name) in self.home
        }
        return homes <= {node}

    def cost(self, node: str, pods: Sequence[Pod]) -> Cost | None:
        """The best cost of devices for these pods on a node; None where there are too few."""
        wanted: dict[tuple[str, str], Json] = {}
        for pod in pods:
            wanted |= {(pod.namespace, name): spec for name, spec in self.claims(pod).items()}
        costs = self._costs(frozenset(self._on.get(node, ())), list(wanted.values()))
        return min(costs, default=None)

    def watts(self, node: str, pods: Sequence[Pod]) -> float:
        cost = self.cost(node, pods)
        return 0.0 if cost is None or not self._counts_watts else cost[1]

    def _costs(self, free: frozenset[Device], specs: Sequence[Json]) -> Iterator[Cost]:
        if not specs:
            yield 0, 0.0
            return
        for rank, chosen in _ways(free, specs[0]["devices"]):
            drawn = sum(device.watts for device in chosen)
            for cost in self._costs(free - chosen, specs[1:]):
                yield cost[0] + rank, cost[1] + drawn

    def wrong(self, result: Json, pods: Mapping[str, Sequence[Pod]]) -> list[str]:
        """What is wrong with the allocations of a result; ``pods`` are placed on the nodes."""
        given = {(entry["namespace"], entry["name"]): entry for entry in result["allocations"]}
        found, used = [], set()
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
            names = {one["device"] for one in entry["allocation"]["devices"]["results"]}
            chosen = frozenset(device for device in self._on[entry["node"]] if device.name in names)
            if entry["node"] != node or chosen not in [way for _rank, way in _ways(chosen, spec)]:
                found.append(f"{sorted(names)} of {entry['node']} do not satisfy {key}")
            for one in entry["allocation"]["devices"]["results"]:
                place = (one["pool"], one["device"])
                if one["pool"] != entry["node"] or place in used:
                    found.append(f"{place} is given twice, or is not of {entry['node']}")
                if one["device"] not in [device.name for device in self._on[one["pool"]]]:
                    found.append(f"{place} is not free")
                used.add(place)
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


def _device(given: Json) -> Device:
    attributes = given["attributes"]
    return Device(
        given["name"],
        attributes["model"]["string"],
        float(attributes["watts"]["int"]),
        attributes["numa"]["int"],
    )
