# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The status of a KeplerSystem: conditions, counts by group and pool, and problems.

Conditions follow the order of decisions of upstream's operator. Upstream's message about an empty
DaemonSet also covers crashing pods; here a crash is reported with its last message, of the
container or of its runtime.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ...base.boundary import Finding, guarded, shown_text, subject_of
from ...base.errors import told_text
from ...base.fields.lenient import member, objects, whole
from ...base.json_types import Object
from ...kube.resource.conditions import (
    Failure,
    condition,
    kept,
    of_generation,
    reconciled,
    status_of_generation,
)
from . import names
from .groups import Group
from .nodes import JudgedNode
from .system import System

CRASHING, WAITING = "crashing", "waiting"
_MAX_MESSAGE_LENGTH = 400
_MAX_REASON_LENGTH = 60
# Transient reasons of a waiting container.
_COMING = ("ContainerCreating", "PodInitializing", "")


@dataclass(frozen=True)
class Trouble:
    """A pod that does not run. ``kind`` is crashing, or waiting forever."""

    group: str
    pod: str
    node: str
    kind: str
    message: str


def troubles(pods: t.Iterable[t.Any]) -> list[Trouble]:
    """The collectors that crash or wait forever, by name. Pods are unchecked."""
    found: list[Trouble] = []
    for pod in pods:
        read = guarded(subject_of(pod, "Pod"), functools.partial(_trouble, pod))
        if read is not None and not isinstance(read, Finding):
            found.append(read)
    return sorted(found, key=lambda one: (one.group, one.pod))


def _trouble(pod: t.Any) -> Trouble | None:
    for status in objects(member(pod, "status", "containerStatuses")):
        found = _of_container(status)
        if found is not None:
            return _named(pod, *found)
    for each in objects(member(pod, "status", "conditions")):
        if each.get("type") == "PodScheduled" and each.get("status") == "False":
            return _named(pod, WAITING, str(each.get("message", "it is not scheduled")))
    return None


def _named(pod: t.Any, kind: str, message: str) -> Trouble:
    node = member(pod, "spec", "nodeName")
    return Trouble(
        group=str(member(pod, "metadata", "labels", names.GROUP_LABEL) or ""),
        pod=subject_of(pod, "Pod").name,
        node=shown_text(node, 253) if isinstance(node, str) else "",
        kind=kind,
        message=shown_text(" ".join(message.split()), _MAX_MESSAGE_LENGTH),
    )


def _of_container(status: Object) -> tuple[str, str] | None:
    """Whether one container crashes or waits, and its last message."""
    reason = str(member(status, "state", "waiting", "reason") or "")
    ended = member(status, "state", "terminated") or member(status, "lastState", "terminated")
    is_again = ended and status.get("ready") is not True and reason in _COMING
    if reason == "CrashLoopBackOff" or is_again:
        return CRASHING, _last_words(ended)
    if reason not in _COMING:
        told = member(status, "state", "waiting", "message") or ""
        return WAITING, f"{shown_text(reason, _MAX_REASON_LENGTH)}: {told}"
    return None


def _last_words(ended: t.Any) -> str:
    code = member(ended, "exitCode")
    words = str(member(ended, "message") or "").strip()
    # The error is at the end of a log, so the beginning is cut.
    words = words[-_MAX_MESSAGE_LENGTH + 40 :]
    exits = f"exit code {code}" if isinstance(code, int) else "unknown exit code"
    return f"{exits}: {words}" if words else f"{exits}, without a message"


Status = dict[str, t.Any]

MAX_LISTED = 20
CONDITIONS = ("Reconciled", "Available", "NodesMetered", "PodNames")
_COUNTS = {
    "desired": "desiredNumberScheduled",
    "updated": "updatedNumberScheduled",
    "ready": "numberReady",
    "available": "numberAvailable",
}


@dataclass(frozen=True)
class Observation:
    """The cluster after a run; parts that it did not reach are empty.

    ``findings`` are defects of Nodes.
    """

    system: System
    nodes: t.Sequence[JudgedNode] = ()
    groups: t.Sequence[Group] = ()
    daemon_sets: t.Sequence[t.Any] = ()
    pods: t.Sequence[t.Any] = ()
    findings: t.Sequence[Finding] = ()

    @property
    def left_out(self) -> list[JudgedNode]:
        """The nodes that cannot be metered."""
        return [node for node in self.nodes if node.reason]


