# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings of one observation, merged from all gateways, with filled gaps and derived statuses.

This is the work of fleet_readings_info. A missing value is replaced by a recent one of the last
observation, else by the fallback of the NodeConfig, and marked accordingly.
"""

from __future__ import annotations

import datetime
import functools
import typing as t
from dataclasses import dataclass, field
from types import MappingProxyType

from ..base import documents, metrics
from ..base.argspec import ArgumentSpec
from ..base.boundary import Finding, guarded, subject_of, warn_of
from ..base.context import Context, Parameters, Result
from ..base.errors import InvalidInput, WattwiseError
from ..base.fields.lenient import member, number, objects, text
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..nodeconfig.freshness import FRESH_SOURCES, previous_readings, youngest_value
from ..nodeconfig.targets import NodeTarget, Targets, of_snapshot
from ..rmd.manifests import told_caches
from . import textfile
from .status import HEARTBEAT_SECONDS, status_of

_ERROR_KEYS = ("name", "endpoint", "reason", "detail")
QUANTITIES = ("inlet_celsius", "delta_p_pascal", "power_watts")

SPEC = ArgumentSpec(
    {
        "snapshot": {"type": "path", "required": True},
        "thermal": {"type": "list", "elements": "dict", "default": []},
        "pressure": {"type": "list", "elements": "dict", "default": []},
        "models": {"type": "list", "elements": "dict", "default": []},
        "previous": {"type": "path"},
        "max_age": {"type": "float", "default": 300.0},
        "heartbeat_seconds": {"type": "float", "default": HEARTBEAT_SECONDS},
        "path": {"type": "path"},
        "models_path": {"type": "path"},
        "statuses_path": {"type": "path"},
        "textfile": {"type": "path"},
        "textfile_labels": {"type": "dict", "default": {}},
        "min_success": {"type": "float", "default": 0.0},
    }
)


@dataclass
class NodeReading:
    """Value, time and source of each quantity of one node, and failures.

    ``needed`` are the quantities with a source in the NodeConfig. Without a power model, the watts
    of a BMC suffice in place of its inlet temperature. ``system`` is the identity of the server.
    """

    node: str
    needed: frozenset[str] = frozenset({"inlet_celsius"})
    has_power_model: bool = True
    system: Object = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    times: dict[str, datetime.datetime] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    errors: list[Object] = field(default_factory=list)
    failing: set[tuple[str, str]] = field(default_factory=set)

    def fail(self, endpoint: str, error: Object) -> None:
        """Record an error of the BMC (``bmc``) or the pressure server (``pressure``)."""
        self.errors.append(error)
        self.failing.add((endpoint, error["reason"]))

    def put(self, quantity: str, value: float, moment: datetime.datetime, source: str) -> None:
        self.values[quantity] = value
        self.times[quantity] = moment
        self.sources[quantity] = source

    @property
    def is_fresh(self) -> bool:
        """Whether all configured quantities have fresh readings."""
        fresh = {name for name, source in self.sources.items() if source in FRESH_SOURCES}
        if "power_watts" in fresh and not self.has_power_model:
            fresh.add("inlet_celsius")
        return self.needed <= fresh

    @property
    def is_stale(self) -> bool:
        return "last" in self.sources.values()

    def as_dict(self, now: datetime.datetime) -> dict[str, t.Any]:
        """The entry in readings.json."""
        return {
            **{name: self.values.get(name) for name in QUANTITIES},
            "time": format_time(min(self.times.values(), default=now)),
            "times": {name: format_time(moment) for name, moment in self.times.items()},
            "source": self.sources,
            "stale": self.is_stale,
            **({"system": dict(self.system)} if self.system else {}),
        }


@dataclass(frozen=True)
class Observation:
    """One observation: the readings of every configured node, with derived data.

    ``readings`` and ``models`` have the form of their documents. ``statuses`` are manifests for
    kube_apply of NodeConfigs with a new status.
    """

    time: datetime.datetime
    nodes: t.Mapping[str, NodeReading]
    readings: t.Mapping[str, Result]
    models: t.Sequence[Object]
    statuses: t.Sequence[Result]
    errors: t.Sequence[Object]
    findings: t.Sequence[Finding]
    summary: Result

    @property
    def result(self) -> Result:
        """The result of fleet_readings_info."""
        return {
            "changed": False,
            "readings": dict(self.readings),
            "errors": list(self.errors),
            "summary": self.summary,
            "findings": [finding.as_dict() for finding in self.findings],
        }

    def judge(self, min_success: float) -> None:
        """Raise WattwiseError, with the result in its fields, if too few nodes were read."""
        configured, fresh = self.summary["configured"], self.summary["fresh"]
        if configured and fresh / configured < min_success:
            first = self.errors[0]["detail"] if self.errors else "no reason is known"
            raise WattwiseError(
                f"Only {fresh} of {configured} nodes were read, less than "
                f"min_success ({min_success:g}) asks for; the first that failed: {first}",
                **self.result,
            )

    def metrics(self, labels: t.Mapping[str, str], rmd_node_states: t.Sequence[t.Any] = ()) -> str:
        """The readings for Prometheus. Raises InvalidInput for invalid labels."""
        ways = list(_cache_ways(rmd_node_states))
        return textfile.render(self.nodes.values(), self.time, labels, ways)


def observe(parameters: Parameters, context: Context = Context()) -> Result:
    """Merge results, write the requested documents, and check their completeness.

    Raises WattwiseError, with all results in its fields, if fewer than ``min_success`` of the
    configured nodes were read.
    """
    options = SPEC.complete(parameters)
    made_from = documents.MadeFrom.read(options["snapshot"])
    snapshot = documents.load(options["snapshot"], "snapshot")
    found = merge(
        of_snapshot(snapshot),
        options["thermal"],
        options["pressure"],
        options["models"],
        previous=previous_readings(options["previous"]),
        max_age=options["max_age"],
        heartbeat_seconds=options["heartbeat_seconds"],
        now=context.now(),
    )
    result = found.result
    # Refused logins come first, so that no later failure loses them.
    if options["statuses_path"]:
        body = {"node_configs": [], "statuses": found.statuses}
        documents.write(options["statuses_path"], "node_configs", body, made_from)
        result["statuses"] = len(found.statuses)
    warn_of(found.findings, context)
    _write(options, found, made_from)
    if options["textfile"]:
        states = snapshot.get("rmd_node_states") or []
        metrics.write(options["textfile"], found.metrics(options["textfile_labels"], states))
    found.judge(options["min_success"])
    return result


def merge(
    targets: Targets,
    thermal: t.Sequence[Object],
    pressure: t.Sequence[Object],
    models: t.Sequence[Object],
    *,
    previous: Object = MappingProxyType({}),
    previous_errors: t.Sequence[Object] = (),
    max_age: float,
    heartbeat_seconds: float = HEARTBEAT_SECONDS,
    now: datetime.datetime,
) -> Observation:
    """One observation from the results of the reading modules.

    ``previous`` are the readings of the last observation by node. The last value of these or of the
    NodeConfig's status, up to ``max_age`` seconds old, replaces a missing one, else the fallback of
    the NodeConfig. A machine that was not read this time keeps its errors in ``previous_errors`` of
    the last observation. Stored readings older than ``heartbeat_seconds`` are written again.
    """
    nodes = _unread(targets)
    _merge(nodes, thermal, {name: name for name in ("inlet_celsius", "power_watts")}, now)
    _merge(nodes, pressure, {"pascals": "delta_p_pascal"}, now)
    errors = _errors(nodes, {"bmc": [*thermal, *models], "pressure": pressure})
    errors += _still_failing(nodes, previous, previous_errors)
    for target in targets.nodes:
        _fill_gaps(nodes[target.name], target, member(previous, target.name), max_age, now)
    findings = list(targets.findings)
    _identify(nodes, targets, previous, thermal)
    details = _details(nodes, [*thermal, *models])
    make = functools.partial(_status, nodes, details, now, heartbeat_seconds)
    return Observation(
        time=now,
        nodes=nodes,
        readings={name: node.as_dict(now) for name, node in nodes.items()},
        models=[entry for result in models for entry in result.get("models") or []],
        statuses=_statuses(targets, make, findings),
        errors=errors,
        findings=findings,
        summary=_summary(nodes, errors),
    )


def _unread(targets: Targets) -> dict[str, NodeReading]:
    nodes: dict[str, NodeReading] = {}
    for target in targets.nodes:
        pressure = {"delta_p_pascal"} if "delta_p" in target.endpoints else set()
        has_power_model = any(kind.startswith("power_consumption") for kind in target.endpoints)
        needed = frozenset({"inlet_celsius", *pressure})
        nodes[target.name] = NodeReading(target.name, needed, has_power_model)
    return nodes


def _identify(
    nodes: t.Mapping[str, NodeReading],
    targets: Targets,
    previous: Object,
    thermal: t.Sequence[Object],
) -> None:
    """The identity of each server, read now or before."""
    for target in targets.nodes:
        stored = member(target.status, "sensors", "system") or member(
            previous, target.name, "system"
        )
        nodes[target.name].system = _mapping(stored)
    for entry in _entries(nodes, thermal, "sensors"):
        told = _mapping(entry.get("system"))
        if told:
            nodes[entry["name"]].system = told


def _mapping(given: t.Any) -> Object:
    return given if isinstance(given, dict) else {}


def _entries(
    readings: t.Mapping[str, NodeReading], results: t.Sequence[Object], part: str
) -> t.Iterator[Object]:
    """Entries of one part of all results for known nodes."""
    for result in results:
        for entry in objects(member(result, part)):
            name = entry.get("name")
            if isinstance(name, str) and name in readings:
                yield entry


def _merge(
    readings: dict[str, NodeReading],
    results: t.Sequence[Object],
    names: t.Mapping[str, str],
    now: datetime.datetime,
) -> None:
    for entry in _entries(readings, results, "readings"):
        for given, quantity in names.items():
            value = number(entry.get(given))
            if value is None:
                continue
            kept = member(entry, "kept", given)
            moment = now if kept is None else _moment(kept)
            if moment is not None:
                source = "read" if kept is None else "kept"
                readings[entry["name"]].put(quantity, value, moment, source)


def _moment(given: t.Any) -> datetime.datetime | None:
    try:
        return parse_time(given)
    except InvalidInput:
        return None


def _errors(
    readings: dict[str, NodeReading], results: t.Mapping[str, t.Sequence[Object]]
) -> list[Object]:
    """All errors without duplicates; a node in no result failed with its gateway."""
    errors: dict[tuple[str, ...], Object] = {}
    for endpoint, of_endpoint in results.items():
        for given in _entries(readings, of_endpoint, "errors"):
            error = {key: text(given.get(key)) for key in _ERROR_KEYS}
            if tuple(error.values()) not in errors:
                errors[tuple(error.values())] = error
                readings[error["name"]].fail(endpoint, error)
    failed = [
        (endpoint, text(member(result, "msg")))
        for endpoint, of_endpoint in results.items()
        for result in of_endpoint
        if _is_failure(result)
    ]
    for reading in readings.values():
        if failed and not reading.errors and not reading.is_fresh:
            endpoint, message = failed[0]
            error = {
                "name": reading.node,
                "endpoint": "",
                "reason": "unreachable",
                "detail": f"The host that reads this node failed: {message}",
            }
            errors[tuple(error.values())] = error
            reading.fail(endpoint, error)
    return list(errors.values())


def _still_failing(
    readings: t.Mapping[str, NodeReading], previous: Object, previous_errors: t.Sequence[Object]
) -> list[Object]:
    """Errors of nodes that failed at their last read, because earlier values are no readings.

    A run that keeps valid readings only reads others.
    """
    known: dict[str, list[Object]] = {}
    for error in previous_errors:
        known.setdefault(text(error.get("name")), []).append(error)
    found: list[Object] = []
    for node, reading in readings.items():
        old = [
            quantity
            for quantity, source in reading.sources.items()
            if source == "kept" and member(previous, node, "source", quantity) == "last"
        ]
        if not old or reading.errors or node not in known:
            continue
        endpoint = "pressure" if old == ["delta_p_pascal"] else "bmc"
        for quantity in old:
            reading.sources[quantity] = "last"
        for given in known[node]:
            error = {key: text(given.get(key)) for key in _ERROR_KEYS}
            reading.fail(endpoint, error)
            found.append(error)
    return found


def _is_failure(result: Object) -> bool:
    """Whether the registered result comes from a failed module, with a message."""
    return "readings" not in result and "models" not in result


def _fill_gaps(
    reading: NodeReading,
    target: NodeTarget,
    previous: t.Any,
    max_age: float,
    now: datetime.datetime,
) -> None:
    """Fill missing values with the last one, else with the NodeConfig's fallback."""
    for quantity in QUANTITIES:
        if quantity in reading.values:
            continue
        last = youngest_value(previous, target.status, quantity, now)
        if last is not None and (now - last.time).total_seconds() <= max_age:
            reading.put(quantity, *last, "last")
        elif quantity in target.fallbacks:
            reading.put(quantity, target.fallbacks[quantity], now, "fallback")


