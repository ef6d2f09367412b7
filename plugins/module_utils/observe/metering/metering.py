# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The body of the document metering.json: watts of pods, and of nodes beside their BMC's.

Kepler's watts divide the part of a node that RAPL meters. They are no readings of the node and do
not change these.
"""

from __future__ import annotations

import datetime
import math
import typing as t
from dataclasses import dataclass, field

from ...base import metrics
from ...base.argspec import ArgumentSpec
from ...base.context import Context, Parameters, Result
from ...base.errors import InvalidInput, TargetError, TargetFailure
from ...base.fields.lenient import member
from ...base.fields.strict import is_subdomain
from ...base.json_types import Object
from ...base.texts import shown
from ...base.units import format_time, parse_time
from ...fleet.visits import error_of
from ...kube.client import Kube
from ...nodeconfig.freshness import FRESH_SOURCES
from ...scheduling.workload import Workload
from . import endpoints, energy, kepler
from .kepler import Amounts, PodName, Zones
from .pods import Pod, Pods
from .queries import DAY_SECONDS, queries

# Time between two counts of joules from which watts are computed.
_MIN_SECONDS, _MAX_SECONDS = 1.0, 3600.0
# Allowed age of a counter at its reading, because Kepler samples at its own interval.
_MAX_SAMPLE_SECONDS = 60.0
# Allowed periods of counted energy.
MIN_PERIOD, MAX_PERIOD = 3600.0, 31 * DAY_SECONDS
# Number of namespaces with a separate metric; the others share one.
MAX_NAMESPACES = 200
# Names of namespaces have no underscore.
OTHERS = "_others"

SPEC = ArgumentSpec(
    {
        "source": {
            "type": "str",
            "default": "none",
            "choices": ["none", "prometheus", "kepler"],
        },
        "url": {"type": "str"},
        "labels": {"type": "dict", "default": {}},
        "targets": {
            "type": "list",
            "elements": "dict",
            "default": [],
            "options": {
                "name": {"type": "str", "required": True},
                "endpoint": {"type": "str", "required": True},
            },
        },
        "namespace": {"type": "str", "default": "kepler"},
        "selector": {
            "type": "str",
            "default": "app.kubernetes.io/name=kepler,app.kubernetes.io/component!=model-server",
        },
        "scheme": {"type": "str", "default": "http", "choices": ["http", "https"]},
        "port": {"type": "int", "default": 28282},
        "credential": {"type": "str", "no_log": False},
        "credentials": {"type": "dict", "no_log": True, "secret_keys": ["password", "token"]},
        "timeout": {"type": "float", "default": 10.0},
        "concurrency": {"type": "int", "default": 16},
        "allow_plain_http": {"type": "bool", "default": False},
        "validate_certs": {"type": "bool", "default": True},
        "ca_path": {"type": "path"},
        "tls_fingerprint": {"type": "list", "elements": "str", "default": []},
        "tls_server_name": {"type": "str"},
        "client_cert": {"type": "path"},
        "client_key": {"type": "path"},
        "energy_period_seconds": {"type": "float", "default": DAY_SECONDS},
        "textfile": {"type": "path"},
        "textfile_labels": {"type": "dict", "default": {}},
    }
)


def check_options(options: Parameters) -> None:
    """Raise InvalidInput for options without a usable source."""
    if options["source"] == "prometheus" and not options["url"]:
        raise InvalidInput(
            "meter: source prometheus needs url, such as https://prometheus.example.com:9090"
        )
    queries(options["labels"])
    period = options["energy_period_seconds"]
    if not MIN_PERIOD <= period <= MAX_PERIOD:
        raise InvalidInput(
            f"meter: energy_period_seconds: {period:g} is not between {MIN_PERIOD:g} (an hour) "
            f"and {MAX_PERIOD:g} (31 days)"
        )
    if not is_subdomain(options["namespace"]):
        raise InvalidInput(
            f"meter: namespace: {shown(options['namespace'])} is not the name of a namespace"
        )
    if not 1 <= options["port"] <= 65535:
        raise InvalidInput(f"meter: port: {options['port']} is not between 1 and 65535")


@dataclass
class Metering:
    """Watts of pods, by pod, and of nodes; ``left_out`` counts pods without a node.

    ``grown`` are joules of workloads since the last document, and ``since`` is the time of its
    counts. ``period`` are the seconds of counted energy.
    """

    source: str
    time: datetime.datetime
    pods: dict[Pod, Zones] = field(default_factory=dict)
    nodes: dict[str, Zones] = field(default_factory=dict)
    cores: dict[Pod, float] = field(default_factory=dict)
    measured: dict[str, float] = field(default_factory=dict)
    counters: dict[str, t.Any] = field(default_factory=dict)
    energy: list[energy.Part] = field(default_factory=list)
    grown: dict[Workload, float] = field(default_factory=dict)
    since: list[datetime.datetime] = field(default_factory=list)
    period: float = DAY_SECONDS
    left_out: int = 0
    errors: list[TargetError] = field(default_factory=list)

    def body(self) -> Result:
        """The document, without its head."""
        return {
            "source": self.source,
            "pods": [
                _of_pod(pod, zones, self.cores.get(pod))
                for pod, zones in sorted(
                    self.pods.items(), key=lambda item: (item[0].namespace, item[0].name)
                )
            ],
            "nodes": {
                name: self._of_node(name, zones) for name, zones in sorted(self.nodes.items())
            },
            "left_out": self.left_out,
            "errors": [error.as_dict() for error in self.errors],
            **({"counters": self.counters} if self.counters else {}),
            **({"energy": [part.as_dict() for part in self.energy]} if self.energy else {}),
        }

    def _of_node(self, name: str, zones: Zones) -> Result:
        total, measured = _sum(zones), self.measured.get(name)
        return {
            "package_watts": _rounded(zones.get("package")),
            "dram_watts": _rounded(zones.get("dram")),
            "rapl_watts": _rounded(total),
            "measured_watts": _rounded(measured),
            "difference_watts": None if measured is None else round(measured - total, 3),
        }

    @property
    def cores_by_uid(self) -> dict[str, float]:
        """CPUs in use by pods."""
        return {pod.uid: cores for pod, cores in self.cores.items() if pod.uid}

    def metrics(self, labels: metrics.Labels) -> str:
        """Watts by namespace and node for Prometheus. Raises InvalidInput for invalid labels."""
        metrics.check_labels(labels)
        nodes = [({"node": name}, _sum(zones)) for name, zones in sorted(self.nodes.items())]
        spaces = [({"namespace": name}, watts) for name, watts in self._namespaces()]
        families: list[tuple[str, str, metrics.Samples]] = [
            (
                "wattwise_namespace_metered_watts",
                "Watts of package and memory that Kepler gives to the pods of a namespace.",
                spaces,
            ),
            ("wattwise_node_metered_watts", "Watts of package and memory of a node.", nodes),
            (
                "wattwise_metering_errors",
                "Errors of the last metering.",
                [({}, float(len(self.errors)))],
            ),
            (
                "wattwise_metering_timestamp_seconds",
                "Unix time at which pods were metered.",
                [({}, self.time.timestamp())],
            ),
        ]
        return "".join(metrics.family(*family, labels) for family in families)

    def _namespaces(self) -> list[tuple[str, float]]:
        """The namespaces with the most watts by name, then the sum of all others."""
        sums: dict[str, float] = {}
        for pod, zones in self.pods.items():
            sums[pod.namespace] = sums.get(pod.namespace, 0.0) + _sum(zones)
        ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
        shown, rest = ordered[:MAX_NAMESPACES], ordered[MAX_NAMESPACES:]
        others = [(OTHERS, math.fsum(watts for _name, watts in rest))] if rest else []
        return [*sorted(shown), *others]


def meter(
    options: Parameters,
    snapshot: Object,
    readings: Object,
    context: Context,
    kube: Kube,
    previous: Object | None = None,
    nodes: t.Collection[str] | None = None,
) -> Metering:
    """Query the source, and attribute the watts to the pods of the snapshot.

    ``readings`` are the nodes' readings, ``previous`` is the last document. ``nodes``, if given,
    are the only metered ones. Every defect of a node or server is an error of the result. Raises
    WattwiseError if no query is possible.
    """
    pods = Pods(snapshot.get("pods") or ())
    known, now = _names(snapshot.get("nodes")), context.now()
    period = options["energy_period_seconds"]
    parts = energy.of_document(previous, options["source"], now, period)
    is_due = energy.is_due(parts, now, period)
    answers = endpoints.ask(options, context, kube, nodes, with_energy=is_due)
    found = Metering(options["source"], now, energy=parts, period=period, errors=answers.errors)
    metered = known if nodes is None else known.intersection(nodes)
    for name, amounts in answers.nodes.items():
        if name not in metered:
            found.left_out += 0 if name in known else len(amounts.pods)
            continue
        try:
            _put(found, name, amounts, pods, member(previous, "counters", name))
        except TargetFailure as failure:
            found.errors.append(error_of(name, _endpoint(options, name), failure))
    if answers.nodes and not known & answers.nodes.keys():
        found.errors.append(_of_other_nodes(options, next(iter(answers.nodes))))
    if found.source == "kepler":
        _put_growth(found, member(previous, "counters") or {}, metered)
    elif answers.covered_seconds > 0:
        found.energy = [_last_period(answers, pods, metered, snapshot, now)]
    found.measured = _measured(readings, found.nodes)
    _warn(found, context)
    return found


def _names(given: t.Iterable[t.Any] | None) -> set[str]:
    names = (member(one, "metadata", "name") for one in given or ())
    return {name for name in names if isinstance(name, str)}


def _put_growth(found: Metering, before: Object, metered: t.Collection[str]) -> None:
    """Append the growth of the counters to the parts of earlier runs.

    Nodes without an answer keep their counts, so that their growth is not lost.
    """
    for name, counters in before.items():
        is_silent = name in metered and name not in found.counters
        if is_silent and _seconds_since_count(found, counters) is not None:
            found.counters[name] = counters
    if not found.since:
        return
    begin = found.energy[-1].end if found.energy else min(found.since)
    if begin < found.time:
        part = energy.Part(begin, found.time, found.grown)
        found.energy = energy.extended(found.energy, part, found.period)


def _last_period(
    answers: endpoints.Answers,
    pods: Pods,
    nodes: t.Collection[str],
    snapshot: Object,
    now: datetime.datetime,
) -> energy.Part:
    """The joules of Prometheus.

    Joules of ended pods count for their namespace if the cluster has it, because a label is no
    proof.
    """
    joules: dict[Workload, float] = {}
    namespaces = pods.namespaces.union(_names(snapshot.get("namespaces")))
    for node, by_pod in answers.joules.items():
        for name, value in by_pod.items() if node in nodes else ():
            pod = pods.find(name, node)
            if pod is not None:
                energy.add(joules, {_workload(pod): value})
            elif name.namespace in namespaces:
                energy.add(joules, {Workload(name.namespace, "", ""): value})
    return energy.Part(now - datetime.timedelta(seconds=answers.covered_seconds), now, joules)


def _workload(pod: Pod) -> Workload:
    return Workload(pod.namespace, pod.workload_kind, pod.workload)


def _of_other_nodes(options: Parameters, name: str) -> TargetError:
    failure = TargetFailure(
        "no_sensor",
        f"none of the metered nodes is one of the cluster, the first is {shown(name)}; the label "
        "node_name, of Kepler 0.9 and older instance, must be the name of the Node",
    )
    return error_of(options["source"], _endpoint(options, name), failure)


def _endpoint(options: Parameters, node: str) -> str:
    if options["source"] == "prometheus":
        return options["url"] or ""
    given = (one["endpoint"] for one in options["targets"] if one["name"] == node)
    return next(given, f"pod of Kepler on {node}")


def _put(found: Metering, node: str, amounts: Amounts, pods: Pods, before: t.Any) -> None:
    """Add the watts of one node and its pods. Raises TargetFailure for missing ones."""
    zones_of, left_out = _resolved(node, amounts.pods, pods)
    zones = amounts.node
    if amounts.are_joules or amounts.joules:
        _count(found, node, amounts, pods, before)
    if amounts.are_joules:
        zones, zones_of = _watts_since(before, found.time, zones, zones_of)
    if zones:
        found.nodes[node] = zones
    found.pods.update(zones_of)
    found.left_out += left_out
    for name, cores in amounts.cores.items():
        pod = pods.find(name, node)
        if pod is not None:
            found.cores[pod] = cores
    if not amounts.pods and node in pods.nodes:
        raise TargetFailure(
            "no_sensor",
            "its metrics name no pods; let Kepler read the API (scope cluster, --kube.enable), with "
            "the metric level pod",
        )


def _resolved(
    node: str, amounts: t.Mapping[PodName, Zones], pods: Pods
) -> tuple[dict[Pod, Zones], int]:
    """Amounts by pod of the cluster, and the number of omitted names.

    Names without a pod on the node, and further names of the same pod, are omitted.
    """
    found: dict[Pod, Zones] = {}
    for name, zones in amounts.items():
        pod = pods.find(name, node)
        if pod is not None:
            found.setdefault(pod, zones)
    return found, len(amounts) - len(found)


def _count(found: Metering, node: str, amounts: Amounts, pods: Pods, before: t.Any) -> None:
    """Keep the counters of a node, and add their growth. Raises TargetFailure."""
    counted, _left_out = _resolved(node, amounts.counters, pods)
    now = {pod.uid: joules for pod, joules in counted.items() if pod.uid}
    earlier = {**(member(before, "kept") or {}), **(member(before, "pods") or {})}
    found.counters[node] = {
        "time": format_time(found.time),
        "node": amounts.node if amounts.are_joules else {},
        "pods": now,
        # An existing pod may be missing from the metrics for a while.
        "kept": {
            uid: zones
            for uid, zones in earlier.items()
            if uid not in now and pods.find(PodName(uid, "", ""), node)
        },
    }
    seconds = _seconds_since_count(found, before)
    if seconds is None:
        return
    grown = {
        pod: energy.growth(_zones(earlier.get(pod.uid)), joules)
        for pod, joules in counted.items()
        if pod.uid
    }
    kepler.plausible_joules(math.fsum(grown.values()), seconds + _MAX_SAMPLE_SECONDS)
    found.since.append(parse_time(before["time"]))
    for pod, joules in grown.items():
        energy.add(found.grown, {_workload(pod): joules})


def _seconds_since_count(found: Metering, counters: t.Any) -> float | None:
    """Seconds since the counters were read; None without any of the last period."""
    seconds = _seconds_between(counters, found.time)
    return seconds if seconds is not None and 0 < seconds <= found.period else None


def _seconds_between(counters: t.Any, now: datetime.datetime) -> float | None:
    """Seconds since the counters were read; None without any."""
    try:
        return (now - parse_time(member(counters, "time") or "")).total_seconds()
    except InvalidInput:
        return None


def _watts_since(
    before: t.Any, now: datetime.datetime, zones: Zones, pods: dict[Pod, Zones]
) -> tuple[Zones, dict[Pod, Zones]]:
    """Mean watts since the counts of the last document. Raises TargetFailure without them."""
    seconds = _seconds_since(before, now)
    watts = None
    if seconds is not None:
        watts = kepler.watts_between(_zones(member(before, "node")), zones, seconds)
    if seconds is None or watts is None:
        raise TargetFailure(
            "no_sensor",
            "Kepler 0.9 and older counts only energy, and there is no earlier count from the last "
            "hour; the next run gives watts",
        )
    found: dict[Pod, Zones] = {}
    for pod, joules in pods.items():
        earlier = _zones(member(before, "pods", pod.uid))
        of_pod = kepler.watts_between(earlier, joules, seconds)
        if of_pod:
            found[pod] = of_pod
    for each in (watts, *found.values()):
        for value in each.values():
            kepler.plausible(value)
    return watts, found


def _seconds_since(before: t.Any, now: datetime.datetime) -> float | None:
    seconds = _seconds_between(before, now)
    fits = seconds is not None and _MIN_SECONDS <= seconds <= _MAX_SECONDS
    return seconds if fits else None


def _zones(given: t.Any) -> Zones:
    return {zone: float(given[zone]) for zone in kepler.ZONES if zone in (given or {})}


def _measured(readings: Object, nodes: t.Iterable[str]) -> dict[str, float]:
    """Fresh watts of whole machines."""
    return {
        name: reading["power_watts"]
        for name in nodes
        for reading in [readings.get(name) or {}]
        if reading.get("power_watts") is not None
        and member(reading, "source", "power_watts") in FRESH_SOURCES
    }


def _warn(found: Metering, context: Context) -> None:
    if found.errors:
        first = found.errors[0]
        context.warn(
            f"{len(found.errors)} errors of metering, whose pods have no watts; the first is that "
            f"of {first.name} ({first.endpoint}), {first.reason}: {first.detail}"
        )


def _of_pod(pod: Pod, zones: Zones, cores: float | None) -> Result:
    return {
        "namespace": pod.namespace,
        "pod": pod.name,
        "uid": pod.uid,
        "node": pod.node,
        "workload_kind": pod.workload_kind,
        "workload": pod.workload,
        "package_watts": _rounded(zones.get("package")),
        "dram_watts": _rounded(zones.get("dram")),
        "cpu_cores": _rounded(cores),
    }


def _sum(zones: Zones) -> float:
    return math.fsum(zones.values())


def _rounded(watts: float | None) -> float | None:
    # Many pods draw a few milliwatts.
    return None if watts is None else round(watts, 4)
