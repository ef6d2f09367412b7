#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_pod_workload."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_pod_workload
short_description: Keep an RmdWorkload for every pod that requests cache ways
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - A container of a Guaranteed pod with whole CPUs requests cache ways by a limit of
    C(intel.com/l3_cache_ways). Further settings are pod annotations, which are
    C(<container>_policy), C(<container>_cache_min), C(<container>_pstate_ratio),
    C(<container>_pstate_monitoring), C(<container>_mba_percentage) and C(<container>_mba_mbps).
  - Creates an RmdWorkload that the pod owns, and changes it with annotations or CPUs. Its name is
    C(rmd-workload-<pod>), or C(<pod>-rmd-workload-<container>) if several containers request cache
    ways. It is deleted with the pod, or as soon as the pod has ended and its CPUs are free.
  - A pod without its cache ways gets an event and the condition C(wattwise.github.io/CacheWays).
    The reasons are invalid annotations, a daemon that refused the workload, and CPUs of another
    workload.
  - Role P(wattwise.kube.rmd_workloads#role) writes the workloads to the daemons.
options:
  cpusets:
    description:
      - Exclusive CPUs of containers, as M(wattwise.kube.pod_cpuset_info) returns them. A container
        without an entry keeps its workload.
      - Each entry needs C(pod_uid), C(container) and C(cpus).
    type: list
    elements: dict
    required: true
  node_names:
    description: Names of Nodes whose pods are considered. All nodes by default.
    type: list
    elements: str
  terminate_refused:
    description: Whether to delete a pod whose workload was refused, as the RMD operator did. The
      daemon must have refused the workload itself, or its CPUs must belong to another workload. An
      unreachable daemon or a refused client deletes no pod.
    type: bool
    default: false
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes.changing_module
  - wattwise.kube.attributes
"""

EXAMPLES = r"""
- name: Read the CPUs of the pods that request cache ways, on this node
  wattwise.kube.pod_cpuset_info:
    pods: "{{ asking.pods[inventory_hostname] | default([]) }}"
  register: read

- name: Write their workloads
  wattwise.kube.rmd_pod_workload:
    cpusets: "{{ read.containers }}"
    node_names:
      - "{{ inventory_hostname }}"
  delegate_to: localhost

- name: Write them, and delete pods whose workloads daemons refuse, as the RMD operator did
  wattwise.kube.rmd_pod_workload:
    cpusets: "{{ read.containers }}"
    node_names:
      - "{{ inventory_hostname }}"
    terminate_refused: true
  delegate_to: localhost
"""

RETURN = r"""
workloads:
  description: Result of each RmdWorkload, in the form of M(wattwise.kube.kube_apply).
  returned: success
  type: list
  elements: dict
  sample:
    - api_version: intel.com/v1alpha1
      kind: RmdWorkload
      namespace: default
      name: rmd-workload-pod-1
      action: created
removed:
  description: Deleted RmdWorkloads of ended pods.
  returned: success
  type: list
  elements: dict
  sample:
    - {namespace: default, name: rmd-workload-pod-1}
refused:
  description: Pods without all of the cache ways that they requested.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the pod.
      type: str
      sample: default
    pod:
      description: Name of the pod.
      type: str
      sample: pod-1
    pod_uid:
      description: UID of the pod.
      type: str
      sample: f906a249-ab9d-4180-9afa-4075e2058ac7
    message:
      description: Reason.
      type: str
      sample: "RMD on node node-1 refused: Not enough cache left on cache_id 0"
terminated:
  description: Pods that were deleted with O(terminate_refused=true).
  returned: success
  type: list
  elements: dict
  sample:
    - {namespace: default, pod: pod-1}
findings:
  description: Pods and RmdWorkloads of pods that cannot be read. Each stops no other. Each has
    C(kind), C(namespace), C(name), C(field) (empty where the defect has no single place) and
    C(problem).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: Pod
      namespace: default
      name: pod-1
      field: cpu of container c
      problem: "'abc' is not a Kubernetes quantity"
"""

from ..module_utils.module_runner import run_module
from ..module_utils.rmd.pod_workloads import SPEC, configure_pods


def main() -> None:
    run_module(SPEC, configure_pods)


if __name__ == "__main__":
    main()
