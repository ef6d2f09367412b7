#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module redfish_ml_model_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_ml_model_info
short_description: Read the machine learning models that BMCs name
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the resource C(MachineLearningModel) of many BMCs concurrently. It names the model that
    predicts the power of the server, and the inference server of this model.
  - The first system with the resource counts. Name, URL, type and version are required.
  - The model of the response time is returned only if it is complete.
options:
  previous:
    description:
      - Path of the models document of the last run. The file may be absent.
      - BMCs whose models in it are younger than O(max_age) are not asked. These models are returned
        with their original time and C(kept). Models that another endpoint named are not kept.
    type: path
  max_age:
    description: Seconds for which models in O(previous) are kept without asking the BMC.
    type: float
    default: 600.0
  refresh:
    description: Whether every BMC is asked, regardless of the age of its models in O(previous).
    type: bool
    default: false
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
- name: Read the model of one server
  wattwise.kube.redfish_ml_model_info:
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
        credential: default
    credentials:
      default:
        username: monitor
        password: "{{ vault_bmc_password }}"
    ca_path: /etc/wattwise/bmc-ca.pem

- name: Read the models of all nodes whose NodeConfigs have an endpoint provider
  wattwise.kube.redfish_ml_model_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    previous: /var/lib/wattwise/run/models.json
    timeout: 20

- name: Read temperatures, then models, from the same BMCs
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
  block:
    - name: Read the temperatures
      wattwise.kube.redfish_thermal_info:
      register: thermal

    - name: Read the models
      wattwise.kube.redfish_ml_model_info:
        authentication: "{{ thermal.authentication }}"
"""

RETURN = r"""
models:
  description: Models by BMC, in the order of the input. BMCs without a power model have no entry.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    power_consumption:
      description: Model of the server's power. C(endpoint) is the URL for predictions. Without a
        version the inference server uses its default version.
      type: dict
      sample:
        name: PC-PowerEdgeR650xs-2CPU
        url: http://10.0.0.20
        type: V2InferenceProtocol
        version: v0.1.0
        endpoint: http://10.0.0.20/v2/models/PC-PowerEdgeR650xs-2CPU/versions/v0.1.0/infer
    bmc:
      description: Endpoint of the BMC that named the models.
      type: str
      sample: https://10.0.0.101
    time:
      description: Time at which the BMC named them.
      type: str
      sample: "2026-01-31T12:00:00Z"
    kept:
      description: V(true) if the models are from O(previous) and the BMC was not asked.
      type: bool
      returned: when the models were kept
      sample: true
    response_time:
      description: Model of the response time, in the same form.
      type: dict
      returned: when it is complete
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
    - name: node-7
      endpoint: https://10.0.0.107
      reason: timeout
      detail: >-
        no answer to GET /redfish/v1/Systems/1/MachineLearningModel within 10 s for the whole
        target; check its load, or raise timeout
"""

import os

from ..module_utils.fleet.credentials import with_environment
from ..module_utils.module_runner import run_module
from ..module_utils.redfish import models


def main() -> None:
    run_module(models.SPEC, with_environment(models.read_models, os.environ))


if __name__ == "__main__":
    main()
