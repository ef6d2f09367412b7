# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""One run of machines that sleep: read, decide, and carry out what is due.

A run writes each transition before it acts on it, and looks at fresh lists after each. So it may be
killed anywhere, and the next run continues from the records of the Nodes.
"""

from __future__ import annotations

import time
import typing as t
from dataclasses import dataclass, field, replace

from ...base.context import Context, Parameters, Result
from ...base.errors import ApiError
from ...base.fields.lenient import member
from ...base.json_types import MutableObject
from ...kube.client import Guard, Kube
from ...kube.events import Event, tell_again
from ...kube.lease import alone
from ...nodeconfig.targets import of_snapshot
from ...prices.deferral import without_deadline
from ..machine import Phase
from . import cluster_view, guards, results
from .bmcs import Bmcs, Power
from .cluster_view import Records
from .demand_record import read_record_of, write_record
from .execution import Executor
from .lifecycle import Change, Intent, NodeView, next_change
from .options import SleepOptions
from .planner import FleetInputs, Plan, Planner, waking_all, with_released
from .record import NodeRecord

LEASE_NAME = "wattwise-sleep"
_REPORTER = "wattwise-sleep"
# Transitions of one machine in one run; more would be a circle.
_MAX_ROUNDS = 8
_PAUSE_SECONDS = 2.0
_REST_SECONDS = 86400.0
_ASLEEP = (Phase.ASLEEP, Phase.WAKING, Phase.QUARANTINED)


@dataclass(frozen=True)
class SleepInputs:
    """Input of a run. ``fresh`` are the machines whose readings are of this run.

    ``readings_age`` are seconds, None without readings. ``idle_watts`` and ``standby_watts`` were
    measured, by machine. ``owner`` names the run in records. ``bmc`` are the options of reading
    BMCs, ``evict`` those of moving pods.
    """

    fleet: FleetInputs
    bmc: Parameters
    evict: Parameters
    owner: str
    fresh: frozenset[str] = frozenset()
    readings_age: float | None = None
    idle_watts: t.Mapping[str, float] = field(default_factory=dict)
    standby_watts: t.Mapping[str, float] = field(default_factory=dict)


def run_sleep(
    kube: Kube, inputs: SleepInputs, options: SleepOptions, lease: Parameters, context: Context
) -> Result:
    """Switch machines as the decision says, while no other run does.

    ``lease`` are the options of argspec.LEASE. In the mode ``off`` all machines that sleep come
    back. The mode ``dry_run`` changes nothing but the record, and check mode nothing at all. Raises
    ApiError, also for an incomplete list, and LeaseHeld.
    """
    is_dry = context.check_mode or options.mode == "dry_run"

    def work(guard: Guard | None) -> Result:
        run = SleepRun(
            kube.guarded(guard), inputs, options, lease["lease_namespace"], context, is_dry
        )
        return run.result()

    if is_dry:
        return work(None)
    return alone(kube, lease, context, work, LEASE_NAME)


class SleepRun:
    """The state of one run; everything is read when it is made."""

    def __init__(
        self,
        kube: Kube,
        inputs: SleepInputs,
        options: SleepOptions,
        namespace: str,
        context: Context,
        is_dry: bool,
    ) -> None:
        self.kube, self.inputs, self.options = kube, inputs, options
        self.namespace, self.context, self.is_dry = namespace, context, is_dry
        self.began = context.now().timestamp()
        self.lists = cluster_view.read_lists(kube)
        self.records = Records.of(self.own, self.began)
        self.bmcs = Bmcs(
            {**inputs.fleet.snapshot, **self.lists.parts},
            of_snapshot(inputs.fleet.snapshot),
            inputs.bmc,
            context,
        )
        self.record = read_record_of(kube, namespace, self.began)
        pods = self.lists.pods
        self.record.observe(
            pods if inputs.fleet.deferral is None else without_deadline(pods), self.began
        )
        self.powers: dict[str, Power] = {}
        self.transitions: list[Change] = []
        self.finished: set[str] = set()
        self.obstacle = ""
        self.has_moved = False
        self.peers = guards.Peers()

    @property
    def now(self) -> float:
        return self.context.now().timestamp()

    @property
    def own(self) -> dict[str, t.Any]:
        """The Nodes of the run's part of the cluster."""
        scope = self.inputs.fleet.scope
        nodes = self.lists.nodes
        return {name: one for name, one in nodes.items() if scope is None or name in scope.nodes}

    def result(self) -> Result:
        plan = self._plan()
        self._follow_records(plan)
        if self.is_dry:
            changes = list(self._changes(plan))
            results.note_dry_run(self, plan, changes)
        else:
            changes = self.transitions
            self._carry_out(plan)
        if not self.context.check_mode:
            write_record(self.kube, self.namespace, self.record, self.now)
        return results.result_of(self, plan, changes)

    # --- planning ---

    def _plan(self) -> Plan:
        own = self.own
        selected = [
            name
            for name, node in own.items()
            if self.options.selects(member(node, "metadata", "labels"))
        ]
        unready = {name for name in selected if not guards.is_ready(own[name])}
        self._look({*self.records.records, *unready})
        if self.options.mode == "off":
            return waking_all(self.records)
        self.peers = cluster_view.read_peers(self.kube)
        planner = Planner(
            self.inputs.fleet, self.options, self.peers, self.bmcs.__contains__, self.began
        )
        off = {
            name
            for name in unready - self.records.records.keys() - self.records.unreadable
            if self.powers.get(name, Power()).state == "Off"
        }
        plan = planner.plan(self.lists, self.records, off, self.record)
        released = [
            name
            for name, one in self.records.records.items()
            if one.phase is Phase.ASLEEP and name in self.bmcs and plan.protections.get(name)
        ]
        plan = with_released(plan, released, "It may not sleep any more.")
        self._look(set(plan.off) - self.powers.keys())
        self.obstacle = _obstacle(self)
        most = max(1, int(self.options.rules.max_share * len(selected)))
        return _within_share(plan, self.records.records, most)

    def _look(self, names: t.Collection[str]) -> None:
        self.powers.update(self.bmcs.read(names) if names else {})

    # --- carrying out ---

    def _views(self, plan: Plan) -> t.Iterator[NodeView]:
        pods = cluster_view.pods_to_leave(self.lists.pods)
        zones = guards.unready_by_zone(self.lists.nodes.values())
        for name, node in sorted(self.own.items()):
            power = self.powers.get(name, Power())
            if not (name in plan.intents or name in self.records.records):
                continue
            record = self.records.records.get(name)
            labels = member(node, "metadata", "labels") or {}
            blocked = self.obstacle or plan.protections.get(name, "")
            blocked = blocked or guards.machine_obstacle(
                power.state,
                power.problem,
                name in self.inputs.fresh,
                zones.get(str(labels.get(guards.ZONE_LABEL, ""))),
                Phase.AWAKE if record is None else record.phase,
            )
            yield self.records.view(node, power, pods.get(name, ()), blocked)

    def _changes(self, plan: Plan) -> t.Iterator[Change]:
        for view in self._views(plan):
            intent = plan.intents.get(view.name, Intent())
            if view.name in self.finished:
                intent = Intent()
            change = next_change(view, intent, self.options.patience, self.now, self.inputs.owner)
            if change is not None:
                yield change

    def _carry_out(self, plan: Plan) -> None:
        """Rounds until nothing is due, or the time to wait is over."""
        executor = Executor(self.kube, self.bmcs, self.inputs.evict, self.context)
        self.has_moved = executor.make_room(plan.making_room)
        deadline = time.monotonic() + self.options.wait_timeout
        rounds = 0
        while True:
            due = [one for one in self._changes(plan) if executor.is_new(one)]
            rounds += bool(due)
            if due and rounds <= _MAX_ROUNDS:
                self._round(plan, due, executor)
                self._refresh(plan)
                continue
            underway = any(
                one.phase in (Phase.GOING_OFF, Phase.WAKING)
                for one in self.records.records.values()
            )
            if rounds > _MAX_ROUNDS or not underway or time.monotonic() >= deadline:
                return
            time.sleep(_PAUSE_SECONDS)
            self._refresh(plan)

    def _round(self, plan: Plan, due: t.Sequence[Change], executor: Executor) -> None:
        for change in executor.write(due, self.lists.nodes):
            self.transitions.append(change)
            self._note(plan, change)
        self.has_moved = executor.act(plan.moves) or self.has_moved

    def _note(self, plan: Plan, change: Change) -> None:
        """Keep what outlives the run, and tell people."""
        before = self.records.records.get(change.name)
        history, self.record.is_changed = self.record.machine(change.name), True
        if before is not None and before.phase is Phase.WAKING and before.attempts <= 1:
            history.booted(is_late=change.is_warning)
        if change.record is None:
            self.finished.add(change.name)
            if before is not None and before.phase in _ASLEEP:
                history.woke(self.now)
            if change.is_warning:
                history.left_alone_until = self.now + _REST_SECONDS
        elif change.phase is Phase.ASLEEP:
            history.fell_asleep(self.now, self.saved_watts(plan, change.name))
        _tell(self.kube, self.context, self.lists.nodes[change.name], change)

    def _follow_records(self, plan: Plan) -> None:
        """Note sleeps and wakes that a run was killed before it could record."""
        for name in self.own:
            node, history = self.records.records.get(name), self.record.machines.get(name)
            since = None if history is None else history.asleep_since
            if node is not None and node.phase is Phase.ASLEEP and since is None:
                saved = self.saved_watts(plan, name)
                self.record.machine(name).fell_asleep(node.since, saved)
                self.record.is_changed = True
            elif node is None and history is not None and since is not None:
                history.woke(self.now)
                self.record.is_changed = True

    def _refresh(self, plan: Plan) -> None:
        self.lists = cluster_view.read_lists(self.kube)
        self.records = Records.of(self.own, self.now)
        self._look({*self.records.records, *plan.off})

    def saved_watts(self, plan: Plan, name: str) -> float:
        """What the sleep of a machine saves: idle less standby, as measured, else as assumed."""
        idle = self.inputs.idle_watts.get(name, plan.idle_watts.get(name, 0.0))
        standby = self.inputs.standby_watts.get(name, self.options.switching.standby_watts)
        return max(0.0, idle - standby)


