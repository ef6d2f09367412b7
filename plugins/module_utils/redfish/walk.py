# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet temperature and power of one BMC, from known sensors or by a walk of its tree.

A walk reads each resource only when needed: the levels of ``sensors`` are tried in their order, and
the first with a usable reading ends it.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ..base.errors import TargetFailure
from ..base.fields.lenient import objects
from ..base.json_types import Object
from . import power, sensors, words
from .discovery import Chassis, Survey, nothing_found, survey
from .links import identity, last_segment, link, natural_order
from .sensors import Choice, Temperature
from .tree import Tree

MAX_SENSORS = 200
MAX_SUPPLIES = 16
MAX_NAMED = 4


@dataclass(frozen=True)
class KnownSensors:
    """Places of the readings from an earlier walk; empty without one.

    ``is_doubtful`` means that the inlet sensor has had no reading for long.
    """

    inlet_uri: str = ""
    inlet_name: str = ""
    power_uri: str = ""
    vendor: str | None = None
    system: t.Mapping[str, t.Any] = field(default_factory=dict)
    is_doubtful: bool = False


class Walk:
    """One BMC's readings. Failures are TargetFailures of the machine or of one quantity."""

    def __init__(self, tree: Tree, known: KnownSensors) -> None:
        self._tree = tree
        self._known = known
        self._survey: Survey | None = None

    @property
    def vendor(self) -> str | None:
        return self._survey.vendor if self._survey else self._known.vendor

    @property
    def system(self) -> t.Mapping[str, t.Any]:
        """Identity of the server, of this walk or an earlier one."""
        return (self._survey.system if self._survey else {}) or self._known.system

    async def read_inlet(self) -> Choice:
        """The inlet temperature. Raises TargetFailure, no_sensor or implausible among others."""
        known = await self._known_inlet()
        if known is not None and known.celsius is not None:
            return Choice(known, "known_sensor")
        if known is not None and not self._known.is_doubtful:
            raise _unusable([known])
        return await self._search_inlet(await self._surveyed())

    async def read_power(self) -> power.Power:
        """The server's power. Raises TargetFailure, with a field ``uri`` after a reading of 0 W."""
        known = await self._known_power()
        if known is not None:
            if known.is_plausible:
                return known
            raise _implausible_power(known)
        return await self._search_power(await self._surveyed())

    async def _surveyed(self) -> Survey:
        if self._survey is None:
            self._survey = await survey(self._tree)
        return self._survey

    async def _known_inlet(self) -> Temperature | None:
        uri, name = self._known.inlet_uri, self._known.inlet_name
        if not uri or await self._tree.require(uri) is None:
            return None
        found = await self._temperatures_at(uri)
        named = [item for item in found if item.name == name]
        return min(
            named,
            key=lambda item: (item.source != "summary", natural_order(item.order)),
            default=None,
        )

    async def _temperatures_at(self, uri: str) -> list[Temperature]:
        body = await self._tree.read(uri) or {}
        if "Temperatures" in body:
            entries = await self._tree.entries(uri, "Temperatures")
            return sensors.of_thermal(uri, {"Temperatures": entries})
        if body.keys() & {"TemperatureSummaryCelsius", "TemperatureReadingsCelsius"}:
            return sensors.of_metrics(uri, body)
        return sensors.of_sensor(uri, body)

    async def _known_power(self) -> power.Power | None:
        uri = self._known.power_uri
        body = await self._tree.require(uri) if uri else None
        if body is None:
            return None
        if "Members" in body:
            return await self._sum_of_supplies(uri)
        read = power.of_sensor if "Reading" in body else power.of_power
        return power.of_environment(uri, body) or read(uri, body)

    async def _search_inlet(self, found: Survey) -> Choice:
        seen: list[Temperature] = []
        groups = (self._whole, found.inner, found.unreadable)
        for group in groups:
            temperatures, choice = await self._search_chassis(await group())
            if choice is not None:
                return choice
            seen += temperatures
            if sensors.candidates(sensors.ALL_LEVELS, seen):
                break
        hindered = sensors.candidates((*sensors.ALL_LEVELS, *sensors.ROOM_LEVELS), seen)
        if hindered:
            raise _unusable(hindered)
        raise nothing_found(self._tree, "sensor of the air that enters the server")

    async def _whole(self) -> list[Chassis]:
        return (await self._surveyed()).whole

    async def _search_chassis(
        self, group: t.Sequence[Chassis]
    ) -> tuple[list[Temperature], Choice | None]:
        """All temperatures that were read, and the chosen one."""
        seen: list[Temperature] = []
        steps = (
            (self._metrics, sensors.METRICS_LEVELS),
            (self._sensors, sensors.SENSOR_LEVELS),
            (self._thermal, sensors.THERMAL_LEVELS),
        )
        for read, levels in steps:
            for chassis in group:
                seen += await read(chassis)
            choice = sensors.choose(levels, seen)
            if choice is not None:
                return seen, choice
        if sensors.candidates(sensors.ALL_LEVELS, seen):
            return seen, None
        return seen, sensors.choose(sensors.ROOM_LEVELS, seen)

    async def _metrics(self, chassis: Chassis) -> list[Temperature]:
        uri = chassis.link("ThermalSubsystem")
        if chassis.body:
            uri = link((await self._tree.read(uri) or {}).get("ThermalMetrics"))
        else:
            uri += "/ThermalMetrics"
        body = await self._tree.read(uri)
        return sensors.of_metrics(uri, body) if body else []

    async def _thermal(self, chassis: Chassis) -> list[Temperature]:
        uri = chassis.link("Thermal")
        entries = await self._tree.entries(uri, "Temperatures")
        return sensors.of_thermal(uri, {"Temperatures": entries})

    async def _sensors(self, chassis: Chassis) -> list[Temperature]:
        uri = link(chassis.body.get("Sensors"))
        members = objects(await self._tree.entries(uri, "Members", expand=True))
        found: list[Temperature] = []
        for place, body in _worthwhile(members):
            content = body if len(body) > 1 else await self._tree.read(place)
            found += sensors.of_sensor(place, content) if content else []
        return found

    async def _search_power(self, found: Survey) -> power.Power:
        unbelieved: power.Power | None = None
        require_one_server(found.whole)
        for chassis in found.whole:
            for reading in (self._environment_power, self._control_power, self._supplied_power):
                watts = await reading(chassis)
                if watts is not None and watts.is_plausible:
                    return watts
                unbelieved = unbelieved or watts
        if unbelieved is not None and (found.is_on or unbelieved.watts):
            raise _implausible_power(unbelieved)
        if unbelieved is not None:
            raise TargetFailure("no_sensor", "the server draws 0 W: it is off, or does not measure")
        raise nothing_found(self._tree, "power reading of the whole server")

    async def _environment_power(self, chassis: Chassis) -> power.Power | None:
        uri = chassis.link("EnvironmentMetrics")
        body = await self._tree.read(uri) or {}
        watts = power.of_environment(uri, body)
        if watts is not None:
            return watts
        sensor = power.sensor_of_environment(body)
        return power.of_sensor(sensor, await self._tree.read(sensor) or {})

    async def _control_power(self, chassis: Chassis) -> power.Power | None:
        uri = chassis.link("Power")
        return power.of_power(uri, await self._tree.read(uri) or {})

    async def _supplied_power(self, chassis: Chassis) -> power.Power | None:
        """By the supplies of a PowerSubsystem, which has no reading of the server."""
        uri = chassis.link("PowerSubsystem")
        supplies = link((await self._tree.read(uri) or {}).get("PowerSupplies"))
        return await self._sum_of_supplies(supplies)

    async def _sum_of_supplies(self, uri: str) -> power.Power | None:
        members = objects(await self._tree.entries(uri, "Members", expand=True))
        found: list[Object] = []
        for entry in members[:MAX_SUPPLIES]:
            body = entry if len(entry) > 1 else await self._tree.read(link(entry)) or {}
            metrics = await self._tree.read(link(body.get("Metrics"))) or {}
            found.append({**body, **power.of_metrics(metrics)})
        return power.of_power(uri, {"PowerSupplies": found})


