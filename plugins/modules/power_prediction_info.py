#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module power_prediction_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: power_prediction_info
short_description: Predict the power curves of nodes
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Asks the power model of each node for its watts by CPU use, inlet temperature and differential
    pressure. The models are served by the V2 inference protocol (KServe, MLServer and others).
  - All points of one model are sent in as few requests as its server accepts, equal points once. If
    a server refuses a batch, the module sends smaller ones, down to single rows.
  - A model without an answer, or with a prediction outside 0 to 100 kW for a point of a node, is an
    error of the nodes concerned only.
options:
  queries:
    description:
      - Queries to send, instead of those from O(snapshot).
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the node.
        type: str
        required: true
      endpoint:
        description:
          - URL of the model, such as V(http://10.0.0.1:8080/v2/models/r650/versions/v0.1.0/infer).
            The version and C(/infer) are optional. A path before C(/v2) is kept.
        type: str
        required: true
      type:
        description:
          - Protocol of the model. V(Fake) sends no request and always predicts 3.14 W.
        type: str
        default: V2InferenceProtocol
        choices:
          - V2InferenceProtocol
          - Fake
      cpu_usage:
        description:
          - CPU use of the points to predict, in cores from 0. By default 21 points from 0 to
            O(queries[].cpu_capacity).
        type: list
        elements: float
      cpu_capacity:
        description:
          - Cores of the node, above 0. Required for percentages and for the default points.
        type: float
      inlet_celsius:
        description:
          - Inlet temperature in °C. A query without one is an error with reason V(no_sensor).
        type: float
      delta_p_pascal:
        description:
          - Differential pressure in Pa. A query without one is an error with reason V(no_sensor).
        type: float
      credential:
        description:
          - Key in O(credentials), or a Secret as C(namespace/name). A query without this option is
            sent without a credential; the entry C(default) is for BMCs only.
        type: str
      username:
        description:
          - User name for the server of the model. Replaces O(queries[].credential).
        type: str
      password:
        description:
          - Password for the server of the model.
        type: str
      allow_plain_http:
        description:
          - Whether the credential may be sent to this server over plain HTTP. O(allow_plain_http)
            by default.
        type: bool
  readings:
    description:
      - Path of the readings document. Required with O(snapshot), whose NodeConfigs name the models.
        The 21 points range from 0 to the CPU capacity of the node.
    type: path
  models:
    description:
      - Models that M(wattwise.kube.redfish_ml_model_info) returned, or the path of their document.
        Required for nodes whose NodeConfig has a C(powerConsumptionEndpointProvider); the Secret of
        its C(powerConsumption) is kept.
      - This Secret is sent only to servers that a NodeConfig of its namespace names together with
        it, or that O(model_origins) lists. For any other server the node is an error with reason
        V(credential), because a BMC must not redirect a password.
    type: raw
  model_origins:
    description:
      - Servers that may get a Secret although only a BMC names them, such as
        V(https://models.example.com:8443), with scheme and without path.
    type: list
    elements: str
    default: []
  cpu_usage_format:
    description:
      - Unit of CPU use in requests to the models, V(percent) of the node's capacity or V(raw)
        cores.
      - The annotation C(wattwise.github.io/cpu-usage-format) of a NodeConfig overrides this option.
    type: str
    default: percent
    choices:
      - percent
      - raw
  batch_rows:
    description:
      - Largest number of points in one request, from 1. Lower it if large requests exceed
        O(timeout), which in this module limits one request.
    type: int
    default: 10000
  path:
    description:
      - Path of the curves document to write, for M(wattwise.kube.power_placement), with a curve for
        each node that has a prediction.
    type: path
extends_documentation_fragment:
  - wattwise.kube.fleet
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
requirements:
  - fastjsonschema >= 2.20, for O(snapshot) and O(path)
"""

EXAMPLES = r"""
- name: Predict the watts of one node at three loads
  wattwise.kube.power_prediction_info:
    queries:
      - name: worker-0
        endpoint: http://10.0.0.1:8080/v2/models/r650/versions/v0.1.0/infer
        cpu_usage: [0, 16, 32]
        cpu_capacity: 64
        inlet_celsius: 22.5
        delta_p_pascal: 7.1

- name: Write the curves of the whole fleet
  wattwise.kube.power_prediction_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    readings: /var/lib/wattwise/run/readings.json
    path: /var/lib/wattwise/run/curves.json

- name: Ask the models that BMCs name, with CPU use in cores
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
      ca_path: /etc/wattwise/ca.pem
  block:
    - name: Read the model names from the BMCs
      wattwise.kube.redfish_ml_model_info:
      register: machines

    - name: Predict, and fail below nine of ten nodes
      wattwise.kube.power_prediction_info:
        readings: /var/lib/wattwise/run/readings.json
        models: "{{ machines.models }}"
        cpu_usage_format: raw
        min_success: 0.9
"""

RETURN = r"""
predictions:
  description: Predictions by query or node, in the order of the input.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
    cpu:
      description: CPU use of each point, in cores.
      type: list
      elements: float
    watts:
      description: Predicted power of each point, in W.
      type: list
      elements: float
  sample:
    - name: worker-0
      cpu: [0.0, 16.0, 32.0]
      watts: [141.2, 221.9, 268.4]
errors:
  description: Queries or nodes without a prediction, with the reason, in the order of the input.
  returned: success
  type: list
  elements: dict
  sample:
    - name: worker-1
      endpoint: http://10.0.0.1:8080/v2/models/r650/versions/v0.1.0/infer
      reason: no_sensor
      detail: no inlet temperature is known for node worker-1
without_predictor:
  description: Nodes whose NodeConfig names no power model; this is no error.
  returned: when O(snapshot) is given
  type: list
  elements: str
  sample: [worker-9]
requests:
  description: Number of requests, without repeated ones.
  returned: success
  type: int
  sample: 6
path:
  description: Path of the written curves document.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/curves.json
sha256:
  description: SHA-256 of the curves document, in hexadecimal.
  returned: when O(path) is given
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

from ..module_utils.inference import prediction
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(prediction.SPEC, prediction.predict_power)


if __name__ == "__main__":
    main()
