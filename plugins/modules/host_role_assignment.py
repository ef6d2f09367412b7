#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module host_role_assignment."""

from __future__ import annotations

DOCUMENTATION = r"""
module: host_role_assignment
short_description: Give bare-metal hosts their roles in a cluster by what they can do
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Finds a host for each master and worker that a Provisioning of the BPA operator asks for, and
    returns the inventory of the cluster.
  - Hosts that O(request) names by a MAC address get their role first. The others are chosen by
    their processors, memory, disks, GPUs, SR-IOV and QuickAssist. An unknown fact never counts as a
    yes.
  - Never takes a host that is in error, detached, consumed by another owner or reserved by another
    Provisioning.
  - The choice is the best one by RV(objective), with a proof. Equal input gives an equal result,
    unless O(time_limit) ends the search.
  - Changes nothing, and needs no cluster.
options:
  hosts:
    description:
      - BareMetalHosts of Metal3, as the API gives them. A defect of one does not affect the others.
      - At least one of O(hosts) and O(hardware) is required.
    type: list
    elements: dict
  host_hardware:
    description:
      - Objects C(HostHardware) (C(bpa.akraino.org/v1alpha1)) of host agents, as the API gives them,
        with hardware that BMCs reported. Each completes the facts of the BareMetalHost with its
        name and namespace if C(hostUid) and C(bmcAddress) are still those of the BareMetalHost.
      - An inspection that ended after C(readTime) keeps its facts. A defect of an object is one of
        RV(findings).
    type: list
    elements: dict
    default: []
  hardware:
    description: Hosts without a BareMetalHost, as
      RV(wattwise.kube.redfish_hardware_info#module:hardware).
    type: list
    elements: dict
  request:
    description:
      - A Provisioning (C(bpa.akraino.org/v1alpha1)), or its C(spec) alone.
      - C(master) and C(worker) are a map or a list of maps with C(cpu), C(memory), C(sriov),
        C(qat), C(gpu), C(cpuModel), C(minDisk), C(expressions) and C(count). Without C(count) an
        item is one master, or all remaining hosts that fit as workers.
      - C(masters) and C(workers) are lists of maps by label, with the same fields except C(count),
        and C(mac-address).
      - Without any worker every master is also a worker.
      - C(hostSelector) limits the hosts, also the ones that C(mac-address) names.
    type: dict
    required: true
  cluster:
    description: Name of the cluster. By default the label C(cluster) of the Provisioning, its name,
      or V(cluster).
    type: str
  former:
    description:
      - Assignments of an earlier run. Hosts keep their roles and labels where another assignment
        is no better, or always with C(keepRoles) in O(request).
      - A former host stays available when a Metal3Machine of Cluster API consumes it and it has
        the label C(bpa.akraino.org/cluster) of O(cluster).
      - By default C(status.assignments) of the Provisioning.
    type: list
    elements: dict
  provisionings:
    description: Provisionings that exist. Hosts in the C(status.assignments) of others are
      reserved.
    type: list
    elements: dict
    default: []
  ssh_secret:
    description: Secret that C(spec.ssh.secretName) names. Keys C(user), C(port) and C(known_hosts)
      are used; the private key is not read.
    type: dict
  user_data:
    description: User data of hosts by C(namespace/name) of their Secrets, as text. The user and the
      host keys of a C(#cloud-config) are used. Broken user data is one of RV(findings) and is not
      used.
    type: dict
    default: {}
  on_error:
    description: Effect of roles that stay without a host. V(fail) fails the task; V(report) returns
      RV(outcome), RV(shortages) and RV(changes). An invalid O(request) always fails.
    type: str
    default: fail
    choices: [fail, report]
extends_documentation_fragment:
  - wattwise.kube.host_roles
  - wattwise.kube.solver
  - wattwise.kube.attributes.info_module
requirements:
  - python >= 3.11
  - cel-expr-python >= 0.1.3 (for expressions)
  - ortools >= 9.15 (for hosts that no MAC address names)
  - fastjsonschema >= 2.20 (for O(curves))
  - PyYAML (for O(user_data))
"""

EXAMPLES = r"""
- name: Read the hosts
  kubernetes.core.k8s_info:
    api_version: metal3.io/v1alpha1
    kind: BareMetalHost
  register: bare_metal

- name: Read the hardware that host agents stored
  kubernetes.core.k8s_info:
    api_version: bpa.akraino.org/v1alpha1
    kind: HostHardware
  register: told

- name: Find one master, and workers among the others
  wattwise.kube.host_role_assignment:
    hosts: "{{ bare_metal.resources }}"
    host_hardware: "{{ told.resources }}"
    request:
      master:
        cpu: 10
        memory: 4Gi
      worker:
        cpu: 20
        memory: 8Gi
        qat: true
  register: roles

- name: Write the inventory for kubespray
  ansible.builtin.copy:
    content: "{{ roles.inventory | ansible.builtin.to_nice_yaml }}"
    dest: inventory/hosts.yml
    mode: "0600"
  delegate_to: localhost

- name: Name masters by MAC address, and choose workers with SR-IOV
  wattwise.kube.host_role_assignment:
    hosts: "{{ bare_metal.resources }}"
    cluster: edge-1
    request:
      masters:
        - master-1:
            mac-address: 08:00:27:00:ab:2c
      worker:
        - count: 2
          sriov: true
          cpuModel: Xeon Gold 62*
          expressions:
            - host.nics.exists(nic, has(nic.gigabits) && nic.gigabits >= 25.0)
      PodSubnet: 10.244.64.0/18
    ssh:
      private_key_file: ~/.ssh/edge-1
      known_hosts_file: inventory/known_hosts
  register: roles
"""

