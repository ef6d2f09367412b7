# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Addresses of the kinds that a cluster serves."""

from __future__ import annotations

import typing as t

from ..base.errors import InvalidInput
from .connection.transport import Transport

# No CustomResourceDefinition can add to this group.
_ADMISSION = "admissionregistration.k8s.io/"


class UnknownKind(InvalidInput):
    """The cluster does not serve the kind, perhaps not yet."""

    def __init__(self, api_version: str, kind: str, host: str) -> None:
        remedy = (
            "install its CustomResourceDefinition first (the wattwise.kube.crds role installs ours)"
        )
        if api_version.startswith(_ADMISSION):
            remedy = "its Kubernetes is older than this API, or has switched it off"
        super().__init__(f"The cluster at {host} serves no {kind} of {api_version}; {remedy}")


class Resource(t.NamedTuple):
    """Address of a kind; ``root`` is ``/api/v1`` or ``/apis/<group>/<version>``."""

    root: str
    plural: str
    namespaced: bool

    def collection(self, namespace: str | None = None) -> str:
        """Path of all objects, or of those in one namespace."""
        if self.namespaced and namespace:
            return f"{self.root}/namespaces/{namespace}/{self.plural}"
        return f"{self.root}/{self.plural}"

    def path(self, name: str, namespace: str | None = None) -> str:
        """Path of one object."""
        return f"{self.collection(namespace)}/{name}"


class Discovery:
    """Addresses of kinds; each group is read once."""

    def __init__(self) -> None:
        self._resources: dict[tuple[str, str], Resource] = {}

    def resource(self, transport: Transport, api_version: str, kind: str) -> Resource:
        """Address of a kind. Raises UnknownKind if the cluster does not serve it."""
        found = self._resources.get((api_version, kind))
        if found is None:
            self._discover(transport, api_version)
            found = self._resources.get((api_version, kind))
        if found is None:
            raise UnknownKind(api_version, kind, transport.host)
        return found

    def forget(self) -> None:
        """Read all groups again at their next use."""
        self._resources.clear()

    def _discover(self, transport: Transport, api_version: str) -> None:
        root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
        for entry in (transport.find(root) or {}).get("resources", []):
            if "/" not in entry["name"]:
                self._resources[(api_version, entry["kind"])] = Resource(
                    root, entry["name"], entry["namespaced"]
                )
