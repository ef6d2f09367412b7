# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin node_configs: its documentation, and the adapter of node_inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_configs
short_description: Nodes of a cluster as hosts, with variables from their NodeConfigs
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Creates a host for every Node of a Kubernetes cluster, with variables from the Node and its
    effective NodeConfig.
  - Each host is in the group O(node_group) and in the groups C(template_<name>), C(rack_<name>) and
    C(architecture_<name>), as far as known. Characters that are invalid in group names become
    underscores.
  - Nodes whose processor has Intel RDT by the labels of Node Feature Discovery
    (C(feature.node.kubernetes.io/cpu-rdt.RDTL3CA) and the like) are in the groups C(rdt) and
    C(rdt_<feature>), such as C(rdt_rdtl3ca) for cache allocation in the L3 cache.
  - Nodes that Kepler can meter, by the label C(wattwise.github.io/kepler-meter), are in the group
    C(meter_<meter>), such as C(meter_rapl).
  - C(ansible_host) is the internal address of the node; it is set if it is an IP address of another
    machine than the controller. Further variables are C(node_name), C(node_labels),
    C(node_annotations), C(node_taints), C(node_unschedulable), C(node_ready), C(node_architecture),
    C(node_operating_system), C(node_capacity), C(node_allocatable) and C(node_rack).
  - Variables from the NodeConfig are C(node_config_namespace), C(node_config_name),
    C(node_config_template), C(node_config_spec), C(node_config_ready) and C(node_config_readings)
    (the readings in its status).
  - Text variables without a value are not set. No variable is ever templated. No Secret is read.
  - A Node or NodeConfig that cannot be read is left out with a warning. Without O(name_prefix) this
    also holds for a Node with the name localhost.
  - The file name must end in C(node_configs.yml) or C(node_configs.yaml).
options:
  plugin:
    description: Name of this plugin.
    type: str
    required: true
    choices:
      - wattwise.kube.node_configs
  node_group:
    description: Group of all hosts of this file.
    type: str
    default: nodes
  name_prefix:
    description:
      - Prefix of all host names. Set it where nodes of several clusters have equal names.
    type: str
    default: ""
  node_selector:
    description:
      - Label selector, in Kubernetes' text form, of the nodes that become hosts. All nodes by
        default.
    type: str
  configured_only:
    description: Whether to leave out nodes without a NodeConfig.
    type: bool
    default: false
  rack_labels:
    description: Node labels with the rack, in order of precedence.
    type: list
    elements: str
    default:
      - wattwise.github.io/rack
      - topology.kubernetes.io/zone
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
"""

EXAMPLES = r"""
# inventory/node_configs.yml: the cluster of the default kubeconfig
plugin: wattwise.kube.node_configs

---
# inventory/hall-1.node_configs.yml: nodes with a NodeConfig, read again after ten minutes
plugin: wattwise.kube.node_configs
kubeconfig: ~/.kube/hall-1
name_prefix: hall-1-
node_group: hall_1
configured_only: true
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/wattwise/inventory
cache_timeout: 600

---
# inventory/by_heat.node_configs.yml: custom groups and variables
plugin: wattwise.kube.node_configs
node_selector: "!node-role.kubernetes.io/control-plane"
compose:
  ansible_user: "'ops'"
  rack_unit: node_labels['wattwise.github.io/rack-unit']
groups:
  hot: node_config_readings.inletTemp.celsius | default(0) > 27
  unread: not node_config_ready | default(false)
keyed_groups:
  - key: node_labels['node.kubernetes.io/instance-type']
    prefix: type
"""

import typing as t

from ..module_utils.nodeconfig import node_inventory
from ..module_utils.nodeconfig.inventory_hosts import InventoryHosts
from ..module_utils.snapshot import snapshot
from ..plugin_utils.cluster_inventory import ClusterInventory, Json


class InventoryModule(ClusterInventory):
    """Inventory hosts from Nodes."""

    NAME = "wattwise.kube.node_configs"
    FILE_NAMES = ("node_configs.yml", "node_configs.yaml")
    GROUP_OPTION = "node_group"
    READING_OPTIONS = ("node_selector",)

    def read(self, connection: t.Mapping[str, t.Any]) -> Json:
        selector = self.get_option("node_selector")
        parameters = {
            **connection,
            "include": ["nodes", "node_configs"],
            "selectors": {"nodes": selector} if selector else {},
        }
        return snapshot.take(parameters)["snapshot"]

    def hosts_of(self, read: Json) -> InventoryHosts:
        return node_inventory.node_hosts(
            read,
            self.get_option("rack_labels"),
            self.get_option("configured_only"),
            self.get_option("name_prefix"),
        )
