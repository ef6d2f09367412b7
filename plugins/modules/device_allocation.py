#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module device_allocation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: device_allocation
short_description: Find devices for claims, and say why some get none
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Allocates devices to all claims among the given objects, each device once, and states for each
    claim why other nodes do not satisfy it.
  - Supports dynamic resource allocation (C(resource.k8s.io/v1)) with partitionable devices,
    consumable capacity, prioritized lists, admin access, taints and DeviceTaintRules, node
    selectors, list attributes and binding conditions. Devices with any other field are never
    allocated, and claims with any other field are refused; the message names the field.
  - A Pod that requests the extended resource of a DeviceClass gets devices through a claim
    C(POD-extended-resources), unless a Node has the resource in its C(allocatable).
  - Supports the k8srm prototype (C(devmgmtproto.k8s.io/v1alpha1)) with its three models, which are
    pools that count devices, pools of single devices, and the successor's meta classes and shared
    resources.
  - Claims of one pod get devices on one node. Without a Pod among the objects, each ResourceClaim
    is allocated by itself, and all claims of the prototype together as those of one pod.
  - Changes nothing, and needs no cluster.
  - Equal input gives an equal result, unless RV(stopped_by) is V(wall_clock).
options:
  objects:
    description:
      - Pools, classes, drivers, claims, Pods and Nodes, as a list of objects or of YAML texts.
      - Nodes are optional; pools and slices name theirs. If there are Pods, only the claims that
        they name get devices.
      - At least one of O(objects), O(src) and O(snapshot) is required.
    type: list
    elements: raw
  src:
    description:
      - Paths of YAML or JSON files on the host where the module runs. Their content is added to the
        other options.
      - Each file holds objects as in O(objects).
    type: list
    elements: path
  snapshot:
    description: Path of a snapshot document with the part V(device_objects), from
      M(wattwise.kube.fleet_snapshot_info).
    type: path
  api_group:
    description:
      - API group of the claims. Objects of the other group are ignored.
      - By default the group of the objects, which must then be the same for all.
    type: str
    choices: [resource.k8s.io, devmgmtproto.k8s.io]
  node:
    description: Name of the only node to consider. All nodes by default.
    type: str
  device_power:
    description: Name of the attribute or capacity with the watts that a device draws in use, such
      as C(power) or C(gpu.example.com/power). A name without a domain belongs to the driver. A
      device without it counts as 0 W.
    type: str
  curves:
    description: Path of the curves document that M(wattwise.kube.fleet_reconciliation) wrote. The
      first device on a node that runs only DaemonSet pods costs the idle watts of the node as well.
    type: path
  strategy:
    description:
      - V(first_fit) takes claims in their order, nodes by name, and on each node the devices that
        the search of kube-scheduler finds first.
      - V(optimal) considers all claims and nodes together. Its objectives, in order of precedence,
        are the number of satisfied claims by pod priority, the rank of alternatives in prioritized
        lists, the power draw (where known), the largest partitions and whole devices left free, the
        closeness of a pod's devices by PCIe root and NUMA node, and the order of nodes and devices.
        RV(objective) has the value and the bound of each.
      - V(optimal) proves its result for thousands of pods with one claim for one unshared,
        unpartitioned device each. For other claims it does so up to about 20000 pairs of a claim
        and a usable device. Larger inputs are allocated pod by pod, with bounds from counting.
    type: str
    default: optimal
    choices: [optimal, first_fit]
  format:
    description: V(k8srm) adds RV(text), the result in the prototype's format.
    type: str
    default: native
    choices: [native, k8srm]
  verbose:
    description: Whether RV(text) has the results of all pools instead of one line per node.
    type: bool
    default: false
  on_error:
    description: Effect of a pod or claim that cannot be read, for example because its selector
      fails. V(fail) fails the task; V(report) lists it in RV(refused) and continues without it.
    type: str
    default: fail
    choices: [fail, report]
extends_documentation_fragment:
  - wattwise.kube.solver
  - wattwise.kube.attributes.info_module
requirements:
  - python >= 3.11
  - cel-expr-python >= 0.1.3 (for selectors)
  - ortools >= 9.15 (for O(strategy=optimal), and for conflicts that counting does not find)
  - PyYAML (for text)
  - fastjsonschema >= 2.20 (for documents)
"""

EXAMPLES = r"""
- name: Check whether a claim can be satisfied
  wattwise.kube.device_allocation:
    objects:
      - apiVersion: devmgmtproto.k8s.io/v1alpha1
        kind: DevicePool
        metadata:
          name: node-1-gpus
        spec:
          nodeName: node-1
          driver: gpu.example.com
          count: 4
          attributes:
            - name: model
              stringValue: a100
      - apiVersion: devmgmtproto.k8s.io/v1alpha1
        kind: DeviceClaim
        metadata:
          name: training
          namespace: default
        spec:
          driver: gpu.example.com
          constraints: device.model == 'a100'
          minDeviceCount: 3
  register: answer

- name: Allocate the claims in files

  wattwise.kube.device_allocation:
    src:
      - pools.yml
      - classes.yml
      - pods.yml

