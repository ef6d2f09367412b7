# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Names and labels of the objects of a KeplerSystem."""

from __future__ import annotations

import typing as t

from ...base.manifests import MANAGED_BY_LABEL, MANAGER, Manifest, manifest_of
from ...kube.apply.prune import APPLY_SET_LABEL
from .groups import Group
from .system import System

GROUP_LABEL = "wattwise.github.io/kepler-group"
HASH_ANNOTATION = "wattwise.github.io/configuration-hash"
NAME_LABEL, INSTANCE_LABEL = "app.kubernetes.io/name", "app.kubernetes.io/instance"
COMPONENT_LABEL = "app.kubernetes.io/component"


def apply_set(name: str) -> str:
    """The ApplySet of the namespaced objects of a system."""
    return f"wattwise-kepler-{name}"


def owner_name(name: str) -> str:
    """The ConfigMap that owns the objects of a system without a KeplerSystem."""
    return f"{name}-owner"


def cluster_name(namespace: str, name: str) -> str:
    """The name of the cluster-scoped objects; neither part may have a dot."""
    return f"wattwise-kepler.{namespace}.{name}"


def daemon_set_name(system: System, group: Group) -> str:
    """DaemonSet and ConfigMap of a group."""
    return f"{system.name}-{group.name}"


def model_server_name(system: System) -> str:
    """Deployment and Service of the model server."""
    return f"{system.name}-model-server"


def pod_labels(system: System, component: str = "collector") -> dict[str, str]:
    """The labels that select the pods of a component."""
    return {NAME_LABEL: "kepler", INSTANCE_LABEL: system.name, COMPONENT_LABEL: component}


def manifest(system: System, api_version: str, kind: str, name: str, **content: t.Any) -> Manifest:
    """An object in the namespace of the system."""
    own = {NAME_LABEL: "kepler", INSTANCE_LABEL: system.name, MANAGED_BY_LABEL: MANAGER}
    labels = {**own, APPLY_SET_LABEL: apply_set(system.name)}
    return manifest_of(api_version, kind, name, system.namespace, labels, **content)


def cluster_manifest(system: System, api_version: str, kind: str, **content: t.Any) -> Manifest:
    """A cluster-scoped object of the system."""
    labels = {NAME_LABEL: "kepler", MANAGED_BY_LABEL: MANAGER}
    name = cluster_name(system.namespace, system.name)
    return manifest_of(api_version, kind, name, labels=labels, **content)
