# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes in a cluster of the objects that the operator's account may write.

The account's roles give the kinds. Each write of an object changes its resource version, so equal
versions prove that nothing was written.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.api import Api
from lab.operator.installation import ACCOUNT, NAMESPACE

JsonObject = dict[str, Any]
Objects = dict[str, JsonObject]

_WRITING = {"create", "update", "patch", "delete"}
# The other Leases are those of kubelets and of the control plane.
_OWN_LEASES = "wattwise-"
# Leader election renews it.
_LEADER_LEASE = f"/leases.coordination.k8s.io/{NAMESPACE}/{ACCOUNT}"
_REQUESTS = re.compile(r"^apiserver_request_total\{(?P<labels>.*)\} (?P<count>\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
# A kubelet's writes to its node in each heartbeat.
_KUBELETS = ("lastHeartbeatTime",)
# The node lifecycle controller gives and takes these taints.
_TAINTS = ("not-ready", "unreachable", "unschedulable")


@dataclass(frozen=True)
class Write:
    """A changed object.

    ``is_reading``: only readings and their times are new; ``is_heartbeat``: in addition, the stored
    time was a heartbeat interval ago.
    """

    path: str
    fields: tuple[str, ...]
    is_reading: bool = False
    is_heartbeat: bool = False

    @property
    def resource(self) -> str:
        """Name without the group."""
        return _resource(self.path)

    def __str__(self) -> str:
        return f"{self.path} ({', '.join(self.fields) or 'made or deleted'})"


def writable(manifests: Sequence[JsonObject]) -> list[tuple[str, str]]:
    """Group and resource of each kind that the roles of an overlay let its account write."""
    found = {
        (group, resource.partition("/")[0])
        for item in manifests
        for rule in item.get("rules", [])
        if item["kind"] in ("ClusterRole", "Role") and _WRITING.intersection(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    return sorted(found)


def stored(api: Api, manifests: Sequence[JsonObject]) -> Objects:
    """All objects of these kinds, only wattwise's among Leases. Raises ApiError."""
    found: Objects = {}
    for group, resource in writable(manifests):
        for item in _listed(api, group, resource):
            metadata = item["metadata"]
            key = key_of(resource, group, metadata.get("namespace", ""), metadata["name"])
            if resource != "leases" or metadata["name"].startswith(_OWN_LEASES):
                found[key] = item
    found.pop(_LEADER_LEASE, None)
    return found


def _listed(api: Api, group: str, resource: str) -> list[JsonObject]:
    """All objects of a kind, in the first version of its group that serves it.

    A CRD may be missing, such as the one in the other group of NodeConfigs.
    """
    found = api.find(f"/apis/{group}") if group else None
    versions = [each["groupVersion"] for each in (found or {"versions": []})["versions"]]
    for root in [f"/apis/{version}" for version in versions] if group else ["/api/v1"]:
        listed = api.find(f"{root}/{resource}")
        if listed is not None:
            items: list[JsonObject] = listed["items"]
            return items
    return []


def key_of(resource: str, group: str, namespace: str, name: str) -> str:
    """The key of an object in ``stored``."""
    return f"/{'.'.join(filter(None, (resource, group)))}/{namespace}/{name}"


def _resource(key: str) -> str:
    return key.split("/")[1].partition(".")[0]


def writes(before: Objects, after: Objects, heartbeat_seconds: float) -> list[Write]:
    """The writes in between, except for those of kubelets and of the control plane to nodes."""
    found = []
    for key in sorted(before.keys() | after.keys()):
        old, new = before.get(key), after.get(key)
        if old is None or new is None:
            found.append(Write(key, ()))
        elif old["metadata"]["resourceVersion"] != new["metadata"]["resourceVersion"]:
            is_node = _resource(key) == "nodes"
            pair = map(_without_taints, (old, new)) if is_node else (old, new)
            fields = tuple(_different(*pair))
            if not all(name.endswith(_KUBELETS) for name in fields) or not (fields or is_node):
                is_reading = _is_reading(key, fields)
                least = heartbeat_seconds * _SHARES.get(_resource(key), 1.0) - 1.0
                is_old = any(now - then >= least for then, now in _times(old, new))
                found.append(Write(key, fields, is_reading, is_reading and is_old))
    return found


def _without_taints(node: JsonObject) -> JsonObject:
    """The node without the taints of the node lifecycle controller."""
    names = {f"node.kubernetes.io/{name}" for name in _TAINTS}
    spec = node.get("spec", {})
    taints = [one for one in spec.get("taints", ()) if one["key"] not in names]
    return {**node, "spec": {**spec, "taints": taints}}


def _different(old: Any, new: Any, path: str = "") -> list[str]:
    """The paths at which two objects differ, without those that every write changes."""
    if path in (".metadata.resourceVersion", ".metadata.managedFields"):
        return []
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            name
            for key in sorted(old.keys() | new.keys())
            for name in _different(old.get(key), new.get(key), f"{path}.{key}")
        ]
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return [
            name
            for number, (one, other) in enumerate(zip(old, new, strict=True))
            for name in _different(one, other, f"{path}[{number}]")
        ]
    return [] if old == new else [path]


# Fields that every run moves: in a NodeConfig the times of readings and the values that moved
# meanwhile, in a PowerFleet the last run.
_BEATING: Mapping[str, tuple[str, ...]] = {
    "nodeconfigs": (".status.readings.",),
    "powerfleets": (".status.lastRun", ".status.watts", ".status.hottestInlet"),
}


# Heartbeats have different ages from node to node, so that no run writes all of them.
_SHARES = {"nodeconfigs": 0.5}


def _is_reading(key: str, fields: Sequence[str]) -> bool:
    beating = _BEATING.get(_resource(key), ())
    return bool(fields and beating) and all(name.startswith(beating) for name in fields)


def _times(old: JsonObject, new: JsonObject) -> list[tuple[float, float]]:
    """Old and new value of each time of a reading or a run, in Unix seconds."""
    before, after = old.get("status", {}), new.get("status", {})
    pairs = [
        *(
            (one, after.get("readings", {}).get(name, {}))
            for name, one in before.get("readings", {}).items()
        ),
        (before.get("lastRun", {}), after.get("lastRun", {})),
    ]
    return [
        (_seconds(one["time"]), _seconds(other["time"]))
        for one, other in pairs
        if "time" in one and "time" in other
    ]


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


def requests(api: Api, manifests: Sequence[JsonObject]) -> dict[tuple[str, str], float]:
    """The API server's requests so far, by verb and resource, without those for Leases."""
    own = {
        resource for group, resource in writable(manifests) if "." in group and resource != "leases"
    }
    found: dict[tuple[str, str], float] = {}
    for match in _REQUESTS.finditer(api.text("/metrics")):
        labels = dict(_LABEL.findall(match["labels"]))
        if labels.get("resource") in own:
            key = (labels["verb"], labels["resource"])
            found[key] = found.get(key, 0.0) + float(match["count"])
    return found
