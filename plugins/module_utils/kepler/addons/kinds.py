# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kinds of other projects that add-ons use, and their supported API versions."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind with its API versions, the preferred one first, and its project."""

    kind: str
    api_versions: tuple[str, ...]
    project: str


_PROMETHEUS = "the Prometheus operator"
_GRAFANA = "the Grafana operator, version 5"
_CERT_MANAGER = "cert-manager"
_ISTIO = "Istio"

_ALL = (
    Kind("ServiceMonitor", ("monitoring.coreos.com/v1",), _PROMETHEUS),
    Kind("PodMonitor", ("monitoring.coreos.com/v1",), _PROMETHEUS),
    Kind("PrometheusRule", ("monitoring.coreos.com/v1",), _PROMETHEUS),
    Kind("Grafana", ("grafana.integreatly.org/v1beta1",), _GRAFANA),
    Kind("GrafanaDatasource", ("grafana.integreatly.org/v1beta1",), _GRAFANA),
    Kind("GrafanaDashboard", ("grafana.integreatly.org/v1beta1",), _GRAFANA),
    Kind(
        "OpenTelemetryCollector",
        ("opentelemetry.io/v1beta1", "opentelemetry.io/v1alpha1"),
        "the OpenTelemetry operator",
    ),
    Kind("Jaeger", ("jaegertracing.io/v1",), "the Jaeger operator"),
    Kind("Issuer", ("cert-manager.io/v1",), _CERT_MANAGER),
    Kind("Certificate", ("cert-manager.io/v1",), _CERT_MANAGER),
    Kind(
        "DestinationRule",
        ("networking.istio.io/v1", "networking.istio.io/v1beta1"),
        _ISTIO,
    ),
    Kind("PeerAuthentication", ("security.istio.io/v1", "security.istio.io/v1beta1"), _ISTIO),
    Kind("AuthorizationPolicy", ("security.istio.io/v1", "security.istio.io/v1beta1"), _ISTIO),
)
KINDS: t.Mapping[str, Kind] = {each.kind: each for each in _ALL}
# Kinds of Kubernetes itself that add-ons make.
OWN_KINDS = (
    ("v1", "ConfigMap"),
    ("apps/v1", "DaemonSet"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
)

# Kind → API version, of the kinds that the cluster serves.
Served = t.Mapping[str, str]


def discovered(serves: t.Callable[[str, str], bool]) -> dict[str, str]:
    """The supported version of each kind that a cluster serves."""
    found: dict[str, str] = {}
    for each in KINDS.values():
        version = next((one for one in each.api_versions if serves(one, each.kind)), None)
        if version is not None:
            found[each.kind] = version
    return found


class NotServed(Exception):
    """An add-on needs a kind that the cluster does not serve; ``str()`` is the sentence."""

    def __init__(self, kind: str, otherwise: str = "") -> None:
        needed = KINDS[kind]
        super().__init__(
            f"The cluster serves no {kind} of {' or '.join(needed.api_versions)}; install "
            f"{needed.project}{otherwise or ', or switch this add-on off'}."
        )


def of(served: Served, kind: str, otherwise: str = "") -> tuple[str, str]:
    """API version and kind for a manifest. Raises NotServed."""
    if kind not in served:
        raise NotServed(kind, otherwise)
    return served[kind], kind
