# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Claims, volumes, storage classes and drivers of a cluster, each read within its own boundary.

Source: pkg/scheduler/framework/plugins/{volumebinding,volumezone,nodevolumelimits} of Kubernetes
v1.34.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass, field

from ...base.boundary import Finding, InvalidField, Subject, guarded, shown, subject_of
from ...base.fields.strict import (
    mapping,
    mappings,
    object_name,
    text,
    text_mapping,
    texts,
    whole_number,
)
from ...base.json_types import Object
from ...base.label_selector import LabelSelector, Requirement
from ...base.units import whole_units
from ..model import Disk, NodeTerm
from ..peers import label_selector
from ..pod_reader import node_terms
from .inline_disks import MIGRATED

SELECTED_NODE = "volume.kubernetes.io/selected-node"
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
KINDS = (
    *("PersistentVolumeClaim", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver"),
    *("CSIStorageCapacity", "VolumeAttachment"),
)
ZONE_KEYS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
BETA_ZONE_KEYS = {
    "failure-domain.beta.kubernetes.io/zone": ZONE_KEYS[0],
    "failure-domain.beta.kubernetes.io/region": ZONE_KEYS[1],
}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_ZONES_SEPARATOR = "__"
_MIGRATED_PROVISIONERS = {
    "kubernetes.io/aws-ebs": "ebs.csi.aws.com",
    "kubernetes.io/azure-disk": "disk.csi.azure.com",
    "kubernetes.io/cinder": "cinder.csi.openstack.org",
    "kubernetes.io/gce-pd": "pd.csi.storage.gke.io",
    "kubernetes.io/portworx-volume": "pxd.portworx.com",
}

Key = tuple[str, str]
Terms = tuple[NodeTerm, ...]
T = t.TypeVar("T")


@dataclass(frozen=True)
class Storage:
    """Request of a claim, or offer of a volume; claims with equal requests are interchangeable."""

    storage_class: str
    size: int
    access_modes: frozenset[str]
    volume_mode: str
    attributes_class: str


@dataclass(frozen=True)
class Claim:
    """A PersistentVolumeClaim; ``has_size`` is false if it requests no storage."""

    namespace: str
    name: str
    uid: str
    controller: str
    volume: str
    is_complete: bool
    is_lost: bool
    is_leaving: bool
    wanted: Storage
    has_size: bool
    selector: LabelSelector | None
    selected_node: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name

    @property
    def is_bound(self) -> bool:
        """Whether the claim is bound completely, independent of its phase."""
        return bool(self.volume) and self.is_complete

    @property
    def is_exclusive(self) -> bool:
        """Whether only one pod of the cluster may use the claim."""
        return READ_WRITE_ONCE_POD in self.wanted.access_modes


@dataclass(frozen=True)
class Volume:
    """A PersistentVolume. ``terms`` None: every node reaches it. ``zones`` are its labels."""

    name: str
    offered: Storage
    terms: Terms | None
    zones: tuple[tuple[str, frozenset[str]], ...]
    labels: t.Mapping[str, str]
    claim: tuple[str, str, str] | None
    is_available: bool
    is_leaving: bool
    disk: Disk | None
    is_csi: bool = True

    def is_for(self, claim: Claim) -> bool:
        """Whether the volume is pre-bound to the claim."""
        return (
            self.claim is not None
            and self.claim[:2] == claim.key
            and self.claim[2] in ("", claim.uid)
        )


@dataclass(frozen=True)
class StorageClass:
    """A StorageClass; ``topologies`` None: any node."""

    name: str
    provisioner: str
    waits: bool
    topologies: Terms | None

    @property
    def provisions(self) -> bool:
        return self.provisioner not in ("", NO_PROVISIONER)

    @property
    def driver(self) -> str:
        """The driver that attaches the volumes of the class."""
        return _MIGRATED_PROVISIONERS.get(self.provisioner, self.provisioner)


class Capacity(t.NamedTuple):
    """Nodes on which a driver can make one volume of a class up to some size."""

    storage_class: str
    nodes: LabelSelector
    size: int


class Attachment(t.NamedTuple):
    """A volume that a driver attaches to a node, or is about to."""

    driver: str
    node: str
    volume: str


@dataclass
class VolumeObjects:
    """All storage objects by name.

    ``broken`` are the findings of unreadable objects. ``limits`` is the limit of volumes of each
    driver by node; None if its CSINode cannot be read. ``counting_drivers`` publish the capacity of
    their storage.
    """

    claims: dict[Key, Claim] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)
    classes: dict[str, StorageClass] = field(default_factory=dict)
    limits: dict[str, t.Mapping[str, int] | None] = field(default_factory=dict)
    counting_drivers: set[str] = field(default_factory=set)
    capacities: list[Capacity] = field(default_factory=list)
    attachments: list[Attachment] = field(default_factory=list)
    broken: dict[tuple[str, str, str], Finding] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @classmethod
    def read(cls, given: t.Iterable[t.Any]) -> VolumeObjects:
        """Objects of the kinds above in any order; others are findings."""
        found = cls()
        for index, item in enumerate(given):
            kind = item.get("kind") if isinstance(item, dict) else None
            place = f"volume_objects[{index}]"
            subject = subject_of(item, kind if isinstance(kind, str) else "object", place)
            problem = guarded(subject, functools.partial(found._add, item, subject))
            if isinstance(problem, Finding):
                found.findings.append(problem)
                found.broken[subject.kind, subject.namespace, subject.name] = problem
                if subject.kind == "CSINode":
                    found.limits[subject.name] = None
        return found

    def _add(self, item: t.Any, subject: Subject) -> None:
        if not isinstance(item, dict):
            raise InvalidField("", "it must be a mapping")
        if subject.kind not in KINDS:
            problem = f"{shown(item.get('kind'))} is not a kind of storage"
            raise InvalidField("kind", f"{problem}; give {', '.join(KINDS)}")
        metadata = mapping(item.get("metadata"), "metadata")
        name = object_name(metadata.get("name"), "metadata.name")
        if subject.kind == "PersistentVolumeClaim":
            claim = read_claim(item)
            self.claims[claim.key] = claim
        elif subject.kind == "PersistentVolume":
            self.volumes[name] = read_volume(item)
        elif subject.kind == "StorageClass":
            self.classes[name] = _read_class(item, name)
        elif subject.kind == "CSINode":
            self.limits[name] = _read_limits(item)
        elif subject.kind == "CSIDriver":
            if mapping(item.get("spec"), "spec").get("storageCapacity") is True:
                self.counting_drivers.add(name)
        elif subject.kind == "CSIStorageCapacity":
            self.capacities += _read_capacity(item)
        else:
            self.attachments += _read_attachment(item)

    def broken_by(self, kind: str, name: str, namespace: str = "") -> Finding | None:
        """The finding of an existing but unreadable object."""
        return self.broken.get((kind, namespace, name))


