#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module node_config_template."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_config_template
short_description: Render NodeConfigTemplates to one NodeConfig per node
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Renders a NodeConfig for every node that a template selects, and the statuses of templates and
    NodeConfigs, as manifests for M(wattwise.kube.kube_apply). Connects to nothing and changes
    nothing.
  - C(type), C(endpoint) and C(basicAuthSecret.name) may be Go templates. Variables are
    C(.Hostname) (label C(kubernetes.io/hostname), else the node's name), C(.Name),
    C(.IPv4.Address) and C(.IPv4.Octet1) to C(.IPv4.Octet4) (of the first internal IPv4 address;
    without one the octets are empty), C(.Labels) and C(.Annotations).
  - Pipelines, parentheses, trim markers, comments and literals work as in Go. Supported functions
    of Go are C(and), C(or), C(not), C(eq), C(ne), C(lt), C(le), C(gt), C(ge), C(index), C(len) and
    C(printf); supported functions of sprig are C(trim), C(trimAll), C(trimPrefix), C(trimSuffix),
    C(lower), C(upper), C(replace), C(substr), C(trunc), C(repeat), C(nospace), C(contains),
    C(hasPrefix), C(hasSuffix), C(quote), C(toString), C(split), C(splitList), C(first), C(last),
    C(int), C(int64), C(atoi), C(add), C(add1), C(sub), C(mul), C(div), C(mod), C(max), C(min),
    C(default), C(empty), C(coalesce) and C(ternary). Any other function or action, such as C(if)
    and C(range), is an error that names it.
  - Values of nodes in C(endpoint) are allowed in the host and after it, not before it. In the host
    a value must be a host name or an address, so that no label or annotation can redirect
    credentials. IPv6 addresses get brackets. Literal texts of the template may name any host, also
    if C(default) or C(ternary) returns them.
  - A field that does not render to a valid value is an entry in RV(errors) and a condition. Its
    NodeConfig is not rendered; an existing one keeps its last good specification.
  - Several NodeConfigs of one node are ordered by API group, then those without a template first,
    then by age, then by name. The first one counts; the others get the condition C(Shadowed).
options:
  templates:
    description:
      - NodeConfigTemplates in the form of the API, of either shape.
      - They are added to the templates of O(snapshot) and replace the specification of those with
        the same name.
      - Write C(!unsafe) before texts with C({{ }}) in playbooks and inventories, or Ansible
        templates them.
    type: list
    elements: dict
  nodes:
    description: Nodes in the form of the API.
    type: list
    elements: dict
  snapshot:
    description:
      - Path of a snapshot document with nodes, templates and existing NodeConfigs.
      - Without this option existing NodeConfigs are not considered.
    type: path
  tls_fingerprints:
    description: SHA-256 fingerprints of certificates by node, each a text or a list. They become
      the annotation C(wattwise.github.io/tls-fingerprint). The BMC of the node is then verified by
      these only.
    type: dict
    default: {}
  path:
    description: Path of a document to write with RV(node_configs) and RV(statuses), which are then
      not returned. M(wattwise.kube.kube_apply) reads it with C(src) and C(src_key).
    type: path
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - fastjsonschema >= 2.20 (to read or write documents)
"""

EXAMPLES = r"""
- name: Render one template for one node
  wattwise.kube.node_config_template:
    templates:
      - apiVersion: wao.bitmedia.co.jp/v1beta1
        kind: NodeConfigTemplate
        metadata:
          name: rack-1
          namespace: wao-system
        spec:
          nodeSelector:
            matchLabels:
              rack: r1
          template:
            metricsCollector:
              inletTemp:
                type: Redfish
                endpoint: !unsafe "https://10.0.100.{{ .IPv4.Octet4 }}"
                basicAuthSecret:
                  name: !unsafe "{{ .Hostname }}-bmc"
              deltaP:
                type: DifferentialPressureAPI
                endpoint: http://10.0.0.1:5000
            predictor: {}
    nodes:
      - metadata:
          name: worker-1
          labels:
            kubernetes.io/hostname: worker-1
            rack: r1
        status:
          addresses:
            - type: InternalIP
              address: 10.0.0.11
  register: rendered

- name: Render all templates of the cluster
  wattwise.kube.node_config_template:
    snapshot: /var/lib/wattwise/run/snapshot.json
    path: /var/lib/wattwise/run/node_configs.json
  register: rendered

- name: Apply the NodeConfigs, and remove those that no template renders any more
  wattwise.kube.kube_apply:
    src:
      - /var/lib/wattwise/run/node_configs.json
    src_key: node_configs
    prune: wattwise-node-configs
    prune_owner_kinds:
      - NodeConfigTemplate

- name: Render all templates, and pin the certificate of one machine
  wattwise.kube.node_config_template:
    snapshot: /var/lib/wattwise/run/snapshot.json
    tls_fingerprints:
      worker-1: 5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef
    path: /var/lib/wattwise/run/node_configs.json
"""

RETURN = r"""
node_configs:
  description: NodeConfigs to apply, ordered by API group, namespace and name.
  returned: when O(path) is not given
  type: list
  elements: dict
  sample:
    - apiVersion: wao.bitmedia.co.jp/v1beta1
      kind: NodeConfig
      metadata:
        labels:
          app.kubernetes.io/managed-by: wattwise.kube
          applyset.kubernetes.io/part-of: wattwise-node-configs
          wattwise.github.io/template: rack-1
        name: rack-1-worker-1
        namespace: wao-system
      spec:
        metricsCollector:
          deltaP: {endpoint: http://10.0.0.1:5000, type: DifferentialPressureAPI}
          inletTemp:
            basicAuthSecret: {name: worker-1-bmc}
            endpoint: https://10.0.100.11
            type: Redfish
        nodeName: worker-1
        predictor: {}
statuses:
  description: Statuses to write with M(wattwise.kube.kube_apply), with the conditions C(Rendered)
    and C(Shadowed).
  returned: when O(path) is not given
  type: list
  elements: dict
  sample:
    - apiVersion: wao.bitmedia.co.jp/v1beta1
      kind: NodeConfigTemplate
      metadata: {name: rack-1, namespace: wao-system}
      status:
        conditions:
          - {message: "NodeConfigs rendered: 1", reason: Rendered, status: "True", type: Rendered}
        matchedNodes: 1
errors:
  description: Fields that did not render. C(node) is null if the error concerns all nodes.
  returned: always
  type: list
  elements: dict
  sample:
    - detail: "the template '{{ .Rack }}', column 4: there is no .Rack here; there are .Annotations,
        .Hostname, .IPv4, .Labels, .Name"
      field: spec.metricsCollector.inletTemp.basicAuthSecret.name
      node: worker-1
      template: wao-system/rack-1
findings:
  description: Nodes, templates and NodeConfigs of O(snapshot) that cannot be read and are left out.
    The NodeConfig of such a node stays. Other objects are not affected.
  returned: always
  type: list
  elements: dict
  sample:
    - field: status.addresses
      kind: Node
      name: worker-7
      namespace: ""
      problem: "'10.0.0.7' is not a list"
warnings:
  description: Remarks that are no errors, such as a template that selects no node.
  returned: always
  type: list
  elements: str
  sample: [NodeConfigTemplate wao-system/rack-9 selects no node; check its nodeSelector]
counts:
  description: Numbers of templates, NodeConfigs, statuses and errors.
  returned: always
  type: dict
  sample: {errors: 0, node_configs: 1, statuses: 2, templates: 1}
path:
  description: Path of the written document.
  returned: when O(path) is given
  type: str
  sample: /var/lib/wattwise/run/node_configs.json
sha256:
  description: SHA-256 of the document, in hexadecimal.
  returned: when O(path) is given
  type: str
  sample: 0d4a1185aa4a0e9cbb0cc1a3c7a4dbf1d1fee3d3e8c8ce92d8d1e4ff6ba6b2f7
"""

from ..module_utils.module_runner import run_module
from ..module_utils.nodeconfig import templates


def main() -> None:
    run_module(templates.SPEC, templates.render)


if __name__ == "__main__":
    main()
