#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module bare_metal_host_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bare_metal_host_info
short_description: Find the BMC of each node in the BareMetalHosts of Metal3
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the BareMetalHosts (C(metal3.io/v1alpha1)) of a cluster and matches them to Nodes by
    C(spec.providerID), which begins with C(metal3://) or C(baremetalhost://). A Node without a
    provider ID matches the BareMetalHost of its own name.
  - Returns the URL of the BMC from C(spec.bmc.address), and manufacturer, model and processor from
    C(status.hardware), as NodeConfigs for M(wattwise.kube.fleet_snapshot_info) and
    M(wattwise.kube.kube_apply). The annotation C(wattwise.github.io/system) keeps the identity, by
    which published power curves are found if the BMC does not report it.
  - Connects to no BMC and reads no Secret. Writers of BareMetalHosts choose the addresses, so
    confirm the certificates before a password is sent; M(wattwise.kube.tls_fingerprint_info) shows
    them.
  - An address without Redfish, an address of plain HTTP, and a BMC of several hosts are errors of
    their nodes.
options:
  snapshot:
    description: Path of a snapshot document with the nodes, which
      M(wattwise.kube.fleet_snapshot_info) wrote.
    type: path
    required: true
  node_selector:
    description: Label selector, in Kubernetes' text form, that limits the nodes of O(snapshot).
    type: str
  namespaces:
    description: Namespaces of the BareMetalHosts. All namespaces by default.
    type: list
    elements: str
    default: []
  host_selector:
    description: Label selector, in Kubernetes' text form, of the BareMetalHosts.
    type: str
  node_config_namespace:
    description: Namespace of the NodeConfigs.
    type: str
    default: wao-system
  path:
    description: Path of a document to write with RV(node_configs), which are then not returned.
    type: path
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.info_module
seealso:
  - module: wattwise.kube.node_config_template
requirements:
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Read the nodes
  wattwise.kube.fleet_snapshot_info:
    include:
      - node_configs
    path: /var/lib/wattwise/run/nodes.json

- name: Find the BMC of each node in the BareMetalHosts of the same cluster
  wattwise.kube.bare_metal_host_info:
    snapshot: /var/lib/wattwise/run/nodes.json
  register: bare_metal

- name: Find the BMCs of one rack in the management cluster
  wattwise.kube.bare_metal_host_info:
    kubeconfig: ~/.kube/management
    snapshot: /var/lib/wattwise/run/nodes.json
    node_selector: topology.kubernetes.io/zone=r1
    namespaces:
      - hall-1
    path: /var/lib/wattwise/run/node_configs.json

- name: Read the nodes with these BMCs
  wattwise.kube.fleet_snapshot_info:
    include:
      - node_configs
    node_configs: /var/lib/wattwise/run/node_configs.json
    path: /var/lib/wattwise/run/trust.json

- name: Show the certificates of the BMCs for review
  wattwise.kube.tls_fingerprint_info:
    snapshot: /var/lib/wattwise/run/trust.json
"""

RETURN = r"""
hosts:
  description: Nodes with their BareMetalHosts, in the order of the snapshot.
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the Node.
      type: str
      sample: worker-1
    host:
      description: Namespace and name of the BareMetalHost.
      type: str
      sample: hall-1/worker-1
    endpoint:
      description: URL of the BMC.
      type: str
      sample: https://10.0.100.7
    manufacturer:
      description: Manufacturer of the server, V(null) if not known.
      type: str
      sample: Dell Inc.
    model:
      description: Model of the server, V(null) if not known.
      type: str
      sample: PowerEdge R650
    processor:
      description: Model of the processors, V(null) if not known.
      type: str
      sample: Intel(R) Xeon(R) Gold 6338N CPU @ 2.20GHz
node_configs:
  description: A NodeConfig for each node in RV(hosts).
  returned: when O(path) is not given
  type: list
  elements: dict
  sample:
    - apiVersion: wao.bitmedia.co.jp/v1beta1
      kind: NodeConfig
      metadata:
        annotations:
          wattwise.github.io/system: '{"manufacturer": "Dell Inc.", "model": "PowerEdge R650"}'
        labels: {app.kubernetes.io/managed-by: wattwise.kube}
        name: worker-1
        namespace: wao-system
      spec:
        metricsCollector:
          inletTemp: {endpoint: https://10.0.100.7, type: Redfish}
        nodeName: worker-1
        predictor: {}
errors:
  description: Nodes without a usable BMC.
  returned: always
  type: list
  elements: dict
  contains:
    node:
      description: Name of the Node.
      type: str
      sample: worker-2
    host:
      description: Namespace and name of the BareMetalHost, V(null) if there is none.
      type: str
      sample: hall-1/worker-2
    detail:
      description: Sentence with the problem.
      type: str
      sample: "spec.bmc.address: ipmi://10.0.100.8 is not an address of Redfish"
counts:
  description: Number of BareMetalHosts that were read, and of NodeConfigs.
  returned: always
  type: dict
  sample: {hosts: 48, node_configs: 47}
path:
  description: Path of the document that was written.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/node_configs.json
sha256:
  description: SHA-256 of the document.
  returned: when O(path) is given
  type: str
  sample: 0f343b0931126a20f133d67c2b018a3b5d1b8a1ab8f1d2a5c3e1a1e0a3d1d0c9
"""

from ..module_utils.hosts import node_hosts
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(node_hosts.SPEC, node_hosts.read_node_hosts)


if __name__ == "__main__":
    main()
