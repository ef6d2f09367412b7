# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Bounds from the least need of claims for counters and devices, against the total supply.

They work for any number of claims and nodes. They ignore places: a counter of all pools counts as
one. The supply of devices is counted pool by pool, because what is left of a pool's counters is of
no use to another pool.
"""

from __future__ import annotations

import typing as t

from ..model.model import Alternative, Claim, Instance, Request, Unit
from ..model.objective import WHOLE, Objective
from ..model.usage import Usage
from .node_model import most_within
from .search import State

# Counter set and name; SHARE stands for the share of sets of counters and for whole devices,
# DEVICES for the number of devices that are not shared.
Resource = tuple[str, str]
SHARE: Resource = ("", "/share")
DEVICES: Resource = ("", "/devices")
Amounts = dict[Resource, int]


class Needs:
    """The least consumption of each resource by each claim, and the supply."""

    def __init__(self, instance: Instance, objective: Objective) -> None:
        self._instance, self._objective = instance, objective
        self._known: dict[t.Hashable, Amounts] = {}
        self._of_matcher: dict[int, Amounts] = {}
        self.there = self._there()

    def most(self, claims: t.Sequence[int]) -> int:
        """Upper bound on the satisfied claims among these."""
        needs = [self.of(claim) for claim in claims]
        return min(
            (
                most_within(amount, (need.get(resource, 0) for need in needs))
                for resource, amount in self.there.items()
            ),
            default=len(claims),
        )

    def share(self, claims: t.Sequence[int], count: int) -> int:
        """Lower bound on the share that this number of these claims takes."""
        return sum(sorted(self.of(claim).get(SHARE, 0) for claim in claims)[:count])

    def of(self, claim: int) -> Amounts:
        """The least consumption of a claim over all devices that it may get."""
        asked = self._instance.claims[claim]
        shape = asked.shape()
        if shape not in self._known:
            self._known[shape] = self._needed(asked)
        return self._known[shape]

    def _needed(self, claim: Claim) -> Amounts:
        total: Amounts = {}
        for request in claim.requests:
            least = _least(self._of_alternative(one) for one in request.alternatives)
            for resource, amount in least.items():
                total[resource] = total.get(resource, 0) + amount
        return total

    def _of_alternative(self, alternative: Alternative) -> Amounts:
        if alternative.admin:
            return {}
        if alternative.matcher not in self._of_matcher:
            devices = self._instance.matchers[alternative.matcher].devices
            self._of_matcher[alternative.matcher] = _least(map(self._drawn, devices))
        count = 1 if alternative.every_device else alternative.count
        least = self._of_matcher[alternative.matcher]
        return {resource: count * amount for resource, amount in least.items()}

    def _drawn(self, device: int) -> Amounts:
        """The consumption of a device; nothing if it can be shared."""
        given = self._instance.devices[device]
        if given.shareable:
            return {}
        share = self._share(device) + (0 if given.consumes else WHOLE)
        return {SHARE: share, DEVICES: 1, **_counters_of(self._instance, device)}

    def _there(self) -> Amounts:
        usage = Usage(self._instance)
        there: Amounts = {
            SHARE: WHOLE * len(self._objective.partitions),
            DEVICES: most_together(self._instance, usage, self._obtainable(usage)),
        }
        there.update(_supply(self._instance, usage, range(len(self._instance.counters))))
        for device, given in enumerate(self._instance.devices):
            if not given.consumes and not usage.holders(device):
                there[SHARE] += WHOLE
            elif given.consumes and usage.holders(device):
                there[SHARE] -= self._share(device)
        return there

    def _obtainable(self, usage: Usage) -> set[int]:
        """The free devices, shared ones excepted, that some claim may get."""
        matchers = {
            alternative.matcher
            for claim in self._instance.claims
            for alternative in claim.alternatives
        }
        return {
            device
            for matcher in matchers
            for device in self._instance.matchers[matcher].devices
            if not self._instance.devices[device].shareable and not usage.holders(device)
        }

    def _share(self, device: int) -> int:
        sets = self._objective.sets_of(self._instance.devices[device])
        return sum(self._objective.shares[key, device] for key in sets)


def _least(all_amounts: t.Iterable[Amounts]) -> Amounts:
    """The minimum of each resource over all; resources that some do not need are left out."""
    least: Amounts | None = None
    for amounts in all_amounts:
        if least is None:
            least = dict(amounts)
        else:
            least = {
                resource: min(amount, amounts[resource])
                for resource, amount in least.items()
                if resource in amounts
            }
    return least or {}


def counted_out(state: State, unit: Unit, node: str) -> bool:
    """Whether counting alone shows that a unit cannot be satisfied on a node.

    Hall's condition is checked for each set of devices of some request: the requests that are
    limited to the set need more devices than it can supply, and the counters of each pool limit the
    supply. Shareable devices and admin access end the counting.
    """
    wanted: dict[frozenset[int], int] = {}
    usable_by_shape: dict[t.Hashable, frozenset[int] | None] = {}
    for claim in unit.claims:
        for request in state.instance.claims[claim].requests:
            shape = request.shape()
            if shape not in usable_by_shape:
                usable_by_shape[shape] = _usable(state, request, node)
            usable = usable_by_shape[shape]
            if usable is None:
                return False
            least = min(1 if one.every_device else one.count for one in request.alternatives)
            wanted[usable] = wanted.get(usable, 0) + least
    everything: frozenset[int] = frozenset().union(*wanted)
    return any(
        sum(count for other, count in wanted.items() if other <= devices)
        > most_together(state.instance, state.usage, devices)
        for devices in {*wanted, everything}
    ) or _overdraws(state.instance, state.usage, wanted)


def _usable(state: State, request: Request, node: str) -> frozenset[int] | None:
    """The devices that a request may get now; None if they cannot be counted."""
    usable: set[int] = set()
    for alternative in request.alternatives:
        found = state.candidates.of(alternative.matcher, node)
        if alternative.admin or any(state.instance.devices[one].shareable for one in found):
            return None
        usable |= {one for one in found if state.usage.portions(one, alternative) is not None}
    return frozenset(usable)


def _overdraws(instance: Instance, usage: Usage, wanted: t.Mapping[frozenset[int], int]) -> bool:
    """Whether even the smallest devices need more of a counter than their pools have."""
    counters = {
        position
        for devices in wanted
        for device in devices
        for position, _amount in instance.devices[device].consumes
    }
    needed: Amounts = {}
    for devices, count in wanted.items():
        least = _least(_counters_of(instance, device) for device in devices)
        for name, amount in least.items():
            needed[name] = needed.get(name, 0) + count * amount
    there = _supply(instance, usage, counters)
    return any(amount > there[name] for name, amount in needed.items())


def _counters_of(instance: Instance, device: int) -> Amounts:
    """The consumption of counters by a device."""
    drawn: Amounts = {}
    for position, amount in instance.devices[device].consumes:
        counter = instance.counters[position]
        drawn[counter.counter_set, counter.name] = amount
    return drawn


def _supply(instance: Instance, usage: Usage, positions: t.Iterable[int]) -> Amounts:
    """The rest of these counters, by counter set and name."""
    there: Amounts = {}
    for position in positions:
        counter = instance.counters[position]
        name = counter.counter_set, counter.name
        there[name] = there.get(name, 0) + max(0, usage.counters[position])
    return there


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
