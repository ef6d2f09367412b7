#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_reconciliation
short_description: Reconcile all RMD daemons of a cluster with its RmdWorkloads
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Compares the RmdWorkloads of a snapshot with the workloads of each Intel RMD daemon, and writes
    the differences to all daemons concurrently. Workloads are created, changed, moved and deleted,
    and created again after a daemon lost its database.
  - A workload is deleted only if it has the name of an RmdWorkload that no longer selects the node,
    or if C(status.managed) of the RmdNodeState lists it and its RmdWorkload is gone.
  - RmdWorkloads for the same CPU of a node are detected before the first write. Both get the
    condition C(Conflicting).
  - A daemon without an answer or a missing node stops no other. Only daemons without an answer
    count against O(min_success). The status of the RmdWorkload has the refusals of daemons.
  - The document at O(path) has the RmdNodeStates and all new statuses, for
    M(wattwise.kube.kube_apply), and the caches and workloads of each daemon, for the report.
options:
  snapshot:
    description:
      - Path of a snapshot document with nodes, C(rmd_workloads), C(rmd_node_states),
        C(rmd_configs) and C(rmd_pods).
    type: path
    required: true
  endpoints:
    description:
      - URLs of daemons by node. They replace the addresses of the daemons' pods.
    type: dict
    default: {}
  namespace:
    description:
      - Namespace of the RmdNodeStates and of the daemons' pods. Pods of other namespaces never
        count as daemons, because any user can label a pod.
    type: str
    default: rmd-system
  require_capacity:
    description:
      - Whether to ask a daemon for its hospitality score before creating a workload. A score of 0
        refuses the workload. The request needs the certificate of an administrator.
    type: bool
    default: false
  path:
    description:
      - Path of the document to write. Without this option its content is returned.
    type: path
extends_documentation_fragment:
  - wattwise.kube.rmd
  - wattwise.kube.progress
  - wattwise.kube.attributes.changing_module
requirements:
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Read the cluster
  wattwise.kube.fleet_snapshot_info:
    include: [rmd_workloads, rmd_node_states, rmd_configs, rmd_pods]
    path: /var/lib/wattwise/run/rmd-snapshot.json

- name: Reconcile the daemons with the RmdWorkloads
  wattwise.kube.rmd_reconciliation:
    snapshot: /var/lib/wattwise/run/rmd-snapshot.json
    ca_path: /etc/rmd/ca.pem
    client_cert: /etc/rmd/cert.pem
    client_key: /etc/rmd/key.pem
    path: /var/lib/wattwise/run/rmd.json

- name: Write the statuses
  wattwise.kube.kube_apply:
    src:
      - /var/lib/wattwise/run/rmd.json
    src_key: statuses
    status: true

- name: Show the changes for daemons outside of pods
  wattwise.kube.rmd_reconciliation:
    snapshot: /var/lib/wattwise/run/rmd-snapshot.json
    endpoints:
      worker-node-1: http://10.0.0.1:8081
  check_mode: true
  diff: true
"""

RETURN = r"""
results:
  description:
    - Result of each workload on each daemon, as M(wattwise.kube.rmd_workload) returns it.
  returned: always
  type: list
  elements: dict
  sample:
    - action: created
      changed: true
      core_ids: ["0", "1", "2", "3"]
      cos_name: 0_1_2_3-guarantee
      id: "2"
      name: worker-node-1
      response: "Success: 201"
      status: Successful
      workload: rmdworkload-guaranteed-cache
errors:
  description:
    - Daemons without an answer, and workloads that daemons refused, as
      M(wattwise.kube.rmd_workload) returns them.
  returned: always
  type: list
  elements: dict
  sample:
    - detail: cannot connect (Connection refused); check address, power and network of the machine
      endpoint: http://10.0.0.2:8081
      name: worker-node-2
      reason: unreachable
daemons:
  description: Number of nodes with a daemon.
  returned: always
  type: int
  sample: 2
workloads:
  description: Number of RmdWorkloads.
  returned: always
  type: int
  sample: 1
path:
  description: Path of the written document.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/rmd.json
node_states:
  description: RmdNodeStates to apply.
  returned: without O(path)
  type: list
  elements: dict
  sample: []
statuses:
  description: New statuses.
  returned: without O(path)
  type: list
  elements: dict
  sample: []
findings:
  description:
    - RmdWorkloads, RmdConfigs, RmdNodeStates and Nodes that cannot be used. Each stops no other.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object.
      type: str
      sample: RmdWorkload
    namespace:
      description: Namespace of the object; empty for cluster-scoped objects.
      type: str
      sample: default
    name:
      description: Name of the object.
      type: str
      sample: gold
    field:
      description: Path of the field; empty where the defect has no single place.
      type: str
      sample: spec.core_ids
    problem:
      description: Defect of the field.
      type: str
      sample: "'abc' is not a list of CPUs; write it like 3, 0-3 or 0-7,^4"
"""

from ..module_utils.module_runner import run_module
from ..module_utils.rmd.reconciliation import SPEC, reconcile


def main() -> None:
    run_module(SPEC, reconcile)


if __name__ == "__main__":
    main()
