# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of an API server that claims of resource.k8s.io/v1 need, with faults on demand.

tests/integration/test_dra_features.py shows how the real server handles the same writes.
"""

from __future__ import annotations

import typing as t
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field

from support.scripted_api import Asked, Reply, ScriptedApi, status_reply

Json = dict[str, t.Any]


@dataclass
class DraApi:
    """Objects by kind and name; ``hook`` may answer before a request is served."""

    objects: dict[tuple[str, str], Json] = field(default_factory=dict)
    written: list[str] = field(default_factory=list)
    hook: Callable[[Asked], Reply | None] = lambda _asked: None

    def add(self, *manifests: Json) -> DraApi:
        for manifest in manifests:
            metadata = manifest["metadata"]
            metadata.setdefault("resourceVersion", "1")
            metadata.setdefault("uid", f"uid-of-{metadata['name']}")
            self.objects[manifest["kind"], metadata["name"]] = manifest
        return self

    def claim(self, name: str) -> Json:
        return self.objects["ResourceClaim", name]

    def serve(self) -> ScriptedApi:
        return ScriptedApi(self._answer)

    def _answer(self, asked: Asked) -> Reply:
        path = urllib.parse.urlsplit(asked.path).path
        reply = self.hook(asked)
        if reply is not None:
            return reply
        parts = path.split("/")
        if asked.method == "PATCH":
            return self._patch(path, parts, asked.body)
        kinds = {f"{kind.lower()}s": kind for kind, _name in self.objects}
        kinds["deviceclasses"] = "DeviceClass"
        if parts[-1] == "devicetaintrules":
            return status_reply(404, "the server could not find the requested resource")
        if parts[-2] in ("pods", "nodes"):
            found = self.objects.get(("Pod" if parts[-2] == "pods" else "Node", parts[-1]))
            return Reply(found) if found else status_reply(404, "not found")
        wanted = kinds.get(parts[-1])
        items = [one for (kind, _name), one in self.objects.items() if kind == wanted]
        return Reply({"kind": f"{wanted}List", "apiVersion": "resource.k8s.io/v1", "items": items})

    def _patch(self, path: str, parts: list[str], body: Json) -> Reply:
        name = parts[-2] if parts[-1] == "status" else parts[-1]
        stored = self.claim(name)
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            return status_reply(409, "the object has been modified", reason="Conflict")
        _merge(stored, body)
        if "allocation" not in stored.get("status", {}):
            stored.get("status", {}).pop("devices", None)
        stored["metadata"]["resourceVersion"] = str(int(stored["metadata"]["resourceVersion"]) + 1)
        self.written.append(path.partition("/resourceclaims/")[2])
        return Reply(stored)


def _merge(target: Json, patch: Json) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict) and isinstance(target.get(key), dict):
            _merge(target[key], value)
        else:
            target[key] = value
