# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Exact CP-SAT model of units' claims on nodes.

Variables choose the alternative of each request, and its devices. Cuts tighten the linear
relaxation, because proofs of infeasibility take long otherwise. They bound the devices that a
counter allows, and the claims of one shape that find a common value.

CP-SAT has 64-bit integers, and 9 Pi in thousandths exceed 2^63. So amounts are divided by their
common divisor, and capped at the requested or available amount. Amounts that are still too large
are written in two digits.
"""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field

from ...base.libraries import cp_model
from ...cel.values import identities
from ..model.model import (
    Alternative,
    Amounts,
    Claim,
    ClaimAllocation,
    Constraint,
    Instance,
    Pick,
    Unit,
)
from ..model.usage import BLOCKED_BY, Member, Values
from .search import State

# Well below 2^63, because the solver adds such sums.
_MAX_SUM = 1 << 58
_DIGIT = 1 << 40


@dataclass(frozen=True)
class Use:
    """One device as a part of one alternative; ``chosen`` is its variable."""

    member: Member
    device: int
    chosen: t.Any
    portions: Amounts
    shares: t.Mapping[str, Term] = field(default_factory=dict)


@dataclass(frozen=True)
class Place:
    """A unit on a node.

    ``here`` is a variable, or 1 if the unit must be there. ``first`` is the position of its first
    claim among the claims of all places.
    """

    unit: Unit
    node: str
    here: t.Any
    first: int


class NodeModel:
    """The model of units on nodes; a solver may add an objective over its variables.

    ``taken`` has the variable of each alternative by (position of the claim, request, alternative),
    where claims are counted through all places; ``in_use`` has for each device whether a new user
    has it, ``drawn`` the consumption of each counter. Allocations in the state stay. With
    ``optional`` units may be left out, and a unit with places on several nodes is on at most one.
    """

    def __init__(
        self, state: State, places: t.Iterable[tuple[Unit, str]], optional: bool = False
    ) -> None:
        self.model = cp_model.CpModel()
        self.uses: list[Use] = []
        self.taken: dict[Member, t.Any] = {}
        self.places: list[Place] = []
        self._instance, self._usage, self._candidates = state
        self._claims: list[Claim] = []
        self._place_of: list[Place] = []
        for unit, node in places:
            here = self.model.new_bool_var("") if optional else 1
            place = Place(unit, node, here, len(self._claims))
            self.places.append(place)
            for claim in unit.claims:
                self._claims.append(self._instance.claims[claim])
                self._place_of.append(place)
                self._add_claim(len(self._claims) - 1, self._claims[-1])
        self._by_device: dict[int, list[Use]] = {}
        for use in self.uses:
            self._by_device.setdefault(use.device, []).append(use)
        self.in_use = {device: self._share(device) for device in self._by_device}
        self.drawn: dict[int, list[Term]] = {}
        self._add_counters()
        _AttributeConstraints(self.model, self._instance, self.uses, self._claims).add(self.places)

    def _add_claim(self, position: int, claim: Claim) -> None:
        start = len(self.uses)
        for request, asked in enumerate(claim.requests):
            ways = []
            for number, alternative in enumerate(asked.alternatives):
                member = position, request, number
                self.taken[member] = self.model.new_bool_var("")
                ways.append(self.taken[member])
                self._add_alternative(member, alternative)
            self.model.add(sum(ways) == self._place_of[position].here)
        if claim.limit is not None:
            self.model.add(sum(use.chosen for use in self.uses[start:]) <= claim.limit)

    def _add_alternative(self, member: Member, alternative: Alternative) -> None:
        taken = self.taken[member]
        node = self._place_of[member[0]].node
        candidates = self._candidates.of(alternative.matcher, node)
        uses = []
        for device in candidates:
            portions = self._usage.portions(device, alternative)
            if portions is not None:
                uses.append(self._use(member, device, alternative, portions))
        self.uses += uses
        total = sum(use.chosen for use in uses)
        if alternative.every_device:
            unsettled = node in self._instance.unsettled or node in alternative.unsettled
            if len(uses) < len(candidates) or not uses or unsettled:
                self.model.add(taken == 0)
            for use in uses:
                self.model.add(use.chosen == taken)
            return
        self.model.add(total >= alternative.count * taken)
        self.model.add(total <= alternative.maximum * taken)
        for name, amount in alternative.totals.items():
            add_at_least(self.model, self._gathered(uses, alternative, name), amount, taken)
        for name, amount in alternative.ceilings.items():
            whole = [Term(self._amount(use.device, name), use.chosen) for use in uses]
            add_at_most(self.model, whole, amount)

    def _use(self, member: Member, device: int, alternative: Alternative, portions: Amounts) -> Use:
        chosen = self.model.new_bool_var("")
        if not (alternative.shared and alternative.totals):
            return Use(member, device, chosen, portions)
        shares = {}
        for name, asked in alternative.totals.items():
            left = portions.get(name, 0)
            step = self._instance.devices[device].capacities[name].step if left else 1
            # One device needs at most the total request.
            most = min(left // step, -(-asked // step))
            blocks = self.model.new_int_var(0, most, "")
            self.model.add(blocks <= most * chosen)
            shares[name] = Term(step, blocks, most)
        return Use(member, device, chosen, {}, shares)

    def _gathered(self, uses: t.Sequence[Use], alternative: Alternative, name: str) -> list[Term]:
        if alternative.shared:
            return [use.shares[name] for use in uses]
        return [Term(self._amount(use.device, name), use.chosen) for use in uses]

    def _amount(self, device: int, name: str) -> int:
        capacities = self._instance.devices[device].capacities
        return capacities[name].amount if name in capacities else 0

    def alternative(self, use: Use) -> Alternative:
        """The alternative that a device is a part of."""
        position, request, number = use.member
        return self._claims[position].requests[request].alternatives[number]

    def _share(self, device: int) -> t.Any:
        """Let uses of one device exclude each other or add up; return whether it is in use."""
        given = self._instance.devices[device]
        admins = [use for use in self._by_device[device] if self.alternative(use).admin]
        self._once_in_a_claim(admins)
        uses = [use for use in self._by_device[device] if not self.alternative(use).admin]
        if not given.shareable:
            self.model.add_at_most_one(use.chosen for use in uses)
            return sum(use.chosen for use in uses)
        for name in given.capacities:
            portions = [
                use.shares.get(name) or Term(use.portions.get(name, 0), use.chosen) for use in uses
            ]
            add_at_most(self.model, portions, self._usage.left(device, name))
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
        if self.alternative(use).whole or self.alternative(other).whole:
            return True
        modes = (name.partition("=") for name in use.portions if "=" in name)
        return any(
            f"{resource}={blocking}" in other.portions
            for resource, _equals, mode in modes
            for blocking in BLOCKED_BY[mode]
        )

    def _add_counters(self) -> None:
        drawn: dict[int, list[tuple[int, t.Any]]] = {}
        for device, variable in self.in_use.items():
            if not self._usage.holders(device):
                for counter, amount in self._instance.devices[device].consumes:
                    drawn.setdefault(counter, []).append((amount, variable))
        for counter, parts in drawn.items():
            left = self._usage.counters[counter]
            self.drawn[counter] = [Term(amount, variable) for amount, variable in parts]
            add_at_most(self.model, self.drawn[counter], left)
            drawing = [(amount, variable) for amount, variable in parts if amount]
            most = most_within(left, [amount for amount, _variable in drawing])
            if most < len(drawing):
                self.model.add(sum(variable for _amount, variable in drawing) <= most)

    def place_of(self, member: Member) -> Place:
        """The place of the claim of a member."""
        return self._place_of[member[0]]

    def allocations(self, value: t.Callable[[t.Any], int]) -> tuple[ClaimAllocation, ...]:
        """Allocations of the claims of all places; ``value`` gives the value of an expression."""
        chosen: list[list[Pick]] = [[] for _claim in self._claims]
        for use in self.uses:
            if value(use.chosen):
                position, request, number = use.member
                shares = {
                    name: share.amount * value(share.times) for name, share in use.shares.items()
                }
                portions = {name: amount for name, amount in shares.items() if amount}
                chosen[position].append(Pick(request, number, use.device, portions or use.portions))
        return tuple(
            ClaimAllocation(place.node, tuple(devices))
            for place, devices in zip(self._place_of, chosen)
        )


class _AttributeConstraints:
    """Constraints on the values of an attribute among the devices of some requests."""

    def __init__(
        self,
        model: cp_model.CpModel,
        instance: Instance,
        uses: t.Sequence[Use],
        claims: t.Sequence[Claim],
    ) -> None:
        self._model, self._uses = model, uses
        self._devices, self._claims = instance.devices, claims
        self._used = {use.device for use in uses}
        self._choices: dict[t.Hashable, tuple[Place, Constraint, list[dict[t.Any, t.Any]]]] = {}

    def add(self, places: t.Iterable[Place]) -> None:
        """Add the constraints of all units, and the cuts that follow from them."""
        claims_of = ((place, index) for place in places for index in range(len(place.unit.claims)))
        for place, index in claims_of:
            claim = self._claims[place.first + index]
            for constraint in claim.constraints:
                members = {(place.first + index, *member) for member in constraint.members}
                choice = self._constrain(constraint, members, place.here)
                if choice:
                    key = place.node, claim.shape(), constraint
                    self._choices.setdefault(key, (place, constraint, []))[2].append(choice)
        for place, constraint, choices in self._choices.values():
            self._limit_choices(place, constraint, choices)

    def _constrain(
        self, constraint: Constraint, members: t.AbstractSet[Member], here: t.Any
    ) -> dict[t.Any, t.Any]:
        """Add a constraint; return, for a match, a variable for each possible common value."""
        holding: dict[t.Any, list[t.Any]] = {}
        concerned: list[tuple[Use, Values]] = []
        for use in self._uses:
            if use.member in members:
                values = self._values(use.device, constraint.attribute)
                concerned.append((use, values))
                if not values:
                    self._model.add(use.chosen == 0)
                for value in values:
                    holding.setdefault(value, []).append(use.chosen)
        if constraint.kind == "distinct":
            for chosen in holding.values():
                self._model.add_at_most_one(chosen)
            return {}
        common = {value: self._model.new_bool_var("") for value in holding}
        if common:
            self._model.add(sum(common.values()) == here)
        for use, values in concerned:
            if values:
                self._model.add(sum(common[value] for value in values) >= use.chosen)
        return common

    def _limit_choices(
        self, place: Place, constraint: Constraint, choices: list[dict[t.Any, t.Any]]
    ) -> None:
        """Cut: bound on the claims of one shape that can have the devices with one value."""
        claims = self._claims[place.first : place.first + len(place.unit.claims)]
        [first, *_rest] = [claim for claim in claims if constraint in claim.constraints]
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
                for device in self._used
                if place.node in self._devices[device].nodes
                and value in self._values(device, constraint.attribute)
            ]
            if any(self._devices[device].shareable for device in there):
                continue
            chosen = [choice[value] for choice in choices if value in choice]
            self._model.add(sum(chosen) <= len(there) // least)

    def _values(self, device: int, attribute: str) -> Values:
        value = self._devices[device].attributes.get(attribute)
        return frozenset() if value is None else identities(value)


def new_solver(
    seed: int, work: float, seconds: float | None = None, *, presolve: bool = False
) -> t.Any:
    """A solver with this limit of deterministic time, about seconds, and of seconds by the clock.

    Presolve takes longer than solving a small model.
    """
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    # All constraints are in the linear relaxation, which detects a lack of devices.
    solver.parameters.linearization_level = 2
    solver.parameters.cp_model_presolve = presolve
    solver.parameters.random_seed = seed
    solver.parameters.max_deterministic_time = work
    if seconds is not None:
        solver.parameters.max_time_in_seconds = max(seconds, 0.01)
    return solver


def most_within(left: int, amounts: t.Iterable[int]) -> int:
    """Largest number of these amounts that fit, the smallest ones first."""
    count = 0
    for amount in sorted(amounts):
        left -= amount
        if left < 0:
            break
        count += 1
    return count


class Term(t.NamedTuple):
    """An amount that counts as often as an expression says, at most ``most`` times."""

    amount: int
    times: t.Any
    most: int = 1


def add_at_most(model: t.Any, parts: t.Iterable[Term], limit: int) -> None:
    """Bound the sum of the parts by ``limit``; a negative limit counts as 0."""
    counted = [part for part in parts if part.amount > 0]
    limit = max(0, limit)
    for part in counted:
        # A variable for several parts may still be used for some of them.
        if part.amount > limit:
            model.add(part.times == 0)
    counted = [part for part in counted if part.amount <= limit]
    if _sum(counted) <= limit:
        return
    divisor = math.gcd(*(part.amount for part in counted))
    counted = [part._replace(amount=part.amount // divisor) for part in counted]
    limit //= divisor
    if _sum(counted) <= _MAX_SUM:
        model.add(sum(part.amount * part.times for part in counted) <= limit)
        return
    high, low, most = _digits(counted)
    carried = model.new_int_var(0, most, "")
    model.add(high + carried <= limit // _DIGIT)
    model.add(low <= _DIGIT * carried + limit % _DIGIT)


def add_at_least(model: t.Any, parts: t.Iterable[Term], amount: int, taken: t.Any) -> None:
    """Require a sum of at least ``amount`` if the literal ``taken`` holds."""
    counted = [part for part in parts if part.amount > 0]
    if amount <= 0:
        return
    if not counted:
        model.add(taken == 0)
        return
    divisor = math.gcd(*(part.amount for part in counted))
    amount = -(-amount // divisor)
    # A part is capped at the requested amount, because a multiple of that suffices as well.
    counted = [part._replace(amount=min(amount, part.amount // divisor)) for part in counted]
    if max(amount, _sum(counted)) <= _MAX_SUM:
        model.add(sum(part.amount * part.times for part in counted) >= amount * taken)
        return
    high, low, most = _digits(counted)
    # One high digit is more than all low digits of the amount.
    spared = model.new_int_var(-most, 1, "")
    model.add(high - spared >= amount // _DIGIT * taken)
    model.add(low + _DIGIT * spared >= amount % _DIGIT * taken)


def _sum(parts: t.Iterable[Term]) -> int:
    return sum(part.amount * part.most for part in parts)


def _digits(parts: t.Sequence[Term]) -> tuple[t.Any, t.Any, int]:
    """The sums of the high and of the low digits, and the largest carry of the low digits."""
    high = sum(part.amount // _DIGIT * part.times for part in parts)
    low = sum(part.amount % _DIGIT * part.times for part in parts)
    return high, low, sum(part.amount % _DIGIT * part.most for part in parts) // _DIGIT + 1
