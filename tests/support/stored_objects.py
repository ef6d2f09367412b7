# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server's storage in memory, with resource versions, and a say before each request."""

from __future__ import annotations

import copy
import itertools
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube import Resource

Json = dict[str, t.Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class StoredObjects:
    """What device_reconciliation uses of kube.Kube, one request after the other.

    ``before_request`` is called before each list and write, ``after_write`` after each write.
    """

    host = "https://memory"

    def __init__(self) -> None:
        self.objects: dict[str, Json] = {}
        self.listed: list[str] = []
        self.before_request: t.Callable[[], None] = lambda: None
        self.after_write: t.Callable[[], None] = lambda: None
        self._numbers = itertools.count(1)

    def add(self, obj: Json) -> None:
        """Store an object; its uid is its path."""
        path = self._path(obj)
        stored = copy.deepcopy(obj)
        version = str(next(self._numbers))
        stored["metadata"] |= {"uid": path, "resourceVersion": version, "generation": 1}
        self.objects[path] = stored

    def _path(self, obj: Json) -> str:
        resource = self.resource(obj["apiVersion"], obj["kind"])
        return resource.path(obj["metadata"]["name"], obj["metadata"].get("namespace"))

    def resource(self, api_version: str, kind: str) -> Resource:
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        plural = kind.lower() + ("es" if kind.endswith("s") else "s")
        namespaced = kind in ("Pod", "DeviceClaim", "DevicePrivilegedClaim")
        return Resource(root, plural, namespaced)

    def in_parallel(
        self, work: t.Callable[[t.Any], t.Any], items: t.Sequence[t.Any], _concurrency: int = 1
    ) -> list[t.Any]:
        return [work(item) for item in items]

    def list(
        self, path: str, _query: t.Any = None, trim: t.Callable[[Json], Json] = lambda item: item
    ) -> list[Json]:
        self.before_request()
        plural = path.rpartition("/")[2]
        root = path.removesuffix(f"/{plural}")
        self.listed.append(plural)
        found = [
            obj
            for key, obj in sorted(self.objects.items())
            if key.startswith(root) and key.split("/")[-2] == plural
        ]
        return [trim(copy.deepcopy(obj)) for obj in found if not _is_finished(obj)]

    def find(self, path: str) -> Json | None:
        return copy.deepcopy(self.objects.get(path))

    def request(self, method: str, path: str, body: Json, _content_type: str = "") -> Json:
        self.before_request()
        path = path.removesuffix("/status")
        stored = self.objects.get(path)
        if stored is None:
            raise ApiError(f"{path} is gone", 404)
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise ApiError(f"{path} has changed", 409)
        if method == "PUT":
            stored["status"] = copy.deepcopy(body["status"])
        else:  # the scheduler binds a pod as soon as its gate is open
            [term] = body["spec"]["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"]
            stored["spec"] |= {
                "schedulingGates": [],
                "nodeName": term["matchFields"][0]["values"][0],
            }
        stored["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.after_write()
        return copy.deepcopy(stored)


def _is_finished(obj: Json) -> bool:
    return bool(obj["kind"] == "Pod" and obj.get("status", {}).get("phase") == "Succeeded")
