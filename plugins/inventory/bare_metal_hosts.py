# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin bare_metal_hosts: its documentation, and the adapter of host_inventory."""

from __future__ import annotations

DOCUMENTATION = r"""
name: bare_metal_hosts
short_description: BareMetalHosts of a cluster as hosts, grouped by state, rack and capability
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Creates a host for every BareMetalHost (C(metal3.io/v1alpha1)) of a Kubernetes cluster with
    Metal3, with variables from its specification, its inspected hardware and its labels.
  - C(HostHardware) (C(bpa.akraino.org/v1alpha1)) completes the hardware of the host with its name,
    where host agents wrote it. It counts for the UID and the BMC that it names, and replaces facts
    of an inspection that ended earlier. It never supplies MAC or IP addresses. Without the
    permission to list it, the plugin warns and goes on.
  - Each host is in the group O(host_group) and in the groups C(state_<state>), C(rack_<name>) and
    C(architecture_<name>), as far as known. Characters that are invalid in group names become
    underscores.
  - The group C(sriov) has the hosts with a network adapter for SR-IOV, unless the switch in their
    BIOS is known as off; C(qat) has those with Intel QuickAssist and C(gpu) those with a GPU. A
    host without this fact is in none of these groups.
  - Hosts are named C(<namespace>.<name>), and C(<name>) if O(namespaces) has a single entry.
  - C(ansible_host) is the inspected address of the port that the host boots from, else of its first
    port with one. It is set if it is an IP address of another machine than the controller.
  - Further variables are C(host_name), C(host_namespace), C(host_labels), C(host_annotations),
    C(host_state), C(host_operational_status), C(host_error_message), C(host_online),
    C(host_consumer) (kind, namespace and name), C(host_bmc_address), C(host_boot_mac),
    C(host_rack), C(host_processors), C(host_memory_mib), C(host_network_interfaces),
    C(host_disks), C(host_pci_devices), C(host_has_qat), C(host_gpus), C(host_sriov_enabled),
    C(host_manufacturer), C(host_product) and C(host_serial_number).
  - Members of these variables have the names and units of the result
    RV(wattwise.kube.redfish_hardware_info#module:hardware).
  - Variables without a value are not set, because unknown differs from no. No variable is ever
    templated. No Secret is read.
  - An unreadable fact is left out with a warning. Other hosts are not affected. A BareMetalHost
    without a usable name is left out.
  - The labels, or annotations, C(wattwise.github.io/rack), C(wattwise.github.io/sriov),
    C(wattwise.github.io/qat), C(wattwise.github.io/gpus) and the annotation
    C(wattwise.github.io/pci-devices) overrule all other facts.
  - The file name must end in C(bare_metal_hosts.yml) or C(bare_metal_hosts.yaml).
options:
  plugin:
    description: Name of this plugin.
    type: str
    required: true
    choices:
      - wattwise.kube.bare_metal_hosts
  host_group:
    description: Group of all hosts of this file.
    type: str
    default: bare_metal_hosts
  name_prefix:
    description:
      - Prefix of all host names. Set it where hosts of several clusters have equal names.
    type: str
    default: ""
  namespaces:
    description: Namespaces of the BareMetalHosts. All namespaces by default.
    type: list
    elements: str
    default: []
  host_selector:
    description:
      - Label selector, in Kubernetes' text form, of the BareMetalHosts that become hosts. All of
        them by default.
    type: str
  rack_labels:
    description: Labels with the rack, in order of precedence.
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
# inventory/bare_metal_hosts.yml: the hosts of the cluster of the default kubeconfig
plugin: wattwise.kube.bare_metal_hosts

---
# inventory/hall-1.bare_metal_hosts.yml: hosts of one namespace, read again after ten minutes
plugin: wattwise.kube.bare_metal_hosts
kubeconfig: ~/.kube/management
namespaces:
  - hall-1
name_prefix: hall-1-
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/wattwise/inventory
cache_timeout: 600

---
# inventory/free.bare_metal_hosts.yml: custom groups and variables
plugin: wattwise.kube.bare_metal_hosts
host_selector: hall in (hall-1, hall-2)
compose:
  ansible_user: "'ops'"
  memory_gib: host_memory_mib // 1024
groups:
  free: host_state == 'available' and host_consumer is not defined
  qat_unknown: host_has_qat is not defined
keyed_groups:
  - key: host_product
    prefix: product
"""

import typing as t

from ..module_utils.hosts import host_inventory
from ..module_utils.kube.client import Kube
from ..module_utils.nodeconfig.inventory_hosts import InventoryHosts
from ..plugin_utils.cluster_inventory import ClusterInventory, Json


class InventoryModule(ClusterInventory):
    """Inventory hosts from BareMetalHosts."""

    NAME = "wattwise.kube.bare_metal_hosts"
    FILE_NAMES = ("bare_metal_hosts.yml", "bare_metal_hosts.yaml")
    GROUP_OPTION = "host_group"
    READING_OPTIONS = ("namespaces", "host_selector")

    def read(self, connection: t.Mapping[str, t.Any]) -> Json:
        return host_inventory.read_objects(
            Kube.connect(connection),
            self.get_option("namespaces"),
            self.get_option("host_selector"),
            self._warn,
        )

    def hosts_of(self, read: Json) -> InventoryHosts:
        return host_inventory.inventory_hosts(
            read["hosts"],
            self.get_option("rack_labels"),
            self.get_option("name_prefix"),
            told=read["told"],
            one_namespace=len(self.get_option("namespaces")) == 1,
        )
