#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module redfish_thermal_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_thermal_info
short_description: Read inlet temperature and power of many BMCs
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the temperature of the air that enters each server, and the power that it takes, from the
    Redfish services of all BMCs at once.
  - The sensors are found by walking the tree, whatever the vendor. The chassis that holds the
    computer system counts, and in it the first of these that has a usable reading. The intake of
    C(ThermalMetrics), a C(Sensor) with physical context C(Intake), an entry of C(Thermal) with
    it, a sensor whose name says inlet, ambient or front.
  - Sensors of power supplies, risers, accelerators, drives and liquids are never taken. Among
    equals the first in natural order of their identifiers counts, however the BMC lists them.
  - A reading that is null, absent, not a number, or outside -20 to 70 °C is missing and becomes an
    error; it is never 0. A power of 0 W while the server is on is not believed.
options:
  gather:
    description:
      - Quantities to read. A target from which one of them could not be read did not succeed.
    type: list
    elements: str
    choices:
      - inlet
      - power
    default:
      - inlet
      - power
extends_documentation_fragment:
  - wattwise.kube.targets.bmc_with_sensors
  - wattwise.kube.targets.authentication
  - wattwise.kube.targets.refresh
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
"""

EXAMPLES = r"""
- name: Read one BMC
  wattwise.kube.redfish_thermal_info:
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
        username: monitor
        password: "{{ vault_bmc_password }}"
        tls_fingerprint:
          - 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
  register: thermal

- name: Read it again with one request for each quantity
  wattwise.kube.redfish_thermal_info:
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
        credential: hall-2
        sensors: "{{ thermal.sensors[0] }}"
    credentials:
      hall-2:
        username: monitor
        password: "{{ vault_bmc_password }}"

- name: Read every BMC of a cluster from its NodeConfigs and Secrets
  wattwise.kube.redfish_thermal_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    ca_path: /etc/wattwise/bmc-ca.pem
    min_success: 0.5

- name: Read temperatures and pressures of one hall with the same options
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
      node_selector: topology.kubernetes.io/zone=hall-2
      timeout: 20
  block:
    - name: Read the temperatures
      wattwise.kube.redfish_thermal_info:
        gather:
          - inlet

    - name: Read the pressures
      wattwise.kube.differential_pressure_info:
"""

RETURN = r"""
readings:
  description:
    - One entry for each BMC that answered, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    inlet_celsius:
      description: Temperature of the air that enters the server, in °C; null where it is missing.
      type: float
      sample: 22.5
    sensor_name:
      description: Name of the sensor, as the BMC gives it.
      type: str
      sample: System Board Inlet Temp
    source_uri:
      description: The resource that the temperature was read from.
      type: str
      sample: /redfish/v1/Chassis/System.Embedded.1/Sensors/SystemBoardInletTemp
    rule:
      description:
        - How the sensor was chosen. V(thermal_metrics_intake), V(sensor_physical_context_intake),
          V(thermal_physical_context_intake), V(sensor_name), or V(known_sensor) where an earlier
          result named it.
      type: str
      sample: sensor_name
    power_watts:
      description: Power that the whole server takes, in W; null where it is missing.
      type: float
      sample: 396.0
    power_uri:
      description: The resource that the power was read from, also where it was not believed.
      type: str
      sample: /redfish/v1/Chassis/System.Embedded.1/Power
    vendor:
      description: Vendor, as the BMC gives it.
      type: str
      sample: Dell Inc.
    kept:
      description:
        - When a value was read that is younger than C(fetchInterval) and was not read again, by its
          name.
      returned: where there is one
      type: dict
      sample:
        inlet_celsius: "2026-01-31T12:00:00Z"
sensors:
  description:
    - Where the readings were found, to give back next time as O(targets[].sensors).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: node-1
      inlet_uri: /redfish/v1/Chassis/System.Embedded.1/Sensors/SystemBoardInletTemp
      inlet_name: System Board Inlet Temp
      power_uri: /redfish/v1/Chassis/System.Embedded.1/Power
      vendor: Dell Inc.
authentication:
  description:
    - Nodes whose account is refused, and those whose account is accepted again.
    - For the field C(status.authentication) of their NodeConfigs, and for O(authentication) of the
      next module that asks the same machines.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: node-9
      failures: 1
      last_attempt: "2026-01-31T12:00:00Z"
      secret_resource_version: "4711"
errors:
  description:
    - Targets without a result, or without a part of it, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-7
    endpoint:
      description: Its endpoint.
      type: str
      sample: https://10.0.0.107
    reason:
      description:
        - V(unreachable), V(timeout), V(tls), V(credential), V(unauthorized), V(forbidden),
          V(not_found), V(throttled), V(server_error), V(malformed), V(no_sensor) or V(implausible).
      type: str
      sample: timeout
    detail:
      description: What was wrong, where, and what to do.
      type: str
      sample: >-
        no answer to GET /redfish/v1/Chassis/1/Thermal within 10 s for the whole target; look
        whether it is overloaded, or raise timeout
"""

import os

from ansible_collections.wattwise.kube.plugins.module_utils.fleet.credentials import (
    with_environment,
)
from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import thermal


def main() -> None:
    run_module(thermal.SPEC, with_environment(thermal.read_thermal, os.environ))


if __name__ == "__main__":
    main()
