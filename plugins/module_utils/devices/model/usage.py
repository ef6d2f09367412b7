# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""State of an allocation: holders of devices, free counters and capacities, and constraints."""

from __future__ import annotations

import typing as t

from ...cel.values import identities
from .model import Access, Alternative, Amounts, Claim, ClaimAllocation, Device, Instance, Unit

# Modes in use that exclude a mode of a resource. One writer is possible beside readers that share,
# as in the prototype.
BLOCKED_BY: t.Mapping[str, frozenset[str]] = {
    "ReadOnlyShared": frozenset({"ReadWriteExclusive"}),
    "ReadWriteShared": frozenset({"WriteExclusive", "ReadWriteExclusive"}),
    "WriteExclusive": frozenset({"ReadWriteShared", "WriteExclusive", "ReadWriteExclusive"}),
    "ReadWriteExclusive": frozenset(
        {"ReadOnlyShared", "ReadWriteShared", "WriteExclusive", "ReadWriteExclusive"}
    ),
}
ACCESS_MODES = tuple(BLOCKED_BY)
NO_PORTIONS: Amounts = {}

Values = frozenset[tuple[str, t.Any]]
Member = tuple[int, int, int]


class Usage:
    """The state of all devices of an instance; starts with existing allocations.

    ``take`` and ``give_back`` are exact inverses, so that a search can undo its trials.
    """

    def __init__(self, instance: Instance) -> None:
        self._devices = instance.devices
        self.counters = [counter.capacity for counter in instance.counters]
        self._holders = [0] * len(instance.devices)
        self._whole = frozenset(
            held.device for held in instance.held if held.whole and not held.admin
        )
        self._portions: dict[tuple[int, str], int] = {}
        self._access: dict[tuple[int, str, str], int] = {}
        for held in instance.held:
            if not held.admin:
                self.take(held.device, held.portions)

    def in_use(self, device: int) -> bool:
        """Whether the device is unavailable to any further claim."""
        if device in self._whole:
            return True
        return self._holders[device] > 0 and not self._devices[device].shareable

    def holders(self, device: int) -> int:
        """Number of claims with the device or a portion of it."""
        return self._holders[device]

    def left(self, device: int, capacity: str) -> int:
        """The free part of a capacity."""
        return self._devices[device].capacities[capacity].amount - self._portions.get(
            (device, capacity), 0
        )

    def counters_allow(self, device: int) -> bool:
        """Whether the counters suffice; all claims that share the device take them once."""
        if self._holders[device]:
            return True
        return all(
            self.counters[counter] >= amount for counter, amount in self._devices[device].consumes
        )

    def portions(self, device: int, alternative: Alternative) -> Amounts | None:
        """Portions that the alternative would take of this device; None if it cannot have it now.

        For an alternative with ``shared`` totals these are the free amounts; the taken amounts are
        decided over all devices together.
        """
        if alternative.admin:
            return NO_PORTIONS
        if self.in_use(device) or not self.counters_allow(device):
            return None
        given = self._devices[device]
        if given.shareable and alternative.whole:
            return self._everything(device, given, alternative)
        if not given.shareable:
            return NO_PORTIONS if suffices(given, alternative) else None
        if alternative.shared and alternative.totals:
            left = {name: self.left(device, name) for name in given.capacities}
            return left if any(left.get(name) for name in alternative.totals) else None
        wanted = wanted_portions(given, alternative)
        if wanted is None:
            return None
        modes = self._modes(device, given, alternative)
        fits = all(self.left(device, name) >= amount for name, amount in wanted.items())
        return {**wanted, **modes} if fits and modes is not None else None

    def _everything(self, device: int, given: Device, alternative: Alternative) -> Amounts | None:
        if self._holders[device] or not suffices(given, alternative):
            return None
        return {name: capacity.amount for name, capacity in given.capacities.items()}

    def _modes(self, device: int, given: Device, alternative: Alternative) -> Amounts | None:
        """Portions that stand for a mode of each resource: ``resource=mode`` with the amount 1."""
        found: dict[str, int] = {}
        for resource, wanted in alternative.access.items():
            access = given.access.get(resource)
            mode = access and self._mode(device, resource, access, wanted)
            if not mode:
                return None
            found[f"{resource}={mode}"] = 1
        return found

    def _mode(self, device: int, resource: str, access: Access, wanted: str) -> str | None:
        """The mode to use: the wanted one, or the next stricter allowed one."""
        stricter = ACCESS_MODES[ACCESS_MODES.index(wanted) :]
        mode = next((mode for mode in stricter if mode in access.allowed), None)
        if mode is None:
            return None
        blocked = any(
            access.in_use.get(other, 0) + self._access.get((device, resource, other), 0)
            for other in BLOCKED_BY[mode]
        )
        return None if blocked else mode

    def take(self, device: int, portions: Amounts) -> None:
        """Give a device, or portions of it, to a claim."""
        self._change(device, portions, 1)

    def give_back(self, device: int, portions: Amounts) -> None:
        """Undo ``take`` with the same arguments."""
        self._change(device, portions, -1)

    def change(self, claim: Claim, allocation: ClaimAllocation | None, *, taken: bool) -> None:
        """Take the devices of a claim, or give them back; admin access takes none."""
        for chosen in allocation.chosen if allocation else ():
            if not claim.alternative(chosen).admin:
                self._change(chosen.device, chosen.portions, 1 if taken else -1)

    def _change(self, device: int, portions: Amounts, sign: int) -> None:
        before = self._holders[device]
        self._holders[device] = before + sign
        if before == 0 or before + sign == 0:
            for counter, amount in self._devices[device].consumes:
                self.counters[counter] -= sign * amount
        for name, amount in portions.items():
            resource, equals, mode = name.partition("=")
            if equals:
                key = (device, resource, mode)
                self._access[key] = self._access.get(key, 0) + sign
            else:
                self._portions[device, name] = self._portions.get((device, name), 0) + sign * amount


