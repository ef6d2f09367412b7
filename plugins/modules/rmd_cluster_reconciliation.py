#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module rmd_cluster_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rmd_cluster_reconciliation
short_description: Reconcile the RmdWorkloads of a cluster with its RMD daemons, and write statuses
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads RmdWorkloads, RmdNodeStates, RmdConfigs and the daemons' pods, brings the daemons to what
    the RmdWorkloads want as M(wattwise.kube.rmd_reconciliation) does, keeps one RmdNodeState for
    each daemon, and writes the statuses.
  - A cluster without anything of RMD costs one look.
  - Fails before it writes anything where rmd-operator runs, which writes the same workloads; see
    O(force).
  - Where too few daemons answer, the task fails after node states and statuses of all are written.
options:
  endpoints:
    description:
      - URLs of daemons by node. They take precedence over the address of the daemon's pod.
    type: dict
    default: {}
  pod_selector:
    description:
      - Label selector of the pods in which daemons run.
    type: str
    default: name=rmd-pod
  namespace:
    description:
      - Namespace of the RmdNodeStates, which is made where it is missing, and of the daemons' pods.
        A pod of another namespace is never asked, whatever labels it has.
    type: str
    default: rmd-system
  require_capacity:
    description:
      - Whether a daemon is asked for its hospitality score before a workload is created, and gets
        no workload where that is 0. Only an administrator's certificate may ask.
    type: bool
    default: false
  daemons:
    description:
      - How daemons are asked. These options have a level of their own because those of the
        Kubernetes API bear the same names.
    type: dict
    default: {}
    suboptions:
        timeout:
          description:
            - Seconds that one daemon may take in all.
          type: float
          default: 10.0
        concurrency:
          description:
            - How many daemons are asked at the same time.
          type: int
          default: 64
        allow_plain_http:
          description:
            - Whether O(daemons.username) and O(daemons.password) may be sent to a daemon whose endpoint is V(http://…),
              over which anybody on the way can read them. Otherwise such a daemon is an error and gets
              no request. If V(true), the module warns with the number of daemons.
          type: bool
          default: false
        validate_certs:
          description:
            - Whether the daemons' certificates are verified.
          type: bool
          default: true
        ca_path:
          description:
            - Path of the certificates, in PEM, that daemons are verified with, in place of the system's.
          type: path
        tls_fingerprint:
          description:
            - SHA-256 fingerprints of certificates or public keys. For certificates that are pinned here,
              nothing else is verified; a daemon with another one gets no request.
          type: list
          elements: str
          default: []
        tls_server_name:
          description:
            - Name that the daemons' certificates must have, since they have one in common. Empty means
              the host in each endpoint.
          type: str
          default: rmd-nameserver
        client_cert:
          description:
            - Path of the client's certificate, in PEM. An RSA key must have 2048 bits or more.
            - An endpoint with V(https) is never asked without TLS, whatever is wrong with this.
          type: path
        client_key:
          description:
            - Path of its private key, in PEM and without a password; by default it is in O(daemons.client_cert).
          type: path
        username:
          description:
            - User name for daemons that ask for a password instead of a certificate.
          type: str
        password:
          description:
            - Password of O(daemons.username).
          type: str
        wire:
          description:
            - The version of RMD whose JSON the daemons speak. V(auto) finds it out for each.
          type: str
          default: auto
          choices:
            - auto
            - "0.2"
            - "0.3"
        on_error:
          description:
            - Whether daemons that fail are only reported, or fail the task as well. V(fail) is the same
              as a O(daemons.min_success) of V(1.0).
          type: str
          default: report
          choices:
            - report
            - fail
        min_success:
          description:
            - Share of the daemons, from V(0.0) to V(1.0), that must succeed; the task fails below it,
              with all results in the failure. What succeeded stays done.
          type: float
          default: 0.0
  prune_max:
    description:
      - Largest share of the RmdNodeStates, from V(0.0) to V(1.0), that one run may remove; one is
        always allowed.
    type: float
    default: 0.3
  force:
    description:
      - Whether to write although rmd-operator runs.
    type: bool
    default: false
  assume:
    description:
      - Manifests that an earlier task of the play applies, such as CustomResourceDefinitions, or
        paths of files with them. Only check mode reads them.
    type: list
    elements: raw
    default: []
  run_dir:
    description:
      - Folder of the documents C(rmd-snapshot.json) and C(rmd.json); made where it is missing.
    type: path
    required: true
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - aiohttp >= 3.10
  - fastjsonschema >= 2.20
"""

EXAMPLES = r"""
- name: Reconcile all daemons of a cluster
  wattwise.kube.rmd_cluster_reconciliation:
    kubeconfig: ~/.kube/config
    run_dir: /var/lib/wattwise/run
    daemons:
      ca_path: /etc/rmd/ca.pem
      client_cert: /etc/rmd/cert.pem
      client_key: /etc/rmd/key.pem

- name: Reconcile daemons that run outside of pods
  wattwise.kube.rmd_cluster_reconciliation:
    context: hall-2
    run_dir: /var/lib/wattwise/hall-2
    endpoints:
      worker-1: https://10.0.0.11:8443
    daemons:
      username: rmd
      password: "{{ vault_rmd_password }}"

- name: Look what would change
  wattwise.kube.rmd_cluster_reconciliation:
    run_dir: /var/lib/wattwise/run
  check_mode: true
  diff: true
"""

RETURN = r"""
results:
  description:
    - What became of each workload on each daemon, in the form of the result of
      M(wattwise.kube.rmd_reconciliation).
  returned: always
  type: list
  elements: dict
  sample: []
objects:
  description:
    - What happened to each object of the cluster, in the form of the result of
      M(wattwise.kube.kube_apply).
  returned: always
  type: list
  elements: dict
  sample:
    - action: created
      api_version: v1
      kind: Namespace
      name: rmd-system
      namespace: ""
pruned:
  description: The RmdNodeStates that were removed, in the form of RV(objects).
  returned: always
  type: list
  elements: dict
  sample: []
daemons:
  description: How many daemons there are.
  returned: always
  type: int
  sample: 50
workloads:
  description: How many RmdWorkloads there are.
  returned: always
  type: int
  sample: 12
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.reconcile import rmd


def main() -> None:
    run_module(rmd.SPEC, rmd.reconcile)


if __name__ == "__main__":
    main()
