# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings of machines as values: of one poll, and of one observation.

Values pass from step to step. Their documents are the readings document and the results of modules
that poll machines.
"""

from __future__ import annotations

import datetime
import typing as t
from dataclasses import dataclass, field

from ..base.errors import InvalidInput, TargetError
from ..base.fields.lenient import member, number, objects, text
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from .models import NodeModels, models_of

QUANTITIES = ("inlet_celsius", "delta_p_pascal", "power_watts")
# Sources of fresh values: read in this run, or younger than the fetchInterval.
FRESH_SOURCES = ("read", "kept")
# Smallest notable change of a quantity of the air.
NOTABLE = {"inlet_celsius": 0.5, "delta_p_pascal": 1.0}
# Time of a value in a document without one.
_LONG_AGO = datetime.datetime.fromtimestamp(0, datetime.timezone.utc)


class Value(t.NamedTuple):
    """One quantity of one node.

    ``source`` is ``read``, ``kept`` (younger than the fetchInterval), ``last`` (of a former run, in
    place of a missing value) or ``fallback`` (of the NodeConfig).
    """

    value: float
    time: datetime.datetime
    source: str = "read"

    def age_seconds(self, now: datetime.datetime) -> float:
        return (now - self.time).total_seconds()


Values = t.Mapping[str, Value]


@dataclass(frozen=True)
class Reading:
    """The quantities of one node, and the identity of its server."""

    values: Values = field(default_factory=dict)
    system: Object = field(default_factory=dict)

    def value(self, quantity: str) -> float | None:
        found = self.values.get(quantity)
        return None if found is None else found.value

    def fresh(self, quantity: str) -> float | None:
        """The value, if it was read in this run or is younger than the fetchInterval."""
        found = self.values.get(quantity)
        return found.value if found is not None and found.source in FRESH_SOURCES else None

    @property
    def is_stale(self) -> bool:
        return any(value.source == "last" for value in self.values.values())

    def as_document(self, now: datetime.datetime) -> dict[str, t.Any]:
        """The entry in readings.json."""
        times = {name: value.time for name, value in self.values.items()}
        return {
            **{name: self.value(name) for name in QUANTITIES},
            "time": format_time(min(times.values(), default=now)),
            "times": {name: format_time(moment) for name, moment in times.items()},
            "source": {name: value.source for name, value in self.values.items()},
            "stale": self.is_stale,
            **({"system": dict(self.system)} if self.system else {}),
        }

    @classmethod
    def from_document(cls, entry: t.Any) -> Reading:
        """The reading of an entry, without unusable values."""
        values = {
            name: Value(value, moment_of(member(entry, "times", name)) or _LONG_AGO, source)
            for name in QUANTITIES
            for value in [number(member(entry, name))]
            for source in [text(member(entry, "source", name))]
            if value is not None
        }
        return cls(values, mapping_of(member(entry, "system")))


Readings = t.Mapping[str, Reading]


def fresh_values(readings: Readings, quantity: str) -> dict[str, float]:
    """The fresh values of a quantity by node."""
    values = {name: reading.fresh(quantity) for name, reading in readings.items()}
    return {name: value for name, value in values.items() if value is not None}


def readings_of(document: Object | None) -> dict[str, Reading]:
    """The readings of a readings document by node; none without one."""
    entries = mapping_of(member(document, "readings"))
    return {name: Reading.from_document(entry) for name, entry in entries.items()}


@dataclass(frozen=True)
class Answers:
    """The answers of one poll, by node. ``failure`` is the message of a poll without answers."""

    values: t.Mapping[str, Values] = field(default_factory=dict)
    errors: t.Sequence[TargetError] = ()
    sensors: t.Mapping[str, Object] = field(default_factory=dict)
    authentication: t.Mapping[str, Object] = field(default_factory=dict)
    models: t.Sequence[NodeModels] = ()
    failure: str | None = None

    @classmethod
    def from_result(
        cls, result: Object, quantities: t.Mapping[str, str], now: datetime.datetime
    ) -> Answers:
        """The answers in a result of a module that polls machines, without unusable entries.

        ``quantities`` are by their name in the result. A failed module has neither ``readings`` nor
        ``models``.
        """
        has_failed = "readings" not in result and "models" not in result
        return cls(
            {
                name: {
                    quantity: value
                    for given, quantity in quantities.items()
                    for value in [_value_of(entry, given, now)]
                    if value is not None
                }
                for name, entry in _by_name(result.get("readings")).items()
            },
            errors_of(result.get("errors")),
            _by_name(result.get("sensors")),
            _by_name(result.get("authentication")),
            models_of(result.get("models")),
            text(result.get("msg")) if has_failed else None,
        )


def errors_of(given: t.Any) -> list[TargetError]:
    """Errors of targets from a document or a result."""
    return [_error(entry) for entry in objects(given)]


def _error(entry: Object) -> TargetError:
    # A document of another version may have a reason that this one does not know.
    reason: t.Any = text(entry.get("reason"))
    name, endpoint, detail = (text(entry.get(part)) for part in ("name", "endpoint", "detail"))
    return TargetError(name, endpoint, reason, detail)


def moment_of(given: t.Any) -> datetime.datetime | None:
    """The time in a document; None for an unusable one."""
    try:
        return None if given is None else parse_time(given)
    except InvalidInput:
        return None


def mapping_of(given: t.Any) -> Object:
    return given if isinstance(given, dict) else {}


def _value_of(entry: Object, given: str, now: datetime.datetime) -> Value | None:
    value, kept = number(entry.get(given)), member(entry, "kept", given)
    if kept is None:
        return None if value is None else Value(value, now)
    moment = moment_of(kept)
    return None if value is None or moment is None else Value(value, moment, "kept")


def _by_name(given: t.Any) -> dict[str, Object]:
    entries = objects(given)
    return {entry["name"]: entry for entry in entries if isinstance(entry.get("name"), str)}
