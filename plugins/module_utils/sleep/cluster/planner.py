# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The decision of one run by the names of the cluster: an intent for each machine, and moves."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...base.boundary import guarded, subject_of
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...base.libraries import numpy
from ...base.units import parse_time
from ...power.sources import source_of_snapshot
from ...scheduling.plan import PlannedMove, Step
from ...scheduling.scope import Scope
from ..decision import decide
from ..demand import Demand
from ..fleet import Fleet
from ..machine import Machine, Phase
from ..reserve import reserve_of
from ..state import Decision, FleetState
from ..state_reader import read_state
from .demand_record import MachineHistory, SleepRecord
from .guards import ZONE_LABEL, Peers, is_ready, protection
from .lifecycle import Intent
from .node_changes import awakened
from .options import SleepOptions
from .record import NodeRecord

if t.TYPE_CHECKING:
    from ...base.context import Parameters
    from .cluster_view import Lists, Records

_RACK_LABELS = ("wattwise.github.io/rack", "topology.kubernetes.io/rack")
_AS_BOOTED = (Phase.DRAINING, Phase.ASLEEP, Phase.WAKING)


@dataclass(frozen=True)
class FleetInputs:
    """Input of a decision: snapshot and curves of the run, and its part of the cluster.

    ``placing`` are the completed options of a placement.
    """

    snapshot: Object
    curves: Object
    placing: Parameters
    scope: Scope | None = None


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
    """Asks the decision about the fleet as it is now."""

    inputs: FleetInputs
    options: SleepOptions
    peers: Peers
    has_bmc: t.Callable[[str], bool]
    now: float

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
        nodes = [
            awakened(node) if phases[name] in _AS_BOOTED else node
            for name, node in lists.nodes.items()
        ]
        snapshot = {**self.inputs.snapshot, **lists.parts, "nodes": nodes}
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
        state = read_state(source, placing, self.options.rules, machines, waited)
        demand, rules = record.demand(), self.options.rules
        decision = decide(state, demand, rules, self.now)
        reserve = _reserve(Fleet(state, demand, rules, self.now), demand)
        return replace(_named(state, decision, lists), reserve=reserve)

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
        is_emptied = phase is Phase.DRAINING
        # A kubelet cannot make its machine a rest that is longer than the rules say.
        since = history.woken if phase is Phase.AWAKE or is_emptied else self.now
        if record is not None and not is_emptied:
            since = record.since
        return Machine(
            name,
            self.options.switching,
            Phase.AWAKE if is_emptied else phase,
            since,
            # A machine that is ready is room, even if its boot was late.
            None if record is None or is_ready(node) else record.deadline,
            tuple(history.off),
            why,
            str(labels.get(ZONE_LABEL, "")),
            next((str(labels[one]) for one in _RACK_LABELS if one in labels), ""),
        )

    def _waited(self, pod: Object) -> float:
        created = member(pod, "metadata", "creationTimestamp")
        found = guarded(subject_of(pod, "Pod"), lambda: parse_time(created).timestamp())
        return max(0.0, self.now - found) if isinstance(found, float) else 0.0


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
    )


def _reserve(fleet: Fleet, demand: Demand) -> dict[str, float]:
    """The sum of the shapes that must fit beside the pods."""
    there = fleet.state.assignment.counts[:, fleet.awake].sum(axis=1) + fleet.state.waiting
    load = numpy.zeros(len(fleet.amounts.names))
    for group in range(len(there)):
        load += there[group] * fleet.amounts.of_group(fleet.state, group)
    shapes = reserve_of(fleet.amounts, load, demand, fleet.rules, fleet.now, fleet.boot_seconds)
    total = sum((shape.total for shape in shapes), numpy.zeros(len(fleet.amounts.names)))
    return {
        name: round(float(amount), 3)
        for name, amount in zip(fleet.amounts.names, total)
        if amount > 0
    }


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
    reason = "Sleep is off; it is brought back."
    return Plan({name: Intent("wake", reason) for name in records.records})


def with_released(plan: Plan, names: t.Iterable[str], reason: str) -> Plan:
    """The plan that also wakes these machines."""
    return replace(plan, intents={**plan.intents, **dict.fromkeys(names, Intent("wake", reason))})
