# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Objects of storage in the API of binding_api.py, with a PV controller and a provisioner."""

from __future__ import annotations

import copy
import itertools
import typing as t
from collections.abc import Callable
from dataclasses import dataclass, field

from support.binding_api import Cluster, Json, found
from support.scripted_api import Asked, Reply, status_reply
from support.volume_objects import BIND_COMPLETED, volume

SELECTED = "volume.kubernetes.io/selected-node"
PLURALS = {
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PersistentVolume": "persistentvolumes",
    "StorageClass": "storageclasses",
    "CSINode": "csinodes",
    "CSIDriver": "csidrivers",
    "CSIStorageCapacity": "csistoragecapacities",
    "VolumeAttachment": "volumeattachments",
}
# Reaction of a provisioner to a claim with a node: nothing, or an action on the claim.
Provisioner = Callable[["Storage", Json], None]


def provision(storage: Storage, claim: Json) -> None:
    """Create a volume and bind the claim to it."""
    name = f"pvc-{claim['metadata']['name']}"
    storage.put(volume(name, claim["spec"]["storageClassName"], size="1Gi"))
    storage.bind(claim, name)


def ask_for_another_node(storage: Storage, claim: Json) -> None:
    del claim["metadata"]["annotations"][SELECTED]
    storage.touch(claim)


def never(storage: Storage, claim: Json) -> None:
    """Do nothing."""


@dataclass
class Storage:
    """A hook of ``Cluster``: serves objects of storage, and merges patches into them.

    Without ``binds``, the PV controller is absent.
    """

    provisioner: Provisioner = provision
    binds: bool = True
    objects: dict[tuple[str, str, str], Json] = field(default_factory=dict)
    versions: t.Iterator[int] = field(default_factory=lambda: itertools.count(1))
    patched: list[Asked] = field(default_factory=list)

    def put(self, *objects: Json) -> Storage:
        for given in objects:
            item = copy.deepcopy(given)
            metadata = item["metadata"]
            key = PLURALS[item["kind"]], metadata.get("namespace", ""), metadata["name"]
            self.objects[key] = item
            self.touch(item)
        return self

    def touch(self, item: Json) -> None:
        item["metadata"]["resourceVersion"] = str(next(self.versions))

    def claim(self, name: str) -> Json:
        return self.objects["persistentvolumeclaims", "shop", name]

    def volume(self, name: str) -> Json:
        return self.objects["persistentvolumes", "", name]

    def bind(self, claim: Json, name: str) -> None:
        if not self.binds:
            return
        claim["spec"]["volumeName"] = name
        claim["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"
        self.touch(claim)

    def hook(self, asked: Asked, cluster: Cluster) -> Reply | None:
        if asked.path.startswith("/api/v1/namespaces/shop/pods?"):
            on_nodes = [pod for pod in cluster.pods.values() if pod["spec"].get("nodeName")]
            return Reply({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": on_nodes})
        parts = asked.path.partition("?")[0].strip("/").split("/")
        namespace = parts[parts.index("namespaces") + 1] if "namespaces" in parts else ""
        plural = next((part for part in parts if part in PLURALS.values()), None)
        if plural is None:
            return None
        if parts[-1] == plural:
            kind = next(kind for kind, name in PLURALS.items() if name == plural)
            items = [
                item
                for key, item in self.objects.items()
                if key[0] == plural and namespace in ("", key[1])
            ]
            return Reply(
                {"kind": f"{kind}List", "apiVersion": "v1", "metadata": {}, "items": items}
            )
        item = self.objects.get((plural, namespace, parts[-1]))
        if item is None or asked.method == "GET":
            return found(item)
        return self._patch(item, asked)

    def _patch(self, item: Json, asked: Asked) -> Reply:
        assert asked.headers["Content-Type"] == "application/merge-patch+json"
        self.patched.append(asked)
        if asked.body["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            return status_reply(409, "the object has been modified", reason="Conflict")
        merge(item, asked.body)
        self.touch(item)
        if SELECTED in item["metadata"].get("annotations", {}):
            self.provisioner(self, item)
        reference = item["spec"].get("claimRef") if item["kind"] == "PersistentVolume" else None
        if reference is not None:
            self.bind(self.claim(reference["name"]), item["metadata"]["name"])
        return Reply(item)


def merge(item: Json, patch: Json) -> None:
    for key, value in patch.items():
        if isinstance(value, dict):
            merge(item.setdefault(key, {}), value)
        elif value is None:
            item.pop(key, None)
        else:
            item[key] = value
