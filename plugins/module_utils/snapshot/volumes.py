# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Storage objects in a snapshot: claims, volumes, classes and drivers, reduced to fields in use.

They are read only if a waiting pod has a claim, or a disk of a driver that may have a limit.
"""

from __future__ import annotations

import functools
import typing as t

from ..base.boundary import guarded, subject_of
from ..base.json_types import MutableObject
from ..scheduling.pod_reader import is_finished
from ..scheduling.volumes.cluster_volumes import depends_on_storage
from ..scheduling.volumes.inline_disks import MIGRATED

PATHS = (
    "/api/v1/persistentvolumeclaims",
    "/api/v1/persistentvolumes",
    *(
        f"/apis/storage.k8s.io/v1/{plural}"
        for plural in (
            *("storageclasses", "csinodes", "csidrivers", "csistoragecapacities"),
            "volumeattachments",
        )
    ),
)
_METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "labels", "annotations", "ownerReferences"),
    "deletionTimestamp",
)
# Other annotations belong to other programs, and may be long.
_ANNOTATIONS = ("pv.kubernetes.io/", "volume.kubernetes.io/", "volume.beta.kubernetes.io/")
_CLAIM_PARTS = (
    *("accessModes", "resources", "selector", "storageClassName", "volumeMode", "volumeName"),
    "volumeAttributesClassName",
)
_VOLUME_PARTS = (
    *("accessModes", "capacity", "claimRef", "nodeAffinity", "storageClassName", "volumeMode"),
    "volumeAttributesClassName",
)
# The fields of a source that name the disk; options of drivers may contain secrets.
_SOURCE_PARTS = {
    "csi": ("driver", "volumeHandle"),
    **{source: (part,) for source, (_driver, part) in MIGRATED.items()},
}
_CLASS_PARTS = ("provisioner", "volumeBindingMode", "allowedTopologies")
_CAPACITY_PARTS = ("storageClassName", "nodeTopology", "capacity", "maximumVolumeSize")


def trim_volume_object(obj: MutableObject) -> MutableObject:
    """A storage object without options of its driver."""
    kind, spec = obj["kind"], obj.get("spec") or {}
    if kind == "PersistentVolumeClaim":
        status = _kept(obj.get("status") or {}, "phase")
        return _identified(obj, spec=_kept(spec, *_CLAIM_PARTS), status=status)
    if kind == "PersistentVolume":
        sources = {
            source: _kept(spec[source], *parts)
            for source, parts in _SOURCE_PARTS.items()
            if spec.get(source)
        }
        status = _kept(obj.get("status") or {}, "phase")
        return _identified(obj, spec={**_kept(spec, *_VOLUME_PARTS), **sources}, status=status)
    if kind == "StorageClass":
        return _identified(obj, **_kept(obj, *_CLASS_PARTS))
    if kind == "CSINode":
        drivers = [_kept(driver, "name", "allocatable") for driver in spec.get("drivers") or []]
        return _identified(obj, spec={"drivers": drivers})
    if kind == "CSIDriver":
        return _identified(obj, spec=_kept(spec, "storageCapacity"))
    if kind == "CSIStorageCapacity":
        return _identified(obj, **_kept(obj, *_CAPACITY_PARTS))
    source = _kept(spec.get("source") or {}, "persistentVolumeName")
    return _identified(obj, spec={**_kept(spec, "attacher", "nodeName"), "source": source})


def _identified(obj: MutableObject, **parts: t.Any) -> MutableObject:
    metadata = _kept(obj["metadata"], *_METADATA)
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict):
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if str(key).startswith(_ANNOTATIONS)
        }
    return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, **parts}


def _kept(source: t.Mapping[str, t.Any], *names: str) -> dict[str, t.Any]:
    return {name: source[name] for name in names if source.get(name) is not None}


def are_needed(pods: t.Iterable[MutableObject]) -> bool:
    """Whether storage objects restrict the nodes of a pod without a node."""
    return any(
        guarded(subject_of(pod, "Pod"), functools.partial(_waits_for_storage, pod)) is True
        for pod in pods
    )


def _waits_for_storage(pod: MutableObject) -> bool:
    return not pod["spec"].get("nodeName") and not is_finished(pod) and depends_on_storage(pod)
