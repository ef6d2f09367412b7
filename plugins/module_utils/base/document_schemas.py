# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""JSON schemas (draft 7) of the documents; ``schemas/`` holds the same as files for other tools.

The schemas are Python values because Ansible transfers only Python files to remote hosts.
"""

from __future__ import annotations

import typing as t

Schema = dict[str, t.Any]

_TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
_AMOUNT_OR_NULL: Schema = {"type": ["number", "null"], "minimum": 0}
_JOULES: Schema = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}}
_OBJECTS: Schema = {"type": "array", "items": {"type": "object", "required": ["metadata"]}}
_NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}
_ERRORS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "reason", "detail"],
        "properties": {
            "name": {"type": "string"},
            "endpoint": {"type": "string"},
            "reason": {"type": "string"},
            "detail": {"type": "string"},
        },
    },
}


# Findings about objects; see boundary.py.
_FINDINGS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["kind", "namespace", "name", "field", "problem"],
        "additionalProperties": {"type": "string"},
    },
}


_PLACEMENTS: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["namespace", "pod", "node"],
        "properties": {
            "namespace": {"type": "string"},
            "pod": {"type": "string"},
            "node": {"type": "string"},
        },
    },
}


_DAEMON: Schema = {
    "type": "object",
    "required": ["caches", "workloads"],
    "properties": {
        "caches": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "ways", "cpus", "shares"],
                "properties": {
                    "id": {"type": "integer"},
                    "ways": {"type": "integer"},
                    "cpus": {"type": "string"},
                    "shares": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "required": ["first", "count", "use"],
                            "properties": {
                                "first": {"type": "integer"},
                                "count": {"type": "integer"},
                                "use": {"enum": ["free", "held", "unknown", "system", "unused"]},
                                "pool": {"enum": ["guaranteed", "besteffort", "shared", "os"]},
                                "holders": {"type": "array", "items": {"type": "string"}},
                            },
                        },
                    },
                },
            },
        },
        "workloads": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["id", "uuid", "cpus", "pool"],
                "properties": {
                    "id": {"type": "string"},
                    "uuid": {"type": "string"},
                    "cpus": {"type": "string"},
                    "pool": {"enum": ["guaranteed", "besteffort", "shared", ""]},
                    "most": {"type": "integer"},
                    "least": {"type": "integer"},
                    "workload": {"type": "string"},
                    "pod": {"type": "string"},
                },
            },
        },
    },
}


_TEXT: Schema = {"type": "string"}

_ENDPOINT: Schema = {
    "type": "object",
    "required": ["type", "endpoint", "fetch_interval_seconds"],
    "additionalProperties": False,
    "properties": {
        "type": _TEXT,
        "endpoint": _TEXT,
        "secret_name": _TEXT,
        "fetch_interval_seconds": {"type": "number", "exclusiveMinimum": 0},
        "tls_fingerprints": {"type": "array", "items": _TEXT},
        "problem": _TEXT,
    },
}

# Resolved NodeConfigs without empty members; see nodeconfig/targets.py.
_TARGETS: Schema = {
    "type": "object",
    "required": ["nodes", "findings"],
    "additionalProperties": False,
    "properties": {
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "node_config", "namespace", "endpoints"],
                "additionalProperties": False,
                "properties": {
                    "name": _TEXT,
                    "node_config": _TEXT,
                    "namespace": _TEXT,
                    "api_version": _TEXT,
                    "uid": _TEXT,
                    "labels": {"type": "object", "additionalProperties": _TEXT},
                    "cpu_capacity": _TEXT,
                    "cpu_usage_format": _TEXT,
                    "power_curve": _TEXT,
                    "system": _TEXT,
                    "fallbacks": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "inlet_celsius": {"type": "number"},
                            "delta_p_pascal": {"type": "number"},
                        },
                    },
                    "status": {"type": "object"},
                    "endpoints": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            "inlet_temp": _ENDPOINT,
                            "delta_p": _ENDPOINT,
                            "power_consumption": _ENDPOINT,
                            "power_consumption_endpoint_provider": _ENDPOINT,
                        },
                    },
                },
            },
        },
        "findings": _FINDINGS,
    },
}


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


def _by_node(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


_MOVE: Schema = {
    "type": "object",
    "required": ["namespace", "pod", "from_node", "to_node", "gain_watts"],
    "properties": {
        "namespace": {"type": "string"},
        "pod": {"type": "string"},
        "uid": {"type": ["string", "null"]},
        "from_node": {"type": "string"},
        "to_node": {"type": "string"},
        "gain_watts": {"type": "number"},
    },
}


# Evidence of a curve that was learned from samples of the node, or of its server type.
_LEARNED: Schema = {
    "type": "object",
    "required": ["of", "samples", "nodes", "error_percent", "load_percent"],
    "properties": {
        "of": {"enum": ["node", "type"]},
        "samples": {"type": "integer", "minimum": 1},
        "nodes": {"type": "integer", "minimum": 1},
        "error_percent": {"type": "number", "minimum": 0},
        "load_percent": {"type": "array", "items": {"type": "number"}},
        # Evidence of its type, whose slopes continue the curve beyond the loads of the node.
        "beyond": {"type": "object"},
    },
}


# The published measurements that a curve comes from; see published/curves.py.
_PUBLISHED: Schema = {
    "type": "object",
    "required": ["match", "of", "scale", "generations", "server", "told_by"],
    "properties": {
        "match": {"enum": ["processor", "series", "generation", "model"]},
        "of": {"type": "array", "minItems": 1, "items": {"type": "string"}},
        "scale": {"type": "number", "exclusiveMinimum": 0},
        "generations": {"type": "integer", "minimum": 0},
        "server": {"type": "string"},
        "told_by": {"enum": ["labels", "Redfish", "annotation"]},
    },
}


_COUNT_OR_NULL: Schema = {"type": ["integer", "null"], "minimum": 0}
_CAN: dict[str, Schema] = {
    "processors": _COUNT_OR_NULL,
    "memory_mib": _COUNT_OR_NULL,
    "sriov": {"type": ["boolean", "null"]},
    "qat": {"type": ["boolean", "null"]},
    "gpus": _COUNT_OR_NULL,
}


SCHEMAS: dict[str, Schema] = {
    "snapshot": _schema(
        "snapshot",
        {"cluster": {"type": "object"}, "nodes": _OBJECTS},
        {
            "pods": _OBJECTS,
            "node_configs": _OBJECTS,
            "node_config_templates": _OBJECTS,
            "node_metrics": _OBJECTS,
            "pod_disruption_budgets": _OBJECTS,
            "controllers": _OBJECTS,
            "namespaces": _OBJECTS,
            "replica_sets": _OBJECTS,
            "rmd_workloads": _OBJECTS,
            "rmd_node_states": _OBJECTS,
            "rmd_configs": _OBJECTS,
            "rmd_pods": _OBJECTS,
            "device_objects": _OBJECTS,
            "volume_objects": _OBJECTS,
            "targets": _TARGETS,
            "findings": _FINDINGS,
        },
    ),
    "node_configs": _schema("node_configs", {"node_configs": _OBJECTS}, {"statuses": _OBJECTS}),
    "readings": _schema(
        "readings",
        {
            "readings": _by_node(
                {
                    "type": "object",
                    "required": ["inlet_celsius", "delta_p_pascal", "power_watts"],
                    "properties": {
                        "inlet_celsius": _NUMBER_OR_NULL,
                        "delta_p_pascal": _NUMBER_OR_NULL,
                        "power_watts": _NUMBER_OR_NULL,
                        "time": _TIME,
                        "source": {"type": ["object", "string", "null"]},
                        "stale": {"type": "boolean"},
                        # Identity of the server; see published/curves.py.
                        "system": {"type": "object"},
                    },
                }
            )
        },
        {"errors": _ERRORS},
    ),
    # Bare-metal hosts of one cluster; null stands for unknown facts.
    "hosts": _schema(
        "hosts",
        {
            "cluster": _TEXT,
            "hosts": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "namespace", "rack", "roles", "label", "why", *_CAN],
                    "properties": {
                        "name": _TEXT,
                        "namespace": _TEXT,
                        "rack": {"type": ["string", "null"]},
                        "roles": {"type": "array", "items": {"enum": ["master", "worker"]}},
                        "label": {"type": ["string", "null"]},
                        "why": _TEXT,
                        **_CAN,
                    },
                },
            },
        },
        {},
    ),
    # Watts of pods from Kepler, and of nodes from RAPL and their BMCs; see observe/metering.
    # ``counters`` are the joules of this run, with which the next run compares its own. ``energy``
    # has the joules of workloads by period; a workload without a name stands for pods that have
    # ended.
    "metering": _schema(
        "metering",
        {
            "source": {"enum": ["prometheus", "kepler"]},
            "pods": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["namespace", "pod", "node", "package_watts", "dram_watts"],
                    "properties": {
                        "namespace": _TEXT,
                        "pod": _TEXT,
                        "uid": _TEXT,
                        "node": _TEXT,
                        "workload_kind": _TEXT,
                        "workload": _TEXT,
                        "package_watts": _AMOUNT_OR_NULL,
                        "dram_watts": _AMOUNT_OR_NULL,
                        "cpu_cores": _AMOUNT_OR_NULL,
                    },
                },
            },
            "nodes": _by_node(
                {
                    "type": "object",
                    "required": ["rapl_watts", "measured_watts", "difference_watts"],
                    "properties": {
                        "package_watts": _AMOUNT_OR_NULL,
                        "dram_watts": _AMOUNT_OR_NULL,
                        "rapl_watts": {"type": "number", "minimum": 0},
                        "measured_watts": _NUMBER_OR_NULL,
                        "difference_watts": _NUMBER_OR_NULL,
                    },
                }
            ),
        },
        {
            "left_out": {"type": "integer", "minimum": 0},
            "errors": _ERRORS,
            "energy": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["begin", "end", "workloads"],
                    "properties": {
                        "begin": _TIME,
                        "end": _TIME,
                        "workloads": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "required": ["namespace", "workload_kind", "workload", "joules"],
                                "properties": {
                                    "namespace": _TEXT,
                                    "workload_kind": _TEXT,
                                    "workload": _TEXT,
                                    "joules": {"type": "number", "minimum": 0},
                                },
                            },
                        },
                    },
                },
            },
            "counters": _by_node(
                {
                    "type": "object",
                    "required": ["time", "node", "pods"],
                    "properties": {
                        "time": _TIME,
                        "node": _JOULES,
                        "pods": {"type": "object", "additionalProperties": _JOULES},
                        # Counters of pods that are missing from the metrics this time.
                        "kept": {"type": "object", "additionalProperties": _JOULES},
                    },
                }
            ),
        },
    ),
    "models": _schema("models", {"models": {"type": "array", "items": {"type": "object"}}}, {}),
    "curves": _schema(
        "curves",
        {
            "curves": _by_node(
                {
                    "type": "object",
                    "required": ["cpu", "watts"],
                    "properties": {
                        "cpu": _NUMBERS,
                        "watts": _NUMBERS,
                        "source": {"enum": ["stated", "predictor", "learned", "published"]},
                        # Inputs and time of the prediction or the fit.
                        "inputs": {"type": "object"},
                        "learned": _LEARNED,
                        "published": _PUBLISHED,
                        # The predictor's curve of a node with a stated curve.
                        "predicted": {"type": "object"},
                    },
                }
            )
        },
        {
            "errors": _ERRORS,
            "findings": _FINDINGS,
            # Reasons of nodes without a learned and a published curve, by node.
            "lacking": _by_node(_TEXT),
        },
    ),
    # Loads and watts of each node at past runs, in columns; see inference/samples.py, which checks
    # the samples of each node, so that a broken one affects no other.
    "samples": _schema("samples", {"nodes": {"type": "object"}}, {}),
    "plan": _schema(
        "plan",
        {
            "placements": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["namespace", "pod", "node"],
                    "properties": {
                        "namespace": {"type": "string"},
                        "pod": {"type": "string"},
                        "node": {"type": "string"},
                        "uid": {"type": ["string", "null"]},
                        "resource_version": {"type": ["string", "null"]},
                    },
                },
            },
            "watts": {
                "type": "object",
                "required": ["before", "after", "lower_bound"],
                "additionalProperties": {"type": "number"},
            },
            "unplaced": {"type": "array", "items": {"type": "object"}},
        },
        {
            "gap": {"type": "number"},
            "steps": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["gain_watts", "cost_if_stopped_watts", "asleep", "moves"],
                    "properties": {
                        "gain_watts": {"type": "number"},
                        "cost_if_stopped_watts": {"type": "number", "minimum": 0},
                        "asleep": {"type": "array", "items": {"type": "string"}},
                        "moves": {"type": "array", "minItems": 1, "items": _MOVE},
                    },
                },
            },
            "preference_watts": {"type": "number"},
            "findings": _FINDINGS,
            "allocations": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["namespace", "name", "node", "allocation"],
                },
            },
            "proven": {"type": "boolean"},
            "method": {"type": "string"},
            "stopped_by": {"type": "string"},
            "asleep": {"type": "array", "items": {"type": "string"}},
            "unpriced": {"type": "array", "items": {"type": "string"}},
            "nodes": {"type": "array", "items": {"type": "object"}},
            "comparison": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["strategy", "watts_after", "watts_added", "placed", "unplaced"],
                    "properties": {
                        "strategy": {"type": "string"},
                        "watts_after": {"type": "number"},
                        "watts_added": {"type": "number"},
                        "placed": {"type": "integer"},
                        "unplaced": {"type": "integer"},
                        "placed_unpriced": {"type": "integer"},
                    },
                },
            },
        },
    ),
    # Each section defines the data under its name; see the package ``report``.
    "report": _schema(
        "report",
        {
            "title": {"type": "string"},
            "state": {"enum": ["observed", "planned", "pending", "measured"]},
            "sections": {
                "type": "object",
                "required": ["headline"],
                "additionalProperties": {"type": "object"},
            },
        },
        {"findings": {"type": "array", "items": {"type": "object"}}},
    ),
    "summary": _schema(
        "summary",
        {
            "title": {"type": "string"},
            "state": {"enum": ["observed", "planned", "pending", "measured"]},
            "nodes": {"type": "integer"},
            "placed": {"type": "integer"},
            "not_bound": {"type": "integer"},
            "waiting": {"type": "integer"},
            "failing": {"type": "integer"},
            "watts": {"type": "object", "additionalProperties": _NUMBER_OR_NULL},
            "added": {"type": "object", "additionalProperties": _NUMBER_OR_NULL},
            "saved": {"type": ["object", "null"]},
            "hottest": {"type": ["object", "null"]},
            "report": {"type": "string"},
            "lines": {"type": "array", "items": {"type": "string"}},
        },
        {},
    ),
    # What the fleet never needs, by replays of recorded demand; see sleep/replay/advice.py. Energy
    # is in kWh a year.
    "advice": _schema(
        "advice",
        {
            "title": _TEXT,
            "demand": {
                "type": "object",
                "required": ["source", "pods", "seconds", "peak_cores"],
                "properties": {
                    "source": {"enum": ["prometheus", "trace"]},
                    "pods": {"type": "integer", "minimum": 1},
                    "seconds": {"type": "number", "minimum": 0},
                    "peak_cores": {"type": "number", "minimum": 0},
                },
            },
            "kwh_a_year": {
                "type": "object",
                "required": ["today", "awake", "asleep", "remaining", "remaining_asleep"],
                "additionalProperties": {"type": "number", "minimum": 0},
            },
            "timeline": {
                "type": "object",
                "required": ["hours", "awake", "cores"],
                "additionalProperties": _NUMBERS,
            },
            "machines": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "type", "cores", "mean_cores", "awake_share"],
                    "properties": {
                        "name": _TEXT,
                        "type": _TEXT,
                        "cores": {"type": "number"},
                        "mean_cores": {"type": "number", "minimum": 0},
                        "awake_share": {"type": "number", "minimum": 0, "maximum": 1},
                        "kwh_a_year": {"type": "number", "minimum": 0},
                        "retire": {"type": "boolean"},
                        "protection": _TEXT,
                    },
                },
            },
            "retirement": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["name", "type", "kwh_a_year"],
                    "properties": {"name": _TEXT, "type": _TEXT, "kwh_a_year": {"type": "number"}},
                },
            },
            "one_more": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type", "machines", "kwh_a_year", "waiting_pods"],
                    "properties": {
                        "type": _TEXT,
                        "machines": {"type": "integer", "minimum": 1},
                        "kwh_a_year": {"type": "number"},
                        "waiting_pods": {"type": "integer"},
                    },
                },
            },
            "notes": {"type": "array", "items": _TEXT},
        },
        {},
    ),
    # Manifests for kube_apply, with new statuses only. ``daemons`` is the state of those that
    # answered; see rmd/layout.py for ``shares``.
    "rmd": _schema(
        "rmd",
        {"node_states": _OBJECTS, "statuses": _OBJECTS},
        {"errors": _ERRORS, "daemons": _by_node(_DAEMON)},
    ),
    # ``time`` is the time after the last binding, ``plan_time`` that of the plan.
    "bindings": _schema(
        "bindings",
        {"bound": _PLACEMENTS, "skipped": _PLACEMENTS},
        {"plan_time": _TIME, "errors": {"type": "array", "items": {"type": "object"}}},
    ),
}
