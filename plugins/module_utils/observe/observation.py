# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Readings of one observation: results of all gateways merged, gaps filled, statuses derived.

The work of fleet_readings_info. A value that is missing is taken from the last observation while
that is young enough, then from the NodeConfig's fallback, and is marked as what it is.
"""

from __future__ import annotations

import datetime
import functools
import re
import typing as t
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base import documents
from ansible_collections.wattwise.kube.plugins.module_utils.base.argspec import ArgumentSpec
from ansible_collections.wattwise.kube.plugins.module_utils.base.boundary import (
    Finding,
    InvalidField,
    guarded,
    shown,
    subject_of,
    warn_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.context import (
    Context,
    Parameters,
    Result,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import (
    InvalidInput,
    WattwiseError,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.loose_json import (
    member,
    number,
    objects,
    text,
)
from ansible_collections.wattwise.kube.plugins.module_utils.base.units import (
    format_time,
    parse_time,
)
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig import nodeconfig
from ansible_collections.wattwise.kube.plugins.module_utils.nodeconfig.freshness import (
    FRESH_SOURCES,
    last_value,
    previous_readings,
)
from ansible_collections.wattwise.kube.plugins.module_utils.observe import textfile
from ansible_collections.wattwise.kube.plugins.module_utils.observe.status import status_of
from ansible_collections.wattwise.kube.plugins.module_utils.power.expectation import (
    expected_watts,
    recent_curves,
)
from ansible_collections.wattwise.kube.plugins.module_utils.rmd.manifests import told_caches

Object = t.Mapping[str, t.Any]

_ERROR_KEYS = ("name", "endpoint", "reason", "detail")
QUANTITIES = ("inlet_celsius", "delta_p_pascal", "power_watts")
FALLBACK_ANNOTATIONS = {
    "inlet_celsius": "wattwise.github.io/fallback-inlet-celsius",
    "delta_p_pascal": "wattwise.github.io/fallback-delta-p-pascal",
}
_FALLBACK = re.compile(r"[+-]?[0-9]{1,9}(\.[0-9]{1,9})?")

SPEC = ArgumentSpec(
    {
        "snapshot": {"type": "path", "required": True},
        "thermal": {"type": "list", "elements": "dict", "default": []},
        "pressure": {"type": "list", "elements": "dict", "default": []},
        "models": {"type": "list", "elements": "dict", "default": []},
        "previous": {"type": "path"},
        "max_age": {"type": "float", "default": 300.0},
        "path": {"type": "path"},
        "models_path": {"type": "path"},
        "statuses_path": {"type": "path"},
        "textfile": {"type": "path"},
        "textfile_labels": {"type": "dict", "default": {}},
        "curves": {"type": "path"},
        "usage_source": {
            "type": "str",
            "choices": ["auto", "metrics", "requests"],
            "default": "auto",
        },
        "pod_usage_assumption": {"type": "float", "default": 0.8},
        "min_success": {"type": "float", "default": 0.0},
    }
)


@dataclass
class NodeReading:
    """What is known of one node: value, time and source of each quantity, and what failed."""

    node: str
    values: dict[str, float] = field(default_factory=dict)
    times: dict[str, datetime.datetime] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    errors: list[Object] = field(default_factory=list)
    failing: set[tuple[str, str]] = field(default_factory=set)

    def fail(self, endpoint: str, error: Object) -> None:
        """Remember an error of its BMC (``bmc``) or pressure server (``pressure``)."""
        self.errors.append(error)
        self.failing.add((endpoint, error["reason"]))

    def put(self, quantity: str, value: float, moment: datetime.datetime, source: str) -> None:
        self.values[quantity] = value
        self.times[quantity] = moment
        self.sources[quantity] = source

    @property
    def is_fresh(self) -> bool:
        """Whether both readings that a prediction needs were read now, or not long ago."""
        needed = ("inlet_celsius", "delta_p_pascal")
        return all(self.sources.get(name) in FRESH_SOURCES for name in needed)

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
        }


def observe(parameters: Parameters, context: Context = Context()) -> Result:
    """Merge results, write the documents that were asked for, and say how complete they are.

    Raises WattwiseError, with all results in its fields, where fewer than ``min_success`` of the
    configured nodes were read.
    """
    options = SPEC.complete(parameters)
    made_from = documents.MadeFrom.read(options["snapshot"])
    snapshot = documents.load(options["snapshot"], "snapshot")
    found = nodeconfig.effective(snapshot.get("node_configs") or [])
    findings = list(found.findings)
    present = nodeconfig.present_nodes(snapshot)
    configs = {node: config for node, config in found.by_node.items() if node in present}
    now = context.now()
    configured = sorted(present & {*configs, *found.unreadable})
    readings = {node: NodeReading(node) for node in configured}
    _merge(readings, options["thermal"], {"inlet_celsius": "inlet_celsius"}, now)
    _merge(readings, options["thermal"], {"power_watts": "power_watts"}, now)
    _merge(readings, options["pressure"], {"pascals": "delta_p_pascal"}, now)
    bmcs = [*options["thermal"], *options["models"]]
    errors = _errors(readings, {"bmc": bmcs, "pressure": options["pressure"]})
    _fill_gaps(readings, previous_readings(options["previous"]), options["max_age"], now)
    findings += _fall_back(readings, configs, now)
    result = _result(readings, errors, now)
    # Refused logins come first: whatever fails afterwards, they must not be forgotten.
    findings += _write_statuses(options, readings, configs, result, now, made_from)
    result["findings"] = [finding.as_dict() for finding in findings]
    warn_of(findings, context)
    _write(options, result, now, made_from)
    if options["textfile"]:
        _write_textfile(options, snapshot, readings, now)
    _judge(result, options["min_success"])
    return result


def _entries(
    readings: t.Mapping[str, NodeReading], results: t.Sequence[Object], part: str
) -> t.Iterator[Object]:
    """The entries of that part of all results that are of one of the nodes."""
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
    """Every error once; a node that no result mentions failed with its gateway."""
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


def _is_failure(result: Object) -> bool:
    """Whether a module did not come to its end; its registered result has a message instead."""
    return "readings" not in result and "models" not in result


def _fill_gaps(
    readings: dict[str, NodeReading], previous: Object, max_age: float, now: datetime.datetime
) -> None:
    for node, reading in readings.items():
        for quantity in QUANTITIES:
            if quantity in reading.values:
                continue
            last = last_value(member(previous, node), quantity, now)
            if last is not None and (now - last.time).total_seconds() <= max_age:
                reading.put(quantity, *last, "last")


def _fall_back(
    readings: t.Mapping[str, NodeReading],
    configs: t.Mapping[str, Object],
    now: datetime.datetime,
) -> list[Finding]:
    """Fill gaps that are left with the NodeConfigs' fallbacks; the findings are of unusable ones.

    A fallback that no gap needs is read too, so that its defect is known before it is needed.
    """
    findings = []
    for node, config in configs.items():
        for quantity in FALLBACK_ANNOTATIONS:
            fallback = guarded(
                subject_of(config, "NodeConfig"),
                functools.partial(_fallback, config, quantity),
            )
            if isinstance(fallback, Finding):
                findings.append(fallback)
            elif fallback is not None and quantity not in readings[node].values:
                readings[node].put(quantity, fallback, now, "fallback")
    return findings


def _fallback(config: Object, quantity: str) -> float | None:
    """Raises InvalidField."""
    annotation = FALLBACK_ANNOTATIONS[quantity]
    given = (config["metadata"].get("annotations") or {}).get(annotation)
    if given is None:
        return None
    if _FALLBACK.fullmatch(given.strip()) is None:
        problem = f"{shown(given)} is not a number such as 24.5"
        raise InvalidField(f"metadata.annotations[{annotation}]", problem)
    return float(given)


def _result(
    readings: dict[str, NodeReading], errors: list[Object], now: datetime.datetime
) -> Result:
    inlets = {
        node: reading.values["inlet_celsius"]
        for node, reading in readings.items()
        if reading.sources.get("inlet_celsius") in FRESH_SOURCES
    }
    hottest = max(inlets, key=lambda node: inlets[node], default=None)
    powers = [
        reading.values["power_watts"]
        for reading in readings.values()
        if reading.sources.get("power_watts") in FRESH_SOURCES
    ]
    return {
        "changed": False,
        "readings": {node: reading.as_dict(now) for node, reading in readings.items()},
        "errors": errors,
        "summary": {
            "configured": len(readings),
            "fresh": sum(reading.is_fresh for reading in readings.values()),
            "stale": sum(reading.is_stale for reading in readings.values()),
            "failed": len({error["name"] for error in errors}),
            "hottest_node": hottest,
            "hottest_inlet_celsius": None if hottest is None else inlets[hottest],
            "measured_nodes": len(powers),
            "measured_watts": round(sum(powers), 1),
        },
    }


def _write_statuses(
    options: t.Mapping[str, t.Any],
    readings: dict[str, NodeReading],
    configs: t.Mapping[str, Object],
    result: Result,
    now: datetime.datetime,
    made_from: documents.MadeFrom,
) -> list[Finding]:
    """Write the statuses document; the findings are of NodeConfigs whose status cannot be made."""
    if not options["statuses_path"]:
        return []
    details = _details(readings, [*options["thermal"], *options["models"]])
    statuses: list[dict[str, t.Any]] = []
    findings: list[Finding] = []
    for node, config in configs.items():
        status = guarded(
            subject_of(config, "NodeConfig"),
            functools.partial(status_of, config, readings[node], details.get(node, {}), now),
        )
        if isinstance(status, Finding):
            findings.append(status)
        elif status is not None:
            statuses.append(status)
    body = {"node_configs": [], "statuses": statuses}
    documents.write(options["statuses_path"], "node_configs", body, made_from)
    result["statuses"] = len(statuses)
    return findings


def _write(
    options: t.Mapping[str, t.Any],
    result: Result,
    now: datetime.datetime,
    made_from: documents.MadeFrom,
) -> None:
    if options["path"]:
        body = {"readings": result["readings"], "errors": result["errors"]}
        documents.write(options["path"], "readings", {**body, "time": format_time(now)}, made_from)
    if options["models_path"]:
        models = [entry for result in options["models"] for entry in result.get("models") or []]
        documents.write(options["models_path"], "models", {"models": models}, made_from)


def _write_textfile(
    options: t.Mapping[str, t.Any],
    snapshot: Object,
    readings: dict[str, NodeReading],
    now: datetime.datetime,
) -> None:
    predicted = expected_watts(
        snapshot,
        recent_curves(options["curves"], now),
        options["usage_source"],
        options["pod_usage_assumption"],
    )
    labels, ways = options["textfile_labels"], list(_cache_ways(snapshot))
    content = textfile.render(readings.values(), now, predicted, labels, ways)
    textfile.write(options["textfile"], content)


def _cache_ways(snapshot: Object) -> t.Iterator[textfile.CacheWays]:
    """What the RmdNodeStates say of guaranteed ways."""
    for state in snapshot.get("rmd_node_states") or []:
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
    """Sensors and authentication of each node, as the modules that ask BMCs gave them, in turn."""
    details: dict[str, dict[str, t.Any]] = {}
    for part in ("sensors", "authentication"):
        for entry in _entries(readings, results, part):
            details.setdefault(entry["name"], {})[part] = entry
    return details


def _judge(result: Result, min_success: float) -> None:
    summary = result["summary"]
    if summary["configured"] and summary["fresh"] / summary["configured"] < min_success:
        first = result["errors"][0]["detail"] if result["errors"] else "no reason is known"
        raise WattwiseError(
            f"Only {summary['fresh']} of {summary['configured']} nodes were read, less than "
            f"min_success ({min_success:g}) asks for; the first that failed: {first}",
            **result,
        )
