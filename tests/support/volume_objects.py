# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims, volumes and storage classes in the API's form."""

from __future__ import annotations

import typing as t

Json = dict[str, t.Any]

ZONE = "topology.kubernetes.io/zone"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"


def storage_class(name: str, provisioner: str = "disks.example.com", **fields: t.Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **fields,
    }


def claim(
    name: str,
    storage_class_name: str | None = "wait",
    *,
    volume: str = "",
    size: str = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    namespace: str = "default",
    **spec: t.Any,
) -> Json:
    """A claim, bound to ``volume`` if given."""
    given: Json = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    if storage_class_name is not None:
        given["storageClassName"] = storage_class_name
    metadata: Json = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    if volume:
        given["volumeName"] = volume
        metadata["annotations"] = {BIND_COMPLETED: "yes"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": given,
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(
    name: str,
    storage_class_name: str = "wait",
    *,
    zone: str | None = None,
    size: str = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    labels: Json | None = None,
    driver: str = "disks.example.com",
    **spec: t.Any,
) -> Json:
    """An available volume, reachable from nodes of ``zone``, or from all."""
    if zone is not None:
        spec["nodeAffinity"] = reachable(ZONE, zone)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": list(modes),
            "storageClassName": storage_class_name,
            "csi": {"driver": driver, "volumeHandle": f"handle-{name}"},
            **spec,
        },
        "status": {"phase": "Available"},
    }


def reachable(key: str, *values: str) -> Json:
    """The node affinity of a volume."""
    expression = {"key": key, "operator": "In", "values": list(values)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def csi_node(name: str, count: int, driver: str = "disks.example.com") -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [{"name": driver, "nodeID": name, "allocatable": {"count": count}}]},
    }


def csi_driver(name: str = "disks.example.com", *, counts: bool = True) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": name},
        "spec": {"storageCapacity": counts},
    }


def capacity(name: str, zone: str | None, size: str, storage_class_name: str = "wait") -> Json:
    """Storage in a zone, or everywhere."""
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "kube-system"},
        "storageClassName": storage_class_name,
        "nodeTopology": {} if zone is None else {"matchLabels": {ZONE: zone}},
        "capacity": size,
    }


def attachment(node: str, volume_name: str, driver: str = "disks.example.com") -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": f"{node}-{volume_name}"},
        "spec": {
            "attacher": driver,
            "nodeName": node,
            "source": {"persistentVolumeName": volume_name},
        },
    }


def mounted(*claims: str) -> list[Json]:
    """The volumes of a pod with these claims."""
    return [
        {"name": f"volume-{index}", "persistentVolumeClaim": {"claimName": name}}
        for index, name in enumerate(claims)
    ]
