# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet temperature and power of many BMCs, the work of redfish_thermal_info."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, field

from ..base.argspec import ArgumentSpec
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, TargetError, TargetFailure
from ..base.fields.lenient import member
from ..base.units import format_time
from ..fleet.visits import Client, error_of
from ..nodeconfig.freshness import REFRESH, kept_values, previous_readings
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
from ..nodeconfig.readings import Answers, Readings, Value, Values, mapping_of, moment_of
from .links import identity, link, name_of
from .power import Power
from .sensors import NOTABLE_SPREAD_CELSIUS, Choice, Temperature
from .tree import Tree
from .walk import KnownSensors, Walk

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
class BmcReading:
    """Readings of one BMC; a missing quantity has its failure."""

    known: KnownSensors
    inlet: Choice | None = None
    power: Power | None = None
    vendor: str | None = None
    system: t.Mapping[str, t.Any] = field(default_factory=dict)
    failures: tuple[TargetFailure, ...] = ()

    def values(self, now: datetime.datetime) -> dict[str, Value]:
        """The values that were read, for an observation."""
        found: dict[str, Value] = {}
        if self.inlet is not None and self.inlet.temperature.celsius is not None:
            found["inlet_celsius"] = Value(self.inlet.temperature.celsius, now)
        if self.power is not None:
            found["power_watts"] = Value(self.power.watts, now)
        return found


# The answer of an endpoint of type Fake.
_FAKE = BmcReading(
    KnownSensors(),
    Choice(Temperature("sensor", "", FAKE, (), "", "", FAKE_INLET_CELSIUS), "known_sensor"),
    vendor=FAKE,
)


