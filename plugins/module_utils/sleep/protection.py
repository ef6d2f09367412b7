# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Why a machine stays awake whatever the demand: its protection, its cycles, and floors."""

from __future__ import annotations

import typing as t

from ..base.libraries import numpy

if t.TYPE_CHECKING:
    from .fleet import Fleet

# One word, and one sentence.
Reason = tuple[str, str]


def obstacle(fleet: Fleet, node: int) -> Reason | None:
    """Why this awake machine may not be switched off now, apart from its pods; None if it may."""
    machine, rules = fleet.machines[node], fleet.rules
    if machine.protection:
        return "protected", machine.protection
    if fleet.cycles[node] >= rules.max_cycles_a_day:
        return "cycles", f"It was switched off {fleet.cycles[node]} times within a day."
    if fleet.awake_seconds[node] < rules.min_awake_seconds:
        return "rest", f"It stays awake for {rules.min_awake_seconds:.0f} s after a boot."
    return None


class Floors:
    """The numbers of machines that must stay awake, in the fleet, by zone and by rack."""

    def __init__(self, fleet: Fleet) -> None:
        rules = fleet.rules
        self._fleet = fleet
        self._floors = [
            ("", "the fleet", rules.min_awake),
            *(("zone", name, least) for name, least in rules.min_awake_by_zone.items()),
            *(("rack", name, least) for name, least in rules.min_awake_by_rack.items()),
        ]
        self._open = fleet.open.copy()

    def _members(self, kind: str, name: str) -> t.Any:
        if not kind:
            return self._open
        has = [getattr(machine, kind) == name for machine in self._fleet.machines]
        return self._open & numpy.array(has, dtype=bool)

    def obstacle(self, node: int) -> Reason | None:
        """The floor that switching the machine off would break."""
        for kind, name, least in self._floors:
            members = self._members(kind, name)
            if members[node] and members.sum() - 1 < least:
                where = f"{kind} {name}" if kind else name
                return "floor", f"At least {least} machines of {where} stay awake."
        return None

    def switched_off(self, node: int) -> None:
        """Count a machine as off."""
        self._open[node] = False
