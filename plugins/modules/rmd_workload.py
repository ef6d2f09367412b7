#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_workload."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_workload
short_description: Give cache ways, memory bandwidth and P-states to CPUs of many machines
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Brings workloads of Intel RMD (Resource Management Daemon) to their desired state, on many
    daemons at once. It speaks the REST API of RMD v0.2 and of v0.3, and finds out which one.
  - It reads first and writes only a difference. CPUs are compared as sets, P-state ratios as
    numbers; a policy decides alone.
  - A workload is known to the daemon by its uuid, which is O(workload.name) in the namespace
    V(default), else C(<namespace>/<name>). Workloads with another uuid are never changed or
    deleted; CPUs that they hold are a conflict, which is told before anything is written.
  - Other CPUs for a workload mean that it is deleted and created anew, since RMD cannot change
    them. A change that RMD refuses has already taken the hardware away from the old workload; it
    is restored, and the error says so.
  - A daemon that fails stops no other.
options:
  targets:
    description:
      - The daemons.
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
        description: Workloads of this daemon, beside those of O(workload) or O(workloads).
        type: list
        elements: dict
        suboptions: &workload
          name:
            description: Name of the workload.
            type: str
            required: true
          namespace:
            description: Namespace of its RmdWorkload, which becomes a part of the uuid.
            type: str
            default: default
          core_ids:
            description:
              - CPUs, each item a number or a list such as V(0-3) or V(0-7,^4).
              - RMD v0.2 names its group by these texts as they are written.
            type: list
            elements: str
            default: []
          all_cores:
            description: Whether it is for all CPUs of the machine, in place of C(core_ids).
            type: bool
            default: false
          reserved_core_ids:
            description: CPUs that C(all_cores) leaves out.
            type: list
            elements: str
            default: []
          policy:
            description: A policy of the daemon. It decides alone; all other values are ignored.
            type: str
          cache:
            description:
              - Cache ways. Equal numbers are guaranteed, a smaller C(min) above 0 is best effort,
                and 0 with 0 is shared.
            type: dict
            suboptions:
              max:
                description: The most ways.
                type: int
              min:
                description: The fewest ways.
                type: int
          mba:
            description: Memory bandwidth, with RMD v0.3 only.
            type: dict
            suboptions:
              percentage:
                description: From 1 to 100 %.
                type: int
              mbps:
                description: In MB/s, for machines that count so.
                type: int
          pstate:
            description: P-state, for daemons that have the plugin.
            type: dict
            suboptions:
              ratio:
                description: Share of missed branches from which on a CPU gets its top frequency.
                type: float
              monitoring:
                description: V(on) or V(off); V(on) by default.
                type: str
  workload:
    description: One workload for all daemons.
    type: dict
    suboptions: *workload
  workloads:
    description: Several workloads for all daemons.
    type: list
    elements: dict
    suboptions: *workload
  state:
    description:
      - Whether the workloads are there. For V(absent) only their names matter.
    type: str
    default: present
    choices:
      - present
      - absent
  require_capacity:
    description:
      - Whether a daemon is asked for its hospitality score before a workload is created, and gets
        no workload where that is 0. Only an administrator's certificate may ask.
    type: bool
    default: false
extends_documentation_fragment:
  - wattwise.kube.rmd
  - wattwise.kube.progress
  - wattwise.kube.attributes.changing_module
"""

EXAMPLES = r"""
- name: Give four CPUs two cache ways of their own on two machines
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

- name: Show what would change, with a workload of its own for each machine
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

- name: Take a workload away
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
  description: One entry for each daemon and workload, in the order of the input.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: worker-node-1
    workload:
      description: The workload's uuid.
      type: str
      sample: rmdworkload-guaranteed-cache
    action:
      description:
        - V(created), V(changed), V(replaced) (deleted and created anew), V(deleted), V(unchanged)
          or V(failed).
      type: str
      sample: created
    id:
      description: The daemon's id of the workload; null where it has none.
      type: str
      sample: "2"
    cos_name:
      description: The class of service, as the daemon calls it.
      type: str
      sample: 0_1_2_3-guarantee
    status:
      description: The daemon's status of the workload.
      type: str
      sample: Successful
    response:
      description: What the daemon said, in the words of upstream's operator.
      type: str
      sample: "Success: 201"
    core_ids:
      description: The CPUs that it has, as they were written.
      type: list
      elements: str
      sample: ["0", "1", "2", "3"]
    changed:
      description: Whether something of it was changed, or would be in check mode.
      type: bool
      sample: true
errors:
  description:
    - Daemons that could not be asked, and workloads that they refused.
  returned: always
  type: list
  elements: dict
  contains:
    name:
      description: Name of the target.
      type: str
      sample: worker-node-2
    endpoint:
      description: Its endpoint.
      type: str
      sample: https://10.0.0.2:8443
    reason:
      description:
        - V(unreachable), V(timeout), V(tls), V(unauthorized), V(forbidden), V(not_found),
          V(malformed), V(refused) (the daemon did) or V(conflict) (two want the same CPU).
      type: str
      sample: conflict
    detail:
      description: What was wrong, where, and what to do; with what the daemon's words mean.
      type: str
      sample: >-
        workload database: CPU 1-2 belongs to the workload 'rmd-workload-pod-1' (id 3) of the
        daemon; take it out of one of them
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.daemon.apply import (
    SPEC,
    apply_workloads,
)


def main() -> None:
    run_module(SPEC, apply_workloads)


if __name__ == "__main__":
    main()
