#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_info
short_description: Read workloads, caches and free capacity of RMD daemons
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description: Reads workloads, caches, policies, memory bandwidth and hospitality scores of Intel RMD
  (Resource Management Daemon) v0.2 and v0.3, from many daemons concurrently.
options:
  targets:
    description: The daemons.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the node, unique in the list.
        type: str
        required: true
      endpoint:
        description: URL of the daemon, such as V(https://10.0.0.1:8443) or V(http://10.0.0.1:8081).
        type: str
        required: true
  gather:
    description: Parts to read from each daemon.
    type: list
    elements: str
    default: [workloads, cache]
    choices: [workloads, cache, policies, mba, hospitality]
  request:
    description: Cache ways for which to read the hospitality score. By default those of each policy
      of the daemon.
    type: dict
    suboptions:
      max:
        description: Largest number of ways.
        type: int
        required: true
      min:
        description: Smallest number of ways.
        type: int
        required: true
extends_documentation_fragment:
  - wattwise.kube.rmd
  - wattwise.kube.progress
  - wattwise.kube.attributes.info_module
"""

EXAMPLES = r"""
- name: Read workloads and caches of two machines
  wattwise.kube.rmd_info:
    targets:
      - name: worker-node-1
        endpoint: http://10.0.0.1:8081
      - name: worker-node-2
        endpoint: http://10.0.0.2:8081
  register: rmd

- name: Show the longest run of free cache ways
  ansible.builtin.debug:
    msg: "{{ item.name }}: {{ item.cache | map(attribute='longest_runs.guaranteed') | max }}"
  loop: "{{ rmd.daemons }}"

- name: Read the hospitality scores for four ways
  wattwise.kube.rmd_info:
    targets:
      - name: worker-node-1
        endpoint: https://10.0.0.1:8443
    ca_path: /etc/rmd/ca.pem
    client_cert: /etc/rmd/cert.pem
    client_key: /etc/rmd/key.pem
    gather: [policies, hospitality]
    request:
      max: 4
      min: 4
"""

RETURN = r"""
daemons:
  description: State of each daemon that answered, in the order of the input. A refused part is null
    and has an entry in RV(errors).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: worker-node-1
    wire:
      description: RMD version of its JSON format.
      type: str
      sample: "0.2"
    workloads:
      description: Its workloads from any source. C(cpus) are numbers, C(core_ids) the original
        texts.
      type: list
      elements: dict
      sample:
        - cache: {max: 2, min: 2}
          core_ids: ["1-2"]
          cos_name: 1-2-guarantee
          cpus: [1, 2]
          id: "1"
          origin: REST
          status: Successful
          task_ids: []
          uuid: database
    cache:
      description: Its last-level caches. C(free_ways) and C(longest_runs), the longest contiguous
        free ways, are by pool. C(room) counts the further workloads that fit, by policy.
      type: list
      elements: dict
      sample:
        - available_ways: [11, 12]
          cpus: [0, 1, 2, 3]
          free_ways:
            besteffort: [11, 12]
            guaranteed: [1, 2, 3, 4]
            os: [0]
            shared: [13]
          id: 0
          longest_runs: {besteffort: 2, guaranteed: 4, os: 1, shared: 1}
          room: {bronze: 10, gold: 2, silver: 2}
          ways: 14
    policies:
      description: Its policies, as numbers for both versions.
      type: dict
      sample:
        gold:
          cache: {max: 2, min: 2}
          pstate: {ratio: 1.5}
    mba:
      description: Memory bandwidth allocation; C(step) and C(min) are percentages.
      type: dict
      sample: {enabled: true, min: 10, step: 10, supported: true}
    hospitality:
      description: Score from 0 to 100 by cache, for O(request), or for each policy.
      type: list
      elements: dict
      sample:
        - {cache_id: 0, max: 4, min: 4, policy: null, score: 100}
errors:
  description: Daemons, or parts of their state, that could not be read, in the form of
    RV(wattwise.kube.redfish_thermal_info#module:errors). A further reason is V(refused).
  returned: success, and when too few targets succeeded
  type: list
  elements: dict
  sample:
    - name: worker-node-2
      endpoint: http://10.0.0.2:8081
      reason: unreachable
      detail: cannot connect (Connection refused); check address, power and network of the machine
"""

from ..module_utils.module_runner import run_module
from ..module_utils.rmd.daemon.info import SPEC, read_daemons


def main() -> None:
    run_module(SPEC, read_daemons)


if __name__ == "__main__":
    main()
