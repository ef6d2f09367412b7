#!/usr/bin/python
# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation and entry of the module fleet_reconciliation."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fleet_reconciliation
short_description: Read a fleet, and place and bind its waiting pods, in one process
version_added: 0.1.0
author: Contributors to the wattwise.kube project (@wattwise)
description:
  - Runs the steps of M(wattwise.kube.fleet_snapshot_info), M(wattwise.kube.redfish_thermal_info),
    M(wattwise.kube.differential_pressure_info), M(wattwise.kube.redfish_ml_model_info),
    M(wattwise.kube.kube_apply) for statuses, M(wattwise.kube.power_placement) and
    M(wattwise.kube.device_reconciliation) in one process, with the same library functions, and
    carries out plans. Each list of the cluster is read once, and values pass from step to step in
    memory.
  - The documents are those of the single modules, for audit, replay and the report.
  - BMCs and pressure servers are read concurrently. Power models are queried only if an input
    moved. Target nodes are read again just before binding.
  - If one reader fails, the readings and statuses of the others are still written. Then the task
    fails, and nothing is placed.
  - The task is changed if a condition of a NodeConfig changed, or a pod was bound, marked, moved or
    given devices. Readings alone are observations and change nothing.
options:
  steps:
    description:
      - Steps to run, always in the order of the choices.
      - V(snapshot) reads the cluster, V(read) the machines that NodeConfigs name, V(merge) merges
        their readings, and V(statuses) writes these to the NodeConfigs. V(meter) reads the power
        draw of pods (O(meter.source)); a failure of it is a warning. V(predict) takes the power
        curve of each node from a statement, its power model or recorded samples, V(place) finds
        nodes for waiting pods, and V(bind) binds them. V(devices) allocates devices to waiting
        pods, and V(evict) moves running pods by the steps of the plan (O(place.rebalance)).
        V(sleep) switches machines off that are not needed, and on again (O(sleep.mode)). V(limits)
        caps machines that draw more than a limit (O(limits.cap)), and evicts pods where no cap is
        enough (O(limits.evict)).
      - With O(sleep.mode=with_approval), V(store_sleep) stores the plan of machines to switch off
        (O(store)), so that a person can approve it. V(restore_sleep) reads a stored plan
        (O(restore)), and V(sleep) then carries it out, unless the state has moved on.
      - V(store) stores the plan with its documents (O(store)), so that a person can approve it.
        V(restore) replaces all steps before V(bind) by the documents of a stored plan
        (O(restore)).
      - The documents of an earlier task in O(run_dir) replace the results of steps that are not
        listed.
    type: list
    elements: str
    choices:
      - restore_sleep
      - snapshot
      - read
      - merge
      - statuses
      - meter
      - predict
      - place
      - store
      - restore
      - bind
      - devices
      - evict
      - sleep
      - store_sleep
      - limits
    default: [snapshot, read, merge, statuses, predict, place, bind]
  run_dir:
    description:
      - Folder for the documents of the run; created if missing. It holds C(snapshot.json),
        C(readings.json), C(models.json), C(statuses.json), C(samples.json), C(metering.json),
        C(curves.json) and C(plan.json), and C(bound/bindings.json) after the first binding.
      - The documents of the last run spare repeated reads; they are not required. Without this
        option nothing is written.
    type: path
  run_process:
    description:
      - Ansible process of the run. While it lives, other runs in O(run_dir) are refused.
      - The action plugin sets this option. Leave it unset.
    type: str
  # begin generated: run
  record_namespace:
    description:
      - Namespace of the ConfigMap C(wattwise-last-binding). It keeps the documents of the last
        binding, compressed to at most 1 MiB. A run whose C(run_dir) lacks them restores them from
        there, so that the report can compute savings without a persistent folder.
      - Without this option the documents are kept in C(run_dir) only. A ConfigMap that cannot be
        read or written causes a warning.
    type: str
  publish_namespace:
    description:
      - Namespace of the ConfigMap C(wattwise-extender), in which step V(place) publishes curves,
        rules, limits and plan for the extender of kube-scheduler. It is written where the extender
        would learn from it.
      - A ConfigMap that cannot be read or written causes a warning.
    type: str
  # end generated
  node_configs:
    description: Path of NodeConfigs that an earlier task rendered in check mode. They count as if
      they were in the cluster. Used in check mode only.
    type: path
  thermal:
    description: Results of M(wattwise.kube.redfish_thermal_info), one per gateway, that replace
      step V(read).
    type: list
    elements: dict
  pressure:
    description: Results of M(wattwise.kube.differential_pressure_info), one per gateway, that
      replace step V(read).
    type: list
    elements: dict
  models:
    description: Results of M(wattwise.kube.redfish_ml_model_info), one per gateway, that replace
      step V(read).
    type: list
    elements: dict
  read:
    description: Options of step V(read), as in M(wattwise.kube.redfish_thermal_info),
      M(wattwise.kube.redfish_ml_model_info) and M(wattwise.kube.differential_pressure_info).
    type: dict
    default: {}
    suboptions:
      # begin generated: read
      gather:
        description: Quantities to read from BMCs. A BMC succeeds only if all of them were read.
        type: list
        elements: str
        default: [inlet, power]
        choices: [inlet, power]
      credentials:
        description:
          - User names and passwords by key. The C(credential) of a target names its key.
          - Each entry has C(username) and C(password). Optional members are C(ca), the PEM
            certificates that verify the target, and C(tls_fingerprint), one SHA-256 fingerprint or
            a list of them.
        type: dict
      default_credential_namespaces:
        description:
          - Namespaces whose NodeConfigs get the entry C(default) of O(read.credentials) where they
            name no Secret. E(WATTWISE_REDFISH_USERNAME) and E(WATTWISE_REDFISH_PASSWORD) can supply
            this entry. List only namespaces whose writers of NodeConfigs may know the password.
          - NodeConfigs without a Secret in other namespaces are asked without a credential. A
            machine that requires one is then an error.
        type: list
        elements: str
        default: []
      allow_plain_http:
        description:
          - Whether a credential may be sent to a machine whose endpoint is V(http://…). Anybody on
            the network path can then read it. If V(false), such a machine is an error and gets no
            request. If V(true), a warning tells the number of such machines.
          - A machine without a credential is asked in either case. NodeConfigs cannot set this
            option.
        type: bool
        default: false
      timeout:
        description: Seconds that all requests to one machine may take together. Raise it for slow
          BMCs.
        type: float
        default: 10.0
      concurrency:
        description: Number of machines to ask at the same time. One BMC never gets two requests at
          once.
        type: int
        default: 64
      validate_certs:
        description:
          - Whether the certificates of machines are verified. If V(false), a warning tells the
            number of machines.
          - For self-signed certificates, prefer O(read.tls_fingerprint) or O(read.ca_path) to
            V(false).
        type: bool
        default: true
      ca_path:
        description: Path of the PEM certificates that verify the machines. The system's
          certificates by default.
        type: path
      tls_fingerprint:
        description: SHA-256 fingerprints of certificates or public keys, in hexadecimal with or
          without colons. A machine with any other certificate gets no request. A pinned certificate
          needs no authority and no matching host name.
        type: list
        elements: str
        default: []
      refresh:
        description: Whether every machine is asked, regardless of the age of its last reading.
        type: bool
        default: false
      model_max_age:
        description: Seconds for which the power model that a BMC named is kept without asking the
          BMC again. O(read.refresh) overrides it.
        type: float
        default: 600.0
      # end generated
  merge:
    description:
      - Options of the V(merge) step, which merges the results of
        M(wattwise.kube.redfish_thermal_info) and M(wattwise.kube.differential_pressure_info) from
        any number of gateways.
      - The last value in C(readings.json) or in the status of the NodeConfig replaces a missing one
        for O(merge.max_age) seconds and marks the node as stale. After that the annotations
        C(wattwise.github.io/fallback-inlet-celsius) and
        C(wattwise.github.io/fallback-delta-p-pascal) of the NodeConfig replace it. Without these it
        stays missing; it never counts as zero.
    type: dict
    default: {}
    suboptions:
      # begin generated: merge
      min_success:
        description: Share of the configured nodes, from V(0.0) to V(1.0), whose inlet temperature
          and differential pressure must have been read. Below it the task fails; the failure holds
          all results.
        type: float
        default: 0.0
      max_age:
        description: Seconds for which the last value of a quantity replaces a missing one.
        type: float
        default: 300.0
      samples_max_age:
        description: Seconds for which samples stay in C(samples.json), from which power curves are
          learned. A sample is the CPU use, temperature, pressure and whole-machine power of a node
          at one run. Of each twentieth of a node's load the last six samples stay. V(0) records
          nothing.
        type: float
        default: 2592000.0
      heartbeat_seconds:
        description: Seconds after which a reading in a status is written again although it has not
          moved; half of them to all of them, by the node's name.
        type: float
        default: 300.0
      textfile:
        description:
          - Path of the file to write with the readings in Prometheus' text format.
          - Its metrics are C(inlet_temp_celsius), C(delta_p_pascal), C(node_power_watts),
            C(wattwise_predicted_power_watts), C(wattwise_reading_age_seconds),
            C(wattwise_node_read), C(wattwise_endpoint_failing) and
            C(wattwise_observation_timestamp_seconds). RmdNodeStates add C(wattwise_cache_free_ways)
            and C(wattwise_cache_longest_free_run_ways).
        type: path
      textfile_labels:
        description: Labels to add to every sample of O(merge.textfile), such as the name of the
          cluster.
        type: dict
        default: {}
      # end generated
  meter:
    description: Options of step V(meter), which reads the watts of pods from Kepler's metrics.
    type: dict
    default: {}
    suboptions:
      # begin generated: meter
      source:
        description:
          - Source of the power draw of pods, which the report sums by namespace and workload.
            V(prometheus) asks the Prometheus at O(meter.url), V(kepler) each Kepler. V(none) meters
            no pods. A failure is a warning and never fails the run.
          - With V(prometheus) and Kepler's metrics of containers, the placement in the same run
            takes the measured CPU use of a workload's running pods for its waiting ones, in place
            of O(place.pod_usage_assumption).
        type: str
        default: none
        choices: [none, prometheus, kepler]
      url:
        description: URL of the Prometheus, or of a server with its HTTP API such as Thanos.
          Required for V(prometheus).
        type: str
      labels:
        description: Labels of the series to take, such as C(cluster) with V(hall-1), where one
          Prometheus has the metrics of several clusters.
        type: dict
        default: {}
      targets:
        description: Endpoints of Kepler by node, for V(kepler). The pods of O(meter.selector) by
          default.
        type: list
        elements: dict
        default: []
        suboptions:
          name:
            description: Name of the node. Only pods on this node are metered by the endpoint.
            type: str
            required: true
          endpoint:
            description: URL of its Kepler, without C(/metrics).
            type: str
            required: true
      namespace:
        description: Namespace of the pods of Kepler.
        type: str
        default: kepler
      selector:
        description: Label selector of the pods of Kepler.
        type: str
        default: app.kubernetes.io/name=kepler,app.kubernetes.io/component!=model-server
      scheme:
        description: Scheme of the endpoints of these pods.
        type: str
        default: http
        choices: [http, https]
      port:
        description: Port of these pods.
        type: int
        default: 28282
      credential:
        description: Key of the entry in O(meter.credentials) with C(token), or with C(username) and
          C(password), or V(<namespace>/<name>) of a Secret with these keys. No credential is sent
          by default.
        type: str
      credentials:
        description: Credentials by key. Each entry has C(token), for bearer authentication, or
          C(username) and C(password). Optional members are C(ca) and C(tls_fingerprint), as in
          O(read.credentials).
        type: dict
      timeout:
        description: Seconds that all requests to one server may take together.
        type: float
        default: 10.0
      concurrency:
        description: Number of servers to ask at the same time, at most 16.
        type: int
        default: 16
      allow_plain_http:
        description: Whether a credential may be sent to a server whose endpoint is V(http://…). If
          V(false), such a server is an error and gets no request.
        type: bool
        default: false
      validate_certs:
        description: Whether the certificates of Prometheus and Kepler are verified. If V(false), a
          warning tells the number of servers.
        type: bool
        default: true
      ca_path:
        description: Path of the PEM certificates that verify the servers. Those of the credential,
          else the system's, by default.
        type: path
      tls_fingerprint:
        description: SHA-256 fingerprints of certificates or public keys. A server with any other
          certificate gets no request, and certificate authorities do not count.
        type: list
        elements: str
        default: []
      tls_server_name:
        description: Name that the certificates must have, such as V(kepler.kepler.svc). The host of
          the endpoint by default.
        type: str
      client_cert:
        description: Path of the client certificate, in PEM, for Keplers with C(mtls). None by
          default.
        type: path
      client_key:
        description: Path of the client's private key, in PEM. By default the key is read from
          O(meter.client_cert).
        type: path
      energy_period_seconds:
        description: Length in seconds of the period before the run for which the document and the
          report state energy by namespace and workload, from 3600 to 2678400 (31 days).
          V(prometheus) is asked for the growth of the counters in this period; with V(kepler) the
          growth from run to run is kept as long.
        type: float
        default: 86400.0
      textfile:
        description:
          - Path of the file to write with the power draw in Prometheus' text format.
          - Its metrics are C(wattwise_namespace_metered_watts) for up to 200 namespaces,
            C(wattwise_node_metered_watts), C(wattwise_metering_errors) and
            C(wattwise_metering_timestamp_seconds).
        type: path
      textfile_labels:
        description: Labels to add to every sample of O(meter.textfile).
        type: dict
        default: {}
      # end generated
  predict:
    description:
      - Options of the V(predict) step, which asks the power models of NodeConfigs and BMCs over the
        V2 inference protocol, with 21 points of CPU use from 0 to the capacity of each node.
      - All points of one model are sent in as few requests as its server accepts, equal points once.
        If a server refuses a batch, smaller ones follow, down to single rows.
      - A model without an answer, or with a prediction outside 0 to 100 kW for a point of a node, is
        an error of the nodes concerned only.
    type: dict
    default: {}
    suboptions:
      # begin generated: predict
      power_curves:
        description: Stated power curves, which go before the power models. The first entry whose
          selector matches a node counts. The annotation C(wattwise.github.io/power-curve) of a
          NodeConfig goes before all entries; a wrong one becomes a finding.
        type: list
        elements: dict
        default: []
        suboptions:
          node_selector:
            description: Label selector of the nodes. All nodes by default.
            type: str
          idle:
            description: Power draw of the idle node in W. Needs O(predict.power_curves[].max).
            type: float
          max:
            description: Power draw of the node at full load in W. Needs
              O(predict.power_curves[].idle).
            type: float
          points:
            description: Points in place of O(predict.power_curves[].idle) and
              O(predict.power_curves[].max). Each has the CPU use in percent of the capacity and the
              power draw in W, such as V([50, 310]). Loads ascend, and power never falls.
            type: list
            elements: list
      learn:
        description:
          - Whether a node without a stated or predicted curve gets one from C(samples.json) in the
            run folder, by a regression over samples of the node, else of nodes with its server type
            and capacity.
          - A curve needs 12 samples in 4 twentieths of the capacity, 20 points apart or more, and a
            cross-validated error of at most 15 %. It never falls with the load, and spans only the
            recorded loads of the node and its type.
        type: bool
        default: true
      published:
        description:
          - Whether a node without a stated, predicted or learned curve gets one from published
            measurements of servers with its processor, its series of processors, a neighbouring
            generation, or the series that its model names, scaled by the number of cores.
          - The BMC reports model and processor. The labels
            C(wattwise.github.io/system-manufacturer), C(wattwise.github.io/system-model) and
            C(wattwise.github.io/processor-model) of a Node overrule it.
        type: bool
        default: true
      type_label:
        description: Node label with the server type, for curves that are learned for a type.
        type: str
        default: node.kubernetes.io/instance-type
      cpu_usage_format:
        description:
          - Unit of CPU use in requests to the power models, V(percent) of the node's capacity or
            V(raw) cores.
          - The annotation C(wattwise.github.io/cpu-usage-format) of a NodeConfig overrides this
            option.
        type: str
        default: percent
        choices: [percent, raw]
      credentials:
        description:
          - User names and passwords by key. The C(credential) of a target names its key.
          - Each entry has C(username) and C(password). Optional members are C(ca), the PEM
            certificates that verify the target, and C(tls_fingerprint), one SHA-256 fingerprint or
            a list of them.
        type: dict
      model_origins:
        description: Servers that may get a Secret although only a BMC names them, such as
          V(https://models.example.com:8443), with scheme and without path.
        type: list
        elements: str
        default: []
      allow_plain_http:
        description:
          - Whether a credential may be sent to a power model whose endpoint is V(http://…). Anybody
            on the network path can then read it. If V(false), such a power model is an error and
            gets no request. If V(true), a warning tells the number of such power models.
          - A power model without a credential is asked in either case. NodeConfigs cannot set this
            option.
        type: bool
        default: false
      timeout:
        description: Seconds that one request to a power model may take.
        type: float
        default: 10.0
      concurrency:
        description: Number of power models to ask at the same time. One server gets at most eight
          requests.
        type: int
        default: 64
      batch_rows:
        description: Largest number of points in one request to a power model, from 1. Lower it if
          large requests exceed O(predict.timeout).
        type: int
        default: 10000
      min_success:
        description: Share of the nodes with a power model, from V(0.0) to V(1.0), that must get a
          curve. Below it the run fails before placing pods. O(place.unpriced) sets the use of nodes
          without a curve.
        type: float
        default: 0.0
      keep_seconds:
        description:
          - Seconds for which a curve with unmoved inputs is kept. Inputs are unmoved if endpoint,
            capacity and format are equal, the inlet temperature is within 0.5 °C and the
            differential pressure within 1 Pa. V(0) asks every model in every run.
          - Learned curves are kept in the same way.
        type: float
        default: 600.0
      validate_certs:
        description:
          - Whether the certificates of power models are verified. If V(false), a warning tells the
            number of power models.
          - For self-signed certificates, prefer O(predict.tls_fingerprint) or O(predict.ca_path) to
            V(false).
        type: bool
        default: true
      ca_path:
        description: Path of the PEM certificates that verify the power models. The system's
          certificates by default.
        type: path
      tls_fingerprint:
        description: SHA-256 fingerprints of certificates or public keys, in hexadecimal with or
          without colons. A power model with any other certificate gets no request. A pinned
          certificate needs no authority and no matching host name.
        type: list
        elements: str
        default: []
      # end generated
  limits:
    description:
      - Limits of power and heat that the V(place) step keeps, as M(wattwise.kube.power_placement)
        does, and of the V(limits) step. Without any, the default, nothing changes. The label
        O(predict.type_label) has the types of nodes.
      - The power draw of a node is the larger one of its curve's prediction and of a fresh reading
        of its BMC.
      - A limit below the idle power, and one of a rack or type that no node has, is a warning and a
        finding in the plan.
      - The V(limits) step caps only machines with a fresh reading, a power curve, and a BMC that
        reports the C(systemUUID) of the Node; machines that sleep keep their state. The ConfigMap
        C(wattwise-limits) in O(lease_namespace) has the caps in force, so that any later run ends
        them. O(read) has the accounts of the BMCs, and an account for changes, as for
        M(wattwise.kube.redfish_power_limit).
    type: dict
    default: {}
    suboptions:
      # begin generated: limits
      fleet_watts:
        description: Power that the nodes of the fleet may draw together, in W. V(0), the default,
          sets no limit.
        type: float
        default: 0.0
      rack_watts:
        description: Power that the nodes of a rack may draw together, in W, by the value of the
          label C(wattwise.github.io/rack), else of C(topology.kubernetes.io/rack). V(*) stands for
          all other racks.
        type: dict
        default: {}
      node_watts:
        description: Power that a node may draw, in W, by its type, which is the value of its label
          C(node.kubernetes.io/instance-type). V(*) stands for all other nodes.
        type: dict
        default: {}
      inlet_celsius:
        description:
          - Inlet temperature in °C above which a rack takes no new pod, by the same labels as
            O(limits.rack_watts). The hottest machine of the rack counts. V(*) stands for all other
            racks.
          - While a rack is above it, the step V(limits) lowers what its machines may draw by 5 %
            every 5 minutes, and raises it every 10 minutes once the inlet is below the limit by 2
            °C.
        type: dict
        default: {}
      cap:
        description:
          - What the step V(limits) does while machines draw more than a limit in W, or than their
            rack may draw for O(limits.inlet_celsius). V(dry_run) says which machines it would cap.
            V(on) caps them by their BMCs, and removes the caps later. V(off) removes all caps that
            the step has set.
          - Machines whose pods have the lowest priority give first; those of equal priority share
            by their power above the floor. The floor is 1.1 times the idle power of the curve, or
            the least limit of the BMC. Caps aim at 98 % of the limit.
          - Below 90 % of the limit, caps end of machines that draw less than 95 % of theirs, and of
            one other machine a run, the highest priority first. A limit that the BMC had before
            comes back.
        type: str
        default: dry_run
        choices: ['off', dry_run, 'on']
      evict:
        description:
          - What the step V(limits) does while machines draw more than a limit in W, or than their
            rack may draw for O(limits.inlet_celsius), that no cap covers, also because
            O(limits.cap) is V(off). V(dry_run) says which pods would be evicted. V(on) evicts them;
            their replacements wait for the next plan. V(off) evicts no pod for a limit. No pod
            leaves for an inlet that did not fall by 2 °C while the power of its rack fell by a
            fifth.
          - Caps come first, so that with O(limits.cap=dry_run) evictions are only told.
          - Pods leave that rebalancing could move, within their disruption budgets; the lowest
            priority first, of these best-effort before burstable before guaranteed pods.
        type: str
        default: "off"
        choices: ['off', dry_run, 'on']
      max_evictions:
        description: Number of pods that one run evicts for limits at most.
        type: int
        default: 5
      # end generated
  store:
    description:
      - Options of the V(store) and V(store_sleep) steps. Either O(store.namespace) or O(store.path) is required.
      - The stored plan contains names and specs of pods, and no secrets.
    type: dict
    default: {}
    suboptions:
      # begin generated: store
      namespace:
        description: Namespace of the immutable ConfigMaps of the plan. Each holds at most 900 KiB.
        type: str
      path:
        description: Path of a file in place of ConfigMaps. None by default.
        type: path
      keep:
        description: Number of stored plans to keep in the namespace; older ones are deleted. The
          plans of all clusters and job templates that store there count together.
        type: int
        default: 5
      # end generated
  restore:
    description: Options of the V(restore) and V(restore_sleep) steps. O(restore.sha256) is
      required, with either O(restore.path) or O(restore.namespace) and O(restore.name).
    type: dict
    default: {}
    suboptions:
      namespace:
        description: Namespace of the plan's ConfigMaps.
        type: str
      name:
        description: Name of the stored plan, as C(stored_plan.name) of the run that stored it.
        type: str
      path:
        description: Path of the plan's file.
        type: path
      sha256:
        description: SHA-256 of the stored plan. The run fails before it changes anything if the
          plan has another one.
        type: str
      max_age:
        description: Largest age of the plan in seconds. The run fails if the plan is older.
        type: float
        default: 3600.0
  bind:
    description:
      - Options of the V(bind) step, which binds the pods of a plan as a scheduler does. Nodes are
        processed concurrently, the pods of one node in the order of the plan.
      - A pod is skipped, with the reason, if its node is gone, cordoned, not ready, full or tainted
        against the pod, or if the pod is gone, replaced, being deleted or already bound. Each
        binding carries uid and resource version of the pod.
      - A pod with volume claims is bound once its claims are. A claim with
        C(WaitForFirstConsumer) gets a PersistentVolume that fits, or the annotation
        C(volume.kubernetes.io/selected-node), on which its provisioner makes the volume.
    type: dict
    default: {}
    suboptions:
      # begin generated: bind
      mark_unplaced:
        description: Whether unplaced pods get the condition C(PodScheduled=False), on which cluster
          autoscalers act, and an event.
        type: bool
        default: true
      volume_timeout:
        description:
          - Seconds to wait, once for all pods of a run, until the volumes of their claims are bound
            or made. A claim without a volume by then is released, and its pod waits for the next
            run.
          - Other runs that bind pods wait meanwhile. At most V(3600).
        type: float
        default: 60.0
      # end generated
  evict:
    description:
      - Options of the V(evict) step, which makes the moves of a plan with C(rebalance). Each pod is
        evicted through the Eviction API, its controller creates a replacement, and the replacement
        is bound to the planned node. Pods of other schedulers than O(place.scheduler_name) are
        skipped.
      - Pods move one at a time. The first refusal by a PodDisruptionBudget or missing replacement
        ends the run. A replacement that could not be bound waits for the next plan.
      - A step of several moves begins only if its pods are still the planned ones, their nodes have
        room for all of them, the API server allows each eviction by C(dryRun), and the budgets
        allow all together. The account needs the permission to list PodDisruptionBudgets.
      - A step whose pods or nodes changed is skipped with the reason, and so are later steps on its
        nodes, because their gain depends on it. If the step has begun, the run ends instead.
      - In check mode each eviction is sent with C(dryRun).
    type: dict
    default: {}
    suboptions:
      # begin generated: evict
      timeout:
        description:
          - Seconds to wait for the replacement of an evicted pod. A StatefulSet creates it only
            after the old pod is gone.
          - The same limit holds for evicted pods to leave a node that another pod needs.
        type: float
        default: 120.0
      # end generated
  sleep:
    description:
      - Options of the V(sleep) step. It empties machines that the pods and the reserve do not need,
        shuts them down by their BMCs, and wakes them for waiting pods. O(read) has the accounts of
        the BMCs, and O(place) and O(evict) the options of the moves.
      - The state of a machine is the annotation C(wattwise.github.io/sleep) of its Node, with the
        taint C(wattwise.github.io/asleep), a cordon, and the label
        C(node.kubernetes.io/exclude-disruption). Each transition is one write, so that the next run
        continues a run that was killed. The annotation C(wattwise.github.io/hold) keeps a machine
        as it is.
      - Nothing is switched off on old readings, after a failed list, or while many Nodes are not
        ready. The BMC must report the C(systemUUID) of the Node before the first request.
      - The ConfigMap C(wattwise-sleep) in O(lease_namespace) records demand and switches, with a key
        for each PowerFleet and one for all other runs. The Lease
        C(wattwise-sleep) there forbids two runs at once.
    type: dict
    default: {}
    suboptions:
      # begin generated: sleep
      mode:
        description: V(dry_run) says what would be switched and changes no machine. V(on) switches
          machines. V(off) switches nothing off, and wakes every machine that sleeps.
          V(with_approval) wakes machines as V(on) does, and switches off only the machines of a
          plan that a person approved.
        type: str
        default: dry_run
        choices: ['off', dry_run, with_approval, 'on']
      select:
        description:
          - Label selector of the nodes whose machines may sleep. Empty by default, which selects
            none.
          - Nodes of the control plane, and machines with pods that may not be moved, stay awake
            even if it selects them.
        type: str
        default: ""
      max_cycles_a_day:
        description: Number of times that one machine is switched off in any 24 hours.
        type: int
        default: 4
      reserve_quantile:
        description: Quantile of the past growth of requests within one boot that must fit on awake
          machines.
        type: float
        default: 0.99
      largest_quantile:
        description: Quantile of the sizes of past pods for which awake machines keep whole room.
        type: float
        default: 0.995
      reserve_share:
        description: Share of the present requests that must fit on awake machines besides, until a
          week of demand was recorded.
        type: float
        default: 0.1
      interval_seconds:
        description: Seconds to the next run, for whose pods the reserve has room.
        type: float
        default: 300.0
      horizon_seconds:
        description: Expected seconds of sleep, within which switching a machine off must pay.
        type: float
        default: 14400.0
      wear_joules:
        description: Price of one switch to off and on beyond its energy, in joules.
        type: float
        default: 50000.0
      eviction_joules:
        description: Price of one eviction in joules, for C(guaranteed), C(burstable) and
          C(best_effort) pods. A class that is left out has its default.
        type: dict
        default: {guaranteed: 600000.0, burstable: 300000.0, best_effort: 150000.0}
      max_share:
        description: Share of the selected machines that are switched off at the same time; at least
          one.
        type: float
        default: 0.1
      min_awake_seconds:
        description: Seconds for which a machine stays awake after a boot.
        type: float
        default: 1800.0
      min_awake:
        description: Number of machines that stay awake.
        type: int
        default: 1
      min_awake_by_zone:
        description: Number of machines that stay awake in a zone, by the value of the label
          C(topology.kubernetes.io/zone).
        type: dict
        default: {}
      min_awake_by_rack:
        description: Number of machines that stay awake in a rack, by the value of the label
          C(wattwise.github.io/rack), else of C(topology.kubernetes.io/rack).
        type: dict
        default: {}
      urgent_seconds:
        description: Seconds that a pod waits until the machine with the shortest boot is woken
          first.
        type: float
        default: 300.0
      boot_seconds:
        description: Expected seconds from the request to switch a machine on until its node is
          ready.
        type: float
        default: 300.0
      boot_watts:
        description: Power draw of a machine that boots, in W.
        type: float
        default: 300.0
      shutdown_seconds:
        description: Expected seconds of a shutdown.
        type: float
        default: 60.0
      shutdown_watts:
        description: Power draw of a machine that shuts down, in W.
        type: float
        default: 150.0
      standby_watts:
        description: Power draw of a machine that is off, in W.
        type: float
        default: 15.0
      drain_timeout:
        description: Seconds in which the pods must have left; after that the machine stays awake.
        type: float
        default: 600.0
      shutdown_timeout:
        description: Seconds after which a machine is asked again to shut down. It is never forced.
        type: float
        default: 300.0
      boot_timeout:
        description: Seconds after which a boot is tried again.
        type: float
        default: 600.0
      max_attempts:
        description: Number of boots after which a machine that is not ready is quarantined, and of
          requests to shut down after which a machine is left alone for a day.
        type: int
        default: 3
      wait_timeout:
        description: Seconds for which the run waits for machines that shut down or boot. With V(0)
          the next run continues.
        type: float
        default: 0.0
      max_readings_age:
        description: Seconds; nothing is switched off on older readings.
        type: float
        default: 900.0
      # end generated
  prices:
    description:
      - Prices of energy, or its carbon intensity, by time. The steps V(place) and V(sleep) weigh
        them.
    type: dict
    default: {}
    suboptions:
      # begin generated: prices
      path:
        description:
          - Path of a file with prices of energy, or its carbon intensity, by time. CSV has a header
            line with C(time) and C(price); JSON has a list of objects with these members. Times are
            RFC 3339 with their offset.
          - With a series, sleep weighs the energy of an hour by its price, and pods wait for their
            hour if O(prices.defer_pods). Only ratios of prices count. Without a usable series a
            warning says so, and every hour counts the same.
        type: path
      url:
        description: URL of such a text, or of C(/price) of api.energy-charts.info, instead of a
          file. With O(prices.query), the URL of a Prometheus. A path in it is kept.
        type: str
      query:
        description: PromQL query whose result is a single series of prices. Prometheus is asked for
          the last seven days; the hours to come have the prices of the day before.
        type: str
      unit:
        description: Unit of the prices, such as V(EUR/MWh) or V(gCO2/kWh), for people. A source
          that names another unit is refused.
        type: str
        default: ""
      surcharge:
        description: Amount to add to each price, in its unit, such as network charges and taxes,
          which make hours more alike than the exchange says.
        type: float
        default: 0.0
      max_age:
        description: Seconds after its end for which a series counts. Meanwhile the price is that of
          the same time on the day before.
        type: float
        default: 172800.0
      keep_seconds:
        description: Seconds for which a series from a URL is kept in the run folder before it is
          read again.
        type: float
        default: 3600.0
      defer_pods:
        description:
          - Whether pods with the annotations C(wattwise.github.io/finish-by), an RFC 3339 time, and
            C(wattwise.github.io/expected-duration), such as C(1h30m), wait for the cheapest hour in
            which they still end in time. They have the condition C(PodScheduled=False) with the
            reason C(Deferred) until then.
          - A pod with devices, or whose annotations cannot be used, is placed at once.
        type: bool
        default: false
      margin_seconds:
        description: Seconds before its time at which such a pod should end, at 1.1 of its expected
          duration. It must be longer than the time between two runs and a boot.
        type: float
        default: 1800.0
      credential:
        description: Key of the entry in O(prices.credentials) with C(token), or with C(username)
          and C(password), or V(<namespace>/<name>) of a Secret with these keys. No credential is
          sent by default.
        type: str
      credentials:
        description: Credentials by key. Each entry has C(token), for bearer authentication, or
          C(username) and C(password). Optional members are C(ca) and C(tls_fingerprint), as in
          O(predict.credentials).
        type: dict
      timeout:
        description: Seconds that all requests to the server may take together.
        type: float
        default: 10.0
      allow_plain_http:
        description: Whether a credential may be sent to a server whose URL is V(http://…). If
          V(false), such a server is an error and gets no request.
        type: bool
        default: false
      validate_certs:
        description: Whether the certificate of the server is verified.
        type: bool
        default: true
      ca_path:
        description: Path of the PEM certificates that verify the server. Those of the credential,
          else the system's, by default.
        type: path
      tls_fingerprint:
        description: SHA-256 fingerprints of certificates or public keys. A server with any other
          certificate gets no request, and certificate authorities do not count.
        type: list
        elements: str
        default: []
      # end generated
extends_documentation_fragment:
  - wattwise.kube.steps.place_of_run
  - wattwise.kube.steps.devices_of_run
  - wattwise.kube.kubernetes
  - wattwise.kube.lease
  - wattwise.kube.progress
  - wattwise.kube.attributes
  - wattwise.kube.attributes.changing_module
requirements:
  - aiohttp >= 3.9
  - fastjsonschema >= 2.20
  - numpy, and ortools >= 9.10, for the V(place) step
"""

EXAMPLES = r"""
- name: Read the fleet, and place and bind the waiting pods
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

- name: Place, and store the plan for an approval
  wattwise.kube.fleet_reconciliation:
    steps: [snapshot, read, merge, statuses, predict, place, store]
    run_dir: /var/lib/wattwise/hall-1
    store:
      namespace: wattwise
  register: planned

- name: Bind the approved plan on a machine that knows only its name and SHA-256
  wattwise.kube.fleet_reconciliation:
    steps: [restore, bind]
    run_dir: /tmp/hall-1
    restore:
      namespace: wattwise
      name: "{{ planned.stored_plan.name }}"
      sha256: "{{ planned.stored_plan.sha256 }}"
      max_age: 1800

- name: Wake machines that are needed, and plan which ones to switch off
  wattwise.kube.fleet_reconciliation:
    steps: [snapshot, read, merge, statuses, predict, place, bind, sleep, store_sleep]
    run_dir: /var/lib/wattwise/hall-1
    sleep: &rules
      mode: with_approval
      select: example.com/may-sleep=true
    store:
      namespace: wattwise
  register: planned

- name: Switch off the machines of the approved plan, unless the state has moved on
  wattwise.kube.fleet_reconciliation:
    steps: [restore_sleep, snapshot, read, merge, statuses, predict, sleep]
    run_dir: /var/lib/wattwise/hall-1
    sleep: *rules
    restore:
      namespace: wattwise
      name: "{{ planned.stored_sleep_plan.name }}"
      sha256: "{{ planned.stored_sleep_plan.sha256 }}"

- name: Observe, and meter pods by Prometheus
  wattwise.kube.fleet_reconciliation:
    steps: [snapshot, read, merge, statuses, meter]
    run_dir: /var/lib/wattwise/hall-1
    meter:
      source: prometheus
      url: https://prometheus.example.com:9090
      credential: prometheus
      credentials:
        prometheus:
          token: "{{ vault_prometheus_token }}"

- name: Continue with the results of gateways

  wattwise.kube.fleet_reconciliation:
    steps: [merge, statuses, predict, place, bind]
    run_dir: /var/lib/wattwise/hall-1
    thermal: "{{ thermal_of_gateways.results }}"
    pressure: "{{ pressure_of_gateways.results }}"
    models: "{{ models_of_gateways.results }}"

- name: Place pods with devices, and empty nodes that may sleep
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
  description: Steps in their order, each with its seconds, C(changed), counts, warnings and errors.
    C(failure) is the error that ended the step, null if it completed. The entry C(documents) is the
    time for writing documents.
  returned: always
  type: list
  elements: dict
  sample:
    - name: predict
      seconds: 0.41
      changed: false
      counts: {asked: 12, kept: 38, requests: 3, without_predictor: 0}
      warnings: []
      errors: []
      failure:
summary:
  description: Figures of the steps that ran. Numbers of configured, fresh, stale and failed nodes,
    the hottest node and the total watts; numbers of curves and of kept ones; numbers of placed,
    unplaced, bound, skipped and moved pods; watts and gap of the plan.
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
    watts: {after: 9411.2, before: 9120.9, lower_bound: 9411.1}
documents:
  description: Paths of the written documents, by kind.
  returned: always
  type: dict
  sample:
    curves: /var/lib/wattwise/hall-1/curves.json
    models: /var/lib/wattwise/hall-1/models.json
    plan: /var/lib/wattwise/hall-1/plan.json
    readings: /var/lib/wattwise/hall-1/readings.json
    snapshot: /var/lib/wattwise/hall-1/snapshot.json
    statuses: /var/lib/wattwise/hall-1/statuses.json
stored_plan:
  description: Where the plan was stored, with its SHA-256, its time, its size in bytes, and its
    numbers of pods and moves. C(name) and C(namespace) are those of the ConfigMaps, C(path) that of
    a file.
  returned: when step V(store) ran
  type: dict
  sample:
    bytes: 183402
    moves: 0
    name: wattwise-plan-20260102-030405-9f86d081
    namespace: wattwise
    pods: 12
    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    time: "2026-01-02T03:04:05Z"
stored_sleep_plan:
  description: Where the plan of machines was stored, as RV(stored_plan), with its numbers of
    machines and moves.
  returned: when step V(store_sleep) ran
  type: dict
  sample:
    bytes: 1834
    machines: 3
    moves: 2
    name: wattwise-sleep-20260102-030405-9f86d081
    namespace: wattwise
    sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
    time: "2026-01-02T03:04:05Z"
devices:
  description: Result of step V(devices), with outcome, changes, pods, errors and conflict as
    M(wattwise.kube.device_reconciliation) returns them.
  returned: when step V(devices) ran
  type: dict
  sample: {changes: [], conflict: [], errors: [], outcome: allocated, pods: []}
evict:
  description:
    - C(moves) are those of the plan in their order, with their C(step), counted from 1. Their
      C(outcome) is V(moved); V(skipped) if the pod or node changed since the plan, or another move
      of the step was skipped; V(stopped) for the same in a step that had begun; V(refused) if the
      eviction was refused; V(evicted) if the pod is gone but its replacement is not on the node;
      V(left) if the run ended before. C(reason) is null for completed moves, and C(replacement) is
      the name of the new pod of a completed move, null in check mode.
    - C(gain_watts) is the sum of the planned savings of all completed moves, in W; negative if the
      run ended within a step that saves power only at its end.
    - C(stopped) is the entry of C(moves) at which the run ended; null if all steps were tried.
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
limits:
  description:
    - C(domains) has the power draw of racks and of the fleet with a limit, and that of nodes above
      theirs. C(state) is C(within), C(above), or C(unknown) without all readings, and
      C(uncovered_watts) are those that no cap covers. C(capped) and C(evicted) count caps in force
      and evictions of this run.
    - C(changes) are the caps to set and to remove, V(null) watts without any limit. C(caps) are those
      of the step that are in force. C(evictions) are pods that leave for a limit; the C(outcome) of
      a dry run is C(planned).
  returned: when step V(limits) ran, and a limit in W holds or a cap is in force
  type: dict
  sample:
    cap: "on"
    caps:
      - before_watts: null
        earlier_watts: []
        name: node-7
        owner: playbook
        watts: 310.0
    changes:
      - done: true
        name: node-7
        watts: 310.0
    domains:
      - capped: 1
        evicted: 0
        kind: rack
        limit_watts: 4000.0
        name: r2
        state: above
        uncovered_watts: 0.0
        watts: 4210.0
    evict: "off"
    evictions: []
sleep:
  description:
    - C(machines) has each machine of the run with its C(phase), and a C(word) and a sentence
      C(reason) why it stays, sleeps or would be switched. C(watts) is what its sleep saves;
      C(is_measured) is true if its idle power draw was measured, and false if it is that of its
      power curve.
    - C(transitions) are the changes of phase that were made; in a dry run those that would be made
      first. C(obstacle) says why nothing is switched off now. C(reserve) is kept free on awake
      machines, in millicores of cpu and else in whole units.
    - C(awake) to C(quarantined) count machines by phase. C(saved_watts) is what the present sleep
      saves, and C(saved_joules) what all sleep saved, against the idle power draw of the machines.
    - C(cycles) are all switches to off, and C(wakes_in_time) and C(wakes_late) all wakes; a wake is
      late if its first boot missed O(sleep.boot_timeout).
    - C(dry_run_days) has the machines, power and energy that the dry runs of each day would have
      saved.
  returned: when step V(sleep) ran, and a machine sleeps or may sleep
  type: dict
  sample:
    mode: dry_run
    awake: 2
    draining: 0
    going_off: 0
    asleep: 0
    waking: 0
    quarantined: 0
    saved_watts: 0.0
    saved_joules: 0.0
    cycles: 0
    wakes_in_time: 0
    wakes_late: 0
    obstacle:
    notes: []
    reserve:
      cpu: 8000.0
    findings: []
    machines:
      - name: node-2
        phase: awake
        power_state: "On"
        word: "off"
        reason: The others carry its 3 pods and the reserve; its sleep saves 110 W.
        watts: 110.0
        is_measured: true
    transitions:
      - name: node-2
        phase: draining
        word: draining
        reason: The others carry its 3 pods and the reserve; its sleep saves 110 W.
        warning: false
    dry_run_days:
      - day: "2026-01-31"
        most_asleep: 1
        watts: 110.0
        saved_joules: 9504000.0
"""

from ..module_utils.module_runner import run_module
from ..module_utils.pipeline import options, reconciliation


def main() -> None:
    run_module(options.SPEC, reconciliation.reconcile_fleet)


if __name__ == "__main__":
    main()
