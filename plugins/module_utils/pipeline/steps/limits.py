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
from ...nodeconfig.readings import Readings
from ...power.limits.caps import IDLE_MARGIN, CapMachine, CapPlan, plan_caps
from ...power.limits.domains import Limit, limits_on, place_of
from ...power.limits.options import PowerLimits
from ...redfish.power_control import limiting
from ...redfish.power_control.limiting import LimitChange
from ...redfish.power_control.machines import REDFISH, Machine, configured_machines, with_uuids_of
from ...scheduling.curve import Curves
from ...scheduling.model import ASLEEP_TAINT
from ..options import of_module
from ..run import Run
from .cluster import Cluster

# A machine above its cap by this factor has lost it.
_LOST = 1.05
_TIMEOUT = 60.0


class Cap(t.NamedTuple):
    """A cap of ours, and the limit of the BMC before it; both in W."""

    watts: float
    before_watts: float | None = None


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
            capping.watts = _fresh_watts(readings())
            found = capping.limits(limits)
            plan = capping.plan(found, curves())
            above = _above(found, plan)
        _warn(above, mode, context)
        capping.warn_of_stuck(mode)
        changes = capping.changes(plan)
        result = capping.carry_out(changes, mode == "dry_run")
        step.changed, step.errors = result["changed"], [*step.errors, *capping.errors]
        step.counts = {"above": len(above), "caps": len(plan.caps), "changes": len(changes)}
        run.log.diff += result["diff"]
        told = {
            "cap": mode,
            "above": above,
            "changes": [
                {"name": name, "watts": one.desired, "done": name in result["done"]}
                for name, one in changes.items()
            ],
            "caps": [{"name": name, **cap._asdict()} for name, cap in sorted(capping.caps.items())],
        }
        run.log.results["limits"], run.log.summary["caps"] = told, step.counts
        run.write("limits", {**told, "errors": capping.errors})


def _fresh_watts(readings: Readings) -> dict[str, float]:
    """The fresh power draw by node."""
    values = {name: one.fresh("power_watts") for name, one in readings.items()}
    return {name: value for name, value in values.items() if value is not None}


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
    # Limits that BMCs had before our caps.
    found_watts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, cluster: Cluster, caps: dict[str, Cap], context: Context) -> _Capping:
        options = of_module(
            limiting.SPEC, run.options, "read", targets=[], min_success=0.0, timeout=_TIMEOUT
        )
        given = configured_machines(cluster.targets, {**options, "targets": None})
        machines = {
            one.name: one
            for one in with_uuids_of(given, cluster.snapshot)
            if one.target.kind == REDFISH and one.target.problem is None
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
        asked = sorted(name for name in above & known.keys() if known[name].floor_watts is not None)
        allowed = self._allowed(asked)
        for name in asked:
            known[name] = _within_bounds(known[name], allowed.get(name))
            before = None if name not in allowed else allowed[name]["limit_watts"]
            if name not in self.caps and before is not None:
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
                    IDLE_MARGIN * curve.watts[0] if can_be_capped and curve is not None else None,
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

    def changes(self, plan: CapPlan) -> dict[str, LimitChange]:
        """The limits to set and to remove, by machine."""
        desired: dict[str, float | None] = {}
        for name, watts in plan.caps.items():
            cap, is_lost = self.caps.get(name), self.watts.get(name, 0.0) > _LOST * watts
            if cap is None or cap.watts != watts or is_lost:
                desired[name] = watts
        for name in self.caps.keys() - plan.caps.keys():
            desired[name] = self.caps[name].before_watts
        return {
            name: LimitChange(self.machines[name], watts, is_to_set=True)
            for name, watts in sorted(desired.items())
            if name in self.machines
        }

    def carry_out(self, changes: t.Mapping[str, LimitChange], is_dry: bool) -> Result:
        """Set the limits; the caps in force follow what the BMCs accepted."""
        if not changes or is_dry:
            return {"changed": False, "diff": [], "done": ()}
        result = limiting.limit_machines(list(changes.values()), self.options, self.context)
        self.errors += result["errors"]
        failed = {one["name"] for one in result["errors"]}
        done = set() if self.context.check_mode else changes.keys() - failed
        # A BMC that accepted a limit may have it later.
        accepted = {one["name"] for one in result["limits"] if one["changed"]} & failed
        for name in () if self.context.check_mode else sorted(done | accepted):
            desired, cap = changes[name].desired, self.caps.get(name)
            before = self.found_watts.get(name) if cap is None else cap.before_watts
            if desired is not None and desired != before:
                self.caps[name] = Cap(desired, before)
            elif name in done:
                self.caps.pop(name, None)
        return {
            "changed": result["changed"],
            "diff": [result["diff"]] if result["changed"] else [],
            "done": done,
        }


def _recorded(run: Run) -> dict[str, Cap]:
    """The caps in force after the last run. Raises InvalidInput, as nobody else knows them."""
    try:
        document = run.folder.former("limits") or {}
    except InvalidInput as error:
        raise InvalidInput(
            f"{error}. The caps of earlier runs are unknown without this file: remove them with "
            "redfish_power_limit and state absent, and then the file"
        ) from error
    return {one["name"]: Cap(one["watts"], one["before_watts"]) for one in document.get("caps", ())}


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
        covered = {"on": "caps are set", "dry_run": "limits.cap is dry_run, so that no cap is set"}
        uncovered = one["uncovered_watts"]
        left = f"; no cap covers {uncovered:,.0f} W of it" if uncovered else ""
        context.warn(
            f"The {subject} draws {one['watts']:,.0f} W, above its limit of "
            f"{one['limit_watts']:,.0f} W; {covered[mode]}{left}"
        )
