#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module pod_eviction."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_eviction
short_description: Move running pods to the nodes of a plan, step by step
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Executes the steps that M(wattwise.kube.power_placement) proposes with its option C(rebalance).
    Each pod is evicted through the Eviction API, its controller creates a replacement, and the
    replacement is bound to the planned node.
  - Pods move one at a time. The first refusal by a PodDisruptionBudget or missing replacement ends
    the run; RV(stopped) has the reason.
  - The pod and its new node are read again just before each eviction. A step of several moves
    begins only if its pods are still the planned ones, their nodes have room for all of them, the
    API server allows each eviction by C(dryRun), and the budgets allow all together. The account
    needs the right to list PodDisruptionBudgets.
  - A step whose pods or nodes changed is skipped with the reason, and so are later steps on its
    nodes, because their gain depends on it. If the step has begun, the run ends instead.
  - A Lease keeps other runs from binding or moving pods of the cluster until this run ends.
  - A replacement that could not be bound waits for the next plan.
  - In check mode each eviction is sent with C(dryRun).
options:
  plan:
    description:
      - Path of the plan document that M(wattwise.kube.power_placement) wrote.
      - Exactly one of O(plan) and O(steps) is required.
    type: path
  steps:
    description:
      - Steps to execute, as M(wattwise.kube.power_placement) returns them.
    type: list
    elements: dict
    suboptions:
      moves:
        description: Moves of one step in their order; they save watts only together.
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
              - UID of the pod. A pod of the same name with another uid is skipped.
            type: str
          from_node:
            description: Name of the pod's present node.
            type: str
            required: true
          to_node:
            description: Name of the pod's new node.
            type: str
            required: true
          gain_watts:
            description: Watts that the move saves, for RV(gain_watts).
            type: float
      gain_watts:
        description: Watts that the step saves, for information.
        type: float
      cost_if_stopped_watts:
        description: Watts that an end within the step may cost, for information.
        type: float
      asleep:
        description: Nodes that may sleep after the step, for information.
        type: list
        elements: str
  scheduler_name:
    description:
      - C(schedulerName) of the pods to move. Pods of other schedulers are skipped, because their
        scheduler would bind the replacement.
    type: str
    default: wattwise
  timeout:
    description:
      - Seconds to wait for the replacement of an evicted pod. A StatefulSet creates it only after
        the old pod is gone.
      - The same limit holds for evicted pods to leave a node that another pod needs.
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
- name: Show the moves without making them
  wattwise.kube.pod_eviction:
    plan: /var/lib/wattwise/run/plan.json
  check_mode: true
  diff: true

- name: Move pods until a budget refuses

  wattwise.kube.pod_eviction:
    plan: /var/lib/wattwise/run/plan.json
  register: moves

- name: Show the reason for an early end

  ansible.builtin.debug:
    msg: "{{ moves.stopped.pod }}: {{ moves.stopped.reason }}"
  when: moves.stopped
"""

RETURN = r"""
moves:
  description:
    - Moves in the order of the plan, with their C(step), counted from 1. C(reason) is null for
      completed moves.
    - C(outcome) is V(moved); V(skipped) if the pod or node changed since the plan, or another move
      of the step was skipped; V(stopped) for the same in a step that had begun; V(refused) if the
      eviction was refused; V(evicted) if the pod is gone but its replacement is not on the node;
      V(left) if the run ended before.
    - C(replacement) is the name of the new pod of a completed move, null in check mode.
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
    - Sum of the planned savings of all completed moves, in W; negative if the run ended within a
      step that saves watts only at its end. Null if a move lacks its C(gain_watts).
  returned: always
  type: float
  sample: 12.5
stopped:
  description: Entry of RV(moves) at which the run ended; null if all steps were tried.
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

from ..module_utils.eviction import eviction
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(eviction.SPEC, eviction.move_pods)


if __name__ == "__main__":
    main()
