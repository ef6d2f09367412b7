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
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Releases what ended pods had, finds devices for the claims of pods that wait for them, writes
    who has what into the cluster, and sends each pod to the node of its devices.
  - A pod waits if its C(schedulerName) is O(scheduler_name), and is then bound; or if O(gate) is
    its only scheduling gate, and is then bound to the node by its node affinity and released from
    the gate. A pod that runs already gets devices of its node. For any other pod the answer is an
    error, since its scheduler may take it anywhere.
  - A node is considered if it has room for the pod and the pod may run there.
  - Claims of C(resource.k8s.io) are allocated as kube-scheduler does for its pods, by one run at a
    time.
  - Claims of the k8srm prototype (C(devmgmtproto.k8s.io/v1alpha1)) are named in the pod's
    annotation C(wattwise.github.io/device-claims), since Kubernetes stores no
    C(spec.deviceClaims). The annotation holds the same list. A claim that stands there itself, or
    is made after another one (C(claimTemplateName)), becomes a DeviceClaim that the pod owns.
  - Several may run at once, and one may be killed at any moment. Who gets a device is decided by a
    write to its pool with the resource version that was read; the next run finishes or takes back
    what an interrupted one left.
  - What cannot be done for one pod or claim is in RV(errors), and the others go on.
options:
  api_group:
    description:
      - API group of the claims.
    type: str
    default: resource.k8s.io
    choices:
      - resource.k8s.io
      - devmgmtproto.k8s.io
  scheduler_name:
    description:
      - Pods with this C(schedulerName) are bound. No scheduler of that name may run.
    type: str
    default: wattwise
  gate:
    description:
      - Pods with this scheduling gate are released from it once they have their devices.
    type: str
    default: wattwise.github.io/devices
  plan:
    description:
      - File that M(wattwise.kube.power_placement) wrote. A pod gets the node that it has there, as
        long as its devices are there too, so that both come of one answer. A pod that gets none is
        told the plan's reason, if it has one, as by M(wattwise.kube.pod_binding).
    type: path
  device_power:
    description:
      - The name of the attribute or capacity that says how many watts a device draws in use; see
        M(wattwise.kube.device_allocation).
    type: str
  strategy:
    description:
      - How to allocate; see M(wattwise.kube.device_allocation).
    type: str
    default: optimal
    choices:
      - optimal
      - first_fit
  time_limit:
    description:
      - Seconds that a search may take, more than 0. There are up to three where devices of O(plan)
        are gone.
    type: float
    default: 10.0
  seed:
    description:
      - Seed of the search, V(0) or more.
    type: int
    default: 0
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.lease
  - wattwise.kube.progress
  - wattwise.kube.attributes.changing_module
requirements:
  - python >= 3.11
  - cel-expr-python >= 0.1.3 (for selectors)
  - ortools >= 9.15 (for O(strategy=optimal), and conflicts that counting does not find)
  - PyYAML (for the annotation)
seealso:
  - module: wattwise.kube.device_allocation
"""

EXAMPLES = r"""
- name: Give devices to all pods that wait for some
  wattwise.kube.device_reconciliation:

- name: Show what would change
  wattwise.kube.device_reconciliation:
    kubeconfig: /etc/kubernetes/admin.conf
  check_mode: true
  diff: true

- name: Give the pods of a plan their devices on the nodes that it has for them
  wattwise.kube.device_reconciliation:
    api_group: resource.k8s.io
    plan: ~/.local/state/wattwise/hall-1/plan.json

- name: Prefer devices that draw little
  wattwise.kube.device_reconciliation:
    device_power: power
  register: given

- name: Show who got nothing, and why
  ansible.builtin.debug:
    var: given.errors
"""

RETURN = r"""
changes:
  description:
    - What was written, or would be in check mode. C(action) is V(created) (a claim of a
      pod), V(allocated), V(reserved) (a further pod uses the claim), V(released), V(repaired)
      (after an interrupted run), V(bound), V(pinned) (by node affinity) or V(explained) (a pod that
      we bind gets the condition C(PodScheduled=False) and an event, as no node has its devices).
  returned: always
  type: list
  elements: dict
  sample:
    - action: allocated
      detail: node-1-gpus/gpu-0 on node node-1
      kind: DeviceClaim
      name: training
      namespace: default
    - action: bound
      detail: on node node-1
      kind: Pod
      name: training-0
      namespace: default
errors:
  description: Objects for which something could not be done, and why.
  returned: always
  type: list
  elements: dict
  sample:
    - detail: the pod has other scheduling gates
      kind: Pod
      name: training-1
      namespace: default
outcome:
  description: As M(wattwise.kube.device_allocation) returns it, for the claims that had nothing.
  returned: always
  type: str
  sample: allocated
pods:
  description:
    - The node of each pod that waited; null for one that gets none, with a C(message) that counts
      what the nodes lack.
  returned: always
  type: list
  elements: dict
  sample:
    - namespace: default
      name: training-0
      node: node-1
      message: null
node_results:
  description: Why which node does or does not do, as M(wattwise.kube.device_allocation) returns it.
  returned: always
  type: list
  elements: dict
  sample: []
conflict:
  description: A least set of requests that cannot be satisfied together.
  returned: always
  type: list
  elements: dict
  sample: []
objective:
  description: How good the answer is, as M(wattwise.kube.device_allocation) returns it.
  returned: always
  type: list
  elements: dict
  sample:
    - level: claims
      value: 1
      bound: 1
findings:
  description:
    - Objects that cannot be used as they are, as M(wattwise.kube.device_allocation) returns them.
      One warning tells of them.
    - Such a claim, pool or pod is not written, and no device is given that such a claim or pool may
      hold. All others are treated as without these.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible_collections.wattwise.kube.plugins.module_utils.devices.reconciliation import (
    SPEC,
    reconcile,
)
from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module


def main() -> None:
    run_module(SPEC, reconcile)


if __name__ == "__main__":
    main()