def read_thermal(parameters: Parameters, context: Context = Context()) -> Result:
    """Read every BMC once, with the result of redfish_thermal_info.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    found = given_targets(options, "Redfish", "inlet_temp", own_options=("sensors",))
    previous = previous_readings(options["previous"])
    plan = ThermalPlan.of(found, options, previous, context.now())
    answers = plan.concluded(poll(plan.jobs, options, context), context)
    return conclude(options, len(found), answers.errors, answers.as_result())


@dataclass(frozen=True)
class ThermalPlan:
    """The jobs to poll at BMCs."""

    found: t.Sequence[PollTarget]
    gather: frozenset[str]
    kept: t.Mapping[str, Values]
    now: datetime.datetime

    @classmethod
    def of(
        cls,
        found: t.Sequence[PollTarget],
        options: Parameters,
        previous: Readings,
        now: datetime.datetime,
    ) -> ThermalPlan:
        """``previous`` are the last readings by node. Raises InvalidInput without a quantity."""
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
        return [Job(target, "Redfish", self._work, _FAKE) for target in self.due]

    async def _work(self, client: Client, target: PollTarget) -> BmcReading:
        here = {part for part in self.gather if _QUANTITIES[part] not in self.kept[target.name]}
        return await _read_bmc(client, _known(target.extra, self.now), frozenset(here))

    def concluded(self, polled: Polled[t.Any], context: Context) -> ThermalAnswers:
        """The answers of the jobs, with a warning of doubtful ones."""
        answers = dict(zip((target.name for target in self.due), polled.results))
        found = ThermalAnswers(self, answers, polled.authentication, context.now())
        _warn_of_spread(found, context)
        return found


@dataclass(frozen=True)
class ThermalAnswers:
    """A reading or an error of each BMC that was read, and the kept values of all."""

    plan: ThermalPlan
    by_name: t.Mapping[str, BmcReading | TargetError]
    authentication: t.Sequence[Result]
    now: datetime.datetime

    @property
    def read(self) -> list[tuple[PollTarget, BmcReading]]:
        """The readings of real BMCs."""
        answers = ((target, self.by_name[target.name]) for target in self.plan.due)
        return [
            (target, answer)
            for target, answer in answers
            if isinstance(answer, BmcReading) and answer is not _FAKE
        ]

    @property
    def errors(self) -> list[TargetError]:
        return [
            error
            for target in self.plan.due
            for error in _errors(target, self.by_name[target.name])
        ]

    def answers(self) -> Answers:
        """The values for an observation."""
        return Answers(
            {target.name: self._values(target) for target in self.plan.found},
            self.errors,
            {target.name: _as_sensors(target, reading) for target, reading in self.read},
            {entry["name"]: entry for entry in self.authentication},
        )

    def _values(self, target: PollTarget) -> Values:
        answer = self.by_name.get(target.name)
        new = answer.values(self.now) if isinstance(answer, BmcReading) else {}
        return {**new, **self.plan.kept[target.name]}

    def as_result(self) -> Result:
        """The result of redfish_thermal_info, without errors."""
        return {
            "readings": [
                self._as_result(target)
                for target in self.plan.found
                if self.plan.kept[target.name]
                or not isinstance(self.by_name[target.name], TargetError)
            ],
            "sensors": [_as_sensors(target, reading) for target, reading in self.read],
            "authentication": self.authentication,
        }

    def _as_result(self, target: PollTarget) -> Result:
        """The new readings, and earlier ones of quantities that were not read."""
        answer, kept = self.by_name.get(target.name), self.plan.kept[target.name]
        if answer is _FAKE:
            return _as_fake(target)
        known = _known(target.extra, self.plan.now)
        result = _as_read(target, answer if isinstance(answer, BmcReading) else BmcReading(known))
        if not kept:
            return result
        result.update((quantity, value.value) for quantity, value in kept.items())
        if "inlet_celsius" in kept:
            places = {"sensor_name": known.inlet_name, "source_uri": identity(known.inlet_uri)}
            result.update({name: place or None for name, place in places.items()})
        if "power_watts" in kept:
            result["power_uri"] = identity(known.power_uri) or None
        result["vendor"] = result["vendor"] or known.vendor
        result["kept"] = {quantity: format_time(value.time) for quantity, value in kept.items()}
        return result


async def _read_bmc(client: Client, known: KnownSensors, gather: frozenset[str]) -> BmcReading:
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
    return BmcReading(known, inlet, power, walk.vendor, walk.system, tuple(failures))


def _known(extra: t.Mapping[str, t.Any], now: datetime.datetime) -> KnownSensors:
    """From the target's ``sensors`` of an earlier result, or its NodeConfig's status."""
    status, given, is_doubtful = extra.get("status"), extra.get("sensors"), False
    places: tuple[tuple[str, ...], ...] = (("inlet_uri",), ("inlet_name",), ("power_uri",))
    if status is not None:
        given = member(status, "sensors")
        places = (("inletTemp", "uri"), ("inletTemp", "name"), ("power", "uri"))
        read_at = moment_of(member(status, "readings", "inletTemp", "time"))
        is_doubtful = read_at is None or now - read_at > _DOUBT_AFTER
    inlet_uri, inlet_name, power_uri = (member(given, *place) for place in places)
    return KnownSensors(
        inlet_uri=link(inlet_uri),
        inlet_name=name_of(inlet_name),
        power_uri=link(power_uri),
        vendor=name_of(member(given, "vendor")) or None,
        system=mapping_of(member(given, "system")),
        is_doubtful=is_doubtful,
    )


def _as_fake(target: PollTarget) -> Result:
    fake = {"inlet_celsius": FAKE_INLET_CELSIUS, "sensor_name": FAKE, "vendor": FAKE}
    empty = dict.fromkeys(("source_uri", "rule", "power_watts", "power_uri"))
    return {"name": target.name, **fake, **empty}


def _as_read(target: PollTarget, reading: BmcReading) -> Result:
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


def _as_sensors(target: PollTarget, reading: BmcReading) -> Result:
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


def _errors(target: PollTarget, answer: BmcReading | TargetError) -> list[TargetError]:
    if isinstance(answer, TargetError):
        return [answer]
    return [error_of(target.name, target.endpoint, failure) for failure in answer.failures]


def _warn_of_spread(answers: ThermalAnswers, context: Context) -> None:
    names = [
        target.name
        for target, reading in answers.read
        if reading.inlet and reading.inlet.spread > NOTABLE_SPREAD_CELSIUS
    ]
    if names:
        shown = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
        context.warn(
            f"{len(names)} BMCs have several inlet sensors that differ by more than "
            f"{NOTABLE_SPREAD_CELSIUS:g} °C, the first in order is used: {shown}"
        )
