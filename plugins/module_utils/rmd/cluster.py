# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""RmdWorkloads of a cluster, joined with its daemons, and the visit that reconciles both."""

from __future__ import annotations

import collections
import functools
import typing as t
from dataclasses import dataclass

from ..base.boundary import Finding, InvalidField, guarded, read_each, shown, subject_of, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import TargetError, WattwiseError
from ..base.json_types import Object
from ..nodeconfig.poll import conclude, fleet_options, warn_of_plain_http
from .daemon.apply import Visit, reconcile_daemons, result_of, workload_changes
from .daemon.run import DesiredState, Outcome
from .daemon.targets import daemon_targets, wire_of
from .daemon.workload import Desired, FormerWorkload, uuid_of
from .layout import inventory
from .manifests import (
    STATE_PREFIX,
    Daemon,
    daemons_of,
    desired_of_manifest,
    identity_of,
    key_of,
    known_of,
    labels_of,
    managed_of,
    name_of,
    nodes_of,
    nodes_of_config,
)
from .statuses import (
    Report,
    config_status,
    is_of_pod,
    node_capacity,
    node_state,
    node_status,
    ways_for_pods,
)

T = t.TypeVar("T")


@dataclass(frozen=True)
class Reconciled:
    """Outcome of a visit of all daemons.

    ``document`` is the body of the document ``rmd``: ``node_states`` and ``statuses``, manifests
    for kube_apply, under ``daemons`` the present content of each, and ``errors``. ``failure`` is
    the error if too few daemons answered, with the fields of ``result``.
    """

    result: Result
    document: Result
    failure: WattwiseError | None = None


def reconcile_objects(
    objects: t.Mapping[str, t.Sequence[t.Any]], options: Parameters, context: Context = Context()
) -> Reconciled:
    """Reconcile every daemon with the RmdWorkloads, and return each outcome.

    ``objects`` has the lists of reconciliation.SOURCES by name, and ``options`` follows its SPEC.
    Raises InvalidInput before any request.
    """
    client = options["daemons"]
    fleet = fleet_options(client)
    cluster = _Cluster.of(objects, options)
    asked = [daemon for daemon in cluster.daemons.values() if daemon.endpoint]
    targets = daemon_targets(
        client, [{"name": daemon.node, "endpoint": daemon.endpoint} for daemon in asked]
    )
    wanted = [cluster.wanted(daemon.node, options, context) for daemon in asked]
    warn_of_plain_http(targets, context)
    visits = reconcile_daemons(targets, wanted, fleet, context.progress)
    statuses, states = cluster.report({visit.target.name: visit for visit in visits})
    results = [result_of(visit, outcome) for visit in visits for outcome in visit.outcomes]
    lost = [visit.error for visit in visits if visit.error] + cluster.problems
    errors = [error for visit in visits for error in visit.errors] + cluster.problems
    document = {
        "node_states": states,
        "statuses": statuses,
        "daemons": cluster.inventories(visits),
        "errors": [error.as_dict() for error in errors],
    }
    warn_of(cluster.findings, context)
    result = cluster.counts() | {"results": results, "diff": workload_changes(visits)}
    changed = any(entry["changed"] for entry in results)
    # An impossible request is reported on its RmdWorkload, and is no failure of the daemon.
    try:
        result = conclude(
            client, len(cluster.daemons), errors, result, changed=changed, counted=lost
        )
    except WattwiseError as failure:
        return Reconciled(failure.fields, document, failure)
    return Reconciled(result, document)


@dataclass(frozen=True)
class _Workload:
    """An RmdWorkload as read; without ``desired`` ``problem`` is the reason.

    ``nodes`` is None if its nodes are unknown.
    """

    manifest: Object
    uuid: str
    is_of_pod: bool
    nodes: t.Sequence[str] | None = None
    desired: Desired | None = None
    problem: str = ""


@dataclass(frozen=True)
class _State:
    """A stored RmdNodeState, and our former workloads on its node."""

    manifest: Object | None = None
    managed: t.Sequence[str] = ()
    known: t.Sequence[FormerWorkload] = ()


def _read_node(node: Object) -> str:
    labels = node["metadata"].get("labels") or {}
    if not isinstance(labels, dict):
        raise InvalidField("metadata.labels", f"{shown(labels)} is not an object")
    return name_of(node)


