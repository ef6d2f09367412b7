# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Optimal min-cost flow for thousands of claims for one plain device each.

If each unit is one claim for one device, and no device is shared or partitioned, all levels of the
objective except the power draw of unused nodes are sums over pairs of a claim and a device. Claims
that may use the same devices are one node of the flow, and so are devices that the same claims may
use. The cost of a path is the weighted sum of its pair's levels; the weights preserve the
precedence of levels.

The nodes to wake for such claims at the least power are a unit commitment. A node in use offers its
devices to all claims equally. So the model has a number for each pair of a kind of claims and a
kind of devices, independent of nodes, and one binary for each node. With the binaries fixed the
rest is a flow, which has integral optimal solutions.
"""

from __future__ import annotations

import math
import typing as t
from collections import Counter
from dataclasses import dataclass, replace

from ...base.libraries import min_cost_flow
from ...solving.limits import Limits
from ...solving.linear import LinearModel, solve
from ...solving.matching import Matching
from ..model.model import ClaimAllocation, Instance, Pick
from ..model.objective import Objective
from ..model.usage import Usage
from .matching import is_plain

# The flow's library multiplies costs by the number of nodes within 63 bits.
_MAX = 2**62

Claims = list[t.Optional[ClaimAllocation]]
# Groups with the rank of a device to each, and the position of the node where several can use it.
Members = tuple[tuple[int, int, int], ...]
_Classes = dict[tuple[Members, int], list[int]]

# Nodes of HiGHS' search: counted, so that equal input gives an equal answer.
_BRANCHING_NODES = 300


@dataclass
class _ClaimGroup:
    """Claims with the same priority, nodes and alternatives.

    Each usable device has a ``rank``, and the position of its ``first`` node if several can use it.
    """

    priority: int
    claims: list[int]
    rank: dict[int, int]
    first: dict[int, int]


@dataclass
class PlainAnswer:
    """An answer, the bound of each level, and whether the counted work was enough for all."""

    claims: Claims
    bounds: list[int]
    complete: bool = True


def solve_plain(
    instance: Instance, objective: Objective, limits: Limits, *, may_wake: bool = False
) -> PlainAnswer | None:
    """The best answer; None if the instance is not plain.

    ``may_wake`` admits unused nodes, which cost power; the level of names, which is after that of
    power, then has a bound only.
    """
    groups = _groups(instance, objective)
    if groups is None:
        return None
    wakes = _costs_to_wake(instance, groups)
    if wakes and (not may_wake or any(group.first for group in groups)):
        return None
    groups.sort(key=lambda group: -group.priority)
    classes = _classes(instance, groups)
    satisfied = _most_satisfied(objective, groups, classes)
    costs = _PairCosts(instance, objective, groups, sum(satisfied.values()))
    claims = _cheapest(instance, groups, classes, satisfied, costs)
    if claims is None:
        raise RuntimeError("claims that are matched are no flow")
    plain = PlainAnswer(claims, objective.values(claims))
    if not costs.by_name:
        plain.bounds[-1] = costs.least_names(sum(satisfied.values()))
    if wakes:
        return _wake_fewer(instance, objective, groups, satisfied, plain, limits)
    return plain


def _most_satisfied(
    objective: Objective, groups: t.Sequence[_ClaimGroup], classes: _Classes
) -> dict[int, int]:
    """Number of claims of each priority that can be satisfied.

    Groups are matched in the order of priority, and none loses claims to a later one.
    """
    usable: list[list[int]] = [[] for _group in groups]
    for one, (members, _milliwatts) in enumerate(classes):
        for member, _rank, _node in members:
            usable[member].append(one)
    matching = Matching([group.claims for group in groups], list(classes.values()), usable)
    satisfied = dict.fromkeys(objective.priorities, 0)
    for group, left in zip(groups, matching.left_over):
        satisfied[group.priority] += len(group.claims) - left
    return satisfied


def _wake_fewer(
    instance: Instance,
    objective: Objective,
    groups: t.Sequence[_ClaimGroup],
    satisfied: dict[int, int],
    plain: PlainAnswer,
    limits: Limits,
) -> PlainAnswer:
    """The answer with the set of nodes that costs the least power."""
    where = {
        device: next(iter(instance.devices[device].nodes & objective.node_rank.keys()))
        for group in groups
        for device in group.rank
    }
    rank = objective.values(plain.claims)[len(satisfied)]
    classes = _classes(instance, groups)
    model, columns = _commitment(groups, classes, where, objective.wake, satisfied, rank)
    solution = solve(model, limits, _BRANCHING_NODES)
    bound = max(0, math.floor(solution.bound)) if solution.bound > -math.inf else 0
    if solution.is_optimal:
        bound = round(solution.bound)
    count = sum(satisfied.values())
    best, least = plain.claims, _PairCosts(instance, objective, groups, count).least_names(count)
    if solution.values:
        awake = {node for node, column in columns.items() if solution.values[column] > 0.5}
        kept = [
            replace(
                group, rank={one: rank for one, rank in group.rank.items() if where[one] in awake}
            )
            for group in groups
        ]
        costs = _PairCosts(instance, objective, kept, count)
        claims = _cheapest(instance, kept, _classes(instance, kept), satisfied, costs)
        best = min(plain.claims, claims or plain.claims, key=objective.values)
    bounds = objective.values(best)
    bounds[-4], bounds[-1] = min(bounds[-4], bound), min(bounds[-1], least)
    return PlainAnswer(best, bounds, solution.is_optimal)


def _commitment(
    groups: t.Sequence[_ClaimGroup],
    classes: _Classes,
    where: t.Mapping[int, str],
    wake: t.Mapping[str, int],
    satisfied: t.Mapping[int, int],
    rank: int,
) -> tuple[LinearModel, dict[str, int]]:
    """The model, and the column of each node.

    ``where`` has the node of each device, ``wake`` the milliwatts of each node, 0 for a node in
    use. ``rank`` is the allowed sum of ranks.
    """
    model = LinearModel()
    awake = {
        node: model.column(0 if cost else 1, 1, cost, integer=True) for node, cost in wake.items()
    }
    by_group: list[list[tuple[int, float]]] = [[] for _group in groups]
    ranks: list[tuple[int, float]] = []
    for (members, milliwatts), devices in classes.items():
        by_node = Counter(where[device] for device in devices)
        offered: list[tuple[int, float]] = [
            (awake[node], -count) for node, count in by_node.items()
        ]
        for number, its_rank, _node in members:
            most = min(len(groups[number].claims), len(devices))
            column = model.column(0, most, milliwatts)
            by_group[number].append((column, 1))
            ranks.append((column, its_rank))
            offered.append((column, 1))
        model.at_most(offered, 0)
    for group, terms in zip(groups, by_group):
        model.at_most(terms, len(group.claims))
    for priority, count in satisfied.items():
        each = (terms for one, terms in zip(groups, by_group) if one.priority == priority)
        model.equal([term for terms in each for term in terms], count)
    model.at_most(ranks, rank)
    return model, awake


def _groups(instance: Instance, objective: Objective) -> list[_ClaimGroup] | None:
    kinds: dict[tuple[int, frozenset[str] | None, tuple[int, ...]], list[int]] = {}
    for unit in instance.units:
        claim = instance.claims[unit.claims[0]]
        if len(unit.claims) > 1 or not is_plain(claim) or claim.limit == 0:
            return None
        matchers = tuple(one.matcher for one in claim.requests[0].alternatives)
        kinds.setdefault((unit.priority, unit.nodes, matchers), []).append(unit.claims[0])
    usage, position = Usage(instance), objective.node_rank
    # Network devices have equal sets of nodes, each of which is processed once.
    sets = {device.nodes: device.nodes & position.keys() for device in instance.devices}
    groups = []
    for (priority, nodes, matchers), claims in kinds.items():
        group = _ClaimGroup(priority, claims, {}, {})
        first = _first_nodes(sets, nodes, position)
        for number, matcher in enumerate(matchers):
            for device in instance.matchers[matcher].devices:
                given = instance.devices[device]
                if given.shareable or given.consumes:
                    return None
                if given.nodes in first and not usage.in_use(device):
                    group.rank.setdefault(device, number)
                    if len(sets[given.nodes]) > 1:
                        group.first[device] = first[given.nodes]
        groups.append(group)
    return groups


def _first_nodes(
    sets: t.Mapping[frozenset[str], t.AbstractSet[str]],
    nodes: frozenset[str] | None,
    position: t.Mapping[str, int],
) -> dict[frozenset[str], int]:
    """The position of the first node of each set on which a claim may be, if any."""
    found: dict[frozenset[str], int] = {}
    for each, there in sets.items():
        positions = [position[node] for node in there if nodes is None or node in nodes]
        if positions:
            found[each] = min(positions)
    return found


def _costs_to_wake(instance: Instance, groups: t.Sequence[_ClaimGroup]) -> bool:
    costly = {node.name for node in instance.nodes if node.wake_milliwatts}
    return bool(costly) and any(
        not costly.isdisjoint(instance.devices[device].nodes)
        for group in groups
        for device in group.rank
    )


def _classes(instance: Instance, groups: t.Sequence[_ClaimGroup]) -> _Classes:
    """Devices by the groups that may use them, with the rank, and by their power."""
    members: dict[int, list[tuple[int, int, int]]] = {}
    for number, group in enumerate(groups):
        for device, rank in group.rank.items():
            members.setdefault(device, []).append((number, rank, group.first.get(device, 0)))
    classes: _Classes = {}
    for device in sorted(members):
        key = tuple(members[device]), instance.devices[device].milliwatts
        classes.setdefault(key, []).append(device)
    return classes


class _PairCosts:
    """Cost of a pair: rank, watts and names as one number.

    ``by_name`` is False if this number would be too large with names; names are then left out.
    """

    def __init__(
        self, instance: Instance, objective: Objective, groups: t.Sequence[_ClaimGroup], claims: int
    ) -> None:
        devices = {device for group in groups for device in group.rank}
        of_several = {device for group in groups for device in group.first}
        everywhere = objective.node_rank
        # The node of a device with several nodes depends on the claim: see pair.
        self.names = {device: device + 1 for device in devices}
        for device in devices - of_several:
            self.names[device] += sum(
                everywhere.get(node, 0) for node in instance.devices[device].nodes
            )
        watts = max((instance.devices[device].milliwatts for device in devices), default=0)
        ranks = max((rank for group in groups for rank in group.rank.values()), default=0)
        nodes = len(groups) + len(devices) + 2
        for by_name in (True, False):
            self.by_name = by_name
            name = max(self.names.values(), default=0) + len(everywhere) if by_name else 0
            self.watt = claims * name + 1
            self.rank = self.watt * (claims * watts + 1)
            if (self.rank * ranks + self.watt * watts + name) * nodes < _MAX:
                break

    def pair(self, rank: int, node: int) -> int:
        return self.rank * rank + (node if self.by_name else 0)

    def device(self, device: int, milliwatts: int) -> int:
        return self.watt * milliwatts + (self.names[device] if self.by_name else 0)

    def least_names(self, claims: int) -> int:
        """Lower bound: the first devices, for any claims."""
        return sum(sorted(self.names.values())[:claims])


class _Flow:
    """Flow of minimal cost: priorities → groups → classes of devices → devices."""

    def __init__(
        self,
        groups: t.Sequence[_ClaimGroup],
        classes: _Classes,
        satisfied: t.Mapping[int, int],
        costs: _PairCosts,
    ) -> None:
        self._flow = min_cost_flow.SimpleMinCostFlow()
        self._pairs: dict[tuple[int, int], int] = {}
        self._devices: list[tuple[int, int, int]] = []
        first_class = len(groups)
        sink = first_class + len(classes)
        for number, (priority, claims) in enumerate(satisfied.items()):
            source = sink + 1 + number
            self._flow.set_node_supply(source, claims)
            for group, given in enumerate(groups):
                if given.priority == priority:
                    self._arc(source, group, len(given.claims), 0)
        for number, ((members, milliwatts), devices) in enumerate(classes.items()):
            for group, rank, node in members:
                most = min(len(devices), len(groups[group].claims))
                arc = self._arc(group, first_class + number, most, costs.pair(rank, node))
                self._pairs[group, number] = arc
            for device in devices:
                cost = costs.device(device, milliwatts)
                arc = self._arc(first_class + number, sink, 1, cost)
                self._devices.append((number, device, arc))
        self._flow.set_node_supply(sink, -sum(satisfied.values()))

    def _arc(self, tail: int, head: int, capacity: int, cost: int) -> int:
        return int(self._flow.add_arc_with_capacity_and_unit_cost(tail, head, capacity, cost))

    def run(self) -> dict[int, list[int]] | None:
        """The devices of each group; None if this number of claims cannot be satisfied."""
        if self._flow.solve() != self._flow.OPTIMAL:
            return None
        taken: dict[int, list[int]] = {}
        for number, device, arc in self._devices:
            if self._flow.flow(arc):
                taken.setdefault(number, []).append(device)
        given: dict[int, list[int]] = {}
        for (group, number), arc in self._pairs.items():
            count = self._flow.flow(arc)
            if count:
                given.setdefault(group, []).extend(taken[number][:count])
                del taken[number][:count]
        return given


def _cheapest(
    instance: Instance,
    groups: t.Sequence[_ClaimGroup],
    classes: _Classes,
    satisfied: t.Mapping[int, int],
    costs: _PairCosts,
) -> Claims | None:
    """Allocations in which the first claims of each group get its first devices.

    None if this number of claims cannot be satisfied.
    """
    given = _Flow(groups, classes, satisfied, costs).run()
    if given is None:
        return None
    claims: Claims = [None] * len(instance.claims)
    everywhere = {node.name for node in instance.nodes}
    for number, devices in given.items():
        group = groups[number]
        for claim, device in zip(group.claims, sorted(devices)):
            if device in group.first:
                node = instance.nodes[group.first[device]].name
            else:
                [node] = instance.devices[device].nodes & everywhere
            claims[claim] = ClaimAllocation(node, (Pick(0, group.rank[device], device),))
    return claims
