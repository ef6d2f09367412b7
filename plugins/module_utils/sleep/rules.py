# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The operator's rules about machines that sleep."""

from __future__ import annotations

import math
import typing as t
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from ..base.errors import InvalidInput

_EVICTION_JOULES = MappingProxyType({"guaranteed": 600e3, "burstable": 300e3, "best_effort": 150e3})


@dataclass(frozen=True)
class SleepRules:
    """Each default has its reason in docs/project/decisions.md.

    ``select`` is a label selector of nodes that may sleep; empty, it selects none.
    ``max_cycles_a_day`` bounds the switches to off of one machine in any 24 hours.
    ``reserve_quantile`` of past growth within one boot must fit on awake machines; until there is a
    week of demand, also ``reserve_share`` of the requests at present. ``interval_seconds`` is the
    time to the next decision. ``horizon_seconds`` is the sleep that is expected without demand.
    ``wear_joules`` is the price of one cycle beyond its energy, ``eviction_joules`` of one eviction
    by class (guaranteed, burstable, best_effort). ``max_share`` of the fleet is switched off by one
    decision, and at least one machine. A machine stays awake ``min_awake_seconds`` after a boot.
    Floors are numbers of machines awake: in the fleet, and by name of zone and rack.
    """

    select: str = ""
    max_cycles_a_day: int = 4
    reserve_quantile: float = 0.99
    largest_quantile: float = 0.995
    reserve_share: float = 0.1
    interval_seconds: float = 300.0
    horizon_seconds: float = 14400.0
    wear_joules: float = 50e3
    eviction_joules: t.Mapping[str, float] = field(default_factory=lambda: _EVICTION_JOULES)
    max_share: float = 0.1
    min_awake_seconds: float = 1800.0
    min_awake: int = 1
    min_awake_by_zone: t.Mapping[str, int] = field(default_factory=dict)
    min_awake_by_rack: t.Mapping[str, int] = field(default_factory=dict)
    urgent_seconds: float = 300.0

    def __post_init__(self) -> None:
        """Raises InvalidInput."""
        for name, (least, most) in _RANGES.items():
            value = getattr(self, name)
            if not _is_number(value) or not least <= value <= most:
                wanted = f"from {least:g} to {most:g}" if most < math.inf else f"{least:g} or more"
                raise InvalidInput(f"sleep rules: {name} is {value!r}; give a number {wanted}")
        missing = sorted(_EVICTION_JOULES.keys() - self.eviction_joules.keys())
        if missing:
            raise InvalidInput(
                f"sleep rules: eviction_joules has no {', '.join(missing)}; give joules of each class"
            )
        for name in ("eviction_joules", "min_awake_by_zone", "min_awake_by_rack"):
            for key, value in getattr(self, name).items():
                if not _is_number(value) or value < 0:
                    raise InvalidInput(
                        f"sleep rules: {name} of {key} is {value!r}; give a number from 0"
                    )
        floors = {"": self.min_awake, **self.min_awake_by_zone, **self.min_awake_by_rack}
        for where, value in floors.items():
            if not isinstance(value, int):
                raise InvalidInput(
                    f"sleep rules: the floor {where or 'min_awake'} is {value!r}; give a whole "
                    "number of machines"
                )

    def weighed(self, weight: float) -> SleepRules:
        """The rules at an hour whose energy costs this multiple of the mean, from 0 on.

        Joules that a sleep saves count as many times as much, so that dear hours pay for evictions
        and wear sooner. Boots are paid later, at a price that nobody knows, and count as they are.
        """
        return replace(self, horizon_seconds=self.horizon_seconds * weight)


def _is_number(value: t.Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


_RANGES = {
    "max_cycles_a_day": (0, 1000),
    "reserve_quantile": (0.0, 1.0),
    "largest_quantile": (0.0, 1.0),
    "reserve_share": (0.0, math.inf),
    "interval_seconds": (1.0, math.inf),
    "horizon_seconds": (0.0, math.inf),
    "wear_joules": (0.0, math.inf),
    "max_share": (0.0, 1.0),
    "min_awake_seconds": (0.0, math.inf),
    "min_awake": (0, math.inf),
    "urgent_seconds": (0.0, math.inf),
}
