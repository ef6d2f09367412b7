#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module redfish_ml_model_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: redfish_ml_model_info
short_description: Read which machine learning models BMCs name
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the resource C(MachineLearningModel) of many BMCs at once. It names the model that
    predicts the server's power, and the inference server that has it.
  - The first system that has the resource counts. Name, URL, type and version must all be there.
  - The model of the response time is returned only where it is complete.
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
  description:
    - One entry for each BMC that names a model of its power, in the order of the input.
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    power_consumption:
      description:
        - The model of the server's power. C(endpoint) is the URL that predictions are asked from;
          without a version, the inference server's default version.
      type: dict
      sample:
        name: PC-PowerEdgeR650xs-2CPU
        url: http://10.0.0.20
        type: V2InferenceProtocol
        version: v0.1.0
        endpoint: http://10.0.0.20/v2/models/PC-PowerEdgeR650xs-2CPU/versions/v0.1.0/infer
    response_time:
      description: The model of the response time, in the same form.
      type: dict
      returned: when the BMC names all of it
      sample:
        name: RT-PowerEdgeR650xs-2CPU
        url: http://10.0.0.20
        type: V2InferenceProtocol
        version: v0.1.0
        endpoint: http://10.0.0.20/v2/models/RT-PowerEdgeR650xs-2CPU/versions/v0.1.0/infer
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
from ansible_collections.wattwise.kube.plugins.module_utils.redfish import models
from ansible_collections.wattwise.kube.plugins.module_utils.skin import run_module


def main() -> None:
    run_module(models.SPEC, with_environment(models.read_models, os.environ))


if __name__ == "__main__":
    main()
