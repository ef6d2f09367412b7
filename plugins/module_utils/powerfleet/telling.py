# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Events of a PowerFleet beyond those of its conditions: machines and RmdWorkloads."""

from __future__ import annotations

import typing as t

from ..base.fields.lenient import member, objects, text
from ..base.json_types import Object
from ..kube.resource.events import Note, Reporter, shortened
from ..power.limits.domains import title_of
from .resource import PowerFleet
from .status import MAX_LISTED

# Phase of a machine → reason of the fleet's Event; the phases between are those of Nodes alone.
PHASE_REASONS = {
    "asleep": "MachinesAsleep",
    "waking": "MachinesWaking",
    "awake": "MachinesAwake",
    "quarantined": "MachinesQuarantined",
}


def refused_workloads(statuses: t.Iterable[Object]) -> list[Note]:
    """Sentences about failed RmdWorkloads; ``statuses`` are manifests of changed statuses."""
    return [
        (one, f"{condition['reason']}: {condition['message']}")
        for one in statuses
        if one["kind"] == "RmdWorkload"
        for condition in one["status"]["conditions"]
        if condition["type"] == "Ready" and condition["status"] == "False"
    ]


def tell_switched(reporter: Reporter, fleet: PowerFleet, transitions: t.Iterable[Object]) -> None:
    """One Event about the fleet for each phase at which machines arrived; Nodes have their own."""
    for phase, reason in PHASE_REASONS.items():
        arrived = [one for one in transitions if one["phase"] == phase]
        if arrived:
            notes = shortened([f"{one['name']}: {one['reason']}" for one in arrived])
            is_bad = any(one["warning"] for one in arrived)
            reporter.tell(fleet.as_object, reason, notes, is_bad)


def tell_limits(reporter: Reporter, fleet: PowerFleet, status: Object) -> None:
    """Events about racks that came above their limits or below them, and about evictions."""
    before = _states_of(fleet.status)
    found = objects(member(status, "limits", "domains"))
    # A rack that is still reduced for its inlet is neither.
    exceeded = [
        one
        for one in found
        if one["state"] == "above" and before.get(_key(one)) not in ("above", "reduced")
    ]
    kept = [
        one
        for one in found
        if one["state"] == "within" and before.get(_key(one)) in ("above", "reduced")
    ]
    for quantity, is_inlet in (("Power", False), ("Inlet", True)):
        for suffix, domains in (("LimitExceeded", exceeded), ("LimitKept", kept)):
            notes = [_measured(one) for one in domains if (one["kind"] == "inlet") == is_inlet]
            if notes:
                reason, is_bad = f"{quantity}{suffix}", domains is exceeded
                reporter.tell(fleet.as_object, reason, shortened(notes), is_bad)
    evicted = [one for one in found if one["evicted"]]
    if evicted:
        notes = [f"{title_of(*_key(one))} (pods evicted: {one['evicted']})" for one in evicted]
        reporter.tell(fleet.as_object, "PodsEvictedForPowerLimit", shortened(notes))


def _states_of(status: Object) -> dict[tuple[str, str], str]:
    domains = objects(member(status, "limits", "domains"))
    return {_key(one): text(one.get("state")) for one in domains}


def _key(domain: Object) -> tuple[str, str]:
    return text(domain.get("kind")), text(domain.get("name"))


def _measured(domain: Object) -> str:
    relation = "above" if domain["state"] == "above" else "within"
    capped = f"; {domain['capped']} machines have a cap" if domain["capped"] else ""
    now, limit = f"{domain['watts']:,.0f} W", f"{domain.get('limitWatts', 0.0):,.0f} W"
    if domain["kind"] == "inlet":
        now, limit = f"{domain['celsius']:.3g} °C", f"{domain['limitCelsius']:g} °C"
    return f"{title_of(*_key(domain))}: {now}, {relation} its limit of {limit}{capped}"


def lost_machines(fleet: PowerFleet, status: Object, nodes: t.Iterable[Object]) -> list[Note]:
    """Sentences about newly failing machines; both lists have the first ones by name.

    ``nodes`` are the cluster's nodes, of which each one with a lost machine gets an Event.
    """
    stored = [one.get("node") or "" for one in fleet.status.get("failing") or []]
    # Former failures beyond the end of a full list are unknown.
    last = max(stored) if len(stored) >= MAX_LISTED else None
    lost = {
        one["node"]: one["message"]
        for one in status.get("failing") or ()
        if one["node"] not in stored and (last is None or one["node"] < last)
    }
    found = {member(node, "metadata", "name"): node for node in nodes}
    return [
        (found.get(name, {"kind": "Node", "metadata": {"name": name}}), note)
        for name, note in lost.items()
    ]
