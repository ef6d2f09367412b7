#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module redfish_power."""

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_power
short_description: Switch machines on and off by their BMCs
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Brings many machines to a power state concurrently, by the Redfish services of their BMCs, and
    waits until each has it.
  - A machine that has the state gets no request. A machine that is about to reach a state is waited
    for. One machine never gets two actions at once, even if two targets lead to it.
  - The reset type is one that the BMC offers. It is C(On) to switch on, C(GracefulShutdown) or
    C(ForceOff) to switch off, or Fujitsu's own values. If the BMC does not offer it, the target is
    an error that names the offered types, and no other type is sent.
  - An accepted request is not a switched machine. Only the power state ends the work, seen twice. A
    refusal with HTTP 409 or 400 may mean that the machine has the state, which is read again. A BMC
    that is busy is asked again. A machine that does not reach the state in time is an error with
    the requests, the answers and the states that were seen.
  - A machine that Metal3 manages is switched by C(spec.online) of its BareMetalHost, because Metal3
    undoes everything else. RV(results[].by) says who switched.
options:
  state:
    description:
      - Desired power state. V(cycle) switches the machine off and on again. A machine that is off
        is then only switched on.
    type: str
    required: true
    choices:
      - "on"
      - "off"
      - cycle
  mode:
    description:
      - How a machine is switched off. V(graceful) asks its operating system to shut down, and never
        forces. V(graceful_then_force) forces the machine off after O(graceful_timeout), or if the
        BMC cannot ask. V(force) removes the power at once.
      - Metal3 decides by itself, and forces after its own time.
    type: str
    default: graceful
    choices:
      - graceful
      - graceful_then_force
      - force
  graceful_timeout:
    description:
      - Seconds for the shutdown before V(graceful_then_force) forces the machine off. Must be less
        than O(timeout).
    type: float
    default: 180.0
  timeout:
    description:
      - Seconds in which each machine must have the state, from the first look at it. With V(cycle)
        both directions count.
      - A group default of this name for the reading modules is too short for a shutdown.
    type: float
    default: 300.0
  wait:
    description:
      - Whether the module waits until the machine has the state. If V(false), the acceptance of
        the last request is enough.
    type: bool
    default: true
extends_documentation_fragment:
  - wattwise.kube.targets.bmc_to_switch
  - wattwise.kube.targets.authentication
  - wattwise.kube.targets.power_account
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
attributes:
  check_mode:
    description: Can run in C(check_mode) and returns the changes that it would make.
    support: full
  diff_mode:
    description: Returns the objects before and after the change when in diff mode.
    support: full
  idempotent:
    description: Has the same effect when run again; the second run changes nothing.
    support: partial
    details:
      - O(state=cycle) switches in each run.
notes:
  - Machines of Metal3 need the permissions to get and patch BareMetalHosts, and Secrets of
    NodeConfigs the permission to get them.
  - O(concurrency) is also the number of machines that start at the same time. Lower it where the
    supply of a rack does not bear many at once.
"""

EXAMPLES = r"""
- name: Shut down one machine, if it is the right one
  wattwise.kube.redfish_power:
    state: "off"
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
        credential: monitor
        power_credential: operator
        serial_number: 7XK2LM3
    credentials:
      monitor:
        username: monitor
        password: "{{ vault_bmc_password }}"
      operator:
        username: operator
        password: "{{ vault_bmc_operator_password }}"
    ca_path: /etc/wattwise/bmc-ca.pem

- name: Shut down the machines of one rack, and force those that hang after five minutes
  wattwise.kube.redfish_power:
    state: "off"
    mode: graceful_then_force
    graceful_timeout: 300
    timeout: 420
    snapshot: /var/lib/wattwise/run/snapshot.json
    node_selector: topology.kubernetes.io/rack=r7

- name: Show which machines would be switched on
  wattwise.kube.redfish_power:
    state: "on"
    snapshot: /var/lib/wattwise/run/snapshot.json
  check_mode: true
  diff: true

- name: Wake four machines at a time
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
      concurrency: 4
  block:
    - name: Switch the machines on
      wattwise.kube.redfish_power:
        state: "on"
        timeout: 600
        on_error: fail
"""

RETURN = r"""
results:
  description: Result of each machine that answered, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    by:
      description:
        - V(redfish) for the BMC, V(metal3) for C(spec.online) of the BareMetalHost.
      type: str
      sample: redfish
    action:
      description:
        - V(switched_on), V(switched_off), V(cycled), V(none) for a machine that had the state, or
          V(failed). In check mode the action that would be taken.
      type: str
      sample: switched_off
    changed:
      description: Whether a request took effect, or would in check mode.
      type: bool
      sample: true
    previous_power_state:
      description:
        - V(On), V(Off), V(PoweringOn), V(PoweringOff) or V(Paused) before; null if the BMC does not
          say.
      type: str
      sample: "On"
    power_state:
      description: The last state that was seen; in check mode the expected one.
      type: str
      sample: "Off"
    requests:
      description: Requests that were sent, with the answers.
      type: list
      elements: dict
      contains:
        parameter:
          description: V(ResetType), V(FTSResetType) (Fujitsu) or V(spec.online) (Metal3).
          type: str
          sample: ResetType
        value:
          description: Value of the parameter.
          type: str
          sample: GracefulShutdown
        answer:
          description: Status and messages of the BMC.
          type: str
          sample: HTTP 204
        seconds:
          description: Time of the request, in seconds after the first look.
          type: float
          sample: 0.0
    system:
      description: Path of the computer system, for O(targets[].system); null for Metal3.
      type: str
      sample: /redfish/v1/Systems/System.Embedded.1
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
    - V(timeout) is also one of the machine. Further reasons are V(refused) (by the BMC) and
      V(conflict) (another machine, or one in two targets).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: node-7
      endpoint: https://10.0.0.107
      reason: timeout
      detail: >-
        the machine is not Off within 300 s; check that its operating system obeys the power button,
        or allow the mode graceful_then_force (GracefulShutdown after 0 s: HTTP 204; PowerState was
        On)
"""

import os

from ..module_utils.fleet.credentials import with_environment
from ..module_utils.module_runner import run_module
from ..module_utils.redfish.power_control import switching


def main() -> None:
    run_module(switching.SPEC, with_environment(switching.switch_power, os.environ))


if __name__ == "__main__":
    main()