def could_ever_satisfy(device: Device, alternative: Alternative) -> bool:
    """Whether a free device has the amounts that are requested of each device."""
    if not device.shareable:
        return suffices(device, alternative)
    wanted = wanted_portions(device, alternative)
    return wanted is not None and all(
        amount <= device.capacities[name].amount for name, amount in wanted.items()
    )


def suffices(device: Device, alternative: Alternative) -> bool:
    """Whether a whole device has the amounts that the alternative requests of each device."""
    for name, requested in alternative.portions.items():
        capacity = device.capacities.get(name)
        portion = None if capacity is None else capacity.portion(requested)
        if capacity is None or portion is None or portion > capacity.amount:
            return False
    return True


def wanted_portions(device: Device, alternative: Alternative) -> Amounts | None:
    """The portion of every capacity of a shareable device; None if a request has no portion.

    A capacity that the request does not name is taken at its default, else completely.
    """
    if not alternative.portions.keys() <= device.capacities.keys():
        return None
    portions: dict[str, int] = {}
    for name, capacity in device.capacities.items():
        portion = capacity.portion(alternative.portions.get(name))
        if portion is None:
            return None
        portions[name] = portion
    return portions


class _Match:
    """All devices have one value in common; each device narrows the candidates."""

    def __init__(self) -> None:
        self._common: list[Values] = []

    def add(self, values: Values) -> bool:
        narrowed = values & self._common[-1] if self._common else values
        if narrowed:
            self._common.append(narrowed)
        return bool(narrowed)

    def remove(self, values: Values) -> None:
        self._common.pop()


class _Distinct:
    """No two devices have a common value."""

    def __init__(self) -> None:
        self._present: set[tuple[str, t.Any]] = set()

    def add(self, values: Values) -> bool:
        if not values or not self._present.isdisjoint(values):
            return False
        self._present |= values
        return True

    def remove(self, values: Values) -> None:
        self._present -= values


class Constraints:
    """Match and distinct constraints of the claims of a unit, while devices are chosen one by one.

    Devices are removed in the reverse order of adding, as a search does.
    """

    def __init__(self, instance: Instance, unit: Unit) -> None:
        self._devices = instance.devices
        self._concerned: dict[Member, list[tuple[str, _Match | _Distinct]]] = {}
        for position, claim in enumerate(unit.claims):
            for constraint in instance.claims[claim].constraints:
                state = _Match() if constraint.kind == "match" else _Distinct()
                for request, alternative in constraint.members:
                    member = position, request, alternative
                    self._concerned.setdefault(member, []).append((constraint.attribute, state))

    def add(self, member: Member, device: int) -> bool:
        """Add a device; False, with nothing changed, if a constraint forbids it."""
        added: list[tuple[_Match | _Distinct, Values]] = []
        for attribute, state in self._concerned.get(member, ()):
            values = self._values(device, attribute)
            if not state.add(values):
                for earlier, its_values in reversed(added):
                    earlier.remove(its_values)
                return False
            added.append((state, values))
        return True

    def remove(self, member: Member, device: int) -> None:
        """Undo the last ``add`` of this device."""
        for attribute, state in reversed(self._concerned.get(member, ())):
            state.remove(self._values(device, attribute))

    def _values(self, device: int, attribute: str) -> Values:
        value = self._devices[device].attributes.get(attribute)
        return frozenset() if value is None else identities(value)
