# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""All objects of a KeplerSystem, in the namespace and outside of it."""

from __future__ import annotations

import typing as t

from ...base.fields.lenient import member
from ...base.json_types import MutableObject
from ...base.manifests import Manifest, manifest_of
from . import configuration, daemon, names, policy
from .groups import Group
from .system import System

_RBAC = "rbac.authorization.k8s.io"
SCC = ("security.openshift.io/v1", "SecurityContextConstraints")
# Kinds that an earlier run of a system may have made, and a later one may not want.
PRUNED_KINDS = (
    ("v1", "ConfigMap"),
    ("v1", "Service"),
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
)


def namespace(system: System, is_openshift: bool) -> Manifest:
    """The namespace, which allows pods with processes and folders of the host."""
    labels = {
        f"pod-security.kubernetes.io/{mode}": "privileged" for mode in ("enforce", "audit", "warn")
    }
    if is_openshift:
        labels["security.openshift.io/scc.podSecurityLabelSync"] = "false"
    return manifest_of("v1", "Namespace", system.namespace, labels=labels)


def in_namespace(system: System, groups: t.Sequence[Group]) -> list[Manifest]:
    """The objects that the owner owns."""
    found = [
        names.manifest(
            system, "v1", "ServiceAccount", system.name, automountServiceAccountToken=False
        ),
        _service(system),
        _network_policy(system),
    ]
    for group in groups:
        found += daemon.manifests(system, group)
    if system.model_server.enabled:
        found += _model_server(system)
    return found


def of_cluster(system: System, is_openshift: bool) -> list[Manifest]:
    """The wanted objects outside of the namespace, without the policy."""
    found = _permissions(system) if system.is_cluster_wide else []
    if is_openshift:
        found.append(_security_context_constraints(system))
    return found


def obsolete_permissions(system: System) -> list[Manifest]:
    """The obsolete permissions of another scope; none if the scope needs them."""
    if system.is_cluster_wide:
        return []
    return [
        names.cluster_manifest(system, f"{_RBAC}/v1", kind)
        for kind in ("ClusterRoleBinding", "ClusterRole")
    ]


