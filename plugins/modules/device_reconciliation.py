#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module device_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_reconciliation
short_description: Give the devices of a cluster to the claims of its pods
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Releases the devices of ended pods, allocates devices to the claims of waiting pods, writes the
    allocations into the cluster, and binds or releases each pod to the node of its devices.
  - A waiting pod with the C(schedulerName) O(scheduler_name) is bound. A waiting pod with O(gate)
    as its only scheduling gate gets a node affinity for its node, and the gate is removed. A
    running pod gets devices of its node. Any other pod is an error, because its own scheduler may
    choose any node.
  - Only nodes with enough free resources are considered, and only where the pod may run.
  - Claims of C(resource.k8s.io) are allocated as by kube-scheduler. A Lease admits one run at a
    time.
  - The pod annotation C(wattwise.github.io/device-claims) lists the claims of the k8srm prototype
    (C(devmgmtproto.k8s.io/v1alpha1)), because Kubernetes does not store C(spec.deviceClaims). An
    inline claim, or one from C(claimTemplateName), becomes a DeviceClaim that the pod owns.
  - Concurrent and killed runs are safe. A conditional write to the pool, by its resource version,
    decides which run gets a device. The next run completes or reverts an interrupted allocation.
  - A pod or claim that fails is listed in RV(errors) and stops no other.
  - Limits of O(plan) hold. A node that a limit closes gets no pod, and a node with a limit in W only
    the pods that O(plan) put there. Pods with O(gate) are in no plan and avoid the closed nodes.
  - If devices of O(plan) are gone, up to three searches run, each within O(time_limit).
extends_documentation_fragment:
  - wattwise.kube.steps.devices
  - wattwise.kube.kubernetes
  - wattwise.kube.lease
  - wattwise.kube.progress
  - wattwise.kube.attributes.changing_module
requirements:
  - python >= 3.11
  - cel-expr-python >= 0.1.3 (for selectors)
  - ortools >= 9.15 (for O(strategy=optimal), and for conflicts that counting does not find)
  - PyYAML (for the annotation)
seealso:
  - module: wattwise.kube.device_allocation
"""

EXAMPLES = r"""
- name: Allocate devices to all waiting pods
  wattwise.kube.device_reconciliation:

- name: Show what would change
  wattwise.kube.device_reconciliation:
    kubeconfig: /etc/kubernetes/admin.conf
  check_mode: true
  diff: true

- name: Allocate devices on the nodes of a plan

  wattwise.kube.device_reconciliation:
    api_group: resource.k8s.io
    plan: ~/.local/state/wattwise/hall-1/plan.json

- name: Prefer devices that draw little power

  wattwise.kube.device_reconciliation:
    device_power: power
  register: given

- name: Show the pods without devices, and the reasons

  ansible.builtin.debug:
    var: given.errors
"""

RETURN = r"""
changes:
  description: Writes, or the planned ones in check mode. C(action) is V(created) (a claim of a
    pod), V(allocated), V(reserved) (a further pod uses the claim), V(released), V(repaired) (after
    an interrupted run), V(bound), V(pinned) (by node affinity) or V(explained) (a pod without
    devices gets the condition C(PodScheduled=False) and an event).
  returned: always
  type: list
  elements: dict
  sample:
    - action: allocated
      detail: node-1-gpus/gpu-0 on node node-1
      kind: DeviceClaim
      name: training
      namespace: default
    - {action: bound, detail: on node node-1, kind: Pod, name: training-0, namespace: default}
errors:
  description: Objects that failed, with the reason.
  returned: always
  type: list
  elements: dict
  sample:
    - {detail: the pod has other scheduling gates, kind: Pod, name: training-1, namespace: default}
outcome:
  description: Outcome for the claims without devices, as M(wattwise.kube.device_allocation) returns
    it.
  returned: always
  type: str
  sample: allocated
pods:
  description: Node of each waiting pod; null for a pod without devices, with a C(message) that
    counts the nodes for each reason.
  returned: always
  type: list
  elements: dict
  sample:
    - {namespace: default, name: training-0, node: node-1, message: null}
node_results:
  description: Result of each node, as M(wattwise.kube.device_allocation) returns it.
  returned: always
  type: list
  elements: dict
  sample: []
conflict:
  description: Minimal set of requests that cannot be satisfied together.
  returned: always
  type: list
  elements: dict
  sample: []
objective:
  description: Levels of the objective, as M(wattwise.kube.device_allocation) returns them.
  returned: always
  type: list
  elements: dict
  sample:
    - {level: claims, value: 1, bound: 1}
findings:
  description:
    - Objects that cannot be used, as M(wattwise.kube.device_allocation) returns them. One warning
      counts them.
    - The module writes to none of these objects and allocates no device that they may hold. Other
      objects are not affected.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ..module_utils.devices.reconciliation import SPEC, reconcile
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(SPEC, reconcile)


if __name__ == "__main__":
    main()
