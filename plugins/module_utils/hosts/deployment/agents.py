# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Agent pods of a Provisioning: their Deployment, and the names of live pods."""

from __future__ import annotations

import hashlib
import typing as t
from dataclasses import dataclass

from ...base.fields.lenient import member, text
from ...base.json_types import MutableObject
from ...base.manifests import manifest_of

# In the image of operator/Dockerfile.
PROGRAM = "host-agent"
AGENT_LABEL = "bpa.akraino.org/agents-of"
MAX_PODS = 1000
# The environment of the agents.
NAME_VARIABLE, NAMESPACE_VARIABLE = "PROVISIONING_NAME", "PROVISIONING_NAMESPACE"
HOST_NAMESPACES_VARIABLE = "HOST_NAMESPACES"
# Longer than agents wait for running requests to BMCs.
_GRACE_SECONDS = 75
_RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
_RESOURCES = {
    "requests": {"cpu": "10m", "memory": "64Mi", "ephemeral-storage": "32Mi"},
    # Logs and the volume.
    "limits": {"memory": "256Mi", "ephemeral-storage": "256Mi"},
}
_MAX_VALUE_LENGTH = 63
_ENDED = ("Succeeded", "Failed")


def deployment_name(name: str) -> str:
    """The Deployment of a Provisioning's agents."""
    return f"{name}-agents"


def selector(name: str) -> dict[str, str]:
    """The labels of the agents. Values have 63 characters at most, names of resources more."""
    if len(name) > _MAX_VALUE_LENGTH:
        # Another long name may have the same beginning.
        digest = hashlib.sha256(name.encode()).hexdigest()[:16]
        name = f"{name[: _MAX_VALUE_LENGTH - len(digest) - 1]}-{digest}"
    return {AGENT_LABEL: name}


@dataclass(frozen=True)
class AgentPods:
    """Pods that run ``command`` of an image, or its own; ``account`` is a ServiceAccount or empty.

    ``host_namespaces`` are the namespaces of BareMetalHosts; all if empty.
    """

    replicas: int
    image: str
    command: t.Sequence[str] = ()
    account: str = ""
    host_namespaces: t.Sequence[str] = ()


def deployment(name: str, namespace: str, wanted: AgentPods) -> MutableObject:
    """The Deployment of the agents, without permissions on their nodes."""
    labels, account = selector(name), wanted.account
    names = {
        NAME_VARIABLE: name,
        NAMESPACE_VARIABLE: namespace,
        HOST_NAMESPACES_VARIABLE: ",".join(wanted.host_namespaces),
    }
    container: MutableObject = {
        "name": "agent",
        "image": wanted.image,
        "env": [{"name": key, "value": value} for key, value in names.items() if value],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": _RESTRICTED,
        "resources": _RESOURCES,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if wanted.command:
        container["command"] = list(wanted.command)
    pod: MutableObject = {
        "automountServiceAccountToken": bool(account),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }
    if account:
        pod["serviceAccountName"] = account
    spec = {
        "replicas": wanted.replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    place = (deployment_name(name), namespace)
    return manifest_of("apps/v1", "Deployment", *place, labels, spec=spec)


def agent_names(pods: t.Sequence[t.Any]) -> list[str]:
    """Names of live pods, neither ended nor terminating."""
    names = [
        text(member(pod, "metadata", "name"))
        for pod in pods
        if member(pod, "status", "phase") not in _ENDED
        and not member(pod, "metadata", "deletionTimestamp")
    ]
    return sorted(filter(None, names))[:MAX_PODS]
