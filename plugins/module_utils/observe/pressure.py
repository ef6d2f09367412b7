# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Differential pressure of many nodes, the work of differential_pressure_info.

Source: the HTTP API of WAO's differential pressure servers. One server usually serves all nodes, so
it gets few concurrent requests and only one per URL.
"""

from __future__ import annotations

import datetime
import typing as t
import urllib.parse
from dataclasses import dataclass, replace

from ..base.context import Context, Parameters, Result
from ..base.errors import TargetError, TargetFailure, TargetReason
from ..base.fields.lenient import number, objects, text
from ..base.json_types import Object
from ..base.texts import shown
from ..base.units import format_time
from ..fleet.credentials import SecretSource
from ..fleet.urls import redacted
from ..fleet.visits import Client
from ..nodeconfig.freshness import REFRESH, kept_values, previous_readings
from ..nodeconfig.nodeconfig import FAKE_DELTA_P_PASCAL
from ..nodeconfig.poll import FAKE, Job, PollTarget, conclude, given_targets, poll, reading_spec
from ..nodeconfig.readings import Answers, Readings, Value

KIND = "DifferentialPressureAPI"
REQUESTS_AT_ONCE = 4

# Filters and aisles are far below this limit, the absolute air pressure far above it.
MAX_PASCALS = 10_000.0

# Keys of a sensor look-up with their paths; the first given key counts.
_LOOKUPS = {
    "sensor": "/api/sensor/",
    "node_name": "/api/sensor/by_nodename/",
    "node_ip": "/api/sensor/by_nodeaddress/",
}
_CODES: dict[int, TargetReason] = {
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    429: "throttled",
}

SPEC = reading_spec(**{name: {"type": "str"} for name in _LOOKUPS}).merge(REFRESH)


@dataclass(frozen=True)
class Pressure:
    """One answer; ``pascals`` is the differential pressure across the node."""

    pascals: float
    sensor_id: str | None = None
    temperature_celsius: float | None = None


def read_pressure(parameters: Parameters, context: Context = Context()) -> Result:
    """Read the pressure of every node; see the module differential_pressure_info.

    Raises InvalidInput, and WattwiseError with all results if too few targets succeeded.
    """
    options = SPEC.complete(parameters)
    found = given_targets(options, KIND, "delta_p", own_options=tuple(_LOOKUPS))
    answers = read(found, options, context, previous_readings(options["previous"]))
    return conclude(options, len(found), answers.errors, answers.as_result())


@dataclass(frozen=True)
class PressureAnswers:
    """The pressure of each node that was read, the kept values, and the errors."""

    found: t.Sequence[PollTarget]
    read: t.Mapping[str, Pressure]
    kept: t.Mapping[str, Value]
    errors: t.Sequence[TargetError]
    now: datetime.datetime

    def answers(self) -> Answers:
        """The values for an observation."""
        read = {name: Value(pressure.pascals, self.now) for name, pressure in self.read.items()}
        return Answers(
            {name: {"delta_p_pascal": value} for name, value in {**read, **self.kept}.items()},
            self.errors,
        )

    def as_result(self) -> Result:
        """The result of differential_pressure_info, without errors."""
        kept = {name: Pressure(value.value) for name, value in self.kept.items()}
        both, names = {**self.read, **kept}, [target.name for target in self.found]
        return {"readings": [self._as_result(name, both[name]) for name in names if name in both]}

    def _as_result(self, name: str, pressure: Pressure) -> Result:
        kept = self.kept.get(name)
        return {
            "name": name,
            "pascals": pressure.pascals,
            "sensor_id": pressure.sensor_id,
            "temperature_celsius": pressure.temperature_celsius,
            **({"kept": {"pascals": format_time(kept.time)}} if kept is not None else {}),
        }


def read(
    found: t.Sequence[PollTarget],
    options: Parameters,
    context: Context,
    previous: Readings,
    secrets: SecretSource | None = None,
) -> PressureAnswers:
    """Read the pressure of every node; ``previous`` are the last readings. Raises InvalidInput."""
    given = kept_values(found, ["delta_p_pascal"], previous, options["refresh"], context.now())
    kept = {name: values["delta_p_pascal"] for name, values in given.items() if values}
    # Jobs with the same URL share the answer to the first one.
    due = [target for target in found if target.name not in kept]
    first = {_url(target): target for target in reversed(due)}
    asked = [target for target in due if first[_url(target)] is target]
    fake = Pressure(FAKE_DELTA_P_PASCAL, FAKE)
    jobs = [Job(target, KIND, _work, fake) for target in asked]
    polled = poll(jobs, options, context, secrets, per_host=REQUESTS_AT_ONCE)
    answers = dict(zip(map(_url, asked), polled.results))
    read_now: dict[str, Pressure] = {}
    errors: list[TargetError] = []
    for target in due:
        answer = answers[_url(target)]
        if isinstance(answer, TargetError):
            endpoint = redacted(target.endpoint)
            errors.append(replace(answer, name=target.name, endpoint=endpoint))
        else:
            read_now[target.name] = answer
    return PressureAnswers(found, read_now, kept, errors, context.now())


def _url(target: PollTarget) -> tuple[t.Any, ...]:
    """Key of the request; endpoints with equal keys share it."""
    tls = (target.tls.get(name) for name in ("validate_certs", "ca_path", "tls_fingerprint"))
    shared = (target.endpoint, target.named, tuple(map(str, tls)))
    alone = target.kind != KIND or target.problem is not None
    return (*shared, target.name if alone else _path(target.name, target.extra))


def _path(name: str, extra: t.Mapping[str, t.Any]) -> str:
    """Path of the look-up, by node name if no key is given."""
    for option, path in _LOOKUPS.items():
        if extra.get(option):
            return path + _quoted(extra[option])
    return _LOOKUPS["node_name"] + _quoted(name)


def _quoted(name: t.Any) -> str:
    return urllib.parse.quote(str(name), safe="", errors="replace")


async def _work(client: Client, target: PollTarget) -> Pressure:
    path = _path(target.name, target.extra)
    body = (await client.get_json(path)).body
    if not isinstance(body, dict):
        raise TargetFailure("malformed", f"the answer to {path} is not a JSON object")
    _require_success(body, path)
    return _pressure(body, path)


def _require_success(body: Object, path: str) -> None:
    """Check the code in the body, because the API answers HTTP 200 for errors too."""
    code = body.get("code", 200)
    status = number(code)
    if status == 200:
        return
    reason = _CODES.get(int(status), "server_error") if status is not None else "malformed"
    raise TargetFailure(
        reason, f"the answer to {path} has the code {shown(code)}; check the pressure server's log"
    )


def _pressure(body: Object, path: str) -> Pressure:
    """Reading of the first sensor. Raises TargetFailure if it is missing or implausible."""
    if not isinstance(body.get("sensor"), list):
        raise TargetFailure("malformed", f"the answer to {path} has no list `sensor`")
    entries = objects(body["sensor"])
    if not entries:
        raise TargetFailure(
            "no_sensor",
            f"the server knows no sensor for {path}; register it there, or correct the name",
        )
    sensor = entries[0]
    identifier = _identifier(sensor.get("sensorid"))
    pascals = number(sensor.get("pressure"))
    if pascals is None:
        raise TargetFailure(
            "no_sensor",
            f"the sensor {identifier!r} of {path} gives no pressure "
            f"({shown(sensor.get('pressure'))}); check whether it is connected",
        )
    if abs(pascals) > MAX_PASCALS:
        raise TargetFailure(
            "implausible",
            f"the sensor {identifier!r} of {path} gives {pascals:g} Pa, more than "
            f"{MAX_PASCALS:g} Pa; check the sensor",
        )
    return Pressure(pascals, identifier, number(sensor.get("temperature")))


def _identifier(given: t.Any) -> str | None:
    """Identifier of a sensor, which may be a number."""
    is_number = isinstance(given, int) and not isinstance(given, bool)
    return text(str(given) if is_number else given) or None
