# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Kubernetes' search: depth first, devices in published order, the first answer.

Source: structured allocator of k8s.io/dynamic-resource-allocation. Claims, requests, alternatives
and devices are tried in their order; the devices of one request ascend, so each set of them is
tried once. There is no look-ahead, so a proof of infeasibility can take long: hence the limits.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...solving.limits import Limits
from ..model.model import Alternative, Amounts, ClaimAllocation, Instance, Pick, Unit
from ..model.usage import Constraints, Usage

_STEPS_BETWEEN_LOOKS_AT_THE_CLOCK = 256


class OutOfTime(Exception):
    """The limit ended the search before an answer."""


class SelectorFailed(Exception):
    """The search met a device on which a claim's selector fails; ``claim`` is its position."""

    def __init__(self, claim: int, reason: str) -> None:
        super().__init__(reason)
        self.claim = claim


class Candidates:
    """The devices that a matcher accepts and a node can use, found once for each pair."""

    def __init__(self, instance: Instance) -> None:
        self._matchers = instance.matchers
        self._on_node: dict[str, list[int]] = {}
        # Thousands of devices of a network may have one set of thousands of nodes.
        self._of_several: dict[frozenset[str], list[int]] = {}
        for index, device in enumerate(instance.devices):
            if len(device.nodes) > 1:
                self._of_several.setdefault(device.nodes, []).append(index)
            else:
                for node in device.nodes:
                    self._on_node.setdefault(node, []).append(index)
        self._known: dict[tuple[int, str], tuple[int, ...]] = {}
        self._sets: dict[int, frozenset[int]] = {}
        self._failing = [matcher.errors for matcher in instance.matchers]

    def of(self, matcher: int, node: str) -> tuple[int, ...]:
        key = matcher, node
        if key not in self._known:
            if matcher not in self._sets:
                self._sets[matcher] = frozenset(self._matchers[matcher].devices)
            accepted = self._sets[matcher]
            there = [*self._on_node.get(node, ()), *self._shared_with(node)]
            self._known[key] = tuple(sorted(device for device in there if device in accepted))
        return self._known[key]

    def failing(self, matcher: int, node: str) -> dict[int, str]:
        """Devices of the node on which a selector fails, ascending, each with the reason."""
        errors = self._failing[matcher]
        if not errors:
            return {}
        there = {*self._on_node.get(node, ()), *self._shared_with(node)}
        return {device: errors[device] for device in sorted(there & errors.keys())}

    def _shared_with(self, node: str) -> t.Iterator[int]:
        for nodes, devices in self._of_several.items():
            if node in nodes:
                yield from devices


class State(t.NamedTuple):
    """An instance, the use of its devices, and the candidates of each node."""

    instance: Instance
    usage: Usage
    candidates: Candidates

    @classmethod
    def of(cls, instance: Instance) -> State:
        """The state before any new allocation."""
        return cls(instance, Usage(instance), Candidates(instance))


@dataclass
class _SearchPoint:
    """A point of the search: which device of which alternative is being chosen."""

    claim: int
    request: int
    alternative: int = 0
    taken: int = 0  # devices of this alternative before this one
    next_candidate: int = 0
    device: int | None = None
    portions: Amounts = field(default_factory=dict)
    ends_request: bool = False


