# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Names and labels of the objects of KeplerAddons."""

from __future__ import annotations

import typing as t

from ...base.manifests import MANAGED_BY_LABEL, MANAGER, Manifest
from ...kube.apply.prune import APPLY_SET_LABEL
from ..deployment.names import COMPONENT_LABEL, INSTANCE_LABEL, NAME_LABEL
from .spec import Addons


def apply_set(name: str) -> str:
    """The ApplySet of the objects of KeplerAddons."""
    return f"wattwise-kepler-addons-{name}"


def owner_name(name: str) -> str:
    """The ConfigMap that owns the objects of add-ons without KeplerAddons."""
    return f"{name}-addons-owner"


def object_name(addons: Addons, part: str) -> str:
    """The name of an object; names of the system have other suffixes."""
    return f"{addons.name}-addons-{part}"


def pod_labels(addons: Addons, component: str) -> dict[str, str]:
    """The labels that select the pods of an add-on, never Kepler's own pods."""
    return {
        NAME_LABEL: "kepler-addons",
        INSTANCE_LABEL: addons.name,
        COMPONENT_LABEL: component,
    }


def system_labels(addons: Addons) -> dict[str, str]:
    """The labels of Kepler's pods and of their Service."""
    return {NAME_LABEL: "kepler", INSTANCE_LABEL: addons.system, COMPONENT_LABEL: "collector"}


def manifest(
    addons: Addons,
    served: tuple[str, str],
    part: str,
    component: str,
    labels: t.Mapping[str, str] | None = None,
    **content: t.Any,
) -> Manifest:
    """An object of an add-on; ``served`` are API version and kind."""
    api_version, kind = served
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": object_name(addons, part),
            "namespace": addons.namespace,
            "labels": {
                **pod_labels(addons, component),
                MANAGED_BY_LABEL: MANAGER,
                # Selectors of other projects use these, with any keys.
                **(labels or {}),
                APPLY_SET_LABEL: apply_set(addons.name),
            },
        },
        **content,
    }
