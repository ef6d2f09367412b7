# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An API server's storage in memory, with resource versions and a hook before each request."""

from __future__ import annotations

import itertools
import json
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.base.fields.lenient import member
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Resource

Json = dict[str, t.Any]
T = t.TypeVar("T")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class StoredObjects:
    """The methods of kube.Kube that device_reconciliation uses, one request at a time.

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
        stored = _copied(obj)
        version = str(next(self._numbers))
        stored["metadata"] |= {"uid": path, "resourceVersion": version, "generation": 1}
        self.objects[path] = stored

    def guarded(self, _guard: object) -> StoredObjects:
        """Without a Lease: correctness between two runs must not depend on one."""
        return self

    def _path(self, obj: Json) -> str:
        resource = self.resource(obj["apiVersion"], obj["kind"])
        return resource.path(obj["metadata"]["name"], obj["metadata"].get("namespace"))

    def resource(self, api_version: str, kind: str) -> Resource:
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        plural = kind.lower() + ("es" if kind.endswith("s") else "s")
        namespaced = kind in ("Pod", "DeviceClaim", "DevicePrivilegedClaim", "ResourceClaim")
        return Resource(root, plural, namespaced)

    def in_parallel(
        self, work: t.Callable[[t.Any], t.Any], items: t.Sequence[t.Any], _concurrency: int = 1
    ) -> list[t.Any]:
        return [work(item) for item in items]

    def list(
        self,
        path: str,
        _query: t.Any = None,
        trim: t.Callable[[Json], Json] = lambda item: item,
        _refuse: object = None,
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
        return [trim(_copied(obj)) for obj in found if not _is_finished(obj)]

    def find(self, path: str) -> Json | None:
        return _copied(self.objects.get(path))

    def get(self, path: str) -> Json:
        return t.cast("Json", self.find(path))

    def request(
        self, method: str, path: str, body: Json, _content_type: str = "", **_more: t.Any
    ) -> Json:
        self.before_request()
        path = path.removesuffix("/status")
        if path.endswith("/binding"):
            pod = self.objects[path.removesuffix("/binding")]
            pod["spec"]["nodeName"] = body["target"]["name"]
            return {}
        stored = self.objects.get(path)
        if stored is None:
            raise ApiError(f"{path} is gone", 404)
        if body["metadata"]["resourceVersion"] != stored["metadata"]["resourceVersion"]:
            raise ApiError(f"{path} has changed", 409)
        if "/resourceclaims/" in path:
            _merge(stored, body)
        elif method == "PUT":
            stored["status"] = _copied(body["status"])
        else:  # the scheduler binds a pod as soon as its gate is open
            [term] = body["spec"]["affinity"]["nodeAffinity"][_REQUIRED]["nodeSelectorTerms"]
            stored["spec"] |= {
                "schedulingGates": [],
                "nodeName": term["matchFields"][0]["values"][0],
            }
        stored["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.after_write()
        return _copied(stored)


def _merge(target: Json, patch: Json) -> None:
    """A merge patch (RFC 7396)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


def _copied(value: T) -> T:
    """A copy as over a connection, even of values too deep for copy.deepcopy."""
    return t.cast("T", json.loads(json.dumps(value)))


def _is_finished(obj: Json) -> bool:
    return bool(obj["kind"] == "Pod" and member(obj, "status", "phase") == "Succeeded")