def _summary(nodes: t.Mapping[str, NodeReading], errors: t.Sequence[Object]) -> Result:
    inlets = {
        node: reading.values["inlet_celsius"]
        for node, reading in nodes.items()
        if reading.sources.get("inlet_celsius") in FRESH_SOURCES
    }
    hottest = max(inlets, key=lambda node: inlets[node], default=None)
    powers = [
        reading.values["power_watts"]
        for reading in nodes.values()
        if reading.sources.get("power_watts") in FRESH_SOURCES
    ]
    return {
        "configured": len(nodes),
        "fresh": sum(reading.is_fresh for reading in nodes.values()),
        "stale": sum(reading.is_stale for reading in nodes.values()),
        "failed": len({error["name"] for error in errors}),
        "hottest_node": hottest,
        "hottest_inlet_celsius": None if hottest is None else inlets[hottest],
        "measured_nodes": len(powers),
        "measured_watts": round(sum(powers), 1),
    }


def _status(
    nodes: t.Mapping[str, NodeReading],
    details: t.Mapping[str, Object],
    now: datetime.datetime,
    heartbeat_seconds: float,
    target: NodeTarget,
) -> Result | None:
    own = details.get(target.name, {})
    return status_of(target, nodes[target.name], own, now, heartbeat_seconds)


