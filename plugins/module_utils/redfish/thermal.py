# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Inlet temperature and power of many BMCs: the work of redfish_thermal_info."""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass

from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import (
    Context,
    Parameters,
    Result,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    TargetError,
    TargetFailure,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import member
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import parse_time
from ansible_collections.wattwise.kube.plugins.module_utils.fleet.visits import (
    Client,
    Target,
    error_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.freshness import (
    REFRESH,
    Kept,
    kept_values,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.nodeconfig import (
    FAKE_INLET_CELSIUS,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import (
    FAKE,
    conclude,
    read_machines,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.targets import (
    AUTHENTICATION,
    Machine,
    machines,
    reading_spec,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.links import (
    identity,
    link,
    name_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.power import Power
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.sensors import (
    NOTABLE_SPREAD_CELSIUS,
    Choice,
)
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.tree import Tree
from ansible_collections.wattwise.kube.plugins.module_utils.redfish.walk import Known, Walk

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
# A sensor that gave nothing for so long is looked for anew.
_DOUBT_AFTER = datetime.timedelta(minutes=15)
# Failures of the machine: it is of no use to ask it for the other quantity.
_OF_THE_MACHINE = frozenset({"unreachable", "timeout", "tls", "unauthorized", "forbidden"})


@dataclass(frozen=True)
class Reading:
    """What one BMC gave; a quantity that it did not give has its failure."""

    known: Known
    inlet: Choice | None = None
    power: Power | None = None
    vendor: str | None = None
    failures: tuple[TargetFailure, ...] = ()


# Of a machine all of whose values are kept.
_NOT_ASKED = Reading(Known())


def read_thermal(parameters: Parameters, context: Context = Context()) -> Result:
    """Read every BMC once; ``readings``, ``sensors``, ``authentication`` and ``errors``.

    Raises InvalidInput, and WattwiseError with all results where too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    gather = frozenset(options["gather"])
    if not gather:
        raise InvalidInput("gather: nothing is asked for; write inlet, power or both")
    found = machines(options, "Redfish", "inlet_temp", own_options=("sensors",))
    now = context.now()
    kept = kept_values(found, [_QUANTITIES[part] for part in gather], options, now)
    due = [item for item in found if len(kept[item.name]) < len(gather)]

    async def work(client: Client, target: Target) -> Reading:
        here = {part for part in gather if _QUANTITIES[part] not in kept[target.name]}
        return await _read_machine(client, _known(target.extra, now), frozenset(here))

    readout = read_machines(due, "Redfish", work, lambda _machine: None, options, context)
    answers = list(zip(due, readout.results))
    read = [(item, answer) for item, answer in answers if isinstance(answer, Reading)]
    _warn_of_spread(read, context)
    by_name = {machine.name: answer for machine, answer in answers}
    result = {
        "readings": [
            _as_result(machine, by_name.get(machine.name, _NOT_ASKED), kept[machine.name], now)
            for machine in found
            if kept[machine.name] or not isinstance(by_name[machine.name], TargetError)
        ],
        "sensors": [_as_sensors(machine, reading) for machine, reading in read],
        "authentication": readout.authentication,
    }
    errors = [error for machine, answer in answers for error in _errors(machine, answer)]
    return conclude(options, len(found), errors, result)


async def _read_machine(client: Client, known: Known, gather: frozenset[str]) -> Reading:
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
    return Reading(known, inlet, power, walk.vendor, tuple(failures))


def _known(extra: t.Mapping[str, t.Any], now: datetime.datetime) -> Known:
    """From the target's ``sensors``, as an earlier result gave them, or its NodeConfig's status."""
    status = extra.get("status")
    if status is None:
        given = extra.get("sensors") or {}
        return Known(
            inlet_uri=link(given.get("inlet_uri")),
            inlet_name=name_of(given.get("inlet_name")),
            power_uri=link(given.get("power_uri")),
            vendor=name_of(given.get("vendor")) or None,
        )
    sensors = member(status, "sensors")
    return Known(
        inlet_uri=link(member(sensors, "inletTemp", "uri")),
        inlet_name=name_of(member(sensors, "inletTemp", "name")),
        power_uri=link(member(sensors, "power", "uri")),
        vendor=name_of(member(sensors, "vendor")) or None,
        is_doubtful=_is_long_ago(member(status, "readings", "inletTemp", "time"), now),
    )


def _is_long_ago(moment: t.Any, now: datetime.datetime) -> bool:
    try:
        return now - parse_time(moment) > _DOUBT_AFTER
    except (InvalidInput, TypeError):
        return True


def _as_result(
    machine: Machine,
    answer: Reading | TargetError | None,
    kept: t.Mapping[str, Kept],
    now: datetime.datetime,
) -> Result:
    """What was read now, and in place of what was not asked for, what was read before."""
    if answer is None:
        return _as_fake(machine)
    known = _known(machine.extra, now)
    result = _as_read(machine, answer if isinstance(answer, Reading) else Reading(known))
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


def _as_fake(machine: Machine) -> Result:
    fake = {"inlet_celsius": FAKE_INLET_CELSIUS, "sensor_name": FAKE, "vendor": FAKE}
    empty = dict.fromkeys(("source_uri", "rule", "power_watts", "power_uri"))
    return {"name": machine.name, **fake, **empty}


def _as_read(machine: Machine, reading: Reading) -> Result:
    inlet, power = reading.inlet, reading.power
    unbelieved = [item.fields["uri"] for item in reading.failures if "uri" in item.fields]
    return {
        "name": machine.name,
        "inlet_celsius": inlet.temperature.celsius if inlet else None,
        "sensor_name": inlet.temperature.name if inlet else None,
        "source_uri": identity(inlet.temperature.uri) if inlet else None,
        "rule": inlet.rule if inlet else None,
        "power_watts": power.watts if power else None,
        "power_uri": identity(power.uri) if power else next(iter(unbelieved), None),
        "vendor": reading.vendor,
    }


def _as_sensors(machine: Machine, reading: Reading) -> Result:
    """To give back next time. What is known stays known while its sensor only pauses."""
    inlet, power, known = reading.inlet, reading.power, reading.known
    return {
        "name": machine.name,
        "inlet_uri": inlet.temperature.uri if inlet else known.inlet_uri or None,
        "inlet_name": inlet.temperature.name if inlet else known.inlet_name or None,
        "power_uri": power.uri if power else known.power_uri or None,
        "vendor": reading.vendor,
    }


def _errors(machine: Machine, answer: Reading | TargetError | None) -> list[TargetError]:
    if isinstance(answer, TargetError):
        return [answer]
    return [
        error_of(machine.name, machine.endpoint, failure)
        for failure in (answer.failures if answer else ())
    ]


def _warn_of_spread(read: t.Sequence[tuple[Machine, Reading]], context: Context) -> None:
    names = [
        machine.name
        for machine, reading in read
        if reading.inlet and reading.inlet.spread > NOTABLE_SPREAD_CELSIUS
    ]
    if names:
        shown = ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")
        context.warn(
            f"{len(names)} BMCs have several inlet sensors that differ by more than "
            f"{NOTABLE_SPREAD_CELSIUS:g} °C, the first in order is taken: {shown}"
        )
