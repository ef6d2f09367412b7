# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Collectors of add-ons: OpenTelemetry for tracing and logging, Fluent Bit for logging."""

from __future__ import annotations

import hashlib
import typing as t
import urllib.parse

from ...base.json_types import MutableObject
from ...base.libraries import yaml
from ...base.manifests import Manifest
from ..deployment.names import HASH_ANNOTATION
from ..deployment.policy import LOG_FOLDER
from . import names
from .spec import Addons, Logging, Tracing

_UNPRIVILEGED: MutableObject = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}
# All logs of a node, for reading.
_LOG_VOLUME = {"name": "logs", "hostPath": {"path": LOG_FOLDER, "type": "Directory"}}
_LOG_MOUNT = {"name": "logs", "mountPath": LOG_FOLDER, "readOnly": True}
_OTLP = {"protocols": {"grpc": {"endpoint": "0.0.0.0:4317"}, "http": {"endpoint": "0.0.0.0:4318"}}}
_FLUENT_BIT_FOLDER = "/fluent-bit/configuration"
# Jaeger 2 is a collector with a built-in store.
_JAEGER_STORE: MutableObject = {"backends": {"memory": {"memory": {"max_traces": 100_000}}}}
_JAEGER_QUERY: MutableObject = {"storage": {"traces": "memory"}}


def traces(addons: Addons, wanted: Tracing, served: names.Served) -> t.Iterator[Manifest]:
    """A collector of OTLP, or Jaeger. Raises NotServed."""
    if wanted.backend == "jaeger" and not wanted.image:
        # Kepler's namespace policy refuses pods without it.
        security = {key: _UNPRIVILEGED[key] for key in ("allowPrivilegeEscalation", "capabilities")}
        spec = {"strategy": "allInOne", "containerSecurityContext": security}
        otherwise = ", or set tracing.image to an image of Jaeger 2"
        yield names.manifest(
            addons, served, "Jaeger", "jaeger", "tracing", otherwise=otherwise, spec=spec
        )
        return
    settings: MutableObject = {"endpoint": wanted.endpoint}
    exporter = "otlphttp"
    extensions: MutableObject = {}
    collector: MutableObject = {
        "mode": "deployment",
        "resources": dict(wanted.resources),
        "securityContext": {**_UNPRIVILEGED, "runAsNonRoot": True},
    }
    if wanted.image:
        collector["image"] = wanted.image
    if wanted.backend == "jaeger":
        collector["ports"] = [{"name": "query", "port": 16686, "protocol": "TCP"}]
        extensions = {"jaeger_storage": _JAEGER_STORE, "jaeger_query": _JAEGER_QUERY}
        exporter, settings = "jaeger_storage_exporter", {"trace_storage": "memory"}
    collector["config"] = _configuration(
        "traces", {"otlp": _OTLP}, {exporter: settings}, extensions
    )
    yield _collector(addons, served, "traces", "tracing", collector)


def logs(addons: Addons, wanted: Logging, served: names.Served) -> t.Iterator[Manifest]:
    """A collector of Kepler's logs on each node. Raises NotServed."""
    if wanted.agent == "fluent-bit":
        yield from fluent_bit(addons, wanted)
        return
    spec: MutableObject = {
        "mode": "daemonset",
        "image": wanted.image,
        "resources": dict(wanted.resources),
        "tolerations": [{"operator": "Exists"}],
        # Log files belong to root.
        "podSecurityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "securityContext": _UNPRIVILEGED,
        "volumes": [_LOG_VOLUME],
        "volumeMounts": [_LOG_MOUNT],
    }
    if wanted.credential_secret:
        spec["env"] = _credentials(wanted.credential_secret)
    exporter, settings, extensions = _log_exporter(wanted)
    receiver = {
        "include": [_log_files(addons)],
        "include_file_path": True,
        "start_at": "end",
        "operators": [{"type": "container"}],
    }
    spec["config"] = _configuration("logs", {"filelog": receiver}, {exporter: settings}, extensions)
    otherwise = ", or set logging.agent to fluent-bit, which needs no operator"
    yield _collector(addons, served, "logs", "logging", spec, otherwise)


