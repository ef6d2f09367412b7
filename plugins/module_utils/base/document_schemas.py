# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""JSON schemas (draft 7) of the documents; ``schemas/`` holds the same as files for other tools.

The schemas are Python values because Ansible transfers only Python files to remote hosts.
"""

from __future__ import annotations

import typing as t

Schema = dict[str, t.Any]


class _Optional(t.NamedTuple):
    """A member that a record may lack; optional members follow the required ones."""

    schema: Schema


def _record(**members: Schema | _Optional) -> Schema:
    """An object with these members; it may have more."""
    required = [name for name, one in members.items() if not isinstance(one, _Optional)]
    schemas = {
        name: one.schema if isinstance(one, _Optional) else one for name, one in members.items()
    }
    return {"type": "object", **({"required": required} if required else {}), "properties": schemas}


def _only(record: Schema) -> Schema:
    """The record without further members."""
    return {**record, "additionalProperties": False}


def _list(items: Schema, **limits: int) -> Schema:
    return {"type": "array", **limits, "items": items}


def _records(**members: Schema | _Optional) -> Schema:
    return _list(_record(**members))


def _by_name(value: Schema, *required: str) -> Schema:
    """An object with such values under any names, among them the required ones."""
    found: Schema = {"type": "object", "additionalProperties": value}
    return {**found, "required": [*required]} if required else found


def _each(schema: Schema, *names: str) -> Schema:
    """Members with the same schema."""
    return dict.fromkeys(names, schema)


def _one_of(*values: str) -> Schema:
    return {"enum": [*values]}


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
_ERRORS = _records(**_each(_TEXT, "name", "reason", "detail"), endpoint=_Optional(_TEXT))
# Findings about objects; see boundary.py.
_FINDINGS = _list(_by_name(_TEXT, "kind", "namespace", "name", "field", "problem"))
# Phases of machines that sleep; see sleep/machine.py.
_PHASES = ("awake", "draining", "going_off", "asleep", "waking", "quarantined")
_PHASE = _one_of(*_PHASES)
_PLACEMENT = _each(_TEXT, "namespace", "pod", "node")
_MOVE = _record(
    **_each(_TEXT, "namespace", "pod", "from_node", "to_node"),
    gain_watts=_NUMBER,
    uid=_Optional(_TEXT_OR_NULL),
)
# The nodes that a limit is for; the fleet has no name.
_DOMAIN = {"kind": _one_of("node", "rack", "fleet"), "name": _TEXT}
_LIMITED = {"kind": _one_of("node", "rack", "fleet", "inlet"), "name": _TEXT}
_SWITCH = _one_of("off", "dry_run", "on")

_DAEMON = _record(
    caches=_records(
        id=_INTEGER,
        ways=_INTEGER,
        cpus=_TEXT,
        shares=_records(
            first=_INTEGER,
            count=_INTEGER,
            use=_one_of("free", "held", "unknown", "system", "unused"),
            pool=_Optional(_one_of("guaranteed", "besteffort", "shared", "os")),
            holders=_Optional(_TEXTS),
        ),
    ),
    workloads=_records(
        **_each(_TEXT, "id", "uuid", "cpus"),
        pool=_one_of("guaranteed", "besteffort", "shared", ""),
        most=_Optional(_INTEGER),
        least=_Optional(_INTEGER),
        workload=_Optional(_TEXT),
        pod=_Optional(_TEXT),
    ),
)
_ENDPOINT = _only(
    _record(
        type=_TEXT,
        endpoint=_TEXT,
        fetch_interval_seconds=_POSITIVE,
        secret_name=_Optional(_TEXT),
        tls_fingerprints=_Optional(_TEXTS),
        problem=_Optional(_TEXT),
    )
)
# Resolved NodeConfigs without empty members; see nodeconfig/targets.py.
_ENDPOINTS = ("inlet_temp", "delta_p", "power_consumption", "power_consumption_endpoint_provider")
_NODE_TARGET = _record(
    **_each(_TEXT, "name", "node_config", "namespace"),
    endpoints=_only(_record(**dict.fromkeys(_ENDPOINTS, _Optional(_ENDPOINT)))),
    api_version=_Optional(_TEXT),
    uid=_Optional(_TEXT),
    labels=_Optional(_by_name(_TEXT)),
    cpu_capacity=_Optional(_TEXT),
    cpu_usage_format=_Optional(_TEXT),
    power_curve=_Optional(_TEXT),
    power_secret=_Optional(_TEXT),
    system=_Optional(_TEXT),
    fallbacks=_Optional(
        _only(_record(inlet_celsius=_Optional(_NUMBER), delta_p_pascal=_Optional(_NUMBER)))
    ),
    status=_Optional(_ANY),
)
_TARGETS = _only(_record(nodes=_list(_only(_NODE_TARGET)), findings=_FINDINGS))
_CURVE = _record(
    cpu=_NUMBERS,
    watts=_NUMBERS,
    source=_Optional(_one_of("stated", "predictor", "learned", "published")),
    # Inputs and time of the prediction or the fit.
    inputs=_Optional(_ANY),
    # Evidence of a curve that was learned from samples of the node, or of its server type.
    learned=_Optional(
        _record(
            of=_one_of("node", "type"),
            samples=_POSITIVE_COUNT,
            nodes=_POSITIVE_COUNT,
            error_percent=_AMOUNT,
            load_percent=_NUMBERS,
            # Evidence of its type, whose slopes continue the curve beyond the loads of the node.
            beyond=_Optional(_ANY),
        )
    ),
    # The published measurements that a curve comes from; see published/curves.py.
    published=_Optional(
        _record(
            match=_one_of("processor", "series", "generation", "model"),
            of=_list(_TEXT, minItems=1),
            scale=_POSITIVE,
            generations=_COUNT,
            server=_TEXT,
            told_by=_one_of("labels", "Redfish", "annotation"),
        )
    ),
    # The predictor's curve of a node with a stated curve.
    predicted=_Optional(_ANY),
)
_REPORT_STATE = _one_of("observed", "planned", "pending", "measured")
_SNAPSHOT_PARTS = (
    *("pods", "node_configs", "node_config_templates", "node_metrics", "pod_disruption_budgets"),
    *("controllers", "namespaces", "replica_sets", "rmd_workloads", "rmd_node_states"),
    *("rmd_configs", "rmd_pods", "device_objects", "volume_objects", "bare_metal_hosts"),
)

_BODIES: dict[str, Schema] = {
    "snapshot": _record(
        cluster=_ANY,
        nodes=_OBJECTS,
        **dict.fromkeys(_SNAPSHOT_PARTS, _Optional(_OBJECTS)),
        targets=_Optional(_TARGETS),
        findings=_Optional(_FINDINGS),
    ),
    "node_configs": _record(node_configs=_OBJECTS, statuses=_Optional(_OBJECTS)),
    "readings": _record(
        readings=_by_name(
            _record(
                **_each(_NUMBER_OR_NULL, "inlet_celsius", "delta_p_pascal", "power_watts"),
                time=_Optional(_TIME),
                source=_Optional({"type": ["object", "string", "null"]}),
                stale=_Optional(_BOOLEAN),
                # Identity of the server; see published/curves.py.
                system=_Optional(_ANY),
            )
        ),
        errors=_Optional(_ERRORS),
    ),
    # Bare-metal hosts of one cluster; null stands for unknown facts.
    "hosts": _record(
        cluster=_TEXT,
        hosts=_records(
            name=_TEXT,
            namespace=_TEXT,
            rack=_TEXT_OR_NULL,
            roles=_list(_one_of("master", "worker")),
            label=_TEXT_OR_NULL,
            why=_TEXT,
            **_each(_COUNT_OR_NULL, "processors", "memory_mib"),
            **_each(_BOOLEAN_OR_NULL, "sriov", "qat"),
            gpus=_COUNT_OR_NULL,
        ),
    ),
    # Watts of pods from Kepler, and of nodes from RAPL and their BMCs; see observe/metering.
    # ``counters`` are the joules of this run, with which the next run compares its own. ``energy``
    # has the joules of workloads by period; a workload without a name stands for pods that have
    # ended.
    "metering": _record(
        source=_one_of("prometheus", "kepler"),
        pods=_records(
            **_PLACEMENT,
            **_each(_AMOUNT_OR_NULL, "package_watts", "dram_watts"),
            uid=_Optional(_TEXT),
            workload_kind=_Optional(_TEXT),
            workload=_Optional(_TEXT),
            cpu_cores=_Optional(_AMOUNT_OR_NULL),
        ),
        nodes=_by_name(
            _record(
                rapl_watts=_AMOUNT,
                **_each(_NUMBER_OR_NULL, "measured_watts", "difference_watts"),
                package_watts=_Optional(_AMOUNT_OR_NULL),
                dram_watts=_Optional(_AMOUNT_OR_NULL),
            )
        ),
        left_out=_Optional(_COUNT),
        errors=_Optional(_ERRORS),
        energy=_Optional(
            _records(
                begin=_TIME,
                end=_TIME,
                workloads=_records(
                    **_each(_TEXT, "namespace", "workload_kind", "workload"), joules=_AMOUNT
                ),
            )
        ),
        counters=_Optional(
            _by_name(
                _record(
                    time=_TIME,
                    node=_JOULES,
                    pods=_by_name(_JOULES),
                    # Counters of pods that are missing from the metrics this time.
                    kept=_Optional(_by_name(_JOULES)),
                )
            )
        ),
    ),
    "models": _record(models=_list(_ANY)),
    "curves": _record(
        curves=_by_name(_CURVE),
        errors=_Optional(_ERRORS),
        findings=_Optional(_FINDINGS),
        # Reasons of nodes without a learned and a published curve, by node.
        lacking=_Optional(_by_name(_TEXT)),
    ),
    # Loads and watts of each node at past runs, in columns; see inference/samples.py, which checks
    # the samples of each node, so that a broken one affects no other.
    "samples": _record(nodes=_ANY),
    "plan": _record(
        placements=_records(
            **_PLACEMENT, uid=_Optional(_TEXT_OR_NULL), resource_version=_Optional(_TEXT_OR_NULL)
        ),
        watts=_by_name(_NUMBER, "before", "after", "lower_bound"),
        unplaced=_list(_ANY),
        gap=_Optional(_NUMBER),
        steps=_Optional(
            _records(
                gain_watts=_NUMBER,
                cost_if_stopped_watts=_AMOUNT,
                asleep=_TEXTS,
                moves=_list(_MOVE, minItems=1),
            )
        ),
        preference_watts=_Optional(_NUMBER),
        findings=_Optional(_FINDINGS),
        allocations=_Optional(
            _list({"type": "object", "required": ["namespace", "name", "node", "allocation"]})
        ),
        proven=_Optional(_BOOLEAN),
        method=_Optional(_TEXT),
        stopped_by=_Optional(_TEXT),
        asleep=_Optional(_TEXTS),
        unpriced=_Optional(_TEXTS),
        nodes=_Optional(_list(_ANY)),
        comparison=_Optional(
            _records(
                strategy=_TEXT,
                **_each(_NUMBER, "watts_after", "watts_added"),
                **_each(_INTEGER, "placed", "unplaced"),
                placed_unpriced=_Optional(_INTEGER),
            )
        ),
        limits=_Optional(
            _records(
                **_DOMAIN,
                nodes=_TEXTS,
                not_ready=_TEXTS,
                **_each(_NUMBER, "limit_watts", "beside_watts", "watts_before", "watts_after"),
            )
        ),
        closed=_Optional(_by_name(_TEXT)),
    ),
    # Each section defines the data under its name; see the package ``report``.
    "report": _record(
        title=_TEXT,
        state=_REPORT_STATE,
        sections=_by_name(_ANY, "headline"),
        findings=_Optional(_list(_ANY)),
    ),
    "summary": _record(
        title=_TEXT,
        state=_REPORT_STATE,
        **_each(_INTEGER, "nodes", "placed", "not_bound", "waiting", "failing"),
        **_each(_by_name(_NUMBER_OR_NULL), "watts", "added"),
        **_each(_ANY_OR_NULL, "saved", "hottest"),
        report=_TEXT,
        lines=_TEXTS,
    ),
    # What the fleet never needs, by replays of recorded demand; see sleep/replay/advice.py. Energy
    # is in kWh a year.
    "advice": _record(
        title=_TEXT,
        demand=_record(
            source=_one_of("prometheus", "trace"),
            pods=_POSITIVE_COUNT,
            seconds=_AMOUNT,
            peak_cores=_AMOUNT,
        ),
        kwh_a_year=_by_name(_AMOUNT, "today", "awake", "asleep", "remaining", "remaining_asleep"),
        timeline=_by_name(_NUMBERS, "hours", "awake", "cores"),
        machines=_records(
            name=_TEXT,
            type=_TEXT,
            cores=_NUMBER,
            mean_cores=_AMOUNT,
            awake_share={"type": "number", "minimum": 0, "maximum": 1},
            kwh_a_year=_Optional(_AMOUNT),
            retire=_Optional(_BOOLEAN),
            protection=_Optional(_TEXT),
        ),
        retirement=_records(name=_TEXT, type=_TEXT, kwh_a_year=_NUMBER),
        one_more=_records(
            type=_TEXT, machines=_POSITIVE_COUNT, kwh_a_year=_NUMBER, waiting_pods=_INTEGER
        ),
        notes=_TEXTS,
    ),
    # Manifests for kube_apply, with new statuses only. ``daemons`` is the state of those that
    # answered; see rmd/layout.py for ``shares``.
    "rmd": _record(
        node_states=_OBJECTS,
        statuses=_OBJECTS,
        errors=_Optional(_ERRORS),
        daemons=_Optional(_by_name(_DAEMON)),
    ),
    # ``time`` is the time after the last binding, ``plan_time`` that of the plan.
    "bindings": _record(
        bound=_records(**_PLACEMENT),
        skipped=_records(**_PLACEMENT),
        plan_time=_Optional(_TIME),
        errors=_Optional(_list(_ANY)),
    ),
    # One run of the step ``limits``; ``caps`` are ours that are in force, with the limit before them.
    "limits": _record(
        cap=_SWITCH,
        evict=_SWITCH,
        domains=_records(
            **_LIMITED,
            limit_watts=_NUMBER_OR_NULL,
            watts=_NUMBER,
            state=_one_of("within", "reduced", "above", "unknown"),
            uncovered_watts=_NUMBER,
            capped=_INTEGER,
            evicted=_INTEGER,
            # Of inlets, whose limit_watts is what the rack may draw while it is reduced.
            limit_celsius=_Optional(_NUMBER),
            celsius=_Optional(_NUMBER_OR_NULL),
        ),
        changes=_records(name=_TEXT, watts=_NUMBER_OR_NULL, done=_BOOLEAN),
        caps=_records(
            name=_TEXT,
            watts=_NUMBER,
            before_watts=_NUMBER_OR_NULL,
            earlier_watts=_NUMBERS,
            owner=_TEXT,
        ),
        # The outcome of ``planned`` is that of a dry run; the domain is that of the limit.
        evictions=_records(
            **_PLACEMENT,
            priority=_INTEGER,
            **_LIMITED,
            outcome=_one_of("planned", "evicted", "refused", "skipped", "left"),
            reason=_TEXT_OR_NULL,
        ),
        errors=_Optional(_ERRORS),
    ),
    "prices": _record(source=_TEXT, unit=_TEXT, prices=_records(time=_TIME, price=_NUMBER)),
    # One run of machines that sleep; see sleep/cluster/step.py.
    "sleep": _record(
        mode=_one_of("off", "dry_run", "with_approval", "on"),
        machines=_records(
            name=_TEXT,
            phase=_PHASE,
            word=_TEXT,
            reason=_TEXT,
            power_state=_TEXT_OR_NULL,
            watts=_AMOUNT,
            is_measured=_BOOLEAN,
        ),
        transitions=_records(name=_TEXT, phase=_PHASE, word=_TEXT, reason=_TEXT, warning=_BOOLEAN),
        obstacle=_TEXT_OR_NULL,
        notes=_TEXTS,
        reserve=_by_name(_AMOUNT),
        findings=_FINDINGS,
        **_each(_COUNT, *_PHASES),
        **_each(_AMOUNT, "saved_watts", "saved_joules"),
        **_each(_COUNT, "cycles", "wakes_in_time", "wakes_late"),
        # Columns of equal length; numbers are of machines of the fleet.
        timeline=_record(
            since=_TIME,
            hours=_NUMBERS,
            **_each(_list(_COUNT), "awake", "asleep", "waking", "quarantined", "needed"),
        ),
        dry_run_days=_records(day=_TEXT, **_each(_AMOUNT, "most_asleep", "watts", "saved_joules")),
    ),
    # Machines to switch off after an approval; see sleep/cluster/sleep_plan.py.
    "sleep_plan": _record(
        machines=_records(
            **_each(_TEXT, "name", "uid", "reason"),
            saved_watts=_AMOUNT,
            power_watts=_NUMBER_OR_NULL,
            pods=_records(uid=_TEXT, pod=_TEXT),
            moves=_list(_MOVE),
        )
    ),
}


def _schema(kind: str, body: Schema) -> Schema:
    """The schema of a kind has the members of all documents before its own."""
    head = _record(
        document={"const": f"wattwise.kube/{kind}/v1"},
        time=_TIME,
        # Run of the snapshot that the document was made from, if any.
        run=_Optional({"type": "string", "pattern": "^[0-9a-f]{32}$"}),
    )
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"wattwise.kube {kind} document",
        "type": "object",
        "required": [*head["required"], *body["required"]],
        "properties": {**head["properties"], **body["properties"]},
    }


SCHEMAS = {kind: _schema(kind, body) for kind, body in _BODIES.items()}
