# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings of former runs: which are younger than their ``fetchInterval`` and need no new one.

They stand in the readings document of the last observation, which has each with its own time, and
in the status of the NodeConfig, which is written only when a reading moved.
"""

from __future__ import annotations

import datetime
import typing as t
from pathlib import Path

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import member, number
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import (
    format_time,
    parse_time,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.poll import FAKE, PollTarget

Object = t.Mapping[str, t.Any]

# Read in this run, or kept because its fetchInterval is not over.
FRESH_SOURCES = ("read", "kept")
# Where a quantity stands in the status of a NodeConfig.
IN_STATUS = {
    "inlet_celsius": ("inletTemp", "celsius"),
    "delta_p_pascal": ("deltaP", "pascals"),
    "power_watts": ("power", "watts"),
}
# By how much a quantity must move to count as another value.
NOTABLE = {"inlet_celsius": 0.5, "delta_p_pascal": 1.0}

REFRESH = ArgumentSpec(
    {"previous": {"type": "path"}, "refresh": {"type": "bool", "default": False}}
)


class Kept(t.NamedTuple):
    """A value that is young enough, and when it was read."""

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
    """By node, those quantities that need not be read; none at all with ``refresh``.

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
    # An endpoint of type Fake costs nothing to read.
    if target.interval is None or target.problem is not None or target.kind == FAKE:
        return None
    youngest = youngest_value(entry, target.extra.get("status"), quantity, now)
    if youngest is None or (now - youngest.time).total_seconds() >= target.interval:
        return None
    return youngest


def youngest_value(
    entry: t.Any, status: t.Any, quantity: str, now: datetime.datetime
) -> Kept | None:
    """The last value of a node: of its entry in a readings document, or its NodeConfig's status."""
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
    """The value of a node's entry in a readings document, unless it was a fallback there."""
    if member(entry, "source", quantity) == "fallback":
        return None
    return _value(member(entry, quantity), member(entry, "times", quantity), now)


def _value(given: t.Any, moment: t.Any, now: datetime.datetime) -> Kept | None:
    """None also for a time in the future, which says nothing about an age."""
    value = number(given)
    if value is None or moment is None:
        return None
    try:
        read_at = parse_time(moment)
    except InvalidInput:
        return None
    return Kept(value, read_at) if read_at <= now else None


def previous_readings(path: str | None) -> Object:
    """Readings of the last observation; none where there was none or its file is unusable."""
    if path is None or not Path(path).exists():
        return {}
    try:
        return t.cast("Object", documents.load(path, "readings")["readings"])
    except InvalidInput:
        return {}
