# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``limits``: BMCs cap machines above their limits, and pods leave where no cap is enough.

The step comes after ``sleep``. Caps come first. Evictions are for the watts that no cap covers. A rack
above its inlet limit gets a limit in W, which falls step by step.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...base.context import Context, Parameters, Result
from ...base.errors import WattwiseError
from ...nodeconfig.readings import Readings, fresh_values
from ...power.limits.caps import CapPlan
from ...power.limits.domains import Limit
from ...power.limits.options import PowerLimits
from ...redfish.power_control.limiting import LimitChange
from ...scheduling.curve import Curves
from ..limits_record import Entries, Entry, LimitsRecord, TakenOver
from ..run import Run
from .capping import CapChanges, Capping
from .cluster import Cluster
from .inlets import RackInlet, evictable, rack_inlets, reductions
from .limit_domains import Domains
from .limit_evictions import Evicting, EvictionOutcome

_NOTHING: Result = {"changed": False, "diff": []}


def keep_limits(
    run: Run,
    cluster: Cluster,
    readings: t.Callable[[], Readings],
    curves: t.Callable[[], Curves],
) -> None:
    """Set and remove caps, and evict pods.

    Raises ApiError, and InvalidInput for a record that is not readable.
    """
    options, mode = run.options["limits"], run.options["limits"]["cap"]
    has_limits = bool(PowerLimits.of(options))
    record = LimitsRecord(run.kube, run.options["lease_namespace"])
    entries = _entries(run, cluster, record)
    caps = {name: one.cap for name, one in entries.items() if one.cap is not None}
    if not has_limits and not entries:
        return
    with run.log.step("limits") as (step, context):
        capping = Capping.of(run, cluster, caps, context)
        found, racks, plan = list[Limit](), list[RackInlet](), CapPlan()
        if has_limits:
            found, racks, plan = _judged(options, capping, entries, readings(), curves)
        changes = CapChanges(capping, plan)
        _warn_of_stuck(capping, mode)
        result = _NOTHING
        if mode != "dry_run":
            entries.update(reductions(racks, entries, run.owner, options))
            result = _change(run, capping, changes, record, entries)
        told = EvictionOutcome()
        if plan.above and options["evict"] != "off" and not changes.is_taken_over:
            evicting = Evicting(run, cluster, capping, entries, (readings(), curves()))
            told = evicting.evict(evictable(found, racks), changes, plan, record)
        domains = Domains(found, racks, plan, capping).tell(mode, told)
        step.changed = result["changed"] or bool(told.evicted_from)
        step.errors = [*step.errors, *capping.errors, *told.errors]
        step.counts = {"above": sum(one["state"] == "above" for one in domains)}
        step.counts.update(caps=len(capping.caps), changes=len(changes.changes))
        step.counts["evictions"] = len(told.evictions)
        run.log.diff += result["diff"]
        _tell(run, capping, changes, domains, told)


def _judged(
    options: Parameters,
    capping: Capping,
    entries: Entries,
    readings: Readings,
    curves: t.Callable[[], Curves],
) -> tuple[list[Limit], list[RackInlet], CapPlan]:
    """The limits in W, the racks with an inlet limit, and the caps that both need."""
    limits, mode = PowerLimits.of(options), options["cap"]
    capping.watts = fresh_values(readings, "power_watts")
    is_active = mode != "off" or options["evict"] != "off"
    racks = rack_inlets(capping, limits, entries, readings, curves, is_active)
    found = [*capping.limits(limits), *(one.limit for one in racks if one.limit)]
    if mode == "off":
        return found, racks, capping.plan_without(found)
    return found, racks, capping.plan(found, curves())


def _entries(run: Run, cluster: Cluster, record: LimitsRecord) -> Entries:
    """The entries that concern the run; a failure is one of the step. Raises WattwiseError."""
    try:
        return _concerned(run, cluster, record.read())
    except WattwiseError as error:
        run.log.of("limits").failure = str(error)
        raise


