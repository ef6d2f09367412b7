# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Nodes of the cluster, and controllers that could write the same objects as this library."""

from __future__ import annotations

import typing as t

from ..base.json_types import MutableObject
from .source import Source, identified, selected_fields


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
