# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``sleep``: machines that nobody needs are switched off, and woken before they are."""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...base.boundary import Finding, warn_of
from ...base.fields.lenient import member, objects
from ...base.json_types import Object
from ...eviction import eviction
from ...inference.samples import Samples
from ...nodeconfig.readings import Readings, fresh_values
from ...power import placement
from ...redfish import thermal
from ...scheduling.curve import Curves
from ...scheduling.model import ASLEEP_TAINT
from ...sleep.cluster.options import SleepOptions
from ...sleep.cluster.planner import FleetInputs
from ...sleep.cluster.record import ANNOTATION
from ...sleep.cluster.sleep_plan import SleepPlan
from ...sleep.cluster.step import SleepInputs, run_sleep
from ..options import of_module
from ..run import Run
from .cluster import Cluster
from .place import limited
from .prices import Prices

_PHASES = ("awake", "draining", "going_off", "asleep", "waking", "quarantined")
_FIGURES = (
    *("reserve", "obstacle", "saved_watts", "saved_joules"),
    *("cycles", "wakes_in_time", "wakes_late"),
)


@dataclass(frozen=True)
class FleetKnowledge:
    """What the run knows of its machines."""

    curves: Curves = field(default_factory=Curves)
    readings: Readings = field(default_factory=dict)
    samples: Samples = field(default_factory=Samples)
    prices: Prices = field(default_factory=Prices)


def sleep_machines(
    run: Run, cluster: Cluster, known: FleetKnowledge, approved: SleepPlan | None = None
) -> Object | None:
    """The result of the step; None if no machine may sleep and none sleeps.

    ``approved`` is the plan that a person approved, if any. Raises what ``run_sleep`` raises.
    """
    options = SleepOptions.of(run.options["sleep"])
    if approved is None and not _concerns_any(cluster, options):
        if run.has("store_sleep"):
            run.write("sleep_plan", SleepPlan().as_document())
        return None
    with run.log.step("sleep") as (step, context):
        inputs = replace(_inputs(run, cluster, known), approved=approved)
        result = run_sleep(run.kube, inputs, options, run.options, context)
        step.changed = result["changed"]
        step.counts = {name: result[name] for name in _PHASES}
        step.errors += result["findings"]
        warn_of([Finding.from_dict(one) for one in result["findings"]], context)
        plan, timeline = result.pop("plan"), result.pop("timeline")
        told = {name: value for name, value in result.items() if name not in ("changed", "diff")}
        run.log.results["sleep"] = told
        run.log.summary["sleep"] = {
            **{name: result[name] for name in ("mode", *_PHASES, *_FIGURES)},
            "switched": len(result["transitions"]),
        }
        run.log.diff += result["diff"]
        run.write("sleep", {**told, "timeline": timeline})
        if plan is not None:
            run.write("sleep_plan", plan)
    return told


def _inputs(run: Run, cluster: Cluster, known: FleetKnowledge) -> SleepInputs:
    scheduler = run.options["place"]["scheduler_name"]
    placing = of_module(placement.SPEC, run.options, "place")
    readings, prices, now = known.readings, known.prices, run.context.now()
    weight = prices.weight(now.timestamp(), run.options["sleep"]["horizon_seconds"])
    return SleepInputs(
        FleetInputs(
            cluster.snapshot,
            known.curves,
            placing,
            cluster.scope,
            # The decision takes pods off their nodes, whose measured power would still have them.
            replace(limited(run, lambda: readings), watts={}),
            weight,
            prices.deferral,
        ),
        of_module(thermal.SPEC, run.options, "read"),
        of_module(eviction.SPEC, run.options, "evict", scheduler_name=scheduler),
        run.owner,
        frozenset(name for name, one in readings.items() if one.values and not one.is_stale),
        _age(readings, now),
        _idle_watts(known.samples),
        power_watts=fresh_values(readings, "power_watts"),
        check_owner=run.check_owner,
        defers_pods=run.options["prices"]["defer_pods"],
    )


def _concerns_any(cluster: Cluster, options: SleepOptions) -> bool:
    """Whether the rules select a node of the run, or a machine has a record or its taint."""
    return any(
        options.selects(member(node, "metadata", "labels"))
        or member(node, "metadata", "annotations", ANNOTATION) is not None
        or any(one.get("key") == ASLEEP_TAINT for one in objects(member(node, "spec", "taints")))
        for node in cluster.snapshot["nodes"]
        if cluster.node_names is None or member(node, "metadata", "name") in cluster.node_names
    )


def _age(readings: Readings, now: t.Any) -> float | None:
    """Age of the newest reading of the fleet in seconds; None without any."""
    ages = [value.age_seconds(now) for one in readings.values() for value in one.values.values()]
    return min(ages, default=None)


def _idle_watts(samples: Samples) -> dict[str, float]:
    """The measured power draw of each node at the least load that was sampled."""
    found: dict[str, float] = {}
    for name, node in samples.nodes.items():
        loads = [
            (
                one.requested_cores if one.metered_cores is None else one.metered_cores,
                one.power_watts,
            )
            for one in node.samples
        ]
        if loads:
            found[name] = min(loads)[1]
    return found
