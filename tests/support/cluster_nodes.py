# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes of one test on a real API server, with a taint that other tests' pods do not tolerate."""

from __future__ import annotations

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import ApiError
from ansible_collections.wattwise.kube.plugins.module_utils.kube.client import Kube
from lab.process import wait_until


def make_node(kube: Kube, name: str, namespace: str, **resources: str) -> None:
    taint = {"key": "test", "value": namespace, "effect": "NoSchedule"}
    resources = {"cpu": "4", "memory": "8Gi", "pods": "10", **resources}
    body = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"test": namespace}},
        "spec": {"taints": [taint]},
        "status": {"allocatable": resources, "capacity": resources},
    }
    kube.request("POST", "/api/v1/nodes", body)
    wait_until(lambda: is_ready(kube, name), 30.0, f"node {name} to be ready")


def is_ready(kube: Kube, name: str) -> bool:
    """Whether the node is ready and has lost its initial taint, which a controller removes."""
    node = kube.get(f"/api/v1/nodes/{name}")
    conditions = {item["type"]: item["status"] for item in node["status"].get("conditions", [])}
    keys = [taint["key"] for taint in node["spec"].get("taints", [])]
    return conditions.get("Ready") == "True" and keys == ["test"]


def remove(kube: Kube, path: str) -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    try:
        kube.request("DELETE", path, body)
    except ApiError as error:
        if error.status != 404:
            raise
