# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The statuses of RmdWorkloads, RmdNodeStates and RmdConfigs after a visit of the daemons.

Nodes get their number of cache ways for pods, the extended resource ``intel.com/l3_cache_ways``. It
is the ways of the guaranteed pools of all caches, less those of workloads without a pod. Ways of
pods' workloads stay in it, because the scheduler itself subtracts the requests of pods.
rmd-operator wrote the mask of the ways as a number, once.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.json_types import Object
from ..base.manifests import MANAGED_BY_LABEL, MANAGER
from ..base.units import format_cpu_list
from ..kube.apply.prune import APPLY_SET_LABEL
from ..kube.resource.conditions import changed_status
from .daemon.apply import Visit
from .daemon.cache import GUARANTEED, Cache
from .daemon.run import FAILED_RESPONSE, Outcome
from .daemon.workload import Stored
from .layout import POOLS
from .manifests import API_VERSION, STATE_PREFIX, managed_of
from .pods import CACHE_WAYS

APPLY_SET = "wattwise-rmd-node-states"
_SHOWN_FAILURES = 3


@dataclass
class Report:
    """Outcome of one RmdWorkload: a state by node, and the reason if it is not ready."""

    workload: Object
    states: dict[str, dict[str, t.Any]] = field(default_factory=dict)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def note(self, node: str, visit: Visit, outcome: Outcome | None) -> None:
        """Result of the visit of a node's daemon."""
        if outcome is None:
            if visit.error is not None:
                self.fail(node, visit.error.reason, visit.error.detail)
            return
        self.states[node] = _state(outcome)
        if outcome.problem is None:
            return
        sentence = f"{node}: {outcome.problem.detail}"
        if outcome.problem.reason == "conflict":
            self.conflicts.append(sentence)
        if outcome.has_failed:
            self.failures.append((node, outcome.problem.reason, outcome.problem.detail))

    def fail(self, node: str, reason: str, detail: str) -> None:
        """The daemon was not visited, or did not answer; its known state stays."""
        stored = ((self.workload.get("status") or {}).get("workloadStates") or {}).get(node) or {}
        self.states[node] = {**stored, "response": FAILED_RESPONSE + detail}
        self.failures.append((node, reason, detail))

    def manifest(self, problem: str = "") -> dict[str, t.Any] | None:
        """The status to write; None if the stored one is equal."""
        status: dict[str, t.Any] = {
            "observedGeneration": self.workload["metadata"].get("generation") or 0,
            "conditions": [self._ready(problem), self._conflicting()],
            **_filled(workloadStates=self.states),
        }
        return changed_status(API_VERSION, "RmdWorkload", self.workload, status)

    def _ready(self, problem: str) -> dict[str, str]:
        if problem:
            return _condition("Ready", False, "Invalid", problem)
        if self.failures:
            return _unready(self.failures)
        if not self.states:
            return _condition("Ready", False, "NoNode", "It names no node, and selects none.")
        return _condition("Ready", True, "Configured", f"On {len(self.states)} nodes.")

    def _conflicting(self) -> dict[str, str]:
        if self.conflicts:
            return _condition("Conflicting", True, "SharedCpus", "; ".join(self.conflicts))
        return _condition("Conflicting", False, "NoConflict", "No other workload has its CPUs.")


def node_state(node: Object, namespace: str) -> dict[str, t.Any]:
    """The RmdNodeState of a node, which is deleted with the node."""
    name, uid = node["metadata"]["name"], node["metadata"]["uid"]
    metadata = {
        "name": STATE_PREFIX + name,
        "namespace": namespace,
        "labels": {MANAGED_BY_LABEL: MANAGER, APPLY_SET_LABEL: APPLY_SET},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
    }
    spec = {"node": name, "nodeUid": uid}
    return {"apiVersion": API_VERSION, "kind": "RmdNodeState", "metadata": metadata, "spec": spec}


def node_status(
    manifest: Object, stored: Object | None, visit: Visit, wanted: t.Collection[str]
) -> dict[str, t.Any] | None:
    """The status of an RmdNodeState; None if the stored one is equal.

    The last state of a daemon without an answer stays. ``wanted`` are the uuids that our workloads
    have on this node.
    """
    before = dict((stored or {}).get("status") or {})
    before.pop("conditions", None)
    if visit.state is None:
        detail = visit.error.detail if visit.error else ""
        status = {**before, "conditions": [_condition("Reachable", False, "NotRead", detail)]}
    else:
        present = {item.uuid for item in visit.state.stored}
        managed = sorted(present & {*wanted, *managed_of(stored)})
        reachable = _condition("Reachable", True, "Read", "The daemon answers.")
        status = {
            "conditions": [reachable],
            **_filled(workloads={_key(item): shown(item) for item in visit.state.stored}),
            **_filled(managed=managed),
            **_ways(visit.state.caches),
        }
    return changed_status(API_VERSION, "RmdNodeState", stored or manifest, status)


def config_status(
    config: Object, nodes: t.Sequence[str], failures: t.Sequence[tuple[str, str, str]]
) -> dict[str, t.Any] | None:
    """The status of an RmdConfig; None if the stored one is equal.

    ``nodes`` are its selected nodes; ``failures`` has node, reason and detail of those whose daemon
    does not answer.
    """
    if not nodes:
        ready = _condition("Ready", False, "NoNode", "No node has the labels of rmdNodeSelector.")
    elif failures:
        ready = _unready(failures)
    else:
        ready = _condition("Ready", True, "Running", f"On {len(nodes)} nodes.")
    status: dict[str, t.Any] = {
        "observedGeneration": config["metadata"].get("generation") or 0,
        "conditions": [ready],
        **_filled(nodes=sorted(nodes)),
    }
    return changed_status(API_VERSION, "RmdConfig", config, status)


