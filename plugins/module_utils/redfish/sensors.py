# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Choice of the inlet temperature among a chassis's temperatures, without requests.

Source of the order: Redfish schemas ThermalMetrics, Sensor and Thermal, and real answers of nine
vendors' BMCs.
"""

from __future__ import annotations

import functools
import typing as t
from dataclasses import dataclass

from ..base.fields.lenient import member, number, objects, text
from ..base.json_types import Object
from ..base.texts import shown
from . import words
from .links import identity, last_segment, link, links, name_of, natural_order

COLDEST_CELSIUS = -20.0
HOTTEST_CELSIUS = 70.0
NOTABLE_SPREAD_CELSIUS = 5.0
# Limit of temperatures of one resource; the largest real one has 94.
MAX_ENTRIES = 1000
_MAX_RELATED = 20

Source = t.Literal["summary", "metrics", "sensor", "thermal"]
Rule = t.Literal[
    "thermal_metrics_intake",
    "sensor_physical_context_intake",
    "thermal_physical_context_intake",
    "sensor_name",
    "known_sensor",
]

USELESS_STATES = frozenset({"absent", "disabled", "unavailableoffline"})
_CELSIUS = frozenset({"cel", "c", "°c", "degc", "celsius"})
_FAHRENHEIT = frozenset({"[degf]", "degf", "f", "°f", "fahrenheit"})
_KELVIN = frozenset({"k", "kel", "kelvin"})
# CPU is not among them, because some boards use it for every sensor.
_OTHER_CONTEXTS = frozenset(
    {
        *("accelerator", "asic", "exhaust", "fpga", "gpu", "gpusubsystem", "liquidinlet"),
        *("liquidoutlet", "memory", "memorysubsystem", "networkingdevice", "powersupply"),
        *("powersupplybay", "storagedevice", "storagesubsystem", "voltageregulator"),
    }
)


@dataclass(frozen=True)
class Temperature:
    """One listed temperature, in °C; None without a usable reading now.

    ``uri`` is the resource to read for it, ``names`` all texts about its place and meaning,
    ``order`` its identifier among equals.
    """

    source: Source
    uri: str
    name: str
    names: tuple[str, ...]
    order: str
    context: str
    celsius: float | None
    problem: str = ""
    is_elsewhere: bool = False

    @functools.cached_property
    def air_rank(self) -> int | None:
        """Rank of its names for inlet air; less is better."""
        ranks = [rank for name in self.names for rank in [words.air_rank(name)] if rank is not None]
        return min(ranks, default=None)


@dataclass(frozen=True)
class Choice:
    """The chosen temperature and the rule; ``spread`` is the spread of its equals, in °C."""

    temperature: Temperature
    rule: Rule
    spread: float = 0.0


def of_metrics(uri: str, body: Object) -> list[Temperature]:
    """The temperatures of a ThermalMetrics resource."""
    summary = member(body, "TemperatureSummaryCelsius")
    found = [
        _temperature(
            "summary", uri, place, member(summary, place), member(summary, place, "Reading")
        )
        for place in ("Intake", "Ambient")
        if isinstance(member(summary, place), dict)
    ]
    for entry in objects(body.get("TemperatureReadingsCelsius"))[:MAX_ENTRIES]:
        name = name_of(entry.get("DeviceName")) or name_of(
            last_segment(link(entry.get("DataSourceUri")))
        )
        found.append(_temperature("metrics", uri, name, entry, entry.get("Reading")))
    return found


def of_thermal(uri: str, body: Object) -> list[Temperature]:
    """The temperatures of a Thermal resource."""
    return [
        _temperature(
            "thermal",
            uri,
            name_of(entry.get("Name")) or name_of(entry.get("MemberId")),
            entry,
            entry.get("ReadingCelsius"),
        )
        for entry in objects(body.get("Temperatures"))[:MAX_ENTRIES]
    ]


def of_sensor(uri: str, body: Object) -> list[Temperature]:
    """The temperature of a Sensor resource; none if it measures something else."""
    name = name_of(body.get("Name")) or name_of(last_segment(identity(uri)))
    reading_type = text(body.get("ReadingType")).lower()
    units = text(body.get("ReadingUnits")).lower()
    if reading_type not in ("", "temperature"):
        return []
    if not reading_type and not _says_temperature(units, name, body):
        return []
    return [_temperature("sensor", uri, name, body, body.get("Reading"), units)]


def _says_temperature(units: str, name: str, body: Object) -> bool:
    """Whether a sensor without ReadingType is a temperature."""
    if units:
        return units in _CELSIUS | _FAHRENHEIT | _KELVIN
    if words.is_other_quantity(name):
        return False
    is_intake = text(body.get("PhysicalContext")).lower() == "intake"
    return is_intake or words.air_rank(name) is not None


def _temperature(
    source: Source, uri: str, name: str, entry: Object, reading: t.Any, units: str = ""
) -> Temperature:
    data_source = link(entry.get("DataSourceUri"))
    identifier = _identifier(source, uri, name, entry)
    context = text(entry.get("PhysicalContext")).lower()
    celsius, problem = _usable(reading, units, entry)
    names = tuple(filter(None, (name, identifier)))
    # Sensors of inner parts are repeated outside, where only the path identifies them.
    home = identity(uri).partition("/ThermalSubsystem")[0] + "/"
    path = data_source[len(home) :] if data_source.startswith(home) else data_source
    items = links(entry.get("RelatedItem"))[:_MAX_RELATED]
    related = [part for item in items for part in item.rsplit("/", 2)[-2:]]
    return Temperature(
        source=source,
        uri=uri,
        name=name,
        names=names,
        order=identifier,
        context=context,
        celsius=celsius,
        problem=problem,
        is_elsewhere=context in _OTHER_CONTEXTS
        or any(map(words.is_elsewhere, (*names, *path.split("/"), *related))),
    )


def _identifier(source: Source, uri: str, name: str, entry: Object) -> str:
    """Identity of a temperature, independent of its position in a list."""
    if source == "sensor":
        return name_of(entry.get("Id")) or last_segment(identity(uri))
    if source == "thermal":
        given = entry.get("MemberId")
        return f"{name} {name_of(given if isinstance(given, str) else shown(given))}"
    return last_segment(link(entry.get("DataSourceUri"))) or name


def _usable(reading: t.Any, units: str, entry: Object) -> tuple[float | None, str]:
    """The reading in °C and an empty text, or None and the reason."""
    state = text(member(entry, "Status", "State"))
    value = number(reading)
    if state.lower() in USELESS_STATES:
        return None, f"is {state}"
    if value is None:
        return None, "has no reading"
    if units in _FAHRENHEIT:
        value = (value - 32.0) / 1.8
    elif units in _KELVIN:
        value -= 273.15
    if not COLDEST_CELSIUS <= value <= HOTTEST_CELSIUS:
        return None, f"reads {value:g} °C"
    return round(value, 6), ""


class _Level(t.NamedTuple):
    rule: Rule
    matches: t.Callable[[Temperature], bool]


def _is_intake(source: Source) -> t.Callable[[Temperature], bool]:
    return lambda item: item.source == source and item.context == "intake"


def _is_named(source: Source) -> t.Callable[[Temperature], bool]:
    return lambda item: (
        item.source == source and item.context != "room" and item.air_rank is not None
    )


def _is_summary(place: str) -> t.Callable[[Temperature], bool]:
    return lambda item: item.source == "summary" and item.name == place


# The first one with a usable reading counts. The steps name the resources of a level, so that only
# these are read.
METRICS_LEVELS = (
    _Level("thermal_metrics_intake", _is_summary("Intake")),
    _Level("thermal_metrics_intake", _is_intake("metrics")),
)
SENSOR_LEVELS = (_Level("sensor_physical_context_intake", _is_intake("sensor")),)
THERMAL_LEVELS = (
    _Level("thermal_physical_context_intake", _is_intake("thermal")),
    _Level("sensor_name", _is_named("sensor")),
    _Level("sensor_name", _is_named("metrics")),
    _Level("sensor_name", _is_named("thermal")),
    _Level("sensor_name", _is_summary("Ambient")),
)
ALL_LEVELS = (*METRICS_LEVELS, *SENSOR_LEVELS, *THERMAL_LEVELS)
# Room air counts only if there is no nearer sensor, not even a broken one.
ROOM_LEVELS = (
    _Level("sensor_name", lambda item: item.context == "room" and item.air_rank is not None),
)


def choose(levels: t.Sequence[_Level], temperatures: t.Sequence[Temperature]) -> Choice | None:
    """The inlet by the first level with a usable one, independent of the order of the list."""
    for level in levels:
        usable = sorted(
            (item for item in candidates((level,), temperatures) if item.celsius is not None),
            key=_preference,
        )
        if usable:
            readings = [item.celsius or 0.0 for item in usable]
            return Choice(usable[0], level.rule, max(readings) - min(readings))
    return None


def candidates(
    levels: t.Sequence[_Level], temperatures: t.Sequence[Temperature]
) -> list[Temperature]:
    """Temperatures that count by one of the levels, usable now or not."""
    return [
        item
        for level in levels
        for item in temperatures
        if not item.is_elsewhere and level.matches(item)
    ]


def _preference(item: Temperature) -> tuple[t.Any, ...]:
    # Names decide only among names: an Intake counts regardless of its name.
    rank = 0 if item.context == "intake" or item.air_rank is None else item.air_rank
    return (rank, natural_order(item.order), natural_order(item.name), item.uri, item.celsius)
