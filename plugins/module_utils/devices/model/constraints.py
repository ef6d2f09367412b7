# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Match and distinct constraints while devices are chosen one by one."""

from __future__ import annotations

import typing as t

from ...cel.values import identities
from .model import Instance, Unit

Values = frozenset[tuple[str, t.Any]]
Member = tuple[int, int, int]


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
    """The constraints of the claims of one unit.

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
