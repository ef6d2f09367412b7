#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module fleet_readings_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_readings_info
short_description: Merge the readings of all machines into one document
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Merges the results of M(wattwise.kube.redfish_thermal_info) and
    M(wattwise.kube.differential_pressure_info) from any number of gateways.
  - The last value in O(previous) or in the status of the NodeConfig replaces a missing one for
    O(max_age) seconds and marks the node as stale. After that the annotations
    C(wattwise.github.io/fallback-inlet-celsius) and C(wattwise.github.io/fallback-delta-p-pascal)
    of the NodeConfig replace it. Without these it stays missing; it never counts as zero.
  - Writes readings, statuses of NodeConfigs and metrics for Prometheus to files. The task is never
    changed, because these are observations.
options:
  snapshot:
    description:
      - Path of the snapshot document, whose targets name the configured nodes.
    type: path
    required: true
  thermal:
    description:
      - Results of M(wattwise.kube.redfish_thermal_info), one per gateway. A failed result is an
        error of each node of this gateway.
    type: list
    elements: dict
    default: []
  pressure:
    description:
      - Results of M(wattwise.kube.differential_pressure_info), one per gateway.
    type: list
    elements: dict
    default: []
  models:
    description:
      - Results of M(wattwise.kube.redfish_ml_model_info), one per gateway.
    type: list
    elements: dict
    default: []
  previous:
    description:
      - Path of the readings document of the last observation; may be absent.
    type: path
  max_age:
    description:
      - Seconds for which the last value of a quantity replaces a missing one.
    type: float
    default: 300.0
  heartbeat_seconds:
    description:
      - Seconds after which an unchanged reading in a status is written again; half of them to all
        of them, by the node's name.
    type: float
    default: 300.0
  path:
    description:
      - Path of the readings document to write.
    type: path
  models_path:
    description:
      - Path of the models document to write, for M(wattwise.kube.power_prediction_info).
    type: path
  statuses_path:
    description:
      - Path of the document of new statuses to write, for M(wattwise.kube.kube_apply) with
        C(src_key) set to V(statuses).
      - A status is new if a reading moved by 0.5 °C, 1 Pa or 2 % of the watts, or if the stored one
        is as old as O(heartbeat_seconds) says.
    type: path
  textfile:
    description:
      - Path of the file to write with the readings in Prometheus' text format.
      - Its metrics are C(inlet_temp_celsius), C(delta_p_pascal), C(node_power_watts),
        C(wattwise_reading_age_seconds), C(wattwise_node_read), C(wattwise_endpoint_failing) and
        C(wattwise_observation_timestamp_seconds). RmdNodeStates add C(wattwise_cache_free_ways) and
        C(wattwise_cache_longest_free_run_ways).
    type: path
  textfile_labels:
    description:
      - Labels to add to every sample of O(textfile), such as the name of the cluster.
    type: dict
    default: {}
  min_success:
    description:
      - Share of the configured nodes, from V(0.0) to V(1.0), whose inlet temperature and
        differential pressure must have been read. Below it the task fails; the failure holds all
        results.
    type: float
    default: 0.0
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Merge temperatures and pressures
  wattwise.kube.fleet_readings_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    thermal:
      - "{{ thermal }}"
    pressure:
      - "{{ pressure }}"
    path: /var/lib/wattwise/run/readings.json

- name: Merge the results of all gateways, and fill gaps from the last run
  wattwise.kube.fleet_readings_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    thermal: "{{ thermal_of_gateways.results }}"
    pressure: "{{ pressure_of_gateways.results }}"
    previous: /var/lib/wattwise/run/last-readings.json
    max_age: 600
    min_success: 0.5

- name: Write metrics for node_exporter
  wattwise.kube.fleet_readings_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    thermal:
      - "{{ thermal }}"
    textfile: /var/lib/node_exporter/textfile/hall-1.prom
    textfile_labels:
      cluster: hall-1
"""

RETURN = r"""
readings:
  description:
    - Readings by node, in °C, Pa and W; null where missing. C(source) of each is V(read), V(kept)
      (younger than its C(fetchInterval)), V(last) (the last value) or V(fallback).
  returned: always
  type: dict
  sample:
    worker-0:
      delta_p_pascal: 4.2
      inlet_celsius: 22.5
      power_watts: 187.0
      source:
        delta_p_pascal: read
        inlet_celsius: read
        power_watts: read
      stale: false
      time: "2026-01-31T12:00:00Z"
      times:
        delta_p_pascal: "2026-01-31T12:00:00Z"
        inlet_celsius: "2026-01-31T12:00:00Z"
        power_watts: "2026-01-31T12:00:00Z"
errors:
  description: Targets that could not be read, with the reason.
  returned: always
  type: list
  elements: dict
  sample:
    - detail: "https://10.0.0.100 does not answer within 10 s"
      endpoint: https://10.0.0.100
      name: worker-1
      reason: timeout
summary:
  description:
    - Numbers of configured, fresh, stale and failed nodes, the hottest node, and the total watts.
  returned: always
  type: dict
  sample:
    configured: 50
    failed: 2
    fresh: 48
    hottest_inlet_celsius: 27.5
    hottest_node: r3-n12
    measured_nodes: 50
    measured_watts: 9120.5
    stale: 1
findings:
  description:
    - Defects of NodeConfigs, such as a fallback that is no number. A defective field is not used,
      and an unreadable NodeConfig counts for no node. Other NodeConfigs are not affected.
  returned: always
  type: list
  elements: dict
  sample:
    - field: metadata.annotations[wattwise.github.io/fallback-inlet-celsius]
      kind: NodeConfig
      name: rack-1-worker-3
      namespace: wao-system
      problem: "'abc' is not a number such as 24.5"
statuses:
  description: Number of new statuses.
  returned: when O(statuses_path) is given
  type: int
  sample: 2
"""

from ..module_utils.module_runner import run_module
from ..module_utils.observe import observation


def main() -> None:
    run_module(observation.SPEC, observation.observe)


if __name__ == "__main__":
    main()
