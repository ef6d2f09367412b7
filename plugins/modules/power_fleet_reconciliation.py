#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module power_fleet_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: power_fleet_reconciliation
short_description: Make one run for a PowerFleet, and tell it in its status
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads a PowerFleet (C(wattwise.github.io/v1alpha1)) and executes the steps of its spec, with the
    library functions of M(wattwise.kube.fleet_reconciliation),
    M(wattwise.kube.node_config_reconciliation) and M(wattwise.kube.rmd_cluster_reconciliation).
    Playbooks of the operator run it for each PowerFleet.
  - The module reads the spec from the API server itself. No value of it passes through Ansible,
    so text that looks like a template stays text.
  - A node belongs to the oldest PowerFleet that selects it. A pod belongs to the PowerFleet that
    its annotation C(wattwise.github.io/power-fleet) names as C(namespace/name), else to the oldest
    one with a node on which it may run. Machines of other nodes are not read, and other pods are
    not placed, but rules between pods count them.
  - A run reads every machine whose C(fetchInterval) is over. A run that the annotation
    C(wattwise.github.io/requested-at) asked for takes readings that are younger than
    C(spec.observe.maxAgeSeconds) as they are, moves no running pod, and renders templates or
    refreshes RmdWorkloads only where C(wattwise.github.io/requested-for) names them (V(pods),
    V(nodes), V(node-configs), V(rmd), or several with commas between them).
  - The status holds the outcome of the run, with the conditions C(Ready), C(Observed), C(Placed)
    and, with a source of the power draw of pods, C(Metered). A run without a change writes nothing
    until O(heartbeat_seconds) are over. Events report each failed and recovered condition, and lost
    machines.
  - A PowerFleet whose C(spec.sleep.mode) is V(on), or whose machines sleep, has the finalizer
    C(wattwise.github.io/wake). In deletion a run brings back its machines, and removes the
    finalizer when all of them are awake.
  - A C(spec.interval) other than 60 s becomes the annotation
    C(ansible.sdk.operatorframework.io/reconcile-period), which ansible-operator reads.
  - NodeConfigs are made of the templates that are in the cluster. Secrets, templates and pinned
    certificates that an inventory applied stay as they are.
