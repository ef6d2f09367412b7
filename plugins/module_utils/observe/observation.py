# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings of one observation, merged from all polls, with filled gaps and derived statuses.

A missing value is replaced by a recent one of the last observation, else by the fallback of the
NodeConfig, and marked accordingly.
"""

from __future__ import annotations

import datetime
import functools
import typing as t
from dataclasses import dataclass, field

from ..base.boundary import Finding, guarded, read_each
from ..base.context import Result
from ..base.errors import TargetError, WattwiseError
from ..base.fields.lenient import member
from ..base.json_types import Object
from ..base.metrics import Labels, Samples, check_labels, family
from ..nodeconfig.freshness import youngest_value
from ..nodeconfig.models import NodeModels
from ..nodeconfig.readings import (
    QUANTITIES,
    Answers,
    Reading,
    Readings,
    Value,
    errors_of,
    fresh_values,
    mapping_of,
    readings_of,
)
from ..nodeconfig.targets import NodeTarget, Targets
from ..rmd.manifests import told_caches
from .status import HEARTBEAT_SECONDS, MergedNode, status_of

OPTIONS: t.Mapping[str, t.Any] = {
    "max_age": {"type": "float", "default": 300.0},
    "heartbeat_seconds": {"type": "float", "default": HEARTBEAT_SECONDS},
    "textfile": {"type": "path"},
    "textfile_labels": {"type": "dict", "default": {}},
    "min_success": {"type": "float", "default": 0.0},
}
# Quantities by their name in the results of the reading modules.
THERMAL_RESULT = {"inlet_celsius": "inlet_celsius", "power_watts": "power_watts"}
PRESSURE_RESULT = {"pascals": "delta_p_pascal"}


@dataclass(frozen=True)
class Polls:
    """The answers of all hosts that poll machines."""

    thermal: t.Sequence[Answers] = ()
    pressure: t.Sequence[Answers] = ()
    models: t.Sequence[Answers] = ()
    # The first failure of a reader in this process; its answers have the same message.
    failure: WattwiseError | None = None

    @property
    def of_bmcs(self) -> list[Answers]:
        return [*self.thermal, *self.models]

    @property
    def by_endpoint(self) -> dict[str, t.Sequence[Answers]]:
        return {"bmc": self.of_bmcs, "pressure": self.pressure}


@dataclass(frozen=True)
class LastObservation:
    """Readings and errors of the last observation."""

    readings: Readings = field(default_factory=dict)
    errors: t.Sequence[TargetError] = ()

    @classmethod
    def from_document(cls, document: Object | None) -> LastObservation:
        """Nothing without a readings document."""
        return cls(readings_of(document), errors_of(member(document, "errors")))


Nodes = t.Mapping[str, MergedNode]


@dataclass(frozen=True)
class Observation:
    """One observation: the readings of every configured node, with derived data.

    ``statuses`` are manifests for kube_apply of NodeConfigs with a new status.
    """

    time: datetime.datetime
    nodes: Nodes
    readings: Readings
    models: t.Sequence[NodeModels]
    statuses: t.Sequence[Result]
    errors: t.Sequence[TargetError]
    findings: t.Sequence[Finding]
    summary: Result

    def as_document(self) -> Result:
        """The body of readings.json."""
        return {
            "readings": {name: one.as_document(self.time) for name, one in self.readings.items()},
            "errors": [error.as_dict() for error in self.errors],
        }

    def judge(self, min_success: float) -> None:
        """Raise WattwiseError, with the result in its fields, if too few nodes were read."""
        configured, fresh = self.summary["configured"], self.summary["fresh"]
        if configured and fresh / configured < min_success:
            first = self.errors[0].detail if self.errors else "no reason is known"
            raise WattwiseError(
                f"Only {fresh} of {configured} nodes were read, less than "
                f"min_success ({min_success:g}) asks for; the first that failed: {first}",
                changed=False,
                summary=self.summary,
                findings=[finding.as_dict() for finding in self.findings],
                **self.as_document(),
            )

    def metrics(self, labels: t.Mapping[str, str], rmd_node_states: t.Sequence[t.Any] = ()) -> str:
        """The readings for Prometheus; ``labels`` are added to every sample.

        Metrics of cache ways need ``rmd_node_states``. Raises InvalidInput for invalid labels.
        """
        check_labels(labels)
        nodes = list(self.nodes.values())
        text, moment = "Unix time at which the nodes were read.", self.time.timestamp()
        families = (
            *_quantities(nodes),
            *_freshness(nodes, self.time),
            *_caches(rmd_node_states),
            ("wattwise_observation_timestamp_seconds", text, [({}, moment)]),
        )
        return "".join(family(*each, labels) for each in families)


def merge(
    targets: Targets,
    polls: Polls,
    last: LastObservation,
    *,
    max_age: float,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    now: datetime.datetime,
) -> Observation:
    """One observation from the answers of all polls.

    The last value of the last observation or of the NodeConfig's status, up to ``max_age`` seconds
    old, replaces a missing one, else the fallback of the NodeConfig. A machine that was not read
    this time keeps its last errors. Stored readings older than ``heartbeat_seconds`` are written
    again.
    """
    nodes = {target.name: _unread(target) for target in targets.nodes}
    _put_values(nodes, polls)
    errors = _errors(nodes, polls) + _still_failing(nodes, last)
    for target in targets.nodes:
        _fill_gaps(nodes[target.name], target, last.readings.get(target.name), max_age, now)
    findings = list(targets.findings)
    _identify(nodes, targets, polls, last)
    details = _details(nodes, polls)
    readings = {name: node.reading for name, node in nodes.items()}

    def status(target: NodeTarget) -> Result | None:
        own, node = details.get(target.name, {}), nodes[target.name]
        return status_of(target, node, own, now, heartbeat_seconds)

    return Observation(
        time=now,
        nodes=nodes,
        readings=readings,
        models=[models for answers in polls.models for models in answers.models],
        statuses=_statuses(targets, status, findings),
        errors=errors,
        findings=findings,
        summary=_summary(nodes, readings, errors),
    )


T = t.TypeVar("T")


def _known(nodes: Nodes, by_name: t.Mapping[str, T]) -> list[tuple[str, T]]:
    """The entries of configured nodes."""
    return [(name, one) for name, one in by_name.items() if name in nodes]


def _unread(target: NodeTarget) -> MergedNode:
    pressure = {"delta_p_pascal"} if "delta_p" in target.endpoints else set()
    has_power_model = any(kind.startswith("power_consumption") for kind in target.endpoints)
    return MergedNode(target.name, frozenset({"inlet_celsius", *pressure}), has_power_model)


def _put_values(nodes: Nodes, polls: Polls) -> None:
    for answers in (*polls.thermal, *polls.pressure):
        for name, values in _known(nodes, answers.values):
            nodes[name].values.update(values)


def _identify(nodes: Nodes, targets: Targets, polls: Polls, last: LastObservation) -> None:
    """The identity of each server, read now or before."""
    for target in targets.nodes:
        system = mapping_of(member(target.status, "sensors", "system"))
        before = last.readings.get(target.name, Reading())
        nodes[target.name].system = system or before.system
    for answers in polls.thermal:
        for name, sensors in _known(nodes, answers.sensors):
            system = mapping_of(sensors.get("system"))
            if system:
                nodes[name].system = system


def _errors(nodes: Nodes, polls: Polls) -> list[TargetError]:
    """All errors without duplicates; a node in no result failed with its gateway."""
    errors: dict[TargetError, None] = {}
    for endpoint, of_endpoint in polls.by_endpoint.items():
        for error in (error for answers in of_endpoint for error in answers.errors):
            if error.name in nodes and error not in errors:
                errors[error] = None
                nodes[error.name].fail(endpoint, error)
    failed = [
        (endpoint, answers.failure)
        for endpoint, of_endpoint in polls.by_endpoint.items()
        for answers in of_endpoint
        if answers.failure is not None
    ]
    for node in nodes.values():
        if failed and not node.errors and not node.is_fresh:
            endpoint, message = failed[0]
            detail = f"The host that reads this node failed: {message}"
            error = TargetError(node.node, "", "unreachable", detail)
            errors[error] = None
            node.fail(endpoint, error)
    return list(errors)


def _still_failing(nodes: Nodes, last: LastObservation) -> list[TargetError]:
    """Errors of nodes that failed at their last read, because earlier values are no readings.

    A run that keeps valid readings only reads others.
    """
    by_node: dict[str, list[TargetError]] = {}
    for error in last.errors:
        by_node.setdefault(error.name, []).append(error)
    found: list[TargetError] = []
    for name, node in nodes.items():
        before = last.readings.get(name, Reading()).values
        old = [
            quantity
            for quantity, value in node.values.items()
            if value.source == "kept" and quantity in before and before[quantity].source == "last"
        ]
        if not old or node.errors or name not in by_node:
            continue
        endpoint = "pressure" if old == ["delta_p_pascal"] else "bmc"
        for quantity in old:
            node.values[quantity] = node.values[quantity]._replace(source="last")
        for error in by_node[name]:
            node.fail(endpoint, error)
            found.append(error)
    return found


def _fill_gaps(
    node: MergedNode,
    target: NodeTarget,
    before: Reading | None,
    max_age: float,
    now: datetime.datetime,
) -> None:
    """Fill missing values with the last one, else with the NodeConfig's fallback."""
    for quantity in QUANTITIES:
        if quantity in node.values:
            continue
        last = youngest_value(before or Reading(), target.status, quantity, now)
        if last is not None and last.age_seconds(now) <= max_age:
            node.values[quantity] = last._replace(source="last")
        elif quantity in target.fallbacks:
            node.values[quantity] = Value(target.fallbacks[quantity], now, "fallback")


