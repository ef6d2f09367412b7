#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module redfish_hardware_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_hardware_info
short_description: Read processors, memory, network adapters, disks and PCI devices of many hosts
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the hardware of each host from the Redfish services of many BMCs concurrently. No
    operating system has to run on the hosts, and none of them is changed.
  - The resources are C(Systems), C(Processors), C(Memory), C(PCIeDevices), C(NetworkAdapters),
    C(EthernetInterfaces), C(Storage) and C(Bios), and the places of the same facts at Dell, HPE,
    Lenovo and Supermicro.
  - A fact that the BMC does not tell is null, which does not mean no.
  - A target with a defective resource has its other facts in RV(hardware) and the reason in
    RV(errors). It counts as failed.
  - A BMC gets between 10 and 150 requests, one after another. Set O(timeout) to 60 seconds or more
    for BMCs that cannot expand collections.
  - A BMC of several servers is an error, unless the endpoint ends in the path of one of them, such
    as C(https://10.0.0.9/redfish/v1/Systems/2).
  - With O(snapshot) the BMCs are the Redfish endpoints of C(inletTemp) in the NodeConfigs.
extends_documentation_fragment:
  - wattwise.kube.targets.bmc
  - wattwise.kube.targets.authentication
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
"""

EXAMPLES = r"""
- name: Read one host
  wattwise.kube.redfish_hardware_info:
    targets:
      - name: host-1
        endpoint: https://10.0.0.101
        username: monitor
        password: "{{ vault_bmc_password }}"
        tls_fingerprint:
          - 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    timeout: 60
  register: found

- name: Name the hosts with a network adapter for SR-IOV and the switch on
  ansible.builtin.debug:
    msg: "{{ item.name }}"
  loop: "{{ found.hardware }}"
  loop_control:
    label: "{{ item.name }}"
  when:
    - item.sriov_enabled is true
    - item.network_interfaces | selectattr('can_sriov', 'sameas', true) | length > 0

- name: Read every host of a cluster from its NodeConfigs and Secrets
  wattwise.kube.redfish_hardware_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    ca_path: /etc/wattwise/bmc-ca.pem
    min_success: 0.9

- name: Read the hosts of two halls with the same options
  module_defaults:
    group/wattwise.kube.wattwise:
      ca_path: /etc/wattwise/bmc-ca.pem
      timeout: 120
      concurrency: 32
  block:
    - name: Read hall 1
      wattwise.kube.redfish_hardware_info:
        targets: "{{ hall_1_bmcs }}"
        credentials: "{{ hall_1_credentials }}"

    - name: Read hall 2
      wattwise.kube.redfish_hardware_info:
        targets: "{{ hall_2_bmcs }}"
        credentials: "{{ hall_2_credentials }}"
"""

RETURN = r"""
hardware:
  description: Hardware of each host whose BMC answered, in the order of the input. An unknown fact
    is null.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: host-1
    endpoint:
      description: Endpoint of the target.
      type: str
      sample: https://10.0.0.101
    system_uri:
      description: Resource of the computer system.
      type: str
      sample: /redfish/v1/Systems/System.Embedded.1
    manufacturer:
      description: Manufacturer of the server.
      type: str
      sample: Dell Inc.
    product:
      description: Model of the server.
      type: str
      sample: PowerEdge R6515
    serial_number:
      description: Serial number of the server; the service tag of Dell's servers.
      type: str
      sample: 7XK2LM3
    is_on:
      description: Whether the host is powered on.
      type: bool
      sample: true
    rack:
      description: Rack in the location of the chassis.
      type: str
      sample: r1
    processors:
      description: All processors of the host together.
      type: dict
      contains:
        count:
          description: Hardware threads, as Ironic counts; cores if the BMC tells no threads.
          type: int
          sample: 128
        cores:
          description: Cores.
          type: int
          sample: 64
        sockets:
          description: Processors.
          type: int
          sample: 1
        model:
          description: Model of the first processor.
          type: str
          sample: AMD EPYC 7702P
        architecture:
          description: Architecture as Linux names it, such as V(x86_64) or V(aarch64).
          type: str
          sample: x86_64
    memory_mib:
      description: Memory, in MiB.
      type: int
      sample: 262144
    network_interfaces:
      description: Network ports with a MAC address, in the natural order of their names.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the port.
          type: str
          sample: NIC.Slot.1-1
        mac:
          description: MAC address, with lower-case letters and colons.
          type: str
          sample: 0c:42:a1:00:00:01
        ip:
          description: Address, if the BMC knows it.
          type: str
          sample: 10.0.0.1
        ip6:
          description: IPv6 address of a port whose C(ip) is of IPv4, if the BMC knows it.
          type: str
          sample: 2001:db8::1
        pci_id:
          description: PCI identifier of the adapter, vendor and device.
          type: str
          sample: 8086:1572
        gigabits:
          description: Speed of the link, in Gbit/s.
          type: float
          sample: 10.0
        boots:
          description: Whether the port boots from the network (PXE).
          type: bool
          sample: true
        can_sriov:
          description: Whether the adapter has virtual functions, by the BMC or its PCI identifier.
          type: bool
          sample: true
    disks:
      description: Disks, in the natural order of their names.
      type: list
      elements: dict
      contains:
        name:
          description: Name of the disk.
          type: str
          sample: Disk.Bay.0
        size_bytes:
          description: Capacity, in bytes.
          type: int
          sample: 1600321314816
        kind:
          description: V(HDD), V(SSD) or V(NVME).
          type: str
          sample: NVME
    pci_devices:
      description: Functions on the PCI bus except network ports.
      type: list
      elements: dict
      contains:
        pci_id:
          description: Vendor and device.
          type: str
          sample: 8086:37c8
        name:
          description: Name of the device.
          type: str
          sample: C62x Chipset QuickAssist Technology
    has_qat:
      description: Whether the host has Intel QuickAssist. It is false only if the BMC lists the
        whole PCI bus, because most BMCs list adapters alone.
      type: bool
      sample: true
    gpus:
      description: Number of GPUs, without the graphics of the BMC.
      type: int
      sample: 0
    sriov_enabled:
      description: Whether SR-IOV is switched on in the BIOS.
      type: bool
      sample: true
    findings:
      description: Sentences about facts that the BMC tells wrongly.
      type: list
      elements: str
      sample: []
authentication:
  description: Nodes whose account was refused, and nodes whose account is accepted again, for
    O(authentication) of the next module that asks the same machines; see
    RV(wattwise.kube.redfish_thermal_info#module:authentication).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample: []
errors:
  description: Targets without a complete result, in the form of
    RV(wattwise.kube.redfish_thermal_info#module:errors).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: host-7
      endpoint: https://10.0.0.107
      reason: timeout
      detail: >-
        no answer to GET /redfish/v1/Systems/1/Storage within 10 s for the whole target; check its
        load, or raise timeout
"""

import os

from ..module_utils.fleet.credentials import with_environment
from ..module_utils.hosts import redfish_hardware
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(redfish_hardware.SPEC, with_environment(redfish_hardware.read_hardware, os.environ))


if __name__ == "__main__":
    main()