def _read_config(config: Object) -> str:
    """Its key; its selector is checked."""
    labels_of((config.get("spec") or {}).get("rmdNodeSelector"), "spec.rmdNodeSelector")
    return key_of(config)


def _read_state(state: Object) -> tuple[str, _State]:
    name = name_of(state)[len(STATE_PREFIX) :]
    return name, _State(state, managed_of(state), known_of(state))


@dataclass
class _Cluster:
    """The joined objects: workloads by daemon."""

    namespace: str
    nodes: t.Mapping[str, Object]
    workloads: t.Mapping[str, _Workload]
    states: t.Mapping[str, _State]
    configs: t.Sequence[Object]
    daemons: t.Mapping[str, Daemon]
    findings: list[Finding]

    @functools.cached_property
    def uuids(self) -> frozenset[str]:
        """UUIDs of the RmdWorkloads on daemons, for all nodes."""
        return frozenset(workload.uuid for workload in self.workloads.values())

    @classmethod
    def of(cls, objects: t.Mapping[str, t.Sequence[t.Any]], options: Parameters) -> _Cluster:
        namespace, findings = options["namespace"], list[Finding]()

        def read(name: str, kind: str, reader: t.Callable[[t.Any], T]) -> list[tuple[Object, T]]:
            return list(read_each(objects[name], kind, reader, findings))

        nodes = {name: node for node, name in read("nodes", "Node", _read_node)}
        configs = [config for config, _key in read("rmd_configs", "RmdConfig", _read_config)]
        pods, endpoints = objects["rmd_pods"], options["endpoints"]
        daemons = daemons_of(nodes.values(), pods, endpoints, namespace)
        of_workload = functools.partial(_read_workload, nodes, configs, daemons, findings)
        workloads = {
            key_of(item): workload
            for item, workload in read("rmd_workloads", "RmdWorkload", of_workload)
        }
        own = [
            each
            for each in objects["rmd_node_states"]
            if subject_of(each, "").namespace == namespace
        ]
        states = dict(
            item for _state, item in read_each(own, "RmdNodeState", _read_state, findings)
        )
        return cls(namespace, nodes, workloads, states, configs, daemons, findings)

    @functools.cached_property
    def on_node(self) -> t.Mapping[str, t.Sequence[Desired]]:
        """The wanted workloads of each node."""
        found: dict[str, list[Desired]] = collections.defaultdict(list)
        for workload in self.workloads.values():
            for name in workload.nodes or ():
                if workload.desired is not None:
                    found[name].append(workload.desired)
        return dict(found)

    @property
    def problems(self) -> list[TargetError]:
        """The daemons without an endpoint."""
        return [
            TargetError(daemon.node, "", "unreachable", daemon.problem)
            for daemon in self.daemons.values()
            if daemon.problem
        ]

    def counts(self) -> Result:
        """Counts of objects, and unusable ones among them."""
        return {
            "daemons": len(self.daemons),
            "workloads": len(self.workloads),
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def wanted(self, node: str, options: Parameters, context: Context) -> DesiredState:
        """Wanted workloads of the node's daemon, and our workloads to delete there.

        An unreadable one stays unchanged.
        """
        desired = self.on_node.get(node, ())
        here = {item.uuid for item in desired}
        kept = {
            workload.uuid
            for workload in self.workloads.values()
            if workload.problem and (workload.nodes is None or node in workload.nodes)
        }
        state = self.states.get(node, _State())
        absent = sorted(self.uuids.union(state.managed) - here - kept)
        return DesiredState(
            desired,
            absent,
            known=state.known,
            shows_caches=True,
            wire=wire_of(options["daemons"]),
            require_capacity=options["require_capacity"],
            check_mode=context.check_mode,
        )

    def report(
        self, visits: t.Mapping[str, Visit]
    ) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
        """New statuses of all resources, and all node states."""
        outcomes = {
            (name, outcome.step.uuid): outcome
            for name, visit in visits.items()
            for outcome in visit.outcomes
        }
        statuses = list(
            self._each(
                [item.manifest for item in self.workloads.values()],
                "RmdWorkload",
                lambda manifest: self._status_of(key_of(manifest), visits, outcomes),
            )
        )
        states = [node_state(self.nodes[name], self.namespace) for name in self.daemons]
        statuses += self._each(
            states, "RmdNodeState", lambda state: self._node_status(state, visits)
        )
        of_pods = {item.uuid for item in self.workloads.values() if item.is_of_pod}

        def capacity(node: Object) -> dict[str, t.Any] | None:
            """Its status if the number of ways changed; 0 without a daemon."""
            visit = visits.get(node["metadata"]["name"])
            return node_capacity(node, ways_for_pods(visit, of_pods) if visit else 0)

        statuses += self._each(self.nodes.values(), "Node", capacity)
        statuses += self._each(
            self.configs, "RmdConfig", lambda config: self._config(config, visits)
        )
        return [status for status in statuses if status is not None], states

    def _each(
        self, objects: t.Iterable[Object], kind: str, read: t.Callable[[t.Any], T]
    ) -> t.Iterator[T]:
        return (found for _object, found in read_each(objects, kind, read, self.findings))

    def _status_of(
        self, key: str, visits: t.Mapping[str, Visit], outcomes: t.Mapping[tuple[str, str], Outcome]
    ) -> dict[str, t.Any] | None:
        workload = self.workloads[key]
        report = Report(workload.manifest)
        for name in () if workload.problem else workload.nodes or ():
            if name in visits:
                report.note(name, visits[name], outcomes.get((name, workload.uuid)))
            else:
                report.fail(name, *self._why_not(name))
        return report.manifest(workload.problem)

    def _node_status(self, state: Object, visits: t.Mapping[str, Visit]) -> dict[str, t.Any] | None:
        name = state["spec"]["node"]
        error = TargetError(name, "", "unreachable", self.daemons[name].problem)
        visit = visits.get(name) or Visit.lost(name, error)
        wanted = {item.uuid for item in self.on_node.get(name, ())}
        return node_status(state, self.states.get(name, _State()).manifest, visit, wanted)

    def inventories(self, visits: t.Sequence[Visit]) -> dict[str, t.Any]:
        """Content of each daemon that answered, by node."""
        by_uuid = {item.uuid: item.manifest for item in self.workloads.values()}
        of_node = {visit.target.name: visit.state for visit in visits if visit.state is not None}

        def held(node: Object) -> dict[str, t.Any]:
            state = of_node[node["metadata"]["name"]]
            return inventory(state.caches, state.stored, by_uuid)

        nodes = [self.nodes[name] for name in of_node]
        return {
            node["metadata"]["name"]: found
            for node, found in read_each(nodes, "Node", held, self.findings)
        }

    def _config(self, config: Object, visits: t.Mapping[str, Visit]) -> dict[str, t.Any] | None:
        """The status of an RmdConfig: its selected nodes, and those without a daemon."""
        selected = nodes_of_config(config, self.nodes.values())
        failures = []
        for name in selected:
            if name not in visits:
                failures.append((name, *self._why_not(name)))
            elif (error := visits[name].error) is not None:
                failures.append((name, error.reason, error.detail))
        return config_status(config, selected, failures)

    def _why_not(self, name: str) -> tuple[str, str]:
        if name not in self.nodes:
            return "not_found", f"there is no node {name}; correct spec.nodes"
        daemon = self.daemons.get(name)
        if daemon is None:
            return "not_found", "the node has no RMD daemon; install one, or give rmd_endpoints"
        return "unreachable", daemon.problem


def _read_workload(
    nodes: t.Mapping[str, Object],
    configs: t.Sequence[Object],
    daemons: t.Mapping[str, Daemon],
    findings: list[Finding],
    item: Object,
) -> _Workload:
    """An RmdWorkload; one with only an unreadable spec is kept with the reason."""
    uuid = uuid_of(*identity_of(item))
    of_pod = is_of_pod(item)

    def placed() -> list[str]:
        """The nodes: selected ones need a daemon, named ones do not."""
        names = nodes_of(item, nodes.values(), configs)
        is_selected = bool((item.get("spec") or {}).get("nodeSelector"))
        return [name for name in names if name in daemons or not is_selected]

    subject = subject_of(item, "RmdWorkload")
    names = guarded(subject, placed)
    desired = guarded(subject, functools.partial(desired_of_manifest, item))
    wanted = None if isinstance(desired, Finding) else desired
    where = None if isinstance(names, Finding) else names
    bad = next((each for each in (desired, names) if isinstance(each, Finding)), None)
    if bad is None:
        return _Workload(item, uuid, of_pod, where, wanted)
    findings.append(bad)
    return _Workload(item, uuid, of_pod, where, problem=bad.said)
