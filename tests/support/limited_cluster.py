# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The API that limits need: the ConfigMap of caps with its versions, and evictions."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from support.binding_api import POD_PATH, Cluster, Json, found
from support.scripted_api import Asked, Reply, status_reply

RECORD = "/api/v1/namespaces/kube-system/configmaps"


@dataclass
class LimitedCluster(Cluster):
    """``record`` is the ConfigMap, ``refused`` are pods whose eviction a budget forbids.

    ``intrude`` is called before each write of the record, for a write of another run. ``asked`` are
    the requests.
    """

    record: Json | None = None
    refused: set[str] = field(default_factory=set)
    evicted: list[str] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    writes: int = 0
    intrude: t.Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self.hook = self._serve_limits

    def change_record(self, data: Json) -> None:
        """Write entries as another run does; those of None go."""
        record = self.record or {"metadata": {"name": "wattwise-limits"}, "data": {}}
        merged = {**(record.get("data") or {}), **data}
        kept = {name: value for name, value in merged.items() if value is not None}
        self.writes += 1
        metadata = {**record["metadata"], "resourceVersion": str(self.writes)}
        self.record = {**record, "metadata": metadata, "data": kept}

    def _serve_limits(self, asked: Asked, _its: Cluster) -> Reply | None:
        path = asked.path.partition("?")[0]
        self.asked.append((asked.method, path))
        if path.startswith(RECORD):
            return self._serve_record(asked)
        if path.endswith("/eviction"):
            match = POD_PATH.fullmatch(path.removesuffix("/eviction"))
            assert match is not None, path
            return self._evict(match[1], match[2])
        return None

    def _serve_record(self, asked: Asked) -> Reply:
        if asked.method == "GET":
            return found(self.record)
        self.intrude()
        if asked.method == "POST":
            if self.record is not None:
                return status_reply(409, "it exists", reason="AlreadyExists")
        else:
            assert asked.headers["Content-Type"] == "application/merge-patch+json"
            given = asked.body["metadata"]["resourceVersion"]
            if self.record is None or given != self.record["metadata"]["resourceVersion"]:
                return status_reply(409, "it was changed", reason="Conflict")
        self.change_record(asked.body["data"])
        return found(self.record)

    def _evict(self, namespace: str, name: str) -> Reply:
        if name in self.refused:
            return status_reply(429, "Cannot evict pod as it would violate its budget")
        self.pods.pop((namespace, name))
        self.evicted.append(name)
        return Reply({"kind": "Status", "status": "Success"}, 201)
