#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module power_placement."""

from __future__ import annotations

DOCUMENTATION = r"""
module: power_placement
short_description: Place waiting pods on the nodes where they cost the least power
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Finds nodes for all waiting pods together that minimise the power draw of the fleet, by the
    power curves of the nodes, and returns a bound on the distance from the optimum.
  - The first objective is the number of placed pods, by priority; the second the fewest pods on
    nodes without a power curve; the third the least power.
  - Rules of kube-scheduler hold for CPU, memory, ephemeral storage, pod slots and extended
    resources, overhead, init containers and sidecars, C(nodeName), C(nodeSelector), node affinity,
    taints, cordoned nodes, unready nodes, host ports, pod affinity and anti-affinity (including
    that of running pods) and topology spread constraints.
  - A pod that requests C(intel.com/l3_cache_ways) needs as many contiguous free ways in one cache
    of its node, beside the ways of all other pods. The RmdNodeState of the node has the free ways;
    without one only the extended resource counts.
  - A pod with device claims needs a node whose free devices satisfy them. The power draw of devices
    count, and RV(allocations) has the devices of each claim, as M(wattwise.kube.device_allocation)
    allocates them on the node. Claims are C(resourceClaims) of C(resource.k8s.io/v1) and
    C(deviceClaims) of the k8srm prototype. Pods that share a claim get one node. Claims that
    devices of several nodes can satisfy are C(unsupported) above about 2500 pairs of such a pod and
    a device.
  - Rules between pods hold in the final state, and after each binding in the order of
    RV(placements).
  - Pods of one namespace with the same label C(scheduling.x-k8s.io/pod-group) are placed together
    or not at all. WAO's annotation C(podspread-rate) counts on pods and on their ReplicaSet, which
    inherits it from the Deployment.
  - Preferences are weighed against power; see O(preference_watts).
  - A pod with volume claims is placed on a node that kube-scheduler accepts. PersistentVolumes
    count with their node affinity and zone, a class with C(WaitForFirstConsumer) with its topology
    and the CSIStorageCapacity of its driver, static volumes with their properties, and CSINodes
    with the number of volumes that a driver can attach. Only one pod gets a C(ReadWriteOncePod)
    claim. Pods that share a claim without a volume get one node.
  - A pod with any other scheduling constraint stays unplaced with the reason C(unsupported:) and
    the field.
  - Changes nothing in the cluster. Step V(bind) of
    M(wattwise.kube.fleet_reconciliation) binds the pods of the plan.
  - Equal input gives an equal result, unless RV(stopped_by) is V(wall_clock).
options:
  snapshot:
    description:
      - Path of the snapshot document that M(wattwise.kube.fleet_snapshot_info) wrote. Its waiting
        pods with the scheduler O(scheduler_name) are placed.
      - Exactly one of O(snapshot), O(nodes) and O(src) is required.
    type: path
  curves:
    description:
      - Path of the curves document that M(wattwise.kube.fleet_reconciliation) wrote, with power
        curves by node name.
      - Required with O(snapshot). A curve in an entry of O(nodes) takes precedence.
    type: path
  src:
    description:
      - Paths of YAML or JSON files on the host where the module runs. Their content is added to the
        other options.
      - Each file is a mapping with C(nodes), C(pods) and C(running), as the options of the same
        names. Optional members are C(namespaces), C(replica_sets), C(pod_disruption_budgets),
        C(rmd_node_states), C(device_objects), C(volume_objects), C(node_metrics) (objects of
        metrics.k8s.io) and C(curves) (power curves by node name; O(curves) takes precedence).
      - Excludes O(snapshot).
    type: list
    elements: path
  nodes:
    description:
      - Nodes in the form of the Kubernetes API or in a short form.
      - The short form has C(name), C(allocatable), C(used) (sum of the requests of running pods),
        C(usage_cores) (measured CPU use), C(labels), C(taints), C(unschedulable), C(ready) and
        C(curve) (C(cpu), an ascending list of cores, and C(watts), a list of the same length). Only
        C(name) and C(allocatable) are required. Without C(pods) in C(allocatable) the number of
        pods is unlimited.
      - A power curve may have any shape. It counts as flat beyond its ends, with a warning.
    type: list
    elements: dict
  pods:
    description:
      - Pods to place on O(nodes), in the form of the Kubernetes API or in a short form. Their
        C(schedulerName) does not matter.
      - The short form has C(name), C(namespace), C(requests), C(count) (the number of equal pods,
        named with C(-0), C(-1) …), C(priority), C(labels) and every field of a pod's C(spec) in
        snake_case, such as C(node_selector).
    type: list
    elements: dict
  running:
    description: Running pods on O(nodes), in either form. The short form requires C(node_name).
    type: list
    elements: dict
  namespaces:
    description: Namespaces with their labels, with O(nodes), in the form of the Kubernetes API.
      They are required for a C(namespaceSelector) with other labels than
      C(kubernetes.io/metadata.name); without them its pod is C(unsupported).
    type: list
    elements: dict
  replica_sets:
    description: ReplicaSets, with O(nodes), in the form of the Kubernetes API. Their annotation
      C(podspread-rate) counts; pods find their ReplicaSet by uid.
    type: list
    elements: dict
  pod_disruption_budgets:
    description: PodDisruptionBudgets with their status, with O(nodes), in the form of the
      Kubernetes API.
    type: list
    elements: dict
  rmd_node_states:
    description: RmdNodeStates with their status, with O(nodes), in the form of the Kubernetes API.
      The pod annotation C(<container>_cache_min) makes a container take ways of the best-effort
      pool, at least as many.
    type: list
    elements: dict
  device_objects:
    description: Device objects, with O(nodes), as in M(wattwise.kube.device_allocation). Without
      any, a pod with claims is C(unsupported).
    type: list
    elements: dict
  volume_objects:
    description: PersistentVolumeClaims, PersistentVolumes, StorageClasses, CSINodes, CSIDrivers,
      CSIStorageCapacities and VolumeAttachments, with O(nodes), in the form of the Kubernetes API.
      Without the option a pod with volume claims is C(unsupported).
    type: list
    elements: dict
  previous:
    description:
      - Path of the plan document of the last run, for pods that still wait.
      - A pod keeps its node of that plan unless another one saves power. The result never gets
        worse, but takes longer. Only O(strategy=optimal) uses it. Pods and nodes that are gone are
        ignored.
    type: path
  previous_placements:
    description: Placements of the last run as a list, instead of O(previous). Each has C(pod),
      C(node) and C(namespace) (V(default) by default).
    type: list
    elements: dict
  path:
    description: Path of the plan document to write, also in check mode.
    type: path
  limits:
    description:
      - Limits of power that the placement keeps. A pod is not placed where the predicted power draw
        of its node, of the rack or of the fleet would be above its limit; where power is short,
        pods of lower priority wait.
      - A node or rack that is above its limit already takes no pod, and neither does a node without
        a power curve to which a limit applies. Moves of O(rebalance) keep the limits, too.
    type: dict
    default: {}
    suboptions:
      # begin generated: limits fleet_watts rack_watts node_watts
      fleet_watts:
        description: Power that the nodes of the fleet may draw together, in W. V(0), the default,
          sets no limit.
        type: float
        default: 0.0
      rack_watts:
        description: Power that the nodes of a rack may draw together, in W, by the value of the
          label C(wattwise.github.io/rack), else of C(topology.kubernetes.io/rack). V(*) stands for
          all other racks.
        type: dict
        default: {}
      node_watts:
        description: Power that a node may draw, in W, by its type, which is the value of its label
          C(node.kubernetes.io/instance-type). V(*) stands for all other nodes.
        type: dict
        default: {}
      # end generated
extends_documentation_fragment:
  - wattwise.kube.steps.place
  - wattwise.kube.attributes.info_module
requirements:
  - python >= 3.11
  - ortools >= 9.15
  - cel-expr-python >= 0.1.3 (for selectors of devices)
  - fastjsonschema >= 2.20 (for documents)
"""

