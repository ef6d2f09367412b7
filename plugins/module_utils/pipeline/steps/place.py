# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``place``: the plan of the waiting pods, and its publication for extenders."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...base.errors import ApiError, InvalidInput
from ...base.units import format_time
from ...extender.publication import publication_of
from ...nodeconfig.readings import Readings, fresh_values
from ...observe.metering.metering import Metering
from ...power import placement
from ...power.limits.domains import Limited
from ...power.limits.options import PowerLimits
from ...power.sources import source_of_snapshot
from ...scheduling.curve import Curves
from ...scheduling.plan import Plan
from ...solving.limits import Limits
from .. import extender_record
from ..limits_record import Entries, LimitsRecord
from ..options import of_module
from ..run import Run
from .cluster import Cluster

_LIMIT_FACTS = ("kind", "name", "limit_watts", "watts_before", "watts_after")


def place_pods(
    run: Run,
    cluster: Cluster,
    curves: Curves,
    readings: Callable[[], Readings],
    metered: Metering | None,
) -> Plan:
    """The plan; ``readings`` are asked for only where limits need them."""
    with run.log.step("place") as (step, context):
        options = of_module(placement.SPEC, run.options, "place")
        previous = (run.folder.last("plan") or {}).get("placements") or ()
        limits = Limits.of(options)
        cores = {} if metered is None else metered.cores_by_uid
        source = source_of_snapshot(
            cluster.snapshot, curves, previous, options, cluster.scope, cores
        )
        source = replace(source, limited=limited(run, readings))
        plan = placement.place_pods(source, options, limits, context)
        step.counts = {
            "placed": len(plan.placements),
            "unplaced": len(plan.unplaced),
            "unpriced": len(plan.unpriced),
            "steps": len(plan.steps or ()),
        }
        step.errors += plan.findings
        if plan.limits is not None:
            run.log.summary["limits"] = [
                {name: one[name] for name in _LIMIT_FACTS}
                for one in plan.limits
                if one["kind"] != "node"
            ]
        run.log.summary.update(watts=plan.watts, gap=plan.gap, **step.counts)
        return replace(plan, time=format_time(context.now()))


def limited(run: Run, readings: Callable[[], Readings]) -> Limited:
    """The limits of the run, with the fresh readings of machines, and what earlier runs did."""
    limits = PowerLimits.of(run.options["limits"])
    if not limits:
        return Limited(limits)
    watts, inlets = (
        fresh_values(readings(), quantity) for quantity in ("power_watts", "inlet_celsius")
    )
    label = run.options["predict"]["type_label"]
    entries, now = _entries(run, limits), run.context.now()
    evicted = {name: one.evicted_for for name, one in entries.items() if one.at(now).evicted_at}
    reduced = {
        one.reduced.rack
        for one in entries.values()
        if one.reduced is not None and one.reduced.owner == run.owner
    }
    return Limited(limits, watts, inlets, label, evicted, reduced)


def _entries(run: Run, limits: PowerLimits) -> Entries:
    """What earlier runs did for limits.

    The step ``limits`` tells of a record that is not readable.
    """
    options = run.options["limits"]
    if options["evict"] != "on" and not (options["cap"] == "on" and limits.inlet_celsius):
        return {}
    try:
        return LimitsRecord(run.kube, run.options["lease_namespace"]).read()
    except (ApiError, InvalidInput):
        return {}


def keep_plan(run: Run, curves: Curves, plan: Plan) -> None:
    """Write the plan, and publish it with the curves for extenders.

    A failure of the publication is only a warning, because scheduling continues.
    """
    with run.log.step("place"):
        run.write("plan", plan.as_document())
        if run.publication is None or run.context.check_mode:
            return
        options = of_module(placement.SPEC, run.options, "place")
        body = publication_of(curves.by_node, plan, options, run.context.now())
        try:
            extender_record.publish(run.kube, run.publication, body)
        except (ApiError, InvalidInput) as error:
            run.context.warn(f"Curves and plan were not published for the extender: {error}")
