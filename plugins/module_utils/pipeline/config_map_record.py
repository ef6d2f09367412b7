# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The ConfigMap in which a series of runs keeps documents."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass

from ..kube.client import Kube

# A ConfigMap holds at most 1 MiB.
MAX_BYTES = 1_000_000


@dataclass(frozen=True)
class Record:
    """The ConfigMap of a series of runs; it is deleted together with ``owner`` in its namespace."""

    namespace: str
    name: str
    owner: t.Mapping[str, t.Any] | None = None
    labels: t.Mapping[str, str] | None = None

    @property
    def path(self) -> str:
        """Its path on the API server."""
        return f"/api/v1/namespaces/{self.namespace}/configmaps/{self.name}"

    def manifest(self, data: t.Mapping[str, str]) -> dict[str, t.Any]:
        """The ConfigMap with these documents."""
        metadata: dict[str, t.Any] = {"name": self.name, "namespace": self.namespace}
        if self.labels:
            metadata["labels"] = dict(self.labels)
        if self.owner is not None:
            metadata["ownerReferences"] = [
                {
                    "apiVersion": self.owner["apiVersion"],
                    "kind": self.owner["kind"],
                    "name": self.owner["metadata"]["name"],
                    "uid": self.owner["metadata"]["uid"],
                }
            ]
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            "binaryData": dict(data),
        }

    def write(self, kube: Kube, data: t.Mapping[str, str], is_there: bool) -> None:
        """Create the ConfigMap, or replace it. Raises ApiError."""
        if is_there:
            kube.request("PUT", self.path, self.manifest(data))
        else:
            kube.request("POST", self.path.rpartition("/")[0], self.manifest(data))
