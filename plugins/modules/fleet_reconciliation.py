#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module fleet_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_reconciliation
short_description: Read a fleet, place and bind its waiting pods, in one process
version_added: 0.1.0
author:
  - Contributors to the wattwise.kube project (@wattwise)
description:
  - Makes the steps that M(wattwise.kube.fleet_snapshot_info),
    M(wattwise.kube.redfish_thermal_info),
    M(wattwise.kube.differential_pressure_info), M(wattwise.kube.redfish_ml_model_info),
    M(wattwise.kube.fleet_readings_info), M(wattwise.kube.kube_apply) for statuses,
    M(wattwise.kube.power_prediction_info), M(wattwise.kube.power_placement),
    M(wattwise.kube.pod_binding), M(wattwise.kube.device_reconciliation) and
    M(wattwise.kube.pod_eviction) make alone, with the same library functions. Each list of the
    cluster is read once, and values go from step to step without a file between them.
  - Documents are written as the single modules write them, for audit, for replay and for the
    report.
  - BMCs and pressure servers are asked at the same time. Power models are asked only where an
    input moved, and binding looks at the target nodes again just before it.
  - A reader that fails does not keep the statuses and readings of the others from being written.
    The task fails after that, and nothing is placed.
  - Readings are observations and change nothing. The task is changed where a condition of a
    NodeConfig moved, a pod was bound, marked or moved, or got devices.