options:
  namespace:
    description: Namespace of the PowerFleet.
    type: str
    required: true
  name:
    description: Name of the PowerFleet. A missing PowerFleet, or one in deletion, is no error.
    type: str
    required: true
  run_dir:
    description:
      - Folder of the PowerFleet, made where it is missing. It holds the documents of
        M(wattwise.kube.fleet_reconciliation), metrics for Prometheus in C(metrics/*.prom), and
        C(power-fleet.json), which remembers the request that was served last.
      - A folder that was lost makes the next run a whole one.
    type: path
    required: true
  run_process:
    description:
      - Ansible process of the run; another run in O(run_dir) is refused while it lives.
      - The action plugin sets it.
    type: str
  heartbeat_seconds:
    description: Seconds after which the unchanged status of the PowerFleet, or reading in the
      status of a NodeConfig, is written again.
    type: float
    default: 300.0
  record_namespaces:
    description:
      - Namespaces whose PowerFleets keep the documents of their last binding in a ConfigMap
        C(wattwise-last-binding-<uid>), compressed to at most 1 MiB. A run whose O(run_dir) lacks
        the documents restores them from there, so that reports compute savings after a restart.
      - The PowerFleet owns its ConfigMap, so Kubernetes deletes both together. A ConfigMap that
        cannot be read or written causes a warning.
    type: list
    elements: str
    default: []
  publish_namespaces:
    description:
      - Namespaces whose PowerFleets publish curves, rules, limits and plan in a ConfigMap
        C(wattwise-extender-<uid>), which the extender of kube-scheduler reads. The ConfigMap is
        written where the extender would learn from it.
      - The PowerFleet owns its ConfigMap. One that cannot be written causes a warning.
    type: list
    elements: str
    default: []
  default_credential_dir:
    description:
      - Folder of a mounted Secret, with the files C(username), C(password) and optionally
        C(ca.crt). The NodeConfigs of O(default_credential_namespaces) that name no Secret get it.
      - Without this option such machines are asked without a credential.
    type: path
  default_credential_namespaces:
    description: Namespaces of the NodeConfigs that may get the content of
      O(default_credential_dir). List only namespaces whose writers of NodeConfigs may know the
      password.
    type: list
    elements: str
    default: []
  metering_credential_dir:
    description:
      - Folder of a mounted Secret for the Prometheus of C(spec.metering), with the files C(url) and
        C(token), or C(username) and C(password), and optionally C(ca.crt).
      - The credential is sent only to the scheme, host and port of C(url), because the writer of a
        spec chooses the Prometheus. Keplers get none.
      - Keplers that ask for a client certificate are shown C(tls.crt) with C(tls.key), and
        C(ca.crt) verifies them if the spec names no authority.
    type: path
  rmd_client:
    description: Client certificate and trusted authority for RMD daemons. No spec can set them.
    type: dict
    default: {}
    suboptions:
      ca_path:
        description: Path of the PEM certificates that verify the daemons, instead of the system's.
        type: path
      client_cert:
        description: Path of the client certificate, in PEM.
        type: path
      client_key:
        description: Path of the client's private key, in PEM. Without it the key is read from
          O(rmd_client.client_cert).
        type: path
      username:
        description: User name for daemons that ask for a password.
        type: str
      password:
        description: Password of O(rmd_client.username).
        type: str
  on_error:
    description:
      - Effect of a failed step. V(report) puts it into the status and the result, and the task
        succeeds, so that ansible-operator tries again after the interval. V(fail) also fails the
        task, after the status is written.
      - The task fails in either case where the PowerFleet cannot be read, its status cannot be
        written, or another run is at work in O(run_dir).
    type: str
    choices: [report, fail]
    default: report
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.lease
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - aiohttp >= 3.9
  - fastjsonschema >= 2.20
  - numpy, and ortools >= 9.10, where C(spec.placement.enabled) is true
seealso:
  - module: wattwise.kube.fleet_reconciliation
  - module: wattwise.kube.fleet_report
"""

EXAMPLES = r"""
- name: Make one run for a fleet
  wattwise.kube.power_fleet_reconciliation:
    namespace: wattwise
    name: hall-1
    run_dir: /var/lib/wattwise/wattwise/hall-1
  register: run

- name: Make the page about it
  wattwise.kube.fleet_report:
    run_dir: /var/lib/wattwise/wattwise/hall-1
    path: /var/lib/wattwise/wattwise/hall-1/report.html
  when: run.report

- name: Fail where a step failed
  wattwise.kube.power_fleet_reconciliation:
    namespace: wattwise
    name: hall-1
    run_dir: /var/lib/wattwise/wattwise/hall-1
    on_error: fail
"""

RETURN = r"""
found:
  description: Whether there is such a PowerFleet that is not being deleted, or whose machines were
    to be woken.
  returned: success
  type: bool
  sample: true
ready:
  description: Whether the condition C(Ready) is true.
  returned: when the PowerFleet was found
  type: bool
  sample: true
suspended:
  description: Whether C(spec.suspend) kept everything but the status from being done.
  returned: when the PowerFleet was found
  type: bool
  sample: false
trigger:
  description: Reason of the run. V(start) in a new folder, V(spec) for another generation,
    V(interval), or what a request was for.
  returned: when the PowerFleet was found and is not suspended
  type: str
  sample: interval
report:
  description: Whether C(spec.report.enabled) is set, and this run wrote the documents of a report.
  returned: when the PowerFleet was found and is not suspended
  type: bool
  sample: false
status:
  description: The status of the PowerFleet after the run, whether it was written or not.
  returned: when the PowerFleet was found
  type: dict
  sample:
    conditions:
      - message: The last run carried out all its steps.
        observedGeneration: 1
        reason: Reconciled
        status: "True"
        type: Ready
    nodes: {claimedByOlder: 0, claimedFromYounger: 0, failing: 0, read: 50, selected: 50}
    observedGeneration: 1
failure:
  description: Sentence of the step that failed first.
  returned: with O(on_error=report), if a step failed
  type: str
  sample: Cannot read the nodes of the cluster
status_written:
  description: Whether the status told something new, or its heartbeat was due.
  returned: when the PowerFleet was found
  type: bool
  sample: true
steps:
  description: The steps in their order, as in M(wattwise.kube.fleet_reconciliation), with
    C(node_configs) and C(rmd) before them where they were made.
  returned: when the PowerFleet was found and is not suspended
  type: list
  elements: dict
  sample:
    - changed: false
      counts: {nodes: 50, pods: 312}
      errors: []
      failure:
      name: snapshot
      seconds: 0.31
      warnings: []
summary:
  description: The figures of the run, as in M(wattwise.kube.fleet_reconciliation).
  returned: when the PowerFleet was found and is not suspended
  type: dict
  sample: {bound: 12, configured: 50, fresh: 50}
documents:
  description: Paths of the documents that were written.
  returned: when the PowerFleet was found and is not suspended
  type: dict
  sample: {plan: /var/lib/wattwise/wattwise/hall-1/plan.json}
devices:
  description: What was done for devices, as in M(wattwise.kube.fleet_reconciliation).
  returned: when C(spec.devices.enabled) is true
  type: dict
  sample: {changes: [], conflict: [], errors: [], outcome: allocated, pods: []}
evict:
  description: Which running pods were moved, as in M(wattwise.kube.fleet_reconciliation).
  returned: when there were moves to make
  type: dict
  sample:
    gain_watts: 12.5
    moves: []
    stopped:
"""

from ..module_utils.module_runner import run_module
from ..module_utils.powerfleet import reconciliation


def main() -> None:
    run_module(reconciliation.SPEC, reconciliation.reconcile)


if __name__ == "__main__":
    main()
