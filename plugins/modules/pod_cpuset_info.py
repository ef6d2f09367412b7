#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module pod_cpuset_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pod_cpuset_info
short_description: Read which CPUs containers have to themselves, on their node
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Runs on a node and tells the CPUs of every container that has CPUs of its own, which are the
    containers of Guaranteed pods that ask for whole CPUs, where kubelet's CPU manager policy is
    static.
  - Reads control groups of version 1 and 2 as the drivers systemd and cgroupfs lay them out for
    containerd, CRI-O and docker, or asks kubelet.
  - Needs nothing but Python's standard library, except where O(source=pod_resources).
options:
  pods:
    description:
      - Pods as the Kubernetes API returns them, with C(metadata.uid) and C(status). Those that have
        ended are passed over.
    type: list
    elements: dict
    required: true
  node_name:
    description:
      - Name of the Node that the task runs on. Of O(pods) only those that are bound to it are
        looked at; without it, all.
    type: str
  root:
    description:
      - Folder in which the node's file system is found, for a container that has it mounted.
    type: path
    default: /
  source:
    description:
      - V(cgroup) reads control groups, V(cpu_manager) the checkpoint of kubelet's CPU manager
        (C(/var/lib/kubelet/cpu_manager_state)), V(pod_resources) asks kubelet's PodResources
        socket, which knows pods by name only.
      - V(auto) reads control groups, and the checkpoint for what is not found there.
    type: str
    default: auto
    choices:
      - auto
      - cgroup
      - cpu_manager
      - pod_resources
  timeout:
    description: Seconds that kubelet may take to answer, where O(source=pod_resources).
    type: float
    default: 10.0
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - root on the node
  - grpcio, where O(source=pod_resources)
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

- name: Ask kubelet, from a container that has the node's file system in /host
  wattwise.kube.pod_cpuset_info:
    pods: "{{ pods.resources }}"
    root: /host
    source: pod_resources
"""

RETURN = r"""
containers:
  description: Containers with CPUs of their own, in the order of the pods.
  returned: success
  type: list
  elements: dict
  contains:
    pod_uid:
      description: UID of the pod.
      type: str
      sample: f906a249-ab9d-4180-9afa-4075e2058ac7
    namespace:
      description: Its namespace.
      type: str
      sample: default
    pod:
      description: Its name.
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
  description: Containers whose CPUs could not be told, in the order of the pods.
  returned: success
  type: list
  elements: dict
  contains:
    pod_uid:
      description: UID of the pod.
      type: str
      sample: f906a249-ab9d-4180-9afa-4075e2058ac7
    namespace:
      description: Its namespace.
      type: str
      sample: default
    pod:
      description: Its name.
      type: str
      sample: pod-1
    container:
      description: Name of the container.
      type: str
      sample: nginx1
    reason:
      description: V(not_found), V(forbidden), V(malformed), V(implausible) or V(server_error).
      type: str
      sample: implausible
    detail:
      description: What was wrong, where, and what to do.
      type: str
      sample: >-
        the container runs on 64 CPUs and asked for 2, so they are not its own; set kubelet's
        --cpu-manager-policy to static
findings:
  description: Pods that cannot be read. Each is warned of, and stops no other.
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
      sample: metadata
    problem:
      description: What is wrong with it.
      type: str
      sample: "it has no name or no uid; give pods as the API returns them"
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.node.cpuset import (
    SPEC,
    read_cpusets,
)


def main() -> None:
    run_module(SPEC, read_cpusets)


if __name__ == "__main__":
    main()
