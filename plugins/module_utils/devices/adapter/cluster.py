# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Interface between device_reconciliation and the adapters of both APIs in a cluster.

An adapter (k8srm/cluster.py, dra/cluster.py) is a function ``(Kube, Context) -> View``, registered
in reconciliation.APIS under the name of its API group. A View is the API's objects as read at one
moment, and is discarded after one attempt. The steps of an attempt are:

1. The adapter reads its objects. Nodes and pods are read after that. A claim names its pods before
   these are looked up, so a missing pod is gone.
2. ``View.settle(pods)`` repairs the leftovers of an interrupted run, releases the devices of ended
   pods, and adds the claims that a pod brings itself. It writes, and the View shows the written
   state.
3. ``View.objects()`` is the input of the API's reader (Api.read_task), without Nodes. It has the
   pods, each with the claims that it waits for in the API's own field.
4. reconciliation.py solves, on the nodes that have room for each pod (pod_nodes.py).
5. ``View.give(grants)`` writes the allocations of the claims, for each grant all or none.
6. Pods are bound or pinned to the node. ``View.take_back(grants)`` undoes the grants of this
   attempt for pods that their node refused.

Each write of a View carries the resource version that it read. If the API server refuses it (409),
or the object is gone (404), the View notes the object in ``Report.contended`` and writes nothing
that depends on it. The next attempt reads again, so no device is given by a stale state. In check
mode a View sends nothing, but behaves as if it did.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field
from functools import cached_property

from ...base import boundary
from ...base.context import Context
from ...base.errors import ApiError
from ...base.json_types import MutableObject
from ...kube.client import Kube
from ...kube.unschedulable import Unplaced, mark
from ...scheduling.scope import Scope
from ..model.findings import ApiObject, Defect

# Namespace and name.
Key = tuple[str, str]

Action = t.Literal[
    "created", "allocated", "reserved", "repaired", "released", "pinned", "bound", "explained"
]


@dataclass(frozen=True)
class Change:
    """A write, made or planned in check mode, with both states for people."""

    action: Action
    kind: str
    namespace: str
    name: str
    before: str = ""
    after: str = ""

    def as_dict(self) -> dict[str, str]:
        """As the module returns it."""
        return {
            "action": self.action,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "detail": self.after or self.before,
        }


@dataclass(frozen=True)
class Problem:
    """Why an object got nothing, or could not be written; others are not affected."""

    kind: str
    namespace: str
    name: str
    detail: str

    def as_dict(self) -> dict[str, str]:
        """As the module returns it."""
        return dict(vars(self))


@dataclass
class Report:
    """Outcome of one attempt.

    ``contended`` names the objects that another client wrote meanwhile. ``findings`` are about
    unreadable objects: nothing is written to these, and no device is given that they may hold.
    """

    changes: list[Change] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    contended: set[str] = field(default_factory=set)
    findings: list[Defect] = field(default_factory=list)

    def note(self, finding: Defect) -> None:
        """Add the finding of an object, unless it is known."""
        if finding not in self.findings:
            self.findings.append(finding)


def tell(kube: Kube, context: Context, report: Report, unplaced: t.Sequence[Unplaced]) -> None:
    """Set the condition PodScheduled, with an event, which cluster autoscalers wait for."""

    def attempt(one: Unplaced) -> Change | Problem | None:
        try:
            marked = mark(kube, context, one)
        except ApiError as error:
            return Problem("Pod", one.namespace, one.pod, str(error))
        if not marked or not marked["transition"]:
            return None
        return Change("explained", "Pod", one.namespace, one.pod, after=one.message)

    def bounded(one: Unplaced) -> Change | Problem | boundary.Finding | None:
        subject = boundary.Subject("Pod", one.pod, one.namespace)
        return boundary.guarded(subject, lambda: attempt(one))

    for outcome in kube.in_parallel(bounded, unplaced):
        if isinstance(outcome, Change):
            report.changes.append(outcome)
        elif isinstance(outcome, boundary.Finding):
            report.note(Defect(outcome.subject, outcome.field, outcome.problem))
        elif outcome is not None:
            report.problems.append(outcome)


@dataclass(frozen=True)
class ClaimResult:
    """A claim, by the name and uid of its object, and its allocation as its API writes it."""

    namespace: str
    name: str
    uid: str
    result: t.Mapping[str, t.Any]


@dataclass(frozen=True)
class UnitAllocation:
    """The node of pods that share claims, and the new allocation of each claim without one."""

    pods: tuple[Key, ...]
    node: str
    claims: tuple[ClaimResult, ...]


@dataclass(frozen=True)
class Pods:
    """Every unfinished pod, trimmed, by namespace and name.

    ``scheduler_name`` and ``gate`` identify the pods that wait for this run; see pod_nodes.py.
    ``scope`` limits these pods and the nodes to the part of this run; None: all. ``planned`` has
    the nodes of a plan.
    """

    by_key: t.Mapping[Key, MutableObject]
    scheduler_name: str
    gate: str
    scope: Scope | None = None
    planned: t.Mapping[Key, str] = field(default_factory=dict)

    @cached_property
    def uids(self) -> frozenset[Key]:
        """Namespace and uid of each."""
        return frozenset((key[0], pod["metadata"]["uid"]) for key, pod in self.by_key.items())

    def is_left_to_others(self, pod: MutableObject) -> bool:
        """Whether the pod waits for a node or devices that another run gives."""
        is_bound = bool((pod.get("spec") or {}).get("nodeName"))
        return self.scope is not None and not is_bound and not self.scope.has_pod(pod)

    def is_alive(self, namespace: str, uid: str) -> bool:
        """Whether the pod with this uid still exists."""
        return (namespace, uid) in self.uids


class View(t.Protocol):
    """An API's objects as they were read once; see the description of this file."""

    report: Report

    def settle(self, pods: Pods) -> None:
        """Repair and release. Raises ApiError if the server is lost or forbids it."""

    def objects(self) -> list[ApiObject]:
        """Input of the reader, after settle."""

    def placed(self) -> t.Mapping[Key, str]:
        """Nodes of pods whose claims all have devices, and that wait to be bound there."""

    def give(self, grants: t.Sequence[UnitAllocation]) -> list[UnitAllocation]:
        """Write the allocations; return the grants that were written completely."""

    def take_back(self, pods: t.Sequence[Key]) -> None:
        """Release the claims of pods that did not get their node, unless others use them."""

    def explain(self, reasons: t.Mapping[Key, str]) -> None:
        """Write the reason into the claims of these pods without devices, where it is new."""


Adapter = t.Callable[[Kube, Context], View]
