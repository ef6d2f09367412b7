# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Volumes of pods, restated: from raw claims and volumes, by trying every choice.

It shares no code with the placer. Nodes are checked one at a time, as kube-scheduler does; claims
of several pods are served together by any suitable choice of volumes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

from support.placement_rules import Json, Node, Placed, Pod, demanded, get, number, selects

SELECTED = "volume.kubernetes.io/selected-node"
ZONES = {
    "topology.kubernetes.io/zone": ("topology.kubernetes.io/zone",),
    "failure-domain.beta.kubernetes.io/zone": (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
    ),
}


# Drivers that count disks which pods name directly, without a claim.
INLINE = {
    "awsElasticBlockStore": ("ebs.csi.aws.com", "volumeID"),
    "gcePersistentDisk": ("pd.csi.storage.gke.io", "pdName"),
}


class Volumes:
    """The storage of a task; unknown without ``volume_objects``."""

    def __init__(self, parameters: Json, on: Mapping[str, Sequence[Pod]]) -> None:
        self.known = "volume_objects" in parameters
        self._of: dict[str, dict[str, Json]] = {}
        for item in parameters.get("volume_objects") or []:
            self._of.setdefault(item["kind"], {})[item["metadata"]["name"]] = item
        self._running = {
            name: [pod for pod in pods if pod.phase not in ("Succeeded", "Failed")]
            for name, pods in on.items()
        }

    def _get(self, kind: str, name: str) -> Json | None:
        return self._of.get(kind, {}).get(name)

    def claims(self, pod: Pod) -> dict[str, Json | None]:
        """A pod's claims by name; None for a missing one."""
        found: dict[str, Json | None] = {}
        for volume in get(pod.spec, "volumes", []):
            if "persistentVolumeClaim" in volume:
                name = volume["persistentVolumeClaim"]["claimName"]
                claim = self._get("PersistentVolumeClaim", name)
                theirs = claim["metadata"].get("namespace") if claim else None
                found[name] = claim if theirs == pod.namespace else None
        return found

    def _class(self, claim: Json) -> Json | None:
        return self._get("StorageClass", claim["spec"].get("storageClassName", ""))

    def _volume(self, claim: Json) -> Json | None:
        """The volume to which a claim is bound."""
        done = "pv.kubernetes.io/bind-completed" in claim["metadata"].get("annotations", {})
        name = claim["spec"].get("volumeName")
        return self._get("PersistentVolume", name) if done and name else None

    def is_ready(self, pod: Pod) -> bool:
        """Whether each claim is bound to a volume, or waits for its first consumer."""
        for claim in self.claims(pod).values():
            if claim is None or claim["metadata"].get("deletionTimestamp"):
                return False
            storage_class = self._class(claim)
            waits = (
                storage_class is not None
                and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer"
                and not claim["spec"].get("volumeName")
            )
            if not waits and self._volume(claim) is None:
                return False
        return True

    def may_be_on(self, node: Node, pod: Pod) -> bool:
        """Whether the pod's volumes permit the node, other waiting pods aside."""
        if not self.claims(pod) and not any(inline(pod)):
            return True
        if not self.known or not self.is_ready(pod):
            return False
        for name, claim in self.claims(pod).items():
            assert claim is not None
            if is_exclusive(claim) and any(
                name in self.claims(other) and other.namespace == pod.namespace
                for pods in self._running.values()
                for other in pods
            ):
                return False
            volume = self._volume(claim)
            if volume is not None and not (reaches(volume, node) and in_zone(volume, node)):
                return False
            chosen = claim["metadata"].get("annotations", {}).get(SELECTED)
            if volume is None and chosen is not None and chosen != node.name:
                return False
        return self.hold([(pod, node)])

    def hold(self, placed: Sequence[Placed]) -> bool:
        """Whether all these pods can have their volumes."""
        users: dict[tuple[str, str], list[Node]] = {}
        pods_on: dict[str, list[Pod]] = {}
        for pod, node in placed:
            pods_on.setdefault(node.name, []).append(pod)
            for name in self.claims(pod):
                users.setdefault((pod.namespace, name), []).append(node)
        unbound = []
        for (_namespace, name), nodes in users.items():
            claim = self._get("PersistentVolumeClaim", name)
            assert claim is not None
            if is_exclusive(claim) and len(nodes) > 1:
                return False
            if self._volume(claim) is None:
                if len({node.name for node in nodes}) > 1:
                    return False
                unbound.append((claim, nodes[0]))
        return self._served(unbound, frozenset()) and all(
            self._attachable(name, pods) for name, pods in pods_on.items()
        )

    def _served(self, claims: Sequence[tuple[Json, Node]], taken: frozenset[str]) -> bool:
        """Whether each of these claims has a volume, or one can be provisioned."""
        if not claims:
            return True
        (claim, node), rest = claims[0], claims[1:]
        if self._can_be_made(claim, node) and self._served(rest, taken):
            return True
        return any(
            self._served(rest, taken | {volume["metadata"]["name"]})
            for volume in self._fitting(claim, node)
            if volume["metadata"]["name"] not in taken
        )

    def _fitting(self, claim: Json, node: Node) -> Iterator[Json]:
        annotations = claim["metadata"].get("annotations", {})
        if SELECTED in annotations:
            return
        for volume in self._of.get("PersistentVolume", {}).values():
            spec, wanted = volume["spec"], claim["spec"]
            if (
                "claimRef" not in spec
                and volume["status"]["phase"] == "Available"
                and spec.get("storageClassName") == wanted.get("storageClassName")
                and number(spec["capacity"]["storage"]) >= size(claim)
                and set(wanted["accessModes"]) <= set(spec["accessModes"])
                and reaches(volume, node)
            ):
                yield volume

    def _can_be_made(self, claim: Json, node: Node) -> bool:
        storage_class = self._class(claim)
        assert storage_class is not None
        provisioner = storage_class["provisioner"]
        if provisioner == "kubernetes.io/no-provisioner":
            return False
        topologies = storage_class.get("allowedTopologies") or []
        if topologies and not any(
            all(
                node.labels.get(each["key"]) in each["values"]
                for each in topology["matchLabelExpressions"]
            )
            for topology in topologies
        ):
            return False
        driver = self._get("CSIDriver", provisioner)
        if driver is None or not driver["spec"].get("storageCapacity"):
            return True
        return any(
            capacity["storageClassName"] == storage_class["metadata"]["name"]
            and selects(capacity["nodeTopology"], node.labels)
            and number(capacity["capacity"]) >= size(claim)
            for capacity in self._of.get("CSIStorageCapacity", {}).values()
        )

    def _disks(self, pod: Pod) -> Iterator[tuple[str, str]]:
        """Driver and name of each volume that a pod attaches."""
        yield from inline(pod)
        for name, claim in self.claims(pod).items():
            if claim is None:
                continue
            volume = self._get("PersistentVolume", claim["spec"].get("volumeName", ""))
            storage_class = self._class(claim)
            if volume is not None:
                if "csi" in volume["spec"]:
                    yield volume["spec"]["csi"]["driver"], volume["spec"]["csi"]["volumeHandle"]
            elif storage_class is not None:
                yield storage_class["provisioner"], f"claim {pod.namespace}/{name}"

    def _attachable(self, name: str, pods: Sequence[Pod]) -> bool:
        csi_node = self._get("CSINode", name)
        there = {disk for pod in self._running.get(name, []) for disk in self._disks(pod)}
        new = {disk for pod in pods for disk in self._disks(pod)} - there
        for driver in csi_node["spec"]["drivers"] if csi_node else []:
            needed = sum(1 for disk in new if disk[0] == driver["name"])
            used = sum(1 for disk in there if disk[0] == driver["name"])
            if needed and needed + used > driver["allocatable"]["count"]:
                return False
        return True


