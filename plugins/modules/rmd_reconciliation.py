#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_reconciliation
short_description: Bring all RMD daemons of a cluster to what its RmdWorkloads want
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Compares the RmdWorkloads of a snapshot with what each daemon of Intel RMD has, and writes the
    difference, to all daemons at once. Workloads are created, changed, moved and deleted, and
    created again after a daemon lost its database.
  - Deleted is only what stands under the name of an RmdWorkload that no longer is for the node, or
    what was made for an RmdWorkload that is gone, by C(status.managed) of the RmdNodeState.
  - RmdWorkloads that want the same CPU of a node are found before anything is written, and both
    get the condition C(Conflicting).
  - A daemon that does not answer, or a node that does not exist, stops no other. Only daemons that
    do not answer count for O(min_success); what a daemon refuses is told on the RmdWorkload.
  - It writes a document with the RmdNodeStates and with every status that says something new, for
    M(wattwise.kube.kube_apply), and with the caches and workloads of each daemon, for the report.
options:
  snapshot:
    description:
      - Path of a snapshot document with nodes, C(rmd_workloads), C(rmd_node_states),
        C(rmd_configs) and C(rmd_pods).
    type: path
    required: true
  endpoints:
    description:
      - URLs of daemons by node. They take precedence over the address of the daemon's pod.
    type: dict
    default: {}
  namespace:
    description:
      - Namespace of the RmdNodeStates and of the daemons' pods. A pod of another namespace is never
        asked, whatever labels it has, because anybody may give a pod any label.
    type: str
    default: rmd-system
  require_capacity:
    description:
      - Whether a daemon is asked for its hospitality score before a workload is created, and gets
        no workload where that is 0. Only an administrator's certificate may ask.
    type: bool
    default: false
  path:
    description:
      - Where to write the document; without it, its content is returned.
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

- name: Bring the daemons to what the RmdWorkloads want
  wattwise.kube.rmd_reconciliation:
    snapshot: /var/lib/wattwise/run/rmd-snapshot.json
    ca_path: /etc/rmd/ca.pem
    client_cert: /etc/rmd/cert.pem
    client_key: /etc/rmd/key.pem
    path: /var/lib/wattwise/run/rmd.json

- name: Write what became of them
  wattwise.kube.kube_apply:
    src:
      - /var/lib/wattwise/run/rmd.json
    src_key: statuses
    status: true

- name: Show what would change where daemons do not run in pods
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
    - One entry for each daemon and workload, as M(wattwise.kube.rmd_workload) returns them.
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
    - Daemons that could not be asked, and workloads that they refused, as
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
  description: How many nodes have a daemon.
  returned: always
  type: int
  sample: 2
workloads:
  description: How many RmdWorkloads there are.
  returned: always
  type: int
  sample: 1
path:
  description: Where the document was written.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/rmd.json
node_states:
  description: The RmdNodeStates that there shall be.
  returned: without O(path)
  type: list
  elements: dict
  sample: []
statuses:
  description: The statuses that say something new.
  returned: without O(path)
  type: list
  elements: dict
  sample: []
findings:
  description:
    - RmdWorkloads, RmdConfigs, RmdNodeStates and Nodes that cannot be used as they are. Each stops
      no other.
  returned: always
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object.
      type: str
      sample: RmdWorkload
    namespace:
      description: Its namespace; empty for what has none.
      type: str
      sample: default
    name:
      description: Its name.
      type: str
      sample: gold
    field:
      description: Path of the field; empty where the defect has no single place.
      type: str
      sample: spec.core_ids
    problem:
      description: What is wrong with it.
      type: str
      sample: "'abc' is not a list of CPUs; write it like 3, 0-3 or 0-7,^4"
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.reconciliation import (
    SPEC,
    reconcile,
)


def main() -> None:
    run_module(SPEC, reconcile)


if __name__ == "__main__":
    main()
