# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Samples of each node, recorded by every run: load, inlet, pressure and the whole machine's watts.

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
from ..base.fields.lenient import member, number, objects
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..nodeconfig.freshness import FRESH_SOURCES
from ..scheduling.node_reader import Occupancy, measured_use
from ..scheduling.pod_reader import is_finished
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

    def as_dict(self) -> dict[str, t.Any]:
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

    def body(self) -> dict[str, t.Any]:
        """The body of the document."""
        nodes = {name: self.nodes[name].as_dict() for name in sorted(self.nodes)}
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
    for name in {**known.nodes, **observed}:
        former, new = known.nodes.get(name), observed.get(name)
        capacity = (new or t.cast(NodeSamples, former)).cpu_capacity
        samples = [
            sample
            for one in (former, new)
            if one is not None and one.cpu_capacity == capacity
            for sample in one.samples
        ]
        kept = _bounded(samples, capacity, now.timestamp(), max_age)
        if kept:
            nodes[name] = NodeSamples(capacity, kept)
    return Samples(nodes, known.findings)


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


def observe(snapshot: Object, readings: Object) -> dict[str, NodeSamples]:
    """One sample of each node with newly read watts of its BMC and a known load.

    ``readings`` are in the form of their document. Older watts, and nodes with a pod started in the
    last minute, give no samples, because load and watts would be of two moments.
    """
    watts = {name: one for name, one in readings.items() if _source(one, "power_watts") == "read"}
    if not watts:
        return {}
    metered = _metered(snapshot.get("node_metrics") or (), watts)
    requested = _requested(snapshot.get("pods") or (), watts)
    found = {}
    for node in snapshot.get("nodes") or ():
        name = name_of(node)
        if name not in watts or requested.get(name, 0.0) is None:
            continue
        subject = subject_of(node, "Node")
        make = functools.partial(
            _observed, node, watts[name], metered.get(name), requested.get(name) or 0.0
        )
        sample = guarded(subject, make)
        if isinstance(sample, NodeSamples):
            found[name] = sample
    return found


def _observed(
    node: Object, reading: Object, metered: float | None, requested: float
) -> NodeSamples:
    capacity = cpu_capacity_of(node)
    moment = _time(reading, "power_watts")
    sample = Sample(
        round(moment, 1),
        None if metered is None else round(metered, 4),
        round(requested, 3),
        _fresh(reading, "inlet_celsius"),
        _fresh(reading, "delta_p_pascal"),
        round(float(reading["power_watts"]), 2),
    )
    return _read_node(NodeSamples(capacity, (sample,)).as_dict())


def _fresh(reading: Object, quantity: str) -> float | None:
    """A value that was read in this run, or is younger than its fetchInterval."""
    is_fresh = _source(reading, quantity) in FRESH_SOURCES
    value = number(reading.get(quantity)) if is_fresh else None
    return None if value is None else round(value, 2)


def _source(reading: Object, quantity: str) -> t.Any:
    return member(reading, "source", quantity)


def _time(reading: Object, quantity: str) -> float:
    moment = member(reading, "times", quantity) or reading.get("time")
    return parse_time(str(moment)).timestamp()


def _metered(node_metrics: t.Iterable[t.Any], readings: Object) -> dict[str, float]:
    """Cores in use by node, measured at about the time of the reading."""
    found: dict[str, float] = {}
    for given in node_metrics:
        name = name_of(given)
        if name in readings:
            cores = guarded(
                subject_of(given, "NodeMetrics"),
                functools.partial(_metered_cores, given, readings[name]),
            )
            if isinstance(cores, float):
                found[name] = cores
    return found


def _metered_cores(given: Object, reading: Object) -> float | None:
    _name, microcores = measured_use(given)
    told = given.get("timestamp")
    apart = 0.0
    if told is not None:
        apart = parse_time(told).timestamp() - _time(reading, "power_watts")
    return microcores / 1e6 if abs(apart) <= _MAX_APART_SECONDS else None


def _requested(pods: t.Iterable[t.Any], readings: Object) -> dict[str, float | None]:
    """Requested cores of running pods by node; None if a pod just started or is unreadable."""
    settled = {name: _settled(reading) for name, reading in readings.items()}
    occupied: dict[str, Occupancy | None] = {}
    for pod in pods:
        name = name_of(pod, "spec", "nodeName")
        if name not in readings:
            continue
        occupancy = occupied.setdefault(name, Occupancy())
        if occupancy is None:
            continue
        counted = guarded(subject_of(pod, "Pod"), functools.partial(_count, pod, occupancy))
        is_new = occupancy.starting_millicores or _began(pod) > settled[name]
        if is_new or isinstance(counted, Finding):
            occupied[name] = None
    return {
        name: None if one is None else one.requests.get("cpu", 0) / 1000
        for name, one in occupied.items()
    }


def _settled(reading: t.Any) -> str:
    """The time, in Kubernetes' form, before which pods have settled; empty if unknown."""
    found = guarded(Subject("reading", ""), functools.partial(_settled_before, reading))
    return "" if isinstance(found, Finding) else found


def _settled_before(reading: t.Any) -> str:
    moment = _time(reading, "power_watts") - _SETTLE_SECONDS
    return format_time(datetime.datetime.fromtimestamp(moment, datetime.timezone.utc))


def _began(pod: Object) -> str:
    """Time of the pod's creation or last condition change; empty if unknown."""
    conditions = objects(member(pod, "status", "conditions"))
    moments = [
        name_of(pod, "metadata", "creationTimestamp"),
        *(name_of(one, "lastTransitionTime") for one in conditions),
    ]
    return max(moments)


def _count(pod: Object, occupancy: Occupancy) -> None:
    if not is_finished(pod):
        occupancy.add(pod)


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
    least, most = _RANGES[name]
    known = [value for value in values if value is not None] if name in _OPTIONAL else values
    if set(map(type, known)) <= {int, float} and all(least <= value <= most for value in known):
        return values
    bad = next(value for value in known if not _is_number(value) or not least <= value <= most)
    raise InvalidField(name, f"{shown(bad)} is not a number from {least:g} to {most:g}")


def _is_number(value: t.Any) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and (isinstance(value, int) or math.isfinite(value))