def _summary(nodes: Nodes, readings: Readings, errors: t.Sequence[TargetError]) -> Result:
    inlets, powers = (
        fresh_values(readings, quantity) for quantity in ("inlet_celsius", "power_watts")
    )
    hottest = max(inlets, key=lambda name: inlets[name], default=None)
    return {
        "configured": len(nodes),
        "fresh": sum(node.is_fresh for node in nodes.values()),
        "stale": sum(reading.is_stale for reading in readings.values()),
        "failed": len({error.name for error in errors}),
        "hottest_node": hottest,
        "hottest_inlet_celsius": None if hottest is None else inlets[hottest],
        "measured_nodes": len(powers),
        "measured_watts": round(sum(powers.values()), 1),
    }


def _statuses(
    targets: Targets, make: t.Callable[[NodeTarget], Result | None], findings: list[Finding]
) -> list[Result]:
    """Statuses to write; a failure becomes a finding of the NodeConfig."""
    statuses: list[Result] = []
    for target in targets.nodes:
        if target.api_version is None:
            continue
        status = guarded(target.subject, functools.partial(make, target))
        if isinstance(status, Finding):
            findings.append(status)
        elif status is not None:
            statuses.append(status)
    return statuses


def _details(nodes: Nodes, polls: Polls) -> dict[str, dict[str, Object]]:
    """Sensors and authentication by node, from the polls of BMCs, in order."""
    details: dict[str, dict[str, Object]] = {}
    for answers in polls.of_bmcs:
        for part, by_name in (
            ("sensors", answers.sensors),
            ("authentication", answers.authentication),
        ):
            for name, entry in _known(nodes, by_name):
                details.setdefault(name, {})[part] = entry
    return details


