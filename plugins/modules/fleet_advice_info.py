#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module fleet_advice_info."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_advice_info
short_description: Tell which machines a fleet never needs
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Replays recorded demand on the machines of a snapshot, and tells which machines could be
    retired, in which order, and the energy that each would save in a year. It also tells what one
    more machine of each type would bring, and what sleep would save.
  - A machine may be retired if no further pod would have waited for room, and if the other machines
    hold the peak of the requests with O(spare). Machines that draw most for each core at full use
    go first. Machines of the control plane stay.
  - The demand is the history of kube-state-metrics in a Prometheus (O(prometheus)), or a file
    (O(trace)).
  - A replay knows requests of CPU, memory, devices and pod slots. It does not know rules between
    pods, node selectors, tolerations and volumes, so check these before a machine is retired. Nodes
    with taints, cordoned and unready nodes, and nodes without a power curve are left out.
  - Pods of DaemonSets and static pods count as a part of their node.
  - The energy of a year is that of the replay at its mean power.
  - The work grows with the pods and with the types of machines. Seventeen days with 4,000 pods on
    20 machines of 20 types take two to three minutes.
  - Changes nothing in the cluster. The files are written in check mode too.
options:
  snapshot:
    description:
      - Path of the snapshot document that M(wattwise.kube.fleet_snapshot_info) wrote, with nodes
        and pods.
    type: path
    required: true
  curves:
    description:
      - Path of the curves document that M(wattwise.kube.fleet_reconciliation) wrote.
    type: path
    required: true
  trace:
    description:
      - Path of a CSV file of demand. Its first line names the columns C(arrival_seconds),
        C(departure_seconds), C(cpu_milli) and C(memory_mib), in any order. Optional columns are
        C(qos) (V(guaranteed), V(burstable) or V(best_effort)), C(workload), and one for each
        extended resource with its name, in whole units. C(gpus) stands for C(nvidia.com/gpu).
      - Each further line is a pod. Times are seconds since the begin of the record.
      - Exactly one of O(trace) and O(prometheus) is required.
    type: path
  prometheus:
    description:
      - Prometheus that scrapes kube-state-metrics. It needs the metrics
        C(kube_pod_container_resource_requests), C(kube_pod_status_phase) and C(kube_pod_info).
      - Each day takes four queries.
    type: dict
    suboptions:
      url:
        description:
          - URL of the Prometheus, or of a server with its HTTP API such as Thanos.
        type: str
        required: true
      labels:
        description:
          - Labels that select the series of this cluster.
        type: dict
        default: {}
      days:
        description:
          - Number of days before now, from V(1) to V(90).
        type: int
        default: 7
      step_seconds:
        description:
          - Resolution of the pods' times, from V(15) to V(3600). A pod that is shorter may be
            missed.
        type: int
        default: 300
      credential:
        description:
          - Key of an entry in O(prometheus.credentials). Without it the requests have no
            credential.
        type: str
      credentials:
        description:
          - Accounts by key, each with C(username) and C(password), or with C(token).
        type: dict
      timeout:
        description:
          - Seconds for each query.
        type: float
        default: 60.0
      allow_plain_http:
        description:
          - Whether the credential may be sent over plain HTTP.
        type: bool
        default: false
      validate_certs:
        description:
          - Whether the certificate of the server is verified.
        type: bool
        default: true
      ca_path:
        description:
          - Path of the PEM certificates that verify the server.
        type: path
      tls_fingerprint:
        description:
          - SHA-256 fingerprints of the server's certificate or of its public key. A match needs no
            further verification. Without a match nothing is sent.
        type: list
        elements: str
        default: []
      client_cert:
        description:
          - Path of a PEM certificate that the client shows.
        type: path
      client_key:
        description:
          - Path of the key of O(prometheus.client_cert), if it is in another file.
        type: path
  path:
    description:
      - Path of the advice document to write, for this user only.
    type: path
  page:
    description:
      - Path of the HTML page to write, for this user only. It has no scripts and loads nothing.
    type: path
  title:
    description:
      - Name of the cluster on the page.
    type: str
    default: ""
  type_label:
    description:
      - Node label with the type of the server.
    type: str
    default: node.kubernetes.io/instance-type
  spare:
    description:
      - Share of the peak requests that must remain free beyond them, from V(0) to V(10).
    type: float
    default: 0.1
  pod_usage_assumption:
    description:
      - CPU use of a pod as a share of its request, from V(0.01) to V(10).
    type: float
    default: 0.8
  boot_seconds:
    description:
      - Seconds from the request at a BMC until the node is ready, from V(0) to V(7200), for the
        replay with sleep.
    type: float
    default: 300.0
  standby_watts:
    description:
      - Power draw of a machine that is off, from V(0) to V(1000).
    type: float
    default: 15.0
extends_documentation_fragment:
  - wattwise.kube.attributes.info_module
requirements:
  - fastjsonschema >= 2.20
  - numpy
  - aiohttp
"""

EXAMPLES = r"""
- name: Advise by a week of Prometheus
  wattwise.kube.fleet_advice_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    curves: /var/lib/wattwise/run/curves.json
    prometheus:
      url: https://prometheus.example.com:9090
    page: /srv/www/advice.html
    title: hall-1

- name: Advise by a file of recorded demand
  wattwise.kube.fleet_advice_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    curves: /var/lib/wattwise/run/curves.json
    trace: /var/lib/wattwise/demand.csv
    path: /var/lib/wattwise/advice.json

- name: Keep a quarter of the peak in reserve
  wattwise.kube.fleet_advice_info:
    snapshot: /var/lib/wattwise/run/snapshot.json
    curves: /var/lib/wattwise/run/curves.json
    prometheus:
      url: https://prometheus.example.com:9090
      days: 28
      labels:
        cluster: hall-1
    spare: 0.25
  register: advised

- name: Show the order of retirement
  ansible.builtin.debug:
    var: advised.advice.retirement
"""

RETURN = r"""
lines:
  description: Lines of the summary.
  returned: always
  type: list
  elements: str
  sample:
    - 3 of 20 machines could be retired, which saves 4,012 kWh a year
advice:
  description:
    - The advice document.
    - C(kwh_a_year) is the energy of the fleet with the default scheduler (C(today)), placed by
      watts (C(awake)), with sleep (C(asleep)), and of the last two after retirement (C(remaining)
      and C(remaining_asleep)).
    - C(retirement) has the machines in their order; each saving holds when all machines before it
      are gone.
    - C(one_more) is the change of energy, and of the number of pods that wait, by type.
    - C(machines), C(timeline) and C(demand) are the replay with sleep.
    - C(notes) are sentences about nodes and days that are left out.
  returned: always
  type: dict
  sample:
    document: wattwise.kube/advice/v1
    retirement:
      - kwh_a_year: 1653.3
        name: node-11
        type: r640
    time: "2026-01-31T12:00:00Z"
"""

from ..module_utils.module_runner import run_module
from ..module_utils.report import advice


def main() -> None:
    run_module(advice.SPEC, advice.write)


if __name__ == "__main__":
    main()
