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
  - An account that was refused (HTTP 401 or 403) is not tried again in the same run. With
    O(snapshot), what the NodeConfigs remember is obeyed as well. After a refusal a machine is asked
    again only when its Secret changed, or after 5, 10, 20, 40 and then 60 minutes, because real
    BMCs lock accounts.
options:
  targets:
    description:
      - The BMCs to read. Either this or O(snapshot) is required.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the node, unique in the list.
        type: str
        required: true
      endpoint:
        description:
          - URL of the BMC, such as V(https://10.0.0.1) or V(https://[fd00::1]:8443). A base path
            is kept.
        type: str
        required: true
      username:
        description:
          - User name, together with O(targets[].password). It goes before every other credential.
        type: str
      password:
        description: Password, together with O(targets[].username).
        type: str
      credential:
        description:
          - Key of an entry in O(credentials), or C(<namespace>/<name>) of a Secret with the keys
            C(username) and C(password), and optionally C(ca.crt) and C(tls_fingerprint).
          - If it is given but not there, the target is an error and gets no request. A target that
            names no credential gets the entry C(default) of O(credentials), if there is one.
        type: str
      validate_certs:
        description: Whether this target's certificate is verified; O(validate_certs) by default.
        type: bool
      ca_path:
        description: Path of certificates in PEM that this target is verified with.
        type: path
      tls_fingerprint:
        description:
          - SHA-256 fingerprints of the target's certificate or of its public key. If one fits,
            nothing else is verified; if none does, nothing is sent.
        type: list
        elements: str
      sensors:
        description:
          - The target's entry in RV(sensors) of an earlier result. Each quantity then costs one
            request, until the resource is gone or its sensor has another name.
          - With O(snapshot) this comes from C(status.sensors) of the NodeConfigs.
        type: dict
  authentication:
    description:
      - What another module of the same run returned as RV(authentication), so that the two together
        do not lock an account that both find refused.
      - It takes the place of what the NodeConfigs in O(snapshot) remember for the same nodes.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      failures:
        description: How often in a row the account was refused.
        type: int
        default: 0
      last_attempt:
        description: When it was tried last, as in C(2026-01-31T12:00:00Z).
        type: str
      secret_resource_version:
        description: Resource version of the Secret that was refused.
        type: str
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
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
requirements:
  - aiohttp >= 3.10
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

from ansible_collections.wattwise.kube.plugins.module_utils.credentials import with_environment
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import thermal
from ansible_collections.wattwise.kube.plugins.module_utils.skin import run_module


def main() -> None:
    run_module(thermal.SPEC, with_environment(thermal.read_thermal, os.environ))


if __name__ == "__main__":
    main()
