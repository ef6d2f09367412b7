#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module power_placement."""

from __future__ import annotations

DOCUMENTATION = r"""
module: power_placement
short_description: Find the nodes on which waiting pods cost the fewest watts
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Finds a node for all waiting pods at once so that the fleet draws the fewest watts, by each
    node's power curve, and says how far from the optimum the answer can be at the most.
  - First as many pods as possible are placed, those of the highest priority before all others;
    then as few as possible on nodes without a power curve; then the watts decide.
  - Respects what kube-scheduler respects about CPU, memory, ephemeral storage, pod slots and
    extended resources, overhead, init containers and sidecars, C(nodeName), C(nodeSelector), node
    affinity, taints, cordoned nodes, nodes that are not ready, ports of the host, pod affinity and
    anti-affinity (also that of the pods that run already) and topology spread constraints.
  - A pod that asks for C(intel.com/l3_cache_ways) goes to a node on which one cache has as many
    free ways in a row, beside those of all other pods that go there or are bound already. Free rows
    are those of the node's RmdNodeState; on a node without one only the extended resource counts.
  - A pod with claims for devices goes to a node whose devices satisfy them, beside those of all
    other pods; no device is given twice, what devices draw counts, and RV(allocations) has what
    each claim gets. Claims are those of C(resource.k8s.io/v1) in C(resourceClaims) and of the k8srm
    prototype in C(deviceClaims). On its node a pod gets devices as
    M(wattwise.kube.device_allocation) gives them. Pods that share a claim are on one node. Claims
    that devices of several nodes might satisfy are C(unsupported) where there are more than about
    2500 pairs of such a pod and a device.
  - Rules between pods hold in the final state, whatever came when, and in the order of
    RV(placements) also at each step.
  - Pods of one namespace with the same label C(scheduling.x-k8s.io/pod-group) are placed together
    or not at all. The annotation C(podspread-rate) of WAO counts on pods and on their ReplicaSet,
    which has it from the Deployment.
  - What is only preferred is weighed against watts; see O(preference_watts).
  - A pod with any other rule about where it may run, such as a volume claim, stays unplaced with
    the reason C(unsupported:) and the field.
  - Changes nothing in the cluster; M(wattwise.kube.pod_binding) carries the plan out.
  - Equal input gives an equal answer, unless RV(stopped_by) is V(wall_clock).
options:
  snapshot:
    description:
      - Path of the document that M(wattwise.kube.fleet_snapshot_info) wrote. Placed are its pods
        that wait for the scheduler O(scheduler_name).
      - Exactly one of O(snapshot), O(nodes) and O(src) is needed.
    type: path
  curves:
    description:
      - Path of the document that M(wattwise.kube.power_prediction_info) wrote, with a power curve
        for each node by name.
      - Needed with O(snapshot). A curve that stands with a node in O(nodes) wins.
    type: path
  src:
    description:
      - Paths of YAML or JSON files on the host where the module runs. Their content is added to
        that of the other options.
      - A file is a mapping with C(nodes), C(pods) and C(running) as the options of the same names,
        and, if wanted, C(namespaces), C(replica_sets), C(pod_disruption_budgets),
        C(rmd_node_states), C(device_objects), C(node_metrics) (objects of metrics.k8s.io) and
        C(curves) (power curves by node name; those of O(curves) win).
      - Not possible with O(snapshot).
    type: list
    elements: path
  nodes:
    description:
      - Nodes, as the Kubernetes API gives them or in a short form.
      - The short form has C(name), C(allocatable), C(used) (sum of the requests of what runs),
        C(usage_cores) (CPU use, if measured), C(labels), C(taints), C(unschedulable), C(ready) and
        C(curve) (C(cpu), a list of cores that ascends, and C(watts), as long a list). All but the
        name and C(allocatable) can be left out; without C(pods) in C(allocatable) there is no limit
        of pods.
      - A power curve may have any shape. Beyond its ends it counts as flat, with a warning.
    type: list
    elements: dict
  pods:
    description:
      - Pods to be placed, with O(nodes); all of them, whatever their scheduler. As the Kubernetes
        API gives them or in a short form.
      - The short form has C(name), C(namespace), C(requests), C(count) (so many pods, with C(-0),
        C(-1) … at their names), C(priority), C(labels) and every field of a pod's C(spec) in
        snake_case, such as C(node_selector).
    type: list
    elements: dict
  running:
    description:
      - Pods that have a node, with O(nodes), in either form; the short form needs C(node_name).
    type: list
    elements: dict
  namespaces:
    description:
      - Namespaces with their labels, with O(nodes), as the Kubernetes API gives them. A pod whose
        C(namespaceSelector) asks for other labels than C(kubernetes.io/metadata.name) is
        C(unsupported) without them.
    type: list
    elements: dict
  replica_sets:
    description:
      - ReplicaSets, with O(nodes), as the Kubernetes API gives them. Only those matter that have
        the annotation C(podspread-rate) from their Deployment; they are found by their uid.
    type: list
    elements: dict
  pod_disruption_budgets:
    description:
      - PodDisruptionBudgets with their status, with O(nodes), as the Kubernetes API gives them.
    type: list
    elements: dict
  rmd_node_states:
    description:
      - RmdNodeStates with their status, with O(nodes), as the Kubernetes API gives them. A
        container of O(pods) with the annotation C(<container>_cache_min) takes ways of the pool for
        best effort, and makes do with so many.
    type: list
    elements: dict
  device_objects:
    description:
      - Objects about devices, with O(nodes), as M(wattwise.kube.device_allocation) takes them.
        Without any, a pod with claims is C(unsupported).
    type: list
    elements: dict
  device_power:
    description:
      - The name of the attribute or capacity that says how many watts a device draws in use, such
        as C(power) or C(gpu.example.com/power). A device without it counts as 0 W.
    type: str
  previous:
    description:
      - Path of the plan document that the last run wrote, for pods that still wait.
      - A pod keeps the node that it had there unless another one saves watts. The answer is never
        worse for it, but takes longer. Only O(strategy=optimal) heeds it; pods and nodes that are
        gone do not matter.
    type: path
  previous_placements:
    description:
      - As O(previous), but the placements themselves, with C(namespace) (V(default) if left out),
        C(pod) and C(node).
    type: list
    elements: dict
  scheduler_name:
    description:
      - The pods of O(snapshot) with this C(schedulerName) are placed.
    type: str
    default: wattwise
  usage_source:
    description:
      - How the present CPU use of a node is known. V(metrics) is what metrics.k8s.io tells, plus
        what pods that have not started yet are assumed to use; V(requests) is what all its pods
        are assumed to use; V(auto) is metrics where there are any, else requests.
      - With V(metrics), a node without metrics counts as one without a power curve.
    type: str
    default: auto
    choices:
      - auto
      - metrics
      - requests
  pod_usage_assumption:
    description:
      - The share of its CPU request that a pod is assumed to use, from V(0) to V(1).
    type: float
    default: 0.8
  strategy:
    description:
      - V(optimal) combines a greedy start, a linear relaxation, local search and, for small tasks,
        mixed-integer programming.
      - The others are there to compare. They choose for one pod at a time, by priority and then by
        name, and never change a choice.
      - V(greedy) takes the node where the pod adds the fewest watts.
      - V(minimize_power) does as WAO's scheduler with its preset. MinimizePower asks for the watts
        of the pod's whole request, cuts them to whole watts, and counts twenty times beside
        kube-scheduler's scores for resources. A pod whose containers name no CPU stays unplaced.
      - V(peaks) does as PEAKS, with exponential models that are fitted to the power curves. As
        there, a node without a curve costs nothing.
      - V(spread) does as kube-scheduler by its scores for resources, LeastAllocated and
        BalancedAllocation.
    type: str
    default: optimal
    choices:
      - optimal
      - greedy
      - minimize_power
      - peaks
      - spread
  compare:
    description:
      - Strategies whose outcome on the same input RV(comparison) tells. Nothing of theirs is
        placed.
      - V(optimal) takes its own O(time_limit) again, the others about a second each for 10,000
        pods on 1,000 nodes.
    type: list
    elements: str
    default: []
    choices:
      - optimal
      - greedy
      - minimize_power
      - peaks
      - spread
  time_limit:
    description:
      - Seconds of processor time that solving may take, more than 0. Work is counted so that it
        normally ends well before that.
      - On a machine that is busy with other work it may last up to ten times as long by the clock,
        so that the answer does not depend on what else runs.
    type: float
    default: 10.0
  seed:
    description:
      - Seed of the search, V(0) or more.
    type: int
    default: 0
  allow_power_off:
    description:
      - Whether a node without workload (pods of DaemonSets aside) may be put to sleep. It then
        counts with O(standby_watts) in place of its idle watts, and RV(asleep) names it.
      - A node in short form with anything in C(used) stays awake.
    type: bool
    default: false
  standby_watts:
    description:
      - Watts of a node that sleeps, with O(allow_power_off).
    type: float
    default: 0.0
  preference_watts:
    description:
      - Watts that an unmet preference of weight 100 is worth, others in proportion. V(0) ignores
        all preferences.
      - Preferred node affinity counts with its weight, a C(PreferNoSchedule) taint that the pod
        does not tolerate with 100.
      - Preferred pod affinity counts with its weight for each pod in whose topology domain no other
        pod of the term is in the end, whether it runs already or is placed now; preferred
        anti-affinity for each pod in whose domain there is one. Of pods that are placed now and
        keep away from each other, one in each domain counts as met.
      - A topology spread constraint with C(ScheduleAnyway) counts with 100 for each pod beyond an
        even share and its C(maxSkew).
    type: float
    default: 1.0
  unpriced:
    description:
      - What nodes without a power curve are good for. V(last_resort) uses them for pods that fit
        nowhere else, V(exclude) not at all.
    type: str
    default: last_resort
    choices:
      - last_resort
      - exclude
  rebalance:
    description:
      - Whether to propose moves of pods that run, as they are worth once the waiting pods are
        placed.
      - A pod moves by being evicted and made anew. So only those are proposed that have the
        C(schedulerName) of O(scheduler_name) and a ReplicaSet, ReplicationController or
        StatefulSet for a controller, that no PodDisruptionBudget holds, and that neither belong to
        a pod group, nor hold cache ways or devices, nor have the annotation
        C(cluster-autoscaler.kubernetes.io/safe-to-evict) with V(false).
      - Moves that pay only together are one step, such as those that empty a node which may then
        sleep (O(allow_power_off)). RV(steps) has them in an order in which each pod finds room.
    type: bool
    default: false
  min_gain_watts:
    description:
      - Watts that each move must save, more than 0, with O(rebalance); in a step of several moves
        on average. A preference that a move leaves unmet counts against it.
    type: float
    default: 5.0
  max_moves:
    description:
      - The most moves to propose, in all steps together.
    type: int
    default: 10
  path:
    description:
      - Where to write the result as a plan document, also in check mode.
    type: path
  textfile:
    description:
      - Where to write, in Prometheus' text format, the watts that each node's curve predicts at the
        node's present CPU use, as C(wattwise_predicted_power_watts).
      - A node is left out where it has no curve, its use is not known, or its use lies beyond the
        ends of the curve.
      - The file is another than O(wattwise.kube.fleet_readings_info#module:textfile), in the same
        folder.
    type: path
  textfile_labels:
    description:
      - Labels that every sample of O(textfile) bears, such as the name of the cluster.
    type: dict
    default: {}
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - python >= 3.11
  - ortools >= 9.15
  - cel-expr-python >= 0.1.3 (for selectors of devices)
  - fastjsonschema >= 2.20 (for documents)
"""

