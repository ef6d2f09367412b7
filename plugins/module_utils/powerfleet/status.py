# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The status of a PowerFleet: the outcome of a run, and the decision whether to write it.

An unchanged status is written only as a heartbeat. Measured values vary all the time, so they count
as unchanged within a tolerance.
"""

from __future__ import annotations

import datetime
import math
import typing as t
from dataclasses import dataclass, field

from ..base.errors import InvalidInput, TargetError, told_text
from ..base.fields.lenient import member, number, objects
from ..base.json_types import Object
from ..base.units import format_time, parse_time
from ..kube.resource.conditions import condition, kept, of_generation
from ..kube.unschedulable import Unplaced
from ..observe.metering.metering import Metering
from ..power.limits.domains import names_domain
from ..sleep.cluster.record import HOLD
from .ownership import Ownership
from .resource import PowerFleet
from .settings import has_caps, has_limits

Status = dict[str, t.Any]

MAX_LISTED = 20
_MAX_NAMED = 3
# The age at which a run without news stores its time.
HEARTBEAT_SECONDS = 300.0
# Tolerances of a value: a share of the stored one, or a number of units.
_NOTABLE_SHARE, _NOTABLE_WATTS, _NOTABLE_CELSIUS = 0.02, 1.0, 0.5
# One of hundreds of racks would change in each run, as sensors of BMCs have whole degrees.
_NOTABLE_INLET = 1.5


@dataclass(frozen=True)
class Failure:
    """The step that ended a run, and its sentence."""

    step: str
    sentence: str

    @property
    def reason(self) -> str:
        """Reason for a condition: NodeConfigsFailed, ReadFailed."""
        return "".join(part.capitalize() for part in self.step.split("_")) + "Failed"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a run.

    ``summary`` is that of the fleet's run; None: the run ended before. ``unbound`` has the pods
    with a node in the plan that are not bound, by namespace and name, with the reasons; None:
    nothing was bound, or the run ended before. ``refused`` has a sentence for each object that the
    API server refused, in steps that continued. ``metered`` is None without the ``meter`` step; if
    that gave nothing, ``metering_failure`` is the reason. ``switched`` are transitions of machines
    that sleep, in a dry run those that would be made.
    """

    trigger: str
    began: datetime.datetime
    seconds: float
    steps: t.Sequence[Object] = ()
    ownership: Ownership | None = None
    summary: Object = field(default_factory=dict)
    errors: t.Sequence[TargetError] | None = None
    unplaced: t.Sequence[Unplaced] | None = None
    waiting: int = 0
    unbound: t.Mapping[tuple[str, str], str] | None = None
    saved_watts: t.Mapping[str, float] = field(default_factory=dict)
    metered: Metering | None = None
    metering_failure: str = ""
    switched: t.Sequence[Object] = ()
    failure: Failure | None = None
    refused: t.Sequence[str] = ()


def suspended_status(fleet: PowerFleet) -> Status:
    """The stored status with the condition of a suspended fleet."""
    sentence = "The fleet is suspended: nothing is read, placed or written until suspend is false."
    return unready_status(fleet, "Suspended", sentence)


def ending_status(
    fleet: PowerFleet, left: t.Sequence[str], capped: t.Sequence[str], problem: str
) -> Status:
    """The stored status with the condition of a deleted fleet.

    ``left`` are machines that are not yet awake, ``capped`` those that still have a cap.
    """
    if problem:
        return unready_status(fleet, "MachinesNotWoken", problem)
    sentences = []
    if left:
        sentences.append(
            f"The fleet is deleted as soon as its machines are awake: {_named(left)}. A machine with "
            f"the annotation {HOLD} is left as it is."
        )
    if capped:
        sentences.append(
            f"The fleet is deleted as soon as the caps are removed of {_named(capped)}. Without a "
            "NodeConfig the cap of a machine stays and is forgotten."
        )
    sentence = " ".join(sentences)
    # Another reason than those of Events about machines: an object has one Event for each reason.
    return unready_status(fleet, "WaitingForMachines", sentence)


