# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""JSON schemas (draft 7) of the documents; ``schemas/`` holds the same as files for other tools.

The schemas are Python values because Ansible transfers only Python files to remote hosts.
"""

from __future__ import annotations

import typing as t

Schema = dict[str, t.Any]

_TEXT: Schema = {"type": "string"}
_BOOLEAN: Schema = {"type": "boolean"}
_INTEGER: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_OBJECT: Schema = {"type": "object"}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _object(
    properties: Schema, optional: t.Collection[str] = (), is_closed: bool = False
) -> Schema:
    """An object with these properties, all but the ``optional`` ones required."""
    required = [name for name in properties if name not in optional]
    closed = {"additionalProperties": False} if is_closed else {}
    return {"type": "object", "required": required, **closed, "properties": properties}


def _each(schema: Schema, *names: str) -> Schema:
    """Properties of one schema."""
    return dict.fromkeys(names, schema)


_TIME: Schema = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"}
_NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
_AMOUNT_OR_NULL: Schema = {"type": ["number", "null"], "minimum": 0}
_JOULES: Schema = _map({"type": "number", "minimum": 0})
_OBJECTS: Schema = _list({"type": "object", "required": ["metadata"]})
_NUMBERS: Schema = _list(_NUMBER)
_ERRORS: Schema = _list(
    _object(
        {"name": _TEXT, "endpoint": _TEXT, "reason": _TEXT, "detail": _TEXT}, optional=("endpoint",)
    )
)


# Findings about objects; see boundary.py.
_FINDINGS: Schema = _list(
    {
        "type": "object",
        "required": ["kind", "namespace", "name", "field", "problem"],
        "additionalProperties": _TEXT,
    }
)


_PLACEMENTS: Schema = _list(_object({"namespace": _TEXT, "pod": _TEXT, "node": _TEXT}))


_DAEMON: Schema = _object(
    {
        "caches": _list(
            _object(
                {
                    "id": _INTEGER,
                    "ways": _INTEGER,
                    "cpus": _TEXT,
                    "shares": _list(
                        _object(
                            {
                                "first": _INTEGER,
                                "count": _INTEGER,
                                "use": {"enum": ["free", "held", "unknown", "system", "unused"]},
                                "pool": {"enum": ["guaranteed", "besteffort", "shared", "os"]},
                                "holders": _list(_TEXT),
                            },
                            optional=("pool", "holders"),
                        )
                    ),
                }
            )
        ),
        "workloads": _list(
            _object(
                {
                    **_each(_TEXT, "id", "uuid", "cpus"),
                    "pool": {"enum": ["guaranteed", "besteffort", "shared", ""]},
                    "most": _INTEGER,
                    "least": _INTEGER,
                    "workload": _TEXT,
                    "pod": _TEXT,
                },
                optional=("most", "least", "workload", "pod"),
            )
        ),
    }
)


_ENDPOINT: Schema = _object(
    {
        **_each(_TEXT, "type", "endpoint", "secret_name"),
        "fetch_interval_seconds": {"type": "number", "exclusiveMinimum": 0},
        "tls_fingerprints": _list(_TEXT),
        "problem": _TEXT,
    },
    optional=("secret_name", "tls_fingerprints", "problem"),
    is_closed=True,
)

# Resolved NodeConfigs without empty members; see nodeconfig/targets.py.
_TARGETS: Schema = _object(
    {
        "nodes": _list(
            _object(
                {
                    **_each(_TEXT, "name", "node_config", "namespace", "api_version", "uid"),
                    "labels": _map(_TEXT),
                    **_each(_TEXT, "cpu_capacity", "cpu_usage_format", "power_curve", "system"),
                    "fallbacks": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {"inlet_celsius": _NUMBER, "delta_p_pascal": _NUMBER},
                    },
                    "status": _OBJECT,
                    "endpoints": {
                        "type": "object",
                        "additionalProperties": False,
                        "properties": {
                            **_each(
                                _ENDPOINT,
                                "inlet_temp",
                                "delta_p",
                                "power_consumption",
                                "power_consumption_endpoint_provider",
                            )
                        },
                    },
                },
                optional=(
                    "api_version",
                    "uid",
                    "labels",
                    "cpu_capacity",
                    "cpu_usage_format",
                    "power_curve",
                    "system",
                    "fallbacks",
                    "status",
                ),
                is_closed=True,
            )
        ),
        "findings": _FINDINGS,
    },
    is_closed=True,
)


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


_MOVE: Schema = _object(
    {
        "namespace": _TEXT,
        "pod": _TEXT,
        "uid": {"type": ["string", "null"]},
        "from_node": _TEXT,
        "to_node": _TEXT,
        "gain_watts": _NUMBER,
    },
    optional=("uid",),
)


# Evidence of a curve that was learned from samples of the node, or of its server type.
_LEARNED: Schema = _object(
    {
        "of": {"enum": ["node", "type"]},
        "samples": {"type": "integer", "minimum": 1},
        "nodes": {"type": "integer", "minimum": 1},
        "error_percent": {"type": "number", "minimum": 0},
        "load_percent": _list(_NUMBER),
        # Evidence of its type, whose slopes continue the curve beyond the loads of the node.
        "beyond": _OBJECT,
    },
    optional=("beyond",),
)


# The published measurements that a curve comes from; see published/curves.py.
_PUBLISHED: Schema = _object(
    {
        "match": {"enum": ["processor", "series", "generation", "model"]},
        "of": {"type": "array", "minItems": 1, "items": _TEXT},
        "scale": {"type": "number", "exclusiveMinimum": 0},
        "generations": {"type": "integer", "minimum": 0},
        "server": _TEXT,
        "told_by": {"enum": ["labels", "Redfish", "annotation"]},
    }
)


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
        {"cluster": _OBJECT, "nodes": _OBJECTS},
        {
            **_each(
                _OBJECTS,
                "pods",
                "node_configs",
                "node_config_templates",
                "node_metrics",
                "pod_disruption_budgets",
                "controllers",
                "namespaces",
                "replica_sets",
                "rmd_workloads",
                "rmd_node_states",
                "rmd_configs",
                "rmd_pods",
                "device_objects",
                "volume_objects",
            ),
            "targets": _TARGETS,
            "findings": _FINDINGS,
        },
    ),
    "node_configs": _schema("node_configs", {"node_configs": _OBJECTS}, {"statuses": _OBJECTS}),
    "readings": _schema(
        "readings",
        {
            "readings": _map(
                _object(
                    {
                        **_each(_NUMBER_OR_NULL, "inlet_celsius", "delta_p_pascal", "power_watts"),
                        "time": _TIME,
                        "source": {"type": ["object", "string", "null"]},
                        "stale": _BOOLEAN,
                        # Identity of the server; see published/curves.py.
                        "system": _OBJECT,
                    },
                    optional=("time", "source", "stale", "system"),
                )
            )
        },
        {"errors": _ERRORS},
    ),
    # Bare-metal hosts of one cluster; null stands for unknown facts.
    "hosts": _schema(
        "hosts",
        {
            "cluster": _TEXT,
            "hosts": _list(
                _object(
                    {
                        "name": _TEXT,
                        "namespace": _TEXT,
                        "rack": {"type": ["string", "null"]},
                        "roles": _list({"enum": ["master", "worker"]}),
                        "label": {"type": ["string", "null"]},
                        "why": _TEXT,
                        **_CAN,
                    }
                )
            ),
        },
        {},
    ),
    # Power draw of pods from Kepler, and of nodes from RAPL and their BMCs; see observe/metering.
    # ``counters`` are the joules of this run, with which the next run compares its own. ``energy``
    # has the joules of workloads by period; a workload without a name stands for pods that have
    # ended.
    "metering": _schema(
        "metering",
        {
            "source": {"enum": ["prometheus", "kepler"]},
            "pods": _list(
                _object(
                    {
                        **_each(
                            _TEXT, "namespace", "pod", "uid", "node", "workload_kind", "workload"
                        ),
                        **_each(_AMOUNT_OR_NULL, "package_watts", "dram_watts", "cpu_cores"),
                    },
                    optional=("uid", "workload_kind", "workload", "cpu_cores"),
                )
            ),
            "nodes": _map(
                _object(
                    {
                        "package_watts": _AMOUNT_OR_NULL,
                        "dram_watts": _AMOUNT_OR_NULL,
                        "rapl_watts": {"type": "number", "minimum": 0},
                        "measured_watts": _NUMBER_OR_NULL,
                        "difference_watts": _NUMBER_OR_NULL,
                    },
                    optional=("package_watts", "dram_watts"),
                )
            ),
        },
        {
            "left_out": {"type": "integer", "minimum": 0},
            "errors": _ERRORS,
            "energy": _list(
                _object(
                    {
                        "begin": _TIME,
                        "end": _TIME,
                        "workloads": _list(
                            _object(
                                {
                                    **_each(_TEXT, "namespace", "workload_kind", "workload"),
                                    "joules": {"type": "number", "minimum": 0},
                                }
                            )
                        ),
                    }
                )
            ),
            "counters": _map(
                _object(
                    {
                        "time": _TIME,
                        "node": _JOULES,
                        "pods": _map(_JOULES),
                        # Counters of pods that are missing from the metrics this time.
                        "kept": _map(_JOULES),
                    },
                    optional=("kept",),
                )
            ),
        },
    ),
    "models": _schema("models", {"models": _list(_OBJECT)}, {}),
    "curves": _schema(
        "curves",
        {
            "curves": _map(
                _object(
                    {
                        "cpu": _NUMBERS,
                        "watts": _NUMBERS,
                        "source": {"enum": ["stated", "predictor", "learned", "published"]},
                        # Inputs and time of the prediction or the fit.
                        "inputs": _OBJECT,
                        "learned": _LEARNED,
                        "published": _PUBLISHED,
                        # The predictor's curve of a node with a stated curve.
                        "predicted": _OBJECT,
                    },
                    optional=("source", "inputs", "learned", "published", "predicted"),
                )
            )
        },
        {
            "errors": _ERRORS,
            "findings": _FINDINGS,
            # Reasons of nodes without a learned and a published curve, by node.
            "lacking": _map(_TEXT),
        },
    ),
    # Loads and power of each node at past runs, in columns; see inference/samples.py, which checks
    # the samples of each node, so that a broken one affects no other.
    "samples": _schema("samples", {"nodes": _OBJECT}, {}),
    "plan": _schema(
        "plan",
        {
            "placements": _list(
                _object(
                    {
                        **_each(_TEXT, "namespace", "pod", "node"),
                        "uid": {"type": ["string", "null"]},
                        "resource_version": {"type": ["string", "null"]},
                    },
                    optional=("uid", "resource_version"),
                )
            ),
            "watts": {
                "type": "object",
                "required": ["before", "after", "lower_bound"],
                "additionalProperties": _NUMBER,
            },
            "unplaced": _list(_OBJECT),
        },
        {
            "gap": _NUMBER,
            "steps": _list(
                _object(
                    {
                        "gain_watts": _NUMBER,
                        "cost_if_stopped_watts": {"type": "number", "minimum": 0},
                        "asleep": _list(_TEXT),
                        "moves": {"type": "array", "minItems": 1, "items": _MOVE},
                    }
                )
            ),
            "preference_watts": _NUMBER,
            "findings": _FINDINGS,
            "allocations": _list(
                {"type": "object", "required": ["namespace", "name", "node", "allocation"]}
            ),
            "proven": _BOOLEAN,
            "method": _TEXT,
            "stopped_by": _TEXT,
            "asleep": _list(_TEXT),
            "unpriced": _list(_TEXT),
            "nodes": _list(_OBJECT),
            "comparison": _list(
                _object(
                    {
                        "strategy": _TEXT,
                        "watts_after": _NUMBER,
                        "watts_added": _NUMBER,
                        **_each(_INTEGER, "placed", "unplaced", "placed_unpriced"),
                    },
                    optional=("placed_unpriced",),
                )
            ),
        },
    ),
    # Each section defines the data under its name; see the package ``report``.
    "report": _schema(
        "report",
        {
            "title": _TEXT,
            "state": {"enum": ["observed", "planned", "pending", "measured"]},
            "sections": {
                "type": "object",
                "required": ["headline"],
                "additionalProperties": _OBJECT,
            },
        },
        {"findings": _list(_OBJECT)},
    ),
    "summary": _schema(
        "summary",
        {
            "title": _TEXT,
            "state": {"enum": ["observed", "planned", "pending", "measured"]},
            **_each(_INTEGER, "nodes", "placed", "not_bound", "waiting", "failing"),
            "watts": _map(_NUMBER_OR_NULL),
            "added": _map(_NUMBER_OR_NULL),
            "saved": {"type": ["object", "null"]},
            "hottest": {"type": ["object", "null"]},
            "report": _TEXT,
            "lines": _list(_TEXT),
        },
        {},
    ),
    # Manifests for kube_apply, with new statuses only. ``daemons`` is the state of those that
    # answered; see rmd/layout.py for ``shares``.
    "rmd": _schema(
        "rmd",
        {"node_states": _OBJECTS, "statuses": _OBJECTS},
        {"errors": _ERRORS, "daemons": _map(_DAEMON)},
    ),
    # ``time`` is the time after the last binding, ``plan_time`` that of the plan.
    "bindings": _schema(
        "bindings",
        {"bound": _PLACEMENTS, "skipped": _PLACEMENTS},
        {"plan_time": _TIME, "errors": _list(_OBJECT)},
    ),
}
