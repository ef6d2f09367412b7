#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_pod_workload."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_pod_workload
short_description: Keep a RmdWorkload for every pod that asks for cache ways
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - A container asks by a limit of C(intel.com/l3_cache_ways), in a Guaranteed pod with whole CPUs.
    Annotations of the pod that begin with the container's name and an underscore say more, which
    are C(<container>_policy), C(<container>_cache_min), C(<container>_pstate_ratio),
    C(<container>_pstate_monitoring), C(<container>_mba_percentage) and C(<container>_mba_mbps).
  - Creates a RmdWorkload that the pod owns, and changes it when annotations or CPUs change. It is
    called C(rmd-workload-<pod>), or C(<pod>-rmd-workload-<container>) where several containers ask.
    It goes with the pod, and as soon as the pod has ended, since its CPUs belong to others then.
  - A pod that gets no cache ways is told so by an event and by the condition
    C(wattwise.github.io/CacheWays), where its annotations make no sense, where the daemon refused
    the workload, and where its CPUs are those of another workload.
  - Role P(wattwise.kube.rmd_workloads#role) brings the workloads to the daemons.
options:
  cpusets:
    description:
      - CPUs that containers have to themselves, as M(wattwise.kube.pod_cpuset_info) returns them.
        A container that is missing here keeps the workload that it has.
      - Of each entry C(pod_uid), C(container) and C(cpus) are read.
    type: list
    elements: dict
    required: true
  node_names:
    description: Names of Nodes. Only pods on these are looked at; without it, all.
    type: list
    elements: str
  terminate_refused:
    description:
      - Whether a pod ends whose workload was refused, as the RMD operator did it. Only the pod that
        owns the workload is deleted, and only for what the daemon itself said or for CPUs that are
        another workload's; a daemon that is away or takes nothing from the client ends nothing.
    type: bool
    default: false
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes.changing_module
  - wattwise.kube.attributes
"""

EXAMPLES = r"""
- name: Read the CPUs of the pods that ask, on this node
  wattwise.kube.pod_cpuset_info:
    pods: "{{ asking.pods[inventory_hostname] | default([]) }}"
  register: read

- name: Keep their workloads
  wattwise.kube.rmd_pod_workload:
    cpusets: "{{ read.containers }}"
    node_names:
      - "{{ inventory_hostname }}"
  delegate_to: localhost

- name: Keep them, and end the pods whose workloads daemons refuse, as the RMD operator did
  wattwise.kube.rmd_pod_workload:
    cpusets: "{{ read.containers }}"
    node_names:
      - "{{ inventory_hostname }}"
    terminate_refused: true
  delegate_to: localhost
"""

RETURN = r"""
workloads:
  description: What was done to each RmdWorkload, in the form of M(wattwise.kube.kube_apply).
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
  description: RmdWorkloads of pods that have ended, which were deleted.
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: default
      name: rmd-workload-pod-1
refused:
  description: Pods that asked for cache ways and get none, or not all of them.
  returned: success
  type: list
  elements: dict
  contains:
    namespace:
      description: Namespace of the pod.
      type: str
      sample: default
    pod:
      description: Its name.
      type: str
      sample: pod-1
    pod_uid:
      description: Its UID.
      type: str
      sample: f906a249-ab9d-4180-9afa-4075e2058ac7
    message:
      description: Why.
      type: str
      sample: "RMD on node node-1 refused: Not enough cache left on cache_id 0"
terminated:
  description: Pods that were ended, where O(terminate_refused=true).
  returned: success
  type: list
  elements: dict
  sample:
    - namespace: default
      pod: pod-1
findings:
  description: Pods, and RmdWorkloads of pods, that cannot be read. Each stops no other.
  returned: success
  type: list
  elements: dict
  contains:
    kind:
      description: Kind of the object.
      type: str
      sample: Pod
    namespace:
      description: Its namespace; empty for what has none.
      type: str
      sample: default
    name:
      description: Its name.
      type: str
      sample: pod-1
    field:
      description: Path of the field; empty where the defect has no single place.
      type: str
      sample: cpu of container c
    problem:
      description: What is wrong with it.
      type: str
      sample: "'abc' is not a Kubernetes quantity"
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.pod_workloads import (
    SPEC,
    configure_pods,
)


def main() -> None:
    run_module(SPEC, configure_pods)


if __name__ == "__main__":
    main()
