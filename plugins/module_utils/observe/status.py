# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The status of a NodeConfig after an observation, if it is new."""

from __future__ import annotations

import datetime
import math
import re
import typing as t
import zlib
from dataclasses import dataclass, field

from ..base.errors import InvalidInput, TargetError
from ..base.fields.lenient import count, member, number
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..kube.resource.conditions import Condition, are_stored, condition
from ..nodeconfig.freshness import IN_STATUS
from ..nodeconfig.readings import FRESH_SOURCES, NOTABLE, Reading, Value
from ..nodeconfig.targets import NodeTarget

# Limits of the CRD of NodeConfigs; a longer text would make the whole status invalid.
_MAX_URI_LENGTH = 2048
_MAX_NAME_LENGTH = 256
_MAX_FAILURES = 2**31 - 1
_AIR = {"inlet_celsius": "inlet temperature", "delta_p_pascal": "differential pressure"}
_SYSTEM_TEXTS = ("manufacturer", "model", "processor")
_SYSTEM_COUNTS = ("sockets", "cores")
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")

# A reading is written if it moved by NOTABLE (relative for power), …
_NOTABLE_SHARE = {"power_watts": 0.02}
# … or if the stored one has this age, for some nodes down to half of it.
HEARTBEAT_SECONDS = 300.0


@dataclass
class MergedNode:
    """Values and failures of one node, while they are merged.

    ``needed`` are the quantities with a source in the NodeConfig. Without a power model, the power
    draw of a BMC suffices in place of its inlet temperature. ``failing`` are pairs of endpoint
    (``bmc`` or ``pressure``) and reason.
    """

    node: str
    needed: frozenset[str] = frozenset({"inlet_celsius"})
    has_power_model: bool = True
    system: Object = field(default_factory=dict)
    values: dict[str, Value] = field(default_factory=dict)
    errors: list[TargetError] = field(default_factory=list)
    failing: set[tuple[str, str]] = field(default_factory=set)

    def fail(self, endpoint: str, error: TargetError) -> None:
        self.errors.append(error)
        self.failing.add((endpoint, error.reason))

    @property
    def fresh(self) -> set[str]:
        """The quantities with fresh readings."""
        return {name for name, value in self.values.items() if value.source in FRESH_SOURCES}

    @property
    def is_fresh(self) -> bool:
        """Whether all configured quantities have fresh readings."""
        fresh = self.fresh
        if "power_watts" in fresh and not self.has_power_model:
            fresh.add("inlet_celsius")
        return self.needed <= fresh

    @property
    def reading(self) -> Reading:
        return Reading(self.values, self.system)


def status_of(
    target: NodeTarget,
    node: MergedNode,
    details: Object,
    now: datetime.datetime,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
) -> dict[str, t.Any] | None:
    """A manifest with the status to write, or None if the stored status is equal.

    ``details`` has ``sensors`` and ``authentication`` from redfish_thermal_info. A stored reading
    is written again after ``heartbeat_seconds``, for some nodes after half of that.
    """
    stored = target.status
    longest_age = _longest_age_seconds(target.name, heartbeat_seconds)
    parts = {
        "conditions": [_ready(node)],
        "readings": _readings(member(stored, "readings") or {}, node, now, longest_age),
        "sensors": _sensors(details.get("sensors")) or _stored_sensors(stored.get("sensors") or {}),
        "authentication": _authentication(details.get("authentication"), stored),
    }
    status = {name: part for name, part in parts.items() if part}
    if _says_the_same(stored, status):
        return None
    return {**target.manifest_head, "status": status}


def _ready(node: MergedNode) -> Condition:
    if node.is_fresh:
        return condition("Ready", "True", "Read", _was_read(node))
    first, detail = "missing", "Not read."
    if node.errors:
        first, detail = node.errors[0].reason, node.errors[0].detail
    reason = "".join(word.capitalize() for word in first.split("_"))
    reason = reason if _REASON.fullmatch(reason) else "NotRead"
    return condition("Ready", "False", reason, detail)


def _was_read(node: MergedNode) -> str:
    air = [words for name, words in _AIR.items() if name in node.fresh]
    names = " and ".join(air) or "power"
    return f"{names[0].upper()}{names[1:]} {'were' if len(air) > 1 else 'was'} read."


def _longest_age_seconds(node: str, heartbeat_seconds: float) -> float:
    """Age at which a stored reading of the node is rewritten, always the same for the same name.

    The first run of a fleet writes all statuses, and one age for all nodes would write them all in
    one run again and again.
    """
    share = zlib.crc32(node.encode()) / 0xFFFFFFFF
    return heartbeat_seconds * (1 - share / 2)


