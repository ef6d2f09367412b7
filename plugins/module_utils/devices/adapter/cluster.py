# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Values between device_reconciliation and the adapters of both APIs in a cluster."""

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
from ..model.findings import Defect, Findings, Key
from ..model.task import Refusal

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


@dataclass
class Report(Findings):
    """Outcome of one attempt.

    ``contended`` names the objects that another client wrote meanwhile. Nothing is written to
    objects with findings, and no device is given that they may hold.
    """

    changes: list[Change] = field(default_factory=list)
    problems: list[Refusal] = field(default_factory=list)
    contended: set[str] = field(default_factory=set)

    def change(
        self, action: Action, kind: str, key: Key, before: str = "", after: str = ""
    ) -> None:
        """Add a write."""
        self.changes.append(Change(action, kind, *key, before, after))

    def refuse(self, kind: str, key: Key, reason: str) -> None:
        """Add the reason why an object got nothing, or could not be written."""
        self.problems.append(Refusal(kind, *key, reason))

    def note_failure(self, error: ApiError, kind: str, key: Key) -> None:
        """Note why an object was not written. Raises errors that are not about the object."""
        if error.status in (404, 409):
            self.contended.add(f"{kind} {'/'.join(filter(None, key))}")
        elif error.status in (400, 422):
            self.refuse(kind, key, str(error))
        else:
            raise error

    def explain(self, kube: Kube, context: Context, unplaced: t.Sequence[Unplaced]) -> None:
        """Set the condition PodScheduled, with an event, which cluster autoscalers wait for."""

        def attempt(one: Unplaced) -> Change | Refusal | None:
            try:
                marked = mark(kube, context, one)
            except ApiError as error:
                return Refusal("Pod", one.namespace, one.pod, str(error))
            if not marked or not marked["transition"]:
                return None
            return Change("explained", "Pod", one.namespace, one.pod, after=one.message)

        def bounded(one: Unplaced) -> Change | Refusal | boundary.Finding | None:
            subject = boundary.Subject("Pod", one.pod, one.namespace)
            return boundary.guarded(subject, lambda: attempt(one))

        for outcome in kube.in_parallel(bounded, unplaced):
            if isinstance(outcome, Change):
                self.changes.append(outcome)
            elif isinstance(outcome, boundary.Finding):
                self.note(Defect(outcome.subject, outcome.field, outcome.problem))
            elif outcome is not None:
                self.problems.append(outcome)


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
    the nodes of a plan. ``limited`` has the plan's nodes with a limit in W. ``closed`` has the nodes
    that take no pod because of a limit, with the reasons.
    """

    by_key: t.Mapping[Key, MutableObject]
    scheduler_name: str
    gate: str
    scope: Scope | None = None
    planned: t.Mapping[Key, str] = field(default_factory=dict)
    limited: t.Collection[str] = ()
    closed: t.Mapping[str, str] = field(default_factory=dict)

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
