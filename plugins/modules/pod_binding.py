#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module pod_binding."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_binding
short_description: Bind waiting pods to the nodes of a plan
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Binds each pod of a plan to its node, as a scheduler does. Nodes are processed concurrently, the
    pods of one node in the order of the plan.
  - The node, its pods and the pod are read again just before binding. A pod is skipped, with the
    reason, if the node is gone, cordoned, not ready, full or tainted against the pod, or if the pod
    is gone, replaced, being deleted or already bound. Each binding carries uid and resource version
    of the pod, so that a pod that changed meanwhile is read again. A Lease lets one run at a time
    bind pods in a cluster, so that two runs never overcommit a node.
  - A pod with volume claims is bound once its claims are. A claim with C(WaitForFirstConsumer) gets
    a PersistentVolume that fits, or the annotation C(volume.kubernetes.io/selected-node), on which
    its provisioner makes the volume. The wait for the volumes of all pods together lasts up to 60
    s. A claim without a volume by then is given back, and its pod is skipped and gets the
    condition with the reason.
  - Unplaced pods of the plan get an event and the condition C(PodScheduled=False) with the reason
    C(Unschedulable), on which cluster autoscalers act.
  - A pod on its planned node is left unchanged, so a second run changes nothing.
options:
  plan:
    description:
      - Path of the plan document that M(wattwise.kube.power_placement) wrote.
      - Exactly one of O(plan) and O(placements) is required.
    type: path
  placements:
    description:
      - Pods to bind and their nodes, as M(wattwise.kube.power_placement) returns them.
    type: list
    elements: dict
    suboptions:
      namespace:
        description: Namespace of the pod.
        type: str
        default: default
      pod:
        description: Name of the pod.
        type: str
        required: true
      node:
        description: Name of the node.
        type: str
        required: true
      uid:
        description:
          - UID of the pod. A pod of the same name with another uid is skipped.
        type: str
      resource_version:
        description:
          - Resource version of the pod in the plan, for information. The binding uses the version
            that is read just before it.
        type: str
  unplaced:
    description:
      - Pods without a node, as M(wattwise.kube.power_placement) returns them. With O(plan), those
        of the plan.
      - Each entry needs C(pod), the name, and C(message), the reason. C(uid) protects a new pod of
        the same name. C(namespace) is V(default) by default.
    type: list
    elements: dict
  mark_unplaced:
    description:
      - Whether unplaced pods get the condition C(PodScheduled=False) and an event.
    type: bool
    default: true
  volume_timeout:
    description:
      - Seconds to wait, once for all pods, until the volumes of their claims are bound or made. A
        claim without a volume by then is given back, and its pod waits for the next run.
      - Other runs that bind pods wait meanwhile, see O(lease_namespace). At most V(3600).
    type: float
    default: 60.0
  path:
    description:
      - Path of the bindings document to write, with the bound pods and the time. It is written
        after at least one binding, not in check mode; its folder is created if missing.
      - With O(plan) it also lists planned pods that an interrupted earlier run bound.
    type: path
  keep:
    description:
      - Documents to keep beside O(path), together with O(plan), for the report. They are hard
        links, so later runs do not change them. Documents of another run than the plan are left
        out.
    type: list
    elements: path
    default: []
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.lease
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - fastjsonschema >= 2.20 (for O(plan))
"""

EXAMPLES = r"""
- name: Bind the pods of a plan
  wattwise.kube.pod_binding:
    plan: /var/lib/wattwise/run/plan.json

- name: Bind them, and keep the documents that the report compares readings with
  wattwise.kube.pod_binding:
    plan: /var/lib/wattwise/run/plan.json
    path: /var/lib/wattwise/run/bound/bindings.json
    keep:
      - /var/lib/wattwise/run/readings.json
      - /var/lib/wattwise/run/curves.json

- name: Bind one pod
  wattwise.kube.pod_binding:
    placements:
      - namespace: default
        pod: worker-0
        node: node-2

- name: Show the bindings that a plan would cause
  module_defaults:
    group/wattwise.kube.wattwise:
      kubeconfig: ~/.kube/config
      context: hall-2
  block:
    - name: Compare the plan with the cluster
      wattwise.kube.pod_binding:
        plan: /var/lib/wattwise/run/plan.json
        mark_unplaced: false
      check_mode: true
      diff: true
"""

RETURN = r"""
bound:
  description: Pods that this run bound, or would bind in check mode.
  returned: always
  type: list
  elements: dict
  sample:
    - namespace: default
      node: node-2
      pod: worker-0
unchanged:
  description: Pods that were already on their planned node.
  returned: always
  type: list
  elements: dict
  sample: []
skipped:
  description:
    - Pods that were not bound, because the pod or node changed since the plan. C(waits) is false
      for a pod that needs no node any more, such as a deleted one.
  returned: always
  type: list
  elements: dict
  sample:
    - namespace: default
      node: node-1
      pod: worker-1
      reason: node node-1 is cordoned
      waits: true
marked:
  description:
    - Unplaced pods whose condition was written. C(transition) is false if only the text of the
      condition changed, which does not make the task changed.
  returned: always
  type: list
  elements: dict
  sample:
    - message: "0/2 nodes are available: 2 Insufficient cpu."
      namespace: default
      pod: large-0
      transition: true
errors:
  description: API errors by pod. The task fails if every attempted binding failed.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ..module_utils.bind import binding
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(binding.SPEC, binding.bind)


if __name__ == "__main__":
    main()
