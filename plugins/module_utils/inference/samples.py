# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Samples of each node, recorded by every run: load, inlet, pressure and the whole machine's power.

The document stays small: the last six samples of each twentieth of a node's load are kept. So a
node that idles for weeks keeps the samples of its busy hours.
"""

from __future__ import annotations

import datetime
import functools
import math
import typing as t
from collections import defaultdict
from dataclasses import dataclass, field

from ..base.boundary import Finding, InvalidField, Subject, guarded, shown, shown_text, subject_of
from ..base.fields.lenient import member, objects
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..nodeconfig.readings import Reading, Readings
from ..scheduling.node_reader import measured_use
from ..scheduling.pod_reader import held_requests, is_finished
from .nodes import cpu_capacity_of, name_of
from .wire import MAXIMUM_WATTS

MAX_AGE_SECONDS = 30 * 86_400.0
BINS = 20
PER_BIN = 6
_MAX_SAMPLES = BINS * PER_BIN
_MAX_CORES = 100_000.0
# A BMC averages over up to a minute, and so does metrics-server; clocks differ a little.
_MAX_APART_SECONDS = 120.0
_SETTLE_SECONDS = 60.0

_COLUMNS = (
    *("unix_seconds", "metered_cores", "requested_cores"),
    *("inlet_celsius", "delta_p_pascal", "power_watts"),
)
_OPTIONAL = ("metered_cores", "inlet_celsius", "delta_p_pascal")
_RANGES = {
    "unix_seconds": (0.0, 1e11),
    "metered_cores": (0.0, _MAX_CORES),
    "requested_cores": (0.0, _MAX_CORES),
    "inlet_celsius": (-100.0, 200.0),
    "delta_p_pascal": (-10_000.0, 10_000.0),
    "power_watts": (0.1, MAXIMUM_WATTS),
}


class Sample(t.NamedTuple):
    """One node at one moment. ``metered_cores`` are those of metrics.k8s.io.

    ``requested_cores`` are the requests of its running pods.
    """

    unix_seconds: float
    metered_cores: t.Optional[float]
    requested_cores: float
    inlet_celsius: t.Optional[float]
    delta_p_pascal: t.Optional[float]
    power_watts: float


@dataclass(frozen=True)
class NodeSamples:
    """The samples of one node in the order of their times; loads are in 0 … ``cpu_capacity``."""

    cpu_capacity: float
    samples: tuple[Sample, ...] = ()

    def as_document(self) -> dict[str, t.Any]:
        columns = zip(*self.samples)
        return {
            "cpu_capacity": self.cpu_capacity,
            **{name: list(column) for name, column in zip(_COLUMNS, columns)},
        }


@dataclass
class Samples:
    """The samples of all nodes, and the findings of their document."""

    nodes: dict[str, NodeSamples] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def as_document(self) -> dict[str, t.Any]:
        """The body of the document."""
        nodes = {name: self.nodes[name].as_document() for name in sorted(self.nodes)}
        return {"nodes": nodes}


def read(document: t.Any) -> Samples:
    """The samples of a document; an unreadable node becomes a finding."""
    given = member(document, "nodes")
    found = Samples()
    for name, entry in (given if isinstance(given, dict) else {}).items():
        subject = Subject("samples", shown_text(str(name), 253))
        node = guarded(subject, functools.partial(_read_node, entry))
        if isinstance(node, Finding):
            found.findings.append(node)
        else:
            found.nodes[name] = node
    return found


def extended(
    known: Samples, observed: t.Mapping[str, NodeSamples], now: datetime.datetime, max_age: float
) -> Samples:
    """The known samples with those of one more run, without old or surplus ones.

    A node with a changed capacity is another machine, so its former samples are dropped.
    """
    nodes: dict[str, NodeSamples] = {}
    for name, newest in {**known.nodes, **observed}.items():
        capacity, former = newest.cpu_capacity, known.nodes.get(name, newest)
        samples = [*newest.samples]
        if former is not newest and former.cpu_capacity == capacity:
            samples = [*former.samples, *samples]
        kept = _bounded(samples, capacity, now.timestamp(), max_age)
        if kept:
            nodes[name] = NodeSamples(capacity, kept)
    return Samples(nodes)


def _bounded(
    samples: t.Sequence[Sample], capacity: float, now: float, max_age: float
) -> tuple[Sample, ...]:
    bins: dict[int, list[Sample]] = defaultdict(list)
    oldest, latest = now - max_age, now + _MAX_APART_SECONDS
    by_time = {sample.unix_seconds: sample for sample in samples}
    for moment in sorted(by_time):
        if oldest <= moment <= latest:
            bins[bin_of(by_time[moment], capacity)].append(by_time[moment])
    kept = [sample for one in bins.values() for sample in one[-PER_BIN:]]
    return tuple(sorted(kept, key=_moment))


def bin_of(sample: Sample, capacity: float) -> int:
    """The twentieth of the capacity in which the load lies."""
    cores = sample.requested_cores if sample.metered_cores is None else sample.metered_cores
    return min(int(BINS * cores / capacity), BINS - 1)


def observe(snapshot: Object, readings: Readings) -> dict[str, NodeSamples]:
    """One sample of each node with a newly read power draw and a known load.

    An older power draw, and nodes with a pod started in the last minute, give no samples, because
    load and power draw would be of two moments.
    """
    powers = {name: one.values.get("power_watts") for name, one in readings.items()}
    moments = {name: one.time for name, one in powers.items() if one and one.source == "read"}
    if not moments:
        return {}
    metered = _metered(snapshot.get("node_metrics") or (), moments)
    requested = _requested(snapshot.get("pods") or (), moments)
    found = {}
    for node in snapshot.get("nodes") or ():
        name = name_of(node)
        if name not in moments or requested.get(name, 0.0) is None:
            continue
        subject = subject_of(node, "Node")
        make = functools.partial(
            _observed, node, readings[name], metered.get(name), requested.get(name) or 0.0
        )
        sample = guarded(subject, make)
        if isinstance(sample, NodeSamples):
            found[name] = sample
    return found


def _observed(
    node: Object, reading: Reading, metered: float | None, requested: float
) -> NodeSamples:
    power = reading.values["power_watts"]
    sample = Sample(
        round(power.time.timestamp(), 1),
        _rounded(metered, 4),
        round(requested, 3),
        _rounded(reading.fresh("inlet_celsius"), 2),
        _rounded(reading.fresh("delta_p_pascal"), 2),
        round(power.value, 2),
    )
    for name, value in zip(_COLUMNS, sample):
        _check(name, [value])
    return NodeSamples(cpu_capacity_of(node), (sample,))


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


Moments = t.Mapping[str, datetime.datetime]


def _metered(node_metrics: t.Iterable[t.Any], moments: Moments) -> dict[str, float]:
    """Cores in use by node, measured at about the time of the reading."""
    found: dict[str, float] = {}
    for given in node_metrics:
        name = name_of(given)
        if name in moments:
            cores = guarded(
                subject_of(given, "NodeMetrics"),
                functools.partial(_metered_cores, given, moments[name]),
            )
            if isinstance(cores, float):
                found[name] = cores
    return found


def _metered_cores(given: Object, moment: datetime.datetime) -> float | None:
    _name, microcores = measured_use(given)
    stamp, apart = given.get("timestamp"), 0.0
    if stamp is not None:
        apart = (parse_time(stamp) - moment).total_seconds()
    return microcores / 1e6 if abs(apart) <= _MAX_APART_SECONDS else None


def _requested(pods: t.Iterable[t.Any], moments: Moments) -> dict[str, float | None]:
    """Requested cores of running pods by node; None if a pod just started or is unreadable."""
    settling = datetime.timedelta(seconds=_SETTLE_SECONDS)
    # In Kubernetes' form.
    settled = {name: format_time(moment - settling) for name, moment in moments.items()}
    millicores: dict[str, int | None] = {}
    for pod in pods:
        name = name_of(pod, "spec", "nodeName")
        if name not in settled:
            continue
        before = millicores.setdefault(name, 0)
        if before is None:
            continue
        subject = functools.partial(subject_of, pod, "Pod")
        read = guarded(subject, functools.partial(_millicores, pod, settled[name]))
        if read is None or isinstance(read, Finding):
            millicores[name] = None
        else:
            millicores[name] = before + read
    return {name: None if one is None else one / 1000 for name, one in millicores.items()}


def _began(pod: Object) -> str:
    """Time of the pod's creation or last condition change; empty if unknown."""
    conditions = objects(member(pod, "status", "conditions"))
    moments = [
        name_of(pod, "metadata", "creationTimestamp"),
        *(name_of(one, "lastTransitionTime") for one in conditions),
    ]
    return max(moments)


