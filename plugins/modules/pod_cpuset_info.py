#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module pod_cpuset_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_cpuset_info
short_description: Read the exclusive CPUs of containers on their node
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Runs on a node and returns the CPUs of every container with exclusive CPUs. The kubelet with the
    static CPU manager policy gives them to containers of Guaranteed pods that request whole CPUs.
  - Reads control groups of version 1 and 2, for the drivers systemd and cgroupfs, with containerd,
    CRI-O and docker, or asks the kubelet.
  - Requires only Python's standard library, except for O(source=pod_resources).
options:
  pods:
    description: Pods as the Kubernetes API returns them, with C(metadata.uid) and C(status). Ended
      pods are ignored.
    type: list
    elements: dict
    required: true
  node_name:
    description: Name of the Node on which the task runs. It limits O(pods) to those on this node.
      All pods by default.
    type: str
  root:
    description: Folder at which the node's file system is mounted, for a task in a container.
    type: path
    default: /
  source:
    description:
      - V(cgroup) reads control groups, V(cpu_manager) reads the checkpoint of the kubelet's CPU
        manager (C(/var/lib/kubelet/cpu_manager_state)), and V(pod_resources) asks the kubelet's
        PodResources socket, which identifies pods by name only.
      - V(auto) reads control groups, and the checkpoint for containers that are not found there.
    type: str
    default: auto
    choices: [auto, cgroup, cpu_manager, pod_resources]
  timeout:
    description: Seconds that the kubelet may take to answer with O(source=pod_resources).
    type: float
    default: 10.0
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - root on the node
  - grpcio (for O(source=pod_resources))
"""

EXAMPLES = r"""
- name: Read the pods of this node
  kubernetes.core.k8s_info:
    kind: Pod
    field_selectors:
      - spec.nodeName={{ inventory_hostname }}
  delegate_to: localhost
  register: pods

- name: Read the CPUs of their containers
  wattwise.kube.pod_cpuset_info:
    pods: "{{ pods.resources }}"
  become: true
  register: cpusets

- name: Ask the kubelet, from a container with the node's file system in /host
  wattwise.kube.pod_cpuset_info:
    pods: "{{ pods.resources }}"
    root: /host
    source: pod_resources
"""

RETURN = r"""
containers:
  description: Containers with exclusive CPUs, in the order of the pods.
  returned: success
  type: list
  elements: dict
  contains:
    pod_uid:
      description: UID of the pod.
      type: str
      sample: f906a249-ab9d-4180-9afa-4075e2058ac7
    namespace:
      description: Namespace of the pod.
      type: str
      sample: default
    pod:
      description: Name of the pod.
      type: str
      sample: pod-1
    container:
      description: Name of the container.
      type: str
      sample: nginx1
    cpus:
      description: Numbers of its CPUs, ascending.
      type: list
      elements: int
      sample: [2, 34]
errors:
  description: Containers whose CPUs could not be determined, in the order of the pods, named as in
    RV(containers). C(reason) is V(not_found), V(forbidden), V(malformed), V(implausible) or
    V(server_error); C(detail) is a sentence with the problem, its place and the remedy.
  returned: success
  type: list
  elements: dict
  sample:
    - pod_uid: f906a249-ab9d-4180-9afa-4075e2058ac7
      namespace: default
      pod: pod-1
      container: nginx1
      reason: implausible
      detail: >-
        the container runs on 64 CPUs and requested 2, so they are not its own; set kubelet's
        --cpu-manager-policy to static
findings:
  description: Pods that cannot be read. Each causes a warning and stops no other. Each has C(kind),
    C(namespace), C(name), C(field) (empty where the defect has no single place) and C(problem).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: Pod
      namespace: default
      name: pod-1
      field: metadata
      problem: it has no name or no uid; give pods as the API returns them
"""

from ..module_utils.module_runner import run_module
from ..module_utils.rmd.node.cpuset import SPEC, read_cpusets


def main() -> None:
    run_module(SPEC, read_cpusets)


if __name__ == "__main__":
    main()
