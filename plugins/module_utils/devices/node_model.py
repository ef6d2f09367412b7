# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""All claims of a unit on one node as a model of CP-SAT: exact, with or without an answer.

Variables say which alternative of each request is taken, and which device it takes. What a linear
relaxation does not see is added as cuts, because "no" is the answer that takes long otherwise: how
many devices a counter is for at the most, and how many claims of one shape find a common value.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.devices.model import (
    Alternative,
    Amounts,
    Chosen,
    Claim,
    ClaimAllocation,
    Constraint,
    Instance,
    Unit,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.search import Candidates
from ansible_collections.wattwise.kube.plugins.module_utils.devices.usage import (
    BLOCKED_BY,
    Usage,
)
from ansible_collections.wattwise.kube.plugins.module_utils.devices.values import identities
from ansible_collections.wattwise.kube.plugins.module_utils.errors import require

Member = tuple[int, int, int]
Values = frozenset[tuple[str, t.Any]]


@dataclass(frozen=True)
class Use:
    """One device as a part of one alternative; ``chosen`` is the variable that says so."""

    member: Member
    device: int
    chosen: t.Any
    portions: Amounts
    shares: t.Mapping[str, t.Any] = field(default_factory=dict)


class NodeModel:
    """The model of a unit on a node; a solver may add an objective over ``uses`` and ``taken``.

    ``taken`` has the variable of each alternative by (position of the claim in the unit, request,
    alternative). What ``usage`` says is taken stays so.
    """

    def __init__(
        self, instance: Instance, usage: Usage, candidates: Candidates, unit: Unit, node: str
    ) -> None:
        self.model = require("ortools.sat.python.cp_model", "ortools").CpModel()
        self.uses: list[Use] = []
        self.taken: dict[Member, t.Any] = {}
        self._instance, self._usage, self._candidates = instance, usage, candidates
        self._node = node
        self._claims = [instance.claims[claim] for claim in unit.claims]
        for position, claim in enumerate(self._claims):
            self._add_claim(position, claim)
        self._by_device: dict[int, list[Use]] = {}
        for use in self.uses:
            self._by_device.setdefault(use.device, []).append(use)
        in_use = {device: self._share(device) for device in self._by_device}
        self._add_counters(in_use)
        self._choices: dict[tuple[t.Hashable, Constraint], list[dict[t.Any, t.Any]]] = {}
        self._add_constraints(unit)

    def _add_claim(self, position: int, claim: Claim) -> None:
        start = len(self.uses)
        for request, asked in enumerate(claim.requests):
            ways = []
            for number, alternative in enumerate(asked.alternatives):
                member = position, request, number
                self.taken[member] = self.model.new_bool_var("")
                ways.append(self.taken[member])
                self._add_alternative(member, alternative)
            self.model.add_exactly_one(ways)
        if claim.limit is not None:
            self.model.add(sum(use.chosen for use in self.uses[start:]) <= claim.limit)

    def _add_alternative(self, member: Member, alternative: Alternative) -> None:
        taken = self.taken[member]
        candidates = self._candidates.of(alternative.matcher, self._node)
        uses = []
        for device in candidates:
            portions = self._usage.portions(device, alternative)
            if portions is not None:
                uses.append(self._use(member, device, alternative, portions))
        self.uses += uses
        total = sum(use.chosen for use in uses)
        if alternative.every_device:
            if len(uses) < len(candidates) or not uses or self._node in self._instance.unsettled:
                self.model.add(taken == 0)
            for use in uses:
                self.model.add(use.chosen == taken)
            return
        self.model.add(total >= alternative.count * taken)
        self.model.add(total <= alternative.maximum * taken)
        for name, amount in alternative.totals.items():
            self.model.add(self._gathered(uses, alternative, name) >= amount * taken)
        for name, amount in alternative.ceilings.items():
            whole = sum(self._amount(use.device, name) * use.chosen for use in uses)
            self.model.add(whole <= amount)

    def _use(self, member: Member, device: int, alternative: Alternative, portions: Amounts) -> Use:
        chosen = self.model.new_bool_var("")
        if not (alternative.shared and alternative.totals):
            return Use(member, device, chosen, portions)
        shares = {}
        for name in alternative.totals:
            left = portions.get(name, 0)
            step = self._instance.devices[device].capacities[name].step if left else 1
            blocks = self.model.new_int_var(0, left // step, "")
            self.model.add(blocks <= left // step * chosen)
            shares[name] = step * blocks
        return Use(member, device, chosen, {}, shares)

    def _gathered(self, uses: t.Sequence[Use], alternative: Alternative, name: str) -> t.Any:
        if alternative.shared:
            return sum(use.shares[name] for use in uses)
        return sum(self._amount(use.device, name) * use.chosen for use in uses)

    def _amount(self, device: int, name: str) -> int:
        capacities = self._instance.devices[device].capacities
        return capacities[name].amount if name in capacities else 0

    def _alternative(self, use: Use) -> Alternative:
        position, request, number = use.member
        return self._claims[position].requests[request].alternatives[number]

    def _share(self, device: int) -> t.Any:
        """Let uses of one device exclude each other or add up; gives whether it is in use."""
        given = self._instance.devices[device]
        admins = [use for use in self._by_device[device] if self._alternative(use).admin]
        self._once_in_a_claim(admins)
        uses = [use for use in self._by_device[device] if not self._alternative(use).admin]
        if not given.shareable:
            self.model.add_at_most_one(use.chosen for use in uses)
            return sum(use.chosen for use in uses)
        for name in given.capacities:
            total = sum(
                use.shares.get(name, use.portions.get(name, 0) * use.chosen) for use in uses
            )
            self.model.add(total <= self._usage.left(device, name))
        for index, use in enumerate(uses):
            for other in uses[index + 1 :]:
                if self._exclude_each_other(use, other):
                    self.model.add_at_most_one(use.chosen, other.chosen)
        in_use = self.model.new_bool_var("")
        for use in uses:
            self.model.add_implication(use.chosen, in_use)
        return in_use

    def _once_in_a_claim(self, admins: t.Sequence[Use]) -> None:
        by_claim: dict[int, list[t.Any]] = {}
        for use in admins:
            by_claim.setdefault(use.member[0], []).append(use.chosen)
        for chosen in by_claim.values():
            self.model.add_at_most_one(chosen)

    def _exclude_each_other(self, use: Use, other: Use) -> bool:
        if self._alternative(use).whole or self._alternative(other).whole:
            return True
        modes = (name.partition("=") for name in use.portions if "=" in name)
        return any(
            f"{resource}={blocking}" in other.portions
            for resource, _equals, mode in modes
            for blocking in BLOCKED_BY[mode]
        )

    def _add_counters(self, in_use: t.Mapping[int, t.Any]) -> None:
        drawn: dict[int, list[tuple[int, t.Any]]] = {}
        for device, variable in in_use.items():
            if not self._usage.holders(device):
                for counter, amount in self._instance.devices[device].consumes:
                    drawn.setdefault(counter, []).append((amount, variable))
        for counter, parts in drawn.items():
            left = self._usage.counters[counter]
            self.model.add(sum(amount * variable for amount, variable in parts) <= left)
            drawing = [(amount, variable) for amount, variable in parts if amount]
            most = most_within(left, [amount for amount, _variable in drawing])
            if most < len(drawing):
                self.model.add(sum(variable for _amount, variable in drawing) <= most)

    def _add_constraints(self, unit: Unit) -> None:
        for position, claim in enumerate(self._claims):
            for constraint in claim.constraints:
                members = {(position, *member) for member in constraint.members}
                choice = self._constrain(constraint.kind, constraint.attribute, members)
                if choice:
                    self._choices.setdefault((claim.shape(), constraint), []).append(choice)
        for kind, attribute, common in unit.common:
            self._constrain(kind, attribute, common)
        for (_shape, constraint), choices in self._choices.items():
            self._limit_choices(constraint, choices)

    def _constrain(
        self, kind: str, attribute: str, members: t.AbstractSet[Member]
    ) -> dict[t.Any, t.Any]:
        """Add a constraint; for a match gives a variable for each value that may be common."""
        holding: dict[t.Any, list[t.Any]] = {}
        concerned: list[tuple[Use, Values]] = []
        for use in self.uses:
            if use.member in members:
                values = self._values(use.device, attribute)
                concerned.append((use, values))
                if not values:
                    self.model.add(use.chosen == 0)
                for value in values:
                    holding.setdefault(value, []).append(use.chosen)
        if kind == "distinct":
            for chosen in holding.values():
                self.model.add_at_most_one(chosen)
            return {}
        common = {value: self.model.new_bool_var("") for value in holding}
        if common:
            self.model.add_exactly_one(common.values())
        for use, values in concerned:
            if values:
                self.model.add(sum(common[value] for value in values) >= use.chosen)
        return common

    def _limit_choices(self, constraint: Constraint, choices: list[dict[t.Any, t.Any]]) -> None:
        """Cut: of claims of one shape only so many can have the devices with one value."""
        [first, *_rest] = [claim for claim in self._claims if constraint in claim.constraints]
        least = sum(
            min(one.count for one in request.alternatives)
            for index, request in enumerate(first.requests)
            if all(
                (index, number) in constraint.members for number in range(len(request.alternatives))
            )
        )
        if least < 2 or len(choices) < 2:
            return
        for value in choices[0]:
            there = [
                device
                for device in self._by_device
                if value in self._values(device, constraint.attribute)
            ]
            if any(self._instance.devices[device].shareable for device in there):
                continue
            chosen = [choice[value] for choice in choices if value in choice]
            self.model.add(sum(chosen) <= len(there) // least)

    def _values(self, device: int, attribute: str) -> Values:
        value = self._instance.devices[device].attributes.get(attribute)
        return frozenset() if value is None else identities(value)

    def allocations(self, value: t.Callable[[t.Any], int]) -> tuple[ClaimAllocation, ...]:
        """What the claims get, where ``value`` tells the value of a variable or expression."""
        chosen: list[list[Chosen]] = [[] for _claim in self._claims]
        for use in self.uses:
            if value(use.chosen):
                position, request, number = use.member
                shares = {name: value(share) for name, share in use.shares.items()}
                portions = {name: amount for name, amount in shares.items() if amount}
                chosen[position].append(
                    Chosen(request, number, use.device, portions or use.portions)
                )
        return tuple(ClaimAllocation(self._node, tuple(devices)) for devices in chosen)


def most_within(left: int, amounts: t.Iterable[int]) -> int:
    """How many of these amounts fit at the most: the smallest ones."""
    count = 0
    for amount in sorted(amounts):
        left -= amount
        if left < 0:
            break
        count += 1
    return count
