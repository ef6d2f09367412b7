# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The nodes of a cluster as inventory hosts, with variables from their NodeConfigs."""

from __future__ import annotations

import functools
import typing as t

from ..base.boundary import InvalidField, read_noting, shown, subject_of
from ..base.fields import strict
from ..base.fields.strict import is_subdomain
from ..base.json_types import Object
from . import nodeconfig
from .inventory_hosts import (
    InventoryHost,
    InventoryHosts,
    address_of_machine,
    group_names,
    known,
    require_name_of_a_host,
)

_ADDRESSES = "status.addresses"
_RDT_LABEL = "feature.node.kubernetes.io/cpu-rdt."
_METER_LABEL = "wattwise.github.io/kepler-meter"
_NO_METER = "none"


def node_hosts(
    snapshot: Object,
    rack_labels: t.Sequence[str],
    configured_only: bool = False,
    name_prefix: str = "",
) -> InventoryHosts:
    """The nodes of a snapshot as hosts.

    Variables without a value are left out, except mappings and lists. The effective NodeConfig of a
    node counts. An unreadable Node gives no host.
    """
    found = nodeconfig.effective(snapshot.get("node_configs") or [])
    findings = list(found.findings)
    hosts: dict[str, InventoryHost] = {}
    for index, node in enumerate(snapshot["nodes"]):
        subject = subject_of(node, "Node", f"nodes[{index}]")
        config = found.by_node.get(subject.name)
        if configured_only and config is None:
            continue
        make = functools.partial(_host, node, config, rack_labels, name_prefix)
        host = read_noting(subject, make, findings)
        if host is None:
            continue
        hosts[subject.name] = host
        address = read_noting(subject, functools.partial(_usable_address, node), findings)
        if address is not None:
            host.variables["ansible_host"] = address
    return InventoryHosts([hosts[name] for name in sorted(hosts)], findings)


def _host(
    node: t.Any, config: t.Optional[Object], rack_labels: t.Sequence[str], name_prefix: str
) -> InventoryHost:
    metadata = strict.with_readable_metadata(node)["metadata"]
    name = metadata["name"]
    if not is_subdomain(name):
        raise InvalidField("metadata.name", f"{shown(name)} is not the name of a Node")
    require_name_of_a_host(name_prefix + name)
    labels = metadata.get("labels") or {}
    rack = next((labels[label] for label in rack_labels if labels.get(label)), None)
    variables = {**_node_variables(name, node, labels), "node_rack": rack}
    if config is not None:
        variables.update(_config_variables(config))
    meter = labels.get(_METER_LABEL)
    groups = (
        ("rack", rack),
        ("architecture", variables["node_architecture"]),
        ("template", variables.get("node_config_template")),
        ("meter", None if meter == _NO_METER else meter),
    )
    return InventoryHost(
        name_prefix + name, known(variables), (*group_names(groups), *_rdt_groups(labels))
    )


def _rdt_groups(labels: Object) -> tuple[str, ...]:
    """``rdt`` and one group for each feature of Intel RDT that Node Feature Discovery saw."""
    features = [
        label[len(_RDT_LABEL) :].lower()
        for label, value in labels.items()
        if label.startswith(_RDT_LABEL) and value == "true"
    ]
    return ("rdt", *(f"rdt_{feature}" for feature in sorted(features))) if features else ()


def _node_variables(name: str, node: Object, labels: Object) -> dict[str, t.Any]:
    spec = strict.mapping(node.get("spec"), "spec")
    status = strict.mapping(node.get("status"), "status")
    info = strict.mapping(status.get("nodeInfo"), "status.nodeInfo")
    conditions = strict.mappings(status.get("conditions"), "status.conditions")
    annotations = strict.text_mapping(node["metadata"].get("annotations"), "metadata.annotations")
    return {
        "node_name": name,
        "node_labels": dict(labels),
        "node_annotations": annotations,
        "node_taints": strict.mappings(spec.get("taints"), "spec.taints"),
        "node_unschedulable": bool(spec.get("unschedulable")),
        "node_ready": any(
            item.get("type") == "Ready" and item.get("status") == "True" for item in conditions
        ),
        **{
            f"node_{variable}": strict.text(info.get(key), f"status.nodeInfo.{key}") or None
            for variable, key in (
                ("architecture", "architecture"),
                ("operating_system", "operatingSystem"),
            )
        },
        "node_capacity": strict.text_mapping(status.get("capacity"), "status.capacity"),
        "node_allocatable": strict.text_mapping(status.get("allocatable"), "status.allocatable"),
    }


def _usable_address(node: Object) -> str | None:
    """The first internal IPv4 address, else the first internal IPv6 address. Raises InvalidField.

    A kubelet may report any text as an address, and ssh treats some texts as options.
    """
    status = strict.mapping(node.get("status"), "status")
    entries = strict.mappings(status.get("addresses"), _ADDRESSES)
    internal = [item.get("address") for item in entries if item.get("type") == "InternalIP"]
    usable = [address for address in map(address_of_machine, internal) if address is not None]
    if internal and not usable:
        raise InvalidField(_ADDRESSES, f"{shown(internal[0])} is not an address of a host")
    best = next((address for address in usable if address.version == 4), next(iter(usable), None))
    return None if best is None else str(best)


def _config_variables(config: Object) -> dict[str, t.Any]:
    status = config.get("status") or {}
    ready = [
        item.get("status") for item in status.get("conditions") or [] if item.get("type") == "Ready"
    ]
    return {
        "node_config_namespace": config["metadata"].get("namespace"),
        "node_config_name": config["metadata"]["name"],
        "node_config_template": nodeconfig.template_name(config),
        "node_config_spec": dict(config["spec"]),
        "node_config_ready": ready == ["True"],
        "node_config_readings": dict(status.get("readings") or {}),
    }
