#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_pod_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_pod_info
short_description: List the running pods that request cache ways, by node
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - A pod requests cache ways by a container limit of C(intel.com/l3_cache_ways).
  - Each pod is reduced to the fields that M(wattwise.kube.pod_cpuset_info) needs on the nodes.
options:
  node_names:
    description: Names of Nodes whose pods are listed. All nodes by default.
    type: list
    elements: str
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes.info_module
  - wattwise.kube.attributes
"""

EXAMPLES = r"""
- name: List the pods that request cache ways
  wattwise.kube.rmd_pod_info:
  register: asking

- name: List the pods of two nodes
  wattwise.kube.rmd_pod_info:
    node_names:
      - worker-0
      - worker-1

- name: Read the CPUs of the pods on this node
  wattwise.kube.pod_cpuset_info:
    pods: "{{ asking.pods[inventory_hostname] | default([]) }}"
"""

RETURN = r"""
pods:
  description: Pods by node name.
  returned: success
  type: dict
  sample:
    node-1:
      - metadata: {name: pod-1, namespace: default, uid: f906a249-ab9d-4180-9afa-4075e2058ac7}
        spec:
          nodeName: node-1
          initContainers: []
          containers:
            - name: nginx1
              resources:
                limits: {cpu: "2", intel.com/l3_cache_ways: "2"}
        status:
          phase: Running
          qosClass: Guaranteed
          containerStatuses:
            - {name: nginx1, containerID: containerd://0123456789abcdef}
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
      field: metadata.name
      problem: "'A/B/C' is not a name"
"""

from ..module_utils.module_runner import run_module
from ..module_utils.rmd.pod_workloads import INFO_SPEC, read_pods


def main() -> None:
    run_module(INFO_SPEC, read_pods)


if __name__ == "__main__":
    main()
