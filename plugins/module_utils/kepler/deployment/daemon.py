# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The pods of collectors: one DaemonSet and one ConfigMap for each group of nodes."""

from __future__ import annotations

import hashlib

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
    container = (_old_container if is_old else _container)(system, group)
    sidecars = [_estimator(system.estimator)] if system.estimator.enabled else []
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
        "volumes": [
            *_host_volumes(is_old),
            {"name": "configuration", "configMap": {"name": configuration_name}},
            *_secret_volumes(system),
            # For the socket of the estimator.
            *([{"name": "tmp", "emptyDir": {"sizeLimit": "16Mi"}}] if sidecars else []),
        ],
    }
    if system.pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in system.pull_secrets]
    return pod


def _container(system: System, group: Group) -> MutableObject:
    mounts = [
        {"name": "sys", "mountPath": "/host/sys", "readOnly": True},
        {"name": "proc", "mountPath": "/host/proc", "readOnly": True},
        {"name": "configuration", "mountPath": configuration.FOLDER, "readOnly": True},
    ]
    folders = {
        "tls": configuration.TLS_FOLDER,
        "client-authority": configuration.CLIENT_AUTHORITY_FOLDER,
        "redfish": configuration.REDFISH_FOLDER,
    }
    for volume in _secret_volumes(system):
        mount = {"name": volume["name"], "mountPath": folders[volume["name"]], "readOnly": True}
        mounts.append(mount)
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
        "volumeMounts": mounts,
    }


def _old_container(system: System, group: Group) -> MutableObject:
    flags = ["-v=$(KEPLER_LOG_LEVEL)"]
    mounts = [
        {"name": "sys", "mountPath": "/sys", "readOnly": True},
        {"name": "proc", "mountPath": "/proc", "readOnly": True},
        {"name": "lib-modules", "mountPath": "/lib/modules", "readOnly": True},
        {"name": "usr-src", "mountPath": "/usr/src", "readOnly": True},
        {"name": "configuration", "mountPath": configuration.OLD_FOLDER, "readOnly": True},
    ]
    if system.redfish_secret:
        flags.append(f"-redfish-cred-file-path={_CREDENTIALS}/redfish.csv")
        mounts.append({"name": "redfish", "mountPath": _CREDENTIALS, "readOnly": True})
    if system.estimator.enabled:
        mounts.append({"name": "tmp", "mountPath": "/tmp"})
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
        "volumeMounts": mounts,
    }


def _common(system: System, group: Group) -> MutableObject:
    node_name = {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}
    port_name = "https" if system.has_tls else "http"
    return {
        "name": "kepler",
        "image": system.image_for(group.architecture),
        "imagePullPolicy": system.pull_policy,
        "env": [{"name": "NODE_NAME", "valueFrom": node_name}],
        "ports": [{"name": port_name, "containerPort": system.port, "protocol": "TCP"}],
        "resources": dict(group.collector.resources),
        # The status shows it as the reason of an ended collector.
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _probes(system: System, path: str) -> MutableObject:
    asked = _probe(system, path)
    return {
        "livenessProbe": {**asked, "initialDelaySeconds": 10, "periodSeconds": 60},
        "readinessProbe": {**asked, "periodSeconds": 10},
    }


def _probe(system: System, path: str) -> MutableObject:
    port = "https" if system.has_tls else "http"
    if system.security_mode == "mtls":
        # The kubelet has no client certificate.
        return {"tcpSocket": {"port": port}}
    get = {"path": path, "port": port, "scheme": port.upper()}
    return {"httpGet": get, "timeoutSeconds": 5}


def _estimator(part: ModelPart) -> MutableObject:
    return {
        "name": "estimator",
        "image": part.image,
        "command": list(part.command),
        "resources": dict(part.resources),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "configuration", "mountPath": configuration.OLD_FOLDER, "readOnly": True},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }


def _host_volumes(is_old: bool) -> list[MutableObject]:
    found = [
        {"name": "sys", "hostPath": {"path": "/sys", "type": "Directory"}},
        {"name": "proc", "hostPath": {"path": "/proc", "type": "Directory"}},
    ]
    if is_old:
        modules, sources = "/lib/modules", "/usr/src"
        found += [
            {"name": "lib-modules", "hostPath": {"path": modules, "type": "Directory"}},
            {"name": "usr-src", "hostPath": {"path": sources, "type": "DirectoryOrCreate"}},
        ]
    return found


def _secret_volumes(system: System) -> list[MutableObject]:
    found: list[MutableObject] = []
    if system.has_tls:
        found.append(_secret("tls", system.server_secret, "tls.crt", "tls.key"))
    if system.security_mode == "mtls":
        found.append(_secret("client-authority", system.client_authority_secret, "ca.crt"))
    if system.redfish_secret:
        key = "redfish.csv" if system.version.uses_ebpf else "redfish.yaml"
        found.append(_secret("redfish", system.redfish_secret, key))
    return found


def _secret(volume: str, name: str, *keys: str) -> MutableObject:
    items = [{"key": key, "path": key} for key in keys]
    return {"name": volume, "secret": {"secretName": name, "items": items, "defaultMode": 0o400}}
