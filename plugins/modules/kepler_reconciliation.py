#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module kepler_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kepler_reconciliation
short_description: Run Kepler on every node that it can meter
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Reads the Nodes and the verdict on each of them, as M(wattwise.kube.kepler_node_info) gives it,
    and applies one DaemonSet of Kepler for each processor architecture, meter and node pool.
  - A node that cannot be metered gets no collector, and O(ignore:left_out) says why. Kepler itself
    would exit there again and again. A node that gets labels of the probe later joins its
    DaemonSet by them.
  - Kepler's configuration holds every key that its version knows and no other one. A change of it
    restarts the collectors of its group.
  - O(spec) describes the installation. Without it the module reads the KeplerSystem
    (C(kepler.system.sustainable.computing.io/v1alpha1)) of this name, and writes its status.
  - The namespace enforces the Pod Security Standard C(privileged), which hostPID and hostPath need.
    A ValidatingAdmissionPolicy refuses pods that go beyond hostPID, read-only C(/proc) and C(/sys),
    and the capability C(SYS_PTRACE).
  - The module does not wait for pods. RV(status) has the collectors that run, and the last messages
    of collectors that crash.
options:
  # begin generated: kepler_installation
  namespace:
    description: Namespace of the collectors and of the discovery pods; created if missing.
    type: str
    default: kepler
  name:
    description: Name of the installation, which begins the names of its objects, and of its
      KeplerSystem.
    type: str
    default: kepler
  force:
    description: Whether to run Kepler beside another one, which counts its energy twice.
    type: bool
    default: false
  prune_max:
    description: Largest share of the installation's objects, from V(0.0) to V(1.0), that one run
      may remove; one object is always allowed.
    type: float
    default: 0.5
  # end generated
  spec:
    description:
      - Desired state, with the fields of a KeplerSystem's spec.
      - A cluster with another Kepler, or without a node that can be metered, is refused before
        anything is changed.
    type: dict
    suboptions:
      # begin generated: kepler
      version:
        description: Version of Kepler, by which its configuration is written. 0.7 to 0.9 count with
          eBPF in privileged pods.
        type: str
        default: 0.11.4
      image:
        description: The image of the collector.
        type: dict
        required: true
        suboptions:
          repository:
            description: Registry and repository, as registry.example/kepler.
            type: str
            required: true
          tag:
            description: Tag, or digest that begins with sha256. v and the version by default.
            type: str
            default: ""
          pull_policy:
            description: When nodes pull the image.
            type: str
            default: IfNotPresent
            choices: [Always, IfNotPresent, Never]
          pull_secrets:
            description: Secrets of the namespace with which nodes pull the image.
            type: list
            elements: str
            default: []
          by_architecture:
            description: Images of architectures that the image does not have.
            type: list
            elements: dict
            default: []
            suboptions:
              architecture:
                description: Architecture by its name in Kubernetes.
                type: str
                required: true
              repository:
                description: Registry and repository, if they differ from those of the image.
                type: str
                default: ""
              tag:
                description: Tag, if it differs from that of the image.
                type: str
                default: ""
      scope:
        description: With V(minimum) collectors get no permission in the cluster, so that metrics do
          not name pods. With V(cluster) they may read pods.
        type: str
        default: minimum
        choices: [minimum, cluster]
      collector:
        description: Settings of the collectors.
        type: dict
        default: {}
        suboptions:
          meter:
            description: Meter of a node to read. V(auto) is the best one that the probe found.
            type: str
            default: auto
            choices: [auto, rapl, hwmon]
          sample_rate:
            description: Interval between readings of the meters.
            type: str
            default: 5s
          staleness:
            description: Age at which a scrape reads the meters again.
            type: str
            default: 500ms
          metric_levels:
            description: Objects with metrics of their own; V(node), V(container), V(vm), and in
              scope V(cluster) V(pod) by default.
            type: list
            elements: str
            choices: [node, process, container, vm, pod]
          log_level:
            description: Lowest level of the collectors' log messages.
            type: str
            default: info
            choices: [debug, info, warn, error]
          max_terminated:
            description: Number of ended workloads that are still reported, the largest energy
              first; none with V(0), all with V(-1).
            type: int
            default: 500
          resources:
            description: Resources of the container.
            type: dict
            default:
              requests: {cpu: 100m, memory: 200Mi, ephemeral-storage: 16Mi}
              limits: {memory: 400Mi, ephemeral-storage: 128Mi}
          tolerations:
            description: Taints that collectors tolerate.
            type: list
            elements: dict
            default:
              - {operator: Exists}
          additional_config:
            description: More of Kepler's configuration, as in C(config.yaml); variables of 0.9 and
              earlier. Keys that Kepler does not know, and those that an option sets, are refused by
              name.
            type: dict
            default: {}
          port:
            description: Port of the metrics. 28282 by default, 9102 with 0.9 and earlier.
            type: int
          pod_informer:
            description: Source of pods for collectors in the V(cluster) scope. V(kubelet), from
              V(0.11.4), needs the permission to get C(nodes) and C(nodes/proxy), which also permits
              commands in pods.
            type: str
            default: apiserver
            choices: [apiserver, kubelet]
          node_selector:
            description: Labels of the nodes that are metered; all nodes without any.
            type: dict
            default: {}
      pools:
        description:
          - Nodes with settings of their own. A node of two pools is left out.
          - Settings that a pool does not have are those of O(spec.collector).
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the pool, which is part of the names of its objects.
            type: str
            required: true
          node_selector:
            description: Labels of its nodes.
            type: dict
            required: true
          collector:
            description: Settings that differ from those of the other nodes.
            type: dict
            default: {}
            suboptions:
              meter:
                description: Meter of a node to read. V(auto) is the best one that the probe found.
                type: str
                choices: [auto, rapl, hwmon]
              sample_rate:
                description: Interval between readings of the meters.
                type: str
              staleness:
                description: Age at which a scrape reads the meters again.
                type: str
              metric_levels:
                description: Objects with metrics of their own.
                type: list
                elements: str
                choices: [node, process, container, vm, pod]
              log_level:
                description: Lowest level of the collectors' log messages.
                type: str
                choices: [debug, info, warn, error]
              max_terminated:
                description: Number of ended workloads that are still reported, the largest energy
                  first; none with V(0), all with V(-1).
                type: int
              resources:
                description: Resources of the container.
                type: dict
              tolerations:
                description: Taints that collectors tolerate.
                type: list
                elements: dict
              additional_config:
                description: More of Kepler's configuration, as in C(config.yaml); variables of 0.9
                  and earlier. Keys that Kepler does not know, and those that an option sets, are
                  refused by name.
                type: dict
      estimator:
        description: Estimator of the power of nodes without a meter, of Kepler 0.9 and earlier.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether it runs.
            type: bool
            default: false
          image:
            description: Its image with registry and tag.
            type: str
            default: ""
          resources:
            description: Resources of the container.
            type: dict
            default:
              requests: {cpu: 50m, memory: 256Mi, ephemeral-storage: 64Mi}
              limits: {memory: 1Gi, ephemeral-storage: 1Gi}
          command:
            description: Command that starts it in the image.
            type: list
            elements: str
            default: [estimator]
          node_total_url:
            description: Model of the power of a whole node, in place of the server's.
            type: str
            default: ""
          node_components_url:
            description: Model of the power of its components.
            type: str
            default: ""
      model_server:
        description: Server of power models, of Kepler 0.9 and earlier.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether it runs.
            type: bool
            default: false
          image:
            description: Its image with registry and tag.
            type: str
            default: ""
          resources:
            description: Resources of the container.
            type: dict
            default:
              requests: {cpu: 50m, memory: 256Mi, ephemeral-storage: 64Mi}
              limits: {memory: 1Gi, ephemeral-storage: 1Gi}
          command:
            description: Command that starts it in the image.
            type: list
            elements: str
            default: [model-server]
      security:
        description: Encryption of the metrics.
        type: dict
        default: {}
        suboptions:
          mode:
            description: V(none) serves plain HTTP, V(tls) serves HTTPS, and V(mtls) also asks
              scrapers for a certificate.
            type: str
            default: none
            choices: [none, tls, mtls]
          server_secret:
            description: Secret with C(tls.crt) and C(tls.key) of the collectors.
            type: str
            default: kepler-server
          client_authority_secret:
            description: Secret with C(ca.crt), by which scrapers are verified with V(mtls).
            type: str
            default: kepler-client-authority
      redfish:
        description: Power draw of whole machines, which Kepler reads from their BMCs.
        type: dict
        default: {}
        suboptions:
          enabled:
            description: Whether BMCs are read.
            type: bool
            default: false
          secret:
            description: Secret with C(redfish.yaml), Kepler's list of nodes and BMCs;
              C(redfish.csv) with 0.9 and earlier.
            type: str
            default: kepler-redfish
          fake_cpu_meter:
            description: Whether Kepler runs on nodes that only a BMC meters. Its CPU power is
              invented there; only C(kepler_platform_watts) counts.
            type: bool
            default: false
      scrape_namespaces:
        description: Namespaces whose pods may scrape the metrics; all without any.
        type: list
        elements: str
        default: []
      # end generated
  state:
    description: V(absent) removes everything that O(spec) made, and all of an installation that
      lies outside of its namespace. The namespace, Secrets and a KeplerSystem stay; the objects of
      a KeplerSystem go with it.
    type: str
    choices: [present, absent]
    default: present
  on_error:
    description: Effect of an error, after it is in the status of a KeplerSystem. V(fail) fails the
      task, V(report) returns RV(failure). With O(spec) an error always fails the task.
    type: str
    choices: [report, fail]
    default: fail
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
seealso:
  - module: wattwise.kube.kepler_node_info
  - module: wattwise.kube.kube_apply
