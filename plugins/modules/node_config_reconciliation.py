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
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Applies a namespace, Secrets and NodeConfigTemplates, and one NodeConfig for each node that a
    template of the cluster selects. Removes Secrets, templates and NodeConfigs that are no longer
    wanted. Writes the status of each template and NodeConfig.
  - NodeConfigs without a template are not touched. A NodeConfig whose template no longer renders
    keeps its last good specification.
  - Fails before the first write if the controller of wao-core runs, because both write the same
    NodeConfigs; see O(force).
  - M(wattwise.kube.node_config_template) renders the same templates without a cluster.
options:
  # begin generated: node_configs
  namespace:
    description: Namespace of Secrets, templates and NodeConfigs; created if missing.
    type: str
    default: wao-system
  secrets:
    description: User names and passwords of BMCs and other endpoints, stored as Secrets.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the Secret in the templates.
        type: str
        required: true
      username:
        description: User name.
        type: str
        required: true
      password:
        description: Password. Keep it in a vault.
        type: str
        required: true
      ca:
        description: PEM certificates that verify the endpoints of this Secret.
        type: str
      tls_fingerprint:
        description: SHA-256 fingerprint of the certificate of the endpoints of this Secret.
        type: str
  templates:
    description: NodeConfigTemplates to apply. Templates that are removed here are removed from the
      cluster with their NodeConfigs.
    type: list
    elements: dict
    default: []
    suboptions:
      name:
        description: Name of the template. Its NodeConfigs are named V(<template>-<node>).
        type: str
        required: true
      annotations:
        description: Annotations of the template. Those of C(wattwise.github.io) are copied to its
          NodeConfigs.
        type: dict
        default: {}
      spec:
        description: Specification of the NodeConfigTemplate.
        type: dict
        required: true
  tls_fingerprints:
    description: SHA-256 fingerprints of BMC certificates by node, each a text or a list. A pinned
      BMC is verified by these only.
    type: dict
    default: {}
  wao_group:
    description: API group of the templates in O(templates).
    type: str
    default: wao.bitmedia.co.jp
    choices: [wao.bitmedia.co.jp, node.waok8s.github.io]
  prune_max:
    description: Largest share, from V(0.0) to V(1.0), of the Secrets and templates, and of the
      NodeConfigs, that one run may remove; one object is always allowed. Above it nothing is
      removed and the task fails. Raise it for one intended large removal.
    type: float
    default: 0.3
  force:
    description: Whether to write NodeConfigs even if the controller of wao-core runs, which writes
      them too.
    type: bool
    default: false
  # end generated
  assume:
    description: Manifests that an earlier task of the play applies, such as
      CustomResourceDefinitions, or paths of files with them. Only check mode reads them, because
      that task has then not changed the cluster.
    type: list
    elements: raw
    default: []
  path:
    description: Path of the document C(node_configs) to write, with NodeConfigs and statuses; its
      folder is created. In check mode M(wattwise.kube.fleet_snapshot_info) reads the NodeConfigs
      from it.
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
- name: Configure the nodes of one rack
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

- name: Render the templates of the cluster for its present nodes
  wattwise.kube.node_config_reconciliation:
    context: hall-2
    path: /var/lib/wattwise/run/node_configs.json

- name: Show the effect of removing most templates

  wattwise.kube.node_config_reconciliation:
    templates: []
    prune_max: 1.0
  check_mode: true
  diff: true
"""

RETURN = r"""
results:
  description: Result of each object, step by step, in the form of M(wattwise.kube.kube_apply).
  returned: always
  type: list
  elements: dict
  sample:
    - {action: created, api_version: v1, kind: Namespace, name: wao-system, namespace: ""}
pruned:
  description: Removed objects, in the form of RV(results).
  returned: always
  type: list
  elements: dict
  sample: []
counts:
  description: Numbers of templates, NodeConfigs, statuses and errors.
  returned: success
  type: dict
  sample: {errors: 0, node_configs: 50, statuses: 51, templates: 1}
errors:
  description: Fields that did not render, each with its template, node and reason.
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

from ..module_utils.module_runner import run_module
from ..module_utils.nodeconfig import reconciliation as node_configs


def main() -> None:
    run_module(node_configs.SPEC, node_configs.reconcile)


if __name__ == "__main__":
    main()
