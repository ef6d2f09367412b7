# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Pod fields that a snapshot keeps."""

from __future__ import annotations

import typing as t

from ..base.json_types import MutableObject
from ..kube.source import identified, selected_fields
from ..scheduling.pod_fields import CONTAINER, DEVICE_CLAIMS_ANNOTATION, POD, VOLUME, is_set
from ..scheduling.volumes import inline_disks

_DEFAULT_SCHEDULER = "default-scheduler"
# Many parts read annotations of pods, all of them short except for the claims of the prototype.
_MAX_ANNOTATION_LENGTH = 1024


def trim_pod(pod: MutableObject) -> MutableObject:
    """Fields of a Pod for placement.

    All scheduling fields are kept for a waiting pod, and for a running pod of this scheduler, which
    may be moved. Other pods keep fewer fields.
    """
    spec, status = pod.get("spec", {}), pod.get("status", {})
    containers = {
        part: [_trim_container(container) for container in spec.get(part) or []]
        for part in ("containers", "initContainers")
    }
    if not spec.get("nodeName") or spec.get("schedulerName") not in (None, "", _DEFAULT_SCHEDULER):
        claims = selected_fields(status, "resourceClaimStatuses", "extendedResourceClaimStatus")
        kept = {
            **_resizing(pod),
            **selected_fields(status, "phase", "conditions", "nominatedNodeName"),
        }
        others = {name: spec[name] for name in sorted(spec.keys() - POD.harmless)}
        mounted = [_trim_volume(volume) for volume in spec.get("volumes") or []]
        return _identified_pod(
            pod, spec={**others, **containers, "volumes": mounted}, status={**kept, **claims}
        )
    return _identified_pod(
        pod,
        spec={
            **selected_fields(
                spec, "nodeName", "overhead", "resources", "priority", "schedulerName"
            ),
            **selected_fields(
                spec, "affinity", "topologySpreadConstraints", "tolerations", "hostNetwork"
            ),
            **containers,
            **_counted_volumes(spec),
        },
        status={**selected_fields(status, "phase"), **_resizing(pod)},
    )


def _identified_pod(pod: MutableObject, **parts: t.Any) -> MutableObject:
    trimmed = identified(pod, **parts)
    annotations = trimmed["metadata"].get("annotations")
    if isinstance(annotations, dict):
        # Those of other programs may have 256 KiB.
        trimmed["metadata"]["annotations"] = {
            key: value
            for key, value in annotations.items()
            if key == DEVICE_CLAIMS_ANNOTATION
            or not isinstance(value, str)
            or len(value) <= _MAX_ANNOTATION_LENGTH
        }
    return trimmed


def _resizing(pod: MutableObject) -> MutableObject:
    """Resources that the kubelet allocated and actuated, if they differ from the spec.

    With a resize that is not done, all of them and its condition.
    """
    spec, status = pod.get("spec", {}), pod.get("status", {})
    pending = [
        selected_fields(one, "type", "status", "reason")
        for one in status.get("conditions") or []
        if one.get("type") == "PodResizePending"
    ]
    kept: MutableObject = {"conditions": pending} if pending else {}
    for part in ("containers", "initContainers"):
        asked = {str(one.get("name")): one.get("resources") for one in spec.get(part) or []}
        name = f"{part[:-1]}Statuses"
        found = [
            {**selected_fields(one, "name"), **told}
            for one in status.get(name) or []
            if (told := _told_apart(one, None if pending else asked.get(str(one.get("name")))))
        ]
        kept.update({name: found} if found else {})
    # Without pod-level requests these are the sums over the containers.
    if not (spec.get("resources") or pending):
        return kept
    return {**kept, **_told_apart(status, None if pending else spec["resources"])}


def _told_apart(told: t.Mapping[str, t.Any], asked: t.Any) -> MutableObject:
    """Requests in the status of a container or pod that differ from those in its spec."""
    wanted = (asked or {}).get("requests") or {}
    allocated = told.get("allocatedResources")
    in_force = (told.get("resources") or {}).get("requests")
    if all(requests is None or requests == wanted for requests in (allocated, in_force)):
        return {}
    return {
        **({} if allocated is None else {"allocatedResources": allocated}),
        **({} if in_force is None else {"resources": {"requests": in_force}}),
    }


def _trim_container(container: MutableObject) -> MutableObject:
    """A container without environment, command, probes and hooks, which may contain secrets.

    An unknown field keeps only its name, by which placement refuses the pod.
    """
    kept = selected_fields(container, "name", *sorted(CONTAINER.read))
    unknown = container.keys() - CONTAINER.read - CONTAINER.harmless
    return {**kept, **{name: True for name in sorted(unknown) if is_set(container[name])}}


def _counted_volumes(spec: MutableObject) -> MutableObject:
    """Claims and disks of a pod, which count for the room of the node and for other pods."""
    counted = [
        _trim_volume(volume)
        for volume in spec.get("volumes") or []
        if volume.get("persistentVolumeClaim")
        or volume.get("ephemeral") is not None
        or not volume.keys().isdisjoint(inline_disks.PARTS)
    ]
    return {"volumes": counted} if counted else {}


def _trim_volume(volume: MutableObject) -> MutableObject:
    """Name, type, claim and disk of a volume; options of drivers may contain secrets."""
    kept = selected_fields(volume, "name", "persistentVolumeClaim")
    for source in volume.keys() & inline_disks.PARTS.keys():
        kept[source] = inline_disks.trimmed_source(source, volume[source])
    others = volume.keys() - kept.keys() - VOLUME.harmless
    return {**kept, **{name: True for name in sorted(others) if is_set(volume[name])}}