def _statuses(
    targets: Targets,
    make: t.Callable[[NodeTarget], Result | None],
    findings: list[Finding],
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


def _write(options: Parameters, found: Observation, made_from: documents.MadeFrom) -> None:
    if options["path"]:
        body = {"readings": found.readings, "errors": found.errors, "time": format_time(found.time)}
        documents.write(options["path"], "readings", body, made_from)
    if options["models_path"]:
        documents.write(options["models_path"], "models", {"models": found.models}, made_from)


def _cache_ways(rmd_node_states: t.Sequence[t.Any]) -> t.Iterator[textfile.CacheWays]:
    """Guaranteed ways in the RmdNodeStates."""
    for state in rmd_node_states:
        ways = guarded(subject_of(state, "RmdNodeState"), functools.partial(_ways_of, state))
        yield from () if isinstance(ways, Finding) else ways


def _ways_of(state: Object) -> list[textfile.CacheWays]:
    return [
        textfile.CacheWays(
            str(state["spec"]["node"]),
            str(cache["cacheId"]),
            int(pool["freeWays"]),
            int(pool["longestFreeRun"]),
        )
        for cache in told_caches(state)
        for pool in [cache.get("guaranteed")]
        if pool
    ]


def _details(
    readings: t.Mapping[str, NodeReading], results: t.Sequence[Object]
) -> dict[str, dict[str, t.Any]]:
    """Sensors and authentication by node, from the modules that read BMCs, in order."""
    details: dict[str, dict[str, t.Any]] = {}
    for part in ("sensors", "authentication"):
        for entry in _entries(readings, results, part):
            details.setdefault(entry["name"], {})[part] = entry
    return details
