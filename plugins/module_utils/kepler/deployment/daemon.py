# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The pods of collectors: one DaemonSet and one ConfigMap for each group of nodes."""

from __future__ import annotations

import hashlib
import typing as t

from ...base import strict_json
from ...base.json_types import MutableObject
from ...base.manifests import Manifest
from . import configuration, names
from .groups import Group
from .system import ModelPart, System

_CREDENTIALS = "/etc/redfish"


def manifests(system: System, group: Group) -> list[Manifest]:
    """Configuration and DaemonSet of a group."""
    name = names.daemon_set_name(system, group)
    data = configuration.files(system, group.collector, group.meter)
    text = strict_json.format_compact(data, sort_keys=True)
    labels = {**names.pod_labels(system), names.GROUP_LABEL: group.name}
    template = {
        "metadata": {
            "labels": labels,
            "annotations": {
                names.HASH_ANNOTATION: hashlib.sha256(text.encode()).hexdigest()[:16],
                "kubectl.kubernetes.io/default-container": "kepler",
            },
        },
        "spec": _pod(system, group, name),
    }
    spec = {
        "selector": {"matchLabels": labels},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
        "template": template,
    }
    return [
        names.manifest(system, "v1", "ConfigMap", name, data=data),
        names.manifest(system, "apps/v1", "DaemonSet", name, spec=spec),
    ]


def _pod(system: System, group: Group, configuration_name: str) -> MutableObject:
    is_old = system.version.uses_ebpf
    volumes = list(_volumes(system, configuration_name))
    container = (_old_container if is_old else _container)(system, group)
    container["volumeMounts"] = [each.mount for each in volumes]
    sidecars = []
    if system.estimator.enabled:
        shared = [each.mount for each in volumes if each.name in ("configuration", "tmp")]
        sidecars.append(_estimator(system.estimator, shared))
    required = {"nodeSelectorTerms": list(group.terms)}
    pod: MutableObject = {
        "serviceAccountName": system.name,
        "automountServiceAccountToken": system.is_cluster_wide,
        "enableServiceLinks": False,
        "hostPID": True,
        **({"nodeSelector": dict(system.node_selector)} if system.node_selector else {}),
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "tolerations": [dict(each) for each in group.collector.tolerations],
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container, *sidecars],
        "volumes": [{"name": each.name, **each.source} for each in volumes],
    }
    if system.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in system.pull_secrets]
    return pod


class _Volume(t.NamedTuple):
    """A volume of the pod, and its folder in the collector."""

    name: str
    folder: str
    source: MutableObject

    @property
    def mount(self) -> MutableObject:
        mount = {"name": self.name, "mountPath": self.folder}
        return mount if "emptyDir" in self.source else {**mount, "readOnly": True}


def _volumes(system: System, configuration_name: str) -> t.Iterator[_Volume]:
    is_old = system.version.uses_ebpf
    root = "" if is_old else "/host"
    for name in ("sys", "proc"):
        yield _Volume(name, f"{root}/{name}", _host(f"/{name}"))
    if is_old:
        yield _Volume("lib-modules", "/lib/modules", _host("/lib/modules"))
        yield _Volume("usr-src", "/usr/src", _host("/usr/src", "DirectoryOrCreate"))
    folder = configuration.OLD_FOLDER if is_old else configuration.FOLDER
    yield _Volume("configuration", folder, {"configMap": {"name": configuration_name}})
    if system.has_tls:
        source = _secret(system.server_secret, "tls.crt", "tls.key")
        yield _Volume("tls", configuration.TLS_FOLDER, source)
    if system.security_mode == "mtls":
        source = _secret(system.client_authority_secret, "ca.crt")
        yield _Volume("client-authority", configuration.CLIENT_AUTHORITY_FOLDER, source)
    if system.redfish_secret:
        key = "redfish.csv" if is_old else "redfish.yaml"
        folder = _CREDENTIALS if is_old else configuration.REDFISH_FOLDER
        yield _Volume("redfish", folder, _secret(system.redfish_secret, key))
    if system.estimator.enabled:
        # For the socket of the estimator.
        yield _Volume("tmp", "/tmp", {"emptyDir": {"sizeLimit": "16Mi"}})


def _host(path: str, kind: str = "Directory") -> MutableObject:
    return {"hostPath": {"path": path, "type": kind}}


def _secret(name: str, *keys: str) -> MutableObject:
    items = [{"key": key, "path": key} for key in keys]
    return {"secret": {"secretName": name, "items": items, "defaultMode": 0o400}}


def _container(system: System, group: Group) -> MutableObject:
    return {
        **_common(system, group),
        "command": ["/usr/bin/kepler"],
        "args": [
            f"--config.file={configuration.FOLDER}/config.yaml",
            *(["--kube.enable"] if system.is_cluster_wide else []),
            "--kube.node-name=$(NODE_NAME)",
        ],
        "securityContext": {
            "privileged": False,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            # Energy counters need root, and programs of other users SYS_PTRACE.
            "runAsUser": 0,
            "runAsNonRoot": False,
            "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]},
            # The profiles of container runtimes forbid reading /proc of outer processes.
            "appArmorProfile": {"type": "Unconfined"},
        },
        # Kepler answers / while its metrics fail.
        **_probes(system, "/metrics"),
    }


def _old_container(system: System, group: Group) -> MutableObject:
    flags = ["-v=$(KEPLER_LOG_LEVEL)"]
    if system.redfish_secret:
        flags.append(f"-redfish-cred-file-path={_CREDENTIALS}/redfish.csv")
    common = _common(system, group)
    level = {"name": names.daemon_set_name(system, group), "key": "KEPLER_LOG_LEVEL"}
    environment = [
        *common["env"],
        {"name": "KEPLER_LOG_LEVEL", "valueFrom": {"configMapKeyRef": level}},
        {"name": "NODE_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
    ]
    return {
        **common,
        "command": ["/usr/bin/kepler"],
        "args": flags,
        "env": environment,
        "securityContext": {"privileged": True, "runAsUser": 0},
        **_probes(system, "/healthz"),
    }


def _common(system: System, group: Group) -> MutableObject:
    node_name = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
    return {
        "name": "kepler",
        "image": system.image_for(group.architecture),
        "imagePullPolicy": system.pull_policy,
        "env": [{"name": "NODE_NAME", "valueFrom": node_name}],
        "ports": [{"name": system.port_name, "containerPort": system.port, "protocol": "TCP"}],
        "resources": dict(group.collector.resources),
        # The status shows it as the reason of an ended collector.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probes(system: System, path: str) -> MutableObject:
    port = system.port_name
    get = {"path": path, "port": port, "scheme": port.upper()}
    probe: MutableObject = {"httpGet": get, "timeoutSeconds": 5}
    if system.security_mode == "mtls":
        # The kubelet has no client certificate.
        probe = {"tcpSocket": {"port": port}}
    return {
        "livenessProbe": {**probe, "initialDelaySeconds": 10, "periodSeconds": 60},
        "readinessProbe": {**probe, "periodSeconds": 10},
    }


def _estimator(part: ModelPart, mounts: list[MutableObject]) -> MutableObject:
    return {
        "name": "estimator",
        "image": part.image,
        "command": list(part.command),
        "resources": dict(part.resources),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
