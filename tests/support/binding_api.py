# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of the Kubernetes API that binding needs, with its preconditions, over a real socket.

Like the real API, it accepts a binding to a node that does not exist.
"""

from __future__ import annotations

import re
import typing as t
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field

from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]
Hook = Callable[[Asked, "Cluster"], Reply | None]

POD_PATH = re.compile(r"/api/v1/namespaces/([^/]+)/pods/([^/]+)(/binding|/status)?")


def node(name: str, cpu: str = "4", ready: str = "True", **spec: t.Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": ready}],
        },
    }


def pod(name: str, cpu: str = "1", labels: Json | None = None, **spec: t.Any) -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": labels or {},
        },
        "spec": {"containers": [container], "schedulerName": "wattwise", **spec},
        "status": {"phase": "Pending"},
    }


def _node_of(pod: Json) -> object:
    """The pod's node; None of a pod with an odd spec, as in the API's field selector."""
    spec = pod.get("spec")
    return (spec.get("nodeName") or "") if isinstance(spec, dict) else None


@dataclass
class Cluster:
    """The objects; ``hook`` may change them, or answer, before a request is served."""

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[tuple[str, str], Json] = field(default_factory=dict)
    events: list[Json] = field(default_factory=list)
    leases: list[Json] = field(default_factory=list)
    hook: Hook = lambda _asked, _cluster: None

    def add(self, *objects: Json) -> Cluster:
        for item in objects:
            metadata = item["metadata"]
            if item["kind"] == "Node":
                self.nodes[metadata["name"]] = item
            else:
                self.pods[metadata["namespace"], metadata["name"]] = item
        return self

    def place_of(self, name: str) -> str | None:
        return t.cast("str | None", self.pods["shop", name]["spec"].get("nodeName"))

    def touch(self, item: Json) -> None:
        version = int(item["metadata"]["resourceVersion"])
        item["metadata"]["resourceVersion"] = str(version + 1)

    def serve(self) -> ScriptedApi:
        return ScriptedApi(self._answer)

    def _answer(self, asked: Asked) -> Reply:
        reply = self.hook(asked, self)
        if reply is not None:
            return reply
        url = urllib.parse.urlsplit(asked.path)
        if url.path.startswith("/api/v1/nodes/"):
            return found(self.nodes.get(url.path.removeprefix("/api/v1/nodes/")))
        if url.path == "/api/v1/pods":
            return self._pods_of(urllib.parse.parse_qs(url.query)["fieldSelector"][0])
        if url.path.startswith("/apis/coordination.k8s.io/v1/"):
            return self._lease(asked)
        if url.path.startswith("/apis/events.k8s.io/v1/namespaces/"):
            return self._tell(asked.body)
        match = POD_PATH.fullmatch(url.path)
        assert match is not None, asked
        item = self.pods.get((match[1], match[2]))
        if item is None or match[3] is None:
            return found(item)
        return self._bind(item, asked) if match[3] == "/binding" else self._patch(item, asked)

    def _lease(self, asked: Asked) -> Reply:
        """The last of ``leases`` is current, and no other client holds it."""
        if asked.method == "GET":
            return found(self.leases[-1] if self.leases else None)
        version = {"resourceVersion": str(len(self.leases) + 1)}
        self.leases.append({**asked.body, "metadata": {**asked.body["metadata"], **version}})
        return Reply(self.leases[-1])

    def _tell(self, event: Json) -> Reply:
        name = event["metadata"]["name"]
        if name in [each["metadata"]["name"] for each in self.events]:
            return status_reply(409, f"events {name} already exists", reason="AlreadyExists")
        self.events.append(event)
        return Reply(event, 201)

    def _pods_of(self, selector: str) -> Reply:
        name = selector.split(",")[0].removeprefix("spec.nodeName=")
        items = [item for item in self.pods.values() if _node_of(item) == name]
        if "status.nominatedNodeName!=" in selector:
            items = [item for item in items if item.get("status", {}).get("nominatedNodeName")]
        return Reply({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})

    def _bind(self, item: Json, asked: Asked) -> Reply:
        stated, stored = asked.body["metadata"], item["metadata"]
        for key in ("uid", "resourceVersion"):
            if stated.get(key) and stated[key] != stored[key]:
                return status_reply(409, f"Precondition failed: {key}", reason="Conflict")
        if item["spec"].get("nodeName"):
            return status_reply(409, f"pod {stored['name']} is already assigned to a node")
        item["spec"]["nodeName"] = asked.body["target"]["name"]
        self.touch(item)
        return Reply({"kind": "Status", "status": "Success"}, 201)

    def _patch(self, item: Json, asked: Asked) -> Reply:
        assert asked.headers["Content-Type"] == "application/strategic-merge-patch+json"
        if asked.body["metadata"]["uid"] != item["metadata"]["uid"]:
            return status_reply(409, "Precondition failed: UID in precondition", reason="Conflict")
        conditions = {each["type"]: each for each in item["status"].get("conditions", [])}
        for each in asked.body["status"]["conditions"]:
            conditions[each["type"]] = {**conditions.get(each["type"], {}), **each}
        item["status"]["conditions"] = list(conditions.values())
        self.touch(item)
        return Reply(item)


def found(item: Json | None) -> Reply:
    return status_reply(404, "not found", reason="NotFound") if item is None else Reply(item)
