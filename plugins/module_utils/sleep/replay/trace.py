# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""A trace: pods with their times of arrival and departure, and what they request.

The format is CSV with a header line. Its columns are ``arrival_seconds``, ``departure_seconds``,
``cpu_milli`` and ``memory_mib``, and optionally ``qos`` and ``workload``; every other column is a
whole number of an extended resource. The column ``gpus`` stands for ``nvidia.com/gpu``.
"""

from __future__ import annotations

import csv
import math
import typing as t
from dataclasses import dataclass, replace
from functools import cached_property

from ...base.errors import InvalidInput

QualityOfService = t.Literal["guaranteed", "burstable", "best_effort"]
Requests = tuple[tuple[str, int], ...]

GPU = "nvidia.com/gpu"
_NUMBERS = ("arrival_seconds", "departure_seconds", "cpu_milli", "memory_mib")
_TEXTS = ("qos", "workload")
_BYTES_PER_MEBIBYTE = 1 << 20
# Ten years of seconds, a thousand times the CPU and memory of a large machine: beyond, a column is
# mistaken.
_MAX_SECONDS = 10 * 366 * 86400
_MAX_MILLICORES = 1_000_000_000
_MAX_MEBIBYTES = 1 << 34
_MAX_DEVICES = 1_000_000
_MAX_PODS = 2_000_000
# Latency-sensitive pods of a trace are as dear as guaranteed ones.
_CLASSES: t.Mapping[str, QualityOfService] = {
    "ls": "guaranteed",
    "guaranteed": "guaranteed",
    "burstable": "burstable",
    "be": "best_effort",
    "besteffort": "best_effort",
    "best_effort": "best_effort",
    "": "burstable",
}


@dataclass(frozen=True)
class TracePod:
    """One pod; times in seconds since the trace began.

    ``requests`` are in millicores, bytes, and whole units of other resources, sorted by name.
    """

    arrival: float
    departure: float
    requests: Requests
    qos: QualityOfService = "burstable"
    workload: str = ""

    def requested(self, resource: str) -> int:
        """Requested amount of a resource."""
        return dict(self.requests).get(resource, 0)


@dataclass(frozen=True)
class Trace:
    """Pods by arrival. ``start`` is the time, in seconds since the epoch, at which it began."""

    pods: tuple[TracePod, ...]
    start: float = 0.0

    @cached_property
    def seconds(self) -> float:
        """Time from the start to the last departure."""
        return max((pod.departure for pod in self.pods), default=0.0)

    def without(self, resource: str) -> Trace:
        """The same pods, none of which requests the resource."""
        pods = tuple(
            replace(pod, requests=tuple(pair for pair in pod.requests if pair[0] != resource))
            for pod in self.pods
        )
        return replace(self, pods=pods)

    def clipped(self, largest: t.Mapping[str, int]) -> Trace:
        """The same pods, none of which requests more than the largest machine has."""
        pods = tuple(
            replace(
                pod,
                requests=tuple(
                    (name, min(amount, largest.get(name, amount))) for name, amount in pod.requests
                ),
            )
            for pod in self.pods
        )
        return replace(self, pods=pods)


def sorted_trace(pods: t.Iterable[TracePod], start: float = 0.0) -> Trace:
    """The trace of these pods in any order."""
    return Trace(tuple(sorted(pods, key=lambda pod: (pod.arrival, pod.departure))), start)


def read_trace(lines: t.Iterable[str], source: str, start: float = 0.0) -> Trace:
    """A trace from the lines of a CSV file. Raises InvalidInput with the source and the line."""
    rows = csv.reader(lines, strict=True)
    pods: list[TracePod] = []
    columns: list[str] | None = None
    try:
        for row in rows:
            where = f"{source}, line {rows.line_num}"
            if columns is None:
                columns = _columns(row, where)
            elif row:
                pods.append(_pod(dict(zip(columns, row)), len(row), len(columns), where))
            if len(pods) > _MAX_PODS:
                raise InvalidInput(f"{where}: a trace has at most {_MAX_PODS:,} pods")
    except (csv.Error, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{source}, line {max(1, rows.line_num)}: not readable as CSV: {error}"
        ) from error
    if not pods:
        raise InvalidInput(f"{source}: the trace has no pod; give a line for each")
    return sorted_trace(pods, start)


def _columns(row: list[str], where: str) -> list[str]:
    columns = [name.strip() for name in row]
    missing = [name for name in _NUMBERS if name not in columns]
    if missing:
        raise InvalidInput(
            f"{where}: the trace has no column {', '.join(missing)}; its first line must name "
            f"{', '.join(_NUMBERS)}"
        )
    if len(set(columns)) < len(columns) or "" in columns:
        raise InvalidInput(f"{where}: two columns have the same name, or one has none")
    taken = {"cpu", "memory", "pods", *([GPU] if "gpus" in columns else [])}
    repeated = sorted(taken.intersection(columns))
    if repeated:
        raise InvalidInput(
            f"{where}: the column {repeated[0]} is that of another one; cpu_milli, memory_mib and "
            "gpus are the names of CPU, memory and GPUs"
        )
    return columns


def _pod(fields: dict[str, str], given: int, wanted: int, where: str) -> TracePod:
    if given != wanted:
        raise InvalidInput(f"{where}: {given} fields, but the first line names {wanted} columns")
    arrival = _number(fields, "arrival_seconds", _MAX_SECONDS, where)
    departure = _number(fields, "departure_seconds", _MAX_SECONDS, where)
    if departure < arrival:
        raise InvalidInput(
            f"{where}: the pod departs at {departure:g} s, before it arrives at {arrival:g} s"
        )
    requests = {
        "cpu": round(_number(fields, "cpu_milli", _MAX_MILLICORES, where)),
        "memory": round(_number(fields, "memory_mib", _MAX_MEBIBYTES, where) * _BYTES_PER_MEBIBYTE),
    }
    for name in fields:
        if name not in _NUMBERS and name not in _TEXTS:
            amount = _number(fields, name, _MAX_DEVICES, where)
            if amount != int(amount):
                raise InvalidInput(f"{where}: {name} is {fields[name]!r}, not a whole number")
            requests[GPU if name == "gpus" else name] = int(amount)
    qos = fields.get("qos", "").strip().lower()
    if qos not in _CLASSES:
        raise InvalidInput(
            f"{where}: qos is {fields['qos'][:40]!r}; give guaranteed, burstable or best_effort"
        )
    kept = tuple(sorted((name, amount) for name, amount in requests.items() if amount))
    return TracePod(arrival, departure, kept, _CLASSES[qos], fields.get("workload", "").strip())


def _number(fields: t.Mapping[str, str], name: str, most: float, where: str) -> float:
    text = fields[name].strip()
    if not text:
        raise InvalidInput(f"{where}: {name} is empty; leave the line out if it is unknown")
    try:
        value = float(text)
    except ValueError:
        raise InvalidInput(f"{where}: {name} is {text[:40]!r}, not a number") from None
    if not math.isfinite(value) or not 0 <= value <= most:
        raise InvalidInput(f"{where}: {name} is {text[:40]}; give a number from 0 to {most:g}")
    return value
