# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Writes of one run: patches of Nodes, requests to BMCs, and evictions, in this order.

Evictions take minutes, so they come last: a request to a BMC must not rest on older lists.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import replace

from ...base.boundary import Finding, Subject, guarded
from ...base.context import Context, Parameters
from ...base.errors import ApiError
from ...base.json_types import MutableObject
from ...base.texts import shown_text
from ...eviction.eviction import move_pods
from ...kube.client import Guard, Kube
from ...kube.lease import LeaseHeld
from ...scheduling.plan import Step
from ..machine import Phase
from .bmcs import Bmcs
from .cluster_view import Records, read_pods_to_leave
from .lifecycle import Change
from .node_changes import Patch, apply_patch, patch_to_awake, patch_to_record
from .record import NodeRecord

_SWITCHES: t.Mapping[str, t.Literal["on", "off", "cycle"]] = {
    "switch_off": "off",
    "switch_on": "on",
    "cycle": "cycle",
}


class Executor:
    """Carries out the changes of one run; each action of a phase once.

    ``problems`` are failures of single machines, which get no further change in this run. ``came``
    has a pod of each machine whose first request to shut down was not sent because of that pod.
    ``request_seconds`` has the duration of each machine's last request to switch: a BMC that is busy
    accepts it late.
    """

    def __init__(
        self, kube: Kube, bmcs: Bmcs, evict: Parameters, context: Context, guard: Guard | None
    ) -> None:
        """``guard`` is called before each request to BMCs, as it is before writes of ``kube``."""
        self._kube, self._bmcs, self._evict, self._context = kube, bmcs, evict, context
        self._guard = guard
        self._done: set[tuple[str, str]] = set()
        self._due: list[Change] = []
        self._refused: set[str] = set()
        self.problems: list[Finding] = []
        self.came: dict[str, str] = {}
        self.request_seconds: dict[str, float] = {}

    def is_new(self, change: Change) -> bool:
        """Whether the change writes, or acts for the first time in this run."""
        if change.name in self._refused:
            return False
        return change.is_written or (change.name, change.action) not in self._done

    def write(
        self, changes: t.Sequence[Change], nodes: t.Mapping[str, MutableObject]
    ) -> list[Change]:
        """Patch the Nodes; the transitions that were written.

        A Node that another client changed meanwhile is left to the next round, without its action.
        A refused patch is a problem of its own machine.
        """
        due = [one for one in changes if one.is_written]

        def write(change: Change) -> bool | Finding:
            node, subject = nodes[change.name], Subject("Node", change.name)
            patch = guarded(subject, functools.partial(_patch_of, change, node))
            if isinstance(patch, Finding):
                return patch
            try:
                return apply_patch(self._kube, node, patch) is not None
            except ApiError as error:
                return Finding(subject, "", f"it could not be changed: {shown_text(str(error))}")

        results = self._kube.in_parallel(write, due)
        for found in results:
            if isinstance(found, Finding):
                self._refused.add(found.subject.name)
                self.problems.append(found)
        written = [change for change, found in zip(due, results) if found is True]
        self._due = [one for one in changes if not one.is_written or one in written]
        return written

    def act(self, moves: t.Mapping[str, Step]) -> bool:
        """Ask BMCs and evict pods, as the written changes say; whether pods moved."""
        self._done.update((one.name, one.action) for one in self._due)
        self._leave_machines_with_pods()
        for action, state in _SWITCHES.items():
            self._switch([one.name for one in self._due if one.action == action], state)
        return self.make_room(
            [moves[one.name] for one in self._due if one.action == "evict" and one.name in moves]
        )

    def _leave_machines_with_pods(self) -> None:
        """Look for pods directly before machines are shut down; those with pods are not."""
        off = [one for one in self._due if one.action == "switch_off"]
        found = read_pods_to_leave(self._kube, [one.name for one in off])
        for change, pods in zip(off, found):
            if not pods:
                continue
            self._due.remove(change)
            if isinstance(pods, Finding):
                self.problems.append(pods)
            # An earlier run may have sent a request before.
            elif change.is_written and change.record is not None and change.record.attempts == 1:
                self.came[change.name] = pods[0]

    def _switch(self, names: t.Sequence[str], state: t.Literal["on", "off", "cycle"]) -> None:
        if not names:
            return
        if self._guard is not None:
            self._guard()
        began = self._context.now()
        problems = self._bmcs.switch(names, state, self._context)
        seconds = (self._context.now() - began).total_seconds()
        self.request_seconds.update(dict.fromkeys(names, seconds))
        for name, problem in problems.items():
            told = f"its machine was not switched {state}: {problem}"
            self.problems.append(Finding(Subject("Node", name), "", told))

    def make_room(self, steps: t.Sequence[Step]) -> bool:
        """Move pods by these steps; whether one left its node.

        Other runs that bind pods may hold their Lease; machines are switched all the same.
        """
        if not steps:
            return False
        numbered = [replace(step, number=number) for number, step in enumerate(steps, 1)]
        try:
            moves = move_pods(self._kube, numbered, self._evict, self._context)
        except (ApiError, LeaseHeld) as error:
            self._context.warn(f"No pod was moved: {error}")
            return False
        if moves.stopped is not None:
            self._context.warn(
                f"Moves of pods ended: {moves.stopped.reason}; the next run continues"
            )
        return moves.changed


def _patch_of(change: Change, node: MutableObject) -> Patch:
    if change.record is None:
        return patch_to_awake(node, _record_of(node))
    return patch_to_record(node, change.record, change.is_out_of_service)


def _record_of(node: MutableObject) -> NodeRecord:
    """The record on the Node; one that owns nothing without."""
    records = Records.of({"node": node}, float("inf")).records
    return records.get("node") or NodeRecord(Phase.ASLEEP, 0.0, "")
