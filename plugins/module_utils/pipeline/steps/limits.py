# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``limits``: BMCs cap machines above their limits, and pods leave where no cap is enough.

The step comes after ``sleep``. Caps come first. Evictions are for the watts that no cap covers.
"""

from __future__ import annotations

import typing as t
from dataclasses import replace

from ...base.context import Context, Result
from ...base.errors import WattwiseError
from ...nodeconfig.readings import Readings, fresh_values
from ...power.limits.caps import CapPlan
from ...power.limits.domains import Limit
from ...power.limits.options import PowerLimits
from ...redfish.power_control.limiting import LimitChange
from ...scheduling.curve import Curves
from ..limits_record import Entries, LimitsRecord, NodeEntry, TakenOver
from ..run import Run
from .capping import CapChanges, Capping
from .cluster import Cluster
from .limit_evictions import NO_EVICTIONS, Evicting, EvictionOutcome

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
    limits = PowerLimits.of(options)
    record = LimitsRecord(run.kube, run.options["lease_namespace"])
    entries = _entries(run, cluster, record)
    caps = {name: one.cap for name, one in entries.items() if one.cap is not None}
    if not limits.has_watts and not entries:
        return
    with run.log.step("limits") as (step, context):
        capping = Capping.of(run, cluster, caps, context)
        found, plan = list[Limit](), CapPlan()
        if limits.has_watts:
            capping.watts = fresh_values(readings(), "power_watts")
            found = capping.limits(limits)
            plan = capping.plan_without(found) if mode == "off" else capping.plan(found, curves())
        changes = CapChanges(capping, plan)
        _warn_of_stuck(capping, mode)
        result = _NOTHING if mode == "dry_run" else _change(run, capping, changes, record, entries)
        told = NO_EVICTIONS
        if limits.has_watts and options["evict"] != "off" and not changes.is_taken_over:
            evicting = Evicting(run, cluster, capping, entries, (readings(), curves()))
            told = evicting.evict(found, changes, plan, record)
        domains = _domains(found, plan, capping, told)
        _warn_of_unread(capping.unread(found), context)
        _warn([one for one in domains if one["state"] == "above"], mode, told, context)
        step.changed = result["changed"] or told.changed
        step.errors = [*step.errors, *capping.errors, *told.errors]
        step.counts = {"above": len(plan.above), "caps": len(capping.caps)}
        step.counts.update(changes=len(changes.changes), evictions=len(told.evictions))
        run.log.diff += result["diff"]
        _tell(run, capping, changes, domains, told)


def _entries(run: Run, cluster: Cluster, record: LimitsRecord) -> Entries:
    """The entries that concern the run; a failure is one of the step. Raises WattwiseError."""
    try:
        return _concerned(run, cluster, record.read())
    except WattwiseError as error:
        run.log.of("limits").failure = str(error)
        raise


def _concerned(run: Run, cluster: Cluster, entries: Entries) -> Entries:
    """The entries of the run's nodes, and of others whose cap this owner set, or that are over."""
    names, now = cluster.node_names, run.context.now()
    return {
        name: entry
        for name, entry in ((name, entry.at(now)) for name, entry in entries.items())
        if names is None
        or name in names
        or not entry
        or (entry.cap is not None and entry.cap.owner == run.owner)
    }


def _change(
    run: Run, capping: Capping, changes: CapChanges, record: LimitsRecord, entries: Entries
) -> Result:
    """Carry the changes out; a run that ends meanwhile leaves its caps to the next one."""
    context = capping.context

    def keep() -> None:
        for name in {*entries, *changes.changes}:
            before = entries.get(name, NodeEntry())
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
        "evicted": sum(one["outcome"] == "evicted" for one in told.evictions),
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


def _domains(
    limits: t.Sequence[Limit], plan: CapPlan, capping: Capping, told: EvictionOutcome
) -> list[Result]:
    """Each limit with its state; nodes only above theirs."""
    found: list[Result] = []
    unread = capping.unread(limits)
    for index, limit in enumerate(limits):
        is_above = index in plan.above
        is_whole = limit.kind != "rack" or limit.name not in unread
        is_known = is_whole and all(name in capping.watts for name in limit.nodes)
        if limit.kind == "node" and not is_above:
            continue
        gone = [one for one in told.evictions if one["outcome"] == "evicted"]
        found.append(
            {
                "kind": limit.kind,
                "name": limit.name,
                "limit_watts": limit.watts,
                "watts": round(sum(capping.watts.get(name, 0.0) for name in limit.nodes), 1),
                "state": "above" if is_above else "within" if is_known else "unknown",
                "uncovered_watts": round(plan.uncovered.get(index, 0.0), 1),
                "capped": sum(name in capping.caps for name in limit.nodes),
                "evicted": sum(one["node"] in limit.nodes for one in gone),
            }
        )
    return found


def _warn_of_unread(unread: t.Mapping[str, t.Sequence[str]], context: Context) -> None:
    for rack, names in unread.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        context.warn(
            f"The limit of rack {rack} does not count the power of {min(names)}{more}, which this "
            "run does not read; let one PowerFleet or run have all machines of the rack"
        )


def _warn(above: t.Sequence[Result], mode: str, told: EvictionOutcome, context: Context) -> None:
    for one in above:
        subject = f"{one['kind']} {one['name']}".strip()
        on = "caps would be set" if context.check_mode else "caps are set"
        covered = {
            "on": on,
            "dry_run": "limits.cap is dry_run, so that no cap is set",
            "off": "limits.cap is off",
        }
        uncovered = one["uncovered_watts"]
        left = f"; no cap covers {uncovered:,.0f} W of it" if uncovered and mode != "off" else ""
        context.warn(
            f"The {subject} draws {one['watts']:,.0f} W, above its limit of "
            f"{one['limit_watts']:,.0f} W; {covered[mode]}{left}"
        )
    if above and told.sentence:
        context.warn(told.sentence)


def _warn_of_failed(changes: t.Mapping[str, LimitChange], context: Context) -> None:
    failed = [(name, one.desired, one.error.detail) for name, one in changes.items() if one.error]
    if failed:
        name, watts, detail = failed[0]
        desired = "no limit" if watts is None else f"a limit of {watts:,.0f} W"
        context.warn(
            f"{len(failed)} of {len(changes)} limits could not be changed, the first is {desired} "
            f"for {name}: {detail}; errors has all"
        )
