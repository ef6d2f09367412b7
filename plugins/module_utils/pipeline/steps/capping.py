# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Caps of one run: what BMCs allow, the limits that they get, and the entries that tell of them.

Machines that sleep are left alone. An entry has the limit that the BMC had before: that one comes
back.
"""

from __future__ import annotations

import functools
import math
import typing as t
from dataclasses import dataclass, field, replace

from ...base.context import Context, Result
from ...base.fields.lenient import member, objects, text, whole
from ...base.json_types import Object
from ...power.limits.caps import IDLE_MARGIN, TARGET, CapMachine, CapPlan, plan_caps
from ...power.limits.domains import Limit, Place, limits_on, place_of
from ...power.limits.options import PowerLimits
from ...redfish.power_control import limiting
from ...redfish.power_control.limiting import LimitChange
from ...redfish.power_control.machines import REDFISH, Machine, configured_machines, with_uuids_of
from ...scheduling.curve import Curve, Curves
from ...scheduling.model import ASLEEP_TAINT
from ..limits_record import Cap
from ..options import of_module
from ..run import Run
from .cluster import Cluster

# A machine above its cap by this factor has lost it.
_LOST = 1.05
# A failure after which a BMC may have accepted the limit.
_UNCLEAR = ("unreachable", "timeout", "server_error", "malformed")
# A failure to reach a BMC.
_SILENT = ("unreachable", "timeout")
_TIMEOUT = 60.0


@dataclass
class Capping:
    """The machines of one run that can be capped, with the caps in force, and fresh readings.

    ``caps`` are those of the run's own nodes, and those that this owner set on others.
    """

    cluster: Cluster
    owner: str
    machines: t.Mapping[str, Machine]
    caps: dict[str, Cap]
    options: t.Mapping[str, t.Any]
    type_label: str
    context: Context
    watts: t.Mapping[str, float] = field(default_factory=dict)
    errors: list[Result] = field(default_factory=list)
    # Limits that BMCs have now, where they were asked; None is no limit.
    found_watts: dict[str, float | None] = field(default_factory=dict)

    @classmethod
    def of(cls, run: Run, cluster: Cluster, caps: dict[str, Cap], context: Context) -> Capping:
        options = of_module(
            limiting.SPEC, run.options, "read", targets=[], min_success=0.0, timeout=_TIMEOUT
        )
        targets = cluster.targets_with(caps)
        given = configured_machines(targets, {**options, "targets": None})
        machines = {
            one.name: one
            for one in with_uuids_of(given, cluster.snapshot)
            if one.target.kind == REDFISH
            and one.target.problem is None
            and one.expected.system_uuid is not None
        }
        label = run.options["predict"]["type_label"]
        return cls(cluster, run.owner, machines, caps, options, label, context)

    def is_own(self, name: str) -> bool:
        """Whether the node is one of the run."""
        return self.cluster.node_names is None or name in self.cluster.node_names

    def limits(self, limits: PowerLimits) -> list[Limit]:
        """The limits on machines with a reading, and on those that should have one."""
        return limits_on(
            [
                place
                for place in self.places
                if place.name in self.watts
                or (place.name in self.machines and place.name not in self.asleep)
            ],
            limits,
        )

    @functools.cached_property
    def places(self) -> list[Place]:
        """All nodes of the cluster."""
        return [
            place_of(
                name, member(node, "metadata", "labels") or {}, self.type_label, self.is_own(name)
            )
            for name, node in self._nodes()
        ]

    @functools.cached_property
    def asleep(self) -> frozenset[str]:
        """The machines that sleep."""
        return frozenset(name for name, node in self._nodes() if _sleeps(node))

    def is_held(self, names: t.Iterable[str]) -> bool:
        """Whether a cap holds one of the machines."""
        return any(
            CapMachine(name, self.watts[name], cap_watts=self.caps[name].watts).is_held
            for name in names
            if name in self.caps and name in self.watts
        )

    def least_watts(self, names: t.Iterable[str], curves: Curves) -> float:
        """The power of the machines at their floors; those that sleep or lack a curve draw on."""
        return sum(
            self.watts[name] if floor is None else math.ceil(floor) / TARGET
            for name in names
            if name in self.watts
            for curve in [None if name in self.asleep else curves.by_node.get(name)]
            for floor in [_floor_watts(curve)]
        )

    def unread(self, racks: t.Collection[str]) -> dict[str, list[str]]:
        """Machines of other runs by rack, which this run does not read."""
        found = {
            place.name: place.rack
            for place in self.places
            if place.rack in racks and not place.is_ours and place.name not in self.watts
        }
        by_rack: dict[str, list[str]] = {}
        for one in self.cluster.targets_with(found).nodes if found else ():
            if one.name in found:
                by_rack.setdefault(found[one.name], []).append(one.name)
        return by_rack

    def plan(self, limits: t.Sequence[Limit], curves: Curves) -> CapPlan:
        """The plan; BMCs of machines that may get a cap tell the limits that they allow."""
        known = self._known(curves)
        first = plan_caps(limits, known)
        above = {name for index in first.above for name in limits[index].nodes}
        above |= {
            name
            for name, cap in self.caps.items()
            if self.is_lost(name, cap.watts) or first.caps.get(name, 0.0) > cap.watts
        }
        asked = sorted(name for name in above & known.keys() if known[name].floor_watts is not None)
        allowed = self._allowed(asked)
        for name in asked:
            known[name] = _within_bounds(known[name], allowed.get(name))
            if name in allowed:
                self.found_watts[name] = allowed[name]["limit_watts"]
        plan = plan_caps(limits, known)
        return replace(plan, caps={**plan.caps, **self._unjudged(limits)})

    def plan_without(self, limits: t.Sequence[Limit]) -> CapPlan:
        """The plan that ends all caps, and tells of the domains above their limits."""
        known = {name: CapMachine(name, watts) for name, watts in self.watts.items()}
        return plan_caps(limits, known)

    def _unjudged(self, limits: t.Sequence[Limit]) -> dict[str, float]:
        """Caps that stay: of machines that sleep, and of those with a limit but no reading."""
        limited = {name for limit in limits for name in limit.nodes if self.is_own(name)}
        silent = limited - self.watts.keys()
        return {name: cap.watts for name, cap in self.caps.items() if name in self.asleep | silent}

    def _nodes(self) -> t.Iterator[tuple[str, Object]]:
        for node in self.cluster.snapshot["nodes"]:
            yield node["metadata"]["name"], node

    def _known(self, curves: Curves) -> dict[str, CapMachine]:
        priorities = _priorities(self.cluster.snapshot.get("pods"))
        found: dict[str, CapMachine] = {}
        for name, _rack, _type, is_own in self.places:
            curve = curves.by_node.get(name)
            can_be_capped = name in self.machines and name not in self.asleep and is_own
            cap = self.caps.get(name) if is_own else None
            if name in self.watts:
                found[name] = CapMachine(
                    name,
                    self.watts[name],
                    _floor_watts(curve) if can_be_capped else None,
                    priorities.get(name, 0),
                    None if cap is None else cap.watts,
                    None if cap is None else cap.before_watts,
                )
        return found

    def _allowed(self, names: t.Sequence[str]) -> dict[str, Result]:
        """The limits of BMCs with their bounds; a failed BMC has none."""
        if not names:
            return {}
        changes = [LimitChange(self.machines[name]) for name in names]
        result = limiting.limit_machines(changes, self.options, self.context)
        self.errors += result["errors"]
        silent = [one["name"] for one in result["errors"] if one["reason"] in _SILENT]
        if silent:
            one = f"The BMC of {min(silent)} did not answer, so that the machine gets"
            several = (
                f"{len(silent)} BMCs, among them that of {min(silent)}, did not answer, so that the "
                "machines get"
            )
            self.context.warn(
                f"{one if len(silent) == 1 else several} no new cap; this host asks BMCs itself, and "
                "never a gateway that reads them"
            )
        return {one["name"]: one for one in result["limits"]}

    def is_lost(self, name: str, watts: float) -> bool:
        """Whether a machine draws more than its cap allows."""
        return self.watts.get(name, 0.0) > _LOST * watts

    def is_gone(self, name: str) -> bool:
        """Whether the BMC of a machine with a cap said that it has another limit, or none."""
        found = self.found_watts.get(name)
        is_there = found is not None and self.caps[name]._replace(earlier_watts=()).is_of(found)
        return name in self.found_watts and not is_there

    def foreign_watts(self, name: str) -> float | None:
        """The limit of somebody else that the BMC has now; None without one."""
        found, cap = self.found_watts.get(name), self.caps.get(name)
        return None if found is None or (cap is not None and cap.is_of(found)) else found

    def changes(self, plan: CapPlan) -> dict[str, LimitChange]:
        """The limits to set and to remove, by machine. A tighter limit of somebody else stays."""
        found: dict[str, LimitChange] = {}
        for name, watts in plan.caps.items():
            cap, foreign = self.caps.get(name), self.foreign_watts(name)
            is_due = cap is None or cap.watts != watts or self.is_gone(name)
            is_due = is_due or self.is_lost(name, watts)
            if name in self.machines and is_due and (foreign is None or watts < foreign):
                found[name] = LimitChange(self.machines[name], watts, is_to_set=True)
        for name in self.caps.keys() - plan.caps.keys():
            cap = self.caps[name]
            if name in self.machines:
                found[name] = LimitChange(
                    self.machines[name], cap.before_watts, is_to_set=True, replaces=cap.sent_watts
                )
        return dict(sorted(found.items()))


class CapChanges:
    """The limits that BMCs get in one run, and the caps in force before and after."""

    def __init__(self, capping: Capping, plan: CapPlan) -> None:
        self._capping, self._plan = capping, plan
        self.changes = capping.changes(plan)
        self.done: list[str] = []
        self.is_taken_over = False
        self._former = dict(capping.caps)

    def holding(self, name: str) -> float | None:
        """The cap that holds a machine after this run; None if it is not known to hold it."""
        cap, change = self._capping.caps.get(name), self.changes.get(name)
        if cap is None or (change is not None and change.error is not None):
            return None
        former, found = self._former.get(name), self._capping.found_watts.get(name)
        is_there = former is not None and found is not None and former.is_of(found)
        if former is not None and is_there and self._capping.is_lost(name, former.watts):
            # Its BMC has the cap, and does not keep to it.
            return None
        return cap.watts

    def watts_without_cap(self, name: str, cores: float, curves: Curves) -> float:
        """The power draw of a machine as far as it is known without the cap before this run."""
        watts, former = self._capping.watts[name], self._former.get(name)
        curve = curves.by_node.get(name)
        if former is None or curve is None:
            return watts
        is_held = CapMachine(name, watts, cap_watts=former.watts).is_held
        return max(watts, curve.watts_at(cores)) if is_held else watts

    def intend(self) -> None:
        """Take the caps to set for caps in force, before a BMC has them."""
        capping, caps = self._capping, self._capping.caps
        for name in self.changes.keys() & self._plan.caps.keys():
            watts, cap = self._plan.caps[name], caps.get(name)
            before = capping.foreign_watts(name)
            earlier: tuple[float, ...] = ()
            if cap is not None:
                before = cap.before_watts if before is None else before
                earlier = tuple(one for one in cap.sent_watts if one != watts)
            caps[name] = Cap(watts, before, earlier, capping.owner)

    def leave_to_another_run(self) -> None:
        """Change nothing, as another run changes the same entries."""
        self._capping.caps.clear()
        self._capping.caps.update(self._former)
        self.is_taken_over = True

    def carry_out(self) -> Result:
        """Set the limits; the caps in force follow what the BMCs accepted."""
        capping, caps = self._capping, self._capping.caps
        changes = list(self.changes.values())
        result = limiting.limit_machines(changes, capping.options, capping.context)
        capping.errors += result["errors"]
        for name, one in () if capping.context.check_mode else self.changes.items():
            if one.error is None:
                self.done.append(name)
            if name not in self._plan.caps:
                self._end(name, one)
            elif one.error is None:
                caps[name] = caps[name]._replace(earlier_watts=())
            elif one.before is None or not (one.changed or one.error.reason in _UNCLEAR):
                self._withdraw(name)
        return {
            "changed": result["changed"],
            "diff": [result["diff"]] if result["changed"] else [],
        }

    def _end(self, name: str, change: LimitChange) -> None:
        """Forget a cap that has ended, or that somebody replaced."""
        if change.error is not None or change.before is None:
            return
        capping = self._capping
        cap, now = capping.caps.pop(name), (change.after or change.before).watts
        if now is not None and now != change.desired and not cap.is_of(now):
            capping.context.warn(
                f"The limit of {now:,.0f} W of {name} stays, because it is not the cap of "
                f"{cap.watts:,.0f} W that an earlier run set"
            )

    def _withdraw(self, name: str) -> None:
        """The cap before this run, as the BMC did not accept another one."""
        del self._capping.caps[name]
        if name in self._former:
            self._capping.caps[name] = self._former[name]


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
    """The machine with the bounds of its BMC; no floor if the BMC has no place for a limit."""
    if allowed is None or machine.floor_watts is None:
        return replace(machine, floor_watts=None)
    floor_watts = max(machine.floor_watts, allowed["min_watts"] or 0.0)
    bounds = [one for one in (machine.max_watts, allowed["max_watts"]) if one is not None]
    return replace(machine, floor_watts=floor_watts, max_watts=min(bounds, default=None))
