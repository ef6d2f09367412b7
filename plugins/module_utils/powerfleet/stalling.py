# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Stalled fleets, whose runs do not come; the watcher tells of them.

A run tells its own failures. A run that never begins, or that ends before it writes a status, tells
nothing. The condition Stalled exists only while a fleet is stalled, as tools that read conditions
expect of it.

Source: https://github.com/kubernetes-sigs/cli-utils/blob/master/pkg/kstatus/README.md#conditions
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..base import metrics
from ..base.boundary import Finding
from ..base.context import Context
from ..base.fields.lenient import member, text
from ..base.json_types import MutableObject
from ..base.units import format_time
from ..kube.client import APPLY_CONTENT_TYPE, Kube
from ..kube.resource.conditions import has_condition
from ..kube.resource.events import Reporter
from ..kube.resource.finalizer import is_ending
from . import resource
from .resource import RESOURCE_KIND, PowerFleet

CONDITION = "Stalled"
# The longest run that does not yet count as a failure of the operator, as in the alerts.
MARGIN_SECONDS = 300.0
# Time between two attempts to write a condition.
_REPEAT_SECONDS = 30.0


@dataclass(frozen=True)
class FleetView:
    """A fleet with what its status shows of runs; ``last_run`` is empty before the first one.

    ``is_ending``: it was deleted, and waits for a run.
    """

    fleet: PowerFleet
    generation: int
    last_run: str
    is_told: bool
    is_ending: bool


def view_fleet(manifest: MutableObject) -> FleetView | None:
    """None for a fleet that goes without a run, or is unreadable, which its own runs report."""
    if RESOURCE_KIND.unless_gone(manifest) is None:
        return None
    fleet = resource.parse(manifest)
    if isinstance(fleet, Finding):
        return None
    last_run = text(member(fleet.status, "lastRun", "time"))
    is_told = has_condition(manifest, CONDITION)
    return FleetView(fleet, fleet.generation, last_run, is_told, is_ending(manifest))


@dataclass
class _State:
    seen: FleetView
    # When a run was last stored, or when the watcher began to wait for one.
    since: float
    next_write_at: float = -math.inf


class Stalls:
    """Which fleets are stalled. Times are those of a monotonic clock, in seconds.

    A run without news stores its time only after ``heartbeat_seconds``.
    """

    def __init__(self, heartbeat_seconds: float) -> None:
        self._heartbeat_seconds = heartbeat_seconds
        self._states: dict[str, _State] = {}

    def see(self, seen: FleetView, now: float) -> None:
        """Take note of a fleet that is there or has changed."""
        key = seen.fleet.key
        state = self._states.get(key)
        if state is None or state.seen.fleet.uid != seen.fleet.uid:
            # An earlier watcher has waited long enough for what it told.
            since = -math.inf if seen.is_told else now
            self._states[key] = _State(seen, since)
            return
        has_run = state.seen.last_run != seen.last_run
        # A run follows a new spec; one that is told as stalled has still to show it.
        has_new_spec = state.seen.generation != seen.generation and not seen.is_told
        if has_run or has_new_spec:
            state.since = now
        if state.seen.is_told != seen.is_told:
            state.next_write_at = -math.inf
        state.seen = seen

    def forget(self, key: str) -> None:
        """Take note of a fleet that is gone."""
        self._states.pop(key, None)

    def take(self, now: float) -> list[FleetView]:
        """The fleets whose condition is not yet right; each one again after a while."""
        due = [
            state
            for state in self._states.values()
            if state.next_write_at <= now and self._is_stalled(state, now) != state.seen.is_told
        ]
        for state in due:
            state.next_write_at = now + _REPEAT_SECONDS
        return [state.seen for state in due]

    def is_stalled(self, key: str, now: float) -> bool:
        """Whether a run of the fleet is overdue; never if it is suspended."""
        return key in self._states and self._is_stalled(self._states[key], now)

    def exposition(self, now: float) -> str:
        """The metric of all fleets, in the Prometheus text format."""
        samples = [
            ({"power_fleet": key}, float(self._is_stalled(state, now)))
            for key, state in sorted(self._states.items())
        ]
        name = "wattwise_power_fleet_stalled"
        return metrics.family(name, "Whether a run of the fleet is overdue.", samples, {})

    def _is_stalled(self, state: _State, now: float) -> bool:
        fleet = state.seen.fleet
        patience = self._heartbeat_seconds + 2 * fleet.interval_seconds + MARGIN_SECONDS
        return not fleet.is_suspended and now - state.since > patience


def write(
    kube: Kube, seen: FleetView, is_stalled: bool, field_manager: str, context: Context
) -> bool:
    """Write or remove the condition of a fleet, and an Event; whether it did. Raises ApiError.

    The condition is applied as the only field of its manager, so neither a run nor the watcher
    changes what the other one wrote. Nothing is written to a fleet that was replaced.
    """
    fleet = seen.fleet
    note = _sentence(seen) if is_stalled else "The fleet is no longer stalled."
    condition = {
        "type": CONDITION,
        "status": "True",
        "reason": "NoRun",
        "message": note,
        "lastTransitionTime": format_time(context.now()),
        "observedGeneration": seen.generation,
    }
    body = {
        "apiVersion": resource.API_VERSION,
        "kind": resource.KIND,
        "metadata": {"name": fleet.name, "namespace": fleet.namespace, "uid": fleet.uid},
        **({"status": {"conditions": [condition]}} if is_stalled else {}),
    }
    path = f"{resource.path_of(fleet.namespace, fleet.name)}/status"
    query = {"fieldManager": field_manager, "force": "true"}
    if not kube.patch_same(path, body, APPLY_CONTENT_TYPE, query):
        return False
    reason = "NoRun" if is_stalled else "NotStalled"
    reporter = Reporter(kube, context, RESOURCE_KIND.component)
    reporter.tell(fleet.as_object, reason, note, is_bad=is_stalled)
    return True


def read(kube: Kube, fleet: PowerFleet) -> FleetView | None:
    """The fleet as it is now; None if it is gone or deleted. Raises ApiError."""
    found = kube.find(resource.path_of(fleet.namespace, fleet.name))
    return None if found is None or is_ending(found) else view_fleet(found)


def _sentence(seen: FleetView) -> str:
    since = seen.last_run or f"its creation at {format_time(seen.fleet.created)}"
    interval = f"{seen.fleet.interval_seconds:g} s"
    return (
        f"The fleet has stored no run since {since}, although its interval is {interval}; look at "
        "the pod of the operator and at its log."
    )
