# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet temperature and power of many BMCs, the work of redfish_thermal_info."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, field
from types import MappingProxyType

from ..base.argspec import ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, TargetError, TargetFailure
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..base.units import parse_time
from ..fleet.credentials import SecretSource
from ..fleet.visits import Client, error_of
from ..nodeconfig.freshness import REFRESH, Kept, kept_values, previous_readings
from ..nodeconfig.nodeconfig import FAKE_INLET_CELSIUS
from ..nodeconfig.poll import (
    AUTHENTICATION,
    FAKE,
    Job,
    Polled,
    PollTarget,
    conclude,
    given_targets,
    poll,
    reading_spec,
)
from .links import identity, link, name_of
from .power import Power
from .sensors import NOTABLE_SPREAD_CELSIUS, Choice
from .tree import Tree
from .walk import Known, Walk

GATHERED = ("inlet", "power")
SPEC = reading_spec(sensors={"type": "dict"}).merge(
    AUTHENTICATION,
    ArgumentSpec(
        {
            "gather": {
                "type": "list",
                "elements": "str",
                "choices": list(GATHERED),
                "default": list(GATHERED),
            }
        }
    ),
    REFRESH,
)

_QUANTITIES = {"inlet": "inlet_celsius", "power": "power_watts"}
# A sensor without a reading for this time is searched again.
_DOUBT_AFTER = datetime.timedelta(minutes=15)
# Failures of the machine, after which the other quantity is not read.
_OF_THE_MACHINE = frozenset({"unreachable", "timeout", "tls", "unauthorized", "forbidden"})


@dataclass(frozen=True)
class Reading:
    """Readings of one BMC; a missing quantity has its failure."""

    known: Known
    inlet: Choice | None = None
    power: Power | None = None
    vendor: str | None = None
    system: t.Mapping[str, t.Any] = field(default_factory=dict)
    failures: tuple[TargetFailure, ...] = ()


# The result of a BMC with only kept values.
_NOT_ASKED = Reading(Known())


def read_thermal(parameters: Parameters, context: Context = Context()) -> Result:
    """Read every BMC once, with the result of redfish_thermal_info.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    found = given_targets(options, "Redfish", "inlet_temp", own_options=("sensors",))
    return read(found, options, context, previous_readings(options["previous"]))


def read(
    found: t.Sequence[PollTarget],
    options: Parameters,
    context: Context = Context(),
    previous: Object = MappingProxyType({}),
    secrets: SecretSource | None = None,
) -> Result:
    """Read every BMC once; ``readings``, ``sensors``, ``authentication`` and ``errors``.

    ``previous`` are the readings of the last observation by node. Raises like ``read_thermal``.
    """
    reading = ThermalReading.plan(found, options, previous, context.now())
    polled = poll(reading.jobs, options, context, secrets)
    return reading.conclude(polled, options, context)


@dataclass(frozen=True)
class ThermalReading:
    """The jobs to poll at BMCs, and the result from their answers."""

    found: t.Sequence[PollTarget]
    gather: frozenset[str]
    kept: t.Mapping[str, t.Mapping[str, Kept]]
    now: datetime.datetime

    @classmethod
    def plan(
        cls,
        found: t.Sequence[PollTarget],
        options: Parameters,
        previous: Object,
        now: datetime.datetime,
    ) -> ThermalReading:
        """Raises InvalidInput if no quantity is wanted."""
        gather = frozenset(options["gather"])
        if not gather:
            raise InvalidInput("gather: nothing is requested; write inlet, power or both")
        quantities = [_QUANTITIES[part] for part in gather]
        kept = kept_values(found, quantities, previous, options["refresh"], now)
        return cls(found, gather, kept, now)

    @property
    def due(self) -> list[PollTarget]:
        """The BMCs to read."""
        return [item for item in self.found if len(self.kept[item.name]) < len(self.gather)]

    @property
    def jobs(self) -> list[Job[t.Any]]:
        """One job for each BMC to read."""
        return [Job(target, "Redfish", self._work, None) for target in self.due]

    async def _work(self, client: Client, target: PollTarget) -> Reading:
        here = {part for part in self.gather if _QUANTITIES[part] not in self.kept[target.name]}
        return await _read_bmc(client, _known(target.extra, self.now), frozenset(here))

    def conclude(self, polled: Polled[t.Any], options: Parameters, context: Context) -> Result:
        """The result of the jobs' answers. Raises WattwiseError if too few targets succeeded."""
        answers = list(zip(self.due, polled.results))
        read = [(item, answer) for item, answer in answers if isinstance(answer, Reading)]
        _warn_of_spread(read, context)
        by_name = {target.name: answer for target, answer in answers}
        result = {
            "readings": [
                _as_result(
                    target,
                    by_name.get(target.name, _NOT_ASKED),
                    self.kept[target.name],
                    self.now,
                )
                for target in self.found
                if self.kept[target.name] or not isinstance(by_name[target.name], TargetError)
            ],
            "sensors": [_as_sensors(target, reading) for target, reading in read],
            "authentication": polled.authentication,
        }
        errors = [error for target, answer in answers for error in _errors(target, answer)]
        return conclude(options, len(self.found), errors, result)


