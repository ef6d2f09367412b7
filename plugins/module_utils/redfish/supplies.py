# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power draw of a server as the sum of its power supplies.

The input of a supply counts, as drawn from the wall. A supply without one counts by its output,
which is lower by the supply's loss.
"""

from __future__ import annotations

import typing as t

from ..base.fields.lenient import member, number, objects, text
from ..base.json_types import Object

# All ones of 16 bits; firmware gives them for no reading.
NO_WATTS = 0xFFFF
_MAX_VENDORS = 8
_NEVER_COUNTED = frozenset({"absent"})
# States and healths of a supply that may deliver nothing; without a reading it counts as 0 W.
_IDLE_STATES = frozenset(
    {"disabled", "quiesced", "standbyoffline", "standbyspare", "sleep", "unavailableoffline"}
)
# Own loss of a supply that delivers nothing.
_MAX_IDLE_WATTS = 30.0


def sum_of_supplies(body: Object) -> float | None:
    """Power draw of all supplies of a Power resource; None if the reading of any is unknown."""
    present = [
        supply
        for supply in _distinct(objects(body.get("PowerSupplies")))
        if _state(supply) not in _NEVER_COUNTED
    ]
    readings = [_reading(supply) for supply in present]
    if not readings or None in readings:
        return None
    # They only feed themselves: the server is off, or the board does not measure.
    if all(_delivers_nothing(supply, watts) for supply, watts in zip(present, readings)):
        return None
    return sum(watts or 0.0 for watts in readings)


def vendors_of(entry: Object) -> list[Object]:
    """The vendors' own blocks of a resource or an entry."""
    blocks = entry.get("Oem")
    return objects(list(blocks.values())[:_MAX_VENDORS]) if isinstance(blocks, dict) else []


def _distinct(supplies: t.Sequence[Object]) -> list[Object]:
    """The supplies without repetitions; those without any identifier are all distinct."""
    found: dict[t.Any, Object] = {}
    for index, supply in enumerate(supplies):
        identifiers = tuple(
            str(supply.get(key) or "") for key in ("@odata.id", "MemberId", "SerialNumber")
        )
        is_zero = supply.get("MemberId") == 0
        found.setdefault(identifiers if any(identifiers) or is_zero else index, supply)
    return list(found.values())


def _reading(supply: Object) -> float | None:
    """Power draw of one supply: the first positive one, else a stated 0, else None."""
    stated = [watts for watts in (*_inputs(supply), *_outputs(supply)) if watts is not None]
    if stated:
        return next((watts for watts in stated if watts > 0), 0.0)
    is_idle = (
        _state(supply) in _IDLE_STATES
        or text(member(supply, "Status", "Health")).lower() == "critical"
        or number(supply.get("LineInputVoltage")) == 0
        or any(_is_standby(block) for block in vendors_of(supply))
    )
    return 0.0 if is_idle else None


def _inputs(supply: Object) -> list[float | None]:
    """Input power by the schema, then by the vendor. Some firmware states the rated input."""
    most = _capacity(supply)
    given = [supply.get("PowerInputWatts")]
    given += [block.get("PowerInputWatts") for block in vendors_of(supply)]
    return [_below(most, value) for value in given]


def _outputs(supply: Object) -> list[float | None]:
    most = _capacity(supply)
    given = [supply.get("PowerOutputWatts")]
    given += [block.get("PowerOutputWatts") for block in vendors_of(supply)]
    # Often the rating, which only a known capacity reveals.
    given += [supply.get("LastPowerOutputWatts")] if most else []
    return [_below(most, value) for value in given]


def _capacity(supply: Object) -> float | None:
    """The highest stated rating of the supply, in watts."""
    ranges = objects(supply.get("InputRanges"))
    given = [supply.get("PowerCapacityWatts"), *(item.get("OutputWattage") for item in ranges)]
    stated = [watts for watts in map(number, given) if watts is not None and watts > 0]
    return max(stated, default=None)


def _below(most: float | None, value: t.Any) -> float | None:
    """The power draw, unless it is negative, no reading, or at least the rating."""
    watts = number(value)
    if watts is None or watts < 0 or watts == NO_WATTS or (most is not None and watts >= most):
        return None
    return watts


def _delivers_nothing(supply: Object, watts: float | None) -> bool:
    stated = [output for output in _outputs(supply) if output is not None]
    return (watts or 0.0) <= _MAX_IDLE_WATTS and bool(stated) and max(stated) == 0


def _state(supply: Object) -> str:
    return text(member(supply, "Status", "State")).lower()


def _is_standby(block: Object) -> bool:
    return text(block.get("ActiveStandby")).lower() == "standby"
