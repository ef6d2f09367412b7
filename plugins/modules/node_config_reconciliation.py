#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module node_config_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_config_reconciliation
short_description: Keep the NodeConfigs of a cluster equal to their templates
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Applies a namespace, Secrets and NodeConfigTemplates, and from all templates of the cluster one
    NodeConfig for each node that they select. Secrets, templates and NodeConfigs that are no longer
    wanted are removed. The status of each template and NodeConfig says what became of it.
  - NodeConfigs that people made are left alone. A NodeConfig whose template no longer renders keeps
    its last good specification.
  - Fails before it writes anything where the controller of wao-core runs, which writes the same
    NodeConfigs; see O(force).
  - M(wattwise.kube.node_config_template) renders the same templates without a cluster.
options:
  namespace:
    description:
      - Namespace of Secrets, templates and NodeConfigs; made where it is missing.
    type: str
    default: wao-system
  secrets:
    description:
      - User names and passwords of BMCs and other endpoints, made as Secrets.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the Secret, as templates name it.
        type: str
        required: true
      username:
        description: User name.
        type: str
        required: true
      password:
        description: Password; best kept in a vault.
        type: str
        required: true
      ca:
        description: Certificates, in PEM, that the endpoints of this Secret are verified with.
        type: str
      tls_fingerprint:
        description: SHA-256 fingerprint of the certificate that the endpoints of this Secret have.
        type: str
  templates:
    description:
      - NodeConfigTemplates that the task keeps. A template that is removed here is removed from the
        cluster with its NodeConfigs.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the template; its NodeConfigs are called V(<template>-<node>).
        type: str
        required: true
      annotations:
        description:
          - Annotations of the template. Those of C(wattwise.github.io) pass to its NodeConfigs.
        type: dict
        default: {}
      spec:
        description: Specification as the resource NodeConfigTemplate has it.
        type: dict
        required: true
  tls_fingerprints:
    description:
      - SHA-256 fingerprints of BMC certificates by node, each one text or a list.
    type: dict
    default: {}
  wao_group:
    description:
      - API group in which the templates of O(templates) are made.
    type: str
    choices:
      - wao.bitmedia.co.jp
      - node.waok8s.github.io
    default: wao.bitmedia.co.jp
  prune_max:
    description:
      - Largest share of the Secrets and templates, and of the NodeConfigs, from V(0.0) to V(1.0),
        that one run may remove; one object is always allowed. If more would go, none is removed and
        the task fails.
    type: float
    default: 0.3
  force:
    description:
      - Whether to write NodeConfigs although the controller of wao-core runs.
    type: bool
    default: false
  assume:
    description:
      - Manifests that an earlier task of the play applies, such as CustomResourceDefinitions, or
        paths of files with them. Only check mode reads them.
    type: list
    elements: raw
    default: []
  path:
    description:
      - Where to write the document C(node_configs) with NodeConfigs and statuses; its folder is
        made. In check mode M(wattwise.kube.fleet_snapshot_info) takes the NodeConfigs from it.
    type: path
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Keep the NodeConfigs of one rack
  wattwise.kube.node_config_reconciliation:
    kubeconfig: ~/.kube/config
    secrets:
      - name: bmc
        username: monitor
        password: "{{ vault_bmc_password }}"
    templates:
      - name: rack-1
        spec:
          nodeSelector:
            matchLabels:
              topology.kubernetes.io/rack: "1"
          metricsCollector:
            inletTemp:
              type: Redfish
              endpoint: !unsafe "https://{{ .Hostname }}.bmc.example"
              basicAuthSecret:
                name: bmc
            deltaP:
              type: Fake
              endpoint: ""

- name: Follow the nodes with the templates that are in the cluster
  wattwise.kube.node_config_reconciliation:
    context: hall-2
    path: /var/lib/wattwise/run/node_configs.json

- name: Look what a removal of most templates would do
  wattwise.kube.node_config_reconciliation:
    templates: []
    prune_max: 1.0
  check_mode: true
  diff: true
"""

RETURN = r"""
results:
  description:
    - What happened to each object, step after step, in the form of the result of
      M(wattwise.kube.kube_apply).
  returned: always
  type: list
  elements: dict
  sample:
    - action: created
      api_version: v1
      kind: Namespace
      name: wao-system
      namespace: ""
pruned:
  description: The objects that were removed, in the form of RV(results).
  returned: always
  type: list
  elements: dict
  sample: []
counts:
  description: How many templates, NodeConfigs, statuses and errors there are.
  returned: success
  type: dict
  sample:
    errors: 0
    node_configs: 50
    statuses: 51
    templates: 1
errors:
  description: Each field of a template that did not render, with its template, node and reason.
  returned: success
  type: list
  elements: dict
  sample: []
findings:
  description: Nodes, templates and NodeConfigs that cannot be read and are left out.
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.reconcile import node_configs


def main() -> None:
    run_module(node_configs.SPEC, node_configs.reconcile)


if __name__ == "__main__":
    main()
