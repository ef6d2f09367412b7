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

from ..model.model import Alternative, Claim, Instance
from ..model.objective import WHOLE, Objective
from ..model.usage import Usage
from .node_model import most_within
from .node_solver import most_together

# Counter set and name; SHARE stands for the share of sets of counters and for whole devices,
# DEVICES for the number of devices that are not shared.
Resource = tuple[str, str]
SHARE: Resource = ("", "")
DEVICES: Resource = ("", "devices")
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
        drawn: Amounts = {SHARE: 0 if given.consumes else WHOLE, DEVICES: 1}
        for position, amount in given.consumes:
            counter = self._instance.counters[position]
            drawn[counter.counter_set, counter.name] = amount
        drawn[SHARE] += self._share(device)
        return drawn

    def _there(self) -> Amounts:
        usage = Usage(self._instance)
        there: Amounts = {
            SHARE: WHOLE * len(self._objective.partitions),
            DEVICES: most_together(self._instance, usage, self._obtainable(usage)),
        }
        for position, counter in enumerate(self._instance.counters):
            name = counter.counter_set, counter.name
            there[name] = there.get(name, 0) + max(0, usage.counters[position])
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
