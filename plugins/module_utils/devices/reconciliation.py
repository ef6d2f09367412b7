# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Allocation of a cluster's devices to its pods' claims, the work of device_reconciliation."""

from __future__ import annotations

import functools
import random
import time
import typing as t
from dataclasses import dataclass, field, replace

from ..base import documents
from ..base.argspec import KUBERNETES, LEASE, PROGRESS, ArgumentSpec
from ..base.boundary import warn_of
from ..base.context import Context, Parameters, Result, difference
from ..bind.binding import VOLUME_TIMEOUT_SPEC, volume_timeout_of
from ..kube.client import Guard, Kube
from ..kube.lease import alone
from ..kube.source import trim_node
from ..scheduling.plan import Placement, Plan, UnplacedPod
from ..scheduling.scope import Scope
from ..snapshot.pods import trim_pod
from ..solving.limits import LIMITS, Limits
from .adapter.cluster import Change, ClaimResult, Pods, Report, UnitAllocation
from .adapter.pod_nodes import Room, beyond_limits, prefer, send_to_nodes, trimmed
from .allocation import READERS, STRATEGIES, describe
from .dra import reader as dra
from .dra.cluster import DraView
from .k8srm import reader as k8srm
from .k8srm.cluster import PrototypeView
from .model.findings import ApiObject, Defect, Key
from .model.model import Allocation
from .model.task import Options, Refusal, Task
from .model.watts import with_watts


class View(t.Protocol):
    """The objects of an API in a cluster as read at one moment; one attempt uses it.

    An adapter is a function ``(Kube, Context) -> View``. The steps of an attempt are:

    1. The adapter reads its objects. Nodes and pods are read after that. A claim names its pods
       before these are looked up, so a missing pod is gone.
    2. ``settle`` repairs the leftovers of an interrupted run, releases the devices of ended pods,
       and adds the claims that a pod brings itself. It writes, and the View shows the written
       state. ``room()`` lists the nodes, once for each attempt.
    3. ``objects`` is the input of the API's reader (allocation.READERS), without Nodes. It has the
       pods, each with the claims that it waits for in the API's own field.
    4. The claims are solved, on the nodes that have room for each pod (pod_nodes.py).
    5. ``give`` writes the allocations of the claims, for each unit all or none.
    6. Pods are bound or pinned to the node. ``take_back`` releases the devices of pods that their
       node refused.

    Each write of a View carries the resource version that it read. If the API server refuses it
    (409), or the object is gone (404), the View notes the object in ``Report.contended`` and writes
    nothing that depends on it. The next attempt reads again, so no device is given by a stale
    state. In check mode a View sends nothing, but behaves as if it did.
    """

    report: Report

    def settle(self, pods: Pods, room: t.Callable[[], Room]) -> None:
        """Repair and release. Raises ApiError if the server is lost or forbids it."""

    def objects(self) -> list[ApiObject]:
        """Input of the reader, after settle."""

    def placed(self) -> t.Mapping[Key, str]:
        """Nodes of pods whose claims all have devices, and that wait to be bound there."""

    def give(self, allocations: t.Sequence[UnitAllocation]) -> list[UnitAllocation]:
        """Write the allocations; return the completely written ones."""

    def take_back(self, pods: t.Sequence[Key]) -> None:
        """Release the claims of pods that did not get their node, unless others use them."""

    def explain(self, reasons: t.Mapping[Key, str]) -> None:
        """Write the reason into the claims of these pods without devices, where it is new."""


# Adapters by API group.
ADAPTERS: t.Mapping[str, t.Callable[[Kube, Context], View]] = {
    dra.GROUP: DraView,
    k8srm.GROUP: PrototypeView,
}