_GAUGES = {
    "inlet_celsius": ("inlet_temp_celsius", "Inlet air temperature of a node."),
    "delta_p_pascal": ("delta_p_pascal", "Differential pressure across a node's rack."),
    "power_watts": ("node_power_watts", "Power that a whole node draws."),
}


def _quantities(readings: t.Sequence[MergedNode]) -> t.Iterator[tuple[str, str, Samples]]:
    for quantity, (name, text) in _GAUGES.items():
        samples = [
            ({"node": reading.node}, reading.values[quantity].value)
            for reading in readings
            if quantity in reading.values
        ]
        yield name, text, samples


def _freshness(
    readings: t.Sequence[MergedNode], now: datetime.datetime
) -> t.Iterator[tuple[str, str, Samples]]:
    ages = [
        ({"node": reading.node, "quantity": _GAUGES[quantity][0]}, max(0.0, value.age_seconds(now)))
        for reading in readings
        for quantity, value in reading.values.items()
    ]
    yield "wattwise_reading_age_seconds", "Age of a node's reading.", ages
    failing = [
        ({"node": reading.node, "endpoint": endpoint, "reason": reason}, 1.0)
        for reading in readings
        for endpoint, reason in sorted(reading.failing)
    ]
    text = "1 for each reason for which a node's BMC or pressure server gave no reading."
    yield "wattwise_endpoint_failing", text, failing
    fresh = [({"node": reading.node}, float(reading.is_fresh)) for reading in readings]
    text = "1 for a node whose temperature and pressure were both read just now, else 0."
    yield "wattwise_node_read", text, fresh


def _caches(rmd_node_states: t.Sequence[t.Any]) -> t.Iterator[tuple[str, str, Samples]]:
    """Free guaranteed ways of each cache: their number and the longest run."""
    states = read_each(rmd_node_states, "RmdNodeState", _ways_of, [])
    found = [each for _state, ways in states for each in ways]
    if found:
        free = [(own, count) for own, count, _run in found]
        yield "wattwise_cache_free_ways", "Free guaranteed ways of a cache.", free
        longest = [(own, run) for own, _count, run in found]
        text = "Free guaranteed ways of a cache side by side, the most that one workload gets."
        yield "wattwise_cache_longest_free_run_ways", text, longest


def _ways_of(state: Object) -> list[tuple[Labels, float, float]]:
    return [
        (
            {"node": str(state["spec"]["node"]), "cache": str(cache["cacheId"])},
            float(int(pool["freeWays"])),
            float(int(pool["longestFreeRun"])),
        )
        for cache in told_caches(state)
        for pool in [cache.get("guaranteed")]
        if pool
    ]
