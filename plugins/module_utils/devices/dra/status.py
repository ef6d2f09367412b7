# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The status of a ResourceClaim: read as existing allocation, written as a new one."""

from __future__ import annotations

import itertools
import math
import typing as t
import uuid
from dataclasses import dataclass

from ...base.fields.lenient import member, objects, text
from ...base.json_types import Object
from ...cel.values import demand_of, quantity_text
from ..model.findings import ApiObject, Defect, Field, Findings
from ..model.model import ClaimAllocation, HeldDevice, Instance, Pick
from .claims import Origin
from .slices import Slices

# The API allows one term for each selector of devices; products of several end here.
_MAX_TERMS = 32
# Fields of a result that name its device.
NAMES = ("driver", "pool", "device")


def allocation_of(obj: ApiObject) -> Object:
    """The allocation in a claim's status, {} if it has none."""
    return obj["status"]["allocation"].mapping()


def held_devices(obj: ApiObject, slices: Slices, findings: Findings) -> list[HeldDevice]:
    """The devices that a claim has; devices that are no longer published are ignored.

    An unreadable amount counts as the whole device, and is a finding. If the name of a device
    cannot be read, the whole pool or driver of the entry counts.
    """
    read = findings.read(obj, results_of)
    if isinstance(read, Defect):
        results = objects(member(obj.manifest, "status", "allocation", "devices", "results"))
    else:
        results = [one.value for one in read]
    held: list[HeldDevice] = []
    for number, item in enumerate(results):
        where = f"status.allocation.devices.results[{number}]"
        names = [text(item.get(key)) for key in NAMES]
        if not all(names):
            findings.add(obj, where, "does not name a device")
            held += [HeldDevice(index, {}, whole=True) for index in _named_by(names, slices)]
            continue
        index = slices.positions.get((names[0], names[1], names[2]))
        if index is None:
            continue
        portions = findings.read(obj, _consumed, item, where)
        admin = item.get("adminAccess") is True
        if isinstance(portions, Defect):
            held.append(HeldDevice(index, {}, admin, whole=True))
            continue
        # An entry without a share's identity is no share, even if the device allows shares today.
        is_share = bool(item.get("shareID"))
        held.append(
            HeldDevice(index, portions, admin, slices.devices[index].shareable and not is_share)
        )
    return held


def _named_by(names: t.Sequence[str], slices: Slices) -> list[int]:
    """The devices with all of the given names; none without driver and pool."""
    if not any(names[:2]):
        return []
    return [
        index
        for position, index in slices.positions.items()
        if all(given in ("", name) for given, name in zip(names, position))
    ]


def results_of(obj: ApiObject) -> list[Field]:
    """The devices in a claim's status as they are written there. Raises Defect."""
    return obj["status"]["allocation"]["devices"]["results"].items()


def _consumed(obj: ApiObject, item: Object, where: str) -> dict[str, int]:
    consumed = Field(obj, where, item)["consumedCapacity"]
    return {name: one.read(demand_of) for name, one in consumed.members()}


@dataclass(frozen=True)
class Results:
    """Writes allocations as the AllocationResult of the API."""

    instance: Instance
    slices: Slices
    origins: t.Sequence[t.Sequence[t.Sequence[Origin]]]
    specs: t.Sequence[Field]

    def of(self, claim: int, allocation: ClaimAllocation) -> dict[str, t.Any]:
        """``devices`` with results and configurations, and ``nodeSelector`` if it is needed."""
        devices: dict[str, t.Any] = {
            "results": [
                self._result(claim, number, chosen)
                for number, chosen in enumerate(allocation.chosen)
            ]
        }
        config = self._config(claim, allocation)
        if config:
            devices["config"] = config
        result: dict[str, t.Any] = {"devices": devices}
        selector = self._node_selector(allocation)
        if selector:
            result["nodeSelector"] = selector
        return result

    def _result(self, claim: int, number: int, chosen: Pick) -> dict[str, t.Any]:
        device = self.instance.devices[chosen.device]
        asked = self.origins[claim][chosen.request][chosen.alternative]
        result: dict[str, t.Any] = {
            "request": asked.name,
            "driver": device.driver,
            "pool": device.pool,
            "device": device.name,
        }
        if asked.body.get("adminAccess"):
            result["adminAccess"] = True
        if asked.body.get("tolerations"):
            result["tolerations"] = asked.body["tolerations"]
        if device.binding_conditions:
            result["bindingConditions"] = list(device.binding_conditions)
        if device.binding_failure_conditions:
            result["bindingFailureConditions"] = list(device.binding_failure_conditions)
        if device.shareable and not asked.body.get("adminAccess"):
            # Upstream's is random; ours is the same for the same answer.
            claimed = f"{self.instance.claims[claim]}/{self.instance.claims[claim].uid}"
            result["shareID"] = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{claimed}/{device}/{number}"))
            if chosen.portions:
                result["consumedCapacity"] = {
                    name: quantity_text(amount) for name, amount in chosen.portions.items()
                }
        return result

    def _config(self, claim: int, allocation: ClaimAllocation) -> list[Object]:
        """The configurations of classes, then of the claim, for the chosen devices."""
        chosen = dict.fromkeys((item.request, item.alternative) for item in allocation.chosen)
        asked = [self.origins[claim][request][number] for request, number in chosen]
        found: list[Object] = []
        for one in asked:
            found += [
                {"source": "FromClass", "requests": [one.name], **item}
                for item in one.device_class.configurations
            ]
        names = {one.name for one in asked} | {one.name.partition("/")[0] for one in asked}
        for item in self.specs[claim]["devices"]["config"].items():
            if not item.value.get("requests") or names & set(item.value["requests"]):
                found.append({"source": "FromClaim", **item.value})
        return found

    def _node_selector(self, allocation: ClaimAllocation) -> dict[str, t.Any] | None:
        """Where the claim's devices can be used: the node, or the selectors of network devices.

        The selectors of several devices are combined by AND, as in Kubernetes.
        """
        selectors: list[Object] = []
        for chosen in allocation.chosen:
            published = self.slices.published[chosen.device]
            if published.local or self.instance.devices[chosen.device].binds_to_node:
                return _only(allocation.node)
            if published.selector and published.selector not in selectors:
                selectors.append(published.selector)
        terms = [selector["nodeSelectorTerms"] for selector in selectors]
        if math.prod(map(len, terms)) > _MAX_TERMS:
            return _only(allocation.node)
        merged = [_all_of(combination) for combination in itertools.product(*terms)]
        return {"nodeSelectorTerms": merged} if selectors else None


def _all_of(terms: t.Sequence[Object]) -> dict[str, list[Object]]:
    """A term for the intersection of these terms."""
    found: dict[str, list[Object]] = {}
    for term in terms:
        for kind in ("matchExpressions", "matchFields"):
            known = found.get(kind, [])
            added = [one for one in term.get(kind) or () if one not in known]
            if added:
                found[kind] = [*known, *added]
    return found


def _only(node: str) -> dict[str, t.Any]:
    expression = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [expression]}]}