async def _read_bmc(client: Client, known: Known, gather: frozenset[str]) -> Reading:
    walk = Walk(Tree(client), known)
    failures: list[TargetFailure] = []
    inlet: Choice | None = None
    power: Power | None = None
    if "inlet" in gather:
        try:
            inlet = await walk.read_inlet()
        except TargetFailure as failure:
            failures.append(failure)
    if "power" in gather and not any(item.reason in _OF_THE_MACHINE for item in failures):
        try:
            power = await walk.read_power()
        except TargetFailure as failure:
            failures.append(failure)
    if inlet is None and power is None and failures[0].reason not in ("no_sensor", "implausible"):
        raise failures[0]
    return Reading(known, inlet, power, walk.vendor, walk.system, tuple(failures))


def _known(extra: t.Mapping[str, t.Any], now: datetime.datetime) -> Known:
    """From the target's ``sensors`` of an earlier result, or its NodeConfig's status."""
    status = extra.get("status")
    if status is None:
        given = extra.get("sensors") or {}
        return Known(
            inlet_uri=link(given.get("inlet_uri")),
            inlet_name=name_of(given.get("inlet_name")),
            power_uri=link(given.get("power_uri")),
            vendor=name_of(given.get("vendor")) or None,
            system=_system(given.get("system")),
        )
    sensors = member(status, "sensors")
    return Known(
        inlet_uri=link(member(sensors, "inletTemp", "uri")),
        inlet_name=name_of(member(sensors, "inletTemp", "name")),
        power_uri=link(member(sensors, "power", "uri")),
        vendor=name_of(member(sensors, "vendor")) or None,
        system=_system(member(sensors, "system")),
        is_doubtful=_is_long_ago(member(status, "readings", "inletTemp", "time"), now),
    )


def _system(given: t.Any) -> Object:
    return given if isinstance(given, dict) else {}


def _is_long_ago(moment: t.Any, now: datetime.datetime) -> bool:
    try:
        return now - parse_time(moment) > _DOUBT_AFTER
    except (InvalidInput, TypeError):
        return True


def _as_result(
    target: PollTarget,
    answer: Reading | TargetError | None,
    kept: t.Mapping[str, Kept],
    now: datetime.datetime,
) -> Result:
    """The new readings, and earlier ones of quantities that were not read."""
    if answer is None:
        return _as_fake(target)
    known = _known(target.extra, now)
    result = _as_read(target, answer if isinstance(answer, Reading) else Reading(known))
    if not kept:
        return result
    for quantity, value in kept.items():
        result[quantity] = value.value
    if "inlet_celsius" in kept:
        places = {"sensor_name": known.inlet_name, "source_uri": identity(known.inlet_uri)}
        result.update({name: place or None for name, place in places.items()})
    if "power_watts" in kept:
        result["power_uri"] = identity(known.power_uri) or None
    result["vendor"] = result["vendor"] or known.vendor
    result["kept"] = {quantity: value.shown_time for quantity, value in kept.items()}
    return result


def _as_fake(target: PollTarget) -> Result:
    fake = {"inlet_celsius": FAKE_INLET_CELSIUS, "sensor_name": FAKE, "vendor": FAKE}
    empty = dict.fromkeys(("source_uri", "rule", "power_watts", "power_uri"))
    return {"name": target.name, **fake, **empty}


def _as_read(target: PollTarget, reading: Reading) -> Result:
    inlet, power = reading.inlet, reading.power
    unbelieved = [item.fields["uri"] for item in reading.failures if "uri" in item.fields]
    return {
        "name": target.name,
        "inlet_celsius": inlet.temperature.celsius if inlet else None,
        "sensor_name": inlet.temperature.name if inlet else None,
        "source_uri": identity(inlet.temperature.uri) if inlet else None,
        "rule": inlet.rule if inlet else None,
        "power_watts": power.watts if power else None,
        "power_uri": identity(power.uri) if power else next(iter(unbelieved), None),
        "vendor": reading.vendor,
    }


def _as_sensors(target: PollTarget, reading: Reading) -> Result:
    """Sensors for the next run; known ones stay while they only pause."""
    inlet, power, known = reading.inlet, reading.power, reading.known
    return {
        "name": target.name,
        "inlet_uri": inlet.temperature.uri if inlet else known.inlet_uri or None,
        "inlet_name": inlet.temperature.name if inlet else known.inlet_name or None,
        "power_uri": power.uri if power else known.power_uri or None,
        "vendor": reading.vendor,
        **({"system": dict(reading.system)} if reading.system else {}),
    }


def _errors(target: PollTarget, answer: Reading | TargetError | None) -> list[TargetError]:
    if isinstance(answer, TargetError):
        return [answer]
    return [
        error_of(target.name, target.endpoint, failure)
        for failure in (answer.failures if answer else ())
    ]


def _warn_of_spread(read: t.Sequence[tuple[PollTarget, Reading]], context: Context) -> None:
    names = [
        target.name
        for target, reading in read
        if reading.inlet and reading.inlet.spread > NOTABLE_SPREAD_CELSIUS
    ]
    if names:
        shown = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
        context.warn(
            f"{len(names)} BMCs have several inlet sensors that differ by more than "
            f"{NOTABLE_SPREAD_CELSIUS:g} °C, the first in order is used: {shown}"
        )
