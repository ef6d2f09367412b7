# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""The status of a Provisioning: its hosts, its installation, its agents, and conditions.

The hosts document for the report has each host's rack, role, capabilities and reason.
"""

from __future__ import annotations

import typing as t
from dataclasses import dataclass, field

from ...base.boundary import Finding
from ...base.context import Result
from ...base.errors import told_text
from ...base.fields.lenient import objects
from ...base.json_types import Object
from ...kube.resource.conditions import (
    Condition,
    Failure,
    condition,
    of_generation,
    stored_condition,
)
from ..host import Host
from ..roles.assignment import Answer, Assigned
from ..roles.availability import HostKey, key_of
from .installation import Installation

Status = dict[str, t.Any]

MAX_UNASSIGNED = 100
_RESERVING = ("masters", "workers", "assignments")
_KEPT = ("masters", "workers", "assignments", "unassigned", "installation", "podAgents")
_SAME = ("role", "label", "host", "namespace", "ip", "ip6", "mac")


@dataclass(frozen=True)
class Agents:
    """Agent pods: the wanted number, whether there is an image, and the live pods."""

    replicas: int
    has_image: bool
    pods: t.Sequence[str] = ()


@dataclass(frozen=True)
class RunResults:
    """Results of a run.

    ``answer`` is None if the run ended before the hosts. ``installation`` is None without an
    installer; ``obstacle`` is the reason why it does not start. ``outputs`` are those of the
    assignment.
    """

    answer: Answer | None = None
    installation: Installation | None = None
    obstacle: Failure | None = None
    agents: Agents | None = None
    failure: Failure | None = None
    findings: t.Sequence[Finding] = ()
    outputs: Result = field(default_factory=dict)


def status_of(seen: RunResults, generation: int, stored: Object) -> Status:
    """The status after a run. Hosts and pods that it did not reach are unchanged."""
    status: Status = {name: stored[name] for name in _KEPT if stored.get(name)}
    status["observedGeneration"] = generation
    if seen.answer is not None:
        is_same = stored.get("observedGeneration") == generation
        status.update(_hosts(seen.answer, stored if is_same else {}))
    if seen.installation is not None:
        status["installation"] = seen.installation.as_dict()
    if seen.agents is not None:
        status["podAgents"] = list(seen.agents.pods)
    conditions = [_assigned(seen, status)]
    for name, found in (("Installed", _installed(seen)), ("Agents", _agents(seen))):
        is_over = seen.answer is not None and seen.failure is None
        each = found if found is not None or is_over else stored_condition(stored, name)
        if each is not None:
            conditions.append(each)
    conditions.append(_ready(conditions, seen.failure))
    status["conditions"] = of_generation(conditions, generation)
    return {name: value for name, value in status.items() if value not in ([], None)}


def reserving_status(answer: Answer, stored: Object) -> Status | None:
    """The stored status with the hosts of the answer; None if it has them already."""
    made = _hosts(answer, stored)
    before, after = (
        sorted(map(_identity, objects(each.get("assignments")))) for each in (stored, made)
    )
    if before == after:
        return None
    return {**stored, **{name: made[name] for name in _RESERVING}}


def _hosts(answer: Answer, stored: Object) -> Status:
    before = {_identity(each): each.get("why") for each in objects(stored.get("assignments"))}
    entries = []
    for each in answer.assignments:
        entry = {name: value for name, value in each.as_dict().items() if value}
        # The first reason stays, because later ones add that the host had its role before.
        kept = before.get(_identity(entry))
        entry["why"] = kept if isinstance(kept, str) else told_text(entry.get("why", ""))
        entries.append(entry)
    roles = [each.role for each in answer.assignments]
    return {
        "assignments": entries,
        "masters": roles.count("master"),
        "workers": roles.count("worker"),
        "unassigned": [
            {"host": each.host.name, "namespace": each.host.namespace, "reason": told_text(reason)}
            for each in answer.unassigned[:MAX_UNASSIGNED]
            for reason in [each.reason]
        ],
    }


def _identity(entry: Object) -> tuple[t.Any, ...]:
    return tuple(str(entry.get(name) or "") for name in _SAME)


def _assigned(seen: RunResults, status: Status) -> Condition:
    if seen.failure is not None and seen.answer is None:
        return condition("Assigned", "False", seen.failure.reason, seen.failure.sentence)
    told = f"Hosts are reserved for {status['masters']} masters and {status['workers']} workers."
    return condition("Assigned", "True", "HostsReserved", told)


def _installed(seen: RunResults) -> Condition | None:
    if seen.obstacle is not None:
        return condition("Installed", "False", seen.obstacle.reason, seen.obstacle.sentence)
    if seen.installation is None:
        return None
    outcome, message = seen.installation.outcome, seen.installation.message
    if outcome == "Succeeded":
        return condition("Installed", "True", outcome, "The installer has succeeded.")
    if outcome == "Failed":
        told = f"The installer has failed: {message or 'it left no message'}"
        return condition("Installed", "False", outcome, told)
    return condition("Installed", "Unknown", outcome, message or "The installer is running.")


def _agents(seen: RunResults) -> Condition | None:
    agents = seen.agents
    if agents is None:
        return None
    if agents.replicas and not agents.has_image:
        told = f"{agents.replicas} agents are wanted, and no image is given for them."
        return condition("Agents", "False", "NoImage", told)
    if not agents.replicas:
        return condition("Agents", "True", "NoneWanted", "No agents are wanted.")
    living, wanted = len(agents.pods), agents.replicas
    state = ("True", "AsWanted") if living == wanted else ("False", "OtherNumber")
    return condition("Agents", *state, f"{living} of {wanted} agents are running.")


def _ready(conditions: t.Sequence[Condition], failure: Failure | None) -> Condition:
    """The cluster is ready when its hosts are reserved and, with an installer, installed."""
    for each in conditions:
        if each["type"] in ("Assigned", "Installed") and each["status"] != "True":
            return condition("Ready", "False", f"Not{each['type']}", each["message"])
    if failure is not None:
        return condition("Ready", "False", failure.reason, failure.sentence)
    installed = any(each["type"] == "Installed" for each in conditions)
    told = "The cluster is installed." if installed else "Hosts are reserved; nothing is installed."
    return condition("Ready", "True", "Installed" if installed else "Reserved", told)


def hosts_document(answer: Answer, cluster: str) -> dict[str, t.Any]:
    """All hosts of the assignment, hosts with a role first."""
    roles: dict[HostKey, list[Assigned]] = {}
    for each in answer.assignments:
        roles.setdefault(key_of(each.host), []).append(each)
    entries = [
        {
            **_facts(given[0].host),
            "roles": [each.role for each in given],
            "label": given[0].label,
            "why": told_text(given[0].why),
        }
        for given in roles.values()
    ]
    entries += [
        {**_facts(each.host), "roles": [], "label": None, "why": told_text(each.reason)}
        for each in answer.unassigned
    ]
    return {"cluster": cluster, "hosts": entries}


def _facts(host: Host) -> dict[str, t.Any]:
    """Place and capabilities of a host; None for unknown facts."""
    hardware = host.hardware
    ports = [port.can_sriov for port in hardware.network_interfaces]
    is_known = any(can is not None for can in ports)
    return {
        "name": host.name,
        "namespace": host.namespace,
        "rack": host.rack,
        "processors": hardware.processors.count,
        "memory_mib": hardware.memory_mib,
        "sriov": hardware.has_sriov if is_known else None,
        "qat": hardware.has_qat,
        "gpus": hardware.gpus,
    }
