# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Feasibility of claims together on one node: by counting, a short search, then a solver."""

from __future__ import annotations

import typing as t

from ...base.libraries import cp_model
from ...solving.limits import Limits
from ..model.model import ClaimAllocation, Instance, Request, Unit
from ..model.usage import Usage
from .node_model import NodeModel, most_within, new_solver
from .search import Candidates, OutOfTime, Search

# Devices that are tried before a search counts as hard.
STEPS_OF_SEARCH = 1000
_SECONDS_OF_SEARCH = 60.0
# Work of CP-SAT for each second of the limit: its deterministic time is close to seconds.
_WORK_FOR_A_SECOND = 1.0

ClaimAllocations = tuple[ClaimAllocation, ...]


def solve_node(
    instance: Instance, usage: Usage, candidates: Candidates, unit: Unit, node: str, limits: Limits
) -> ClaimAllocations | t.Literal["infeasible", "unknown"]:
    """Allocation of a unit's claims on a node, or infeasible, or unknown.

    Nothing is taken from ``usage``.
    """
    if counted_out(instance, usage, candidates, unit, node):
        return "infeasible"
    found = _searched(instance, usage, candidates, unit, node)
    if found is not None:
        return found
    model = NodeModel(instance, usage, candidates, [(unit, node)])
    solver = new_solver(limits.seed, _WORK_FOR_A_SECOND * limits.left(), limits.patience())
    status = solver.solve(model.model)
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return model.allocations(lambda variable: int(solver.value(variable)))
    return "infeasible" if status == cp_model.INFEASIBLE else "unknown"


def _searched(
    instance: Instance, usage: Usage, candidates: Candidates, unit: Unit, node: str
) -> ClaimAllocations | t.Literal["infeasible"] | None:
    """Answer of a short search: most tasks are easy, and a model takes longer to build."""
    search = Search(instance, usage, candidates, Limits(_SECONDS_OF_SEARCH))
    try:
        found = search.run(unit, node, STEPS_OF_SEARCH)
    except OutOfTime:
        return None
    if found is None:
        return "infeasible"
    for allocation, claim in zip(found, unit.claims):
        for chosen in allocation.chosen:
            if not instance.alternative(claim, chosen).admin:
                usage.give_back(chosen.device, chosen.portions)
    return found


def counted_out(
    instance: Instance, usage: Usage, candidates: Candidates, unit: Unit, node: str
) -> bool:
    """Whether counting alone shows that a unit cannot be satisfied on a node.

    Hall's condition is checked for each set of devices of some request: the requests that are
    limited to the set need more devices than it can supply, and the counters of each pool limit the
    supply. Shareable devices and admin access end the counting.
    """
    wanted: dict[frozenset[int], int] = {}
    usable_by_shape: dict[t.Hashable, frozenset[int] | None] = {}
    for claim in unit.claims:
        for request in instance.claims[claim].requests:
            shape = request.shape()
            if shape not in usable_by_shape:
                usable_by_shape[shape] = _usable(instance, usage, candidates, request, node)
            usable = usable_by_shape[shape]
            if usable is None:
                return False
            least = min(1 if one.every_device else one.count for one in request.alternatives)
            wanted[usable] = wanted.get(usable, 0) + least
    everything: frozenset[int] = frozenset().union(*wanted)
    return any(
        sum(count for other, count in wanted.items() if other <= devices)
        > most_together(instance, usage, devices)
        for devices in {*wanted, everything}
    ) or _overdraws(instance, usage, wanted)


def _usable(
    instance: Instance, usage: Usage, candidates: Candidates, request: Request, node: str
) -> frozenset[int] | None:
    """The devices that a request may get now; None if they cannot be counted."""
    usable: set[int] = set()
    for alternative in request.alternatives:
        found = candidates.of(alternative.matcher, node)
        if alternative.admin or any(instance.devices[one].shareable for one in found):
            return None
        usable |= {one for one in found if usage.portions(one, alternative) is not None}
    return frozenset(usable)


def _overdraws(instance: Instance, usage: Usage, wanted: t.Mapping[frozenset[int], int]) -> bool:
    """Whether even the smallest devices need more of a counter than their pools have."""
    drawn_from = {
        position
        for devices in wanted
        for device in devices
        for position, _amount in instance.devices[device].consumes
    }
    there: dict[tuple[str, str], int] = {}
    for position in drawn_from:
        counter = instance.counters[position]
        name = counter.counter_set, counter.name
        there[name] = there.get(name, 0) + max(0, usage.counters[position])
    needed: dict[tuple[str, str], int] = {}
    for devices, count in wanted.items():
        least: dict[tuple[str, str], int] | None = None
        for device in devices:
            drawn: dict[tuple[str, str], int] = {}
            for position, amount in instance.devices[device].consumes:
                counter = instance.counters[position]
                drawn[counter.counter_set, counter.name] = amount
            if least is None:
                least = drawn
            least = {name: min(least[name], drawn[name]) for name in least.keys() & drawn.keys()}
        for name, amount in (least or {}).items():
            needed[name] = needed.get(name, 0) + count * amount
    return any(amount > there[name] for name, amount in needed.items())


def most_together(instance: Instance, usage: Usage, devices: t.AbstractSet[int]) -> int:
    """Upper bound on the number of these devices in use at once, by pool and counter."""
    total = 0
    by_pool: dict[tuple[str, str], list[int]] = {}
    for device in devices:
        given = instance.devices[device]
        by_pool.setdefault((given.driver, given.pool), []).append(device)
    for members in by_pool.values():
        drawn: dict[int, list[int]] = {}
        for device in members:
            for counter, amount in instance.devices[device].consumes:
                if amount and not usage.holders(device):
                    drawn.setdefault(counter, []).append(amount)
        total += min(
            [len(members)]
            + [
                len(members) - len(amounts) + most_within(usage.counters[counter], amounts)
                for counter, amounts in drawn.items()
            ]
        )
    return total