def read_claim(item: Object) -> Claim:
    """A PersistentVolumeClaim. Raises InvalidField."""
    metadata, spec = item["metadata"], mapping(item.get("spec"), "spec")
    annotations = text_mapping(metadata.get("annotations"), "metadata.annotations")
    owners = mappings(metadata.get("ownerReferences"), "metadata.ownerReferences")
    controller = next((owner for owner in owners if owner.get("controller")), {})
    resources = mapping(spec.get("resources"), "spec.resources")
    requests = mapping(resources.get("requests"), "spec.resources.requests")
    selector = spec.get("selector")
    phase = text(mapping(item.get("status"), "status").get("phase"), "status.phase")
    return Claim(
        namespace=text(metadata.get("namespace"), "metadata.namespace") or "default",
        name=object_name(metadata.get("name"), "metadata.name"),
        uid=text(metadata.get("uid"), "metadata.uid"),
        controller=text(controller.get("uid"), "metadata.ownerReferences.uid"),
        volume=text(spec.get("volumeName"), "spec.volumeName"),
        is_complete=BIND_COMPLETED in annotations,
        is_lost=phase == "Lost",
        is_leaving=bool(metadata.get("deletionTimestamp")),
        wanted=_storage(spec, annotations, requests, "spec.resources.requests"),
        has_size="storage" in requests,
        selector=None if selector is None else label_selector(selector, "spec.selector"),
        selected_node=annotations.get(SELECTED_NODE, ""),
    )


def _storage(spec: Object, annotations: t.Mapping[str, str], amounts: Object, path: str) -> Storage:
    given_class = text(spec.get("storageClassName"), "spec.storageClassName")
    return Storage(
        storage_class=annotations.get(_BETA_CLASS, given_class),
        size=_size(amounts.get("storage"), f"{path}.storage") or 0,
        access_modes=frozenset(texts(spec.get("accessModes"), "spec.accessModes")),
        volume_mode=text(spec.get("volumeMode"), "spec.volumeMode") or "Filesystem",
        attributes_class=text(
            spec.get("volumeAttributesClassName"), "spec.volumeAttributesClassName"
        ),
    )


def _size(value: t.Any, path: str) -> int | None:
    return None if value is None else whole_units(value, path)


