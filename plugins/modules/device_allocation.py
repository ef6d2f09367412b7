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
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Finds devices for all claims among the given objects, so that no device is given twice, and says
    for each node and claim why others did not do.
  - Understands Kubernetes' dynamic resource allocation (C(resource.k8s.io/v1)) with partitionable
    devices, consumable capacity, prioritized lists, admin access, taints and DeviceTaintRules, node
    selectors, lists as attributes and binding conditions. A device with any other field is given to
    nobody, and a claim with any other field is refused, both by the field's name.
  - A Pod that requests an extended resource which a DeviceClass stands for gets devices as by a
    claim C(POD-extended-resources), unless one of the Nodes has the resource in its
    C(allocatable).
  - Understands the objects of the k8srm prototype (C(devmgmtproto.k8s.io/v1alpha1)) in its three
    models, pools that count devices, pools of single devices, and the successor's meta classes and
    shared resources.
  - Claims of one pod get devices on one node. Without a Pod among the objects, each ResourceClaim
    stands alone, and all claims of the prototype count as one pod's.
  - Changes nothing, and needs no cluster.
  - Equal input gives an equal answer, unless RV(stopped_by) is V(wall_clock).
options:
  objects:
    description:
      - Pools, classes, drivers and claims, with Pods and Nodes, as a list of objects or
        of texts in YAML.
      - Nodes that only pools or slices name need not be given. A Pod asks for the claims that it
        names; with Pods, other claims get nothing.
      - At least one of O(objects), O(src) and O(snapshot) is needed.
    type: list
    elements: raw
  src:
    description:
      - Paths of YAML or JSON files on the host where the module runs. Their content is added to
        that of the other options.
      - A file holds objects as in O(objects).
    type: list
    elements: path
  snapshot:
    description:
      - Path of the document that M(wattwise.kube.fleet_snapshot_info) wrote with the part
        V(device_objects).
    type: path
  api_group:
    description:
      - API group of the claims. Objects of the other one are left out.
      - By default it is that of the objects, which must then be of one of the two.
    type: str
    choices:
      - resource.k8s.io
      - devmgmtproto.k8s.io
  node:
    description:
      - The name of the only node to be considered.
    type: str
  device_power:
    description:
      - The name of the attribute or capacity that says how many watts a device draws in use, such
        as C(power) or C(gpu.example.com/power). A name without a domain is the driver's. A device
        without it counts as 0 W.
    type: str
  curves:
    description:
      - Path of the document that M(wattwise.kube.power_prediction_info) wrote. Where no pod but
        those of DaemonSets runs on a node, the watts that it draws without load are added for its
        first device.
    type: path
  strategy:
    description:
      - V(first_fit) takes claim by claim in order and nodes by name, and on each node the devices
        that the search of Kubernetes finds first.
      - V(optimal) considers all claims and nodes at once. It satisfies as many claims as can be,
        those of pods of higher priority first; then takes alternatives as early in their lists as
        can be; then the fewest watts, where watts are known; then leaves the largest partitions and
        the most whole devices for later claims; then keeps the devices of a pod close to each
        other, by PCIe root and NUMA node; and then takes nodes and devices in their order.
        RV(objective) tells how good the answer is at each of these levels, and how good it could be
        at the best.
      - V(optimal) proves its answers for thousands of pods with one claim for one device each where
        devices are neither shared nor partitioned. Of others it does so up to about 20000 pairs of
        a claim and a device that it may use; beyond, it gives an answer that is found pod by pod,
        with the bounds that counting proves.
    type: str
    default: optimal
    choices:
      - optimal
      - first_fit
  time_limit:
    description:
      - Seconds that the search may take, more than 0.
    type: float
    default: 10.0
  seed:
    description:
      - Seed of the search, V(0) or more.
    type: int
    default: 0
  format:
    description:
      - V(k8srm) adds RV(text), the answer as the prototype printed it.
    type: str
    default: native
    choices:
      - native
      - k8srm
  verbose:
    description:
      - Whether RV(text) has the results of all pools in place of a line for each node.
    type: bool
    default: false
  on_error:
    description:
      - What happens to a pod or claim that cannot be read, for example because of a selector that
        errs. V(fail) ends the task, V(report) leaves it out, tells so in RV(refused), and goes on.
    type: str
    default: fail
    choices:
      - fail
      - report
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - python >= 3.11
  - cel-expr-python >= 0.1.3 (for selectors)
  - ortools >= 9.15 (for O(strategy=optimal), and conflicts that counting does not find)
  - PyYAML (for text)
  - fastjsonschema >= 2.20 (for documents)
