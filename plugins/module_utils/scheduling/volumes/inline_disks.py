# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inline disks of pods, without a claim: their conflicts and their drivers.

Source: volumerestrictions/volume_restrictions.go and nodevolumelimits/csi.go of Kubernetes v1.37.
"""

from __future__ import annotations

import typing as t

from ...base.fields.strict import mapping, mappings, text, texts
from ...base.json_types import Object
from ..model import Disk, DiskUse

# Sources with the fields that name the disk; other fields may hold secrets or do not matter.
PARTS: t.Mapping[str, tuple[str, ...]] = {
    "awsElasticBlockStore": ("volumeID",),
    "azureDisk": ("diskURI",),
    "cinder": ("volumeID",),
    "gcePersistentDisk": ("pdName", "readOnly"),
    "iscsi": ("iqn", "readOnly"),
    "portworxVolume": ("volumeID",),
    "rbd": ("image", "monitors", "pool", "readOnly"),
}
# Sources that drivers have taken over, with the field that names the disk to the driver.
MIGRATED: t.Mapping[str, tuple[str, str]] = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "azureDisk": ("disk.csi.azure.com", "diskURI"),
    "cinder": ("cinder.csi.openstack.org", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
    "portworxVolume": ("pxd.portworx.com", "volumeID"),
}
# Default of the API server.
_DEFAULT_POOL = "rbd"


def disk_uses(spec: Object) -> tuple[DiskUse, ...]:
    """The disks of a pod that pods of one node must not share. Raises InvalidField."""
    found = {
        DiskUse(f"{source} {name}", alone)
        for source, given in _sources(spec)
        for name, alone in _uses(source, given)
    }
    return tuple(sorted(found))


def attached_disks(spec: Object) -> list[Disk]:
    """The disks of a pod that count against the limits of drivers. Raises InvalidField."""
    found = []
    for source, given in _sources(spec):
        if source in MIGRATED:
            driver, part = MIGRATED[source]
            found.append(Disk(driver, text(given.get(part), f"spec.volumes.{source}.{part}")))
    return found


def trimmed_source(source: str, given: t.Any) -> t.Any:
    """The fields of a source that name the disk; a non-mapping stays for its reader."""
    if not isinstance(given, dict):
        return given
    return {part: given[part] for part in PARTS[source] if given.get(part) is not None}


def _sources(spec: Object) -> t.Iterator[tuple[str, Object]]:
    for volume in mappings(spec.get("volumes"), "spec.volumes"):
        for source in PARTS:
            if volume.get(source) is not None:
                given = mapping(volume[source], f"spec.volumes.{source}")
                if given:
                    yield source, given


def _uses(source: str, given: Object) -> t.Iterator[tuple[str, bool]]:
    """Names of the disk, and whether pods of one node must not share it."""
    path = f"spec.volumes.{source}"
    alone = given.get("readOnly") is not True
    if source == "awsElasticBlockStore":
        yield text(given.get("volumeID"), f"{path}.volumeID"), True
    elif source == "gcePersistentDisk":
        yield text(given.get("pdName"), f"{path}.pdName"), alone
    elif source == "iscsi":
        yield text(given.get("iqn"), f"{path}.iqn"), alone
    elif source == "rbd":
        pool = text(given.get("pool"), f"{path}.pool") or _DEFAULT_POOL
        image = text(given.get("image"), f"{path}.image")
        # Disks with a common monitor are the same.
        for monitor in texts(given.get("monitors"), f"{path}.monitors"):
            yield f"{monitor} {pool} {image}", alone