@dataclass
class _Trail:
    """The points of the search so far, and the amounts of their devices."""

    instance: Instance
    points: list[_SearchPoint] = field(default_factory=list)

    def has(self, claim: int, device: int) -> bool:
        """Whether the claim has the device: administrators see each device once in a claim."""
        return any(other.claim == claim and other.device == device for other in self.points)

    def suffices(self, place: _SearchPoint, alternative: Alternative, candidates: int) -> bool:
        """Whether the request is satisfied with this device."""
        count = candidates if alternative.every_device else alternative.count
        if place.taken + 1 < count:
            return False
        return all(
            self._gathered(place, alternative, name) >= amount
            for name, amount in alternative.totals.items()
        )

    def _gathered(self, place: _SearchPoint, alternative: Alternative, capacity: str) -> int:
        """Total amounts of this request's devices, up to the end of the trail."""
        return sum(
            self._contribution(other, alternative, capacity)
            for other in self.points
            if (other.claim, other.request) == (place.claim, place.request)
        )

    def _contribution(self, place: _SearchPoint, alternative: Alternative, capacity: str) -> int:
        if place.device is None:
            return 0
        if alternative.shared:
            return place.portions.get(capacity, 0)
        capacities = self.instance.devices[place.device].capacities
        return capacities[capacity].amount if capacity in capacities else 0

    def is_below_ceilings(self, place: _SearchPoint, alternative: Alternative, device: int) -> bool:
        """Whether the request may have the device beside its present devices."""
        capacities = self.instance.devices[device].capacities
        return all(
            name not in capacities
            or self._gathered(place, alternative, name) + capacities[name].amount <= ceiling
            for name, ceiling in alternative.ceilings.items()
        )

    def needed(
        self, place: _SearchPoint, alternative: Alternative, device: int, left: Amounts
    ) -> Amounts:
        """The missing part of the request from a device's free amount, in whole portions."""
        needed: dict[str, int] = {}
        for name, amount in alternative.totals.items():
            missing = amount - self._gathered(place, alternative, name)
            if left.get(name) and missing > 0:
                capacity = self.instance.devices[device].capacities[name]
                needed[name] = min(left[name], capacity.portion(missing) or missing)
        return needed


