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
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Makes a TLS handshake with each machine and returns fingerprint, subject, issuer and end of its
    certificate. Nothing is verified, and no request and no credential is sent.
  - Compare the fingerprints with what the machines themselves show, by another way than this
    network, before you give them as C(tls_fingerprint) to other modules.
options:
  targets:
    description:
      - The machines to look at. Either this or O(snapshot) is required.
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
    description:
      - Path of a snapshot document, written by M(wattwise.kube.fleet_snapshot_info). The machines
        are the Redfish endpoints of its NodeConfigs.
    type: path
  node_selector:
    description:
      - Label selector in Kubernetes' text form. Of the nodes in O(snapshot) only those that it
        selects are looked at.
    type: str
  timeout:
    description: Seconds that one machine may take.
    type: float
    default: 10.0
  concurrency:
    description: How many machines are looked at the same time.
    type: int
    default: 64
  on_error:
    description:
      - Whether machines that fail are only reported, or fail the task as well. V(fail) is the same
        as a O(min_success) of V(1.0).
    type: str
    default: report
    choices:
      - report
      - fail
  min_success:
    description:
      - Share of the machines, from V(0.0) to V(1.0), that must succeed; the task fails below it,
        with all results in the failure.
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
- name: Look at one certificate
  wattwise.kube.tls_fingerprint_info:
    targets:
      - name: node-1
        endpoint: https://10.0.0.101
  register: trust

- name: Show what to compare
  ansible.builtin.debug:
    msg: "{{ trust.certificates | map(attribute='sha256') }}"

- name: Look at every BMC of a cluster
  wattwise.kube.tls_fingerprint_info:
    snapshot: /var/lib/wattwise/run/snapshot.json

- name: Look at the BMCs of one hall, and insist on all
  wattwise.kube.tls_fingerprint_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    node_selector: topology.kubernetes.io/zone=hall-2
    on_error: fail
"""

RETURN = r"""
certificates:
  description:
    - One entry for each machine that showed a certificate, in the order of the input.
  returned: success, and when too few machines succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: node-1
    endpoint:
      description: Its endpoint.
      type: str
      sample: https://10.0.0.101
    sha256:
      description: SHA-256 of the certificate.
      type: str
      sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    key_sha256:
      description: SHA-256 of its public key, which stays the same in a renewed certificate.
      type: str
      sample: 60303ae22b998861bce3b28f33eec1be758a213c86c93c076dbe9f558c11c752
    subject:
      description: Whom the certificate names.
      type: str
      sample: CN=idrac-1
    issuer:
      description: Who signed it.
      type: str
      sample: CN=idrac-1
    not_after:
      description: When it ends.
      type: str
      sample: "2030-01-31T12:00:00Z"
    self_signed:
      description: Whether subject and issuer are the same.
      type: bool
      sample: true
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
        no answer to the TLS handshake within 10 s for the whole target; look
        whether it is overloaded, or raise timeout
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.trust import (
    SPEC,
    fetch_fingerprints,
)


def main() -> None:
    run_module(SPEC, fetch_fingerprints)


if __name__ == "__main__":
    main()
