# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-on serviceMesh: Kepler beside an Istio mesh, or in its ambient mode.

Kepler's pods never get a sidecar: its init container needs capabilities that the policy of their
namespace refuses.
"""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.manifests import Manifest
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons import kinds, names
from ansible_collections.wattwise.kube.plugins.module_utils.kepler.addons.spec import Addons, Mesh

_COMPONENT = "service-mesh"


def namespace_labels(wanted: Mesh | None) -> dict[str, str]:
    """The labels by which Istio treats the pods of the namespace."""
    if wanted is None:
        return {}
    found = {"istio-injection": "disabled"}
    if wanted.mode == "ambient":
        found["istio.io/dataplane-mode"] = "ambient"
    return found


def manifests(addons: Addons, wanted: Mesh, served: kinds.Served) -> t.Iterator[Manifest]:
    """The rule for clients, or those for Kepler in the mesh. Raises NotServed."""
    if wanted.mode == "exclude":
        # Clients in the mesh would expect its certificate; Kepler's TLS passes as it is.
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
