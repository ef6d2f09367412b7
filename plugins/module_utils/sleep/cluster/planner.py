# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The decision of one run by the names of the cluster: an intent for each machine, and moves."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...base.boundary import guarded, subject_of
from ...base.fields.lenient import member
from ...base.json_types import MutableObject, Object
from ...base.units import parse_time
from ...power.limits.domains import NO_LIMITS, Limited
from ...power.sources import source_of_snapshot
from ...prices.deferral import Deferral, without
from ...scheduling.curve import Curves
from ...scheduling.node_reader import rack_of
from ...scheduling.plan import PlannedMove, Step
from ...scheduling.scope import Scope
from ..decision import decide
from ..machine import Machine, Phase
from ..power_limits import with_headroom, with_sleepers_told, within_power_limits
from ..state import Decision, FleetState
from ..state_reader import read_state
from .demand_record import MachineHistory, SleepRecord
from .guards import ZONE_LABEL, Peers, is_ready, protection, room_for_autoscaler
from .lifecycle import Intent
from .node_changes import awakened
from .options import SleepOptions
from .record import NodeRecord

if t.TYPE_CHECKING:
    from ...base.context import Parameters
    from .cluster_view import Lists, Records

_AS_BOOTED = (Phase.DRAINING, Phase.ASLEEP, Phase.WAKING)


@dataclass(frozen=True)
class FleetInputs:
    """Input of a decision: snapshot and curves of the run, and its part of the cluster.

    ``placing`` are the completed options of a placement, ``limited`` its limits. ``energy_weight``
    is the present price of energy over its mean. No machine is woken for pods that the
    ``deferral`` lets wait.
    """

    snapshot: Object
    curves: Curves
    placing: Parameters
    scope: Scope | None = None
    limited: Limited = NO_LIMITS
    energy_weight: float = 1.0
    deferral: Deferral | None = None

    def due(self, pods: list[MutableObject]) -> list[MutableObject]:
        """The pods without those that wait for their hour."""
        if self.deferral is None:
            return pods
        waiting, _findings = self.deferral.waiting(pods)
        return without(pods, waiting)