class Search:
    """Searches devices for one unit on one node, and takes them from the usage.

    A ``strict`` search ends with SelectorFailed at a device on which a selector fails, as in
    Kubernetes; any other search skips such a device.
    """

    def __init__(self, state: State, limits: Limits, *, strict: bool = False) -> None:
        self._strict = strict
        self._instance, self._usage, self._candidates = state
        self._limits = limits
        self.steps = 0
        self._last_step: int | None = None

    def run(
        self, unit: Unit, node: str, most_steps: int | None = None
    ) -> tuple[ClaimAllocation, ...] | None:
        """The first answer in search order; None if there is none.

        Raises OutOfTime, also after ``most_steps`` tried devices, and SelectorFailed.
        """
        self._last_step = None if most_steps is None else self.steps + most_steps
        self._unit, self._node = unit, node
        self._claims = [self._instance.claims[claim] for claim in unit.claims]
        self._constraints = Constraints(self._instance, unit)
        self._trail = _Trail(self._instance)
        place: _SearchPoint | None = self._first_of(0, 0)
        try:
            while place is not None:
                self._trail.points.append(place)
                place = self._advance()
        except (OutOfTime, SelectorFailed):
            while self._trail.points:
                self._undo(self._trail.points.pop())
            raise
        return self._answer() if self._found else None

    def _first_of(self, claim: int, request: int) -> _SearchPoint | None:
        """The next point of the search after all earlier requests are chosen."""
        while claim < len(self._claims) and request >= len(self._claims[claim].requests):
            claim, request = claim + 1, 0
        self._found = claim >= len(self._claims)
        return None if self._found else _SearchPoint(claim, request)

    def _advance(self) -> _SearchPoint | None:
        """Choose at the end of the trail; backtrack if nothing is left to choose."""
        while self._trail.points:
            place = self._trail.points[-1]
            self._undo(place)
            if self._choose(place):
                return self._after(place)
            self._trail.points.pop()
        self._found = False
        return None

    def _after(self, place: _SearchPoint) -> _SearchPoint | None:
        if place.ends_request:
            return self._first_of(place.claim, place.request + 1)
        return _SearchPoint(
            place.claim, place.request, place.alternative, place.taken + 1, place.next_candidate
        )

    def _choose(self, place: _SearchPoint) -> bool:
        """Take the next suitable device; False if neither a device nor an alternative is left."""
        alternatives = self._claims[place.claim].requests[place.request].alternatives
        while place.alternative < len(alternatives):
            alternative = alternatives[place.alternative]
            if self._choose_device(place, alternative):
                return True
            # The alternative may change only at the beginning of the request.
            if place.taken:
                return False
            place.alternative, place.next_candidate = place.alternative + 1, 0
        return False

    def _choose_device(self, place: _SearchPoint, alternative: Alternative) -> bool:
        candidates = self._candidates.of(alternative.matcher, self._node)
        failing: t.Mapping[int, str] = {}
        if self._strict:
            failing = self._candidates.failing(alternative.matcher, self._node)
            candidates = tuple(sorted((*candidates, *failing))) if failing else candidates
        if failing and alternative.every_device:
            raise SelectorFailed(self._unit.claims[place.claim], next(iter(failing.values())))
        if not self._may_begin(place, alternative, len(candidates)):
            return False
        # A request for every device has one choice: the next one, or none.
        fixed = alternative.every_device
        last = min(place.taken + 1, len(candidates)) if fixed else len(candidates)
        most = len(candidates) if fixed else alternative.maximum
        while place.next_candidate < last:
            device = candidates[place.next_candidate]
            place.next_candidate += 1
            self._count_step()
            if device in failing:
                if self._is_in_use(place, alternative, device):
                    continue
                raise SelectorFailed(self._unit.claims[place.claim], failing[device])
            if self._take(place, alternative, device):
                place.ends_request = self._trail.suffices(place, alternative, len(candidates))
                if place.ends_request or place.taken + 1 < most:
                    return True
                self._undo(place)
        return False

    def _may_begin(self, place: _SearchPoint, alternative: Alternative, candidates: int) -> bool:
        """Whether the alternative is possible at all, before its first device."""
        if place.taken or place.next_candidate:
            return True
        wanted = candidates if alternative.every_device else alternative.count
        limit = self._claims[place.claim].limit
        already = sum(1 for other in self._trail.points if other.claim == place.claim) - 1
        if limit is not None and already + wanted > limit:
            return False
        if alternative.every_device and (
            self._node in self._instance.unsettled or self._node in alternative.unsettled
        ):
            return False
        return 0 < wanted <= candidates

    def _is_in_use(self, place: _SearchPoint, alternative: Alternative, device: int) -> bool:
        if alternative.admin:
            return self._trail.has(place.claim, device)
        return self._usage.in_use(device)

    def _take(self, place: _SearchPoint, alternative: Alternative, device: int) -> bool:
        portions = self._usage.portions(device, alternative)
        if portions is None or (alternative.admin and self._trail.has(place.claim, device)):
            return False
        if alternative.shared and alternative.totals:
            portions = self._trail.needed(place, alternative, device, portions)
        member = place.claim, place.request, place.alternative
        if not self._trail.is_below_ceilings(place, alternative, device):
            return False
        if not self._constraints.add(member, device):
            return False
        place.device, place.portions = device, portions
        if not alternative.admin:
            self._usage.take(device, portions)
        return True

    def _undo(self, place: _SearchPoint) -> None:
        if place.device is None:
            return
        alternative = self._alternative(place)
        if not alternative.admin:
            self._usage.give_back(place.device, place.portions)
        self._constraints.remove((place.claim, place.request, place.alternative), place.device)
        place.device = None

    def _alternative(self, place: _SearchPoint) -> Alternative:
        return self._claims[place.claim].requests[place.request].alternatives[place.alternative]

    def _count_step(self) -> None:
        self.steps += 1
        if self.steps == self._last_step:
            raise OutOfTime
        if self.steps % _STEPS_BETWEEN_LOOKS_AT_THE_CLOCK == 0 and self._limits.expired():
            raise OutOfTime

    def _answer(self) -> tuple[ClaimAllocation, ...]:
        chosen: list[list[Pick]] = [[] for _claim in self._claims]
        for place in self._trail.points:
            if place.device is not None:
                chosen[place.claim].append(
                    Pick(place.request, place.alternative, place.device, place.portions)
                )
        return tuple(ClaimAllocation(self._node, tuple(devices)) for devices in chosen)


def first_failing(state: State, unit: Unit, node: str) -> SelectorFailed | None:
    """The first free device on the node on which a selector of the unit fails."""
    for claim in unit.claims:
        for alternative in state.instance.claims[claim].alternatives:
            for device, reason in state.candidates.failing(alternative.matcher, node).items():
                if alternative.admin or not state.usage.in_use(device):
                    return SelectorFailed(claim, reason)
    return None


def equal_units(instance: Instance, units: t.Iterable[Unit]) -> list[list[Unit]]:
    """Equivalent units of equal priority, in the order of the first of each."""
    equal: dict[t.Hashable, list[Unit]] = {}
    for unit in units:
        equal.setdefault((unit.priority, shape_of(instance, unit)), []).append(unit)
    return list(equal.values())


def shape_of(instance: Instance, unit: Unit) -> t.Hashable:
    """A key that is equal for equivalent units on the same nodes."""
    return unit.nodes, tuple(instance.claims[claim].shape() for claim in unit.claims)
