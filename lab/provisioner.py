# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A provisioner of volumes that uses the API like the external-provisioner of a CSI driver.

It creates a PersistentVolume for each claim of its class that has a node and was assigned to it by
the PV controller, which then binds both. Only nodes with the same value of one label reach the
volume.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from lab.api import Api, ApiError

JsonObject = dict[str, Any]

POLL_SECONDS = 0.1
SELECTED_NODE = "volume.kubernetes.io/selected-node"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"


class Provisioner:
    """Serves claims during the `with` block; `topology_key` distinguishes the nodes.

    On nodes of `full` there is no storage, and the claim loses its node again.
    """

    def __init__(
        self, kubeconfig: Path, driver: str, topology_key: str, full: frozenset[str] = frozenset()
    ) -> None:
        self._kubeconfig = kubeconfig
        self._driver, self._topology_key, self._full = driver, topology_key, full
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Provisioner:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        with Api(self._kubeconfig) as api:
            while not self._done.wait(POLL_SECONDS):
                for claim in api.request("GET", "/api/v1/persistentvolumeclaims")["items"]:
                    annotations = claim["metadata"].get("annotations", {})
                    if (
                        annotations.get(STORAGE_PROVISIONER) == self._driver
                        and SELECTED_NODE in annotations
                        and not claim["spec"].get("volumeName")
                    ):
                        self._answer(api, claim, annotations[SELECTED_NODE])

    def _answer(self, api: Api, claim: JsonObject, node: str) -> None:
        if node in self._full:
            path = "/api/v1/namespaces/{namespace}/persistentvolumeclaims/{name}"
            without = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            api.merge(path.format(**claim["metadata"]), without)
            return
        labels = api.request("GET", f"/api/v1/nodes/{node}")["metadata"]["labels"]
        volume = volume_for(claim, self._driver, self._topology_key, labels[self._topology_key])
        try:
            api.request("POST", "/api/v1/persistentvolumes", volume)
        except ApiError as error:
            # The PV controller has not bound the claim to its volume yet.
            if error.status != 409:
                raise


def volume_for(claim: JsonObject, driver: str, key: str, value: str) -> JsonObject:
    """The volume of a claim, reachable from nodes with this label."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    reachable = {"key": key, "operator": "In", "values": [value]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}},
        "spec": {
            "accessModes": spec["accessModes"],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                **{part: metadata[part] for part in ("namespace", "name", "uid")},
            },
            "csi": {"driver": driver, "volumeHandle": name},
            "nodeAffinity": {
                "required": {"nodeSelectorTerms": [{"matchExpressions": [reachable]}]}
            },
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": spec["storageClassName"],
        },
    }