@dataclass(frozen=True)
class Plan:
    """What a decision wants, by name.

    ``moves`` are those that empty each machine; ``making_room`` seat waiting pods. ``stay`` has a
    word and a sentence for each other machine. ``idle_watts`` are the machines' by their curves.
    ``protections`` say why machines must not sleep at all. ``reserve`` are the amounts that awake
    machines keep free, by resource: millicores of cpu, else whole units.
    """

    intents: t.Mapping[str, Intent] = field(default_factory=dict)
    moves: t.Mapping[str, Step] = field(default_factory=dict)
    making_room: tuple[Step, ...] = ()
    stay: t.Mapping[str, tuple[str, str]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    idle_watts: t.Mapping[str, float] = field(default_factory=dict)
    protections: t.Mapping[str, str] = field(default_factory=dict)
    reserve: t.Mapping[str, float] = field(default_factory=dict)

    @property
    def off(self) -> list[str]:
        return sorted(name for name, one in self.intents.items() if one.action == "off")


@dataclass(frozen=True)
class Planner:
    """Asks the decision about the fleet as it is now.

    Only ``may_sleep`` may be switched off; None leaves the choice to the rules.
    """

    inputs: FleetInputs
    options: SleepOptions
    peers: Peers
    has_bmc: t.Callable[[str], bool]
    now: float
    may_sleep: frozenset[str] | None = None

    def plan(
        self, lists: Lists, records: Records, are_off: t.Collection[str], record: SleepRecord
    ) -> Plan:
        """The plan; ``are_off`` are machines without a record that their BMCs say to be off."""
        placing = {**self.inputs.placing, "rebalance": True, "allow_power_off": False}
        phases = {
            name: Phase.ASLEEP
            if name in are_off
            else records.records[name].phase
            if name in records.records
            else Phase.AWAKE
            for name in lists.nodes
        }
        nodes = [_as_decided(node, records.records.get(name)) for name, node in lists.nodes.items()]
        pods = self.inputs.due(lists.pods)
        snapshot = {**self.inputs.snapshot, **lists.parts, "nodes": nodes, "pods": pods}
        source = source_of_snapshot(snapshot, self.inputs.curves, (), placing, self.inputs.scope)
        machines = {
            name: self._machine(
                node, phases[name], records.records.get(name), record.machines.get(name)
            )
            for name, node in lists.nodes.items()
            if self.inputs.scope is None or name in self.inputs.scope.nodes
        }
        waited = {
            (pod["metadata"].get("namespace", ""), pod["metadata"]["name"]): self._waited(pod)
            for pod in lists.pods
            if not member(pod, "spec", "nodeName")
        }
        rules = self.options.rules.weighed(self.inputs.energy_weight)
        state = read_state(source, placing, rules, machines, waited)
        unlimited, state = state, with_headroom(state, self.inputs.limited)
        demand = record.demand()
        decision = decide(state, demand, rules, self.now)
        decision = within_power_limits(state, decision, self.inputs.limited)
        decision = with_sleepers_told(
            unlimited, state, decision, lambda: decide(unlimited, demand, rules, self.now)
        )
        plan = _named(state, decision, lists)
        return replace(plan, notes=(*plan.notes, *self._notes()))

    def _notes(self) -> t.Iterator[str]:
        weight = self.inputs.energy_weight
        if weight != 1.0:
            yield f"Energy costs {weight:.2f} times its mean in the next hours."

    def _machine(
        self,
        node: Object,
        phase: Phase,
        record: NodeRecord | None,
        history: MachineHistory | None,
    ) -> Machine:
        """A machine that is being emptied counts as awake, since it may be needed again."""
        name, labels = node["metadata"]["name"], member(node, "metadata", "labels") or {}
        history = history or MachineHistory()
        why = protection(node, self.peers, self.has_bmc(name))
        if not why and self.now < history.left_alone_until:
            why = "It failed a switch, and is left alone for a day."
        if not why and self._is_left_out(name, phase):
            why = "The approved plan leaves it awake."
        is_emptied = phase is Phase.DRAINING
        # A kubelet cannot make its machine a rest that is longer than the rules say.
        since = history.woken if phase is Phase.AWAKE or is_emptied else self.now
        if record is not None and not is_emptied:
            since = record.since
        switching = self.options.switching
        if history.standby_watts is not None:
            switching = replace(switching, standby_watts=history.standby_watts)
        return Machine(
            name,
            switching,
            Phase.AWAKE if is_emptied else phase,
            since,
            # A machine that is ready is room, even if its boot was late.
            None if record is None or is_ready(node) else record.deadline,
            tuple(history.off),
            why,
            str(labels.get(ZONE_LABEL, "")),
            rack_of(labels),
        )

    def _is_left_out(self, name: str, phase: Phase) -> bool:
        """Whether the approved plan leaves it awake; a machine that sleeps may always be woken."""
        is_awake = phase in (Phase.AWAKE, Phase.DRAINING)
        return is_awake and self.may_sleep is not None and name not in self.may_sleep

    def _waited(self, pod: Object) -> float:
        created = member(pod, "metadata", "creationTimestamp")
        found = guarded(subject_of(pod, "Pod"), lambda: parse_time(created).timestamp())
        return max(0.0, self.now - found) if isinstance(found, float) else 0.0


def _as_decided(node: MutableObject, record: NodeRecord | None) -> MutableObject:
    """The Node without what its sleep set; it has no room while it goes off or is quarantined.

    The cordon of an administrator stays, so that the machine has no room after its boot.
    """
    if record is None:
        return node
    found = awakened(node, record)
    if record.phase not in _AS_BOOTED:
        found["spec"]["unschedulable"] = True
    return found


def _named(state: FleetState, decision: Decision, lists: Lists) -> Plan:
    names = [node.name for node in state.assignment.problem.instance.nodes]
    intents = {names[one.node]: Intent("off", one.reason) for one in decision.switch_off}
    intents.update({names[one.node]: Intent("wake", one.reason) for one in decision.wake})
    steps = _steps(state, decision, names, lists)
    costs, nodes = state.assignment.problem.costs, state.assignment.all_nodes
    idle = costs.watts(nodes, costs.base.astype(float))
    return Plan(
        intents,
        {name: step for name, step in steps.items() if name in intents},
        tuple(step for name, step in steps.items() if name not in intents),
        {names[one.node]: (one.word, one.reason) for one in (*decision.avoid, *decision.stay)},
        decision.notes,
        dict(zip(names, map(float, idle))),
        {machine.name: machine.protection for machine in state.machines if machine.protection},
        {name: round(amount, 3) for name, amount in decision.reserve.items()},
    )


def _steps(
    state: FleetState, decision: Decision, names: t.Sequence[str], lists: Lists
) -> dict[str, Step]:
    """The moves as steps of evictions by the node that their pods leave."""
    node_of = {
        (pod["metadata"].get("namespace"), pod["metadata"]["name"]): member(pod, "spec", "nodeName")
        for pod in lists.pods
    }
    left: dict[tuple[int, str], list[t.Any]] = {}
    for group, its in enumerate(state.assignment.problem.groups):
        for pod in its.pods:
            left.setdefault((group, node_of.get((pod.namespace, pod.name)) or ""), []).append(pod)
    found: dict[str, list[PlannedMove]] = {}
    for move in decision.moves:
        source, target = names[move.source], names[move.target]
        pods = left.get((move.group, source))
        if pods:
            pod = pods.pop(0)
            found.setdefault(source, []).append(
                PlannedMove(pod.namespace, pod.name, source, target, 0.0, pod.uid)
            )
    return {
        name: Step(number, tuple(moves), asleep=(name,))
        for number, (name, moves) in enumerate(found.items(), 1)
    }


def waking_all(records: Records) -> Plan:
    """The plan that brings back every machine with a record."""
    reason = "Nothing lets it sleep any more; it is brought back."
    return Plan({name: Intent("wake", reason) for name in records.records})


def with_released(plan: Plan, names: t.Iterable[str], reason: str) -> Plan:
    """The plan that also wakes these machines."""
    return replace(plan, intents={**plan.intents, **dict.fromkeys(names, Intent("wake", reason))})


def within_limits(
    plan: Plan,
    records: t.Mapping[str, NodeRecord],
    nodes: t.Mapping[str, Object],
    peers: Peers,
    share: int,
) -> Plan:
    """The plan without machines beyond the numbers that may go off at once."""
    going = [
        name for name, one in records.items() if one.phase in (Phase.DRAINING, Phase.GOING_OFF)
    ]
    left: float = share - len(going)
    reason = f"At most {share} machines are switched off at once."
    room = room_for_autoscaler(nodes.values(), peers)
    room -= sum(is_ready(nodes[name]) for name in going)
    if room < left:
        left = room
        reason = "The cluster autoscaler halts when more than 45 % of the Nodes are not ready."
    new = [name for name in plan.off if name not in records]
    beyond = dict.fromkeys(new[max(0, int(left)) :], Intent("stay", reason))
    return replace(plan, intents={**plan.intents, **beyond})
