#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module redfish_power_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_power_info
short_description: Read the power states of many machines from their BMCs
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the power state, the offered reset types and the identity of each machine from the Redfish
    services of many BMCs concurrently.
  - A machine takes one request if O(targets[].system) names its computer system, else three or four.
extends_documentation_fragment:
  - wattwise.kube.targets.bmc_with_system
  - wattwise.kube.targets.authentication
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
"""

EXAMPLES = r"""
- name: Read the power states of two machines
  wattwise.kube.redfish_power_info:
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
        credential: hall-2
      - name: node-2
        endpoint: https://10.0.0.102
        credential: hall-2
    credentials:
      hall-2:
        username: monitor
        password: "{{ vault_bmc_password }}"
    ca_path: /etc/wattwise/bmc-ca.pem
  register: power

- name: Read one of them again with one request
  wattwise.kube.redfish_power_info:
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
        username: monitor
        password: "{{ vault_bmc_password }}"
        system: "{{ power.states[0].system }}"

- name: Read the power states of a whole cluster
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
  block:
    - name: Read the power states
      wattwise.kube.redfish_power_info:
        min_success: 0.9
"""

RETURN = r"""
states:
  description: State of each machine that answered, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    power_state:
      description: V(On), V(Off), V(PoweringOn), V(PoweringOff) or V(Paused).
      type: str
      sample: "On"
    system:
      description: Path of the computer system, for O(targets[].system) of the next run.
      type: str
      sample: /redfish/v1/Systems/System.Embedded.1
    reset_types:
      description:
        - Reset types that the system offers now; null if the BMC lists them in another resource, or
          not at all.
      type: list
      elements: str
      sample: ["ForceOff", "GracefulShutdown", "On"]
    serial_number:
      description: Serial number; the service tag of a Dell is another one and also accepted.
      type: str
      sample: CN7XK2LM300A
    system_uuid:
      description: UUID of the system.
      type: str
      sample: 4c4c4544-0058-4b10-8032-b7c04f4c4d33
    vendor:
      description: Manufacturer from the BMC.
      type: str
      sample: Dell Inc.
    model:
      description: Model from the BMC.
      type: str
      sample: PowerEdge R650
    power_restore_policy:
      description:
        - State after a loss of supply, such as V(AlwaysOn), which wakes machines that were switched
          off.
      type: str
      sample: LastState
authentication:
  description: Nodes whose account for reading was refused, and nodes whose account is accepted
    again, for O(authentication) of the next module that asks the same machines; see
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
    - name: node-7
      endpoint: https://10.0.0.107
      reason: unreachable
      detail: cannot connect (Connection refused); check address, power and network of the machine
"""

import os

from ..module_utils.fleet.credentials import with_environment
from ..module_utils.module_runner import run_module
from ..module_utils.redfish.power_control import info


def main() -> None:
    run_module(info.SPEC, with_environment(info.read_power, os.environ))


if __name__ == "__main__":
    main()
