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
from dataclasses import dataclass, field

from ...base.context import Context, Parameters, Result
from ...base.fields.lenient import member
from ...base.json_types import MutableObject
from ...kube.client import Guard, Kube
from ...kube.lease import alone
from ...kube.resource.events import Reporter
from ...nodeconfig.targets import of_snapshot
from ...prices.deferral import without_deadline
from ..machine import Phase
from . import approval, cluster_view, guards, results
from .bmcs import Bmcs, Power
from .cluster_view import Records
from .execution import Executor
from .histories import Histories
from .lifecycle import Change, Intent, NodeView, next_change
from .options import SleepOptions
from .planner import FleetInputs, Plan, Planner, waking_all, with_released, within_limits
from .record_store import RecordStore
from .sleep_plan import SleepPlan
from .timeline import counts_of

LEASE_NAME = "wattwise-sleep"
_REPORTER = "wattwise-sleep"
# Transitions of one machine in one run; more would be a circle.
_MAX_ROUNDS = 8
_PAUSE_SECONDS = 2.0


@dataclass(frozen=True)
class SleepInputs:
    """Input of a run. ``fresh`` are the machines whose readings are of this run.

    ``readings_age`` are seconds, None without readings. ``idle_watts`` were measured, by machine,
    and ``power_watts`` were read. ``approved`` is the plan that the mode ``with_approval`` carries
    out, None if it only makes one. ``owner`` names the run in records, and ``check_owner`` raises
    WattwiseError if it is gone. ``bmc`` are the options of reading BMCs, ``evict`` those of moving
    pods. ``defers_pods`` says that pods with a deadline may wait for their hour, so that they need
    no reserve; it holds without prices, too.
    """

    fleet: FleetInputs
    bmc: Parameters
    evict: Parameters
    owner: str
    fresh: frozenset[str] = frozenset()
    readings_age: float | None = None
    idle_watts: t.Mapping[str, float] = field(default_factory=dict)
    power_watts: t.Mapping[str, float] = field(default_factory=dict)
    approved: SleepPlan | None = None
    check_owner: t.Callable[[], None] = lambda: None
    defers_pods: bool = False


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
        checked = None if guard is None else with_check(guard, inputs.check_owner)
        return SleepRun(
            kube, checked, inputs, options, lease["lease_namespace"], context, is_dry
        ).result()

    if is_dry:
        return work(None)
    return alone(kube, lease, context, work, LEASE_NAME)


def with_check(guard: Guard, check_owner: t.Callable[[], None]) -> Guard:
    """The guard, which checks the owner while it has the Lease.

    The run that wakes the machines of a deleted owner comes before or after, never between.
    """

    def checked() -> float:
        guard()
        check_owner()
        return guard()

    return checked


