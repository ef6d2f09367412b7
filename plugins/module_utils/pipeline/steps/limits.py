# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Step ``limits``: BMCs cap machines of racks that draw more than their limits.

The step comes after ``sleep``, and leaves machines alone that sleep. The document of the run has
the caps in force, with the limit that each BMC had before: that limit comes back.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field, replace

from ...base.context import Context, Result
from ...base.errors import InvalidInput
from ...base.fields.lenient import member, objects, text, whole
from ...base.json_types import Object
from ...nodeconfig.readings import Readings, fresh_values
from ...power.limits.caps import IDLE_MARGIN, CapMachine, CapPlan, plan_caps
from ...power.limits.domains import Limit, limits_on, place_of
from ...power.limits.options import PowerLimits
from ...redfish.power_control import limiting
from ...redfish.power_control.limiting import LimitChange
from ...redfish.power_control.machines import REDFISH, Machine, configured_machines, with_uuids_of
from ...scheduling.curve import Curve, Curves
from ...scheduling.model import ASLEEP_TAINT
from ..options import of_module
from ..run import Run
from .cluster import Cluster

# A machine above its cap by this factor has lost it.
_LOST = 1.05
_SAME_WATTS = 0.5
# A failure after which a BMC may have accepted the limit.
_UNCLEAR = ("unreachable", "timeout", "server_error", "malformed")
_TIMEOUT = 60.0
_NOTHING: Result = {"changed": False, "diff": [], "done": ()}


class Cap(t.NamedTuple):
    """A cap of ours, the limit of the BMC before it, and those of ours that it may still have; in W.

    A BMC may have an earlier cap if nobody knows whether it accepted the last one.
    """

    watts: float
    before_watts: float | None = None
    earlier_watts: tuple[float, ...] = ()

    @property
    def sent_watts(self) -> tuple[float, ...]:
        return (*self.earlier_watts, self.watts)

    def is_of(self, watts: float) -> bool:
        """Whether a limit that a BMC has is ours; BMCs round to whole watts."""
        return any(abs(watts - one) < _SAME_WATTS for one in self.sent_watts)


def cap_machines(
    run: Run,
    cluster: Cluster,
    readings: t.Callable[[], Readings],
    curves: t.Callable[[], Curves],
) -> None:
    """Set and remove caps; nothing is read where no limit in W holds and no cap is in force."""
    mode, limits = run.options["limits"]["cap"], PowerLimits.of(run.options["limits"])
    caps = _recorded(run)
    if not caps and (mode == "off" or not limits.has_watts):
        return
    with run.log.step("limits") as (step, context):
        capping = _Capping.of(run, cluster, caps, context)
        above: list[Result] = []
        plan = CapPlan()
        if mode != "off":
            capping.watts = fresh_values(readings(), "power_watts")
            found = capping.limits(limits)
            plan = capping.plan(found, curves())
            above = _above(found, plan)
        capping.warn_of_stuck(mode)
        changes = capping.changes(plan)
        told, result = {"cap": mode, "above": above, "changes": []}, _NOTHING
        if changes and mode != "dry_run":
            # A run that ends here leaves its caps to the next one.
            capping.intend(changes, plan)
            run.write("limits", {**told, "caps": capping.recorded()})
            result = capping.carry_out(changes, plan)
            _warn_of_failed(changes, context)
        _warn(above, mode, context)
        step.changed, step.errors = result["changed"], [*step.errors, *capping.errors]
        step.counts = {"above": len(above), "caps": len(plan.caps), "changes": len(changes)}
        run.log.diff += result["diff"]
        told["changes"] = [
            {"name": name, "watts": one.desired, "done": name in result["done"]}
            for name, one in changes.items()
        ]
        told["caps"] = capping.recorded()
        run.log.results["limits"], run.log.summary["caps"] = told, step.counts
        run.write("limits", {**told, "errors": capping.errors})


