# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings of former runs that are younger than their ``fetchInterval``.

Their sources are the readings of the last observation, with the time of each value, and the status
of the NodeConfig, which is written only after a reading moved.
"""

from __future__ import annotations

import datetime
import typing as t

from ..base import documents
from ..base.argspec import ArgumentSpec
from ..base.fields.lenient import member, number
from .poll import FAKE, PollTarget
from .readings import Reading, Readings, Value, moment_of, readings_of

# Path of a quantity in the status of a NodeConfig.
IN_STATUS = {
    "inlet_celsius": ("inletTemp", "celsius"),
    "delta_p_pascal": ("deltaP", "pascals"),
    "power_watts": ("power", "watts"),
}

REFRESH = ArgumentSpec(
    {"previous": {"type": "path"}, "refresh": {"type": "bool", "default": False}}
)
_NOTHING = Reading()


def kept_values(
    found: t.Sequence[PollTarget],
    quantities: t.Collection[str],
    previous: Readings,
    refresh: bool,
    now: datetime.datetime,
) -> dict[str, dict[str, Value]]:
    """Kept quantities by node; none with ``refresh``.

    ``previous`` are the readings of the last observation by node.
    """
    if refresh:
        return {target.name: {} for target in found}
    return {
        target.name: {
            quantity: kept._replace(source="kept")
            for quantity in quantities
            for kept in [_kept(target, previous.get(target.name, _NOTHING), quantity, now)]
            if kept is not None
        }
        for target in found
    }


def _kept(target: PollTarget, last: Reading, quantity: str, now: datetime.datetime) -> Value | None:
    # Reading an endpoint of type Fake is free.
    if target.interval is None or target.problem is not None or target.kind == FAKE:
        return None
    youngest = youngest_value(last, target.extra.get("status"), quantity, now)
    if youngest is None or youngest.age_seconds(now) >= target.interval:
        return None
    return youngest


def youngest_value(
    last: Reading, status: t.Any, quantity: str, now: datetime.datetime
) -> Value | None:
    """The last value of a node, of the last observation or of its NodeConfig's status.

    Fallbacks and values of the future do not count.
    """
    part, unit = IN_STATUS[quantity]
    written = member(status, "readings", part)
    value, moment = number(member(written, unit)), moment_of(member(written, "time"))
    found = [last.values[quantity]] if quantity in last.values else []
    if value is not None and moment is not None:
        found.append(Value(value, moment))
    real = [one for one in found if one.source != "fallback" and one.time <= now]
    return max(real, key=lambda one: one.time, default=None)


def previous_readings(path: str | None) -> dict[str, Reading]:
    """Readings of the last observation; none without one or with an unusable file."""
    return readings_of(documents.last(path, "readings"))