RETURN = r"""
outcome:
  description: V(assigned), V(infeasible) if there are certainly not enough hosts, or V(unknown) if
    O(time_limit) ended the search first.
  returned: success
  type: str
  sample: assigned
message:
  description: The reason for roles without a host, empty if there are none.
  returned: success
  type: str
  sample: ""
assignments:
  description:
    - Hosts with their roles. A host that is master and worker has two entries. C(label) is its name
      in the inventory.
    - Hosts with IPv4 and IPv6 have C(ip6) beside C(ip) if a subnet of the request is of IPv6.
  returned: success
  type: list
  elements: dict
  sample:
    - role: master
      label: test-master
      host: fake-test-bmh
      namespace: metal3
      ip: 192.168.50.63
      mac: 08:00:27:00:ab:2c
      why: named by MAC address 08:00:27:00:ab:2c
unassigned:
  description:
    - Hosts without a role, with the reason.
    - All hosts where RV(outcome) is another than V(assigned).
  returned: success
  type: list
  elements: dict
  sample:
    - {host: node-7, namespace: metal3, reason: "is in error: no power"}
objective:
  description:
    - Levels of the objective, in order of precedence. C(bound) is the best possible value.
    - C(spread) counts pairs of masters in one rack. C(workers) counts hosts of items without a
      count. C(waste) is the capacity of hosts beyond the requirements, in thousandths of the
      largest host. C(idle_watts) is the power draw of idle hosts in W. C(unprovisioned) counts
      hosts without an image. C(kept) counts former roles. C(workers) and C(kept) are maximised, the
      others minimised.
  returned: success
  type: list
  elements: dict
  sample:
    - {level: spread, value: 0, bound: 0}
proven:
  description: Whether RV(objective) is certainly the best.
  returned: success
  type: bool
  sample: true
shortages:
  description: Items without enough hosts. C(failing) has the requirements, each with the number of
    free hosts that do not meet it, and the number for which it is C(unknown).
  returned: success
  type: list
  elements: dict
  sample:
    - item: spec.worker
      role: worker
      wanted: 3
      missing: 2
      fitting: 1
      failing:
        - {requirement: cpu >= 20, hosts: 4, unknown: 0}
changes:
  description: Changes of which each alone gives every role a host, the smallest first.
  returned: success
  type: list
  elements: str
  sample: [lower cpu of spec.worker to 16]
inventory:
  description: Inventory for kubespray in the form of YAML inventories.
  returned: when RV(outcome) is V(assigned)
  type: dict
  sample:
    all:
      hosts:
        test-master:
          ansible_host: 192.168.50.63
          ansible_port: 22
          ansible_user: root
          etcd_member_name: etcd1
          ip: 192.168.50.63
hosts_ini:
  description: The file hosts.ini as the BPA operator writes it.
  returned: when RV(outcome) is V(assigned)
  type: str
  sample: |
    [all]
    test-master  ansible_ssh_host=192.168.50.63 ansible_ssh_port=22
known_hosts:
  description: Host keys of the chosen hosts as the text of a known_hosts file, with the C(@revoked)
    lines of all sources.
  returned: when RV(outcome) is V(assigned)
  type: str
  sample: ""
hosts_without_key:
  description: Labels of hosts without a host key from any source. The installer cannot reach them.
  returned: when RV(outcome) is V(assigned)
  type: list
  elements: str
  sample: [test-master]
config_map:
  description: The ConfigMap with addresses by role and label, as the BPA operator writes it.
  returned: when RV(outcome) is V(assigned)
  type: dict
  sample:
    apiVersion: v1
    kind: ConfigMap
    metadata:
      name: test-cluster-configmap
      labels: {cluster: test-cluster}
    data: {MASTER_test-master: 192.168.50.63, WORKER_test-master: 192.168.50.63}
host_labels:
  description: Labels of the hosts for the host selectors in RV(cluster_api).
  returned: when RV(outcome) is V(assigned)
  type: list
  elements: dict
  sample:
    - host: fake-test-bmh
      namespace: metal3
      labels: {bpa.akraino.org/cluster: test-cluster, bpa.akraino.org/role: control-plane}
cluster_api:
  description: Values for a chart that creates the cluster through Cluster API and Metal3.
  returned: when RV(outcome) is V(assigned)
  type: dict
  sample: {clusterName: test-cluster, numControlPlaneMachines: 1, numWorkerMachines: 0}
findings:
  description: Defects of the hosts, each with C(kind), C(namespace), C(name), C(field), C(problem).
  returned: success
  type: list
  elements: dict
  sample:
    - kind: BareMetalHost
      namespace: metal3
      name: node-9
      field: ""
      problem: "status.hardware.ramMebibytes: 'much' is not a whole number"
"""

from ..module_utils.hosts import role_assignment
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(role_assignment.SPEC, role_assignment.assign)


if __name__ == "__main__":
    main()