@dataclass
class _Capping:
    """The machines of one run that can be capped, with the caps in force, and fresh readings."""

    cluster: Cluster
    machines: t.Mapping[str, Machine]
    caps: dict[str, Cap]
    options: t.Mapping[str, t.Any]
    type_label: str
    context: Context
    watts: t.Mapping[str, float] = field(default_factory=dict)
    errors: list[Result] = field(default_factory=list)
    # Limits that BMCs have now, where they were asked.
    found_watts: dict[str, float] = field(default_factory=dict)
    # Caps before this run set any.
    former: t.Mapping[str, Cap] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, cluster: Cluster, caps: dict[str, Cap], context: Context) -> _Capping:
        options = of_module(
            limiting.SPEC, run.options, "read", targets=[], min_success=0.0, timeout=_TIMEOUT
        )
        given = configured_machines(cluster.targets, {**options, "targets": None})
        machines = {
            one.name: one
            for one in with_uuids_of(given, cluster.snapshot)
            if one.target.kind == REDFISH
            and one.target.problem is None
            and one.expected.system_uuid is not None
        }
        label = run.options["predict"]["type_label"]
        return cls(cluster, machines, caps, options, label, context)

    def limits(self, limits: PowerLimits) -> list[Limit]:
        """The limits on machines with a reading, and on those that should have one."""
        names = self.cluster.node_names
        places = [
            place_of(
                name,
                member(node, "metadata", "labels") or {},
                self.type_label,
                names is None or name in names,
            )
            for name, node in self._nodes()
            if name in self.watts or (name in self.machines and not _sleeps(node))
        ]
        return limits_on(places, limits)

    def plan(self, limits: t.Sequence[Limit], curves: Curves) -> CapPlan:
        """The plan; BMCs of machines that may get a cap tell the limits that they allow."""
        known = self._known(curves)
        above = {name for index in plan_caps(limits, known).above for name in limits[index].nodes}
        above |= {name for name, cap in self.caps.items() if self._is_lost(name, cap.watts)}
        asked = sorted(name for name in above & known.keys() if known[name].floor_watts is not None)
        allowed = self._allowed(asked)
        for name in asked:
            known[name] = _within_bounds(known[name], allowed.get(name))
            before = None if name not in allowed else allowed[name]["limit_watts"]
            if before is not None:
                self.found_watts[name] = before
        plan = plan_caps(limits, known)
        return replace(plan, caps={**plan.caps, **self._unjudged(limits)})

    def _unjudged(self, limits: t.Sequence[Limit]) -> dict[str, float]:
        """Caps that stay: of machines that sleep, and of those with a limit but no reading."""
        limited = {name for limit in limits for name in limit.nodes}
        asleep = {name for name, node in self._nodes() if _sleeps(node)}
        silent = limited - self.watts.keys()
        return {name: cap.watts for name, cap in self.caps.items() if name in asleep | silent}

    def warn_of_stuck(self, mode: str) -> None:
        """Tell of caps that no run removes; ``off`` forgets those without a BMC."""
        gone = self.caps.keys() - self.machines.keys()
        ours = self.caps.keys() - gone if mode == "dry_run" else set()
        remedy = "remove the limits with redfish_power_limit, and "
        remedy += (
            "this run forgets them" if mode == "off" else "set limits.cap to off to forget them"
        )
        for names, reason in (
            (ours, "limits.cap is dry_run; set it to on, or to off to remove them"),
            (gone, f"no usable NodeConfig names their BMCs; correct it, or {remedy}"),
        ):
            listed = ", ".join(f"{name} ({self.caps[name].watts:,.0f} W)" for name in sorted(names))
            if listed:
                self.context.warn(f"Caps of earlier runs stay on {listed}, because {reason}")
        if mode == "off" and not self.context.check_mode:
            for name in gone:
                del self.caps[name]

    def _nodes(self) -> t.Iterator[tuple[str, Object]]:
        for node in self.cluster.snapshot["nodes"]:
            yield node["metadata"]["name"], node

    def _known(self, curves: Curves) -> dict[str, CapMachine]:
        priorities = _priorities(self.cluster.snapshot.get("pods"))
        found: dict[str, CapMachine] = {}
        for name, node in self._nodes():
            curve = curves.by_node.get(name)
            can_be_capped = name in self.machines and not _sleeps(node)
            cap = self.caps.get(name)
            if name in self.watts:
                found[name] = CapMachine(
                    name,
                    self.watts[name],
                    _floor_watts(curve) if can_be_capped else None,
                    priorities.get(name, 0),
                    None if cap is None else cap.watts,
                )
        return found

    def _allowed(self, names: t.Sequence[str]) -> dict[str, Result]:
        """The limits of BMCs with their bounds; a failed BMC has none."""
        if not names:
            return {}
        changes = [LimitChange(self.machines[name]) for name in names]
        result = limiting.limit_machines(changes, self.options, self.context)
        self.errors += result["errors"]
        return {one["name"]: one for one in result["limits"]}

    def _is_lost(self, name: str, watts: float) -> bool:
        """Whether a machine draws more than its cap allows."""
        return self.watts.get(name, 0.0) > _LOST * watts

    def _foreign_watts(self, name: str) -> float | None:
        """The limit of somebody else that the BMC has now; None without one."""
        found, cap = self.found_watts.get(name), self.caps.get(name)
        return None if found is None or (cap is not None and cap.is_of(found)) else found

    def changes(self, plan: CapPlan) -> dict[str, LimitChange]:
        """The limits to set and to remove, by machine. A tighter limit of somebody else stays."""
        found: dict[str, LimitChange] = {}
        for name, watts in plan.caps.items():
            cap, foreign = self.caps.get(name), self._foreign_watts(name)
            is_due = cap is None or cap.watts != watts or self._is_lost(name, watts)
            if name in self.machines and is_due and (foreign is None or watts < foreign):
                found[name] = LimitChange(self.machines[name], watts, is_to_set=True)
        for name in self.caps.keys() - plan.caps.keys():
            cap = self.caps[name]
            if name in self.machines:
                found[name] = LimitChange(
                    self.machines[name], cap.before_watts, is_to_set=True, replaces=cap.sent_watts
                )
        return dict(sorted(found.items()))

    def intend(self, changes: t.Mapping[str, LimitChange], plan: CapPlan) -> None:
        """Record the caps to set before a BMC has them."""
        self.former = dict(self.caps)
        for name in () if self.context.check_mode else changes.keys() & plan.caps.keys():
            watts, cap = plan.caps[name], self.caps.get(name)
            before = self._foreign_watts(name)
            earlier: tuple[float, ...] = ()
            if cap is not None:
                before = cap.before_watts if before is None else before
                earlier = tuple(one for one in cap.sent_watts if one != watts)
            self.caps[name] = Cap(watts, before, earlier)

    def carry_out(self, changes: t.Mapping[str, LimitChange], plan: CapPlan) -> Result:
        """Set the limits; the caps in force follow what the BMCs accepted."""
        result = limiting.limit_machines(list(changes.values()), self.options, self.context)
        self.errors += result["errors"]
        done: list[str] = []
        for name, one in () if self.context.check_mode else changes.items():
            if one.error is None:
                done.append(name)
            if name not in plan.caps:
                self._end(name, one)
            elif one.error is None:
                self.caps[name] = self.caps[name]._replace(earlier_watts=())
            elif one.before is None or not (one.changed or one.error.reason in _UNCLEAR):
                self._withdraw(name)
        return {
            "changed": result["changed"],
            "diff": [result["diff"]] if result["changed"] else [],
            "done": done,
        }

    def _end(self, name: str, change: LimitChange) -> None:
        """Forget a cap that has ended, or that somebody replaced."""
        if change.error is not None or change.before is None:
            return
        cap, now = self.caps.pop(name), (change.after or change.before).watts
        if now is not None and now != change.desired and not cap.is_of(now):
            self.context.warn(
                f"The limit of {now:,.0f} W of {name} stays, because it is not the cap of "
                f"{cap.watts:,.0f} W that an earlier run set"
            )

    def _withdraw(self, name: str) -> None:
        """The cap before this run, as the BMC did not accept another one."""
        del self.caps[name]
        if name in self.former:
            self.caps[name] = self.former[name]

    def recorded(self) -> list[Result]:
        """The caps in force, as the document has them."""
        return [
            {**cap._asdict(), "name": name, "earlier_watts": list(cap.earlier_watts)}
            for name, cap in sorted(self.caps.items())
        ]


