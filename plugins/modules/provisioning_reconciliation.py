#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module provisioning_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: provisioning_reconciliation
short_description: Reserve bare-metal hosts for a Provisioning and follow its installation
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Gives hosts their roles as M(wattwise.kube.host_role_assignment) does, reserves them, and writes
    the status of the Provisioning (C(bpa.akraino.org/v1alpha1)).
  - Each BareMetalHost is changed on condition of the version that was read. A host that another
    client took meanwhile leads to a new assignment, so no host is ever shared.
  - Hosts in O(hardware) have no BareMetalHost. C(status.assignments) reserves them, and the Lease
    C(wattwise-provisioning) keeps runs apart.
  - Hosts without a role are released. If roles stay without a host, the hosts of the last
    assignment stay reserved, because a cluster may run on them.
  - ConfigMap C(<cluster>-configmap), the installer Job C(kud-<cluster>) and the Deployment
    C(<name>-agents) belong to the Provisioning and go with it.
  - The module does not wait for the installer. Each run writes its progress into the status.
options:
  # begin generated: provisioning -require_ip -group_names -ssh -time_limit -seed
  namespace:
    description: Namespace of the Provisioning.
    type: str
    required: true
  name:
    description: Name of the Provisioning.
    type: str
    required: true
  reserve:
    description: Mark of a reserved BareMetalHost. V(consumer) sets C(spec.consumerRef). V(labels)
      sets the labels C(bpa.akraino.org/cluster) and C(bpa.akraino.org/role), by which the
      hostSelector of Cluster API finds the hosts that it then consumes.
    type: str
    default: consumer
    choices: [consumer, labels]
  host_namespaces:
    description: Namespaces of the BareMetalHosts; all if empty.
    type: list
    elements: str
    default: []
  hardware:
    description: Hosts without a BareMetalHost, as
      RV(wattwise.kube.redfish_hardware_info#module:hardware).
    type: list
    elements: dict
    default: []
  read_user_data:
    description: Whether to read the Secrets with user data of the chosen hosts, for their user and
      host keys.
    type: bool
    default: false
  installer_image:
    description:
      - Image of the installer with its registry. No Job if empty.
      - The installer runs once for equal inputs. A new value in the annotation
        C(bpa.akraino.org/retry) of the Provisioning makes it run again.
    type: str
    default: ""
  agent_image:
    description: Image of the agent pods, of which C(spec.replicas) run; the image of
      C(operator/Dockerfile) for O(agent_command=host-agent). No pods if empty.
    type: str
    default: ""
  agent_command:
    description:
      - Command of the agent pods; that of the image if empty.
      - V(host-agent) reads the hardware of the hosts from their BMCs into objects C(HostHardware),
        whose facts then count for the assignment. One agent is active, the others stand by.
    type: list
    elements: str
    default: [host-agent]
  agent_service_account:
    description: ServiceAccount of the agent pods in the namespace of the Provisioning. No token if
      empty. Program C(host-agent) needs one.
    type: str
    default: ""
  lease_namespace:
    description: Namespace of the Lease C(wattwise-provisioning), which a run with O(hardware)
      holds. All runs in a cluster need the same namespace.
    type: str
    default: kube-system
  lease_timeout:
    description: Seconds to wait while another run holds the Lease. After that the task fails and
      names the holder.
    type: float
    default: 60.0
  # end generated
  spec:
    description: Spec of the Provisioning, which is created or changed first. Without it the
      Provisioning has to exist.
    type: dict
  cluster:
    description: Name of the cluster. By default the label C(cluster) of the Provisioning, or its
      name.
    type: str
  state:
    description: V(absent) deletes the Provisioning and releases its hosts.
    type: str
    default: present
    choices: [present, absent]
  document:
    description: File for the hosts with their roles and capabilities, for the report. No file by
      default.
    type: path
  on_error:
    description: Effect of an error, after it is in the status of the Provisioning. V(fail) fails
      the task, V(report) returns RV(failure).
    type: str
    choices: [report, fail]
    default: fail
extends_documentation_fragment:
  - wattwise.kube.host_roles
  - wattwise.kube.solver
  - wattwise.kube.kubernetes
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - python >= 3.11
  - cel-expr-python >= 0.1.3 (for expressions)
  - ortools >= 9.15 (for hosts that no MAC address names)
  - fastjsonschema >= 2.20 (for O(curves))
  - PyYAML (for O(read_user_data))
seealso:
  - module: wattwise.kube.host_role_assignment
  - module: wattwise.kube.redfish_hardware_info
"""

EXAMPLES = r"""
- name: Reserve hosts for a cluster, and get its inventory
  wattwise.kube.provisioning_reconciliation:
    namespace: bpa-system
    name: edge-1
    spec:
      master:
        count: 3
        cpu: 10
        memory: 4Gi
      worker:
        cpu: 20
        memory: 8Gi
        sriov: true
  register: edge

- name: Write the inventory for kubespray
  ansible.builtin.copy:
    content: "{{ edge.inventory | ansible.builtin.to_nice_yaml }}"
    dest: inventory/hosts.yml
    mode: "0600"
  delegate_to: localhost

- name: Reconcile a Provisioning, as the operator does
  wattwise.kube.provisioning_reconciliation:
    namespace: bpa-system
    name: edge-1
    installer_image: registry.example/kud:1.0
    on_error: report

- name: Label hosts for Cluster API, which consumes them
  wattwise.kube.provisioning_reconciliation:
    namespace: bpa-system
    name: edge-2
    reserve: labels
    require_ip: false

- name: Delete a Provisioning and release its hosts
  wattwise.kube.provisioning_reconciliation:
    namespace: bpa-system
    name: edge-1
    state: absent
"""

RETURN = r"""
found:
  description: Whether the Provisioning is there and is not being deleted.
  returned: success
  type: bool
  sample: true
status:
  description: The status of the Provisioning, written or not. Conditions are C(Assigned),
    C(Installed) with an installer, C(Agents) and C(Ready).
  returned: when RV(found) is true
  type: dict
  sample:
    assignments:
      - role: master
        label: node-1
        host: node-1
        namespace: metal3
        ip: 10.1.0.1
        mac: 02:00:00:00:00:01
        why: "fits spec.master: cpu 32 >= 10"
    conditions:
      - type: Assigned
        status: "True"
        reason: HostsReserved
        message: Hosts are reserved for 1 masters and 0 workers.
        observedGeneration: 1
    masters: 1
    observedGeneration: 1
    workers: 0
failure:
  description: The error, with O(on_error=report).
  returned: when a run ended early
  type: str
  sample: "Not every role gets a host: spec.master needs 1 host and lacks 1: 0 of 3 free hosts fit"
assignments:
  description: Hosts with their roles, as RV(wattwise.kube.host_role_assignment#module:assignments).
  returned: when hosts are reserved
  type: list
  elements: dict
unassigned:
  description: Hosts without a role, as RV(wattwise.kube.host_role_assignment#module:unassigned).
  returned: when hosts are reserved
  type: list
  elements: dict
objective:
  description: Levels of the objective, as RV(wattwise.kube.host_role_assignment#module:objective).
  returned: when hosts are reserved
  type: list
  elements: dict
proven:
  description: Whether RV(objective) is certainly the best.
  returned: when hosts are reserved
  type: bool
  sample: true
inventory:
  description: Inventory for kubespray, as RV(wattwise.kube.host_role_assignment#module:inventory).
  returned: when hosts are reserved
  type: dict
hosts_ini:
  description: The file hosts.ini of the BPA operator, as
    RV(wattwise.kube.host_role_assignment#module:hosts_ini).
  returned: when hosts are reserved
  type: str
known_hosts:
  description: Host keys of the chosen hosts, as
    RV(wattwise.kube.host_role_assignment#module:known_hosts).
  returned: when hosts are reserved
  type: str
hosts_without_key:
  description: Labels of hosts without a host key, as
    RV(wattwise.kube.host_role_assignment#module:hosts_without_key).
  returned: when hosts are reserved
  type: list
  elements: str
config_map:
  description: The ConfigMap with addresses, as
    RV(wattwise.kube.host_role_assignment#module:config_map).
  returned: when hosts are reserved
  type: dict
host_labels:
  description: Labels for host selectors, as
    RV(wattwise.kube.host_role_assignment#module:host_labels).
  returned: when hosts are reserved
  type: list
  elements: dict
cluster_api:
  description: Values for a chart of Cluster API, as
    RV(wattwise.kube.host_role_assignment#module:cluster_api).
  returned: when hosts are reserved
  type: dict
findings:
  description: Defects of the hosts, as RV(wattwise.kube.host_role_assignment#module:findings).
  returned: when RV(found) is true
  type: list
  elements: dict
results:
  description: Result of each object, as in M(wattwise.kube.kube_apply). Hosts are C(reserved) or
    C(released).
  returned: success
  type: list
  elements: dict
  sample:
    - action: reserved
      api_version: metal3.io/v1alpha1
      kind: BareMetalHost
      name: node-1
      namespace: metal3
"""

from ..module_utils.hosts.deployment import reconciliation as provisioning
from ..module_utils.module_runner import run_module


def main() -> None:
    run_module(provisioning.SPEC, provisioning.reconcile)


if __name__ == "__main__":
    main()