def require_one_server(whole: t.Sequence[Chassis]) -> None:
    """Raise TargetFailure if the chassis hold different systems, as in a manager of several nodes."""
    holders = [chassis for chassis in whole if chassis.systems]
    if any(not (one.systems & other.systems) for one in holders for other in holders):
        names = ", ".join(identity(chassis.uri) for chassis in holders[:MAX_NAMED])
        raise TargetFailure(
            "no_sensor",
            f"the BMC has {len(holders)} servers ({names}), whose power cannot be told apart; give "
            "the server's own BMC as the endpoint",
        )


def _worthwhile(members: t.Sequence[Object]) -> list[tuple[str, Object]]:
    """Members of a Sensors collection whose names do not exclude them."""
    named = [(last_segment(identity(link(body))), link(body), body) for body in members]
    chosen = [
        (natural_order(name), uri, body)
        for name, uri, body in named
        if uri and not words.is_elsewhere(name) and not words.is_other_quantity(name)
    ]
    chosen.sort(key=lambda item: item[:2])
    return [(uri, body) for _order, uri, body in chosen][:MAX_SENSORS]


def _unusable(temperatures: t.Sequence[Temperature]) -> TargetFailure:
    """The failure of existing sensors without a reading; an absurd reading is the best reason."""
    absurd = [item for item in temperatures if item.problem.startswith("reads")]
    item = (absurd or list(temperatures))[0]
    place = f"the sensor {item.name!r} at {identity(item.uri)}"
    if absurd:
        return TargetFailure(
            "implausible",
            f"{place} {item.problem}, outside {sensors.COLDEST_CELSIUS:g} to "
            f"{sensors.HOTTEST_CELSIUS:g} °C; check the sensor",
        )
    return TargetFailure("no_sensor", f"{place} {item.problem}; check whether the server is on")


def _implausible_power(reading: power.Power) -> TargetFailure:
    return TargetFailure(
        "implausible",
        f"{identity(reading.uri)} reports {reading.watts:g} W for the server; update the "
        "BMC's firmware, or leave power out of gather",
        uri=identity(reading.uri),
    )