"""

EXAMPLES = r"""
- name: Ask whether two claims can be satisfied together
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

- name: Answer from files
  wattwise.kube.device_allocation:
    src:
      - pools.yml
      - classes.yml
      - pods.yml

- name: Ask why a ResourceClaim cannot be satisfied on one node
  wattwise.kube.device_allocation:
    src:
      - slices.yml
      - deviceclasses.yml
      - claims.yml
    node: node-7
  register: answer

- name: Print what the prototype printed
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
  description:
    - V(allocated) where every claim got its devices, V(infeasible) where it is certain that not all
      can by O(strategy), V(unknown) where O(time_limit) ended the search before.
  returned: success
  type: str
  sample: allocated
allocations:
  description:
    - What each claim gets, in the order of the claims and in the form of its API; null for a claim
      that gets nothing. For C(resource.k8s.io) it is an AllocationResult, for the prototype what a
      claim's status has as C(allocations), C(classConfigs) and C(claimConfigs).
  returned: success
  type: list
  elements: dict
  sample:
    - allocations:
        - deviceCount: 1
          devicePoolName: shape-zero-00-foozer-00
claims:
  description: The claims of RV(allocations), with the node for which each got its devices.
  returned: success
  type: list
  elements: dict
  sample:
    - name: myclaim
      namespace: default
      node: shape-zero-00
      uid: ""
node:
  description: The node on which all claims are, if it is one.
  returned: success
  type: str
  sample: shape-zero-00
pods:
  description:
    - The node of each pod that asks for devices; null for one that gets none, with a C(message)
      that counts what the nodes lack.
  returned: success
  type: list
  elements: dict
  sample:
    - name: my-pod
      namespace: default
      node: shape-zero-00
      message: null
    - name: other-pod
      namespace: default
      node: null
      message: "0/4 nodes are available: 4 c: claim and pool driver do not match."
score:
  description: V(100) where every claim got its devices, else V(0).
  returned: success
  type: int
  sample: 100
node_results:
  description:
    - For each node, and for the claims of each pod, what its pools could give and why not, in the
      prototype's words. C(best) is the position of the set of pools that would do, V(-1) for none.
    - Of 1000 nodes at the most; with more nodes times pods only for pods that get nothing.
    - A claim sees what other pods, and earlier claims of its own pod, leave over.
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
    - Requests of one pod that no node can satisfy together, with what is held already but without
      any other pod; or else claims for one device each, for which all nodes together have too few
      devices. With one device less of any of them, it could be done. Claims that ask for the same
      stand together, each with so many devices as C(count).
    - Empty where there is no such conflict, or where it is not found within O(time_limit).
  returned: success
  type: list
  elements: dict
  sample:
    - claims:
        - default/training
      count: 5
      request: gpus
objective:
  description:
    - Levels of the objective with O(strategy=optimal), each of which counts before the next.
      C(value) is what the answer has, C(bound) what no answer can surpass that is as good at the
      levels before; where they are equal, the answer is proven to be the best.
    - For C(satisfied), in claims, and C(fragmentation), in whole devices, more is better. For
      C(rank), the places of alternatives in their lists, C(watts), C(closeness), the PCIe roots and
      NUMA nodes beyond the first of each pod, and C(names), places of nodes and devices in their
      order, less is.
    - Where pods have different priorities, C(satisfied) is a level for each of them.
  returned: success
  type: list
  elements: dict
  sample:
    - bound: 3.0
      level: satisfied
      value: 3.0
stopped_by:
  description:
    - Why the work ended, V(completed), V(work_limit) where the counted work of O(time_limit) was
      not enough to prove all of RV(objective), or V(wall_clock).
  returned: success
  type: str
  sample: completed
findings:
  description:
    - Defects of the objects, each with C(kind), C(namespace) and C(name) of the object, C(field),
      C(problem), the C(file) that it came from and, where it can be guessed, the C(intention).
      A claim that uses a defective object is refused, and a pool with a defect gives nothing. All
      others get what they get without the object.
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
  description: Pods and claims that were left out, with O(on_error=report).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: ResourceClaim
      name: training
      namespace: default
      reason: "ResourceClaim default/training: spec.devices.requests[0].name: the name is missing"
text:
  description: The answer as the prototype printed it.
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

from ansible_collections.wattwise.kube.plugins.module_utils.devices import allocation
from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module


def main() -> None:
    run_module(allocation.SPEC, allocation.allocate)


if __name__ == "__main__":
    main()