@dataclass(frozen=True)
class _Judgement:
    """The state of one DaemonSet; the lowest ``rank`` of all is reported."""

    rank: int
    status: str
    reason: str
    message: str


def status_of(
    seen: Observation | None, failure: Failure | None, generation: int, stored: Object
) -> Status:
    """The status after a run; parts that it did not reach are unchanged.

    ``seen`` is None for an invalid spec.
    """
    status = status_of_generation(failure, generation, stored)
    if seen is not None:
        status["version"] = str(seen.system.version)
    conditions = [reconciled(failure, remarks(seen) if seen else ())]
    if seen is not None and seen.nodes:
        failing = troubles(seen.pods)
        status.update(_counts(seen, failing))
        conditions += [_available(seen, failing), _metered(seen), _pod_names(seen.system)]
    else:
        parts = ("version", "nodes", "groups", "pools", "leftOut", "failing")
        status.update({name: stored[name] for name in parts if stored.get(name)})
        conditions += [kept(stored, name) for name in CONDITIONS[1:]]
    status["conditions"] = of_generation(conditions, generation)
    return status


def remarks(seen: Observation) -> list[str]:
    """Sentences on settings without an effect, in the spec and on nodes."""
    nodes = [node for node in seen.nodes if node.remark]
    found = [*seen.system.remarks]
    if nodes:
        found.append(f"{nodes[0].name}: {nodes[0].remark}")
    if len(nodes) > 1:
        found[-1] += f"; and {len(nodes) - 1} more nodes"
    return found


def _counts(seen: Observation, failing: t.Sequence[Trouble]) -> Status:
    groups = [_group_counts(seen, group) for group in seen.groups]
    left_out = seen.left_out
    crashing = [each for each in failing if each.kind == CRASHING]
    found: Status = {
        "nodes": {
            "selected": len(seen.nodes),
            "metered": len(seen.nodes) - len(left_out),
            "leftOut": len(left_out),
            "ready": sum(group["ready"] for group in groups),
            "crashing": len(crashing),
        },
        "groups": groups,
        "pools": _pools(seen, groups),
        "leftOut": [
            {"node": node.name, "reason": told_text(node.reason)} for node in left_out[:MAX_LISTED]
        ],
        "failing": [
            {"node": each.node, "pod": each.pod, "message": told_text(each.message)}
            for each in failing[:MAX_LISTED]
        ],
    }
    return {name: part for name, part in found.items() if part}


def _group_counts(seen: Observation, group: Group) -> Status:
    found = _daemon_set(seen, group)
    return {
        "name": group.name,
        "architecture": group.architecture,
        "meter": group.meter,
        **({"pool": group.pool} if group.pool else {}),
        "image": seen.system.image_for(group.architecture),
        "nodes": len(group.nodes),
        **{name: _count(found, key) for name, key in _COUNTS.items()},
    }


def _pools(seen: Observation, groups: t.Sequence[Status]) -> list[Status]:
    """Counts of each pool; empty without pools."""
    if not seen.system.pools:
        return []
    found: list[Status] = []
    for name in ("", *(pool.name for pool in seen.system.pools)):
        nodes = [node for node in seen.nodes if node.pool == name]
        own = [group for group in groups if group.get("pool", "") == name]
        counts = {
            "nodes": len(nodes),
            "metered": sum(not node.reason for node in nodes),
            "ready": sum(group["ready"] for group in own),
        }
        if name or nodes:
            found.append({"name": name or "others", **counts})
    return found


def _daemon_set(seen: Observation, group: Group) -> t.Any:
    wanted = names.daemon_set_name(seen.system, group)
    for each in seen.daemon_sets:
        if member(each, "metadata", "name") == wanted:
            return each
    return None


def _count(daemon_set: t.Any, key: str) -> int:
    return max(0, whole(member(daemon_set, "status", key)) or 0)