- name: Find out why a ResourceClaim cannot be satisfied on one node
  wattwise.kube.device_allocation:
    src:
      - slices.yml
      - deviceclasses.yml
      - claims.yml
    node: node-7
  register: answer

- name: Return the result in the prototype's format

  wattwise.kube.device_allocation:
    src:
      - pools.yml
      - claims.yml
    format: k8srm
    verbose: true
  register: answer
"""

RETURN = r"""
outcome:
  description: V(allocated) if every claim got its devices, V(infeasible) if some claim certainly
    cannot by O(strategy), V(unknown) if O(time_limit) ended the search first.
  returned: success
  type: str
  sample: allocated
allocations:
  description: Allocation of each claim, in the order of the claims; null for a claim without
    devices. It is an AllocationResult for C(resource.k8s.io), and C(allocations), C(classConfigs)
    and C(claimConfigs) of a claim's status for the prototype.
  returned: success
  type: list
  elements: dict
  sample:
    - allocations:
        - {deviceCount: 1, devicePoolName: shape-zero-00-foozer-00}
claims:
  description: Claims of RV(allocations), each with the node of its devices.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: myclaim, namespace: default, node: shape-zero-00, uid: ""}
node:
  description: Node of all claims, if they are on one node.
  returned: success
  type: str
  sample: shape-zero-00
pods:
  description: Node of each pod that requests devices; null for a pod without devices, with a
    C(message) that counts the nodes for each reason.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: my-pod, namespace: default, node: shape-zero-00, message: null}
    - name: other-pod
      namespace: default
      node: null
      message: "0/4 nodes are available: 4 c: claim and pool driver do not match."
score:
  description: V(100) if every claim got its devices, else V(0).
  returned: success
  type: int
  sample: 100
node_results:
  description:
    - Result of each node for the claims of each pod, in the prototype's terms, with the reasons of
      each pool. C(best) is the position of a sufficient set of pools, V(-1) for none.
    - At most 1000 nodes are listed. If nodes times pods exceed this number, only pods without
      devices are listed.
    - Each claim is judged by the devices that other pods and earlier claims of its pod leave free.
  returned: success
  type: list
  elements: dict
  sample:
    - DeviceClaimResults:
        - best: -1
          claimName: myclaim
          ignoredPools:
            - deviceCount: 0
              failureReason: claim and pool driver do not match
              poolName: shape-three-00-barzer-00
          poolSetResults: null
      NodeName: shape-three-00
      score: 0
conflict:
  description:
    - Minimal set of requests that cannot be satisfied together; one device less in any of them
      would suffice. It has requests of one pod that no node can satisfy with its free devices, or
      claims for one device each that exceed the devices of all nodes. Equal claims are one entry,
      with their number of devices as C(count).
    - Empty if there is no conflict, or none was found within O(time_limit).
  returned: success
  type: list
  elements: dict
  sample:
    - claims: [default/training]
      count: 5
      request: gpus
objective:
  description:
    - Levels of the objective of O(strategy=optimal), in order of precedence. C(value) is the value
      of the result, C(bound) the best possible one given the levels before. Equal numbers prove the
      result optimal at this level.
    - C(satisfied) (claims) and C(fragmentation) (whole devices left) are maximised. C(rank)
      (positions of alternatives in their lists), C(watts), C(closeness) (PCIe roots and NUMA nodes
      beyond the first of each pod) and C(names) (positions of nodes and devices) are minimised.
    - Each pod priority has a level C(satisfied) of its own.
  returned: success
  type: list
  elements: dict
  sample:
    - {bound: 3.0, level: satisfied, value: 3.0}
stopped_by:
  description: Reason for the end of the search. It is V(completed), V(work_limit) if the work that
    O(time_limit) allows did not prove all of RV(objective), or V(wall_clock). A higher
    O(time_limit) allows more work.
  returned: success
  type: str
  sample: completed
findings:
  description: Defects of the objects, each with C(kind), C(namespace) and C(name) of the object,
    C(field), C(problem), the C(file) of the object and, if it can be guessed, the C(intention). A
    claim that uses a defective object is refused, and no device of a defective pool is allocated.
    Other claims are not affected.
  returned: success
  type: list
  elements: dict
  sample:
    - field: spec.contstraints
      file: classes.yaml
      intention: probably constraints is meant
      kind: DeviceClass
      name: vlan-2000
      namespace: ""
      problem: there is no such field
refused:
  description: Pods and claims that were left out with O(on_error=report).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: ResourceClaim
      name: training
      namespace: default
      reason: "ResourceClaim default/training: spec.devices.requests[0].name: the name is missing"
text:
  description: The result in the prototype's format.
  returned: when O(format) is V(k8srm)
  type: str
  sample: |
    ALLOCATIONS
    -----------
    - deviceCount: 1
      devicePoolName: shape-zero-00-foozer-00

    NODE RESULTS
    ------------
    shape-three-00: could not satisfy these claims: myclaim
    shape-zero-00: satisfied all claims with score 100
"""

from ..module_utils.devices import allocation
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(allocation.SPEC, allocation.allocate)


if __name__ == "__main__":
    main()
