# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Awake machines over time under the demand of pods: one entry a quarter of an hour, for two weeks."""

from __future__ import annotations

import datetime
import functools
import typing as t
from dataclasses import dataclass, fields, replace

from ...base.boundary import guarded, subject_of
from ...base.fields.lenient import member
from ...base.json_types import Object
from ...base.units import format_time
from ...scheduling.amounts import quantities
from ...scheduling.pod_reader import held_requests, is_daemon, is_finished
from ..machine import Phase
from .cluster_view import tainted_phase

_STEP_SECONDS = 900.0
_MAX_SECONDS = 14 * 86400.0
_MEASURED = ("cpu", "memory")


@dataclass(frozen=True)
class Counts:
    """Numbers of machines from ``at`` on, in seconds since the epoch.

    Machines that are emptied or shut down count as awake, since they draw power. ``needed`` is the
    least number of machines whose CPU and memory hold the requests of all pods but those of
    DaemonSets, and those that wait for their hour.
    """

    at: float
    awake: int
    asleep: int
    waking: int
    quarantined: int
    needed: int


def counts_of(nodes: t.Iterable[Object], pods: t.Iterable[Object], at: float) -> Counts:
    """The machines of these Nodes now."""
    given = list(nodes)
    phases = [tainted_phase(node) for node in given]
    off, waking, quarantined = (
        phases.count(phase.value) for phase in (Phase.ASLEEP, Phase.WAKING, Phase.QUARANTINED)
    )
    awake = len(given) - off - waking - quarantined
    return Counts(at, awake, off, waking, quarantined, _needed(given, pods))


def with_counts(timeline: t.Sequence[Counts], now: Counts) -> list[Counts]:
    """The timeline with these counts: the same one if nothing changed, and never a long one.

    The last counts of a quarter of an hour stand for it, with its largest demand.
    """
    last = timeline[-1] if timeline else None
    if last is not None and last.at // _STEP_SECONDS == now.at // _STEP_SECONDS:
        now = replace(now, at=last.at, needed=max(last.needed, now.needed))
        timeline = timeline[:-1]
    elif last is not None and replace(now, at=last.at) == last:
        return list(timeline)
    return [*(one for one in timeline if one.at > now.at - _MAX_SECONDS), now]


def as_columns(timeline: t.Sequence[Counts]) -> dict[str, t.Any]:
    """The timeline for a document: the hours since its begin, and numbers of machines."""
    begin = timeline[0].at if timeline else 0.0
    return {
        "since": format_time(datetime.datetime.fromtimestamp(begin, datetime.timezone.utc)),
        "hours": [round((one.at - begin) / 3600, 2) for one in timeline],
        **{
            field.name: [getattr(one, field.name) for one in timeline]
            for field in fields(Counts)
            if field.name != "at"
        },
    }


def _needed(nodes: t.Sequence[Object], pods: t.Iterable[Object]) -> int:
    """A lower bound: the largest machines are filled first, and each resource by itself."""
    load = dict.fromkeys(_MEASURED, 0.0)
    for pod in pods:
        read = guarded(subject_of(pod, "Pod"), functools.partial(_held, pod))
        for name, amount in read.items() if isinstance(read, dict) else ():
            load[name] = load.get(name, 0.0) + amount
    capacities = [
        read
        for node in nodes
        for read in [guarded(subject_of(node, "Node"), functools.partial(_allocatable, node))]
        if isinstance(read, dict)
    ]
    return max(_least([one.get(name, 0) for one in capacities], load[name]) for name in _MEASURED)


def _least(capacities: t.Iterable[float], load: float) -> int:
    """The least number of machines with so much, all of them if none suffices."""
    count = 0
    for capacity in sorted(capacities, reverse=True):
        if load <= 0:
            break
        load -= capacity
        count += 1
    return count


def _held(pod: Object) -> dict[str, int]:
    return {} if is_finished(pod) or is_daemon(pod) else held_requests(pod)


def _allocatable(node: Object) -> dict[str, int]:
    return dict(quantities(member(node, "status", "allocatable"), "status.allocatable"))