EXAMPLES = r"""
- name: Plan for the pods that wait
  wattwise.kube.power_placement:
    snapshot: /var/lib/wattwise/run/snapshot.json
    curves: /var/lib/wattwise/run/curves.json
    path: /var/lib/wattwise/run/plan.json
  register: plan

- name: Ask where ten pods would go, without a cluster
  wattwise.kube.power_placement:
    nodes:
      - name: node-1
        allocatable:
          cpu: "16"
          memory: 64Gi
        used:
          cpu: "4"
        curve:
          cpu: [0, 8, 16]
          watts: [95, 160, 240]
      - name: node-2
        allocatable:
          cpu: "32"
          memory: 128Gi
        curve:
          cpu: [0, 16, 32]
          watts: [140, 320, 410]
    pods:
      - name: worker
        count: 10
        requests:
          cpu: 1500m
          memory: 2Gi

- name: Place a pod where one cache has four free ways in a row
  wattwise.kube.power_placement:
    nodes:
      - name: node-1
        allocatable: {cpu: "16", memory: 64Gi, intel.com/l3_cache_ways: "6"}
        curve: {cpu: [0, 16], watts: [95, 240]}
      - name: node-2
        allocatable: {cpu: "16", memory: 64Gi, intel.com/l3_cache_ways: "6"}
        curve: {cpu: [0, 16], watts: [110, 280]}
    rmd_node_states:
      - spec: {node: node-1}
        status:
          caches:
            - cacheId: 0
              guaranteed: {free: "1-3", freeWays: 3, longestFreeRun: 3}
            - cacheId: 1
              guaranteed: {free: "1-3", freeWays: 3, longestFreeRun: 3}
      - spec: {node: node-2}
        status:
          caches:
            - cacheId: 0
              guaranteed: {free: "1-6", freeWays: 6, longestFreeRun: 6}
    pods:
      - name: database
        requests: {cpu: "4", memory: 8Gi, intel.com/l3_cache_ways: 4}

- name: Place a pod that claims a GPU, and see which one it gets
  wattwise.kube.power_placement:
    nodes:
      - name: node-1
        allocatable: {cpu: "16", memory: 64Gi}
        curve: {cpu: [0, 16], watts: [95, 240]}
    device_power: watts
    device_objects:
      - apiVersion: resource.k8s.io/v1
        kind: DeviceClass
        metadata: {name: gpu}
        spec:
          selectors:
            - cel: {expression: device.driver == 'gpu.example.com'}
      - apiVersion: resource.k8s.io/v1
        kind: ResourceSlice
        metadata: {name: node-1-gpus}
        spec:
          driver: gpu.example.com
          nodeName: node-1
          pool: {name: node-1, generation: 1, resourceSliceCount: 1}
          devices:
            - name: gpu-0
              attributes:
                watts: {int: 300}
      - apiVersion: resource.k8s.io/v1
        kind: ResourceClaim
        metadata: {name: training, namespace: default}
        spec:
          devices:
            requests:
              - name: gpu
                exactly: {deviceClassName: gpu}
    pods:
      - name: trainer
        requests: {cpu: "4", memory: 8Gi}
        resource_claims:
          - name: gpu
            resource_claim_name: training
  register: plan

- name: Compare strategies on the same input
  wattwise.kube.power_placement:
    src: [fleet.yml]
    time_limit: 30
    allow_power_off: true
    standby_watts: 8
    compare: [greedy, minimize_power, peaks, spread]
  register: plan

- name: Show what each of them adds
  ansible.builtin.debug:
    msg: "{{ item.strategy }}: {{ item.placed }} pods, {{ item.watts_added }} W"
  loop: "{{ plan.comparison }}"
"""

