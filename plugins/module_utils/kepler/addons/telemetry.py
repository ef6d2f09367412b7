# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Collectors of OpenTelemetry: add-on tracing, and one agent of add-on logging."""

from __future__ import annotations

import typing as t

from ...base.json_types import MutableObject
from ...base.libraries import yaml
from ...base.manifests import Manifest
from ..deployment.policy import LOG_COLLECTORS_LABEL, LOG_FOLDER
from . import kinds, names
from .spec import Addons, Logging, Tracing

UNPRIVILEGED: MutableObject = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
_OTLP = {"protocols": {"grpc": {"endpoint": "0.0.0.0:4317"}, "http": {"endpoint": "0.0.0.0:4318"}}}
# Jaeger 2 is a collector with a built-in store.
_JAEGER_STORE: MutableObject = {"backends": {"memory": {"memory": {"max_traces": 100_000}}}}
_JAEGER_QUERY: MutableObject = {"storage": {"traces": "memory"}}


def traces(addons: Addons, wanted: Tracing, served: kinds.Served) -> t.Iterator[Manifest]:
    """A collector of OTLP, or Jaeger. Raises NotServed."""
    if wanted.backend == "jaeger" and not wanted.image:
        jaeger = kinds.of(served, "Jaeger", ", or set tracing.image to an image of Jaeger 2")
        # Kepler's namespace policy refuses pods without it.
        security = {key: UNPRIVILEGED[key] for key in ("allowPrivilegeEscalation", "capabilities")}
        spec = {"strategy": "allInOne", "containerSecurityContext": security}
        yield names.manifest(addons, jaeger, "jaeger", "tracing", spec=spec)
        return
    settings: MutableObject = {"endpoint": wanted.endpoint}
    exporter = "otlphttp"
    extensions: MutableObject = {}
    collector: MutableObject = {
        "mode": "deployment",
        "resources": dict(wanted.resources),
        "securityContext": {**UNPRIVILEGED, "runAsNonRoot": True},
    }
    if wanted.image:
        collector["image"] = wanted.image
    if wanted.backend == "jaeger":
        collector["ports"] = [{"name": "query", "port": 16686, "protocol": "TCP"}]
        extensions = {"jaeger_storage": _JAEGER_STORE, "jaeger_query": _JAEGER_QUERY}
        exporter, settings = "jaeger_storage_exporter", {"trace_storage": "memory"}
    configuration = _configuration(
        "traces", {"otlp": _OTLP}, {"batch": {}}, {exporter: settings}, extensions
    )
    yield _collector(addons, served, "traces", "tracing", collector, configuration)


def logs(addons: Addons, wanted: Logging, served: kinds.Served) -> t.Iterator[Manifest]:
    """A collector of Kepler's logs on each node. Raises NotServed."""
    otherwise = ", or set logging.agent to fluent-bit, which needs no operator"
    kinds.of(served, "OpenTelemetryCollector", otherwise)
    spec: MutableObject = {
        "mode": "daemonset",
        "image": wanted.image,
        "resources": dict(wanted.resources),
        "tolerations": [{"operator": "Exists"}],
        # Log files belong to root.
        "podSecurityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "securityContext": UNPRIVILEGED,
        "volumes": [log_volume()],
        "volumeMounts": [log_mount()],
    }
    if wanted.credential_secret:
        spec["env"] = credentials(wanted.credential_secret)
    exporter, settings, extensions = _log_exporter(wanted)
    receiver = {
        "include": [log_files(addons)],
        "include_file_path": True,
        "start_at": "end",
        "operators": [{"type": "container"}],
    }
    configuration = _configuration(
        "logs", {"filelog": receiver}, {"batch": {}}, {exporter: settings}, extensions
    )
    yield _collector(addons, served, "logs", "logging", spec, configuration)


def namespace_labels(*, has_collectors: bool) -> dict[str, str]:
    """The label by which the policy of Kepler's namespace admits log collectors."""
    return {LOG_COLLECTORS_LABEL: "true"} if has_collectors else {}


def log_files(addons: Addons) -> str:
    """Log files of Kepler's container on a node, without log collectors."""
    return f"{LOG_FOLDER}/{addons.namespace}_{addons.system}-*/kepler/*.log"


def log_volume() -> MutableObject:
    """The volume of all logs of a node."""
    return {"name": "logs", "hostPath": {"path": LOG_FOLDER, "type": "Directory"}}


def log_mount() -> MutableObject:
    """The mount of the volume, for reading."""
    return {"name": "logs", "mountPath": LOG_FOLDER, "readOnly": True}


def credentials(secret: str) -> list[MutableObject]:
    """The environment with name and password for the receiver of logs."""
    return [
        {"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": key}}}
        for name, key in (("LOG_USERNAME", "username"), ("LOG_PASSWORD", "password"))
    ]


def _log_exporter(wanted: Logging) -> tuple[str, MutableObject, MutableObject]:
    """Name and settings of the exporter, and its extensions."""
    settings: MutableObject
    if wanted.backend == "elasticsearch":
        exporter, settings = "elasticsearch", {"endpoints": [wanted.endpoint]}
    else:
        # Loki 3 takes OTLP.
        exporter, settings = "otlphttp", {"endpoint": f"{wanted.endpoint}/otlp"}
    if not wanted.credential_secret:
        return exporter, settings, {}
    login = {"username": "${env:LOG_USERNAME}", "password": "${env:LOG_PASSWORD}"}
    settings = {**settings, "auth": {"authenticator": "basicauth/receiver"}}
    return exporter, settings, {"basicauth/receiver": {"client_auth": login}}


def _configuration(
    signal: str,
    receivers: MutableObject,
    processors: MutableObject,
    exporters: MutableObject,
    extensions: MutableObject,
) -> MutableObject:
    pipeline = {
        "receivers": list(receivers),
        "processors": list(processors),
        "exporters": list(exporters),
    }
    service: MutableObject = {"pipelines": {signal: pipeline}}
    found: MutableObject = {
        "receivers": receivers,
        "processors": processors,
        "exporters": exporters,
        "service": service,
    }
    if extensions:
        service["extensions"] = list(extensions)
        found["extensions"] = extensions
    return found


def _collector(
    addons: Addons,
    served: kinds.Served,
    part: str,
    component: str,
    spec: MutableObject,
    configuration: MutableObject,
) -> Manifest:
    kind = kinds.of(served, "OpenTelemetryCollector")
    is_text = kind[0].endswith("/v1alpha1")
    config = yaml.safe_dump(configuration, sort_keys=False) if is_text else configuration
    content = {"managementState": "managed", **spec, "config": config}
    return names.manifest(addons, kind, part, component, spec=content)
