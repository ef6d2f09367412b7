#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module differential_pressure_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: differential_pressure_info
short_description: Read the differential pressure of many nodes
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the differential pressure across each node from differential pressure servers.
  - A server gets at most four requests at once, because it usually serves all nodes. Nodes that
    share a sensor cost one request.
  - A pressure that is null, absent, not a number, or above 10000 Pa is an error and never counts as
    0.
extends_documentation_fragment:
  - wattwise.kube.targets.pressure
  - wattwise.kube.targets.refresh
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
"""

EXAMPLES = r"""
- name: Read the pressure over one node
  wattwise.kube.differential_pressure_info:
    targets:
      - name: node-1
        endpoint: http://10.0.0.1:5000

- name: Read two nodes that share a sensor
  wattwise.kube.differential_pressure_info:
    targets:
      - name: node-1
        endpoint: http://10.0.0.1:5000
        sensor: 101037B
      - name: node-2
        endpoint: http://10.0.0.1:5000
        sensor: 101037B

- name: Read all nodes by their NodeConfigs, with options that other modules share
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
      timeout: 5
  block:
    - name: Read the pressures
      wattwise.kube.differential_pressure_info:
"""

RETURN = r"""
readings:
  description: Reading of each node whose pressure was read, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    pascals:
      description: Differential pressure, in Pa.
      type: float
      sample: 7.5
    sensor_id:
      description: Identifier of the sensor; null if the server gives none.
      type: str
      sample: 101037B
    temperature_celsius:
      description: Temperature at the sensor, in °C; null if the server gives none.
      type: float
      sample: 26.02
    kept:
      description: Times of kept values by name. A value younger than C(fetchInterval) is kept and
        not read again.
      returned: when a value was kept
      type: dict
      sample: {pascals: "2026-01-31T12:00:00Z"}
errors:
  description: Targets without a complete result, in the form of
    RV(wattwise.kube.redfish_thermal_info#module:errors).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: node-7
      endpoint: https://10.0.0.107
      reason: timeout
      detail: >-
        no answer to GET /redfish/v1/Chassis/1/Thermal within 10 s for the whole target; check its
        load, or raise timeout
"""

from ..module_utils.module_runner import run_module
from ..module_utils.observe.pressure import SPEC, read_pressure


def main() -> None:
    run_module(SPEC, read_pressure)


if __name__ == "__main__":
    main()
