# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Objects of add-ons: names, labels, and kinds of other projects with their versions."""

from __future__ import annotations

import typing as t

from ...base.manifests import MANAGED_BY_LABEL, MANAGER, Manifest, manifest_of
from ...kube.apply.prune import APPLY_SET_LABEL
from ..deployment.names import COMPONENT_LABEL, INSTANCE_LABEL, NAME_LABEL
from .spec import Addons

# The supported API versions of kinds of each project, the preferred one first.
_PROJECTS: t.Mapping[str, t.Mapping[str, tuple[str, ...]]] = {
    "the Prometheus operator": dict.fromkeys(
        ("ServiceMonitor", "PodMonitor", "PrometheusRule"), ("monitoring.coreos.com/v1",)
    ),
    "the Grafana operator, version 5": dict.fromkeys(
        ("Grafana", "GrafanaDatasource", "GrafanaDashboard"), ("grafana.integreatly.org/v1beta1",)
    ),
    "the OpenTelemetry operator": {
        "OpenTelemetryCollector": ("opentelemetry.io/v1beta1", "opentelemetry.io/v1alpha1")
    },
    "the Jaeger operator": {"Jaeger": ("jaegertracing.io/v1",)},
    "cert-manager": dict.fromkeys(("Issuer", "Certificate"), ("cert-manager.io/v1",)),
    "Istio": {
        "DestinationRule": ("networking.istio.io/v1", "networking.istio.io/v1beta1"),
        **dict.fromkeys(
            ("PeerAuthentication", "AuthorizationPolicy"),
            ("security.istio.io/v1", "security.istio.io/v1beta1"),
        ),
    },
}
KINDS = {kind: versions for kinds in _PROJECTS.values() for kind, versions in kinds.items()}
# Kinds of Kubernetes itself that add-ons make, with their API versions.
OWN_KINDS = {"ConfigMap": "v1", "DaemonSet": "apps/v1", "NetworkPolicy": "networking.k8s.io/v1"}

# Kind → API version, of the kinds that the cluster serves.
Served = t.Mapping[str, str]


def discovered(serves: t.Callable[[str, str], bool]) -> dict[str, str]:
    """The supported version of each kind that a cluster serves."""
    found: dict[str, str] = {}
    for kind, versions in KINDS.items():
        version = next((one for one in versions if serves(one, kind)), None)
        if version is not None:
            found[kind] = version
    return found


class NotServed(Exception):
    """An add-on needs a kind that the cluster does not serve; ``str()`` is the sentence."""

    def __init__(self, kind: str, otherwise: str = "") -> None:
        project = next(project for project, kinds in _PROJECTS.items() if kind in kinds)
        super().__init__(
            f"The cluster serves no {kind} of {' or '.join(KINDS[kind])}; install "
            f"{project}{otherwise or ', or switch this add-on off'}."
        )


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
    return {NAME_LABEL: "kepler-addons", INSTANCE_LABEL: addons.name, COMPONENT_LABEL: component}


def system_labels(addons: Addons) -> dict[str, str]:
    """The labels of Kepler's pods and of their Service."""
    return {NAME_LABEL: "kepler", INSTANCE_LABEL: addons.system, COMPONENT_LABEL: "collector"}


def manifest(
    addons: Addons,
    served: Served,
    kind: str,
    part: str,
    component: str,
    labels: t.Mapping[str, str] | None = None,
    otherwise: str = "",
    **content: t.Any,
) -> Manifest:
    """An object of an add-on. Raises NotServed, with the alternative ``otherwise``."""
    version = OWN_KINDS.get(kind) or served.get(kind)
    if version is None:
        raise NotServed(kind, otherwise)
    own = {**pod_labels(addons, component), MANAGED_BY_LABEL: MANAGER}
    # Selectors of other projects use the given labels, with any keys.
    own = {**own, **(labels or {}), APPLY_SET_LABEL: apply_set(addons.name)}
    return manifest_of(version, kind, object_name(addons, part), addons.namespace, own, **content)
