# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""All RmdWorkloads of a cluster against all its daemons: the work of rmd_reconciliation."""

from __future__ import annotations

import collections
import functools
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils import documents
from ansible_collections.wattwise.kube.plugins.module_utils.argspec import (
    PROGRESS,
    RMD,
    ArgumentSpec,
)
from ansible_collections.wattwise.kube.plugins.module_utils.context import (
    Context,
    Parameters,
    Result,
)
from ansible_collections.wattwise.kube.plugins.module_utils.errors import TargetError
from ansible_collections.wattwise.kube.plugins.module_utils.readout import (
    conclude,
    fleet_options,
    warn_of_plain_http,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.apply import (
    Visit,
    difference,
    reconcile_daemons,
    result_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.capacity import (
    is_of_pod,
    node_capacity,
    ways_for_pods,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.inventory import inventory
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.manifests import (
    STATE_PREFIX,
    Daemon,
    Object,
    daemons_of,
    key_of,
    known_of,
    managed_of,
    nodes_of,
    nodes_of_config,
    readable,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.run import Wanted
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.statuses import (
    Report,
    config_status,
    node_state,
    node_status,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.targets import (
    daemon_targets,
    wire_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.workload import (
    Desired,
    uuid_of,
)

SPEC = ArgumentSpec(
    {
        "snapshot": {"type": "path", "required": True},
        "endpoints": {"type": "dict", "default": {}},
        "namespace": {"type": "str", "default": "default"},
        "require_capacity": {"type": "bool", "default": False},
        "path": {"type": "path"},
    }
).merge(RMD, PROGRESS)


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Bring every daemon to what the RmdWorkloads want of it, and say what came of each.

    ``path`` gets the document ``rmd``: ``node_states`` and ``statuses``, manifests for kube_apply,
    and under ``daemons`` what each of them holds now.
    Raises InvalidInput, and WattwiseError with all results where too few daemons answered.
    """
    options = SPEC.complete(parameters)
    fleet = fleet_options(options)
    made_from = documents.MadeFrom.read(options["snapshot"])
    cluster = _Cluster.of(documents.load(options["snapshot"], "snapshot"), options)
    asked = [daemon for daemon in cluster.daemons.values() if daemon.endpoint]
    targets = daemon_targets(
        options, [{"name": daemon.node, "endpoint": daemon.endpoint} for daemon in asked]
    )
    wanted = [cluster.wanted(daemon.node, options, context) for daemon in asked]
    warn_of_plain_http(targets, context)
    visits = reconcile_daemons(targets, wanted, fleet, context.progress)
    statuses, states = cluster.report({visit.target.name: visit for visit in visits})
    results = [result_of(visit, outcome) for visit in visits for outcome in visit.outcomes]
    lost = [visit.error for visit in visits if visit.error] + cluster.problems
    errors = [error for visit in visits for error in visit.errors] + cluster.problems
    result: Result = {
        "results": results,
        "diff": difference(visits),
        "daemons": len(cluster.daemons),
        "workloads": len(cluster.workloads),
    }
    manifests = {"node_states": states, "statuses": statuses}
    result |= _handed_over(
        options["path"], manifests, cluster.inventories(visits), errors, made_from
    )
    # What somebody asks for in vain is told on that RmdWorkload, and is no failure of the daemon.
    return conclude(
        options,
        len(cluster.daemons),
        errors,
        result,
        changed=any(entry["changed"] for entry in results),
        counted=lost,
    )


def _handed_over(
    path: str | None,
    manifests: Result,
    daemons: Result,
    errors: t.Sequence[TargetError],
    made_from: documents.MadeFrom,
) -> Result:
    """The manifests by path, in a document, or as they are."""
    if path is None:
        return manifests
    told = [error.as_dict() for error in errors]
    documents.write(path, "rmd", {**manifests, "daemons": daemons, "errors": told}, made_from)
    return {"path": path}


@dataclass
class _Cluster:
    """What the snapshot says, joined: which workloads go to which daemons."""

    namespace: str
    nodes: t.Mapping[str, Object]
    workloads: t.Mapping[str, Object]
    states: t.Mapping[str, Object]
    configs: t.Sequence[Object]
    daemons: t.Mapping[str, Daemon]
    desired: t.Mapping[str, Desired]
    invalid: t.Mapping[str, str]
    placed: t.Mapping[str, t.Sequence[str]]
    on_node: t.Mapping[str, t.Sequence[Desired]]
    problems: list[TargetError] = field(default_factory=list)

    @functools.cached_property
    def uuids(self) -> frozenset[str]:
        """Under which the RmdWorkloads stand in daemons, wherever they are for."""
        return frozenset(map(_uuid, self.workloads.values()))

    @classmethod
    def of(cls, snapshot: Object, options: Parameters) -> _Cluster:
        nodes = {node["metadata"]["name"]: node for node in snapshot["nodes"]}
        workloads = {key_of(item): item for item in snapshot.get("rmd_workloads") or []}
        desired, invalid = readable(list(workloads.values()))
        configs = snapshot.get("rmd_configs") or []
        everything = list(nodes.values())
        daemons = daemons_of(
            everything,
            snapshot.get("rmd_pods") or [],
            options["endpoints"] or {},
            options["namespace"],
        )
        placed = {
            key: _with_daemons(item, nodes_of(item, everything, configs), daemons)
            for key, item in workloads.items()
        }
        on_node: dict[str, list[Desired]] = collections.defaultdict(list)
        for key, names in placed.items():
            for name in names if key in desired else ():
                on_node[name].append(desired[key])
        states = {
            state["metadata"]["name"][len(STATE_PREFIX) :]: state
            for state in snapshot.get("rmd_node_states") or []
            if state["metadata"].get("namespace") == options["namespace"]
        }
        problems = [
            TargetError(daemon.node, "", "unreachable", daemon.problem)
            for daemon in daemons.values()
            if daemon.problem
        ]
        return cls(
            options["namespace"], nodes, workloads, states, configs, daemons, desired, invalid,
            placed, on_node, problems,
        )  # fmt: skip

    def wanted(self, node: str, options: Parameters, context: Context) -> Wanted:
        """What the node's daemon shall have, and which of our workloads it shall lose.

        One that cannot be understood is left as it is where it is.
        """
        desired = self.on_node.get(node, ())
        here = {item.uuid for item in desired}
        kept = {_uuid(self.workloads[key]) for key in self.invalid if node in self.placed[key]}
        state = self.states.get(node)
        absent = sorted(self.uuids.union(managed_of(state)) - here - kept)
        return Wanted(
            desired,
            absent,
            known=known_of(state),
            shows_caches=True,
            wire=wire_of(options),
            require_capacity=options["require_capacity"],
            check_mode=context.check_mode,
        )

    def report(
        self, visits: t.Mapping[str, Visit]
    ) -> tuple[list[dict[str, t.Any]], list[dict[str, t.Any]]]:
        """Statuses that are new, of all that have one here, and all node states."""
        outcomes = {
            (name, outcome.step.uuid): outcome
            for name, visit in visits.items()
            for outcome in visit.outcomes
        }
        statuses: list[dict[str, t.Any] | None] = []
        for key, workload in self.workloads.items():
            report = Report(workload)
            for name in self.placed[key] if key not in self.invalid else ():
                if name in visits:
                    report.note(name, visits[name], outcomes.get((name, _uuid(workload))))
                else:
                    report.fail(name, *self._why_not(name))
            statuses.append(report.manifest(self.invalid.get(key, "")))
        states = []
        for name, daemon in self.daemons.items():
            state = node_state(self.nodes[name], self.namespace)
            error = TargetError(name, "", "unreachable", daemon.problem)
            visit = visits.get(name) or Visit.lost(name, error)
            wanted = {item.uuid for item in self.on_node.get(name, ())}
            statuses.append(node_status(state, self.states.get(name), visit, wanted))
            states.append(state)
        statuses += self._capacities(visits)
        statuses += [self._config(config, visits) for config in self.configs]
        return [status for status in statuses if status is not None], states

    def inventories(self, visits: t.Sequence[Visit]) -> dict[str, t.Any]:
        """What each daemon that answered holds, by node."""
        by_uuid = {_uuid(workload): workload for workload in self.workloads.values()}
        return {
            visit.target.name: inventory(visit.run.caches, visit.run.stored, by_uuid)
            for visit in visits
            if visit.run is not None
        }

    def _capacities(self, visits: t.Mapping[str, Visit]) -> t.Iterator[dict[str, t.Any] | None]:
        """Statuses of Nodes whose number of cache ways is another now; 0 where no daemon is."""
        of_pods = {_uuid(item) for item in self.workloads.values() if is_of_pod(item)}
        for name, node in self.nodes.items():
            ways = ways_for_pods(visits[name], of_pods) if name in visits else 0
            yield node_capacity(node, ways)

    def _config(self, config: Object, visits: t.Mapping[str, Visit]) -> dict[str, t.Any] | None:
        """The status of an RmdConfig: which nodes it selects, and which of them lack a daemon."""
        selected = nodes_of_config(config, list(self.nodes.values()))
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


def _with_daemons(
    workload: Object, names: t.Sequence[str], daemons: t.Mapping[str, Daemon]
) -> list[str]:
    """Nodes that are selected without having a daemon are not meant; named ones are."""
    is_selected = bool((workload.get("spec") or {}).get("nodeSelector"))
    return [name for name in names if name in daemons or not is_selected]


def _uuid(workload: Object) -> str:
    metadata = workload["metadata"]
    return uuid_of(metadata.get("namespace") or "", metadata["name"])
