# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Power draw of a whole server, from the resources of its chassis, without requests.

``ThermalMetrics.PowerWatts`` is the power of the fans and is never used.
"""

from __future__ import annotations

import re
import typing as t
from collections import Counter

from ..base.fields.lenient import member, number, objects, text
from ..base.json_types import Object
from . import parts
from .links import identity, last_segment, link, name_of, natural_order
from .sensors import USELESS_STATES
from .supplies import NO_WATTS, sum_of_supplies, vendors_of

MAX_WATTS = 100_000.0

_MAX_CONTROLS = 200
_WATTS = ("", "w", "watt", "watts")
_NUMBERS = re.compile(r"\d+", re.ASCII)
# Members of vendors' blocks with the power draw of the server, such as TotalPower of Inspur.
_VENDORS_TOTAL = re.compile(
    r"(?:current)?(?:total|system|server|node)(?:input)?power(?:consumption|consumed)?(?:watts|w)?"
)
_OF_FUJITSU = ("ChassisPowerConsumption", "CurrentPowerConsumptionW")


class Power(t.NamedTuple):
    """A power reading of a resource; ``watts`` may be 0 or absurd, see ``is_plausible``."""

    watts: float
    uri: str

    @property
    def is_plausible(self) -> bool:
        """Several BMCs report 0 W, or all ones, if they measure nothing."""
        return 0 < self.watts <= MAX_WATTS and self.watts != NO_WATTS


def of_environment(uri: str, body: Object) -> Power | None:
    """The reading of an EnvironmentMetrics resource of a chassis."""
    reading = member(body, "PowerWatts")
    source = link(member(reading, "DataSourceUri"))
    if parts.is_below_part(uri) or _is_of_part(source):
        return None
    return _power(uri, member(reading, "Reading"))


def sensor_of_environment(body: Object) -> str:
    """The URI of the sensor that an EnvironmentMetrics resource names instead of a reading."""
    source = link(member(body, "PowerWatts", "DataSourceUri"))
    return "" if _is_of_part(source) else source


def _is_of_part(source: str) -> bool:
    name = last_segment(identity(source))
    return parts.is_below_part(source) or parts.named(name) == "part"


def of_sensor(uri: str, body: Object) -> Power | None:
    """The reading of a Sensor resource that measures the power of the server."""
    is_power = (
        text(body.get("ReadingType")).lower() in ("", "power")
        and text(body.get("ReadingUnits")).lower() in _WATTS
        and text(member(body, "Status", "State")).lower() not in USELESS_STATES
    )
    return _power(uri, body.get("Reading")) if is_power and parts.of_entry(body) != "part" else None


def of_power(uri: str, body: Object) -> Power | None:
    """The reading of a Power resource, plausible if any is.

    The control of the server comes first, then the reading of the resource itself (iLO 4 and rack
    managers), the vendor's own total, the sum of the supplies, and other controls of the server.
    """
    controls = server_controls(body)
    consumed = [_power(uri, control.get("PowerConsumedWatts")) for control in controls]
    total = _vendors_total(body, controls)
    readings = [
        *consumed[:1],
        _power(uri, body.get("PowerConsumedWatts")),
        _power(uri, total),
        _power(uri, sum_of_supplies(body)),
        *consumed[1:],
    ]
    found = [reading for reading in readings if reading is not None]
    return next((reading for reading in found if reading.is_plausible), next(iter(found), None))


def of_metrics(body: Object) -> Object:
    """The members of a Power resource's supply by the PowerSupplyMetrics that replaced them."""
    places = {"PowerInputWatts": "InputPowerWatts", "PowerOutputWatts": "OutputPowerWatts"}
    readings = {name: member(body, place, "Reading") for name, place in places.items()}
    return {name: reading for name, reading in readings.items() if reading is not None}


def server_controls(body: Object) -> list[Object]:
    """The controls that may measure the whole server, the likeliest first.

    Controls whose names differ only by a number belong to several nodes. Of controls without a
    telling name only the first counts, because the others may be parts.
    """
    entries = objects(body.get("PowerControl"))[:_MAX_CONTROLS]
    shapes = Counter(_NUMBERS.sub("#", name_of(entry.get("Name"))) for entry in entries)
    found: dict[parts.Coverage, list[Object]] = {"whole": [], "unknown": [], "part": []}
    for entry in sorted(entries, key=_order):
        name = name_of(entry.get("Name"))
        is_one_of_several = _NUMBERS.search(name) and shapes[_NUMBERS.sub("#", name)] > 1
        found["part" if is_one_of_several else parts.of_entry(entry)].append(entry)
    return found["whole"] or found["unknown"][:1]


def _order(entry: Object) -> t.Any:
    given = entry.get("MemberId")
    return natural_order(given if isinstance(given, str) else str(given or ""))


def _vendors_total(body: Object, controls: t.Sequence[Object]) -> float | None:
    """Power draw of the server by a vendor's own block, under any name of the vendor."""
    blocks = [block for entry in (body, *controls) for block in vendors_of(entry)]
    blocks += [inner for block in blocks for inner in objects(list(block.values())[:_MAX_CONTROLS])]
    given = [reading for block in blocks for reading in _totals(block)]
    return next((watts for watts in map(number, given) if watts is not None and watts > 0), None)


def _totals(block: Object) -> t.Iterator[t.Any]:
    yield member(block, *_OF_FUJITSU)
    sensors = objects(block.get("ChassisPowerSensors"))
    key = _OF_FUJITSU[-1]
    yield from (
        sensor.get(key)
        for sensor in sensors
        if parts.named(name_of(sensor.get("Designation"))) == "whole"
    )
    for name, value in block.items():
        if _VENDORS_TOTAL.fullmatch(re.sub(r"[^a-z]", "", str(name)[:64].lower())):
            yield value
    supplies = [
        number(sensor.get(key)) for sensor in sensors if sensor.get("EntityId") == "Power Supply"
    ]
    yield sum(watts or 0.0 for watts in supplies) if None not in supplies else None


def _power(uri: str, reading: t.Any) -> Power | None:
    watts = number(reading)
    return None if watts is None else Power(watts, uri)
