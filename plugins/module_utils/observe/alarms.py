# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Alarms of a fleet from statuses in the cluster, with events when they begin and end.

The statuses of NodeConfigs and PowerFleets are the source, so that no machine is read again.
"""

from __future__ import annotations

import datetime
import math
import typing as t
from dataclasses import dataclass, field
from types import MappingProxyType

from ..base.argspec import KUBERNETES, ArgumentSpec
from ..base.boundary import shown, shown_text
from ..base.context import Parameters, utc_now
from ..base.errors import InvalidInput, WattwiseError
from ..base.fields.lenient import member, number, objects
from ..base.units import format_time, parse_time
from ..kube.client import Kube
from ..kube.source import read_source
from ..nodeconfig import nodeconfig
from ..nodeconfig.nodeconfig import NODE_CONFIGS

AlarmName = t.Literal[
    "hot_inlet", "fleet_watts", "lost_machine", "model_drift", "pods_waiting", "cluster_unreachable"
]

# ASHRAE's classes A1 to A4 recommend inlet air of 18 to 27 °C.
_HOT_CELSIUS = 27.0
# Hysteresis: an alarm ends this far below its limit, so a value at the limit raises one alarm.
_CLEAR_CELSIUS = 1.0
_CLEAR_SHARE = 0.05
_NUMBERS = (
    *("hot_inlet_celsius", "fleet_watts", "model_drift_percent"),
    *("max_age", "waiting_seconds", "interval"),
)
_MIN_INTERVAL = 5.0
_POWER_FLEETS = "/apis/wattwise.github.io/v1alpha1/powerfleets"
_WAITING = {"fieldSelector": "spec.nodeName=,status.phase=Pending"}

SPEC = KUBERNETES.merge(
    ArgumentSpec(
        {
            "hot_inlet_celsius": {"type": "float", "default": _HOT_CELSIUS},
            "fleet_watts": {"type": "float"},
            "model_drift_percent": {"type": "float", "default": 20.0},
            "max_age": {"type": "float", "default": 900.0},
            "waiting_seconds": {"type": "float", "default": 300.0},
            "scheduler_name": {"type": "str", "default": "wattwise"},
            "interval": {"type": "float", "default": 30.0},
        }
    )
)


@dataclass(frozen=True)
class Alarm:
    """A condition that a person or a rulebook should act on.

    ``subject`` is a node, a PowerFleet or empty for the whole cluster. ``value`` and ``limit`` are
    in the unit of the alarm: °C, watts, per cent, or a number of pods.
    """

    name: AlarmName
    subject: str = ""
    value: float | None = None
    limit: float | None = None
    message: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """Identity of the alarm, independent of its value."""
        return self.name, self.subject

    def as_event(self, state: str, now: datetime.datetime) -> dict[str, t.Any]:
        """The event for rulebooks; ``state`` is ``raised`` or ``cleared``."""
        body = {"alarm": self.name, "state": state, "time": format_time(now)}
        values = {
            "subject": self.subject or None,
            "value": self.value,
            "limit": self.limit,
            "message": self.message or None,
        }
        return {**body, **{name: value for name, value in values.items() if value is not None}}


def complete(parameters: Parameters) -> dict[str, t.Any]:
    """The options with their defaults; numbers may be texts, because rulebooks pass texts.

    Raises InvalidInput.
    """
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    options = SPEC.complete(given)
    for name in _NUMBERS:
        if options[name] is None:
            continue
        try:
            options[name] = float(options[name])
        except (TypeError, ValueError) as error:
            raise InvalidInput(f"{name}: {shown(options[name])} is not a number") from error
        if not math.isfinite(options[name]):
            raise InvalidInput(f"{name}: {options[name]} is not a finite number")
        if name != "hot_inlet_celsius" and not options[name] > 0:
            raise InvalidInput(f"{name}: {options[name]:g} is not above 0")
    if options["interval"] < _MIN_INTERVAL:
        raise InvalidInput(
            f"interval: {options['interval']:g} s is too short; give {_MIN_INTERVAL:g} or more"
        )
    return options


Raised = t.Mapping[tuple[str, str], Alarm]


def alarms_of(
    node_configs: t.Sequence[t.Any],
    power_fleets: t.Sequence[t.Any],
    waiting_pods: t.Sequence[t.Any],
    options: Parameters,
    now: datetime.datetime,
    raised: Raised = MappingProxyType({}),
) -> list[Alarm]:
    """The present alarms; those in ``raised`` stay until the value is clear of its limit.

    A reading older than ``max_age`` raises no alarm and ends none.
    """
    by_node = nodeconfig.effective(node_configs).by_node
    fresh_watts = old_watts = 0.0
    found: list[Alarm] = []
    for node in sorted(by_node):
        status = member(by_node[node], "status")
        power = member(status, "readings", "power")
        watts = number(member(power, "watts")) or 0.0
        if _is_fresh(power, options, now):
            fresh_watts += watts
        else:
            old_watts += watts
        inlet = member(status, "readings", "inletTemp")
        celsius = number(member(inlet, "celsius")) if _is_fresh(inlet, options, now) else None
        found += _hot(node, celsius, options, raised)
        found += _lost(node, status)
    found += _power(fresh_watts, old_watts, options, raised)
    for fleet in power_fleets:
        found += _drift(fleet, options, raised)
    found += _waiting(waiting_pods, options, now)
    return found


def _is_fresh(reading: t.Any, options: Parameters, now: datetime.datetime) -> bool:
    try:
        time = parse_time(str(member(reading, "time")), "time")
    except InvalidInput:
        return False
    return (now - time).total_seconds() <= float(options["max_age"])


def _is_above(
    value: float, limit: float, margin: float, key: tuple[str, str], raised: Raised
) -> bool:
    return value > (limit - margin if key in raised else limit)


def _hot(
    node: str, celsius: float | None, options: Parameters, raised: Raised
) -> t.Iterator[Alarm]:
    limit, key = options["hot_inlet_celsius"], ("hot_inlet", node)
    if celsius is None:
        if key in raised:
            yield raised[key]
    elif _is_above(celsius, limit, _CLEAR_CELSIUS, key, raised):
        yield Alarm("hot_inlet", node, celsius, limit)


def _lost(node: str, status: t.Any) -> t.Iterator[Alarm]:
    for condition in objects(member(status, "conditions")):
        if condition.get("type") == "Ready" and condition.get("status") == "False":
            yield Alarm(
                "lost_machine", node, message=shown_text(str(condition.get("message") or ""))
            )


def _power(
    fresh_watts: float, old_watts: float, options: Parameters, raised: Raised
) -> t.Iterator[Alarm]:
    """The last power readings of silent machines keep an alarm raised, but raise none."""
    limit, key = options["fleet_watts"], ("fleet_watts", "")
    if limit is None:
        return
    watts = fresh_watts + (old_watts if key in raised else 0.0)
    if _is_above(watts, limit, limit * _CLEAR_SHARE, key, raised):
        yield Alarm("fleet_watts", "", round(watts, 1), limit)


def _drift(fleet: t.Any, options: Parameters, raised: Raised) -> t.Iterator[Alarm]:
    metadata = member(fleet, "metadata")
    name = f"{member(metadata, 'namespace')}/{member(metadata, 'name')}"
    watts = member(fleet, "status", "watts")
    measured, predicted = (number(member(watts, key)) for key in ("measured", "predicted"))
    if not measured or predicted is None:
        return
    limit = options["model_drift_percent"]
    drift = abs(predicted - measured) / measured * 100.0
    if _is_above(drift, limit, limit * _CLEAR_SHARE, ("model_drift", name), raised):
        yield Alarm("model_drift", name, round(drift, 1), limit)


def _trimmed(pod: t.Any) -> dict[str, t.Any]:
    """Fields of a waiting pod for ``alarms_of``."""
    return {
        "metadata": {"creationTimestamp": member(pod, "metadata", "creationTimestamp")},
        "spec": {"schedulerName": member(pod, "spec", "schedulerName")},
    }


def _waiting(
    pods: t.Sequence[t.Any], options: Parameters, now: datetime.datetime
) -> t.Iterator[Alarm]:
    limit = options["waiting_seconds"]
    late = 0
    for pod in pods:
        if member(pod, "spec", "schedulerName") != options["scheduler_name"]:
            continue
        created = member(pod, "metadata", "creationTimestamp")
        try:
            age = (now - parse_time(str(created), "creationTimestamp")).total_seconds()
        except InvalidInput:
            continue
        late += age > limit
    if late:
        yield Alarm("pods_waiting", "", float(late), message=f"longer than {limit:g} s")


@dataclass
class AlarmWatch:
    """The alarms of the last check, and the events since."""

    options: Parameters
    now: t.Callable[[], datetime.datetime] = utc_now
    _raised: dict[tuple[str, str], Alarm] = field(default_factory=dict)
    _kube: Kube | None = None

    @classmethod
    def of(cls, parameters: Parameters) -> AlarmWatch:
        """A new watch. Raises InvalidInput."""
        return cls(complete(parameters))

    def look(self) -> list[dict[str, t.Any]]:
        """The events since the last check.

        A cluster without an answer is a separate alarm, and ends no other.
        """
        try:
            present = self._read()
        except WattwiseError as error:
            # The next check reads the kubeconfig again.
            self._kube = None
            lost = Alarm("cluster_unreachable", message=shown_text(str(error)))
            present = [*self._raised.values(), lost]
        current = {alarm.key: alarm for alarm in present}
        now = self.now()
        events = [
            alarm.as_event("raised", now)
            for key, alarm in current.items()
            if key not in self._raised
        ]
        events += [
            alarm.as_event("cleared", now)
            for key, alarm in self._raised.items()
            if key not in current
        ]
        self._raised = current
        return events

    def _read(self) -> list[Alarm]:
        if self._kube is None:
            self._kube = Kube.connect(self.options)
        kube = self._kube
        configs, _left_out = read_source(kube, NODE_CONFIGS, None)
        fleets = (kube.find(_POWER_FLEETS) or {}).get("items") or []
        waiting = kube.list("/api/v1/pods", _WAITING, _trimmed)
        return alarms_of(configs, fleets, waiting, self.options, self.now(), self._raised)
