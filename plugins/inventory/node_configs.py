# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin node_configs: its documentation, and what ties node_inventory to Ansible."""

from __future__ import annotations

DOCUMENTATION = r"""
name: node_configs
short_description: The nodes of a cluster as hosts, with what their NodeConfigs say
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Makes every Node of a Kubernetes cluster a host, with variables from the Node and from the
    NodeConfig that counts for it.
  - Hosts are in the group O(node_group) and in the groups C(template_<name>), C(rack_<name>) and
    C(architecture_<name>), as far as these are known. Characters that no group may have become
    underscores.
  - A host has C(ansible_host), the internal address of the node, where that is an IP address of
    another machine than the controller. It also has C(node_name), C(node_labels),
    C(node_annotations), C(node_taints), C(node_unschedulable), C(node_ready), C(node_architecture),
    C(node_operating_system), C(node_capacity), C(node_allocatable) and C(node_rack).
  - With a NodeConfig it also has C(node_config_namespace), C(node_config_name),
    C(node_config_template), C(node_config_spec), C(node_config_ready) and
    C(node_config_readings), the readings in its status.
  - A variable of one text is not set where there is nothing to say. No variable is ever templated,
    whatever stands in the cluster. No Secret is read.
  - A Node or NodeConfig that cannot be read is left out with a warning, and so is a Node that is
    named localhost while there is no O(name_prefix).
  - The name of the file must end in C(node_configs.yml) or C(node_configs.yaml).
options:
  plugin:
    description: The name of this plugin.
    type: str
    required: true
    choices:
      - wattwise.kube.node_configs
  node_group:
    description: Group of all hosts that this file makes.
    type: str
    default: nodes
  name_prefix:
    description:
      - Text before the name of every host, so that nodes of several clusters can have equal names.
    type: str
    default: ""
  node_selector:
    description: Label selector in Kubernetes' text form. Only nodes that it selects become hosts.
    type: str
  configured_only:
    description: Whether nodes without a NodeConfig are left out.
    type: bool
    default: false
  rack_labels:
    description: Labels of nodes that name their rack. The first that a node bears counts.
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
# inventory/hall-1.node_configs.yml: the nodes that have a NodeConfig, read anew after ten minutes
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
# inventory/by_heat.node_configs.yml: groups and variables of one's own
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
    """The value with every text marked that ansible-core before 2.19 would take for a template.

    People who may write to the cluster must not be able to run anything here.
    """
    if isinstance(value, dict):
        return {key: _never_templated(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_never_templated(member) for member in value]
    return wrap_var(value) if isinstance(value, str) and "{" in value else value


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]  # ansible-core has no types
    """Hosts from Nodes."""

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
        """Nodes and NodeConfigs, from the cache where it has them and may be used."""
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