def _log_files(addons: Addons) -> str:
    """Log files of Kepler's container on a node, without log collectors."""
    return f"{LOG_FOLDER}/{addons.namespace}_{addons.system}-*/kepler/*.log"


def _credentials(secret: str) -> list[MutableObject]:
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
    signal: str, receivers: MutableObject, exporters: MutableObject, extensions: MutableObject
) -> MutableObject:
    parts = {"receivers": receivers, "processors": {"batch": {}}, "exporters": exporters}
    pipeline = {name: list(part) for name, part in parts.items()}
    service: MutableObject = {"pipelines": {signal: pipeline}}
    if not extensions:
        return {**parts, "service": service}
    service["extensions"] = list(extensions)
    return {**parts, "service": service, "extensions": extensions}


def _collector(
    addons: Addons,
    served: names.Served,
    part: str,
    component: str,
    spec: MutableObject,
    otherwise: str = "",
) -> Manifest:
    kind = "OpenTelemetryCollector"
    if served.get(kind, "").endswith("/v1alpha1"):
        spec = {**spec, "config": yaml.safe_dump(spec["config"], sort_keys=False)}
    content = {"managementState": "managed", **spec}
    return names.manifest(addons, served, kind, part, component, otherwise=otherwise, spec=content)


def fluent_bit(addons: Addons, wanted: Logging) -> t.Iterator[Manifest]:
    """Fluent Bit, the agent of add-on logging without an operator."""
    text = yaml.safe_dump(_fluent_bit_configuration(addons, wanted), sort_keys=False)
    labels = names.pod_labels(addons, "logging")
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    template = {
        "metadata": {"labels": labels, "annotations": {HASH_ANNOTATION: digest}},
        "spec": _fluent_bit_pod(addons, wanted),
    }
    data = {"fluent-bit.yaml": text}
    yield names.manifest(addons, {}, "ConfigMap", "logs", "logging", data=data)
    spec = {"selector": {"matchLabels": labels}, "template": template}
    yield names.manifest(addons, {}, "DaemonSet", "logs", "logging", spec=spec)


def _fluent_bit_configuration(addons: Addons, wanted: Logging) -> MutableObject:
    tail = {
        "name": "tail",
        "tag": "kepler",
        "path": _log_files(addons),
        "path_key": "log.file.path",
        "multiline.parser": "cri",
        "mem_buf_limit": "8MB",
        "skip_long_lines": True,
    }
    pipeline = {"inputs": [tail], "outputs": [_fluent_bit_output(wanted)]}
    return {"service": {"flush": 5, "log_level": "info"}, "pipeline": pipeline}


def _fluent_bit_output(wanted: Logging) -> MutableObject:
    url = urllib.parse.urlsplit(wanted.endpoint)
    is_tls = url.scheme == "https"
    found: MutableObject = {
        "match": "*",
        "host": url.hostname,
        "port": url.port or (443 if is_tls else 80),
        "tls": is_tls,
        "tls.verify": True,
    }
    if wanted.backend == "elasticsearch":
        found.update(name="es", index="kepler", suppress_type_name=True)
        found.update({"path": url.path} if url.path else {})
    else:
        found.update(name="loki", uri=f"{url.path}/loki/api/v1/push", labels="job=kepler")
    if wanted.credential_secret:
        found.update(http_user="${LOG_USERNAME}", http_passwd="${LOG_PASSWORD}")
    return found


def _fluent_bit_pod(addons: Addons, wanted: Logging) -> MutableObject:
    container: MutableObject = {
        "name": "fluent-bit",
        "image": wanted.image,
        "args": [f"--config={_FLUENT_BIT_FOLDER}/fluent-bit.yaml"],
        "resources": dict(wanted.resources),
        "securityContext": _UNPRIVILEGED,
        "volumeMounts": [
            _LOG_MOUNT,
            {"name": "configuration", "mountPath": _FLUENT_BIT_FOLDER, "readOnly": True},
        ],
    }
    if wanted.credential_secret:
        container["env"] = _credentials(wanted.credential_secret)
    configuration = {"name": names.object_name(addons, "logs")}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "tolerations": [{"operator": "Exists"}],
        # Log files belong to root.
        "securityContext": {"runAsUser": 0, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [_LOG_VOLUME, {"name": "configuration", "configMap": configuration}],
    }
