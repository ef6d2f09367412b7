# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Writes of one run: patches of Nodes, evictions, and requests to BMCs, in this order."""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...base.context import Context, Parameters
from ...base.errors import ApiError
from ...base.json_types import MutableObject
from ...eviction.eviction import move_pods
from ...kube.client import Kube
from ...scheduling.plan import Step
from ..machine import Phase
from .bmcs import Bmcs
from .cluster_view import Records, nodes_with_volumes
from .lifecycle import Change
from .node_changes import apply_patch, patch_to_awake, patch_to_record
from .record import NodeRecord

_SWITCHES: t.Mapping[str, t.Literal["on", "off", "cycle"]] = {
    "switch_off": "off",
    "switch_on": "on",
    "cycle": "cycle",
}


class Executor:
    """Carries out the changes of one run; each action of a phase once."""

    def __init__(self, kube: Kube, bmcs: Bmcs, evict: Parameters, context: Context) -> None:
        self._kube, self._bmcs, self._evict, self._context = kube, bmcs, evict, context
        self._done: set[tuple[str, str]] = set()
        self._due: list[Change] = []
        self.problems: dict[str, str] = {}

    def is_new(self, change: Change) -> bool:
        """Whether the change writes, or acts for the first time in this run."""
        return change.is_written or (change.name, change.action) not in self._done

    def write(
        self, changes: t.Sequence[Change], nodes: t.Mapping[str, MutableObject]
    ) -> list[Change]:
        """Patch the Nodes; the transitions that were written.

        A Node that another client changed meanwhile is left to the next round, without its action.
        """
        due = [one for one in changes if one.is_written]
        falls_asleep = any(one.phase is Phase.ASLEEP for one in due)
        with_volumes = nodes_with_volumes(self._kube) if falls_asleep else set()

        def write(change: Change) -> bool | ApiError:
            node = nodes[change.name]
            if change.record is None:
                patch = patch_to_awake(node, _record_of(node))
            else:
                is_out = change.phase is Phase.ASLEEP and change.name in with_volumes
                patch = patch_to_record(node, change.record, is_out)
            try:
                return apply_patch(self._kube, node, patch) is not None
            except ApiError as error:
                return error

        results = self._kube.in_parallel(write, due)
        for change, found in zip(due, results):
            if isinstance(found, ApiError):
                self.problems[change.name] = str(found)
                self._context.warn(f"Node {change.name} could not be changed: {found}")
        failures = [found for found in results if isinstance(found, ApiError)]
        if failures and len(failures) == len(due):
            raise failures[0]
        written = [change for change, found in zip(due, results) if found is True]
        self._due = [one for one in changes if not one.is_written or one in written]
        return written

    def act(self, moves: t.Mapping[str, Step]) -> bool:
        """Evict pods and ask BMCs, as the written changes say; whether pods moved."""
        self._done.update((one.name, one.action) for one in self._due)
        has_moved = self.make_room(
            [moves[one.name] for one in self._due if one.action == "evict" and one.name in moves]
        )
        for action, state in _SWITCHES.items():
            names = [one.name for one in self._due if one.action == action]
            problems = self._bmcs.switch(names, state, self._context)
            self.problems.update(problems)
            for name, problem in problems.items():
                self._context.warn(
                    f"The machine of Node {name} was not switched {state}: {problem}"
                )
        return has_moved

    def make_room(self, steps: t.Sequence[Step]) -> bool:
        """Move pods by these steps; whether one left its node."""
        if not steps:
            return False
        numbered = [replace(step, number=number) for number, step in enumerate(steps, 1)]
        moves = move_pods(self._kube, numbered, self._evict, self._context)
        if moves.stopped is not None:
            self._context.warn(
                f"Moves of pods ended: {moves.stopped.reason}; the next run continues"
            )
        return moves.changed


def _record_of(node: MutableObject) -> NodeRecord:
    """The record on the Node; one that owns nothing without."""
    records = Records.of({"node": node}, float("inf")).records
    return records.get("node") or NodeRecord(Phase.ASLEEP, 0.0, "")
