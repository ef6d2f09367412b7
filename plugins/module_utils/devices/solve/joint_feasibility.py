# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Joint feasibility of units on given nodes, and the least power of their devices.

A placer that chooses nodes by more than devices needs it. Nodes are decided one by one, except for
units that compete for devices or counters of several nodes: these are decided together.
"""

from __future__ import annotations

import dataclasses
import typing as t
from dataclasses import dataclass

from ...base.libraries import cp_model
from ..model.model import ClaimAllocation, Instance, Unit
from .counting import counted_out
from .node_model import NodeModel, new_solver
from .search import State

# Deterministic time of CP-SAT, about seconds, for one node.
_WORK_FOR_A_NODE = 2.0

Allocations = dict[int, ClaimAllocation]


@dataclass(frozen=True)
class JointAnswer:
    """Power of newly used devices. ``milliwatts`` is the smallest power among answers with the
    earliest available alternatives; ``least`` is a lower bound over all alternatives. None:
    impossible, or with ``least`` 0 not found in the time.
    """

    milliwatts: int | None
    least: int | None
    allocations: t.Mapping[int, ClaimAllocation]


IMPOSSIBLE = JointAnswer(None, None, {})
_NOT_FOUND = JointAnswer(None, 0, {})
NOTHING = JointAnswer(0, 0, {})


class JointFeasibility:
    """Answers for one instance; units are named by their positions."""

    def __init__(self, instance: Instance, seed: int) -> None:
        self.instance = instance
        self._seed = seed
        self._state = State.of(instance)
        self._usage = self._state.usage
        self._node_names = frozenset(node.name for node in instance.nodes)
        self._accepting = [frozenset(matcher.devices) for matcher in instance.matchers]
        self._accepted_by: dict[int, list[int]] = {}
        for number, matcher in enumerate(instance.matchers):
            for device_index in matcher.devices:
                self._accepted_by.setdefault(device_index, []).append(number)
        self._held: dict[int, list[t.Any]] = {}
        for one in instance.held:
            entry = sorted(one.portions.items()), one.admin, one.whole
            self._held.setdefault(one.device, []).append(entry)
        self._shared = _devices_of_several_nodes(instance, self._node_names)
        self._compared = sorted(
            {one.attribute for claim in instance.claims for one in claim.constraints}
        )
        self._unsettled_members = [
            ((claim, request, number), alternative.unsettled)
            for claim, given in enumerate(instance.claims)
            for request, asked in enumerate(given.requests)
            for number, alternative in enumerate(asked.alternatives)
            if alternative.unsettled
        ]
        self._on_node: dict[str, list[int]] = {}
        for index, device in enumerate(instance.devices):
            for node in device.nodes:
                self._on_node.setdefault(node, []).append(index)

    def unused(self) -> JointFeasibility:
        """The same with all devices free."""
        return JointFeasibility(dataclasses.replace(self.instance, held=()), self._seed)

    def coupled(self, units: t.Mapping[str, int]) -> list[frozenset[str]]:
        """Sets of units, by names, that cannot be decided node by node.

        In each some unit may get a device that several nodes can use, or whose counters they share.
        The others compete with it for devices, directly or through others.
        """
        sets: list[tuple[set[str], set[t.Hashable]]] = []
        for name, unit in units.items():
            names, things = {name}, self._contested(unit)
            apart = []
            for other_names, other_things in sets:
                if things.isdisjoint(other_things):
                    apart.append((other_names, other_things))
                else:
                    names, things = names | other_names, things | other_things
            sets = [*apart, (names, things)]
        return [
            frozenset(names)
            for names, _things in sets
            if any(self.uses_several(units[name]) for name in names)
        ]

    def uses_several(self, unit: int) -> bool:
        """Whether a unit may get a device that involves several nodes."""
        return not self._shared.isdisjoint(self._usable(unit))

    def _contested(self, unit: int) -> set[t.Hashable]:
        """The devices that a unit may get, and the counters of these."""
        usable = self._usable(unit)
        counters = {
            counter
            for device in usable
            for counter, _amount in self.instance.devices[device].consumes
        }
        return {*(("device", one) for one in usable), *(("counter", one) for one in counters)}

    def reach(self, node: str, units: t.Iterable[int]) -> t.Hashable:
        """A key that is equal for nodes with the same usable devices for these units."""
        usable = frozenset().union(*map(self._usable, units))
        here = frozenset(self._on_node.get(node, ())) & usable
        return here, node in self.instance.unsettled, self._unsettled(node)

    def pairs(self, units: t.Iterable[int]) -> int:
        """Number of pairs of a unit and a device that it may use."""
        return sum(len(self._usable(unit)) for unit in units)

    def may_share(self, unit: int) -> bool:
        """Whether a unit may get a portion of a device that it shares with another unit."""
        return any(self.instance.devices[device].shareable for device in self._usable(unit))

    def _usable(self, unit: int) -> frozenset[int]:
        """The devices that a unit may get, on any node."""
        return frozenset().union(
            *(
                self._accepting[alternative.matcher]
                for alternative in self.instance.alternatives_of(self.instance.units[unit])
            )
        )

    def kind(self, node: str) -> t.Hashable:
        """A key that is equal for nodes with equal devices in the same order."""
        counters: dict[int, int] = {}
        described = []
        for index in self._on_node.get(node, ()):
            device = self.instance.devices[index]
            for counter, _amount in device.consumes:
                counters.setdefault(counter, len(counters))
            held = self._held.get(index, [])
            accepted = self._accepted_by.get(index, [])
            consumes = [(counters[counter], amount) for counter, amount in device.consumes]
            compared = [(name, device.attributes.get(name)) for name in self._compared]
            parts = (compared, sorted(device.capacities.items()))
            more = (device.shareable, sorted(device.access.items()), device.milliwatts)
            described.append((accepted, consumes, held, parts, more))
        left = [self._usage.counters[counter] for counter in counters]
        unsettled = node in self.instance.unsettled, self._unsettled(node)
        return repr((described, left, unsettled))

    def _unsettled(self, node: str) -> tuple[tuple[int, int, int], ...]:
        """The alternatives for every device, if "every device" is undefined on this node."""
        return tuple(member for member, nodes in self._unsettled_members if node in nodes)

    def sets(self) -> list[frozenset[int]]:
        """The sets of devices that can be counted: each device belongs to one claim completely."""
        return [
            devices
            for devices in dict.fromkeys(self._accepting)
            if not any(self.instance.devices[device].shareable for device in devices)
        ]

    def least_of(self, unit: int, devices: frozenset[int]) -> int:
        """Lower bound on the number of these devices that a unit takes."""
        return sum(
            min(1 if one.every_device else one.count for one in request.alternatives)
            for claim in self.instance.units[unit].claims
            for request in self.instance.claims[claim].requests
            if all(
                not one.admin and self._accepting[one.matcher] <= devices
                for one in request.alternatives
            )
        )

    def free_of(self, node: str, devices: frozenset[int]) -> int:
        """Number of these devices that are free on a node."""
        local = self._on_node.get(node, ())
        return sum(1 for device in local if device in devices and not self._usage.holders(device))

    def free(self, devices: frozenset[int]) -> int:
        """Number of these devices that are free on any node."""
        return sum(
            1
            for device in devices
            if self.instance.devices[device].nodes & self._node_names
            and not self._usage.holders(device)
        )

    def on_node(self, node: str, units: t.Sequence[int]) -> JointAnswer:
        """Answer for these units on a node; exact unless the time ends first."""
        if not units:
            return NOTHING
        asked = [self.instance.units[unit] for unit in units]
        together = Unit(tuple(claim for unit in asked for claim in unit.claims))
        if counted_out(self._state, together, node):
            return IMPOSSIBLE
        return self._solved([(unit, node) for unit in asked])

    def on_nodes(
        self, places: t.Mapping[str, t.Sequence[int]], unpriced: t.AbstractSet[str] = frozenset()
    ) -> JointAnswer:
        """Answer for units on several nodes; on ``unpriced`` nodes devices draw no power."""
        asked = [
            (self.instance.units[unit], node) for node, units in places.items() for unit in units
        ]
        return self._solved(asked, unpriced) if asked else NOTHING

    def _solved(
        self, places: t.Sequence[tuple[Unit, str]], unpriced: t.AbstractSet[str] = frozenset()
    ) -> JointAnswer:
        model = NodeModel(self._state, places)
        watts = sum(
            self.instance.devices[device].milliwatts * in_use
            for device, in_use in _in_priced_use(model, unpriced).items()
            if not self._usage.holders(device)
        )
        # One sum for both levels: no power outweighs an alternative.
        highest = 1 + sum(self.instance.devices[device].milliwatts for device in model.in_use)
        later = [number * taken for (*_request, number), taken in model.taken.items() if number]
        solver = _minimum(model, highest * sum(later) + watts, self._seed)
        if not isinstance(solver, str):
            milliwatts = int(solver.value(watts))
            given = model.allocations(lambda variable: int(solver.value(variable)))
            claims = [claim for unit, _node in places for claim in unit.claims]
            least = milliwatts
            if later:
                fewest = _minimum(model, watts, self._seed)
                least = 0 if isinstance(fewest, str) else int(fewest.value(watts))
            return JointAnswer(milliwatts, least, dict(zip(claims, given)))
        return IMPOSSIBLE if solver == "infeasible" else _NOT_FOUND


def _devices_of_several_nodes(instance: Instance, names: frozenset[str]) -> frozenset[int]:
    """Devices that several of these nodes can use, or whose counters the nodes share."""
    nodes_of_counter: dict[int, set[str]] = {}
    for device in instance.devices:
        for counter, _amount in device.consumes:
            nodes_of_counter.setdefault(counter, set()).update(device.nodes)
    return frozenset(
        index
        for index, device in enumerate(instance.devices)
        if len(device.nodes & names) > 1
        or any(len(nodes_of_counter[counter]) > 1 for counter, _amount in device.consumes)
    )


def _minimum(model: NodeModel, objective: t.Any, seed: int) -> t.Any:
    """A solver at the optimum, or "infeasible" or "unknown"."""
    model.model.minimize(objective)
    solver = new_solver(seed, _WORK_FOR_A_NODE)
    status = solver.solve(model.model)
    if status == cp_model.OPTIMAL:
        return solver
    return "infeasible" if status == cp_model.INFEASIBLE else "unknown"


def _in_priced_use(model: NodeModel, unpriced: t.AbstractSet[str]) -> dict[int, t.Any]:
    """Whether a new user has each device on a node where power counts."""
    if not unpriced:
        return model.in_use
    uses: dict[int, list[t.Any]] = {}
    for use in model.uses:
        if model.place_of(use.member).node not in unpriced and not model.alternative(use).admin:
            uses.setdefault(use.device, []).append(use.chosen)
    found: dict[int, t.Any] = {}
    for device, chosen in uses.items():
        found[device] = model.model.new_bool_var("")
        for one in chosen:
            model.model.add_implication(one, found[device])
    return found
