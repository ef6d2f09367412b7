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

import hashlib
import json
import typing as t

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import KUBERNETES
from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import warn_of
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import Context
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import WattwiseError
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig import node_inventory
from ansible_collections.wattwise.kube.plugins.module_utils.snapshot import snapshot
from ansible_collections.wattwise.kube.plugins.plugin_utils.options import checked_options

FILE_NAMES = ("node_configs.yml", "node_configs.yaml")


def _never_templated(value: t.Any) -> t.Any:
    """The value with its texts marked as unsafe that ansible-core before 2.19 would template.

    Writers of the cluster must not be able to run code on the controller.
    """
    if isinstance(value, dict):
        return {key: _never_templated(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_never_templated(member) for member in value]
    return wrap_var(value) if isinstance(value, str) and "{" in value else value


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]  # ansible-core has no types
    """Inventory hosts from Nodes."""

    NAME = "wattwise.kube.node_configs"

    def verify_file(self, path: str) -> bool:
        return bool(super().verify_file(path)) and path.endswith(FILE_NAMES)

    def parse(self, inventory: t.Any, loader: t.Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        try:
            found = node_inventory.node_hosts(
                self._read_cluster(path, cache),
                self.get_option("rack_labels"),
                self.get_option("configured_only"),
                self.get_option("name_prefix"),
            )
        except WattwiseError as error:
            raise AnsibleParserError(f"{path}: {error}") from error
        warn_of(found.findings, Context(warn=self._warn))
        group = self._sanitize_group_name(self.get_option("node_group"))
        self.inventory.add_group(group)
        for host in found.hosts:
            self._add(host, group)

    def _warn(self, sentence: str) -> None:
        self.display.warning(sentence)

    def _add(self, host: node_inventory.NodeHost, group: str) -> None:
        name = host.name
        self.inventory.add_host(name, group=group)
        for item in host.groups:
            self.inventory.add_host(
                name, group=self.inventory.add_group(self._sanitize_group_name(item))
            )
        variables = _never_templated(host.variables)
        for key, value in variables.items():
            self.inventory.set_variable(name, key, value)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict)
        known = {**variables, **self.inventory.get_host(name).get_vars()}
        self._add_host_to_composed_groups(self.get_option("groups"), known, name, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), known, name, strict)

    def _read_cluster(self, path: str, cache: bool) -> t.Mapping[str, t.Any]:
        """Nodes and NodeConfigs, from a valid cache if allowed."""
        given = {name: self.get_option(name) for name in KUBERNETES.options}
        connection = checked_options(KUBERNETES, given)
        selector = self.get_option("node_selector")
        asked = json.dumps([connection, selector], sort_keys=True, default=str)
        key = f"{self.get_cache_key(path)}_{hashlib.sha256(asked.encode()).hexdigest()[:16]}"
        if cache and self.get_option("cache") and key in self._cache:
            return t.cast("t.Mapping[str, t.Any]", self._cache[key])
        parameters = {
            **connection,
            "include": ["nodes", "node_configs"],
            "selectors": {"nodes": selector} if selector else {},
        }
        taken = snapshot.take(parameters)["snapshot"]
        if self.get_option("cache"):
            self._cache[key] = taken
        return t.cast("t.Mapping[str, t.Any]", taken)
