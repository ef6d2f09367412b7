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
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the inlet air temperature and the power of each server from the Redfish services of many
    BMCs concurrently.
  - Sensors are found by walking the Redfish tree of any vendor. The first usable reading in the
    chassis of the computer system counts, in the order of the intake of C(ThermalMetrics), a
    C(Sensor) with the physical context C(Intake), an entry of C(Thermal) with this context, and a
    sensor with inlet, ambient or front in its name.
  - Sensors of power supplies, risers, accelerators, drives and liquids never count. Of equal
    candidates the first by natural order of the identifiers counts.
  - The power is that of the whole server, in the order of the C(EnvironmentMetrics) of its chassis,
    the C(PowerControl) of the server, the total in the vendor's own block (Fujitsu, Inspur), the sum
    of the power supplies in C(Power), another control of the server, and the sum of the power
    supplies in C(PowerSubsystem). Controls and sensors of processors, memory, fans, drives, adapters
    and other parts never count. A BMC of several servers has no power, because their power draw
    cannot be told apart.
  - A sum of supplies adds their input power. A supply without one counts by its output power, and
    an absent, idle, failed or unplugged one by nothing. If another supply has no reading, the sum is
    unknown.
  - A temperature that is null, absent, not a number, or outside -20 to 70 °C is an error and never
    counts as 0. A power of 0 W of a running server is an error too.
options:
  gather:
    description: Quantities to read. A target succeeds only if all of them were read.
    type: list
    elements: str
    choices: [inlet, power]
    default: [inlet, power]
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
  description: Readings of each BMC that answered, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    inlet_celsius:
      description: Inlet air temperature, in °C; null if missing.
      type: float
      sample: 22.5
    sensor_name:
      description: Name of the sensor from the BMC.
      type: str
      sample: System Board Inlet Temp
    source_uri:
      description: Resource of the temperature.
      type: str
      sample: /redfish/v1/Chassis/System.Embedded.1/Sensors/SystemBoardInletTemp
    rule:
      description: Rule that selected the sensor. It is V(thermal_metrics_intake),
        V(sensor_physical_context_intake), V(thermal_physical_context_intake), V(sensor_name), or
        V(known_sensor) for a sensor from an earlier result.
      type: str
      sample: sensor_name
    power_watts:
      description: Power of the whole server, in W; null if missing.
      type: float
      sample: 396.0
    power_uri:
      description: Resource of the power, also of an implausible one.
      type: str
      sample: /redfish/v1/Chassis/System.Embedded.1/Power
    vendor:
      description: Vendor from the BMC.
      type: str
      sample: Dell Inc.
    kept:
      description: Times of kept values by name. A value younger than C(fetchInterval) is kept and
        not read again.
      returned: when a value was kept
      type: dict
      sample: {inlet_celsius: "2026-01-31T12:00:00Z"}
sensors:
  description: Sensors of the readings, for O(targets[].sensors) of the next run.
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
    - Nodes whose account was refused, and nodes whose account is accepted again.
    - Pass it to O(authentication) of the next module that asks the same machines.
      M(wattwise.kube.fleet_reconciliation) writes it to C(status.authentication) of the NodeConfigs.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: node-9
      failures: 1
      last_attempt: "2026-01-31T12:00:00Z"
      secret_resource_version: "4711"
errors:
  description: Targets without a complete result, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-7
    endpoint:
      description: Endpoint of the target.
      type: str
      sample: https://10.0.0.107
    reason:
      description: V(unreachable), V(timeout), V(tls), V(credential), V(unauthorized), V(forbidden),
        V(not_found), V(throttled), V(server_error), V(malformed), V(no_sensor) or V(implausible).
      type: str
      sample: timeout
    detail:
      description: Sentence with the problem, its place and the remedy.
      type: str
      sample: >-
        no answer to GET /redfish/v1/Chassis/1/Thermal within 10 s for the whole target; check
        its load, or raise timeout
"""

import os

from ..module_utils.fleet.credentials import with_environment
from ..module_utils.module_runner import run_module
from ..module_utils.redfish import thermal


def main() -> None:
    run_module(thermal.SPEC, with_environment(thermal.read_thermal, os.environ))


if __name__ == "__main__":
    main()