SPEC = KUBERNETES.merge(
    PROGRESS,
    LEASE,
    LIMITS,
    VOLUME_TIMEOUT_SPEC,
    ArgumentSpec(
        {
            "api_group": {"type": "str", "default": dra.GROUP, "choices": list(ADAPTERS)},
            "scheduler_name": {"type": "str", "default": "wattwise"},
            "gate": {"type": "str", "default": "wattwise.github.io/devices"},
            "plan": {"type": "path"},
            "device_power": {"type": "str"},
            "strategy": {"type": "str", "default": "optimal", "choices": list(STRATEGIES)},
        }
    ),
)

Planned = t.TypeVar("Planned", Placement, UnplacedPod)

_OPTIONS = Options(report=True, only_for_pods=True)

# An attempt is repeated only if another client wrote first, so some client always progresses.
_ATTEMPTS = 8
_MAX_PAUSE_SECONDS = 0.2


def reconcile(parameters: Parameters, context: Context = Context()) -> Result:
    """Release devices of ended pods, allocate devices to claims of waiting pods, and bind these.

    The result is that of the module. Raises InvalidInput, ApiError and MissingLibrary.
    """
    options = SPEC.complete(parameters)
    body = documents.load(options["plan"], "plan") if options["plan"] else None
    plan = None if body is None else Plan.from_document(body)
    return give_devices(Kube.connect(options), plan, options, context).as_result()


@dataclass(frozen=True)
class Reconciled:
    """All changes and problems of a run, and the answer of its last attempt."""

    answer: Result
    changes: t.Sequence[Change] = ()
    problems: t.Sequence[Refusal] = ()
    findings: t.Sequence[Defect] = ()

    def left_without(self, waiting: t.Mapping[Key, str]) -> dict[Key, str]:
        """Waiting pods that the run did not bind, with its more specific reasons."""
        sent = {
            (each.namespace, each.name)
            for each in self.changes
            if each.kind == "Pod" and each.action in ("bound", "pinned")
        }
        reasons = _unplaced(self.answer) | _refused(self.problems)
        return {key: reasons.get(key, reason) for key, reason in waiting.items() if key not in sent}

    def as_result(self) -> Result:
        """The result of device_reconciliation."""
        texts = (
            (f"{one.kind} {one.namespace}/{one.name}", one.before, one.after)
            for one in self.changes
        )
        return {
            "changed": bool(self.changes),
            "changes": [change.as_dict() for change in self.changes],
            "errors": [problem.as_error() for problem in self.problems],
            "outcome": self.answer["outcome"],
            "pods": self.answer["pods"],
            "node_results": self.answer["node_results"],
            "conflict": self.answer["conflict"],
            "objective": self.answer["objective"],
            "findings": [finding.as_dict() for finding in self.findings],
            "diff": difference("devices", texts),
        }


def give_devices(
    kube: Kube,
    plan: Plan | None,
    options: Parameters,
    context: Context,
    scope: Scope | None = None,
    *,
    is_approved: bool = False,
) -> Reconciled:
    """Like ``reconcile``, with the plan as a value; without one no node is restricted.

    Pods and nodes outside of ``scope`` are not touched. If the plan ``is_approved``, only its pods
    get devices, each on its planned node.
    """
    Limits.of(options)
    volume_timeout_of(options)

    def work(guard: Guard | None) -> Reconciled:
        guarded_kube = kube.guarded(guard)
        return _Reconciliation(
            guarded_kube, plan or Plan(()), options, context, scope, is_approved
        ).run()

    return alone(kube, options, context, work)


