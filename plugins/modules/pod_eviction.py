#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module pod_eviction."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_eviction
short_description: Move running pods to the nodes of a plan, one step after another
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Carries out the steps that M(wattwise.kube.power_placement) proposes with its option
    C(rebalance). A pod cannot be moved; it is evicted through the Eviction API, its controller
    makes another one, and that one is bound to the planned node.
  - One pod at a time. The first refusal by a PodDisruptionBudget, and the first pod for which no
    other one comes, ends the run; RV(stopped) says why, and RV(moves) what became of each pod.
  - Just before each eviction the pod and its new node are looked at again. A step of several moves
    begins only if all of its pods are still the planned ones and their nodes take all of them, if
    the API server allows each eviction when it is only asked (C(dryRun)), and if the budgets allow
    all of them together. Whoever runs it needs the right to list PodDisruptionBudgets for that.
  - A step that is no longer the planned one is skipped as a whole, with the reason, and so are
    later steps that concern one of its nodes, because what they are worth depends on it. One that
    has begun ends the run instead.
  - No other run binds or moves pods of the cluster before this one has ended.
  - A pod that was evicted and whose replacement could not be bound waits for the next plan.
  - In check mode the API server judges each eviction without carrying it out.
options:
  plan:
    description:
      - Path of the document that M(wattwise.kube.power_placement) wrote.
      - Exactly one of O(plan) and O(steps) is needed.
    type: path
  steps:
    description:
      - What to move, as M(wattwise.kube.power_placement) returns it.
    type: list
    elements: dict
    suboptions:
      moves:
        description: The moves of one step, which pay only together, in their order.
        type: list
        elements: dict
        required: true
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
            description: What the move saves, for RV(gain_watts).
            type: float
      gain_watts:
        description: What the step saves; for people.
        type: float
      cost_if_stopped_watts:
        description: What it may cost to end within the step; for people.
        type: float
      asleep:
        description: Nodes that may sleep after the step; for people.
        type: list
        elements: str
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
      - Also the seconds to wait for evicted pods to leave a node that another pod is to go to.
    type: float
    default: 120.0
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
moves:
  description:
    - What became of each move, in the order of the plan; C(step) counts from 1. C(reason) says why
      it was not made, and is null where it was.
    - C(outcome) is V(moved); or V(skipped), if pod or node are no longer as in the plan, or another
      move of the step was skipped; V(refused), if the eviction was refused; V(stopped), if the same
      as for V(skipped) was found in a step that had begun; V(evicted), if the pod is gone but its
      replacement is not on the node; V(left), if the run ended before.
    - C(replacement) is the name of the pod that took the place of one that moved, null in check
      mode.
  returned: always
  type: list
  elements: dict
  sample:
    - from_node: node-2
      namespace: default
      outcome: moved
      pod: worker-7d4b9-x2x8k
      reason: null
      replacement: worker-7d4b9-qk5fp
      step: 1
      to_node: node-1
gain_watts:
  description:
    - What the moves that were made save together, by the plan; negative where the run ended within
      a step that costs watts until it is done. Null where a move does not say what it saves.
  returned: always
  type: float
  sample: 12.5
stopped:
  description: The entry of RV(moves) at which the run ended; null where all steps were tried.
  returned: always
  type: dict
  sample:
    from_node: node-2
    namespace: default
    outcome: refused
    pod: worker-7d4b9-zl2vn
    reason: "a PodDisruptionBudget forbids the eviction: Cannot evict pod"
    replacement: null
    step: 2
    to_node: node-1
"""

from ansible_collections.wattwise.kube.plugins.module_utils.eviction import eviction
from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module


def main() -> None:
    run_module(eviction.SPEC, eviction.move_pods)


if __name__ == "__main__":
    main()
