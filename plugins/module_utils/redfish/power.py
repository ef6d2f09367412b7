# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Watts of a whole server, from the resources of its chassis, without requests.

``ThermalMetrics.PowerWatts`` is the power of the fans and is never used.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import (
    Object,
    member,
    number,
    objects,
    text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.links import link

MOST_WATTS = 100_000.0

_WHOLE_SERVER = re.compile(r"system|server|chassis", re.IGNORECASE)


class Power(t.NamedTuple):
    """A power reading of a resource; ``watts`` may be 0 or absurd, see ``is_plausible``."""

    watts: float
    uri: str

    @property
    def is_plausible(self) -> bool:
        """Several BMCs report 0 W if they measure nothing."""
        return 0 < self.watts <= MOST_WATTS


def of_environment(uri: str, body: Object) -> Power | None:
    """The reading of an EnvironmentMetrics resource."""
    return _power(uri, member(body, "PowerWatts", "Reading"))


def sensor_of_environment(body: Object) -> str:
    """The URI of the sensor that an EnvironmentMetrics resource names instead of a reading."""
    return link(member(body, "PowerWatts", "DataSourceUri"))


def of_sensor(uri: str, body: Object) -> Power | None:
    """The reading of a Sensor resource that measures power."""
    is_power = text(body.get("ReadingType")) in ("", "Power") and text(
        body.get("ReadingUnits")
    ) in ("", "W")
    return _power(uri, body.get("Reading")) if is_power else None


def of_power(uri: str, body: Object) -> Power | None:
    """The reading of a Power resource: consumption of its control, else the sum of its supplies."""
    controls = objects(body.get("PowerControl"))
    named = [item for item in controls if _WHOLE_SERVER.search(text(item.get("Name")))]
    for control in [*named, *([] if named else controls[:1])]:
        # Not its Status: a control may be Disabled or Critical and still measure.
        found = _power(uri, control.get("PowerConsumedWatts"))
        if found is not None:
            return found
    return _sum_of_supplies(uri, body)


def _sum_of_supplies(uri: str, body: Object) -> Power | None:
    watts = [
        number(supply.get("PowerInputWatts"))
        for supply in objects(body.get("PowerSupplies"))
        if text(member(supply, "Status", "State")).lower() != "absent"
    ]
    if not watts or None in watts:
        return None
    return Power(sum(value or 0.0 for value in watts), uri)


def _power(uri: str, reading: t.Any) -> Power | None:
    watts = number(reading)
    return None if watts is None else Power(watts, uri)