class SleepRun:
    """The state of one run; everything is read when it is made."""

    def __init__(
        self,
        kube: Kube,
        guard: Guard | None,
        inputs: SleepInputs,
        options: SleepOptions,
        namespace: str,
        context: Context,
        is_dry: bool,
    ) -> None:
        self.kube = kube = kube.guarded(guard)
        self.inputs, self.options = inputs, options
        self.context, self.is_dry = context, is_dry
        self.began = context.now().timestamp()
        self.lists = cluster_view.read_lists(kube)
        self.records = Records.of(self.own, self.began)
        self.bmcs = Bmcs(
            {**inputs.fleet.snapshot, **self.lists.parts},
            of_snapshot(inputs.fleet.snapshot),
            inputs.bmc,
            context,
        )
        self.executor = Executor(kube, self.bmcs, inputs.evict, context, guard)
        self.store = RecordStore(kube, namespace, inputs.owner)
        self.record, findings = self.store.read(self.began)
        self.findings = [*findings, *self.records.findings]
        pods = self.own_pods
        self.record.observe(without_deadline(pods) if inputs.defers_pods else pods, self.began)
        self.record.forget_machines(self.lists.nodes)
        self.powers: dict[str, Power] = {}
        self.transitions: list[Change] = []
        self.finished: set[str] = set()
        self.obstacle = ""
        self.has_moved = False
        self.peers = guards.Peers()
        self.with_volumes: set[str] = set()
        self.proposal: SleepPlan | None = None

    @property
    def now(self) -> float:
        return self.context.now().timestamp()

    @property
    def own(self) -> dict[str, t.Any]:
        """The Nodes of the run's part of the cluster."""
        return self.lists.nodes_of(self.inputs.fleet.scope)

    @property
    def own_pods(self) -> list[MutableObject]:
        """The pods of the run's part of the cluster."""
        return self.lists.pods_of(self.inputs.fleet.scope)

    def result(self) -> Result:
        plan = self._plan()
        idle = {**plan.idle_watts, **self.inputs.idle_watts}
        standby = self.options.switching.standby_watts
        self.histories = Histories(self.record, idle, standby)
        records = self.records.records
        self.histories.follow(self.own, records, self.began)
        if self.options.mode != "off":
            self.histories.measure_standby(self.bmcs, records, self.powers, self.began)
        if self.options.mode == "with_approval":
            plan = approval.only_approved(self, plan)
        if self.is_dry:
            changes = self.changes(plan, self.own)
            results.note_dry_run(self, changes)
        else:
            changes = self.transitions
            self._carry_out(plan)
        due = self.inputs.fleet.due(self.own_pods)
        self.record.note_counts(counts_of(self.own.values(), due, self.now))
        if not self.context.check_mode:
            self.store.write(self.record, self.now, self.context)
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
        self.with_volumes = cluster_view.sleepers_with_volumes(self.kube, own, self.records.records)
        off = {
            name
            for name in unready - self.records.records.keys() - self.records.unreadable
            if self.powers.get(name, Power()).state == "Off"
        }
        plan = _planner(self).plan(self.lists, self.records, off, self.record)
        released = [
            name
            for name, one in self.records.records.items()
            if one.phase is Phase.ASLEEP and name in self.bmcs and plan.protections.get(name)
        ]
        plan = with_released(plan, released, "It may not sleep any more.")
        self._look(set(plan.off) - self.powers.keys())
        self.obstacle = _obstacle(self)
        share = max(1, int(self.options.rules.max_share * len(selected)))
        return within_limits(plan, self.records.records, self.lists.nodes, self.peers, share)

    def _look(self, names: t.Collection[str]) -> None:
        self.powers.update(self.bmcs.read(names) if names else {})

    # --- carrying out ---

    def views(self, plan: Plan, names: t.Iterable[str]) -> t.Iterator[NodeView]:
        pods = cluster_view.pods_to_leave(self.lists.pods)
        zones = guards.unready_by_zone(self.lists.nodes.values())
        for name in sorted({*plan.intents, *self.records.records}.intersection(names)):
            node, power = self.lists.nodes[name], self.powers.get(name, Power())
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
            more = {
                "came": self.executor.came.get(name, ""),
                "request_seconds": self.executor.request_seconds.get(name, 0.0),
                "pauses": self.peers.pauses_for(node),
                "has_volumes": name in self.with_volumes,
            }
            yield self.records.view(node, power, pods.get(name, ()), blocked, **more)

    def changes(self, plan: Plan, names: t.Iterable[str]) -> list[Change]:
        """The changes of these machines that are due and were not tried in this run."""
        found = []
        for view in self.views(plan, names):
            intent = plan.intents.get(view.name, Intent())
            if view.name in self.finished:
                intent = Intent()
            change = next_change(view, intent, self.options.patience, self.now, self.inputs.owner)
            if change is not None and self.executor.is_new(change):
                found.append(change)
        return found

    def _carry_out(self, plan: Plan) -> None:
        """Rounds until nothing is due, each on fresh lists; then wait for what was begun."""
        deadline = time.monotonic() + self.options.wait_timeout
        self.has_moved = self.executor.make_room(plan.making_room)
        for _number in range(_MAX_ROUNDS):
            due = self.changes(plan, self.own)
            if not due:
                break
            self._round(plan, due)
            self.lists = cluster_view.read_lists(self.kube)
            self._read({*self.records.records, *plan.off})
        self._wait(plan, deadline)

    def _wait(self, plan: Plan, deadline: float) -> None:
        """Follow the machines that shut down or boot; nothing else begins on old lists."""
        moving, spent = self._in_transition(), 0.0
        while moving and time.monotonic() < deadline:
            # Many machines may take longer to read than the pause.
            time.sleep(max(_PAUSE_SECONDS, spent))
            began = time.monotonic()
            self._follow(moving)
            due = self.changes(plan, self.lists.nodes.keys() & set(moving))
            if due:
                self._round(plan, due)
                self._follow(moving)
            moving, spent = self._in_transition(), time.monotonic() - began

    def _follow(self, names: t.Sequence[str]) -> None:
        there = [name for name in names if name in self.lists.nodes]
        self.lists = cluster_view.with_nodes_again(self.kube, self.lists, there)
        self._read(there)

    def _in_transition(self) -> list[str]:
        phases = (Phase.GOING_OFF, Phase.WAKING)
        return sorted(name for name, one in self.records.records.items() if one.phase in phases)

    def _round(self, plan: Plan, due: t.Sequence[Change]) -> None:
        for change in self.executor.write(due, self.lists.nodes):
            self.transitions.append(change)
            if change.record is None:
                self.finished.add(change.name)
            before = self.records.records.get(change.name)
            self.histories.note(before, change, self.now)
            _tell(self.kube, self.context, self.lists.nodes[change.name], change)
        self.has_moved = self.executor.act(plan.moves) or self.has_moved

    def _read(self, names: t.Collection[str]) -> None:
        """Read records from the lists, and the power states of these machines."""
        self.records = Records.of(self.own, self.now)
        self._look(names)


def _planner(run: SleepRun) -> Planner:
    return Planner(
        run.inputs.fleet,
        run.options,
        run.peers,
        run.bmcs.__contains__,
        run.began,
        approval.may_sleep(run),
    )


def _obstacle(run: SleepRun) -> str:
    """The obstacle of the fleet."""
    moment = guards.Moment(
        run.lists.seconds,
        run.inputs.readings_age,
        run.options.max_readings_age,
        cluster_view.unready_share(run.lists.nodes.values()),
    )
    return guards.fleet_obstacle(moment)


def _tell(kube: Kube, context: Context, node: MutableObject, change: Change) -> None:
    """An Event of the Node."""
    words = "".join(part.title() for part in change.phase.value.split("_"))
    reporter = Reporter(kube, context, _REPORTER, "Sleep")
    reporter.tell(node, f"Machine{words}", change.reason, change.is_warning)