def _named(names: t.Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return f"{', '.join(names[:_MAX_NAMED])}{more}"


def unready_status(fleet: PowerFleet, reason: str, sentence: str) -> Status:
    """The stored status of a fleet without a run, with the reason as condition Ready."""
    ready = condition("Ready", "False", reason, sentence)
    return {
        **_kept(fleet),
        "observedGeneration": fleet.generation,
        "conditions": [
            *(one for one in _conditions(fleet.status) if one["type"] != "Ready"),
            *of_generation([ready], fleet.generation),
        ],
    }


def status_of(fleet: PowerFleet, outcome: Outcome) -> Status:
    """The status after a run; parts that it did not reach are unchanged."""
    parts = {
        "nodes": _nodes(fleet, outcome),
        "curves": _curves(fleet, outcome),
        "watts": _watts(fleet, outcome),
        "metering": _metering(fleet, outcome),
        "hottestInlet": _hottest(fleet, outcome),
        "pods": _pods(fleet, outcome),
        "sleep": sleep_of(fleet, outcome.summary),
        "limits": limits_of(fleet, outcome.summary, outcome.unplaced),
        "failing": _failing(fleet, outcome),
        "unplaced": _unplaced(fleet, outcome),
    }
    conditions = [
        _observed(fleet, outcome),
        _placed(fleet, outcome),
        *([_metered(fleet, outcome)] if _meters(fleet) else []),
        _ready(fleet, outcome),
    ]
    return {
        **{name: part for name, part in parts.items() if part},
        "observedGeneration": fleet.generation,
        "conditions": of_generation(conditions, fleet.generation),
        "lastRun": {
            "time": format_time(outcome.began + datetime.timedelta(seconds=outcome.seconds)),
            "trigger": outcome.trigger,
            "seconds": round(outcome.seconds, 1),
            "steps": [
                {"name": step["name"], "seconds": round(step["seconds"], 1)}
                for step in outcome.steps
            ],
        },
    }


def is_due(
    status: Object, stored: Object, heartbeat_seconds: float | None, now: datetime.datetime
) -> bool:
    """Whether a status is due: it has a change, or the heartbeat is due.

    ``heartbeat_seconds`` is None if there was no run.
    """
    if _essence(status, stored) != _essence(stored, stored):
        return True
    if heartbeat_seconds is None:
        return False
    try:
        last = parse_time(member(stored, "lastRun", "time") or "")
    except InvalidInput:
        return True
    return (now - last).total_seconds() >= heartbeat_seconds


def _essence(status: Object, stored: Object) -> Status:
    """The part of a status whose change causes a write."""
    essence = {
        name: status.get(name) or None
        for name in ("observedGeneration", "nodes", "curves", "failing", "unplaced")
    }
    told = {"pods": dict(status.get("pods") or {})}
    if not told["pods"].get("bound"):
        # A run without bindings causes no write.
        told["pods"]["bound"] = member(stored, "pods", "bound") or 0
    watts = status.get("watts") or {}
    told["watts"] = {
        name: _settled(value, member(stored, "watts", name), _NOTABLE_WATTS, _NOTABLE_SHARE)
        for name, value in watts.items()
    }
    metering = status.get("metering") or {}
    told["metering"] = {
        name: _settled(metering.get(name), member(stored, "metering", name), least, _NOTABLE_SHARE)
        for name, least in (("nodes", 0.5), ("failing", 0.5), ("pods", 1.5), ("watts", 1.0))
    }
    told["sleep"] = _settled_sleep(status.get("sleep") or {}, stored)
    told["limits"] = _settled_limits(status.get("limits") or {}, stored)
    celsius = member(status, "hottestInlet", "celsius")
    told["hottest"] = {
        "celsius": _settled(celsius, member(stored, "hottestInlet", "celsius"), _NOTABLE_CELSIUS)
    }
    told["conditions"] = {
        one["type"]: (one["status"], one["reason"], one["message"]) for one in _conditions(status)
    }
    return {**essence, **told}


def _settled_sleep(sleep: Object, stored: Object) -> Status:
    """The part about sleep without values that change in every run, which the heartbeat tells."""
    moving = ("savedKilowattHours", "reserveCores")
    saved, before = sleep.get("savedWatts"), member(stored, "sleep", "savedWatts")
    return {
        **{name: value for name, value in sleep.items() if name not in moving},
        "savedWatts": _settled(saved, before, _NOTABLE_WATTS, _NOTABLE_SHARE),
        "message": bool(sleep.get("message")),
    }


def _settled_limits(limits: Object, stored: Object) -> Status:
    """The part about limits with settled power draws; a run without evictions causes no write."""
    before = {
        (one.get("kind"), one.get("name")): one
        for one in objects(member(stored, "limits", "domains"))
    }
    domains = []
    for one in objects(limits.get("domains")):
        known = before.get((one.get("kind"), one.get("name")), {})
        watts = _settled(one.get("watts"), known.get("watts"), _NOTABLE_WATTS, _NOTABLE_SHARE)
        evicted = one.get("evicted") or known.get("evicted")
        celsius = _settled(one.get("celsius"), known.get("celsius"), _NOTABLE_INLET)
        told = {**one, "watts": watts, "celsius": celsius, "evicted": evicted}
        is_settled = celsius is not None and celsius == known.get("celsius")
        if is_settled and {one["state"], known.get("state")} == {"above", "reduced"}:
            told["state"] = known["state"]
        domains.append(told)
    evicted = limits.get("evicted") or member(stored, "limits", "evicted")
    return {**limits, "domains": domains, "evicted": evicted}


def _settled(value: t.Any, stored: t.Any, units: float, share: float = 0.0) -> float | None:
    """The stored value if the new one is within the tolerance."""
    new, old = number(value), number(stored)
    if new is None or old is None:
        return new
    return old if abs(new - old) < max(units, share * abs(old)) else new


def _conditions(status: Object) -> list[dict[str, t.Any]]:
    """Our readable conditions of a stored status, without those of other writers."""
    names = ("type", "status", "reason", "message")
    return [
        dict(one)
        for one in status.get("conditions") or ()
        if all(isinstance(one.get(name), str) for name in names)
        and one["type"] in ("Observed", "Placed", "Metered", "Ready")
    ]


def _kept(fleet: PowerFleet) -> Status:
    """The stored parts: all of ours except the conditions."""
    names = (
        *("nodes", "curves", "watts", "metering", "hottestInlet"),
        *("pods", "sleep", "limits", "failing", "unplaced", "lastRun"),
    )
    return {name: fleet.status[name] for name in names if fleet.status.get(name)}


def _nodes(fleet: PowerFleet, outcome: Outcome) -> Status:
    if outcome.ownership is None:
        return dict(member(fleet.status, "nodes") or {})
    scope = outcome.ownership.scope_of(fleet.key)
    found = {
        "selected": len(scope.nodes),
        "claimedByOlder": outcome.ownership.lost_to_older(fleet.key),
        "claimedFromYounger": outcome.ownership.kept_from_younger(fleet.key),
    }
    if "fresh" not in outcome.summary:
        return found
    return {**found, "read": outcome.summary["fresh"], "failing": outcome.summary["failed"]}


def _curves(fleet: PowerFleet, outcome: Outcome) -> Status:
    found = outcome.summary.get("curve_sources")
    if found is None:
        return dict(member(fleet.status, "curves") or {})
    matches = outcome.summary.get("published_matches")
    return {**found, **({"publishedMatches": dict(matches)} if matches else {})}


def _watts(fleet: PowerFleet, outcome: Outcome) -> Status:
    summary, stored = outcome.summary, dict(member(fleet.status, "watts") or {})
    if "measured_watts" in summary:
        stored.pop("measured", None)
        if summary["measured_nodes"]:
            stored["measured"] = summary["measured_watts"]
    if "watts" in summary:
        stored["predicted"] = round(summary["watts"]["after"], 1)
        stored["lowerBound"] = round(summary["watts"]["lower_bound"], 1)
    return stored


def _meters(fleet: PowerFleet) -> bool:
    return bool(fleet.spec["metering"]["source"] != "none")


def _metering(fleet: PowerFleet, outcome: Outcome) -> Status:
    if not _meters(fleet):
        return {}
    found = outcome.metered
    if found is None:
        return dict(member(fleet.status, "metering") or {})
    return {
        "nodes": len(found.nodes),
        "pods": len(found.pods),
        "watts": round(math.fsum(math.fsum(zones.values()) for zones in found.pods.values()), 1),
        "failing": len(found.errors),
    }


def _hottest(fleet: PowerFleet, outcome: Outcome) -> Status:
    summary = outcome.summary
    if "hottest_node" not in summary:
        return dict(member(fleet.status, "hottestInlet") or {})
    if summary["hottest_node"] is None:
        return {}
    return {"node": summary["hottest_node"], "celsius": round(summary["hottest_inlet_celsius"], 1)}


def _pods(fleet: PowerFleet, outcome: Outcome) -> Status:
    if outcome.unplaced is None:
        return dict(member(fleet.status, "pods") or {})
    bound = outcome.summary.get("bound", 0)
    waiting = outcome.waiting - bound
    if outcome.unbound is not None:
        waiting = len(outcome.unplaced) + len(outcome.unbound)
    return {
        "waiting": max(0, waiting),
        "bound": bound,
        "unplaced": len(outcome.unplaced),
    }


def sleep_of(fleet: PowerFleet, summary: Object) -> Status:
    """The machines by phase, of the last run with the step."""
    told = summary.get("sleep")
    if told is None:
        return dict(member(fleet.status, "sleep") or {})
    names = ("awake", "draining", "asleep", "waking", "quarantined", "mode")
    return {
        **{name: told[name] for name in names},
        "goingOff": told["going_off"],
        "reserveCores": round(told["reserve"].get("cpu", 0.0) / 1000, 1),
        "savedWatts": round(told["saved_watts"], 1),
        "savedKilowattHours": round(told["saved_joules"] / 3.6e6, 2),
        **({"message": told_text(told["obstacle"])} if told["obstacle"] else {}),
    }


def limits_of(
    fleet: PowerFleet, summary: Object, unplaced: t.Sequence[Unplaced] | None = None
) -> Status:
    """The limits with their power draw, of the last run with the step; none without limits."""
    told = summary.get("limiting")
    if told is None:
        is_kept = has_limits(fleet) or has_caps(fleet)
        return dict(member(fleet.status, "limits") or {}) if is_kept else {}
    if not told["domains"] and not told["capped"]:
        return {}
    first = sorted(
        told["domains"], key=lambda one: (one["state"] != "above", one["kind"] == "node")
    )
    return {
        "cap": told["cap"],
        "evict": told["evict"],
        "capped": len(told["capped"]),
        "evicted": told["evicted"],
        "domains": [
            {
                "kind": one["kind"],
                **({"name": one["name"]} if one["name"] else {}),
                **_shown(one, {"limitWatts": "limit_watts", "limitCelsius": "limit_celsius"}),
                **_shown(one, {"watts": "watts", "celsius": "celsius"}),
                "state": one["state"],
                "capped": one["capped"],
                "evicted": one["evicted"],
                "deferredPods": sum(
                    names_domain(pod.message, one["kind"], one["name"]) for pod in unplaced or ()
                ),
            }
            for one in first[:MAX_LISTED]
        ],
    }


def _shown(domain: Object, names: t.Mapping[str, str]) -> Status:
    """The fields of a limit that it has."""
    return {shown: domain[name] for shown, name in names.items() if domain.get(name) is not None}


def _failing(fleet: PowerFleet, outcome: Outcome) -> list[Object]:
    """One sentence for each node with a failure, in the order of names."""
    if outcome.errors is None:
        return list(member(fleet.status, "failing") or [])
    sentences: dict[str, str] = {}
    for error in outcome.errors:
        if error.name and error.reason and error.detail:
            sentences.setdefault(error.name, f"{error.reason}: {error.detail}")
    return [
        {"node": node, "message": told_text(sentences[node])}
        for node in sorted(sentences)[:MAX_LISTED]
    ]


def _unplaced(fleet: PowerFleet, outcome: Outcome) -> list[Object]:
    if outcome.unplaced is None:
        return list(member(fleet.status, "unplaced") or [])
    ordered = sorted(outcome.unplaced, key=lambda one: (one.namespace, one.pod))
    return [
        {name: told_text(getattr(one, name)) for name in ("namespace", "pod", "message")}
        for one in ordered[:MAX_LISTED]
    ]


def _observed(fleet: PowerFleet, outcome: Outcome) -> Status:
    summary, failure = outcome.summary, outcome.failure
    if failure is not None and failure.step in ("read", "merge", "statuses"):
        return condition("Observed", "False", failure.reason, failure.sentence)
    if "configured" not in summary:
        return kept(fleet.status, "Observed")
    configured, fresh = summary["configured"], summary["fresh"]
    if not configured:
        sentence = (
            "No node of the fleet has a NodeConfig, so no machine is known; create templates."
        )
        return condition("Observed", "False", "NoNodeConfigs", sentence)
    sentence = f"{fresh} of {configured} machines were read."
    if summary["failed"]:
        return condition("Observed", "True", "SomeMachinesFailing", sentence)
    return condition("Observed", "True", "MachinesRead", sentence)


def _placed(fleet: PowerFleet, outcome: Outcome) -> Status:
    failure = outcome.failure
    if failure is not None and failure.step in ("predict", "place", "bind", "devices", "evict"):
        return condition("Placed", "False", failure.reason, failure.sentence)
    if not fleet.spec["placement"]["enabled"]:
        return condition("Placed", "Unknown", "PlacementOff", "Placement is off.")
    if outcome.unplaced is None:
        return kept(fleet.status, "Placed")
    if outcome.unplaced:
        sentence = f"For {len(outcome.unplaced)} waiting pods the fleet has no node."
        sentence = " ".join((sentence, *_unbound(outcome)))
        return condition("Placed", "False", "PodsUnplaced", sentence)
    if not fleet.spec["placement"]["bind"]:
        return condition("Placed", "Unknown", "BindingOff", "Pods are not bound.")
    for sentence in _unbound(outcome):
        return condition("Placed", "False", "PodsNotBound", sentence)
    return condition("Placed", "True", "NoPodLeft", "No pod waits without a node.")


def _unbound(outcome: Outcome) -> list[str]:
    """A sentence about planned pods that wait without a node; none if there is no such pod."""
    if not outcome.unbound:
        return []
    count = len(outcome.unbound)
    (namespace, pod), reason = min(outcome.unbound.items())
    which, more = "1 pod with a planned node waits", ""
    if count > 1:
        which, more = f"{count} pods with a planned node wait", f" (and {count - 1} more)"
    return [f"{which}; {namespace}/{pod} was not bound: {reason}{more}"]


def _metered(fleet: PowerFleet, outcome: Outcome) -> Status:
    found = outcome.metered
    if outcome.metering_failure:
        return condition("Metered", "False", "MeterFailed", outcome.metering_failure)
    if found is None:
        return kept(fleet.status, "Metered")
    if found.errors:
        first = found.errors[0]
        sentence = (
            f"Metering has {len(found.errors)} errors, the first is that of {first.name}: "
            f"{first.reason}: {first.detail}"
        )
        return condition("Metered", "False", "SomeNotMetered", sentence)
    if not found.nodes:
        sentence = "The source has no metrics of Kepler for the nodes of the fleet."
        return condition("Metered", "False", "NothingMetered", sentence)
    sentence = "All nodes that the source knows are metered."
    return condition("Metered", "True", "PodsMetered", sentence)


def _ready(fleet: PowerFleet, outcome: Outcome) -> Status:
    failure, ownership = outcome.failure, outcome.ownership
    if failure is not None:
        return condition("Ready", "False", failure.reason, failure.sentence)
    if outcome.refused:
        more = len(outcome.refused) - 1
        sentence = f"{outcome.refused[0]}{f' (and {more} more)' if more else ''}"
        return condition("Ready", "False", "ObjectsRefused", sentence)
    if ownership is not None and not ownership.scope_of(fleet.key).nodes:
        lost = ownership.lost_to_older(fleet.key)
        sentence = (
            f"All {lost} nodes that the selector matches belong to older fleets."
            if lost
            else "The selector matches no node of the cluster."
        )
        return condition("Ready", "False", "NoNodes", sentence)
    return condition("Ready", "True", "Reconciled", "The last run carried out all its steps.")
