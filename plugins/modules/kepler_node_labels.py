#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module kepler_node_labels."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kepler_node_labels
short_description: Label nodes with the verdict whether Kepler can meter them
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Judges every node of a cluster by the results of M(wattwise.kube.kepler_node_info), else by the
    annotation C(wattwise.github.io/kepler-probe) of the discovery pod on the node, else by the Node
    object and the labels of Node Feature Discovery.
  - Adds the BMC that the NodeConfig or the BareMetalHost of a node names.
  - Writes the labels C(wattwise.github.io/kepler-supported), C(wattwise.github.io/kepler-meter) and
    C(wattwise.github.io/kepler-microarchitecture), and the annotation
    C(wattwise.github.io/kepler-reasons). The field manager C(wattwise-kepler-nodes) owns them.
  - A node with an invalid probe is unsupported. Other nodes are not affected.
options:
  state:
    description: V(present) writes labels and annotations. V(absent) removes them, and also the
      annotation of the discovery pod, unless another field manager owns them too.
    type: str
    default: present
    choices: [present, absent]
  node_names:
    description: Names of the Nodes to label. All Nodes by default.
    type: list
    elements: str
  probes:
    description: Results of M(wattwise.kube.kepler_node_info) by the name of the Node. Results of
      hosts that failed or were unreachable do not count.
    type: dict
    default: {}
  kepler_version:
    description: Version of Kepler, such as V(0.11.4), or V(latest).
    type: str
    default: 0.11.4
  fake_cpu_meter:
    description: Whether Kepler runs with its fake CPU meter on nodes that only a BMC meters. Kepler
      V(0.10.0) and later exits there without it. The watts of its CPU metrics are then no
      measurements.
    type: bool
    default: false
  force_conflicts:
    description: Whether labels of other field managers are taken over. By default such a node is in
      RV(errors) and keeps its labels, so that an administrator can set them by hand.
    type: bool
    default: false
  concurrency:
    description: Number of Nodes that are written at the same time.
    type: int
    default: 16
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
seealso:
  - module: wattwise.kube.kepler_node_info
"""

EXAMPLES = r"""
- name: Read the meters of the nodes over SSH
  wattwise.kube.kepler_node_info:
  become: true
  register: probe

- name: Label all nodes
  wattwise.kube.kepler_node_labels:
    probes: "{{ dict(names | zip(results)) }}"
  vars:
    read: "{{ ansible_play_hosts | map('extract', hostvars) | list }}"
    names: "{{ read | map(attribute='node_name') }}"
    results: "{{ read | map(attribute='probe') }}"
  delegate_to: localhost
  run_once: true

- name: Label all nodes by the annotations of discovery pods
  wattwise.kube.kepler_node_labels:
    kepler_version: 0.10.2
  register: kepler_nodes

- name: Take all labels back
  wattwise.kube.kepler_node_labels:
    state: absent
"""

RETURN = r"""
nodes:
  description: Verdicts in the order of the API server; none with O(state=absent). Each entry has
    the members that M(wattwise.kube.kepler_node_info) returns, and C(name) and C(bmc).
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the Node.
      type: str
      sample: worker-1
    supported:
      description: Whether Kepler of this version can run and meter on the node.
      type: bool
      sample: true
    meter:
      description: V(rapl), V(hwmon), V(redfish), V(model) or V(none). V(redfish) beside an
        unsupported node is a BMC that meters the machine without Kepler.
      type: str
      sample: rapl
    reasons:
      description: Sentences why Kepler can or cannot meter the node, one at least.
      type: list
      elements: str
      sample:
        - RAPL zones package-0, dram can be read
        - the BMC of NodeConfig wao-system/worker-1 meters the machine, too
    bmc:
      description: Object that names the BMC of the node; empty if none does.
      type: str
      sample: NodeConfig wao-system/worker-1
    source:
      description: V(host) for facts of a probe, V(node) for those of the Node object alone.
      type: str
      sample: host
    architecture:
      description: Processor architecture as Kubernetes names it.
      type: str
      sample: amd64
groups:
  description: Supported nodes by architecture and meter.
  returned: success
  type: list
  elements: dict
  contains:
    architecture:
      description: Processor architecture as Kubernetes names it.
      type: str
      sample: amd64
    meter:
      description: V(rapl), V(hwmon), V(redfish) or V(model).
      type: str
      sample: rapl
    nodes:
      description: Names of the Nodes.
      type: list
      elements: str
      sample: [worker-1, worker-2]
unsupported:
  description: Nodes that Kepler cannot meter, with C(name) and C(reasons) as in RV(nodes).
  returned: success
  type: list
  elements: dict
  sample:
    - name: virtual-1
      reasons: ["the node is a virtual machine (kvm) without RAPL zones"]
errors:
  description: Nodes that the API server refused to change, with C(name) and a sentence C(detail).
  returned: success
  type: list
  elements: dict
  sample:
    - name: worker-3
      detail: >-
        Node worker-3: another manager owns .metadata.labels.wattwise.github.io/kepler-meter
        (conflict with "kubectl-label"); leave these fields out, or set force_conflicts to take them
        over
findings:
  description: Objects and probes that cannot be read. Each causes a warning and stops no other.
    Each has C(kind), C(namespace), C(name), C(field) (empty where the defect has no single place)
    and C(problem).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: Node
      namespace: ""
      name: worker-4
      field: metadata.annotations[wattwise.github.io/kepler-probe]
      problem: "it holds no facts of a probe: it has 70000 bytes; the limit is 65536"
"""

from ..module_utils.kepler.labels import SPEC, label_nodes
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(SPEC, label_nodes)


if __name__ == "__main__":
    main()
