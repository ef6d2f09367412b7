# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-on serviceMesh: Kepler beside an Istio mesh, or in its ambient mode.

Kepler's pods never get a sidecar: its init container needs capabilities that the policy of their
namespace refuses.
"""

from __future__ import annotations

import typing as t

from ...base.manifests import Manifest
from . import kinds, names
from .spec import Addons, Mesh

_COMPONENT = "service-mesh"
# Port on which ztunnel accepts the traffic of the mesh for a pod.
_MESH_PORT = 15008
# Source addresses of the kubelet's probes in ambient mode.
_KUBELET = ("169.254.7.127/32", "fd16:9254:7127:1337:ffff:ffff:ffff:ffff/128")


def namespace_labels(wanted: Mesh | None) -> dict[str, str]:
    """Istio's labels for the pods of the namespace."""
    if wanted is None:
        return {}
    found = {"istio-injection": "disabled"}
    if wanted.mode == "ambient":
        found["istio.io/dataplane-mode"] = "ambient"
    return found


def manifests(addons: Addons, wanted: Mesh, served: kinds.Served) -> t.Iterator[Manifest]:
    """The rule for clients, or those for Kepler in the mesh. Raises NotServed."""
    if wanted.mode == "exclude":
        # Clients in the mesh would expect its certificate; Kepler's TLS passes unchanged.
        spec: dict[str, t.Any] = {
            "host": f"{addons.host_name}.cluster.local",
            "trafficPolicy": {"tls": {"mode": "DISABLE"}},
        }
        rule = kinds.of(served, "DestinationRule")
        yield names.manifest(addons, rule, "unmeshed", _COMPONENT, spec=spec)
        return
    selector = {"matchLabels": names.system_labels(addons)}
    strict = {"selector": selector, "mtls": {"mode": "STRICT"}}
    authentication = kinds.of(served, "PeerAuthentication")
    yield names.manifest(addons, authentication, "strict", _COMPONENT, spec=strict)
    if wanted.scrapers:
        source = {"source": {"principals": list(wanted.scrapers)}}
        spec = {"selector": selector, "action": "ALLOW", "rules": [{"from": [source]}]}
        policy = kinds.of(served, "AuthorizationPolicy")
        yield names.manifest(addons, policy, "scrapers", _COMPONENT, spec=spec)
    network = ("networking.k8s.io/v1", "NetworkPolicy")
    yield names.manifest(addons, network, "mesh", _COMPONENT, spec=_admitted(addons, selector))


def _admitted(addons: Addons, selector: t.Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Connections to Kepler that its own NetworkPolicy does not allow."""
    port = "http" if addons.security.mode == "none" else "https"
    kubelet = [{"ipBlock": {"cidr": cidr}} for cidr in _KUBELET]
    return {
        "podSelector": dict(selector),
        "policyTypes": ["Ingress"],
        "ingress": [
            {"ports": [{"port": _MESH_PORT, "protocol": "TCP"}]},
            {"from": kubelet, "ports": [{"port": port, "protocol": "TCP"}]},
        ],
    }