def _readings(
    stored: Object, node: MergedNode, now: datetime.datetime, longest_age: float
) -> dict[str, dict[str, t.Any]]:
    result: dict[str, dict[str, t.Any]] = {}
    for quantity, (part, unit) in IN_STATUS.items():
        written = member(stored, part)
        new = node.values.get(quantity)
        if new is None or new.source != "read" or not math.isfinite(new.value):
            # A kept value is already stored, or did not move enough.
            if isinstance(written, dict) and unit in written and written.get("time"):
                result[part] = {unit: written[unit], "time": written["time"]}
            continue
        value = round(new.value, 3)
        if isinstance(written, dict) and not (
            _is_notable(quantity, value, written.get(unit)) or _is_old(written, now, longest_age)
        ):
            result[part] = {unit: written[unit], "time": written["time"]}
        else:
            result[part] = {unit: value, "time": format_time(new.time)}
    return result


def _is_old(written: Object, now: datetime.datetime, longest_age: float) -> bool:
    try:
        age = (now - parse_time(written.get("time") or "")).total_seconds()
    except InvalidInput:
        return True
    return not 0 <= age <= longest_age


def _is_notable(quantity: str, value: float, written: t.Any) -> bool:
    before = number(written)
    if before is None:
        return True
    threshold = NOTABLE.get(quantity)
    if threshold is None:
        threshold = _NOTABLE_SHARE[quantity] * abs(before)
    return abs(value - before) >= threshold


def _sensors(entry: Object | None) -> dict[str, t.Any]:
    """``status.sensors`` from the entry of the Redfish modules."""
    if entry is None:
        return {}
    inlet, power = (
        _fitting(entry.get(name), _MAX_URI_LENGTH) for name in ("inlet_uri", "power_uri")
    )
    name, vendor = (
        _fitting(entry.get(name), _MAX_NAME_LENGTH) for name in ("inlet_name", "vendor")
    )
    sensors = {
        "inletTemp": {"uri": inlet, "name": name} if inlet else {},
        "power": {"uri": power} if power else {},
        "vendor": vendor,
        "system": _system(entry.get("system")),
    }
    return {name: value for name, value in sensors.items() if value}


def _system(given: t.Any) -> dict[str, t.Any]:
    """Identity of the server, without fields that the CRD would refuse."""
    texts = {name: _fitting(member(given, name), _MAX_NAME_LENGTH) for name in _SYSTEM_TEXTS}
    counts = {name: count(member(given, name)) for name in _SYSTEM_COUNTS}
    return {name: value for name, value in {**texts, **counts}.items() if value}


def _stored_sensors(stored: Object) -> dict[str, t.Any]:
    """Stored sensors with valid fields."""
    inlet, power = stored.get("inletTemp") or {}, stored.get("power") or {}
    return _sensors(
        {
            "inlet_uri": inlet.get("uri"),
            "inlet_name": inlet.get("name"),
            "power_uri": power.get("uri"),
            "vendor": stored.get("vendor"),
            "system": stored.get("system"),
        }
    )


def _fitting(text: t.Any, longest: int) -> str:
    """A text of a BMC; empty if too long, because a part of it would match nothing."""
    usable = isinstance(text, str) and len(text) <= longest and text.isprintable()
    return text if usable else ""


def _authentication(entry: Object | None, stored: Object) -> dict[str, t.Any]:
    """State of refused accounts; unchanged if the BMC was not read."""
    if entry is None:
        kept = stored.get("authentication")
        kept = kept if isinstance(kept, dict) else {}
        entry = {
            "failures": kept.get("failures"),
            "last_attempt": kept.get("lastAttempt"),
            "secret_resource_version": kept.get("secretResourceVersion"),
        }
    if not entry.get("failures") or not entry.get("last_attempt"):
        return {}
    version = entry.get("secret_resource_version") or ""
    return {
        "failures": max(0, min(int(entry["failures"]), _MAX_FAILURES)),
        "lastAttempt": entry["last_attempt"],
        "secretResourceVersion": version[:_MAX_NAME_LENGTH],
    }


def _says_the_same(stored: Object, status: Object) -> bool:
    """Whether the stored status is equal, apart from conditions of other writers."""
    parts = ("readings", "sensors", "authentication")
    return are_stored(stored, status["conditions"]) and all(
        (stored.get(part) or {}) == (status.get(part) or {}) for part in parts
    )