@dataclass
class _Reconciliation:
    kube: Kube
    plan: Plan
    options: Parameters
    context: Context
    scope: Scope | None = None
    is_approved: bool = False
    changes: list[Change] = field(default_factory=list)
    problems: list[Refusal] = field(default_factory=list)
    contended: set[str] = field(default_factory=set)
    findings: list[Defect] = field(default_factory=list)
    _reasons: dict[Key, str] = field(default_factory=dict)

    def run(self) -> Reconciled:
        """Attempts until one has no conflict."""
        answer: Result = {}
        for attempt in range(_ATTEMPTS):
            if attempt:
                # Random, because two runs with equal waits would conflict again.
                time.sleep(random.uniform(0, _MAX_PAUSE_SECONDS))
            answer = self._attempt()
            if not self.contended:
                break
        else:
            text = "other clients kept changing it during the allocation; run again"
            self.problems += [Refusal("", "", name, text) for name in sorted(self.contended)]
        warn_of(self.findings, self.context)
        return Reconciled(answer, self.changes, self.problems, self.findings)

    def _attempt(self) -> Result:
        self.problems = []
        view = ADAPTERS[self.options["api_group"]](self.kube, self.context)
        pods = self._read_pods()
        # The nodes are listed once for each attempt, when they are needed first.
        room_now = functools.lru_cache(lambda: self._read_room(pods))
        view.settle(pods, room_now)
        self._reasons = {}
        self._send(view, pods, _within_limits(view, pods))
        room = room_now()
        task, allocation = self._solve(self._task(view, room), pods)
        why_not = functools.partial(self._why_not, room, pods.planned)
        answer = describe(task, allocation, Limits.of(self.options), why_not)
        written = view.give(allocations_of(task, allocation))
        self._send(view, pods, {key: unit.node for unit in written for key in unit.pods})
        view.explain({**self._reasons_without_devices(task, answer, pods), **self._reasons})
        self.changes += view.report.changes
        self.problems += [*view.report.problems, *task.refused]
        self.contended = view.report.contended
        found = (*view.report.found, *room.findings.found, *task.findings)
        self.findings = list({(one.subject, one.field, one.problem): one for one in found}.values())
        return answer

    def _solve(self, task: Task, pods: Pods) -> tuple[Task, Allocation]:
        """The answer, with pods on the nodes of the plan as far as their devices are available.

        A pod whose planned devices are gone may go to another node; if it takes the devices of
        another pod there, the plan is ignored.
        """
        solve = STRATEGIES[self.options["strategy"]]
        planned = dict(pods.planned)
        if self.is_approved:
            confined = prefer(task, planned, only=True)
            return confined, solve(confined.instance, Limits.of(self.options))
        for _attempt in range(2):
            preferred = prefer(task, planned)
            allocation = solve(preferred.instance, Limits.of(self.options))
            in_vain = planned.keys() & without_devices(preferred, allocation)
            if not in_vain:
                return preferred, allocation
            planned = {key: node for key, node in planned.items() if key not in in_vain}
        return task, solve(task.instance, Limits.of(self.options))

    def _why_not(self, room: Room, planned: t.Mapping[Key, str], key: Key) -> t.Mapping[str, str]:
        """Reasons by the names of nodes that do not take the pod."""
        reasons = room.why_not(key)
        if not self.is_approved or key not in planned:
            return reasons
        others = dict.fromkeys(room.names, "node(s) outside of the approved plan")
        others.pop(planned[key], None)
        return {**others, **reasons}

    def _reasons_without_devices(self, task: Task, answer: Result, pods: Pods) -> dict[Key, str]:
        """Reasons of refused pods, and of pods that the answer leaves without devices."""
        reasons = _refused(task.refused) | _unplaced(answer)
        planned = _by_present_pod(self.plan.unplaced, pods)
        return {
            key: planned[key].message if key in planned else reason
            for key, reason in reasons.items()
        }

    def _read_room(self, pods: Pods) -> Room:
        nodes = self.kube.list("/api/v1/nodes", trim=lambda node: trimmed(node, "Node", trim_node))
        return Room(nodes, pods)

    def _read_pods(self) -> Pods:
        query = {"fieldSelector": "status.phase!=Succeeded,status.phase!=Failed"}
        found = self.kube.list("/api/v1/pods", query, lambda pod: trimmed(pod, "Pod", trim_pod))
        by_key = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in found}
        options = self.options
        pods = Pods(by_key, options["scheduler_name"], options["gate"], self.scope)
        placed = _by_present_pod(self.plan.placements, pods)
        planned = {key: entry.node for key, entry in placed.items()}
        scope = self.scope
        if self.is_approved:
            scope = Scope(frozenset(planned.values()), frozenset(planned))
        limits = self.plan.limits or ()
        return replace(
            pods,
            scope=scope,
            planned=planned,
            limited=frozenset(name for one in limits for name in one["nodes"]),
            closed=self.plan.closed or {},
        )

    def _task(self, view: View, room: Room) -> Task:
        objects = [*map(ApiObject, room.manifests), *view.objects()]
        task = room.restrict(READERS[self.options["api_group"]](objects, _OPTIONS))
        return replace(
            task, instance=with_watts(task.instance, self.options["device_power"], {}, objects)
        )

    def _send(self, view: View, pods: Pods, nodes: t.Mapping[Key, str]) -> None:
        """Bind or pin; if a node refuses a pod after all, its devices become free.

        Pods of one attempt may exceed a node, so another attempt looks for other nodes.
        """
        seconds = volume_timeout_of(self.options)
        sent = send_to_nodes(self.kube, self.context, view.report, pods, nodes, seconds)
        view.take_back(sent.refused)
        self._reasons.update(sent.reasons)
        if not self.context.check_mode:
            view.report.contended.update(f"Pod {'/'.join(key)}" for key in sent.skipped)