def shown(stored: Stored) -> dict[str, str]:
    """A workload in upstream's terms, without empty members."""
    settings = stored.settings
    most, least = settings.cache or (None, None)
    words = {
        "ID": stored.id,
        "Core IDs": ",".join(stored.core_ids),
        "Status": stored.status,
        "Cos Name": stored.cos_name,
        "Cache Max": most,
        "Cache Min": least,
        "Origin": stored.origin,
        "Policy": settings.policy,
        "P-State Ratio": None if settings.ratio is None else f"{settings.ratio:f}",
        "P-State Monitoring": settings.monitoring,
        "MBA Percentage": settings.mba_percentage,
        "MBA Mbps": settings.mba_mbps,
    }
    return {name: str(value) for name, value in words.items() if value not in (None, "")}


def _key(stored: Stored) -> str:
    """Upstream shows all workloads without a uuid under one empty name."""
    return stored.uuid or f"id {stored.id}"


def _state(outcome: Outcome) -> dict[str, t.Any]:
    stored = outcome.stored
    # Upstream has 201 at first and 200 from its second pass on; a constant code causes no write.
    response = outcome.response.replace("Success: 201", "Success: 200")
    state: dict[str, t.Any] = {"response": response}
    if stored is None:
        return state
    state |= {"id": stored.id, "cosName": stored.cos_name, "status": stored.status}
    state["coreIds"] = list(stored.core_ids)
    settings = stored.settings.as_dict()
    rdt = {name: settings[name] for name in ("cache", "mba") if name in settings}
    if "policy" in settings:
        state["policy"] = settings["policy"]
    if rdt:
        state["rdt"] = rdt
    if "pstate" in settings:
        pstate = {name: str(value) for name, value in settings["pstate"].items()}
        state["plugins"] = {"pstate": pstate}
    return state


def _ways(caches: t.Sequence[Cache]) -> dict[str, t.Any]:
    if not caches:
        return {}
    free = {cache.id: len(cache.free.get(GUARANTEED, ())) for cache in caches}
    longest = {cache.id: cache.longest_run() for cache in caches}
    return {
        "freeWays": " ".join(f"{key}:{count}" for key, count in free.items()),
        "longestFreeRun": " ".join(f"{key}:{count}" for key, count in longest.items()),
        "caches": [_cache(cache) for cache in caches],
    }


def _cache(cache: Cache) -> dict[str, t.Any]:
    pools = {
        pool: {
            "free": format_cpu_list(cache.free[pool]),
            "freeWays": len(cache.free[pool]),
            "longestFreeRun": cache.longest_run(pool),
        }
        for pool in POOLS
        if pool in cache.free
    }
    cpus = format_cpu_list(cache.cpus)
    return {"cacheId": cache.id, "ways": cache.ways, "cpus": cpus, **pools}


def _filled(**members: t.Any) -> dict[str, t.Any]:
    """The value without empty members, because server-side apply turns an emptied map into null."""
    return {name: value for name, value in members.items() if value}


def _unready(failures: t.Sequence[tuple[str, str, str]]) -> dict[str, str]:
    """The condition of failures on some nodes: the first reason, and the first few details."""
    shown_first = [f"{node}: {detail}" for node, _reason, detail in failures[:_SHOWN_FAILURES]]
    more = len(failures) - _SHOWN_FAILURES
    text = "; ".join(shown_first) + (f"; and {more} more" if more > 0 else "")
    reason = "".join(part.capitalize() for part in failures[0][1].split("_"))
    return _condition("Ready", False, reason, text)


def _condition(kind: str, holds: bool, reason: str, message: str) -> dict[str, str]:
    status = "True" if holds else "False"
    return {"type": kind, "status": status, "reason": reason, "message": message}


def ways_for_pods(visit: Visit, of_pods: t.Collection[str]) -> int:
    """The number of ways; ``of_pods`` are uuids of workloads that pods own.

    0 if the daemon did not answer or has no caches, because nothing can be promised then.
    """
    if visit.state is None:
        return 0
    caches = visit.state.caches
    there = sum(cache.ways for cache in caches)
    ways = sum(len(cache.free.get(GUARANTEED, ())) for cache in caches)
    for stored in visit.state.stored:
        most, least = stored.settings.cache or (0, 0)
        if stored.uuid in of_pods and most == least:
            cpus = stored.cpus or frozenset()
            ways += most * sum(1 for cache in caches if cache.cpus & cpus)
    # A daemon may report workloads with more ways than exist.
    return min(ways, there)


def is_of_pod(workload: Object) -> bool:
    """Whether a pod owns the RmdWorkload, so that the garbage collector deletes both."""
    references = workload["metadata"].get("ownerReferences") or []
    return any(each.get("kind") == "Pod" and each.get("controller") for each in references)


def node_capacity(node: Object, ways: int) -> dict[str, t.Any] | None:
    """The Node's status to write; None if it is equal, or missing and not needed.

    The kubelet derives allocatable from the capacity; without a kubelet nothing does, so both are
    written.
    """
    status = node.get("status") or {}
    stored = {(status.get(part) or {}).get(CACHE_WAYS) for part in ("capacity", "allocatable")}
    if stored == {str(ways)} or (ways == 0 and stored <= {None, "0"}):
        return None
    amount = {CACHE_WAYS: str(ways)}
    metadata = {"name": node["metadata"]["name"]}
    written = {"capacity": amount, "allocatable": amount}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": written}
