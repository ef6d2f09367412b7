#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_workload."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_workload
short_description: Assign cache ways, memory bandwidth and P-states to CPUs of many machines
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Brings workloads of Intel RMD (Resource Management Daemon) to their desired state, on many
    daemons concurrently. The REST API is that of RMD v0.2 or v0.3, detected for each daemon.
  - Only differences are written. CPUs are compared as sets, P-state ratios as numbers. A policy
    overrides all other values.
  - The uuid of a workload on the daemon is O(workload.name) in the namespace V(default), else
    C(<namespace>/<name>). Workloads with another uuid are never changed or deleted. CPUs that they
    hold are a conflict, which is reported before the first write.
  - A workload with other CPUs is deleted and created anew, because RMD cannot change CPUs. RMD
    releases the old resources even if it refuses a change. The module then restores the old
    workload, and the error says so.
  - A daemon that fails stops no other.
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
      workloads:
        description: Workloads of this daemon, in addition to O(workload) or O(workloads).
        type: list
        elements: dict
        suboptions: &workload
          name:
            description: Name of the workload.
            type: str
            required: true
          namespace:
            description: Namespace of its RmdWorkload, a part of the uuid.
            type: str
            default: default
          core_ids:
            description:
              - CPUs, each item a number or a list such as V(0-3) or V(0-7,^4).
              - RMD v0.2 names its group after these texts.
            type: list
            elements: str
            default: []
          all_cores:
            description: Whether the workload has all CPUs of the machine, instead of C(core_ids).
            type: bool
            default: false
          reserved_core_ids:
            description: CPUs that C(all_cores) excludes.
            type: list
            elements: str
            default: []
          policy:
            description: Name of a policy of the daemon. It overrides all other values.
            type: str
          cache:
            description: Cache ways. Equal C(min) and C(max) above 0 are guaranteed, a smaller
              C(min) above 0 is best effort, and 0 for both is shared.
            type: dict
            suboptions:
              max:
                description: Largest number of ways.
                type: int
              min:
                description: Smallest number of ways.
                type: int
          mba:
            description: Memory bandwidth, with RMD v0.3 only.
            type: dict
            suboptions:
              percentage:
                description: Percentage of the bandwidth, from 1 to 100.
                type: int
              mbps:
                description: Bandwidth in MB/s, for machines with this unit.
                type: int
          pstate:
            description: P-state, for daemons with the plugin.
            type: dict
            suboptions:
              ratio:
                description: Branch miss ratio above which a CPU gets its highest frequency.
                type: float
              monitoring:
                description: V(on) or V(off). V(on) by default.
                type: str
  workload:
    description: Workload for all daemons.
    type: dict
    suboptions: *workload
  workloads:
    description: Several workloads for all daemons.
    type: list
    elements: dict
    suboptions: *workload
  state:
    description: V(present) creates or changes the workloads. V(absent) deletes them by name.
    type: str
    default: present
    choices: [present, absent]
  require_capacity:
    description: Whether to ask a daemon for its hospitality score before creating a workload. A
      score of 0 refuses the workload. The request needs the certificate of an administrator.
    type: bool
    default: false
extends_documentation_fragment:
  - wattwise.kube.rmd
  - wattwise.kube.progress
  - wattwise.kube.attributes.changing_module
"""

EXAMPLES = r"""
- name: Assign two guaranteed cache ways to four CPUs on two machines
  wattwise.kube.rmd_workload:
    targets:
      - name: worker-node-1
        endpoint: https://10.0.0.1:8443
      - name: worker-node-2
        endpoint: https://10.0.0.2:8443
    ca_path: /etc/rmd/ca.pem
    client_cert: /etc/rmd/cert.pem
    client_key: /etc/rmd/key.pem
    workload:
      name: rmdworkload-guaranteed-cache
      core_ids: ["0", "1", "2", "3"]
      cache:
        max: 2
        min: 2

- name: Show the changes for a different workload on each machine
  wattwise.kube.rmd_workload:
    targets:
      - name: worker-node-1
        endpoint: http://10.0.0.1:8081
        workloads:
          - name: database
            core_ids: [4-7]
            policy: gold
      - name: worker-node-2
        endpoint: http://10.0.0.2:8081
        workloads:
          - name: batch
            all_cores: true
            reserved_core_ids: [0-1]
            cache:
              max: 4
              min: 1
    require_capacity: true
  check_mode: true
  diff: true

- name: Delete a workload
  wattwise.kube.rmd_workload:
    targets:
      - name: worker-node-1
        endpoint: http://10.0.0.1:8081
    workload:
      name: rmdworkload-guaranteed-cache
    state: absent
    on_error: fail
"""

RETURN = r"""
results:
  description: Result of each workload on each daemon, in the order of the input.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: worker-node-1
    workload:
      description: UUID of the workload.
      type: str
      sample: rmdworkload-guaranteed-cache
    action:
      description: V(created), V(changed), V(replaced) (deleted and created anew), V(deleted),
        V(unchanged) or V(failed).
      type: str
      sample: created
    id:
      description: Id of the workload on the daemon; null if there is none.
      type: str
      sample: "2"
    cos_name:
      description: Class of service on the daemon.
      type: str
      sample: 0_1_2_3-guarantee
    status:
      description: Status of the workload on the daemon.
      type: str
      sample: Successful
    response:
      description: Response of the daemon, in the form of the upstream operator.
      type: str
      sample: "Success: 201"
    core_ids:
      description: CPUs of the workload, as they were written.
      type: list
      elements: str
      sample: ["0", "1", "2", "3"]
    changed:
      description: Whether the workload was changed, or would be in check mode.
      type: bool
      sample: true
errors:
  description:
    - Daemons without an answer, and workloads that daemons refused, in the form of
      RV(wattwise.kube.redfish_thermal_info#module:errors). C(detail) explains the message of the
      daemon.
    - Further reasons are V(refused) (by the daemon) and V(conflict) (two workloads with the same
      CPU).
  returned: always
  type: list
  elements: dict
  sample:
    - name: worker-node-2
      endpoint: https://10.0.0.2:8443
      reason: conflict
      detail: >-
        workload database: CPU 1-2 belongs to the workload 'rmd-workload-pod-1' (id 3) of the
        daemon; remove it from one of them
"""

from ..module_utils.module_runner import run_module
from ..module_utils.rmd.daemon.apply import SPEC, apply_workloads


def main() -> None:
    run_module(SPEC, apply_workloads)


if __name__ == "__main__":
    main()
