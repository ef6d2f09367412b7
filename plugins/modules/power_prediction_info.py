#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module power_prediction_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: power_prediction_info
short_description: Predict the watts of nodes over their CPU use
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Asks the power model of each node, served by the V2 inference protocol (KServe, MLServer and
    others), for the node's power at given CPU use, inlet temperature and differential pressure.
  - All points of one model go in as few requests as its server takes, equal points once. Where a
    server refuses many rows but answers one, it is asked with fewer, down to row by row.
  - A model that cannot be asked, or that predicts no number of watts from 0 to 100 kW for one of a
    node's points, is an error of the nodes that use it and of no others.
options:
  queries:
    description:
      - What to ask, instead of O(snapshot).
    type: list
    elements: dict
    suboptions:
      name:
        description:
          - Name of the Kubernetes node.
        type: str
        required: true
      endpoint:
        description:
          - URL of the model, such as V(http://10.0.0.1:8080/v2/models/r650/versions/v0.1.0/infer).
            The version and C(/infer) may be left out; a path before C(/v2) is kept.
        type: str
        required: true
      type:
        description:
          - How the model is asked. V(Fake) asks nothing and is always 3.14 W.
        type: str
        default: V2InferenceProtocol
        choices:
          - V2InferenceProtocol
          - Fake
      cpu_usage:
        description:
          - CPU use to predict at, in cores from 0. By default 21 points from 0 to
            O(queries[].cpu_capacity).
        type: list
        elements: float
      cpu_capacity:
        description:
          - Cores of the node, above 0. Needed for percentages and for the default points.
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
          - Key in O(credentials), or a Secret as C(namespace/name). A query that names none is
            asked without one; the entry C(default) is that of the BMCs.
        type: str
      username:
        description:
          - User name for the model's server, in place of O(queries[].credential).
        type: str
      password:
        description:
          - Password for the model's server.
        type: str
      allow_plain_http:
        description:
          - Whether the credential may be sent to this server over plain HTTP; O(allow_plain_http)
            by default.
        type: bool
  readings:
    description:
      - Path of the readings document. Needed with O(snapshot), whose NodeConfigs say which model
        predicts for which node. The 21 points go from 0 to the CPU capacity of the node.
    type: path
  models:
    description:
      - The models that M(wattwise.kube.redfish_ml_model_info) returned, or the path of a document
        that holds them. Needed for nodes whose NodeConfig has a
        C(powerConsumptionEndpointProvider); the Secret of its C(powerConsumption) is kept.
      - That Secret is sent only to a server that a NodeConfig of its own namespace names together
        with it, or that O(model_origins) allows. Otherwise the node is an error with reason
        V(credential), because a BMC must not choose who is told a password.
    type: raw
  model_origins:
    description:
      - Servers to which a Secret may be sent although only a BMC names them, such as
        V(https://models.example.com:8443), with scheme and without a path.
    type: list
    elements: str
    default: []
  cpu_usage_format:
    description:
      - Unit in which the models take CPU use, percent of the node's capacity or V(raw) cores.
      - A NodeConfig's annotation C(wattwise.github.io/cpu-usage-format) overrides this.
    type: str
    default: percent
    choices:
      - percent
      - raw
  batch_rows:
    description:
      - Most points in one request, from 1. Lower it where large requests take longer than
        O(timeout), which here holds for one request.
    type: int
    default: 10000
  path:
    description:
      - Where to write the curves document, for M(wattwise.kube.power_placement). It holds a curve
        for each node that has a prediction.
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

- name: Take the models from the machines, and ask them in cores
  module_defaults:
    group/wattwise.kube.wattwise:
      snapshot: /var/lib/wattwise/run/snapshot.json
      ca_path: /etc/wattwise/ca.pem
  block:
    - name: Read which model each machine names
      wattwise.kube.redfish_ml_model_info:
      register: machines

    - name: Predict, unless fewer than nine of ten nodes can be
      wattwise.kube.power_prediction_info:
        readings: /var/lib/wattwise/run/readings.json
        models: "{{ machines.models }}"
        cpu_usage_format: raw
        min_success: 0.9
"""

RETURN = r"""
predictions:
  description: One entry for each query or node that has a prediction, in the order of the input.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the node.
      type: str
    cpu:
      description: CPU use in cores, point by point.
      type: list
      elements: float
    watts:
      description: Predicted power in W, point by point.
      type: list
      elements: float
  sample:
    - name: worker-0
      cpu: [0.0, 16.0, 32.0]
      watts: [141.2, 221.9, 268.4]
errors:
  description: One entry for each query or node without a prediction, in the order of the input.
  returned: success
  type: list
  elements: dict
  sample:
    - name: worker-1
      endpoint: http://10.0.0.1:8080/v2/models/r650/versions/v0.1.0/infer
      reason: no_sensor
      detail: no inlet temperature is known for node worker-1
without_predictor:
  description: Nodes whose NodeConfig names no power model, which is not an error.
  returned: when O(snapshot) is given
  type: list
  elements: str
  sample: [worker-9]
requests:
  description: How many requests the predictions took, without those that were sent again.
  returned: success
  type: int
  sample: 6
path:
  description: Where the curves document was written.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/curves.json
sha256:
  description: SHA-256 of the curves document, in hexadecimal.
  returned: when O(path) is given
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

from ansible_collections.wattwise.kube.plugins.module_utils.inference import prediction
from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module


def main() -> None:
    run_module(prediction.SPEC, prediction.predict_power)


if __name__ == "__main__":
    main()