def _recorded(run: Run) -> dict[str, Cap]:
    """The caps in force after the last run. Raises InvalidInput, as nobody else knows them."""
    try:
        document = run.folder.former("limits") or {}
    except InvalidInput as error:
        raise InvalidInput(
            f"{error}. The caps of earlier runs are unknown without this file: remove them with "
            "redfish_power_limit and state absent, and then the file"
        ) from error
    return {
        one["name"]: Cap(one["watts"], one["before_watts"], tuple(one["earlier_watts"]))
        for one in document.get("caps", ())
    }


def _floor_watts(curve: Curve | None) -> float | None:
    """The least cap by a curve; None without an idle power, which a cap of 0 W would be."""
    return None if curve is None or curve.watts[0] <= 0 else IDLE_MARGIN * curve.watts[0]


def _sleeps(node: Object) -> bool:
    taints = objects(member(node, "spec", "taints"))
    return any(one.get("key") == ASLEEP_TAINT for one in taints)


def _priorities(pods: t.Any) -> dict[str, int]:
    """The highest priority of the running pods of each node, DaemonSets aside."""
    found: dict[str, int] = {}
    for pod in objects(pods):
        owners = objects(member(pod, "metadata", "ownerReferences"))
        is_daemon = any(owner.get("kind") == "DaemonSet" for owner in owners)
        is_over = member(pod, "status", "phase") in ("Succeeded", "Failed")
        node, priority = (
            text(member(pod, "spec", "nodeName")),
            whole(member(pod, "spec", "priority")),
        )
        if node and not is_daemon and not is_over:
            found[node] = max(priority or 0, found.get(node, priority or 0))
    return found