def inline(pod: Pod) -> Iterator[tuple[str, str]]:
    """Driver and name of a pod's disks without a claim."""
    for volume in get(pod.spec, "volumes", []):
        for source, (driver, part) in INLINE.items():
            if source in volume:
                yield driver, volume[source][part]


def is_exclusive(claim: Json) -> bool:
    return "ReadWriteOncePod" in claim["spec"]["accessModes"]


def size(claim: Json) -> Fraction:
    return number(claim["spec"]["resources"]["requests"]["storage"])


def reaches(volume: Json, node: Node) -> bool:
    """The volume's node affinity, which considers only labels."""
    required = volume["spec"].get("nodeAffinity", {}).get("required")
    if required is None:
        return True
    return any(
        bool(term.get("matchExpressions"))
        and "matchFields" not in term
        and all(demanded(node.labels, each) for each in term["matchExpressions"])
        for term in required["nodeSelectorTerms"]
    )


def in_zone(volume: Json, node: Node) -> bool:
    """The volume's zone labels, on a node that has any."""
    if not any(key in node.labels for key in ZONES):
        return True
    for key, names in ZONES.items():
        if key in volume["metadata"].get("labels", {}):
            zones = volume["metadata"]["labels"][key].split("__")
            values = [node.labels[name] for name in names if name in node.labels]
            if not values or values[0] not in zones:
                return False
    return True