"""

EXAMPLES = r"""
- name: Run Kepler without permissions in the cluster
  wattwise.kube.kepler_reconciliation:
    spec:
      image:
        repository: registry.example/kepler

- name: Name pods in metrics, and read Arm machines more often
  wattwise.kube.kepler_reconciliation:
    spec:
      version: 0.11.4
      image:
        repository: registry.example/kepler
      scope: cluster
      pools:
        - name: arm
          node_selector:
            kubernetes.io/arch: arm64
          collector:
            meter: hwmon
            sample_rate: 1s
      security:
        mode: mtls

- name: Reconcile a KeplerSystem, as the operator does
  wattwise.kube.kepler_reconciliation:
    namespace: kepler
    name: kepler
    on_error: report

- name: Remove Kepler
  wattwise.kube.kepler_reconciliation:
    state: absent
"""

RETURN = r"""
found:
  description: Whether there is anything to run; false without O(spec) and KeplerSystem.
  returned: success
  type: bool
  sample: true
status:
  description: The status of a KeplerSystem, written or not. Conditions are C(Reconciled),
    C(Available), C(NodesMetered) and C(PodNames).
  returned: when RV(found) is true
  type: dict
  sample:
    conditions:
      - message: Rollout of DaemonSet kepler-amd64-rapl; 1 of 2 pods have been updated.
        observedGeneration: 1
        reason: DaemonSetRolloutInProgress
        status: Unknown
        type: Available
    groups:
      - architecture: amd64
        available: 1
        desired: 2
        image: registry.example/kepler:v0.11.4
        meter: rapl
        name: amd64-rapl
        nodes: 2
        ready: 1
        updated: 1
    nodes: {crashing: 0, leftOut: 1, metered: 2, ready: 1, selected: 3}
    observedGeneration: 1
    version: 0.11.4
left_out:
  description: All nodes that cannot be metered.
  returned: when RV(found) is true
  type: list
  elements: dict
  contains:
    node:
      description: Name of the Node.
      type: str
      sample: worker-7
    reason:
      description: Sentence why it cannot be metered.
      type: str
      sample: the node is a virtual machine (kvm) without RAPL zones
findings:
  description: Nodes that cannot be read.
  returned: when RV(found) is true
  type: list
  elements: dict
  sample: []
failure:
  description: The error, with O(on_error=report).
  returned: when a run for a KeplerSystem ended early
  type: str
  sample: Kepler runs in this cluster already (PowerMonitor power-monitor)
results:
  description: Result of each object, as in M(wattwise.kube.kube_apply).
  returned: success
  type: list
  elements: dict
  sample:
    - action: created
      api_version: apps/v1
      kind: DaemonSet
      name: kepler-amd64-rapl
      namespace: kepler
pruned:
  description: Removed objects, in the form of RV(results).
  returned: success
  type: list
  elements: dict
  sample: []
"""

from ..module_utils.kepler.deployment import reconciliation as kepler
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(kepler.SPEC, kepler.reconcile)


if __name__ == "__main__":
    main()