def read_volume(item: Object) -> Volume:
    """A PersistentVolume. Raises InvalidField."""
    metadata, spec = item["metadata"], mapping(item.get("spec"), "spec")
    annotations = text_mapping(metadata.get("annotations"), "metadata.annotations")
    labels = text_mapping(metadata.get("labels"), "metadata.labels")
    affinity = mapping(spec.get("nodeAffinity"), "spec.nodeAffinity")
    capacity = mapping(spec.get("capacity"), "spec.capacity")
    status = mapping(item.get("status"), "status")
    return Volume(
        name=object_name(metadata.get("name"), "metadata.name"),
        offered=_storage(spec, annotations, capacity, "spec.capacity"),
        terms=_affinity_terms(affinity.get("required")),
        zones=tuple(
            (key, frozenset(labels[key].split(_ZONES_SEPARATOR)))
            for key in (*ZONE_KEYS, *BETA_ZONE_KEYS)
            if key in labels
        ),
        labels=labels,
        claim=_claim_of(spec.get("claimRef")),
        is_available=status.get("phase") == "Available",
        is_leaving=bool(metadata.get("deletionTimestamp")),
        disk=_disk(spec),
        is_csi=bool(spec.get("csi")),
    )


def _affinity_terms(required: t.Any) -> Terms | None:
    """Terms over labels; no node meets a term about fields or an empty one."""
    if required is None:
        return None
    terms = node_terms(required, "spec.nodeAffinity.required")
    return tuple(NodeTerm() if term.fields else term for term in terms)


def _claim_of(given: t.Any) -> tuple[str, str, str] | None:
    if given is None:
        return None
    reference = mapping(given, "spec.claimRef")
    namespace, name, uid = (
        text(reference.get(part), f"spec.claimRef.{part}") for part in ("namespace", "name", "uid")
    )
    return namespace, name, uid


def _disk(spec: Object) -> Disk | None:
    """The disk of a volume; None if no driver attaches it."""
    csi = mapping(spec.get("csi"), "spec.csi")
    if csi:
        handle = text(csi.get("volumeHandle"), "spec.csi.volumeHandle")
        return Disk(text(csi.get("driver"), "spec.csi.driver"), handle)
    for source, (driver, part) in MIGRATED.items():
        given = mapping(spec.get(source), f"spec.{source}")
        if given:
            return Disk(driver, text(given.get(part), f"spec.{source}.{part}"))
    return None


def _read_class(item: Object, name: str) -> StorageClass:
    topologies = mappings(item.get("allowedTopologies"), "allowedTopologies")
    return StorageClass(
        name,
        provisioner=text(item.get("provisioner"), "provisioner"),
        waits=item.get("volumeBindingMode") == "WaitForFirstConsumer",
        topologies=tuple(_topology(term) for term in topologies) if topologies else None,
    )


def _topology(term: Object) -> NodeTerm:
    path = "allowedTopologies.matchLabelExpressions"
    return NodeTerm(
        tuple(
            Requirement(
                text(item.get("key"), f"{path}.key"),
                "In",
                frozenset(texts(item.get("values"), f"{path}.values")),
            )
            for item in mappings(term.get("matchLabelExpressions"), path)
        )
    )


def _read_limits(item: Object) -> t.Mapping[str, int]:
    drivers = mappings(mapping(item.get("spec"), "spec").get("drivers"), "spec.drivers")
    limits = {}
    for driver in drivers:
        allocatable = mapping(driver.get("allocatable"), "spec.drivers.allocatable")
        count = allocatable.get("count")
        if count is not None:
            name = text(driver.get("name"), "spec.drivers.name")
            limits[name] = whole_number(count, "spec.drivers.allocatable.count", 0)
    return limits


def _read_capacity(item: Object) -> t.Iterator[Capacity]:
    """Nothing without nodes or without a size, because such a capacity suffices for no volume."""
    name = text(item.get("storageClassName"), "storageClassName")
    largest = _size(item.get("maximumVolumeSize"), "maximumVolumeSize")
    size = _size(item.get("capacity"), "capacity") if largest is None else largest
    if item.get("nodeTopology") is not None and size is not None:
        yield Capacity(name, label_selector(item["nodeTopology"], "nodeTopology"), size)


def _read_attachment(item: Object) -> t.Iterator[Attachment]:
    spec = mapping(item.get("spec"), "spec")
    source = mapping(spec.get("source"), "spec.source")
    volume = text(source.get("persistentVolumeName"), "spec.source.persistentVolumeName")
    if volume:
        driver, node = (text(spec.get(part), f"spec.{part}") for part in ("attacher", "nodeName"))
        yield Attachment(driver, node, volume)