def _obstacle(run: SleepRun) -> str:
    """The obstacle of the fleet."""
    awake = [node for name, node in run.lists.nodes.items() if name not in run.records.records]
    unready = sum(not guards.is_ready(node) for node in awake)
    moment = guards.Moment(
        run.lists.seconds,
        run.inputs.readings_age,
        run.options.max_readings_age,
        unready / max(1, len(awake)),
    )
    return guards.fleet_obstacle(moment, run.peers)


def _within_share(plan: Plan, records: t.Mapping[str, NodeRecord], most: int) -> Plan:
    """The plan without machines beyond the number that may be switched off at once."""
    underway = sum(one.phase in (Phase.DRAINING, Phase.GOING_OFF) for one in records.values())
    new = [name for name in plan.off if name not in records]
    stay = Intent("stay", f"At most {most} machines are switched off at once.")
    beyond = dict.fromkeys(new[max(0, most - underway) :], stay)
    return replace(plan, intents={**plan.intents, **beyond})


def _tell(kube: Kube, context: Context, node: MutableObject, change: Change) -> None:
    """An Event of the Node; it is optional, so a refusal is a warning."""
    words = "".join(part.title() for part in change.phase.value.split("_"))
    kind = "Warning" if change.is_warning else "Normal"
    try:
        event = Event(kind, f"Machine{words}", "Sleep", _REPORTER)
        tell_again(kube, context, node, change.reason, event)
    except ApiError as error:
        context.warn(f"No event of Node {change.name} was written: {error}")
