# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""JSON schemas (draft 7) of the documents; ``schemas/`` holds the same as files for other tools.

The schemas are Python values because Ansible transfers only Python files to remote hosts.
"""

from __future__ import annotations

import typing as t

Schema = dict[str, t.Any]


def _list(items: Schema, **limits: int) -> Schema:
    return {"type": "array", **limits, "items": items}


def _by_name(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


def _record(required: Schema, optional: Schema | None = None) -> Schema:
    return {
        "type": "object",
        "required": [*required],
        "properties": {**required, **(optional or {})},
    }


def _members(optional: Schema) -> Schema:
    return {"type": "object", "properties": optional}


def _only(record: Schema) -> Schema:
    """The record without further members."""
    return {**record, "additionalProperties": False}


_TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
_TEXT: Schema = {"type": "string"}
_TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
_BOOLEAN: Schema = {"type": "boolean"}
_BOOLEAN_OR_NULL: Schema = {"type": ["boolean", "null"]}
_INTEGER: Schema = {"type": "integer"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_POSITIVE_COUNT: Schema = {"type": "integer", "minimum": 1}
_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_NUMBER: Schema = {"type": "number"}
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
_AMOUNT: Schema = {"type": "number", "minimum": 0}
_AMOUNT_OR_NULL: Schema = {"type": ["number", "null"], "minimum": 0}
_POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0}
_ANY: Schema = {"type": "object"}
_ANY_OR_NULL: Schema = {"type": ["object", "null"]}
_TEXTS = _list(_TEXT)
_NUMBERS = _list(_NUMBER)
_JOULES = _by_name(_AMOUNT)
_OBJECTS = _list({"type": "object", "required": ["metadata"]})
_ERRORS = _list(_record({"name": _TEXT, "reason": _TEXT, "detail": _TEXT}, {"endpoint": _TEXT}))
# Findings about objects; see boundary.py.
_FINDINGS = _list(
    {**_by_name(_TEXT), "required": ["kind", "namespace", "name", "field", "problem"]}
)
# Phases of machines that sleep; see sleep/machine.py.
_PHASES = ("awake", "draining", "going_off", "asleep", "waking", "quarantined")
_PHASE: Schema = {"enum": [*_PHASES]}
_PLACEMENT: Schema = {"namespace": _TEXT, "pod": _TEXT, "node": _TEXT}
_DAEMON = _record(
    {
        "caches": _list(
            _record(
                {
                    "id": _INTEGER,
                    "ways": _INTEGER,
                    "cpus": _TEXT,
                    "shares": _list(
                        _record(
                            {
                                "first": _INTEGER,
                                "count": _INTEGER,
                                "use": {"enum": ["free", "held", "unknown", "system", "unused"]},
                            },
                            {
                                "pool": {"enum": ["guaranteed", "besteffort", "shared", "os"]},
                                "holders": _TEXTS,
                            },
                        )
                    ),
                }
            )
        ),
        "workloads": _list(
            _record(
                {
                    "id": _TEXT,
                    "uuid": _TEXT,
                    "cpus": _TEXT,
                    "pool": {"enum": ["guaranteed", "besteffort", "shared", ""]},
                },
                {"most": _INTEGER, "least": _INTEGER, "workload": _TEXT, "pod": _TEXT},
            )
        ),
    }
)
_ENDPOINT = _only(
    _record(
        {"type": _TEXT, "endpoint": _TEXT, "fetch_interval_seconds": _POSITIVE},
        {"secret_name": _TEXT, "tls_fingerprints": _TEXTS, "problem": _TEXT},
    )
)
# Resolved NodeConfigs without empty members; see nodeconfig/targets.py.
_ENDPOINTS = ("inlet_temp", "delta_p", "power_consumption", "power_consumption_endpoint_provider")
_NODE_TARGETS = _only(
    _record(
        {
            "name": _TEXT,
            "node_config": _TEXT,
            "namespace": _TEXT,
            "endpoints": _only(_members(dict.fromkeys(_ENDPOINTS, _ENDPOINT))),
        },
        {
            "api_version": _TEXT,
            "uid": _TEXT,
            "labels": _by_name(_TEXT),
            "cpu_capacity": _TEXT,
            "cpu_usage_format": _TEXT,
            "power_curve": _TEXT,
            "power_secret": _TEXT,
            "system": _TEXT,
            "fallbacks": _only(_members({"inlet_celsius": _NUMBER, "delta_p_pascal": _NUMBER})),
            "status": _ANY,
        },
    )
)
_TARGETS = _only(_record({"nodes": _list(_NODE_TARGETS), "findings": _FINDINGS}))


def _schema(kind: str, properties: Schema, optional: Schema) -> Schema:
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"wattwise.kube {kind} document",
        "type": "object",
        "required": ["document", "time", *properties],
        "properties": {
            "document": {"const": f"wattwise.kube/{kind}/v1"},
            "time": _TIME,
            # Run of the snapshot that the document was made from, if any.
            "run": {"type": "string", "pattern": "^[0-9a-f]{32}$"},
            **properties,
            **optional,
        },
    }


_MOVE = _record(
    {"namespace": _TEXT, "pod": _TEXT, "from_node": _TEXT, "to_node": _TEXT, "gain_watts": _NUMBER},
    {"uid": _TEXT_OR_NULL},
)
# Evidence of a curve that was learned from samples of the node, or of its server type.
_LEARNED = _record(
    {
        "of": {"enum": ["node", "type"]},
        "samples": _POSITIVE_COUNT,
        "nodes": _POSITIVE_COUNT,
        "error_percent": _AMOUNT,
        "load_percent": _NUMBERS,
    },
    # Evidence of its type, whose slopes continue the curve beyond the loads of the node.
    {"beyond": _ANY},
)
# The published measurements that a curve comes from; see published/curves.py.
_PUBLISHED = _record(
    {
        "match": {"enum": ["processor", "series", "generation", "model"]},
        "of": _list(_TEXT, minItems=1),
        "scale": _POSITIVE,
        "generations": _COUNT,
        "server": _TEXT,
        "told_by": {"enum": ["labels", "Redfish", "annotation"]},
    }
)
_HOST = _record(
    {
        "name": _TEXT,
        "namespace": _TEXT,
        "rack": _TEXT_OR_NULL,
        "roles": _list({"enum": ["master", "worker"]}),
        "label": _TEXT_OR_NULL,
        "why": _TEXT,
        "processors": _COUNT_OR_NULL,
        "memory_mib": _COUNT_OR_NULL,
        "sriov": _BOOLEAN_OR_NULL,
        "qat": _BOOLEAN_OR_NULL,
        "gpus": _COUNT_OR_NULL,
    }
)
_READING = _record(
    {
        "inlet_celsius": _NUMBER_OR_NULL,
        "delta_p_pascal": _NUMBER_OR_NULL,
        "power_watts": _NUMBER_OR_NULL,
    },
    {
        "time": _TIME,
        "source": {"type": ["object", "string", "null"]},
        "stale": _BOOLEAN,
        # Identity of the server; see published/curves.py.
        "system": _ANY,
    },
)
_METERED_POD = _record(
    {**_PLACEMENT, "package_watts": _AMOUNT_OR_NULL, "dram_watts": _AMOUNT_OR_NULL},
    {"uid": _TEXT, "workload_kind": _TEXT, "workload": _TEXT, "cpu_cores": _AMOUNT_OR_NULL},
)
_METERED_NODE = _record(
    {"rapl_watts": _AMOUNT, "measured_watts": _NUMBER_OR_NULL, "difference_watts": _NUMBER_OR_NULL},
    {"package_watts": _AMOUNT_OR_NULL, "dram_watts": _AMOUNT_OR_NULL},
)
_ENERGY = _record(
    {
        "begin": _TIME,
        "end": _TIME,
        "workloads": _list(
            _record(
                {"namespace": _TEXT, "workload_kind": _TEXT, "workload": _TEXT, "joules": _AMOUNT}
            )
        ),
    }
)
_COUNTERS = _record(
    {"time": _TIME, "node": _JOULES, "pods": _by_name(_JOULES)},
    # Counters of pods that are missing from the metrics this time.
    {"kept": _by_name(_JOULES)},
)
_CURVE = _record(
    {"cpu": _NUMBERS, "watts": _NUMBERS},
    {
        "source": {"enum": ["stated", "predictor", "learned", "published"]},
        # Inputs and time of the prediction or the fit.
        "inputs": _ANY,
        "learned": _LEARNED,
        "published": _PUBLISHED,
        # The predictor's curve of a node with a stated curve.
        "predicted": _ANY,
    },
)
_STEP = _record(
    {
        "gain_watts": _NUMBER,
        "cost_if_stopped_watts": _AMOUNT,
        "asleep": _TEXTS,
        "moves": _list(_MOVE, minItems=1),
    }
)
_COMPARED = _record(
    {
        "strategy": _TEXT,
        "watts_after": _NUMBER,
        "watts_added": _NUMBER,
        "placed": _INTEGER,
        "unplaced": _INTEGER,
    },
    {"placed_unpriced": _INTEGER},
)
# The nodes that a limit is for; the fleet has no name.
_DOMAIN: t.Mapping[str, Schema] = {"kind": {"enum": ["node", "rack", "fleet"]}, "name": _TEXT}
_LIMITED = {**_DOMAIN, "kind": {"enum": ["node", "rack", "fleet", "inlet"]}}
_POWER_LIMIT = _record(
    {
        **_DOMAIN,
        "nodes": _TEXTS,
        "not_ready": _TEXTS,
        "limit_watts": _NUMBER,
        "beside_watts": _NUMBER,
        "watts_before": _NUMBER,
        "watts_after": _NUMBER,
    }
)
_REPORT_STATE: Schema = {"enum": ["observed", "planned", "pending", "measured"]}

_SNAPSHOT_PARTS = (
    *("pods", "node_configs", "node_config_templates", "node_metrics", "pod_disruption_budgets"),
    *("controllers", "namespaces", "replica_sets", "rmd_workloads", "rmd_node_states"),
    *("rmd_configs", "rmd_pods", "device_objects", "volume_objects", "bare_metal_hosts"),
)

SCHEMAS: dict[str, Schema] = {
    "snapshot": _schema(
        "snapshot",
        {"cluster": _ANY, "nodes": _OBJECTS},
        {
            **dict.fromkeys(_SNAPSHOT_PARTS, _OBJECTS),
            "targets": _TARGETS,
            "findings": _FINDINGS,
        },
    ),
    "node_configs": _schema("node_configs", {"node_configs": _OBJECTS}, {"statuses": _OBJECTS}),
    "readings": _schema("readings", {"readings": _by_name(_READING)}, {"errors": _ERRORS}),
    # Bare-metal hosts of one cluster; null stands for unknown facts.
    "hosts": _schema("hosts", {"cluster": _TEXT, "hosts": _list(_HOST)}, {}),
    # Watts of pods from Kepler, and of nodes from RAPL and their BMCs; see observe/metering.
    # ``counters`` are the joules of this run, with which the next run compares its own. ``energy``
    # has the joules of workloads by period; a workload without a name stands for pods that have
    # ended.
    "metering": _schema(
        "metering",
        {
            "source": {"enum": ["prometheus", "kepler"]},
            "pods": _list(_METERED_POD),
            "nodes": _by_name(_METERED_NODE),
        },
        {
            "left_out": _COUNT,
            "errors": _ERRORS,
            "energy": _list(_ENERGY),
            "counters": _by_name(_COUNTERS),
        },
    ),
    "models": _schema("models", {"models": _list(_ANY)}, {}),
    "curves": _schema(
        "curves",
        {"curves": _by_name(_CURVE)},
        {
            "errors": _ERRORS,
            "findings": _FINDINGS,
            # Reasons of nodes without a learned and a published curve, by node.
            "lacking": _by_name(_TEXT),
        },
    ),
    # Loads and watts of each node at past runs, in columns; see inference/samples.py, which checks
    # the samples of each node, so that a broken one affects no other.
    "samples": _schema("samples", {"nodes": _ANY}, {}),
    "plan": _schema(
        "plan",
        {
            "placements": _list(
                _record(_PLACEMENT, {"uid": _TEXT_OR_NULL, "resource_version": _TEXT_OR_NULL})
            ),
            "watts": {**_by_name(_NUMBER), "required": ["before", "after", "lower_bound"]},
            "unplaced": _list(_ANY),
        },
        {
            "gap": _NUMBER,
            "steps": _list(_STEP),
            "preference_watts": _NUMBER,
            "findings": _FINDINGS,
            "allocations": _list(
                {"type": "object", "required": ["namespace", "name", "node", "allocation"]}
            ),
            "proven": _BOOLEAN,
            "method": _TEXT,
            "stopped_by": _TEXT,
            "asleep": _TEXTS,
            "unpriced": _TEXTS,
            "nodes": _list(_ANY),
            "comparison": _list(_COMPARED),
            "limits": _list(_POWER_LIMIT),
            "closed": _by_name(_TEXT),
        },
    ),
    # Each section defines the data under its name; see the package ``report``.
    "report": _schema(
        "report",
        {
            "title": _TEXT,
            "state": _REPORT_STATE,
            "sections": {**_by_name(_ANY), "required": ["headline"]},
        },
        {"findings": _list(_ANY)},
    ),
    "summary": _schema(
        "summary",
        {
            "title": _TEXT,
            "state": _REPORT_STATE,
            "nodes": _INTEGER,
            "placed": _INTEGER,
            "not_bound": _INTEGER,
            "waiting": _INTEGER,
            "failing": _INTEGER,
            "watts": _by_name(_NUMBER_OR_NULL),
            "added": _by_name(_NUMBER_OR_NULL),
            "saved": _ANY_OR_NULL,
            "hottest": _ANY_OR_NULL,
            "report": _TEXT,
            "lines": _TEXTS,
        },
        {},
    ),
    # What the fleet never needs, by replays of recorded demand; see sleep/replay/advice.py. Energy
    # is in kWh a year.
    "advice": _schema(
        "advice",
        {
            "title": _TEXT,
            "demand": _record(
                {
                    "source": {"enum": ["prometheus", "trace"]},
                    "pods": _POSITIVE_COUNT,
                    "seconds": _AMOUNT,
                    "peak_cores": _AMOUNT,
                }
            ),
            "kwh_a_year": {
                **_by_name(_AMOUNT),
                "required": ["today", "awake", "asleep", "remaining", "remaining_asleep"],
            },
            "timeline": {**_by_name(_NUMBERS), "required": ["hours", "awake", "cores"]},
            "machines": _list(
                _record(
                    {
                        "name": _TEXT,
                        "type": _TEXT,
                        "cores": _NUMBER,
                        "mean_cores": _AMOUNT,
                        "awake_share": {"type": "number", "minimum": 0, "maximum": 1},
                    },
                    {"kwh_a_year": _AMOUNT, "retire": _BOOLEAN, "protection": _TEXT},
                )
            ),
            "retirement": _list(_record({"name": _TEXT, "type": _TEXT, "kwh_a_year": _NUMBER})),
            "one_more": _list(
                _record(
                    {
                        "type": _TEXT,
                        "machines": _POSITIVE_COUNT,
                        "kwh_a_year": _NUMBER,
                        "waiting_pods": _INTEGER,
                    }
                )
            ),
            "notes": _TEXTS,
        },
        {},
    ),
    # Manifests for kube_apply, with new statuses only. ``daemons`` is the state of those that
    # answered; see rmd/layout.py for ``shares``.
    "rmd": _schema(
        "rmd",
        {"node_states": _OBJECTS, "statuses": _OBJECTS},
        {"errors": _ERRORS, "daemons": _by_name(_DAEMON)},
    ),
    # ``time`` is the time after the last binding, ``plan_time`` that of the plan.
    "bindings": _schema(
        "bindings",
        {"bound": _list(_record(_PLACEMENT)), "skipped": _list(_record(_PLACEMENT))},
        {"plan_time": _TIME, "errors": _list(_ANY)},
    ),
    # One run of the step ``limits``; ``caps`` are ours that are in force, with the limit before them.
    "limits": _schema(
        "limits",
        {
            "cap": {"enum": ["off", "dry_run", "on"]},
            "evict": {"enum": ["off", "dry_run", "on"]},
            "domains": _list(
                _record(
                    {
                        **_LIMITED,
                        "limit_watts": _NUMBER_OR_NULL,
                        "watts": _NUMBER,
                        "state": {"enum": ["within", "reduced", "above", "unknown"]},
                        "uncovered_watts": _NUMBER,
                        "capped": _INTEGER,
                        "evicted": _INTEGER,
                    },
                    # Of inlets, whose limit_watts is what the rack may draw while it is reduced.
                    {"limit_celsius": _NUMBER, "celsius": _NUMBER_OR_NULL},
                )
            ),
            "changes": _list(_record({"name": _TEXT, "watts": _NUMBER_OR_NULL, "done": _BOOLEAN})),
            "caps": _list(
                _record(
                    {
                        "name": _TEXT,
                        "watts": _NUMBER,
                        "before_watts": _NUMBER_OR_NULL,
                        "earlier_watts": _list(_NUMBER),
                        "owner": _TEXT,
                    }
                )
            ),
            # The outcome of ``planned`` is that of a dry run; the domain is that of the limit.
            "evictions": _list(
                _record(
                    {
                        "namespace": _TEXT,
                        "pod": _TEXT,
                        "node": _TEXT,
                        "priority": _INTEGER,
                        **_LIMITED,
                        "outcome": {"enum": ["planned", "evicted", "refused", "skipped", "left"]},
                        "reason": _TEXT_OR_NULL,
                    }
                )
            ),
        },
        {"errors": _ERRORS},
    ),
    # One run of machines that sleep; see sleep/cluster/step.py.
    "prices": _schema(
        "prices",
        {
            "source": _TEXT,
            "unit": _TEXT,
            "prices": _list(_record({"time": _TIME, "price": _NUMBER})),
        },
        {},
    ),
    "sleep": _schema(
        "sleep",
        {
            "mode": {"enum": ["off", "dry_run", "with_approval", "on"]},
            "machines": _list(
                _record(
                    {
                        "name": _TEXT,
                        "phase": _PHASE,
                        "word": _TEXT,
                        "reason": _TEXT,
                        "power_state": _TEXT_OR_NULL,
                        "watts": _AMOUNT,
                        "is_measured": _BOOLEAN,
                    }
                )
            ),
            "transitions": _list(
                _record(
                    {
                        "name": _TEXT,
                        "phase": _PHASE,
                        "word": _TEXT,
                        "reason": _TEXT,
                        "warning": _BOOLEAN,
                    }
                )
            ),
            "obstacle": _TEXT_OR_NULL,
            "notes": _TEXTS,
            "reserve": _by_name(_AMOUNT),
            "findings": _FINDINGS,
            **dict.fromkeys(_PHASES, _COUNT),
            "saved_watts": _AMOUNT,
            "saved_joules": _AMOUNT,
            **dict.fromkeys(("cycles", "wakes_in_time", "wakes_late"), _COUNT),
            # Columns of equal length; numbers are of machines of the fleet.
            "timeline": _record(
                {
                    "since": _TIME,
                    "hours": _NUMBERS,
                    **dict.fromkeys(
                        ("awake", "asleep", "waking", "quarantined", "needed"), _list(_COUNT)
                    ),
                }
            ),
            "dry_run_days": _list(
                _record(
                    {
                        "day": _TEXT,
                        "most_asleep": _AMOUNT,
                        "watts": _AMOUNT,
                        "saved_joules": _AMOUNT,
                    }
                )
            ),
        },
        {},
    ),
    # Machines to switch off after an approval; see sleep/cluster/sleep_plan.py.
    "sleep_plan": _schema(
        "sleep_plan",
        {
            "machines": _list(
                _record(
                    {
                        "name": _TEXT,
                        "uid": _TEXT,
                        "reason": _TEXT,
                        "saved_watts": _AMOUNT,
                        "power_watts": _NUMBER_OR_NULL,
                        "pods": _list(_record({"uid": _TEXT, "pod": _TEXT})),
                        "moves": _list(_MOVE),
                    }
                )
            )
        },
        {},
    ),
}