def _millicores(pod: Object, settled: str) -> int | None:
    """Requested CPU; None for a pod that starts or began after ``settled``. Raises InvalidField."""
    requested = 0 if is_finished(pod) else held_requests(pod).get("cpu", 0)
    starts = requested and (pod.get("status") or {}).get("phase") == "Pending"
    return None if starts or _began(pod) > settled else requested


def _read_node(entry: t.Any) -> NodeSamples:
    """The samples of one node. Raises InvalidField."""
    capacity = member(entry, "cpu_capacity")
    if not _is_number(capacity) or not 0 < capacity <= _MAX_CORES:
        raise InvalidField("cpu_capacity", f"{shown(capacity)} is not a number of CPUs")
    columns = [_column(entry, name) for name in _COLUMNS]
    if len(set(map(len, columns))) != 1:
        raise InvalidField("", "its columns have different lengths")
    samples = tuple(Sample(*row) for row in zip(*columns))
    return NodeSamples(float(capacity), tuple(sorted(samples, key=_moment)))


def _moment(sample: Sample) -> float:
    return sample.unix_seconds


def _column(entry: t.Any, name: str) -> list[t.Any]:
    values = member(entry, name)
    if not isinstance(values, list) or len(values) > _MAX_SAMPLES:
        raise InvalidField(name, f"it must be a list of at most {_MAX_SAMPLES} numbers")
    _check(name, values)
    return values


def _check(name: str, values: t.Sequence[t.Any]) -> None:
    """Raise InvalidField for a value outside of the range of its column."""
    least, most = _RANGES[name]
    known = [value for value in values if value is not None] if name in _OPTIONAL else values
    if set(map(type, known)) <= {int, float} and all(least <= value <= most for value in known):
        return
    bad = next(value for value in known if not _is_number(value) or not least <= value <= most)
    raise InvalidField(name, f"{shown(bad)} is not a number from {least:g} to {most:g}")


def _is_number(value: t.Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and (isinstance(value, int) or math.isfinite(value))
