#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module fleet_snapshot_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_snapshot_info
short_description: Read a cluster into one document
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads nodes, pods, NodeConfigs, templates and node metrics concurrently and in pages, keeps the
    fields that other modules use, and writes them as one JSON document.
  - A list that cannot be read completely fails the task. Custom resources and metrics that the
    cluster does not serve count as empty.
  - NodeConfigs are resolved to targets in the document. A target is a node with its endpoints,
    certificate pins, names of Secrets, known sensors, last values and fallbacks. Modules that read
    machines or predict power use these targets.
  - Finished pods are left out. Waiting pods keep their whole specification.
  - The document contains no Secrets.
options:
  include:
    description:
      - Parts to read. Nodes are always read.
      - V(device_objects) are the objects of C(resource.k8s.io) and of the k8srm prototype, for
        M(wattwise.kube.device_allocation) and M(wattwise.kube.power_placement).
      - V(volume_objects) are PersistentVolumeClaims, PersistentVolumes, StorageClasses, CSINodes,
        CSIDrivers, CSIStorageCapacities and VolumeAttachments, for
        M(wattwise.kube.power_placement). With V(pods) they are read only if a pod without a node
        has a claim of a volume, or a disk of a driver; else the part is empty.
      - V(bare_metal_hosts) are the BareMetalHosts of Metal3, for M(wattwise.kube.redfish_power).
      - V(namespaces) and V(replica_sets) are read as metadata only. ReplicaSets are kept if they
        have WAO's annotation C(podspread-rate).
    type: list
    elements: str
    choices:
      - nodes
      - pods
      - node_configs
      - node_config_templates
      - node_metrics
      - pod_disruption_budgets
      - rmd_workloads
      - rmd_node_states
      - rmd_configs
      - rmd_pods
      - device_objects
      - volume_objects
      - bare_metal_hosts
      - controllers
      - namespaces
      - replica_sets
    default:
      - nodes
      - pods
      - node_configs
      - node_config_templates
      - node_metrics
      - namespaces
      - replica_sets
      - pod_disruption_budgets
      - rmd_node_states
      - device_objects
      - volume_objects
  selectors:
    description: Label selectors in Kubernetes' text form, by part. The selector of C(rmd_pods), the
      pods of Intel RMD daemons, is C(name=rmd-pod) by default.
    type: dict
    default: {}
  node_configs:
    description: Path of a document that M(wattwise.kube.node_config_template) wrote. Its
      NodeConfigs count as applied, which check mode needs.
    type: path
  path:
    description:
      - Path of the document to write. Without this option the document is returned, which suits
        small clusters and tests.
      - Missing folders of the path are created for this user only.
      - A snapshot begins a run. Documents made from it have the same C(run), and documents of two
        runs are never combined. While the Ansible process that wrote the file runs, other runs on
        the same host fail and name this process.
    type: path
  run_process:
    description:
      - Ansible process of the run.
      - The action plugin sets this option. Leave it unset.
    type: str
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
requirements:
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Read the whole cluster
  wattwise.kube.fleet_snapshot_info:
    kubeconfig: ~/.kube/config
    path: /var/lib/wattwise/run/snapshot.json

- name: Read one hall and the pods of one scheduler profile
  wattwise.kube.fleet_snapshot_info:
    path: /var/lib/wattwise/run/hall-2.json
    selectors:
      nodes: topology.kubernetes.io/zone=hall-2
      pods: app.kubernetes.io/part-of=batch

- name: Read only the nodes
  module_defaults:
    group/wattwise.kube.wattwise:
      context: hall-2
  block:
    - name: Read the nodes
      wattwise.kube.fleet_snapshot_info:
        include:
          - nodes
      register: fleet

    - name: Show the number of nodes

      ansible.builtin.debug:
        var: fleet.counts.nodes
"""

RETURN = r"""
path:
  description: Path of the written document.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/snapshot.json
sha256:
  description: SHA-256 of the document, in hexadecimal.
  returned: when O(path) is given
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
counts:
  description: Number of objects of each part.
  returned: success
  type: dict
  sample: {node_config_templates: 1, node_configs: 50, node_metrics: 0, nodes: 50, pods: 310}
findings:
  description: Objects that cannot be read and are left out, each with C(kind), C(namespace),
    C(name), C(field) and C(problem). The document lists them too.
  returned: success
  type: list
  elements: dict
  sample: []
controllers:
  description: Images of the controllers in the cluster; empty unless O(include) has V(controllers).
  returned: success
  type: list
  elements: str
  sample: [ghcr.io/waok8s/wao-controller:v1.27.0]
snapshot:
  description: The document.
  returned: when O(path) is not given
  type: dict
  sample:
    cluster: {host: https://127.0.0.1:6443}
    document: wattwise.kube/snapshot/v1
    nodes: []
    time: "2026-01-31T12:00:00Z"
"""

from ..module_utils.module_runner import run_module
from ..module_utils.snapshot import snapshot


def main() -> None:
    run_module(snapshot.SPEC, snapshot.take)


if __name__ == "__main__":
    main()
