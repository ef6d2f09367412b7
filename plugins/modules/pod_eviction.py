#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module pod_eviction."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_eviction
short_description: Move running pods to the nodes of a plan, one after another
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Carries out the moves that M(wattwise.kube.power_placement) proposes with its option
    C(rebalance). A pod cannot be moved; it is evicted through the Eviction API, its controller
    makes another one, and that one is bound to the planned node.
  - One pod at a time. The first refusal by a PodDisruptionBudget, and the first pod for which no
    other one comes, ends the run; RV(stopped) says why. The moves after it are left as they are.
  - Just before each eviction the pod and both of its nodes are looked at again. A move that is no
    longer the planned one is skipped, with the reason.
  - In check mode the API server judges each eviction without carrying it out.
options:
  plan:
    description:
      - Path of the document that M(wattwise.kube.power_placement) wrote.
      - Exactly one of O(plan) and O(moves) is needed.
    type: path
  moves:
    description:
      - What to move, as M(wattwise.kube.power_placement) returns it.
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
      uid:
        description:
          - The pod's uid. With it, another pod that took the same name is skipped.
        type: str
      from_node:
        description: Name of the node that the pod is on.
        type: str
        required: true
      to_node:
        description: Name of the node that it is to be on.
        type: str
        required: true
      gain_watts:
        description: What the move saves; for people.
        type: float
  scheduler_name:
    description:
      - Only pods with this C(schedulerName) are moved; another scheduler would bind the new pod
        where it likes.
    type: str
    default: wattwise
  timeout:
    description:
      - Seconds to wait for the pod that takes the place of an evicted one. The one of a StatefulSet
        comes only when the old one is gone.
    type: float
    default: 120.0
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - fastjsonschema >= 2.20 (for O(plan))
"""

EXAMPLES = r"""
- name: See what would be moved
  wattwise.kube.pod_eviction:
    plan: /var/lib/wattwise/run/plan.json
  check_mode: true
  diff: true

- name: Move at most as long as budgets allow
  wattwise.kube.pod_eviction:
    plan: /var/lib/wattwise/run/plan.json
  register: moves

- name: Say why it ended early
  ansible.builtin.debug:
    msg: "{{ moves.stopped.pod }}: {{ moves.stopped.reason }}"
  when: moves.stopped
"""

RETURN = r"""
moved:
  description:
    - Pods that were moved, or would be in check mode. C(replacement) is the name of the pod that
      took the place, null in check mode.
  returned: always
  type: list
  elements: dict
  sample:
    - from_node: node-2
      namespace: default
      pod: worker-7d4b9-x2x8k
      replacement: worker-7d4b9-qk5fp
      to_node: node-1
skipped:
  description: Moves that were not tried because pod or node are no longer as in the plan.
  returned: always
  type: list
  elements: dict
  sample:
    - from_node: node-2
      namespace: default
      pod: worker-7d4b9-8xkzt
      reason: the pod is gone
      to_node: node-1
stopped:
  description: The move at which the run ended, with the reason; null where all were tried.
  returned: always
  type: dict
  sample:
    from_node: node-2
    namespace: default
    pod: worker-7d4b9-zl2vn
    reason: "a PodDisruptionBudget forbids the eviction: Cannot evict pod"
    to_node: node-1
left:
  description: How many moves were neither made nor skipped.
  returned: always
  type: int
  sample: 1
"""

from ansible_collections.wattwise.kube.plugins.module_utils import eviction
from ansible_collections.wattwise.kube.plugins.module_utils.skin import run_module


def main() -> None:
    run_module(eviction.SPEC, eviction.move_pods)


if __name__ == "__main__":
    main()