EXAMPLES = r"""
- name: Plan the placement of the waiting pods
  wattwise.kube.power_placement:
    snapshot: /var/lib/wattwise/run/snapshot.json
    curves: /var/lib/wattwise/run/curves.json
    path: /var/lib/wattwise/run/plan.json
  register: plan

- name: Place ten pods without a cluster
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

- name: Keep two racks within the power of their feeds
  wattwise.kube.power_placement:
    src: [fleet.yml]
    limits:
      rack_watts: {r1: 4000, r2: 6500}
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
    - Objects that cannot be used, with the reason. Other objects are not affected. Each has
      C(kind), C(namespace), C(name), C(field) (empty where the defect has no single place) and
      C(problem). An object without a usable name has its place in the input as C(name).
    - An unreadable waiting pod is in RV(unplaced) with the reason C(invalid) and the field. An
      unreadable amount of a running pod counts as all of that resource on its node, any other
      unreadable field of it as the whole node. An unreadable node takes no pods, an unreadable
      curve counts as none, and an unreadable PodDisruptionBudget allows no eviction.
  returned: success
  type: list
  elements: dict
  sample:
    - field: spec.priority
      kind: Pod
      name: worker-7
      namespace: shop
      problem: "'high' is not a whole number from -2147483648 to 2147483647"
placements:
  description: Node of each placed pod, in a valid order of binding.
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
  description: Watts of all nodes with a power curve before and after placing, and a lower bound for
    every placement of the same pods with no more unmet preferences. Devices count if they are in
    use after placing only.
  returned: success
  type: dict
  sample: {after: 512.5, before: 255.0, lower_bound: 512.4}
limits:
  description:
    - The power domains with a limit, each with its predicted power draw before and after placing, in
      W. C(kind) is V(node), V(rack) or V(fleet).
    - C(nodes) are its nodes, and C(beside_watts) is their power draw beyond their curves. Nodes that
      are C(not_ready) draw nothing by their curves.
  returned: success, with O(limits)
  type: list
  elements: dict
  sample:
    - beside_watts: 0.0
      kind: rack
      limit_watts: 4000.0
      name: r2
      nodes: [node-3, node-4]
      not_ready: []
      watts_after: 3950.0
      watts_before: 3610.0
closed:
  description: Nodes that take no pod because of a limit, with the reasons.
  returned: when O(limits) close a node
  type: dict
  sample: {node-7: "node(s) in rack r4 (4,120 W of 4,000 W)"}
gap:
  description: Largest possible distance of the added watts from the optimum, as a share of the
    added watts of the bound (or of 1 W if that is more).
  returned: success
  type: float
  sample: 0.00039
proven:
  description: Whether the result is proven optimal to a milliwatt.
  returned: success
  type: bool
  sample: false
method:
  description: Method that found the result. It is V(local_search) or V(mip) with
    O(strategy=optimal), else the strategy.
  returned: success
  type: str
  sample: mip
stopped_by:
  description: Reason for the end of the search. V(proof) means that nothing better exists,
    V(completed) that the method ended by itself, V(work_limit) that its counted work was used up,
    V(wall_clock) that O(time_limit) ended it.
  returned: success
  type: str
  sample: work_limit
asleep:
  description: Names of the sleeping nodes, with O(allow_power_off).
  returned: success
  type: list
  elements: str
  sample: []
unpriced:
  description: Names of the nodes without a power curve. No sum of power draws includes them.
  returned: success
  type: list
  elements: str
  sample: []
preference_watts:
  description: Cost of all unmet preferences, in W. RV(watts) does not include it.
  returned: success
  type: float
  sample: 0.5
unplaced:
  description:
    - Pods without a node. C(reasons) counts the nodes for each reason, in their state after the
      plan; C(message) is the sentence of kube-scheduler.
    - C(fits_empty_fleet) tells whether some empty node is large enough, including contiguous cache
      ways and devices. It is null for an unsupported field.
  returned: success
  type: list
  elements: dict
  sample:
    - fits_empty_fleet: true
      message: "0/2 nodes are available: 2 Insufficient cpu."
      namespace: default
      pod: large-0
      reasons: {Insufficient cpu: 2}
      uid: null
allocations:
  description: Devices of each claim of the placed pods, with C(allocation) as
    M(wattwise.kube.device_allocation) returns it.
  returned: success
  type: list
  elements: dict
  sample:
    - allocation:
        devices:
          results:
            - {device: gpu-0, driver: gpu.example.com, pool: node-1, request: gpu}
      name: training
      namespace: default
      node: node-1
      uid: ""
nodes:
  description: CPU use in cores and watts of each node before and after placing. Nodes without a
    curve have no watts. Watts include devices, except those of claims that devices of several nodes
    can satisfy.
  returned: success
  type: list
  elements: dict
  sample:
    - {cpu_after: 6.8, cpu_before: 3.2, name: node-1, watts_after: 150.25, watts_before: 121.0}
comparison:
  description: Results of the strategies in O(compare), in their order. C(watts_after) and
    C(watts_added) cover all nodes with a power curve; C(placed_unpriced) counts pods on other
    nodes. Compare watts only for equal numbers of placed pods.
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
    - Proposed moves of running pods, in the order of execution. C(gain_watts) of a step is its
      saving after the steps before it, when all of its C(moves) are complete. The nodes in
      C(asleep) may sleep from then on.
    - C(gain_watts) of a move is its saving after the moves before it; it is negative if only later
      moves of the step save power. C(cost_if_stopped_watts) is the largest increase in watts if the
      step ends before its last move.
  returned: when O(rebalance) is true
  type: list
  elements: dict
  sample:
    - asleep: [node-2]
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
  description: Path of the written plan.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/plan.json
sha256:
  description: SHA-256 of the plan, in hexadecimal.
  returned: when O(path) is given
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
"""

from ..module_utils.module_runner import run_module
from ..module_utils.power import placement


def main() -> None:
    run_module(placement.SPEC, placement.place)


if __name__ == "__main__":
    main()