RETURN = r"""
findings:
  description:
    - Objects that cannot be used as they are, and why. All others are treated as without them.
    - A waiting pod that cannot be read is in RV(unplaced) with the reason C(invalid) and the field.
      A running pod's amount that cannot be counted counts as all that its node can allocate of that
      resource, another field of it that cannot be read as the whole node. A node takes no pods, and
      a node with an unreadable curve has none. A PodDisruptionBudget lets nobody go.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object.
      returned: success
      type: str
    namespace:
      description: Namespace of the object; empty where it has none.
      returned: success
      type: str
    name:
      description: Name of the object, or its place in the input where it has no usable name.
      returned: success
      type: str
    field:
      description: Path of the field; empty where the defect has no single place.
      returned: success
      type: str
    problem:
      description: What is wrong with it.
      returned: success
      type: str
  sample:
    - field: spec.priority
      kind: Pod
      name: worker-7
      namespace: shop
      problem: "'high' is not a whole number from -2147483648 to 2147483647"
placements:
  description: The node of each pod, in an order in which they can be bound.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: default
      node: node-2
      pod: worker-0
      resource_version: "4711"
      uid: 1c0b2d1e-6a7f-4a1c-9d57-0a7c3d1b2e3f
watts:
  description:
    - Watts of all nodes with a power curve before and after placing, and the least that any
      placement of the same pods needs that leaves no more preferences unmet. Devices count that
      are in use only after placing.
  returned: success
  type: dict
  sample:
    after: 512.5
    before: 255.0
    lower_bound: 512.4
gap:
  description:
    - How far the added watts can be from the optimum, as a share of the added watts of the bound
      (or of 1 W where that is more).
  returned: success
  type: float
  sample: 0.00039
proven:
  description: Whether the answer is proven to be optimal, to a milliwatt.
  returned: success
  type: bool
  sample: false
method:
  description:
    - What found the answer. With O(strategy=optimal) V(local_search) or V(mip), else the strategy.
  returned: success
  type: str
  sample: mip
stopped_by:
  description:
    - Why the work ended. V(proof) means that nothing better exists, V(completed) that the method
      had no more to try, V(work_limit) that its counted work was done, V(wall_clock) that
      O(time_limit) ended it.
  returned: success
  type: str
  sample: work_limit
asleep:
  description: Names of the nodes that may sleep, with O(allow_power_off).
  returned: success
  type: list
  elements: str
  sample: []
unpriced:
  description: Names of the nodes without a power curve, which no watts include.
  returned: success
  type: list
  elements: str
  sample: []
preference_watts:
  description: What all unmet preferences are worth, in watts. They are not in RV(watts).
  returned: success
  type: float
  sample: 0.5
unplaced:
  description:
    - Pods without a node. C(reasons) counts the nodes for each reason, as they are when the plan is
      carried out; C(message) says the same in kube-scheduler's words.
    - C(fits_empty_fleet) says whether some node would be large enough if nothing else ran, rows of
      cache ways and devices included; it is null where a field is not supported.
  returned: success
  type: list
  elements: dict
  sample:
    - fits_empty_fleet: true
      message: "0/2 nodes are available: 2 Insufficient cpu."
      namespace: default
      pod: large-0
      reasons:
        Insufficient cpu: 2
      uid: null
allocations:
  description:
    - What each claim of the placed pods gets, with C(allocation) in the form of its API, as
      M(wattwise.kube.device_allocation) gives it.
  returned: success
  type: list
  elements: dict
  sample:
    - allocation:
        devices:
          results:
            - device: gpu-0
              driver: gpu.example.com
              pool: node-1
              request: gpu
      name: training
      namespace: default
      node: node-1
      uid: ""
nodes:
  description:
    - CPU use in cores and watts of each node before and after, devices included but for claims that
      devices of several nodes might satisfy; no watts where there is no curve.
  returned: success
  type: list
  elements: dict
  sample:
    - cpu_after: 6.8
      cpu_before: 3.2
      name: node-1
      watts_after: 150.25
      watts_before: 121.0
comparison:
  description:
    - What each strategy of O(compare) makes of the same input, in their order. C(watts_after) and
      C(watts_added) are of all nodes with a power curve; C(placed_unpriced) of the placed pods are
      on other nodes. Compare watts only where as many pods are placed.
  returned: when O(compare) is given
  type: list
  elements: dict
  sample:
    - placed: 10
      placed_unpriced: 0
      strategy: spread
      unplaced: 0
      watts_added: 268.5
      watts_after: 523.5
steps:
  description:
    - Running pods that had better be on another node, in the order in which they are to be moved. A
      step saves C(gain_watts) after those before it, once all of its C(moves) are made; then the
      nodes in C(asleep) may sleep that might not before.
    - A move's C(gain_watts) are what it saves after those before it. They are negative where it
      costs watts until the rest of its step is made. C(cost_if_stopped_watts) is the most that the
      fleet draws more where a step ends after any but its last move, V(0.0) where that costs
      nothing.
  returned: when O(rebalance) is true
  type: list
  elements: dict
  sample:
    - asleep:
        - node-2
      cost_if_stopped_watts: 3.5
      gain_watts: 88.0
      moves:
        - from_node: node-2
          gain_watts: -3.5
          namespace: default
          pod: worker-7d4b9-x2x8k
          to_node: node-1
          uid: 5b0c2d1e-6a7f-4a1c-9d57-0a7c3d1b2e3f
        - from_node: node-2
          gain_watts: 91.5
          namespace: default
          pod: worker-7d4b9-zl2vn
          to_node: node-1
          uid: 0f4de9ab-8c1f-4ef0-9a0e-3b1c5d7f9e21
path:
  description: Where the plan was written.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/plan.json
sha256:
  description: SHA-256 of the plan, in hexadecimal.
  returned: when O(path) is given
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.power import placement


def main() -> None:
    run_module(placement.SPEC, placement.place)


if __name__ == "__main__":
    main()