def _within_limits(view: View, pods: Pods) -> dict[Key, str]:
    """The nodes of pods that have their devices, as far as limits allow them."""
    nodes: dict[Key, str] = {}
    for key, node in view.placed().items():
        reason = beyond_limits(key, pods).get(node)
        if reason is None:
            nodes[key] = node
        else:
            view.report.refuse("Pod", key, f"its devices are on node {node}: {reason}")
    return nodes


def _refused(refusals: t.Iterable[Refusal]) -> dict[Key, str]:
    return {(one.namespace, one.name): one.reason for one in refusals if one.kind == "Pod"}


def _unplaced(answer: Result) -> dict[Key, str]:
    """Reasons of the pods that the answer leaves without devices."""
    pods = (pod for pod in answer["pods"] if pod["node"] is None)
    return {(pod["namespace"], pod["name"]): pod["message"] for pod in pods}


def without_devices(task: Task, allocation: Allocation) -> set[Key]:
    """Pods of units with a claim that gets nothing."""
    return {
        key
        for unit, pods in zip(task.instance.units, task.pods)
        if any(allocation.claims[claim] is None for claim in unit.claims)
        for key in pods
    }


def allocations_of(task: Task, allocation: Allocation) -> list[UnitAllocation]:
    """The answer by units; a unit with a claim that gets nothing is left out."""
    units = []
    for unit, pods in zip(task.instance.units, task.pods):
        chosen = [(claim, allocation.claims[claim]) for claim in unit.claims]
        found = [(claim, given) for claim, given in chosen if given is not None]
        if len(found) < len(chosen):
            continue
        claims = [
            (task.instance.claims[claim], task.result(claim, given)) for claim, given in found
        ]
        results = tuple(ClaimResult(one.namespace, one.name, one.uid, got) for one, got in claims)
        units.append(UnitAllocation(pods, found[0][1].node, results))
    return units


def _by_present_pod(entries: t.Iterable[Planned], pods: Pods) -> dict[Key, Planned]:
    """A part of the plan by pods, without pods that were replaced meanwhile.

    Its reasons for ``unplaced`` pods are used here too, because the reasons of two modules would
    alternate.
    """
    by_key = {(one.namespace, one.pod): one for one in entries}
    return {
        key: by_key[key]
        for key, pod in pods.by_key.items()
        if key in by_key and by_key[key].uid in (None, "", pod["metadata"]["uid"])
    }
