# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Add-on prometheus: a monitor of Kepler, recording rules and alerts."""

from __future__ import annotations

import typing as t

from ...base.manifests import Manifest
from . import kinds, names
from .files import RuleFile
from .spec import Addons, Prometheus

_COMPONENT = "prometheus"
# The instance of a series is its node; metrics of Kepler 0.9 and earlier have no other name of it.
_NODE = {"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "instance"}


def manifests(
    addons: Addons, wanted: Prometheus, served: kinds.Served, files: t.Sequence[RuleFile]
) -> t.Iterator[Manifest]:
    """The monitor, and one PrometheusRule for each file. Raises NotServed."""
    labels = dict(wanted.labels)
    spec: dict[str, t.Any] = {
        "jobLabel": "app.kubernetes.io/name",
        "namespaceSelector": {"matchNames": [addons.namespace]},
        "selector": {"matchLabels": names.system_labels(addons)},
    }
    endpoints = [_endpoint(addons, wanted)]
    if wanted.monitor == "pod":
        kind, spec["podMetricsEndpoints"] = "PodMonitor", endpoints
    else:
        kind, spec["endpoints"] = "ServiceMonitor", endpoints
    monitor = kinds.of(served, kind)
    yield names.manifest(addons, monitor, "metrics", _COMPONENT, labels, spec=spec)
    for each in files if wanted.rules else ():
        rule = kinds.of(served, "PrometheusRule")
        groups = {"groups": list(each.groups)}
        yield names.manifest(addons, rule, each.name, _COMPONENT, labels, spec=groups)


def _endpoint(addons: Addons, wanted: Prometheus) -> dict[str, t.Any]:
    security = addons.security
    scheme = "http" if security.mode == "none" else "https"
    found: dict[str, t.Any] = {
        "port": scheme,
        "scheme": scheme,
        "path": "/metrics",
        "interval": wanted.interval,
        "scrapeTimeout": wanted.scrape_timeout,
        "relabelings": [_NODE],
    }
    if scheme == "https":
        found["tlsConfig"] = {
            # Endpoints are addresses of pods, and the certificate has names.
            "serverName": addons.host_name,
            "ca": {"secret": {"name": security.client_secret, "key": "ca.crt"}},
        }
    if security.mode == "mtls":
        found["tlsConfig"]["cert"] = {"secret": {"name": security.client_secret, "key": "tls.crt"}}
        found["tlsConfig"]["keySecret"] = {"name": security.client_secret, "key": "tls.key"}
    return found