options:
  steps:
    description:
      - Steps to make. They are always made in the order in which they stand in
        the choices.
      - V(snapshot) reads the cluster, V(read) the machines that its NodeConfigs
        name, V(merge) makes readings of what they answered, and V(statuses) writes
        these to the NodeConfigs. V(predict) asks the power models, V(place) finds
        nodes for the waiting pods, and V(bind) binds them. V(devices) gives devices
        to pods that wait for some, and V(evict) moves running pods as far as the
        plan has steps (O(place.rebalance)).
      - A step whose result is needed and that is not made is taken from the document
        that a former task left in O(run_dir).
    type: list
    elements: str
    choices:
      - snapshot
      - read
      - merge
      - statuses
      - predict
      - place
      - bind
      - devices
      - evict
    default:
      - snapshot
      - read
      - merge
      - statuses
      - predict
      - place
      - bind
  run_dir:
    description:
      - Folder for the documents of the run, made where it is missing. It holds
        C(snapshot.json), C(readings.json), C(models.json), C(statuses.json), C(curves.json)
        and C(plan.json), and C(bound/bindings.json) once pods were bound.
      - Documents of the run before are read for what need not be asked again; a
        folder without any is as good. Without this option nothing is written.
    type: path
  run_process:
    description:
      - Process of Ansible that the run belongs to; another run in O(run_dir) is
        refused while it lives.
      - The action plugin sets it.
    type: str
  record_namespace:
    description:
      - Namespace for the ConfigMap C(wattwise-last-binding), in which the
        documents of the last binding are kept, compressed, as far as they
        fit into 1 MiB. A run whose O(run_dir) has none brings them back from
        there, so that the report knows what a placement saved although the
        folder did not survive.
      - Without this option they are kept in O(run_dir) alone. A ConfigMap
        that cannot be read or written is a warning.
    type: str
  node_configs:
    description:
      - Path of NodeConfigs that check mode rendered, which count as if they were
        in the cluster. Used in check mode only.
    type: path
  thermal:
    description:
      - Results of M(wattwise.kube.redfish_thermal_info), one a gateway, in place
        of step V(read).
    type: list
    elements: dict
  pressure:
    description:
      - Results of M(wattwise.kube.differential_pressure_info), one a gateway, in
        place of step V(read).
    type: list
    elements: dict
  models:
    description:
      - Results of M(wattwise.kube.redfish_ml_model_info), one a gateway, in place
        of step V(read).
    type: list
    elements: dict
  read:
    description:
      - Options of step V(read), as in M(wattwise.kube.redfish_thermal_info),
        M(wattwise.kube.redfish_ml_model_info) and M(wattwise.kube.differential_pressure_info).
    type: dict
    default: {}
    suboptions:
      credentials:
        description:
          - User names and passwords by key. A target names its entry with C(credential).
          - Each entry has C(username) and C(password), and may have C(ca), certificates
            in PEM that the target is verified with, and C(tls_fingerprint), one
            or a list of SHA-256 fingerprints.
        type: dict
      timeout:
        description:
          - Seconds that one target may take in all.
        type: float
        default: 10.0
      concurrency:
        description:
          - How many targets are asked at the same time. One BMC never gets more
            than one request at a time.
        type: int
        default: 64
      allow_plain_http:
        description:
          - Whether a credential may be sent to a target whose endpoint is V(http://…),
            over which anybody on the way can read it. Otherwise such a target is
            an error and gets no request. If V(true), the module warns with the
            number of targets.
          - A target without credential is asked in either case. A NodeConfig cannot
            allow this.
        type: bool
        default: false
      validate_certs:
        description:
          - Whether certificates are verified. If V(false), the module warns with
            the number of targets.
          - Machines with self-signed certificates are better named by O(read.tls_fingerprint)
            or O(read.ca_path).
        type: bool
        default: true
      ca_path:
        description:
          - Path of the certificates, in PEM, that targets are verified with, in
            place of the system's.
        type: path
      tls_fingerprint:
        description:
          - SHA-256 fingerprints, in hexadecimal with or without colons. A target
            whose certificate has none of them gets no request. For certificates
            that are pinned here, nothing else is verified.
        type: list
        elements: str
        default: []
      default_credential_namespaces:
        description:
          - Namespaces whose NodeConfigs get the entry C(default) of O(read.credentials),
            or what E(WATTWISE_REDFISH_USERNAME) and E(WATTWISE_REDFISH_PASSWORD)
            say, where they name no Secret. Give only namespaces in which nobody
            may write NodeConfigs who may not know this password.
          - A NodeConfig of another namespace without a Secret is asked without
            credential. If its machine wants one, that is an error.
        type: list
        elements: str
        default: []
      gather:
        description:
          - Quantities to read. A target from which one of them could not be read
            did not succeed.
        type: list
        elements: str
        choices:
          - inlet
          - power
        default:
          - inlet
          - power
      refresh:
        description:
          - Whether every machine is asked, however young its last reading is.
        type: bool
        default: false
      model_max_age:
        description:
          - Seconds for which the power model that a BMC named holds, unless
            O(read.refresh) is set. After that the BMC is asked again.
        type: float
        default: 600.0
  merge:
    description:
      - Options of step V(merge), as in M(wattwise.kube.fleet_readings_info).
    type: dict
    default: {}
    suboptions:
      max_age:
        description:
          - Seconds for which a value of the last observation may stand in for a
            missing one.
        type: float
        default: 300.0
      min_success:
        description:
          - Share of the configured nodes, from V(0.0) to V(1.0), whose inlet temperature
            and differential pressure must have been read; the task fails below
            it, with all results in the failure.
        type: float
        default: 0.0
      textfile:
        description:
          - Where to write the readings in Prometheus' text format.
          - The metrics are C(inlet_temp_celsius), C(delta_p_pascal), C(node_power_watts),
            C(wattwise_predicted_power_watts), C(wattwise_reading_age_seconds),
            C(wattwise_node_read), C(wattwise_endpoint_failing) and
            C(wattwise_observation_timestamp_seconds).
            If the snapshot has RmdNodeStates, there are C(wattwise_cache_free_ways)
            and C(wattwise_cache_longest_free_run_ways), too.
        type: path
      textfile_labels:
        description:
          - Labels that every sample of O(merge.textfile) bears, such as the name
            of the cluster.
        type: dict
        default: {}
  predict:
    description:
      - Options of step V(predict), as in M(wattwise.kube.power_prediction_info).
    type: dict
    default: {}
    suboptions:
      credentials:
        description:
          - User names and passwords by key. A target names its entry with C(credential).
          - Each entry has C(username) and C(password), and may have C(ca), certificates
            in PEM that the target is verified with, and C(tls_fingerprint), one
            or a list of SHA-256 fingerprints.
        type: dict
      timeout:
        description:
          - Seconds that one target may take in all.
        type: float
        default: 10.0
      concurrency:
        description:
          - How many targets are asked at the same time. One BMC never gets more
            than one request at a time.
        type: int
        default: 64
      allow_plain_http:
        description:
          - Whether a credential may be sent to a target whose endpoint is V(http://…),
            over which anybody on the way can read it. Otherwise such a target is
            an error and gets no request. If V(true), the module warns with the
            number of targets.
          - A target without credential is asked in either case. A NodeConfig cannot
            allow this.
        type: bool
        default: false
      validate_certs:
        description:
          - Whether certificates are verified. If V(false), the module warns with
            the number of targets.
          - Machines with self-signed certificates are better named by O(predict.tls_fingerprint)
            or O(predict.ca_path).
        type: bool
        default: true
      ca_path:
        description:
          - Path of the certificates, in PEM, that targets are verified with, in
            place of the system's.
        type: path
      tls_fingerprint:
        description:
          - SHA-256 fingerprints, in hexadecimal with or without colons. A target
            whose certificate has none of them gets no request. For certificates
            that are pinned here, nothing else is verified.
        type: list
        elements: str
        default: []
      batch_rows:
        description:
          - Most points in one request, from 1. Lower it where large requests take
            longer than O(predict.timeout), which here holds for one request.
        type: int
        default: 10000
      cpu_usage_format:
        description:
          - Unit in which the models take CPU use, percent of the node's capacity
            or V(raw) cores.
          - A NodeConfig's annotation C(wattwise.github.io/cpu-usage-format) overrides
            this.
        type: str
        default: percent
        choices:
          - percent
          - raw
      min_success:
        description:
          - Share of the targets, from V(0.0) to V(1.0), that must succeed; the
            task fails below it, with all results in the failure.
        type: float
        default: 0.0
      model_origins:
        description:
          - Servers to which a Secret may be sent although only a BMC names them,
            such as V(https://models.example.com:8443), with scheme and without
            a path.
        type: list
        elements: str
        default: []
      keep_seconds:
        description:
          - 'Seconds for which a curve holds whose inputs did not move: endpoint,
            capacity and format are the same, the inlet temperature is within 0.5
            °C and the differential pressure within 1 Pa. V(0) asks every model
            in every run.'
        type: float
        default: 600.0
  place:
    description:
      - Options of step V(place), as in M(wattwise.kube.power_placement).
    type: dict
    default: {}
    suboptions:
      allow_power_off:
        description:
          - Whether a node without workload (pods of DaemonSets aside) may be put
            to sleep. It then counts with O(place.standby_watts) in place of its
            idle watts, and the plan document names it under C(asleep).
          - A node in short form with anything in C(used) stays awake.
        type: bool
        default: false
      compare:
        description:
          - Strategies whose outcome on the same input the plan document has
            as C(comparison). Nothing of theirs is placed.
          - V(optimal) takes its own O(place.time_limit) again, the others about
            a second each for 10,000 pods on 1,000 nodes.
        type: list
        elements: str
        default: []
        choices:
          - optimal
          - greedy
          - minimize_power
          - peaks
          - spread
      device_power:
        description:
          - The name of the attribute or capacity that says how many watts a device
            draws in use, such as C(power) or C(gpu.example.com/power). A device
            without it counts as 0 W.
        type: str
      max_moves:
        description:
          - The most moves to propose, in all steps together.
        type: int
        default: 10
      min_gain_watts:
        description:
          - Watts that each move must save, more than 0, with O(place.rebalance);
            in a step of several moves on average. A preference that a move leaves
            unmet counts against it.
        type: float
        default: 5.0
      pod_usage_assumption:
        description:
          - The share of its CPU request that a pod is assumed to use, from V(0)
            to V(1).
        type: float
        default: 0.8
      preference_watts:
        description:
          - Watts that an unmet preference of weight 100 is worth, others in proportion.
            V(0) ignores all preferences.
          - Preferred node affinity counts with its weight, a C(PreferNoSchedule)
            taint that the pod does not tolerate with 100.
          - Preferred pod affinity counts with its weight for each pod in whose
            topology domain no other pod of the term is in the end, whether it runs
            already or is placed now; preferred anti-affinity for each pod in whose
            domain there is one. Of pods that are placed now and keep away from
            each other, one in each domain counts as met.
          - A topology spread constraint with C(ScheduleAnyway) counts with 100
            for each pod beyond an even share and its C(maxSkew).
        type: float
        default: 1.0
      rebalance:
        description:
          - Whether to propose moves of pods that run, as they are worth once the
            waiting pods are placed.
          - A pod moves by being evicted and made anew. So only those are proposed
            that have the C(schedulerName) of O(place.scheduler_name) and a ReplicaSet,
            ReplicationController or StatefulSet for a controller, that no PodDisruptionBudget
            holds, and that neither belong to a pod group, nor hold cache ways or
            devices, nor have the annotation C(cluster-autoscaler.kubernetes.io/safe-to-evict)
            with V(false).
          - Moves that pay only together are one step, such as those that empty
            a node which may then sleep (O(place.allow_power_off)). RV(steps) has
            them in an order in which each pod finds room.
        type: bool
        default: false
      scheduler_name:
        description:
          - The pods of the snapshot with this C(schedulerName) are placed.
        type: str
        default: wattwise
      standby_watts:
        description:
          - Watts of a node that sleeps, with O(place.allow_power_off).
        type: float
        default: 0.0
      strategy:
        description:
          - V(optimal) combines a greedy start, a linear relaxation, local search
            and, for small tasks, mixed-integer programming.
          - The others are there to compare. They choose for one pod at a time,
            by priority and then by name, and never change a choice.
          - V(greedy) takes the node where the pod adds the fewest watts.
          - V(minimize_power) does as WAO's scheduler with its preset. MinimizePower
            asks for the watts of the pod's whole request, cuts them to whole watts,
            and counts twenty times beside kube-scheduler's scores for resources.
            A pod whose containers name no CPU stays unplaced.
          - V(peaks) does as PEAKS, with exponential models that are fitted to the
            power curves. As there, a node without a curve costs nothing.
          - V(spread) does as kube-scheduler by its scores for resources, LeastAllocated
            and BalancedAllocation.
        type: str
        default: optimal
        choices:
          - optimal
          - greedy
          - minimize_power
          - peaks
          - spread
      unpriced:
        description:
          - What nodes without a power curve are good for. V(last_resort) uses them
            for pods that fit nowhere else, V(exclude) not at all.
        type: str
        default: last_resort
        choices:
          - last_resort
          - exclude
      usage_source:
        description:
          - How the present CPU use of a node is known. V(metrics) is what metrics.k8s.io
            tells, plus what pods that have not started yet are assumed to use;
            V(requests) is what all its pods are assumed to use; V(auto) is metrics
            where there are any, else requests.
          - With V(metrics), a node without metrics counts as one without a power
            curve.
        type: str
        default: auto
        choices:
          - auto
          - metrics
          - requests
      time_limit:
        description:
          - Seconds of processor time that solving may take, more than 0. Work is
            counted so that it normally ends well before that.
          - On a machine that is busy with other work it may last up to ten times
            as long by the clock, so that the answer does not depend on what else
            runs.
        type: float
        default: 10.0
      seed:
        description:
          - Seed of the search, V(0) or more.
        type: int
        default: 0
      textfile:
        description:
          - Where to write the predicted watts of each node at its present CPU use,
            in Prometheus' text format.
        type: path
      textfile_labels:
        description:
          - Labels that every sample of O(place.textfile) bears.
        type: dict
        default: {}
  bind:
    description:
      - Options of step V(bind), as in M(wattwise.kube.pod_binding).
    type: dict
    default: {}
    suboptions:
      mark_unplaced:
        description:
          - Whether pods without a node get condition and event.
        type: bool
        default: true
  devices:
    description:
      - Options of step V(devices), as in M(wattwise.kube.device_reconciliation).
    type: dict
    default: {}
    suboptions:
      api_group:
        description:
          - API group of the claims.
        type: str
        default: resource.k8s.io
        choices:
          - resource.k8s.io
          - devmgmtproto.k8s.io
      device_power:
        description:
          - The name of the attribute or capacity that says how many watts a device
            draws in use; see M(wattwise.kube.device_allocation).
        type: str
      gate:
        description:
          - Pods with this scheduling gate are released from it once they have their
            devices.
        type: str
        default: wattwise.github.io/devices
      plan:
        description:
          - Path of a plan document, whose nodes count where step V(place) is not
            made. Without it the plan of O(run_dir) counts, if there is one.
        type: path
      scheduler_name:
        description:
          - Pods with this C(schedulerName) are bound. No scheduler of that name
            may run.
        type: str
        default: wattwise
      strategy:
        description:
          - How to allocate; see M(wattwise.kube.device_allocation).
        type: str
        default: optimal
        choices:
          - optimal
          - first_fit
      time_limit:
        description:
          - Seconds that a search may take, more than 0. There are up to three where
            devices of O(devices.plan) are gone.
        type: float
        default: 10.0
      seed:
        description:
          - Seed of the search, V(0) or more.
        type: int
        default: 0
  evict:
    description:
      - Options of step V(evict), as in M(wattwise.kube.pod_eviction).
    type: dict
    default: {}
    suboptions:
      timeout:
        description:
          - Seconds to wait for the pod that takes the place of an evicted one.
            The one of a StatefulSet comes only when the old one is gone.
          - Also the seconds to wait for evicted pods to leave a node that another
            pod is to go to.
        type: float
        default: 120.0
extends_documentation_fragment:
  - wattwise.kube.kubernetes
  - wattwise.kube.lease
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - aiohttp >= 3.9
  - fastjsonschema >= 2.20
  - numpy, and ortools >= 9.10, for step V(place)
"""

EXAMPLES = r"""
- name: Read the fleet, place what waits, and bind it
  wattwise.kube.fleet_reconciliation:
    run_dir: /var/lib/wattwise/hall-1
    read:
      ca_path: /etc/wattwise/bmc-ca.pem
    merge:
      min_success: 0.5

- name: Observe only
  wattwise.kube.fleet_reconciliation:
    steps: [snapshot, read, merge, statuses]
    run_dir: /var/lib/wattwise/hall-1
    merge:
      textfile: /var/lib/node_exporter/textfile/hall-1.prom
      textfile_labels:
        cluster: hall-1

- name: Go on with what gateways read
  wattwise.kube.fleet_reconciliation:
    steps: [merge, statuses, predict, place, bind]
    run_dir: /var/lib/wattwise/hall-1
    thermal: "{{ thermal_of_gateways.results }}"
    pressure: "{{ pressure_of_gateways.results }}"
    models: "{{ models_of_gateways.results }}"

- name: Place with devices, and empty nodes that had better sleep
  module_defaults:
    group/wattwise.kube.wattwise:
      kubeconfig: ~/.kube/config
      context: hall-2
  block:
    - name: Reconcile the fleet
      wattwise.kube.fleet_reconciliation:
        steps: [snapshot, read, merge, statuses, predict, place, bind, devices, evict]
        run_dir: /var/lib/wattwise/hall-2
        place:
          rebalance: true
          allow_power_off: true
"""

RETURN = r"""
steps:
  description:
    - The steps in their order, each with its seconds, whether it changed something, counts,
      warnings and errors; C(documents) is the time that writing all documents took. C(failure) is
      the sentence with which a step ended, null where it came to its end.
  returned: always
  type: list
  elements: dict
  sample:
    - name: predict
      seconds: 0.41
      changed: false
      counts:
        asked: 12
        kept: 38
        requests: 3
        without_predictor: 0
      warnings: []
      errors: []
      failure:
summary:
  description:
    - The figures of the run, as far as its steps were made. How many nodes are configured, fresh,
      stale and failed, the hottest of them, and the watts in all; curves, and how many of them were
      kept; pods placed, unplaced, bound, skipped and moved; the watts of the plan and its gap.
  returned: always
  type: dict
  sample:
    bound: 12
    configured: 50
    curves: 50
    failed: 2
    fresh: 48
    gap: 0.0004
    hottest_inlet_celsius: 27.5
    hottest_node: r3-n12
    kept_curves: 38
    measured_nodes: 50
    measured_watts: 9120.5
    placed: 12
    skipped: 0
    stale: 1
    steps: 0
    unplaced: 0
    unpriced: 0
    watts:
      after: 9411.2
      before: 9120.9
      lower_bound: 9411.1
documents:
  description: Paths of the documents that were written.
  returned: always
  type: dict
  sample:
    curves: /var/lib/wattwise/hall-1/curves.json
    models: /var/lib/wattwise/hall-1/models.json
    plan: /var/lib/wattwise/hall-1/plan.json
    readings: /var/lib/wattwise/hall-1/readings.json
    snapshot: /var/lib/wattwise/hall-1/snapshot.json
    statuses: /var/lib/wattwise/hall-1/statuses.json
devices:
  description:
    - What step V(devices) did; outcome, changes, pods, errors and conflict as
      M(wattwise.kube.device_reconciliation) returns them.
  returned: when step V(devices) was made
  type: dict
  sample:
    changes: []
    conflict: []
    errors: []
    outcome: allocated
    pods: []
evict:
  description:
    - What step V(evict) did; moves, gain_watts and stopped as M(wattwise.kube.pod_eviction) returns
      them.
  returned: when step V(evict) had moves to make
  type: dict
  sample:
    gain_watts: 12.5
    moves:
      - from_node: node-2
        namespace: default
        outcome: moved
        pod: worker-7d4b9-x2x8k
        reason:
        replacement: worker-7d4b9-qk5fp
        step: 1
        to_node: node-1
    stopped:
"""

from ansible_collections.wattwise.kube.plugins.module_utils.module_runner import run_module
from ansible_collections.wattwise.kube.plugins.module_utils.pipeline import options, reconciliation


def main() -> None:
    run_module(options.SPEC, reconciliation.reconcile_fleet)


if __name__ == "__main__":
    main()
