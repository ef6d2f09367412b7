# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of steps that are modules too, and suboptions of fleet_reconciliation.

A fragment cannot add suboptions to another one, so the options of a step stand here once.
"""

from __future__ import annotations

import textwrap

_PLACE = r"""
  # begin generated: place
  scheduler_name:
    description: C(schedulerName) of the pods to place.
    type: str
    default: wattwise
  strategy:
    description:
      - V(optimal) combines a linear relaxation, local search and, for small inputs, mixed-integer
        programming.
      - The other strategies serve comparison. They place one pod at a time, by priority and then by
        name, and never revise a choice.
      - V(greedy) takes the node on which the pod adds the least power.
      - V(minimize_power) scores like WAO's scheduler with its preset. Its plugin MinimizePower
        predicts the power draw of the pod's whole request, truncates it to whole watts, and has
        twenty times the weight of kube-scheduler's resource scores. A pod without CPU requests
        stays unplaced.
      - V(peaks) scores like PEAKS, with exponential models that are fitted to the power curves. A
        node without a curve costs nothing, as in PEAKS.
      - V(spread) scores like kube-scheduler, with its resource scores LeastAllocated and
        BalancedAllocation.
    type: str
    default: optimal
    choices: [optimal, greedy, minimize_power, peaks, spread]
  compare:
    description:
      - Strategies to run on the same input for the comparison in the plan. Their placements are not
        part of the plan.
      - V(optimal) takes another O(time_limit), each other strategy about a second for 10,000 pods
        on 1,000 nodes.
    type: list
    elements: str
    default: []
    choices: [optimal, greedy, minimize_power, peaks, spread]
  time_limit:
    description:
      - Seconds of processor time that a search may take, above 0. The counted work normally ends
        much earlier.
      - On a busy machine a search may take up to ten times as long by the clock, so that the result
        does not depend on other load.
    type: float
    default: 10.0
  seed:
    description: Seed of the random numbers in the search, V(0) or more.
    type: int
    default: 0
  usage_source:
    description:
      - Source of the present CPU use of nodes. V(metrics) is the usage in metrics.k8s.io plus the
        assumed use of pods that have not started. V(requests) is the assumed use of all pods; see
        O(pod_usage_assumption). V(auto) is V(metrics) for nodes that have metrics, else
        V(requests).
      - With V(metrics), a node without metrics counts as a node without a power curve.
    type: str
    default: auto
    choices: [auto, metrics, requests]
  pod_usage_assumption:
    description: Share of its CPU request that a pod is assumed to use, from V(0) to V(1).
    type: float
    default: 0.8
  unpriced:
    description: Use of nodes without a power curve. V(last_resort) places only pods on them that
      fit on no other node, V(exclude) places none.
    type: str
    default: last_resort
    choices: [last_resort, exclude]
  preference_watts:
    description:
      - Cost of an unmet preference of weight 100, in W; other weights count in proportion. V(0)
        ignores all preferences. Raise it where preferences matter more than power.
      - Preferred node affinity counts with its weight. An untolerated C(PreferNoSchedule) taint
        counts with 100.
      - Preferred pod affinity counts with its weight for each pod without another matching pod in
        its topology domain at the end. Preferred anti-affinity counts for each pod with one. Among
        pods placed together that avoid each other, one per domain costs nothing.
      - A topology spread constraint with C(ScheduleAnyway) counts with 100 for each pod beyond an
        even share plus C(maxSkew).
    type: float
    default: 1.0
  device_power:
    description: Name of the attribute or capacity with the power that a device draws in use, in W,
      such as C(power) or C(gpu.example.com/power). A device without it counts as 0 W.
    type: str
  allow_power_off:
    description:
      - Whether nodes without workload (except DaemonSet pods) count as asleep, with
        O(standby_watts) instead of their idle power. The plan lists them as C(asleep).
      - A node in short form with any amount in C(used) stays awake.
    type: bool
    default: false
  standby_watts:
    description: Power draw of a sleeping node in W, with O(allow_power_off).
    type: float
    default: 0.0
  rebalance:
    description:
      - Whether to propose moves of running pods. Their gain is computed after placing the waiting
        pods.
      - A pod moves by eviction and recreation. Candidates have the C(schedulerName) of
        O(scheduler_name) and a ReplicaSet, ReplicationController or StatefulSet as controller, and
        every PodDisruptionBudget allows their eviction. They belong to no pod group, hold no cache
        ways or devices, and lack the annotation C(cluster-autoscaler.kubernetes.io/safe-to-evict)
        with V(false).
      - Moves that save power only together form one step, such as those that empty a node for sleep
        (O(allow_power_off)). The C(steps) of the plan have an order in which each pod finds room.
    type: bool
    default: false
  min_gain_watts:
    description: Power that each move must save, in W, above 0, with O(rebalance). In a step of
      several moves their average counts. Preferences that become unmet are subtracted. Raise it to
      get fewer moves.
    type: float
    default: 5.0
  max_moves:
    description: Largest number of moves to propose, in all steps together.
    type: int
    default: 10
  textfile:
    description:
      - Path of the file to write in Prometheus' text format, with
        C(wattwise_predicted_power_watts), the power draw of each node's curve at its present CPU
        use.
      - Nodes without a curve, without known use, or with a use beyond the ends of the curve are
        left out.
      - Use another file than the one with the readings.
    type: path
  textfile_labels:
    description: Labels to add to every sample of O(textfile), such as the name of the cluster.
    type: dict
    default: {}
  # end generated
