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
  - Binds each pod of a plan to its node, as a scheduler does, several nodes at once and the pods of
    one node in the order of the plan.
  - Just before that it reads the node, the pods on it and the pod again. A pod is skipped, with
    the reason, where the node is gone, cordoned, not ready, full, or bears a taint that the pod
    does not tolerate, and where the pod is gone, replaced, being deleted or bound elsewhere. Each
    binding bears uid and resource version of the pod, so a pod that changes in between is looked
    at again. One run at a time does this in a cluster, so two runs with the same plan, or with
    plans of which neither knows the other, never send more to a node than it takes.
  - Pods that the plan leaves without a node get the condition C(PodScheduled=False) with the reason
    C(Unschedulable), which cluster autoscalers wait for, and an event, whenever that changes.
  - A pod that is bound as planned is left as it is, so a second run changes nothing.
options:
  plan:
    description:
      - Path of the document that M(wattwise.kube.power_placement) wrote.
      - Exactly one of O(plan) and O(placements) is needed.
    type: path
  placements:
    description:
      - What to bind, as M(wattwise.kube.power_placement) returns it.
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
          - The pod's uid. With it, another pod that took the same name is skipped.
        type: str
      resource_version:
        description:
          - The pod's resource version when the plan was made. It may have moved since; what counts
            is the one that is read just before binding.
        type: str
  unplaced:
    description:
      - Pods without a node, as M(wattwise.kube.power_placement) returns them; with O(plan), those
        of the plan.
      - Needed of each are C(pod), the name, and C(message), which says why there is no node. With
        C(uid), another pod that took the same name is left alone. C(namespace) is V(default) by
        default.
    type: list
    elements: dict
  mark_unplaced:
    description:
      - Whether pods without a node get condition and event.
    type: bool
    default: true
  path:
    description:
      - Where to write the bindings document, which says what was bound, and when. It is written
        when something was bound, and not in check mode; its folder is made where it is missing.
      - With O(plan) it also names pods that a run before bound as planned, and it is written for
        them alone if that run ended before it wrote it.
    type: path
  keep:
    description:
      - Documents to keep beside O(path), with the one of O(plan), as they are now. A report reads
        them there when later runs have replaced them. They are hard links, so they cost no space.
        A document of another run than that of the plan is left out.
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
- name: Carry a plan out
  wattwise.kube.pod_binding:
    plan: /var/lib/wattwise/run/plan.json

- name: Carry it out, and keep what a later report compares readings with
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

- name: Show which pods would go where
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
  description: Pods that were bound in this run, or would be in check mode.
  returned: always
  type: list
  elements: dict
  sample:
    - namespace: default
      node: node-2
      pod: worker-0
unchanged:
  description: Pods that were on their planned node already.
  returned: always
  type: list
  elements: dict
  sample: []
skipped:
  description: Pods that were not bound because pod or node are no longer as in the plan.
  returned: always
  type: list
  elements: dict
  sample:
    - namespace: default
      node: node-1
      pod: worker-1
      reason: node node-1 is cordoned
marked:
  description:
    - Pods without a node whose condition was written. C(transition) is false where only the text
      of the condition changed, which does not count as a change.
  returned: always
  type: list
  elements: dict
  sample:
    - message: "0/2 nodes are available: 2 Insufficient cpu."
      namespace: default
      pod: large-0
      transition: true
errors:
  description: What the API did not let us do, by pod. The task fails if nothing could be bound.
  returned: always
  type: list
  elements: dict
  sample: []
"""

from ansible_collections.wattwise.kube.plugins.module_utils.bind import binding
from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module


def main() -> None:
    run_module(binding.SPEC, binding.bind)


if __name__ == "__main__":
    main()
