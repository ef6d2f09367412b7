# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Objects of an assignment in the cluster: ConfigMap, installer Job, labels for Metal3."""

from __future__ import annotations

import typing as t

from ...base.boundary import InvalidField, shown
from ...base.fields.strict import is_subdomain
from ...base.json_types import MutableObject
from ...redfish.hardware.facts import host_address
from ..addresses import inventory_name
from ..provisioning import Request
from ..roles.assignment import Assigned
from ..roles.availability import CLUSTER_LABEL, ROLE_LABEL
from .ssh import SECRET_KEY, SSH_ARGUMENTS

# "kud-" before the name and "-configmap" behind it; a label's value and a Job have 63 characters.
_MAX_CLUSTER_LENGTH = 50
_ROLE_VALUES = {"master": "control-plane", "worker": "worker"}
_HOSTS_FILE, _KNOWN_HOSTS_FILE = "hosts.ini", "known_hosts"
_KEY_FILE = "id_rsa"
_RESOURCES = {
    "requests": {"cpu": "100m", "memory": "256Mi", "ephemeral-storage": "256Mi"},
    # The volume, the image's temporary files and logs. Processor time and memory depend on the number
    # of hosts.
    "limits": {"ephemeral-storage": "4Gi"},
}
_FOLDER, _SSH = "/opt/kud/multi-cluster", "/.ssh"


def cluster_name(value: t.Any, path: str) -> str:
    """A name that objects of the cluster and labels may have. Raises InvalidField."""
    if not is_subdomain(value) or "." in value or len(value) > _MAX_CLUSTER_LENGTH:
        raise InvalidField(
            path,
            f"{shown(value)} cannot be the name of a cluster; write at most {_MAX_CLUSTER_LENGTH} "
            "lower-case letters, digits and hyphens",
        )
    return str(value)


def config_map(assignments: t.Sequence[Assigned], cluster: str, namespace: str) -> MutableObject:
    """The ConfigMap that the BPA operator makes for a cluster: addresses by role and label."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(f"{cluster}-configmap", cluster, namespace),
        "data": {
            f"{each.role.upper()}_{inventory_name(each.label, 'label')}": host_address(
                each.ip, f"{each.label}.ip"
            )
            for each in assignments
            if each.ip is not None
        },
    }


def _metadata(name: str, cluster: str, namespace: str) -> MutableObject:
    metadata: MutableObject = {"name": name, "labels": {"cluster": cluster}}
    return {**metadata, "namespace": namespace} if namespace else metadata


def host_labels(assignments: t.Sequence[Assigned], cluster: str) -> list[MutableObject]:
    """The labels by which Metal3 finds the hosts of a cluster; master precedes worker."""
    found: dict[tuple[str, str], MutableObject] = {}
    for each in assignments:
        labels = {CLUSTER_LABEL: cluster, ROLE_LABEL: _ROLE_VALUES[each.role]}
        entry = {"host": each.host.name, "namespace": each.host.namespace, "labels": labels}
        found.setdefault((each.host.namespace, each.host.name), entry)
    return list(found.values())


def cluster_api_values(
    assignments: t.Sequence[Assigned], request: Request, cluster: str
) -> MutableObject:
    """The values of ICN's chart ``cluster`` that an assignment decides."""
    roles = [entry["labels"][ROLE_LABEL] for entry in host_labels(assignments, cluster)]
    values: MutableObject = {
        "clusterName": cluster,
        "numControlPlaneMachines": roles.count(_ROLE_VALUES["master"]),
        "numWorkerMachines": roles.count(_ROLE_VALUES["worker"]),
        "controlPlaneHostSelector": _selector(cluster, "master"),
        "workersHostSelector": _selector(cluster, "worker"),
    }
    if request.pod_subnet is not None:
        values["podCidrBlocks"] = [str(request.pod_subnet)]
    if request.service_subnet is not None:
        values["serviceCidrBlocks"] = [str(request.service_subnet)]
    return values


def _selector(cluster: str, role: str) -> MutableObject:
    return {"matchLabels": {CLUSTER_LABEL: cluster, ROLE_LABEL: _ROLE_VALUES[role]}}


def installer_files(
    cluster: str, namespace: str, inventory: str, known_hosts: str
) -> MutableObject:
    """The ConfigMap that installer_job mounts."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": _metadata(f"kud-{cluster}", cluster, namespace),
        "data": {_HOSTS_FILE: inventory, _KNOWN_HOSTS_FILE: known_hosts},
    }


def installer_job(request: Request, cluster: str, namespace: str, image: str) -> MutableObject:
    """The Job ``kud-<cluster>``: without permissions on its node or in the cluster.

    The installer reads ``--plugins`` as its third argument only, and has no ``--network``: the
    subnet is in the inventory. It finds inventory and key in the folders of the original.
    """
    name = f"kud-{cluster}"
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "containers": [_installer(request, cluster, image)],
        "volumes": _volumes(name, request.ssh.secret_name or "ssh-key-secret"),
    }
    template = {"metadata": {"labels": {"cluster": cluster}}, "spec": pod}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": _metadata(name, cluster, namespace),
        "spec": {"backoffLimit": 0, "template": template},
    }


def _installer(request: Request, cluster: str, image: str) -> MutableObject:
    plugins = ["--plugins", *request.plugins] if request.plugins else []
    folder = f"{_FOLDER}/{cluster}"
    environment = {
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_PRIVATE_KEY_FILE": f"{_SSH}/{_KEY_FILE}",
        "ANSIBLE_SSH_ARGS": f"{SSH_ARGUMENTS} -o UserKnownHostsFile={_SSH}/{_KNOWN_HOSTS_FILE}",
    }
    return {
        "name": "installer",
        "image": image,
        "command": ["./installer"],
        "args": ["--cluster", cluster, *plugins],
        "env": [{"name": name, "value": value} for name, value in environment.items()],
        "volumeMounts": [
            {"name": "work", "mountPath": folder},
            {"name": "files", "mountPath": f"{folder}/{_HOSTS_FILE}", "subPath": _HOSTS_FILE},
            {"name": "ssh", "mountPath": _SSH, "readOnly": True},
        ],
        "resources": _RESOURCES,
        # The status shows the end of the log after a failure.
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }


def _volumes(files: str, secret: str) -> list[MutableObject]:
    key = {"name": secret, "items": [{"key": SECRET_KEY, "path": _KEY_FILE}]}
    known = {"name": files, "items": [{"key": _KNOWN_HOSTS_FILE, "path": _KNOWN_HOSTS_FILE}]}
    sources = [{"secret": key}, {"configMap": known}]
    return [
        {"name": "work", "emptyDir": {"sizeLimit": "2Gi"}},
        {"name": "files", "configMap": {"name": files}},
        {"name": "ssh", "projected": {"defaultMode": 0o400, "sources": sources}},
    ]