def _available(seen: Observation, failing: t.Sequence[Trouble]) -> Status:
    judged = [_judge(seen, group, failing) for group in seen.groups]
    if not judged:
        sentence = "No node can be metered, so that no collector runs."
        return condition("Available", "False", "NoSupportedNode", sentence)
    worst = min(judged, key=lambda each: each.rank)
    others = sum(each.rank < _READY for each in judged) - 1
    more = f" {others} more groups are not available." if others > 0 else ""
    if worst.rank == _READY:
        ready = sum(_count(_daemon_set(seen, group), "numberReady") for group in seen.groups)
        wanted = sum(
            _count(_daemon_set(seen, group), "desiredNumberScheduled") for group in seen.groups
        )
        text = f"Collectors run on all nodes that can be metered; ready {ready}/{wanted}."
        return condition("Available", "True", worst.reason, text)
    return condition("Available", worst.status, worst.reason, worst.message + more)


_READY = 8


def _judge(seen: Observation, group: Group, failing: t.Sequence[Trouble]) -> _Judgement:
    """The decision about one DaemonSet, in upstream's order, with crashes before rollouts."""
    name, found = names.daemon_set_name(seen.system, group), _daemon_set(seen, group)
    if found is None:
        return _Judgement(0, "False", "DaemonSetNotFound", f"There is no DaemonSet {name}.")
    generation = whole(member(found, "metadata", "generation")) or 0
    observed = _count(found, "observedGeneration")
    if generation > observed:
        sentence = (
            f"Generation {generation} of DaemonSet {name} is out of sync with the observed "
            f"generation {observed}."
        )
        return _Judgement(4, "Unknown", "DaemonSetOutOfSync", sentence)
    own = [each for each in failing if each.group == group.name]
    desired, updated, ready, available = (_count(found, key) for key in _COUNTS.values())
    for rank, kind, reason, verb in (
        (1, CRASHING, "PodsCrashing", "crash"),
        (2, WAITING, "PodsWaiting", "cannot start"),
    ):
        troubled = [each for each in own if each.kind == kind]
        if troubled:
            first = troubled[0]
            sentence = (
                f"{len(troubled)} of {desired} pods of DaemonSet {name} {verb}, the first is "
                f"{first.pod} on {first.node or 'no node'}: {first.message}"
            )
            return _Judgement(rank, "False", reason, sentence)
    return _by_counts(name, desired, updated, ready, available)


def _by_counts(name: str, desired: int, updated: int, ready: int, available: int) -> _Judgement:
    if desired == 0:
        text = (
            f"DaemonSet {name} is not rolled out to any node; check node selector, taints, labels."
        )
        return _Judgement(3, "False", "DaemonSetPodsNotRunning", text)
    if updated < desired:
        text = f"Rollout of DaemonSet {name}: {updated} of {desired} pods have been updated."
        return _Judgement(5, "Unknown", "DaemonSetRolloutInProgress", text)
    if ready == 0:
        text = f"None of the {desired} pods of DaemonSet {name} is ready."
        return _Judgement(3, "False", "DaemonSetPodsNotRunning", text)
    if available < desired:
        text = f"{available} of {desired} pods of DaemonSet {name} are available."
        return _Judgement(6, "False", "DaemonSetPartiallyAvailable", text)
    return _Judgement(_READY, "True", "DaemonSetReady", "")


def _metered(seen: Observation) -> Status:
    left_out = seen.left_out
    if not left_out:
        text = f"All {len(seen.nodes)} nodes can be metered."
        return condition("NodesMetered", "True", "AllNodesMetered", text)
    first = left_out[0]
    text = (
        f"{len(left_out)} of {len(seen.nodes)} nodes are left out, the first is {first.name}: "
        f"{first.reason}"
    )
    return condition("NodesMetered", "False", "NodesLeftOut", text)


def _pod_names(system: System) -> Status:
    if system.is_cluster_wide:
        text = "Metrics name pods and their namespaces."
        return condition("PodNames", "True", "ClusterScope", text)
    text = (
        "Metrics name containers only by id: the minimum scope gives Kepler no permission to read "
        "pods. Set scope to cluster for names."
    )
    return condition("PodNames", "False", "MinimumScope", text)