def all_of_cluster(namespace: str, name: str, is_openshift: bool) -> list[Manifest]:
    """Kind and name of all possible objects of a system outside of the namespace."""
    kinds = [
        (f"{_RBAC}/v1", "ClusterRoleBinding"),
        (f"{_RBAC}/v1", "ClusterRole"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"),
        ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"),
        *([SCC] if is_openshift else []),
    ]
    return [manifest_of(*kind, names.cluster_name(namespace, name)) for kind in kinds]


def _service(system: System) -> Manifest:
    port = {"name": system.port_name, "targetPort": system.port_name, "protocol": "TCP"}
    ports = [{**port, "port": system.port}]
    spec = {"clusterIP": "None", "selector": names.pod_labels(system), "ports": ports}
    found = names.manifest(system, "v1", "Service", system.name, spec=spec)
    # A monitor distinguishes it from the model server's Service by this label.
    found["metadata"]["labels"][names.COMPONENT_LABEL] = "collector"
    return found


def _network_policy(system: System) -> Manifest:
    """Ingress only from scrapers; no egress unless needed."""
    rule: MutableObject = {"ports": [{"port": system.port, "protocol": "TCP"}]}
    if system.scrape_namespaces:
        wanted = {
            "key": "kubernetes.io/metadata.name",
            "operator": "In",
            "values": sorted(set(system.scrape_namespaces)),
        }
        rule["from"] = [{"namespaceSelector": {"matchExpressions": [wanted]}}]
    spec: MutableObject = {
        "podSelector": {"matchLabels": names.pod_labels(system)},
        "policyTypes": ["Ingress"],
        "ingress": [rule],
    }
    is_closed = not (
        system.is_cluster_wide
        or system.redfish_secret
        or system.model_server.enabled
        or system.estimator.enabled
    )
    if is_closed:
        spec["policyTypes"].append("Egress")
    return names.manifest(system, "networking.k8s.io/v1", "NetworkPolicy", system.name, spec=spec)


def _permissions(system: System) -> list[Manifest]:
    """The permission to read the names of pods.

    The other informer looks up the kubelet's address in the Node. The permission to get
    nodes/proxy, which it needs too, also allows commands in pods.
    """
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    if system.pod_informer == "kubelet":
        rules = [{"apiGroups": [""], "resources": ["nodes", "nodes/proxy"], "verbs": ["get"]}]
    role = {
        "apiGroup": _RBAC,
        "kind": "ClusterRole",
        "name": names.cluster_name(system.namespace, system.name),
    }
    account = {"kind": "ServiceAccount", "name": system.name, "namespace": system.namespace}
    return [
        names.cluster_manifest(system, f"{_RBAC}/v1", "ClusterRole", rules=rules),
        names.cluster_manifest(
            system, f"{_RBAC}/v1", "ClusterRoleBinding", roleRef=role, subjects=[account]
        ),
    ]


def _security_context_constraints(system: System) -> Manifest:
    is_old = system.version.uses_ebpf
    return names.cluster_manifest(
        system,
        *SCC,
        allowPrivilegedContainer=is_old,
        allowPrivilegeEscalation=is_old,
        allowHostDirVolumePlugin=True,
        allowHostIPC=False,
        allowHostNetwork=False,
        allowHostPID=True,
        allowHostPorts=False,
        allowedCapabilities=list(policy.CAPABILITIES),
        requiredDropCapabilities=[] if is_old else ["ALL"],
        readOnlyRootFilesystem=not is_old,
        runAsUser={"type": "RunAsAny"},
        seLinuxContext={"type": "RunAsAny"},
        fsGroup={"type": "RunAsAny"},
        supplementalGroups={"type": "RunAsAny"},
        seccompProfiles=["runtime/default"],
        volumes=["configMap", "emptyDir", "hostPath", "projected", "secret"],
        users=[f"system:serviceaccount:{system.namespace}:{system.name}"],
    )


def _model_server(system: System) -> list[Manifest]:
    name, labels = names.model_server_name(system), names.pod_labels(system, "model-server")
    port = configuration.MODEL_SERVER_PORT
    deployment = {
        "replicas": 1,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": _model_pod(system)},
    }
    ports = [{"name": "http", "port": port, "targetPort": "http", "protocol": "TCP"}]
    callers = {"podSelector": {"matchLabels": names.pod_labels(system)}}
    admitted = {"from": [callers], "ports": [{"port": port, "protocol": "TCP"}]}
    reached = {
        "podSelector": {"matchLabels": labels},
        "policyTypes": ["Ingress"],
        "ingress": [admitted],
    }
    service = {"selector": labels, "ports": ports}
    return [
        names.manifest(system, "apps/v1", "Deployment", name, spec=deployment),
        names.manifest(system, "v1", "Service", name, spec=service),
        names.manifest(system, "networking.k8s.io/v1", "NetworkPolicy", name, spec=reached),
    ]


def _model_pod(system: System) -> MutableObject:
    part, port = system.model_server, configuration.MODEL_SERVER_PORT
    # Models may fill what the container may use.
    size = member(part.resources, "limits", "ephemeral-storage")
    container = {
        "name": "model-server",
        "image": part.image,
        "command": list(part.command),
        "ports": [{"name": "http", "containerPort": port, "protocol": "TCP"}],
        "resources": dict(part.resources),
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "readinessProbe": {"tcpSocket": {"port": "http"}},
        "volumeMounts": [{"name": "models", "mountPath": "/mnt"}],
    }
    return {
        "automountServiceAccountToken": False,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [container],
        "volumes": [{"name": "models", "emptyDir": {"sizeLimit": size} if size else {}}],
    }
