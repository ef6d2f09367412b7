# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The body of the document metering.json: power draw of pods, and of nodes beside their BMC's.

Kepler's shares divide the part of a node that RAPL meters. They are no readings of the node and do
not change these.
"""

from __future__ import annotations

import datetime
import math
import typing as t
from dataclasses import dataclass, field

from ...base import metrics
from ...base.argspec import SERVER, ArgumentSpec
from ...base.context import Context, Parameters, Result
from ...base.errors import InvalidInput, TargetError, TargetFailure
from ...base.fields.lenient import member
from ...base.fields.strict import is_subdomain
from ...base.json_types import Object
from ...base.texts import shown
from ...base.units import format_time
from ...fleet.visits import error_of
from ...kube.client import Kube
from ...nodeconfig.readings import Readings, fresh_values, mapping_of, moment_of
from ...scheduling.workload import Workload
from . import endpoints, energy, kepler
from .kepler import Amounts, PodName, Zones
from .pods import Pod, Pods
from .queries import DAY_SECONDS, queries

# Time between two counts of joules from which power is computed.
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
        "source": {"type": "str", "default": "none", "choices": ["none", "prometheus", "kepler"]},
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
        "timeout": {"type": "float", "default": 10.0},
        "concurrency": {"type": "int", "default": 16},
        **SERVER,
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


@dataclass(frozen=True)
class Counters:
    """Joules of one node and its pods since Kepler's start, by UID, and the time of the count.

    ``kept`` are earlier counts of existing pods that are missing from the metrics for a while.
    """

    time: datetime.datetime
    node: Zones
    pods: t.Mapping[str, Zones]
    kept: t.Mapping[str, Zones]

    @property
    def earlier(self) -> dict[str, Zones]:
        """The last count of each pod."""
        return {**self.kept, **self.pods}

    def as_document(self) -> Result:
        return {**vars(self), "time": format_time(self.time)}

    @classmethod
    def from_document(cls, given: t.Any) -> Counters | None:
        """None without a time."""
        moment = moment_of(member(given, "time"))
        if moment is None:
            return None
        pods, kept = (
            {uid: _zones(zones) for uid, zones in mapping_of(given.get(part)).items()}
            for part in ("pods", "kept")
        )
        return cls(moment, _zones(given.get("node")), pods, kept)


@dataclass(frozen=True)
class LastMetering:
    """The parts of the last metering that the next one continues."""

    source: str = ""
    counters: t.Mapping[str, Counters] = field(default_factory=dict)
    energy: t.Sequence[energy.Part] = ()

    @classmethod
    def from_document(cls, document: Object | None, now: datetime.datetime) -> LastMetering:
        """Nothing without a metering document."""
        if document is None:
            return cls()
        given = mapping_of(document.get("counters")).items()
        read = {name: Counters.from_document(entry) for name, entry in given}
        counters = {name: one for name, one in read.items() if one is not None}
        return cls(document["source"], counters, energy.parts_of(document, now))


@dataclass(frozen=True)
class Metering:
    """Power draw of pods and of nodes; ``left_out`` counts pods without a node."""

    source: str
    time: datetime.datetime
    pods: t.Mapping[Pod, Zones] = field(default_factory=dict)
    nodes: t.Mapping[str, Zones] = field(default_factory=dict)
    cores: t.Mapping[Pod, float] = field(default_factory=dict)
    measured: t.Mapping[str, float] = field(default_factory=dict)
    counters: t.Mapping[str, Counters] = field(default_factory=dict)
    energy: t.Sequence[energy.Part] = ()
    left_out: int = 0
    errors: t.Sequence[TargetError] = ()

    def as_document(self) -> Result:
        """The document, without its head."""
        pods = sorted(self.pods.items(), key=lambda item: (item[0].namespace, item[0].name))
        counters = {name: one.as_document() for name, one in self.counters.items()}
        return {
            "source": self.source,
            "pods": [_of_pod(pod, zones, self.cores.get(pod)) for pod, zones in pods],
            "nodes": {
                name: self._of_node(name, zones) for name, zones in sorted(self.nodes.items())
            },
            "left_out": self.left_out,
            "errors": [error.as_dict() for error in self.errors],
            **({"counters": counters} if counters else {}),
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
        """Power by namespace and node for Prometheus. Raises InvalidInput for invalid labels."""
        metrics.check_labels(labels)
        nodes = [({"node": name}, _sum(zones)) for name, zones in sorted(self.nodes.items())]
        spaces = [({"namespace": name}, watts) for name, watts in self._namespaces()]
        families: list[tuple[str, str, metrics.Samples]] = [
            (
                "wattwise_namespace_metered_watts",
                "Power draw of package and memory that Kepler gives to the pods of a namespace.",
                spaces,
            ),
            ("wattwise_node_metered_watts", "Power draw of package and memory of a node.", nodes),
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
        """The namespaces with the most power by name, then the sum of all others."""
        sums: dict[str, float] = {}
        for pod, zones in self.pods.items():
            sums[pod.namespace] = sums.get(pod.namespace, 0.0) + _sum(zones)
        ordered = sorted(sums.items(), key=lambda item: (-item[1], item[0]))
        shown, rest = ordered[:MAX_NAMESPACES], ordered[MAX_NAMESPACES:]
        others = [(OTHERS, math.fsum(watts for _name, watts in rest))] if rest else []
        return [*sorted(shown), *others]


@dataclass
class _Tally:
    """Amounts of the nodes and their pods while they are added.

    ``grown`` are joules of workloads since the last metering, and ``since`` are the times of its
    counts. ``period`` are the seconds of counted energy.
    """

    time: datetime.datetime
    period: float
    known_pods: Pods
    pods: dict[Pod, Zones] = field(default_factory=dict)
    nodes: dict[str, Zones] = field(default_factory=dict)
    cores: dict[Pod, float] = field(default_factory=dict)
    counters: dict[str, Counters] = field(default_factory=dict)
    grown: dict[Workload, float] = field(default_factory=dict)
    since: list[datetime.datetime] = field(default_factory=list)
    left_out: int = 0

    def add(self, node: str, amounts: Amounts, before: Counters | None) -> None:
        """Add the amounts of one node and its pods. Raises TargetFailure for missing ones."""
        zones_of, left_out = self._resolved(node, amounts.pods)
        zones = amounts.node
        if amounts.are_joules or amounts.joules:
            self._count(node, amounts, before)
        if amounts.are_joules:
            zones, zones_of = _power_since(before, self.time, zones, zones_of)
        if zones:
            self.nodes[node] = zones
        self.pods.update(zones_of)
        self.left_out += left_out
        for name, cores in amounts.cores.items():
            pod = self.known_pods.find(name, node)
            if pod is not None:
                self.cores[pod] = cores
        if not amounts.pods and node in self.known_pods.nodes:
            raise TargetFailure(
                "no_sensor",
                "its metrics name no pods; let Kepler read the API (the cluster scope, "
                "--kube.enable), with the metric level pod",
            )

    def _resolved(
        self, node: str, amounts: t.Mapping[PodName, Zones]
    ) -> tuple[dict[Pod, Zones], int]:
        """Amounts by pod of the cluster, and the number of omitted names.

        Names without a pod on the node, and further names of the same pod, are omitted.
        """
        found: dict[Pod, Zones] = {}
        for name, zones in amounts.items():
            pod = self.known_pods.find(name, node)
            if pod is not None:
                found.setdefault(pod, zones)
        return found, len(amounts) - len(found)

    def _count(self, node: str, amounts: Amounts, before: Counters | None) -> None:
        """Keep the counters of a node, and add their growth. Raises TargetFailure."""
        counted, _left_out = self._resolved(node, amounts.counters)
        now = {pod.uid: joules for pod, joules in counted.items() if pod.uid}
        earlier = {} if before is None else before.earlier
        kept = {
            uid: zones
            for uid, zones in earlier.items()
            if uid not in now and self.known_pods.find(PodName(uid, "", ""), node)
        }
        own = amounts.node if amounts.are_joules else {}
        self.counters[node] = Counters(self.time, own, now, kept)
        if before is None or not self.is_recent(before):
            return
        grown = {
            pod: energy.growth(earlier.get(pod.uid, {}), joules)
            for pod, joules in counted.items()
            if pod.uid
        }
        seconds = (self.time - before.time).total_seconds()
        kepler.plausible_joules(math.fsum(grown.values()), seconds + _MAX_SAMPLE_SECONDS)
        self.since.append(before.time)
        for pod, joules in grown.items():
            energy.add(self.grown, {_workload(pod): joules})

    def is_recent(self, counters: Counters) -> bool:
        """Whether the counters were read in the last period."""
        return 0 < (self.time - counters.time).total_seconds() <= self.period

    def keep_silent(self, before: t.Mapping[str, Counters], metered: t.Collection[str]) -> None:
        """Keep the counts of nodes without an answer, so that their growth is not lost."""
        for name, counters in before.items():
            if name in metered and name not in self.counters and self.is_recent(counters):
                self.counters[name] = counters

    def extended(self, parts: t.Sequence[energy.Part]) -> t.Sequence[energy.Part]:
        """The parts of earlier runs with the growth of the counters."""
        if not self.since:
            return parts
        begin = parts[-1].end if parts else min(self.since)
        if begin >= self.time:
            return parts
        return energy.extended(parts, energy.Part(begin, self.time, self.grown), self.period)


def meter(
    options: Parameters,
    snapshot: Object,
    readings: Readings,
    context: Context,
    kube: Kube,
    last: LastMetering = LastMetering(),
    nodes: t.Collection[str] | None = None,
) -> Metering:
    """Query the source, and attribute the power draw to the pods of the snapshot.

    ``nodes``, if given, are the only metered ones. Every defect of a node or server is an error of
    the result. Raises WattwiseError if no query is possible.
    """
    now, period = context.now(), options["energy_period_seconds"]
    parts: t.Sequence[energy.Part] = []
    if last.source == options["source"]:
        parts = energy.of_last_period(last.energy, now, period)
    is_due = energy.is_due(parts, now, period)
    answers = endpoints.ask(options, context, kube, nodes, with_energy=is_due)
    known, pods = _names(snapshot.get("nodes")), Pods(snapshot.get("pods") or ())
    tally = _Tally(now, period, pods)
    metered = known if nodes is None else known.intersection(nodes)
    errors = [*answers.errors, *_add_nodes(tally, answers, known, metered, last, options)]
    if options["source"] == "kepler":
        tally.keep_silent(last.counters, metered)
        parts = tally.extended(parts)
    elif answers.covered_seconds > 0:
        parts = [_last_period(answers, pods, metered, snapshot, now)]
    _warn(errors, context)
    amounts = (tally.pods, tally.nodes, tally.cores, _measured(readings, tally.nodes))
    return Metering(options["source"], now, *amounts, tally.counters, parts, tally.left_out, errors)


def _add_nodes(
    tally: _Tally,
    answers: endpoints.Answers,
    known: t.Collection[str],
    metered: t.Collection[str],
    last: LastMetering,
    options: Parameters,
) -> list[TargetError]:
    """Add the amounts of the metered nodes; returns the errors of others."""
    errors: list[TargetError] = []
    for name, amounts in answers.nodes.items():
        if name not in metered:
            tally.left_out += 0 if name in known else len(amounts.pods)
            continue
        try:
            tally.add(name, amounts, last.counters.get(name))
        except TargetFailure as failure:
            errors.append(error_of(name, _endpoint(options, name), failure))
    if answers.nodes and not any(name in answers.nodes for name in known):
        errors.append(_of_other_nodes(options, next(iter(answers.nodes))))
    return errors


def _names(given: t.Iterable[t.Any] | None) -> set[str]:
    names = (member(one, "metadata", "name") for one in given or ())
    return {name for name in names if isinstance(name, str)}


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


def _power_since(
    before: Counters | None, now: datetime.datetime, zones: Zones, pods: dict[Pod, Zones]
) -> tuple[Zones, dict[Pod, Zones]]:
    """Mean power draw since the last counts. Raises TargetFailure without them."""
    seconds = 0.0 if before is None else (now - before.time).total_seconds()
    watts = None
    if before is not None and _MIN_SECONDS <= seconds <= _MAX_SECONDS:
        watts = kepler.watts_between(before.node, zones, seconds)
    if before is None or watts is None:
        raise TargetFailure(
            "no_sensor",
            "Kepler 0.9 and older counts only energy, and there is no earlier count from the last "
            "hour; the next run gives power",
        )
    found: dict[Pod, Zones] = {}
    for pod, joules in pods.items():
        of_pod = kepler.watts_between(before.pods.get(pod.uid, {}), joules, seconds)
        if of_pod:
            found[pod] = of_pod
    for each in (watts, *found.values()):
        for value in each.values():
            kepler.plausible(value)
    return watts, found


def _zones(given: t.Any) -> Zones:
    return {zone: float(given[zone]) for zone in kepler.ZONES if zone in (given or {})}


def _measured(readings: Readings, nodes: t.Iterable[str]) -> dict[str, float]:
    """Fresh power draw of whole machines."""
    found = fresh_values(readings, "power_watts")
    return {name: found[name] for name in nodes if name in found}


def _warn(errors: t.Sequence[TargetError], context: Context) -> None:
    if errors:
        first = errors[0]
        context.warn(
            f"{len(errors)} errors of metering, whose pods have no power draw; the first is that "
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