"""
_DEVICES = r"""
  # begin generated: devices
  api_group:
    description: API group of the claims in the cluster.
    type: str
    default: resource.k8s.io
    choices: [resource.k8s.io, devmgmtproto.k8s.io]
  scheduler_name:
    description: C(schedulerName) of the pods to bind. No scheduler may run under this name.
    type: str
    default: wattwise
  gate:
    description: Scheduling gate that is removed from a pod as soon as it has its devices.
    type: str
    default: wattwise.github.io/devices
  plan:
    description: Path of the plan document. A pod gets its planned node while the planned devices
      are free there. A pod without a node gets the reason of the plan in its condition.
    type: path
  strategy:
    description: Allocation strategy; see M(wattwise.kube.device_allocation).
    type: str
    default: optimal
    choices: [optimal, first_fit]
  device_power:
    description: Name of the attribute or capacity with the power that a device draws in use, in W;
      see M(wattwise.kube.device_allocation).
    type: str
  time_limit:
    description: Seconds of processor time that one search may take, above 0. Up to three searches
      run if devices of the plan are gone.
    type: float
    default: 10.0
  seed:
    description: Seed of the random numbers in the search, V(0) or more.
    type: int
    default: 0
  volume_timeout:
    description:
      - Seconds to wait, once for all pods of an attempt, until the volumes of their claims are
        bound or made. A pod whose claim has no volume by then gets no devices, and waits for the
        next run.
      - Other runs that bind pods wait meanwhile. At most V(3600).
    type: float
    default: 60.0
  # end generated
"""


def below(option: str, options: str) -> str:
    """The options as suboptions of this option, whose sentences name them by their whole path."""
    return textwrap.indent(options.replace("O(", f"O({option}."), "    ")


class ModuleDocFragment:
    """Documentation only."""

    # With a type, because ansible-test reads plain assignments as literals.
    PLACE: str = f"options:{_PLACE}"
    PLACE_OF_RUN: str = r"""
options:
  place:
    description: Options of step V(place), as in M(wattwise.kube.power_placement).
    type: dict
    default: {}
    suboptions:
""" + below("place", _PLACE)
    DEVICES: str = f"options:{_DEVICES}"
    DEVICES_OF_RUN: str = r"""
options:
  devices:
    description:
      - Options of step V(devices), as in M(wattwise.kube.device_reconciliation). After step
        V(restore), only pods of the stored plan get devices, each on its planned node.
      - Without O(devices.plan) the plan is that of step V(place), else the one in O(run_dir), if
        there is one.
    type: dict
    default: {}
    suboptions:
""" + below("devices", _DEVICES)