def _concerned(run: Run, cluster: Cluster, entries: Entries) -> Entries:
    """The entries of the run's nodes, and others whose owner it is, or that are over."""
    names, now = cluster.node_names, run.context.now()

    def is_concerned(name: str, entry: Entry) -> bool:
        if not entry or entry.owner == run.owner:
            return True
        if entry.reduced is not None or entry.owner in run.other_owners:
            return False
        return names is None or name in names

    found = {name: entry.at(now) for name, entry in entries.items()}
    return {name: entry for name, entry in found.items() if is_concerned(name, entry)}


def _change(
    run: Run, capping: Capping, changes: CapChanges, record: LimitsRecord, entries: Entries
) -> Result:
    """Carry the changes out; a run that ends meanwhile leaves its caps to the next one."""
    context = capping.context

    def keep() -> None:
        for name in {*entries, *changes.changes}:
            before = entries.get(name, Entry())
            entries[name] = replace(before, cap=capping.caps.get(name))
        record.write(entries)

    if context.check_mode:
        return changes.carry_out() if changes.changes else _NOTHING
    try:
        run.check_owner()
        changes.intend()
        keep()
    except TakenOver as error:
        context.warn(str(error))
        changes.leave_to_another_run()
        return _NOTHING
    if not changes.changes:
        return _NOTHING
    result = changes.carry_out()
    try:
        keep()
    except TakenOver as error:
        context.warn(str(error))
    _warn_of_failed(changes.changes, context)
    return result


def _tell(
    run: Run,
    capping: Capping,
    changes: CapChanges,
    domains: t.Sequence[Result],
    told: EvictionOutcome,
) -> None:
    """The result and the document of the step."""
    body = {
        "cap": run.options["limits"]["cap"],
        "evict": run.options["limits"]["evict"],
        "domains": list(domains),
        "changes": [
            {"name": name, "watts": one.desired, "done": name in changes.done}
            for name, one in changes.changes.items()
        ],
        "caps": [
            {**cap._asdict(), "name": name, "earlier_watts": list(cap.earlier_watts)}
            for name, cap in sorted(capping.caps.items())
        ],
        "evictions": list(told.evictions),
    }
    run.log.results["limits"] = body
    run.log.summary["limiting"] = {
        "cap": body["cap"],
        "evict": body["evict"],
        "capped": sorted(capping.caps),
        "evicted": len(told.evicted_from),
        "domains": body["domains"],
    }
    run.write("limits", {**body, "errors": [*capping.errors, *told.errors]})


def _warn_of_stuck(capping: Capping, mode: str) -> None:
    """Tell of caps that no run removes; ``off`` forgets those without a BMC."""
    caps = capping.caps
    gone = caps.keys() - capping.machines.keys()
    ours = caps.keys() - gone if mode == "dry_run" else set()
    remedy = "remove the limits with redfish_power_limit, and "
    remedy += "this run forgets them" if mode == "off" else "set limits.cap to off to forget them"
    for names, reason in (
        (ours, "limits.cap is dry_run; set it to on, or to off to remove them"),
        (gone, f"no usable NodeConfig names their BMCs; correct it, or {remedy}"),
    ):
        listed = ", ".join(f"{name} ({caps[name].watts:,.0f} W)" for name in sorted(names))
        if listed:
            capping.context.warn(f"Caps of earlier runs stay on {listed}, because {reason}")
    if mode == "off" and not capping.context.check_mode:
        for name in gone:
            del caps[name]


def _warn_of_failed(changes: t.Mapping[str, LimitChange], context: Context) -> None:
    failed = [(name, one.desired, one.error.detail) for name, one in changes.items() if one.error]
    if failed:
        name, watts, detail = failed[0]
        desired = "no limit" if watts is None else f"a limit of {watts:,.0f} W"
        context.warn(
            f"{len(failed)} of {len(changes)} limits could not be changed, the first is {desired} "
            f"for {name}: {detail}; errors has all"
        )
