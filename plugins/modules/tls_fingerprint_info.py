#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module tls_fingerprint_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: tls_fingerprint_info
short_description: Show the TLS certificates of many machines for review
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Makes a TLS handshake with each machine and returns fingerprint, subject, issuer and expiry of
    its certificate. Nothing is verified. No request and no credential is sent.
  - Compare the fingerprints with those on the machines, by another way than this network, before
    you pass them as C(tls_fingerprint) to other modules.
options:
  targets:
    description: Machines to connect to. Either this option or O(snapshot) is required.
    type: list
    elements: dict
    suboptions:
      name:
        description: Name of the node.
        type: str
        required: true
      endpoint:
        description: URL of the machine, such as V(https://10.0.0.1).
        type: str
        required: true
  snapshot:
    description: Path of a snapshot document that M(wattwise.kube.fleet_snapshot_info) wrote. The
      Redfish endpoints of its NodeConfigs are the machines.
    type: path
  node_selector:
    description: Label selector, in Kubernetes' text form, that limits the nodes of O(snapshot).
    type: str
  timeout:
    description: Seconds that the handshake with one machine may take.
    type: float
    default: 10.0
  concurrency:
    description: Number of machines to connect to at the same time.
    type: int
    default: 64
  on_error:
    description: Effect of a failed machine. V(report) lists it in the result, V(fail) also fails
      the task, which equals O(min_success) set to V(1.0).
    type: str
    default: report
    choices: [report, fail]
  min_success:
    description: Share of the machines, from V(0.0) to V(1.0), that must succeed. Below it the task
      fails; the failure holds all results.
    type: float
    default: 0.0
extends_documentation_fragment:
  - wattwise.kube.progress
  - wattwise.kube.attributes.info_module
requirements:
  - aiohttp >= 3.10
  - cryptography
"""

EXAMPLES = r"""
- name: Read one certificate
  wattwise.kube.tls_fingerprint_info:
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
  register: trust

- name: Show the fingerprints to compare
  ansible.builtin.debug:
    msg: "{{ trust.certificates | map(attribute='sha256') }}"

- name: Read the certificates of all BMCs of a cluster
  wattwise.kube.tls_fingerprint_info:
    snapshot: /var/lib/wattwise/run/snapshot.json

- name: Read the certificates of one hall, and fail if one is missing
  wattwise.kube.tls_fingerprint_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    node_selector: topology.kubernetes.io/zone=hall-2
    on_error: fail
"""

RETURN = r"""
certificates:
  description: Certificates by machine, in the order of the input.
  returned: success, and when too few machines succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    endpoint:
      description: Endpoint of the target.
      type: str
      sample: https://10.0.0.101
    sha256:
      description: SHA-256 of the certificate.
      type: str
      sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    key_sha256:
      description: SHA-256 of its public key, which a renewal with the same key does not change.
      type: str
      sample: 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
    subject:
      description: Subject of the certificate.
      type: str
      sample: CN=idrac-1
    issuer:
      description: Issuer of the certificate.
      type: str
      sample: CN=idrac-1
    not_after:
      description: Expiry of the certificate.
      type: str
      sample: "2030-01-31T12:00:00Z"
    self_signed:
      description: Whether subject and issuer are equal.
      type: bool
      sample: true
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
        no answer to the TLS handshake within 10 s for the whole target; check its load, or raise
        timeout
"""

from ..module_utils.module_runner import run_module
from ..module_utils.nodeconfig.trust import SPEC, fetch_fingerprints


def main() -> None:
    run_module(SPEC, fetch_fingerprints)


if __name__ == "__main__":
    main()
