# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Agent pods of a Provisioning: their Deployment, and the names of those that live."""

from __future__ import annotations

import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import member, text

Object = dict[str, t.Any]

AGENT_LABEL = "bpa.akraino.org/agents-of"
MOST_PODS = 1000
_ENDED = ("Succeeded", "Failed")


def deployment_name(name: str) -> str:
    """The Deployment of a Provisioning's agents."""
    return f"{name}-agents"


def selector(name: str) -> dict[str, str]:
    """The labels of the agents. Values have 63 characters at most, names of resources more."""
    return {AGENT_LABEL: name[:63].rstrip("-.")}


def deployment(
    name: str, namespace: str, replicas: int, image: str, command: t.Sequence[str], account: str
) -> Object:
    """The Deployment of the agents, without rights on their nodes."""
    labels = selector(name)
    names = {"PROVISIONING_NAME": name, "PROVISIONING_NAMESPACE": namespace}
    container: Object = {
        "name": "agent",
        "image": image,
        "env": [{"name": key, "value": value} for key, value in names.items()],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "resources": {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    if command:
        container["command"] = list(command)
    pod: Object = {
        "automountServiceAccountToken": bool(account),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}],
    }
    if account:
        pod["serviceAccountName"] = account
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": deployment_name(name), "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def agent_names(pods: t.Sequence[t.Any]) -> list[str]:
    """Names of the pods that live: neither ended nor about to."""
    names = [
        text(member(pod, "metadata", "name"))
        for pod in pods
        if member(pod, "status", "phase") not in _ENDED
        and not member(pod, "metadata", "deletionTimestamp")
    ]
    return sorted(filter(None, names))[:MOST_PODS]
