# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts of Redfish documents that the vendors' trees share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.bmc.live import Live, rounded

Json = dict[str, Any]
Builder = Callable[[Live], Json]
Value = Callable[[Live], float | None]

ROOT = "/redfish/v1"
HEALTHY: Mapping[str, str] = {"State": "Enabled", "Health": "OK"}
ABSENT: Mapping[str, str] = {"State": "Absent"}
UNITS: Mapping[str, str] = {
    "Temperature": "Cel",
    "Rotational": "RPM",
    "Voltage": "V",
    "Current": "A",
    "Power": "W",
    "Percent": "%",
}


@dataclass(frozen=True)
class Sensor:
    """A row of a vendor's sensor table.

    `context` is the PhysicalContext, omitted if empty. An absent sensor shows 0, as BMCs do for
    unplugged parts.
    """

    id: str
    name: str
    value: Value
    context: str = ""
    kind: str = "Temperature"
    absent: bool = False

    def reading(self, live: Live, digits: int) -> float | None:
        return 0 if self.absent else rounded(self.value(live), digits)

    @property
    def status(self) -> Json:
        return dict(ABSENT if self.absent else HEALTHY)


def air(above_inlet: float = 0.0, with_load: float = 0.0) -> Value:
    """The value of a temperature sensor; see Live.celsius."""
    return lambda live: live.celsius(above_inlet, with_load)


def power(share: float = 1.0) -> Value:
    return lambda live: live.watts(share)


def steady(value: float) -> Value:
    """A constant value."""
    return lambda live: value


def fan(idle_rpm: float, with_load: float) -> Value:
    return lambda live: round(idle_rpm + with_load * live.utilisation, -1)


def link(path: str) -> Json:
    return {"@odata.id": path}


def links(paths: Iterable[str]) -> list[Json]:
    return [link(path) for path in paths]


def resource(path: str, schema: str, name: str, **properties: Any) -> Json:
    """A resource of a schema like `Chassis.v1_14_0.Chassis`; its Id is the path's last part."""
    return {
        "@odata.id": path,
        "@odata.type": f"#{schema}",
        "Id": path.rpartition("/")[2],
        "Name": name,
        **properties,
    }


def fixed(path: str, schema: str, name: str, **properties: Any) -> dict[str, Builder]:
    """One entry of a tree: a resource that is always the same on every machine."""
    body = resource(path, schema, name, **properties)
    return {path: lambda live: dict(body)}


def collection(path: str, kind: str, members: Sequence[str]) -> dict[str, Builder]:
    """One entry of a tree: a collection of resources of a kind like `Sensor`."""
    body = {
        "@odata.id": path,
        "@odata.type": f"#{kind}Collection.{kind}Collection",
        "Name": f"{kind} Collection",
        "Members": links(members),
        "Members@odata.count": len(members),
    }
    return {path: lambda live: dict(body)}


def sensors(path: str, schema: str, table: Sequence[Sensor], digits: int) -> dict[str, Builder]:
    """A Sensors collection in the table's order, and each sensor in the style of most vendors."""

    def builder(sensor: Sensor) -> Builder:
        def build(live: Live) -> Json:
            body = resource(f"{path}/{sensor.id}", schema, sensor.name)
            body |= {"PhysicalContext": sensor.context} if sensor.context else {}
            return body | {
                "Reading": sensor.reading(live, reading_digits(sensor, digits)),
                "ReadingType": sensor.kind,
                "ReadingUnits": UNITS[sensor.kind],
                "Status": sensor.status,
            }

        return build

    entries = {f"{path}/{sensor.id}": builder(sensor) for sensor in table}
    return collection(path, "Sensor", list(entries)) | entries


def reading_digits(sensor: Sensor, digits: int) -> int:
    """Volts and amperes need decimals even if temperatures are in whole degrees."""
    return max(digits, 2) if sensor.kind in ("Voltage", "Current") else digits


def temperatures(path: str, table: Sequence[Sensor], live: Live, digits: int = 0) -> list[Json]:
    """The Temperatures of a Thermal resource, in the table's order."""
    entries = []
    for index, sensor in enumerate(table):
        entry = {
            "@odata.id": f"{path}#/Temperatures/{index}",
            "MemberId": str(index),
            "Name": sensor.name,
            "SensorNumber": index + 1,
        }
        entry |= {"PhysicalContext": sensor.context} if sensor.context else {}
        entry |= {"ReadingCelsius": sensor.reading(live, digits), "Status": sensor.status}
        entries.append(entry)
    return entries


def fans(path: str, table: Sequence[Sensor], live: Live) -> list[Json]:
    """The Fans of a Thermal resource."""
    return [
        {
            "@odata.id": f"{path}#/Fans/{index}",
            "MemberId": str(index),
            "Name": sensor.name,
            "Reading": sensor.reading(live, 0),
            "ReadingUnits": "RPM",
            "Status": sensor.status,
        }
        for index, sensor in enumerate(table)
    ]


def thermal(
    path: str, version: str, table: Sequence[Sensor], fan_table: Sequence[Sensor]
) -> Builder:
    """The older resource Thermal; ``version`` is that of its schema, such as ``v1_6_1``."""
    return lambda live: resource(
        path,
        f"Thermal.{version}.Thermal",
        "Thermal",
        Temperatures=temperatures(path, table, live),
        Fans=fans(path, fan_table, live),
    )


def expand_query(levels: int = 1, is_full: bool = True) -> Json:
    """The service root's announcement of $expand; only of subordinates unless ``is_full``."""
    query = {"ExpandAll": is_full, "Levels": True, "Links": is_full, "MaxLevels": levels}
    return {"ProtocolFeaturesSupported": {"ExpandQuery": {**query, "NoLinks": True}}}


def thermal_subsystem(path: str, version: str, name: str) -> dict[str, Builder]:
    """The newer resource ThermalSubsystem, with its link to ThermalMetrics."""
    return fixed(
        path,
        f"ThermalSubsystem.{version}.ThermalSubsystem",
        name,
        ThermalMetrics=link(f"{path}/ThermalMetrics"),
        Status=dict(HEALTHY),
    )


def power_control(path: str, live: Live, **properties: Any) -> Json:
    """The PowerControl entry of a whole server; watts are whole numbers, as on BMCs."""
    watts = rounded(live.watts(), 0)
    return {
        "@odata.id": f"{path}#/PowerControl/0",
        "MemberId": "0",
        **properties,
        "PowerConsumedWatts": watts,
        "PowerMetrics": {
            "IntervalInMin": 1,
            "AverageConsumedWatts": watts,
            "MinConsumedWatts": rounded(live.watts(0.99), 0),
            "MaxConsumedWatts": rounded(live.watts(1.01), 0),
        },
    }


def power_supplies(path: str, live: Live, names: Sequence[str]) -> list[Json]:
    """The PowerSupplies of a Power resource, which share the load and lose 5 % of it."""
    return [
        {
            "@odata.id": f"{path}#/PowerSupplies/{index}",
            "MemberId": str(index),
            "Name": name,
            "PowerCapacityWatts": 1400,
            "PowerInputWatts": rounded(live.watts(1 / len(names)), 0),
            "PowerOutputWatts": rounded(live.watts(0.95 / len(names)), 0),
            "Status": dict(HEALTHY),
        }
        for index, name in enumerate(names)
    ]
