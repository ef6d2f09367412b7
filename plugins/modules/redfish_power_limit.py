#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module redfish_power_limit."""

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_power_limit
short_description: Read, set and remove the power limits of many machines
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads, sets and removes the power limits of whole servers, in watts, by the Redfish services of
    many BMCs concurrently.
  - The limit is at the first of these places that the BMC has. They are Dell's attributes
    C(ServerPwr.1.PowerCapSetting) and C(ServerPwr.1.PowerCapValue), a C(Control) of the power of the
    chassis, C(PowerLimitWatts) of its C(EnvironmentMetrics), and C(PowerLimit) of the server's
    C(PowerControl). Limits of processors, memory and other parts are never changed.
  - A limit outside of the bounds of the BMC is an error before anything is sent. After a change, the
    limit is read until it is the desired one.
  - A limit whose C(LimitException) is C(HardPowerOff) is not set, because the machine would lose its
    power above it. On a Dell, only the attributes count.
options:
  state:
    description:
      - V(present) sets O(limit_watts), and only reads the limits of machines without one. V(absent)
        removes the limits.
    type: str
    default: present
    choices:
      - present
      - absent
  limit_watts:
    description:
      - Power limit of each machine without O(targets[].limit_watts), in W, above 0.
    type: float
  timeout:
    description:
      - Seconds in which the limit of each machine must be the desired one.
    type: float
    default: 60.0
extends_documentation_fragment:
  - wattwise.kube.targets.bmc_to_limit
  - wattwise.kube.targets.authentication
  - wattwise.kube.targets.power_account
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
notes:
  - Many BMCs need a licence for power limits. Some have them only while the machine is on.
  - By the roles of Redfish, an Operator may switch a machine, and only an Administrator may limit it.
"""

EXAMPLES = r"""
- name: Read the limits of a cluster
  wattwise.kube.redfish_power_limit:
    snapshot: /var/lib/wattwise/run/snapshot.json
  register: power

- name: Limit two machines
  wattwise.kube.redfish_power_limit:
    limit_watts: 450
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
        credential: monitor
        power_credential: administrator
      - name: node-2
        endpoint: https://10.0.0.102
        credential: monitor
        power_credential: administrator
        limit_watts: 600
    credentials:
      monitor:
        username: monitor
        password: "{{ vault_bmc_password }}"
      administrator:
        username: administrator
        password: "{{ vault_bmc_administrator_password }}"
    ca_path: /etc/wattwise/bmc-ca.pem

- name: Remove the limits of one hall
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
      node_selector: topology.kubernetes.io/zone=hall-2
  block:
    - name: Remove the limits
      wattwise.kube.redfish_power_limit:
        state: absent
"""

RETURN = r"""
limits:
  description: Limit of each machine that has a place for one, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    action:
      description:
        - V(set), V(removed), V(none) or V(failed). In check mode the action that would be taken.
      type: str
      sample: set
    changed:
      description: Whether the BMC accepted a change, or would get one in check mode.
      type: bool
      sample: true
    limit_watts:
      description: Limit in force, in W; null without one.
      type: float
      sample: 450.0
    previous_limit_watts:
      description: Limit before, in W; null without one.
      type: float
      sample: null
    min_watts:
      description: Least limit that the BMC allows, in W; null if it does not say.
      type: float
      sample: 380.0
    max_watts:
      description: Highest limit that the BMC allows, in W; null if it does not say.
      type: float
      sample: 1030.0
    place:
      description:
        - V(dell_attributes), V(control), V(environment_metrics) or V(power_control).
      type: str
      sample: dell_attributes
    uri:
      description: Resource of the limit.
      type: str
      sample: /redfish/v1/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/System.Embedded.1
authentication:
  description: Nodes whose account for reading was refused, and nodes whose account is accepted
    again, for O(authentication) of the next module that asks the same machines; see
    RV(wattwise.kube.redfish_thermal_info#module:authentication).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample: []
errors:
  description:
    - Targets without a complete result, in the form of
      RV(wattwise.kube.redfish_thermal_info#module:errors).
    - V(timeout) is also one of the limit. Further reasons are V(refused) (by the BMC) and
      V(conflict) (another machine, or one in two targets).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: node-7
      endpoint: https://10.0.0.107
      reason: refused
      detail: >-
        the limit 100 W is outside of the bounds of /redfish/v1/Chassis/chassis/EnvironmentMetrics,
        200 to 1200 W, so that nothing was sent; give a limit within them
"""

import os

from ..module_utils.fleet.credentials import with_environment
from ..module_utils.module_runner import run_module
from ..module_utils.redfish.power_control import limiting


def main() -> None:
    run_module(limiting.SPEC, with_environment(limiting.limit_power, os.environ))


if __name__ == "__main__":
    main()
