#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_cluster_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_cluster_reconciliation
short_description: Reconcile the RmdWorkloads of a cluster with its RMD daemons, and write statuses
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads RmdWorkloads, RmdNodeStates, RmdConfigs and the daemons' pods, compares the RmdWorkloads
    with the workloads of each Intel RMD daemon, and writes the differences to all daemons
    concurrently. Workloads are created, changed, moved and deleted, and created again after a
    daemon lost its database. Keeps one RmdNodeState for each daemon, and writes the statuses.
  - A workload is deleted only if it has the name of an RmdWorkload that no longer selects the node,
    or if C(status.managed) of the RmdNodeState lists it and its RmdWorkload is gone.
  - RmdWorkloads for the same CPU of a node are detected before the first write. Both get the
    condition C(Conflicting).
  - A daemon without an answer or a missing node stops no other. Only daemons without an answer
    count against O(daemons.min_success). The status of the RmdWorkload has the refusals of daemons.
  - The document C(rmd.json) has the RmdNodeStates and all new statuses, and the caches and
    workloads of each daemon, for the report.
  - A cluster without RMD objects and daemons takes one reading.
  - Fails before the first write if rmd-operator runs, because both write the same workloads; see
    O(force).
  - If too few daemons answer, the task fails after all node states and statuses are written.
options:
  # begin generated: rmd
  endpoints:
    description: URLs of daemons by node. They replace the addresses of the daemons' pods.
    type: dict
    default: {}
  pod_selector:
    description: Label selector of the daemons' pods.
    type: str
    default: name=rmd-pod
  namespace:
    description: Namespace of the RmdNodeStates and of the daemons' pods; created if missing. Pods
      of other namespaces never count as daemons.
    type: str
    default: rmd-system
  require_capacity:
    description: Whether to ask a daemon for its hospitality score before creating a workload. A
      score of 0 refuses the workload. The request needs the certificate of an administrator.
    type: bool
    default: false
  prune_max:
    description: Largest share of the RmdNodeStates, from V(0.0) to V(1.0), that one run may remove;
      one object is always allowed. Above it nothing is removed and the task fails.
    type: float
    default: 0.3
  force:
    description: Whether to write even if rmd-operator runs, which writes the same workloads.
    type: bool
    default: false
  # end generated
  assume:
    description: Manifests that an earlier task of the play applies, such as
      CustomResourceDefinitions, or paths of files with them. Only check mode reads them, because
      that task has then not changed the cluster.
    type: list
    elements: raw
    default: []
  run_dir:
    description: Folder of the document C(rmd.json); created if missing.
    type: path
    required: true
extends_documentation_fragment:
  - wattwise.kube.rmd.daemons
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - aiohttp >= 3.10
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Reconcile all daemons of a cluster
  wattwise.kube.rmd_cluster_reconciliation:
    kubeconfig: ~/.kube/config
    run_dir: /var/lib/wattwise/run
    daemons:
      ca_path: /etc/rmd/ca.pem
      client_cert: /etc/rmd/cert.pem
      client_key: /etc/rmd/key.pem

- name: Reconcile daemons that run outside of pods
  wattwise.kube.rmd_cluster_reconciliation:
    context: hall-2
    run_dir: /var/lib/wattwise/hall-2
    endpoints:
      worker-1: https://10.0.0.11:8443
    daemons:
      username: rmd
      password: "{{ vault_rmd_password }}"

- name: Show the changes without making them
  wattwise.kube.rmd_cluster_reconciliation:
    run_dir: /var/lib/wattwise/run
  check_mode: true
  diff: true
"""

RETURN = r"""
results:
  description: Result of each workload on each daemon, as M(wattwise.kube.rmd_workload) returns it.
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
  description: Daemons without an answer, and workloads that daemons refused, as
    M(wattwise.kube.rmd_workload) returns them.
  returned: with RMD objects or daemons
  type: list
  elements: dict
  sample:
    - detail: cannot connect (Connection refused); check address, power and network of the machine
      endpoint: http://10.0.0.2:8081
      name: worker-node-2
      reason: unreachable
objects:
  description: Result of each object of the cluster, in the form of M(wattwise.kube.kube_apply).
  returned: always
  type: list
  elements: dict
  sample:
    - {action: created, api_version: v1, kind: Namespace, name: rmd-system, namespace: ""}
pruned:
  description: Removed RmdNodeStates, in the form of RV(objects).
  returned: always
  type: list
  elements: dict
  sample: []
statuses:
  description: Statuses of RmdWorkloads and RmdConfigs, as manifests.
  returned: always
  type: list
  elements: dict
  sample: []
daemons:
  description: Number of daemons.
  returned: always
  type: int
  sample: 50
workloads:
  description: Number of RmdWorkloads.
  returned: always
  type: int
  sample: 12
path:
  description: Path of the written document.
  returned: with RMD objects or daemons
  type: str
  sample: /var/lib/wattwise/run/rmd.json
findings:
  description: RmdWorkloads, RmdConfigs, RmdNodeStates and Nodes that cannot be used. Each stops no
    other. Each has C(kind), C(namespace), C(name), C(field) (empty where the defect has no single
    place) and C(problem).
  returned: with RMD objects or daemons
  type: list
  elements: dict
  sample:
    - kind: RmdWorkload
      namespace: default
      name: gold
      field: spec.core_ids
      problem: "'abc' is not a list of CPUs; write it like 3, 0-3 or 0-7,^4"
"""

from ..module_utils.module_runner import run_module
from ..module_utils.rmd.reconciliation import SPEC, reconcile


def main() -> None:
    run_module(SPEC, reconcile)


if __name__ == "__main__":
    main()
