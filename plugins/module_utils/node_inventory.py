# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The nodes of a cluster as hosts of an inventory, with what their NodeConfigs say of them."""

from __future__ import annotations

import ipaddress
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils import nodeconfig

Object = t.Mapping[str, t.Any]


@dataclass(frozen=True)
class NodeHost:
    """One host. Group names are as the cluster has them and may need to be cleaned."""

    name: str
    variables: dict[str, t.Any]
    groups: tuple[str, ...]


def node_hosts(
    snapshot: Object, rack_labels: t.Sequence[str], configured_only: bool = False
) -> list[NodeHost]:
    """The nodes of a snapshot in the order of their names.

    Variables that have nothing to say are left out, except mappings and lists. Of several
    NodeConfigs of a node the one that counts is told.
    """
    configs = nodeconfig.effective(snapshot.get("node_configs") or []).by_node
    nodes = {node["metadata"]["name"]: node for node in snapshot["nodes"]}
    return [
        _host(name, nodes[name], configs.get(name), rack_labels)
        for name in sorted(nodes)
        if name in configs or not configured_only
    ]


def _host(
    name: str, node: Object, config: t.Optional[Object], rack_labels: t.Sequence[str]
) -> NodeHost:
    labels = node["metadata"].get("labels") or {}
    rack = next((labels[label] for label in rack_labels if labels.get(label)), None)
    variables = {**_node_variables(name, node, labels), "node_rack": rack}
    if config is not None:
        variables.update(_config_variables(config))
    groups = (
        ("rack", rack),
        ("architecture", variables["node_architecture"]),
        ("template", variables.get("node_config_template")),
    )
    return NodeHost(
        name,
        {key: value for key, value in variables.items() if value is not None},
        tuple(f"{kind}_{value}" for kind, value in groups if value),
    )


def _node_variables(name: str, node: Object, labels: Object) -> dict[str, t.Any]:
    spec, status = node.get("spec") or {}, node.get("status") or {}
    info = status.get("nodeInfo") or {}
    conditions = status.get("conditions") or []
    return {
        "ansible_host": _internal_ip(status.get("addresses") or []),
        "node_name": name,
        "node_labels": dict(labels),
        "node_annotations": dict(node["metadata"].get("annotations") or {}),
        "node_taints": list(spec.get("taints") or []),
        "node_unschedulable": bool(spec.get("unschedulable")),
        "node_ready": any(
            item.get("type") == "Ready" and item.get("status") == "True" for item in conditions
        ),
        "node_architecture": info.get("architecture"),
        "node_operating_system": info.get("operatingSystem"),
        "node_capacity": dict(status.get("capacity") or {}),
        "node_allocatable": dict(status.get("allocatable") or {}),
    }


def _internal_ip(addresses: t.Sequence[Object]) -> str | None:
    """The first internal IPv4 address, else the first internal one."""
    internal = [str(entry["address"]) for entry in addresses if entry["type"] == "InternalIP"]
    return next(filter(_is_ipv4, internal), next(iter(internal), None))


def _is_ipv4(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).version == 4
    except ValueError:
        return False


def _config_variables(config: Object) -> dict[str, t.Any]:
    status = config.get("status") or {}
    ready = [item["status"] for item in status.get("conditions") or [] if item["type"] == "Ready"]
    return {
        "node_config_namespace": config["metadata"].get("namespace"),
        "node_config_name": config["metadata"]["name"],
        "node_config_template": nodeconfig.template_name(config),
        "node_config_spec": dict(config["spec"]),
        "node_config_ready": ready == ["True"],
        "node_config_readings": dict(status.get("readings") or {}),
    }
