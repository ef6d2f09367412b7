# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Lists of one kind of object: where they are read, and which fields are kept of each object.

Several rooms read Nodes and the controllers that could write the same objects as this library.
"""

from __future__ import annotations

import functools
import typing as t

from ..base.boundary import Finding, guarded, subject_of
from ..base.errors import ApiError
from ..base.fields.strict import required_text
from ..base.json_types import MutableObject, Object
from .client import Kube, Query

Trim = t.Callable[[MutableObject], MutableObject]

_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class Source(t.NamedTuple):
    """Source of one part of the snapshot; the cluster may not serve ``optional`` parts.

    With ``metadata_only`` the server sends only metadata.
    """

    paths: tuple[str, ...]
    trim: Trim
    query: Query
    optional: bool
    metadata_only: bool = False
    keeps: t.Callable[[MutableObject], bool] = bool


class Parts(t.NamedTuple):
    """Parts of the cluster that were just read, and findings about objects that are left out."""

    objects: dict[str, list[MutableObject]]
    findings: t.Sequence[Finding] = ()


NOTHING = Parts({})


def read_source(
    kube: Kube, source: Source, selector: str | None
) -> tuple[list[MutableObject], list[Finding]]:
    """Objects of one part, and findings about objects that are left out."""
    query = {**source.query, **({"labelSelector": selector} if selector else {})}
    items: list[MutableObject] = []
    findings: list[Finding] = []

    def trim(obj: MutableObject) -> MutableObject:
        """The trimmed object; empty if it is left out."""
        result = guarded(
            lambda: subject_of(obj, str(obj.get("kind") or "object")),
            functools.partial(trimmed, source, obj),
        )
        if isinstance(result, Finding):
            findings.append(result)
            return {}
        return result

    kube = kube.metadata_only() if source.metadata_only else kube
    for path in source.paths:
        findings_before = len(findings)
        try:
            items += filter(None, kube.list(path, query, trim, findings.append))
        except ApiError as error:
            # An installed but unavailable metrics server answers 503.
            if not (source.optional and error.status in (404, 503)):
                raise
            del findings[findings_before:]
    return items, list(dict.fromkeys(findings))


def trimmed(source: Source, obj: MutableObject) -> MutableObject:
    """An object with the fields in use; empty if there are none.

    Raises InvalidField for an object without a name.
    """
    result = source.trim(obj)
    required_text(obj["metadata"].get("name"), "metadata.name")
    return result if source.keeps(result) else {}


def selected_fields(source: Object, *names: str) -> MutableObject:
    return {name: source[name] for name in names if source.get(name) is not None}


def identified(obj: MutableObject, **parts: t.Any) -> MutableObject:
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "metadata": _metadata(obj),
        **parts,
    }


def _metadata(obj: MutableObject) -> MutableObject:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "managedFields"}
    annotations = metadata.get("annotations")
    if isinstance(annotations, dict) and _LAST_APPLIED in annotations:
        metadata["annotations"] = {
            key: value for key, value in annotations.items() if key != _LAST_APPLIED
        }
    return metadata


def trim_custom(obj: MutableObject) -> MutableObject:
    """A custom resource with its status."""
    return identified(obj, **selected_fields(obj, "spec", "status"))


def trim_node(node: MutableObject) -> MutableObject:
    """Labels, taints, addresses, resources, identity and readiness of a Node."""
    status = node.get("status", {})
    ready = [item for item in status.get("conditions") or [] if item.get("type") == "Ready"]
    return identified(
        node,
        spec=selected_fields(node.get("spec", {}), "taints", "unschedulable", "providerID"),
        status={
            **selected_fields(status, "addresses", "capacity", "allocatable"),
            "conditions": ready,
            "nodeInfo": selected_fields(
                status.get("nodeInfo", {}), "architecture", "operatingSystem", "systemUUID"
            ),
        },
    )


def trim_controller(deployment: MutableObject) -> MutableObject:
    """Images of the Deployment of a controller."""
    containers = deployment["spec"]["template"]["spec"]["containers"]
    return identified(deployment, images=[container.get("image", "") for container in containers])


NODES = Source(("/api/v1/nodes",), trim_node, {}, optional=False)
# Label of kubebuilder's scaffolding, which finds wao-core and rmd-operator.
CONTROLLERS = Source(
    ("/apis/apps/v1/deployments",),
    trim_controller,
    {"labelSelector": "control-plane=controller-manager"},
    optional=False,
)


def images_of(controllers: t.Iterable[MutableObject]) -> list[str]:
    """Images of controllers."""
    return sorted({image for obj in controllers for image in obj["images"]})


def images_with(images: t.Sequence[str], part: str) -> str:
    """The images with this text in their name; empty if there is none."""
    return ", ".join(image for image in images if part in image)


_OF_CONTAINER = ("args", "command", "env", "envFrom", "lifecycle")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PARTS = ("containers", "initContainers", "ephemeralContainers")


def without_bulk(pod: MutableObject) -> MutableObject:
    """The pod without managed fields, environments, commands and probes, of which it may be made.

    A pod of another shape stays as it is, for its reader to refuse.
    """
    spec, metadata = pod.get("spec"), pod.get("metadata")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        return pod
    parts = {name: _slim(spec[name]) for name in _PARTS if name in spec}
    kept = {name: one for name, one in metadata.items() if name != "managedFields"}
    return {**pod, "metadata": kept, "spec": {**spec, **parts}}


def _slim(containers: t.Any) -> t.Any:
    if not isinstance(containers, list):
        return containers
    return [
        {name: value for name, value in one.items() if name not in (*_OF_CONTAINER, *_PROBES)}
        if isinstance(one, dict)
        else one
        for one in containers
    ]
