# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings of former runs that are younger than their ``fetchInterval``.

Their sources are the readings document of the last observation, with the time of each reading, and
the status of the NodeConfig, which is written only after a reading moved.
"""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

from ..base import documents
from ..base.argspec import ArgumentSpec
from ..base.errors import InvalidInput
from ..base.fields.lenient import member, number
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from .poll import FAKE, PollTarget

# Sources of fresh values: read in this run, or younger than the fetchInterval.
FRESH_SOURCES = ("read", "kept")
# Path of a quantity in the status of a NodeConfig.
IN_STATUS = {
    "inlet_celsius": ("inletTemp", "celsius"),
    "delta_p_pascal": ("deltaP", "pascals"),
    "power_watts": ("power", "watts"),
}
# Smallest notable change of a quantity.
NOTABLE = {"inlet_celsius": 0.5, "delta_p_pascal": 1.0}

REFRESH = ArgumentSpec(
    {"previous": {"type": "path"}, "refresh": {"type": "bool", "default": False}}
)


class Kept(t.NamedTuple):
    """A value that is young enough, and its time of reading."""

    value: float
    time: datetime.datetime

    @property
    def shown_time(self) -> str:
        return format_time(self.time)


def kept_values(
    found: t.Sequence[PollTarget],
    quantities: t.Collection[str],
    previous: Object,
    refresh: bool,
    now: datetime.datetime,
) -> dict[str, dict[str, Kept]]:
    """Kept quantities by node; none with ``refresh``.

    ``previous`` are the readings of the last observation by node.
    """
    if refresh:
        return {target.name: {} for target in found}
    return {
        target.name: {
            quantity: kept
            for quantity in quantities
            for kept in [_kept(target, member(previous, target.name), quantity, now)]
            if kept is not None
        }
        for target in found
    }


def _kept(target: PollTarget, entry: t.Any, quantity: str, now: datetime.datetime) -> Kept | None:
    # Reading an endpoint of type Fake is free.
    if target.interval is None or target.problem is not None or target.kind == FAKE:
        return None
    youngest = youngest_value(entry, target.extra.get("status"), quantity, now)
    if youngest is None or (now - youngest.time).total_seconds() >= target.interval:
        return None
    return youngest


def youngest_value(
    entry: t.Any, status: t.Any, quantity: str, now: datetime.datetime
) -> Kept | None:
    """The last value of a node, from the readings document or its NodeConfig's status."""
    part, unit = IN_STATUS[quantity]
    written = member(status, "readings", part)
    candidates = (
        last_value(entry, quantity, now),
        _value(member(written, unit), member(written, "time"), now),
    )
    return max((item for item in candidates if item is not None), key=_time, default=None)


def _time(kept: Kept) -> datetime.datetime:
    return kept.time


def last_value(entry: t.Any, quantity: str, now: datetime.datetime) -> Kept | None:
    """The value of a node in the readings document, unless it is a fallback."""
    if member(entry, "source", quantity) == "fallback":
        return None
    return _value(member(entry, quantity), member(entry, "times", quantity), now)


def _value(given: t.Any, moment: t.Any, now: datetime.datetime) -> Kept | None:
    """The value, or None for an invalid value or a time in the future."""
    value = number(given)
    if value is None or moment is None:
        return None
    try:
        read_at = parse_time(moment)
    except InvalidInput:
        return None
    return Kept(value, read_at) if read_at <= now else None


def previous_readings(path: str | None) -> Object:
    """Readings of the last observation; empty without one or with an unusable file."""
    if path is None or not Path(path).exists():
        return {}
    try:
        return t.cast("Object", documents.load(path, "readings")["readings"])
    except InvalidInput:
        return {}