def _within_bounds(machine: CapMachine, allowed: Result | None) -> CapMachine:
    """The machine with the floor of its BMC; no floor if the BMC has no place for a limit."""
    if allowed is None or machine.floor_watts is None:
        return replace(machine, floor_watts=None)
    return replace(machine, floor_watts=max(machine.floor_watts, allowed["min_watts"] or 0.0))


def _above(limits: t.Sequence[Limit], plan: CapPlan) -> list[Result]:
    return [
        {
            "kind": limits[index].kind,
            "name": limits[index].name,
            "limit_watts": limits[index].watts,
            "watts": round(watts, 1),
            "uncovered_watts": round(plan.uncovered.get(index, 0.0), 1),
        }
        for index, watts in plan.above.items()
    ]


def _warn(above: t.Sequence[Result], mode: str, context: Context) -> None:
    for one in above:
        subject = f"{one['kind']} {one['name']}".strip()
        on = "caps would be set" if context.check_mode else "caps are set"
        covered = {"on": on, "dry_run": "limits.cap is dry_run, so that no cap is set"}
        uncovered = one["uncovered_watts"]
        left = f"; no cap covers {uncovered:,.0f} W of it" if uncovered else ""
        context.warn(
            f"The {subject} draws {one['watts']:,.0f} W, above its limit of "
            f"{one['limit_watts']:,.0f} W; {covered[mode]}{left}"
        )


def _warn_of_failed(changes: t.Mapping[str, LimitChange], context: Context) -> None:
    failed = [(name, one.desired, one.error.detail) for name, one in changes.items() if one.error]
    if failed:
        name, watts, detail = failed[0]
        desired = "no limit" if watts is None else f"a limit of {watts:,.0f} W"
        context.warn(
            f"{len(failed)} of {len(changes)} limits could not be changed, the first is {desired} "
            f"for {name}: {detail}; errors has all"
        )
