# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Assignment of roles: hosts named by MAC address first, then the best of the others.

The levels of the objective, in order of precedence, are: masters spread over racks, all hosts that
fit an item without a count, least waste, least idle watts, provisioned hosts, former roles.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field

from ansible_collections.wattwise.kube.plugins.module_utils.base.errors import InvalidInput
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import Host
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.provisioning import (
    Item,
    Request,
    Role,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.assignment_model import (
    Counts,
    Level,
    best_counts,
    shortages,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.availability import (
    HostKey,
    Owner,
    Refusal,
    address_of,
    host_text,
    key_of,
    refusals,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.idle_power import idle_watts
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.instance import (
    IDLE,
    MAXIMISED,
    TENTHS,
    FormerRole,
    Group,
    Instance,
    groups_of,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.named_hosts import (
    Named,
    named_hosts,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.requirements import (
    Judge,
    is_met,
)
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.shortage import (
    Explanation,
    explain,
)
from ansible_collections.wattwise.kube.plugins.module_utils.scheduling.curve import Curve
from ansible_collections.wattwise.kube.plugins.module_utils.solving.limits import Limits

Outcome = t.Literal["assigned", "infeasible", "unknown"]
Former = t.Mapping[HostKey, tuple[FormerRole, ...]]


@dataclass(frozen=True)
class Assigned:
    """One host in one role. A host that is master and worker has two entries."""

    role: Role
    label: str
    host: Host
    ip: str | None
    mac: str | None
    why: str

    def as_dict(self) -> dict[str, t.Any]:
        """The entry of results and of status.assignments."""
        return {
            "role": self.role,
            "label": self.label,
            "host": self.host.name,
            "namespace": self.host.namespace,
            "ip": self.ip,
            "mac": self.mac,
            "why": self.why,
        }


@dataclass(frozen=True)
class Unassigned:
    """A host without a role, and the reason."""

    host: Host
    reason: str


@dataclass(frozen=True)
class Answer:
    """The roles of all hosts. Only the outcome ``assigned`` has roles."""

    outcome: Outcome
    assignments: tuple[Assigned, ...] = ()
    unassigned: tuple[Unassigned, ...] = ()
    objective: tuple[Level, ...] = ()
    is_proven: bool = True
    explanation: Explanation | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Question:
    """Request, hosts and known facts about them.

    ``former`` are the former roles of hosts. ``curves`` are power curves by the name of the host.
    """

    request: Request
    hosts: t.Sequence[Host]
    owner: Owner = field(default_factory=Owner)
    former: Former = field(default_factory=dict)
    curves: t.Mapping[str, Curve] = field(default_factory=dict)
    needs_address: bool = True


@dataclass(frozen=True)
class _Choice:
    """A host, by position, in a group."""

    host: int
    group: Group


def assign(question: Question, limits: Limits) -> Answer:
    """The best assignment. Raises InvalidInput if the request itself is impossible."""
    hosts = sorted(question.hosts, key=key_of)
    twice = [key for key, count in Counter(map(key_of, hosts)).items() if count > 1]
    if twice:
        raise InvalidInput(f"hosts: {'/'.join(filter(None, twice[0]))} is listed twice")
    judge = Judge(hosts)
    judge.check(question.request.items)
    named = named_hosts(
        question.request.items,
        hosts,
        question.owner,
        judge,
        question.needs_address,
        question.request.host_selector,
        question.former,
    )
    instance, sources = _instance(question, hosts, judge, named)
    warnings = (*question.request.warnings, *_doubts(named, instance))
    if not instance.groups:
        return _answer(question, instance, sources, named, [], Counts({}, (), True), warnings)
    lacking = shortages(instance.feasibility_problem(), limits)
    if lacking is None:
        return _unknown(instance, named, warnings)
    if any(lacking):
        return Answer(
            "infeasible",
            unassigned=_all_unassigned(instance, named, "others are lacking"),
            explanation=explain(instance, lacking, limits),
            warnings=warnings,
        )
    problem, members = instance.problem()
    counts = best_counts(problem, limits)
    if counts is None:
        return _unknown(instance, named, warnings)
    choices = _choices(instance, counts, members)
    return _answer(question, instance, sources, named, choices, counts, warnings)


def _instance(
    question: Question, hosts: t.Sequence[Host], judge: Judge, named: t.Sequence[Named]
) -> tuple[Instance, list[str]]:
    """The instance, and the source of each host's idle watts in words."""
    taken = {each.host for each in named}
    addresses = {each.ip for each in named}
    request = question.request
    refused = refusals(
        hosts, question.owner, question.needs_address, request.host_selector, question.former
    )
    for index, host in enumerate(hosts):
        ip = address_of(host)[1]
        if index in taken or refused[index] is not None or ip is None:
            continue
        if ip in addresses:
            refused[index] = Refusal("address", f"shares its address {ip} with another host")
        elif (network := request.network_with(ip)) is not None:
            refused[index] = Refusal("address", f"has the address {ip} in {network}")
    for index in taken:
        refused[index] = None
    known = [idle_watts(host, question.curves) for host in hosts]
    # A host without known facts counts as the worst.
    worst = max((each[0] for each in known if each), default=0.0)
    racks: Counter[str | None] = Counter(
        hosts[each.host].rack for each in named if each.item.role == "master"
    )
    instance = Instance(
        hosts,
        request,
        groups_of(request.items),
        refused,
        judge,
        tuple(n for n, each in enumerate(refused) if each is None and n not in taken),
        [round(TENTHS * (each[0] if each else worst)) for each in known],
        question.former,
        racks,
    )
    sources = [f"idles at {each[0]:.0f} W {each[1]}" if each else "" for each in known]
    return instance, sources


def _doubts(named: t.Sequence[Named], instance: Instance) -> t.Iterator[str]:
    for each in named:
        for verdict in instance.judge.verdicts(each.item.requirements)[each.host]:
            if verdict.answer is None:
                host = host_text(instance.hosts[each.host])
                yield f"{each.item.where}: host {host} is taken by its MAC address; {verdict.reason}"
    racks = [rack for rack, count in instance.racks_of_named.items() if rack and count > 1]
    if racks and instance.request.rack_spread == "required":
        yield f"rack {racks[0]} has several masters, because MAC addresses name them"


def _choices(
    instance: Instance, counts: Counts, members: t.Sequence[t.Sequence[int]]
) -> list[_Choice]:
    """Hosts of each class in the order of names, demand by demand."""
    choices: list[_Choice] = []
    used: Counter[int] = Counter()
    for (index, demand), count in sorted(counts.taken.items()):
        hosts = members[index][used[index] : used[index] + count]
        used[index] += count
        choices.extend(_Choice(host, instance.groups[demand]) for host in hosts)
    return choices


def _answer(
    question: Question,
    instance: Instance,
    sources: t.Sequence[str],
    named: t.Sequence[Named],
    choices: t.Sequence[_Choice],
    counts: Counts,
    warnings: t.Sequence[str],
) -> Answer:
    given = [
        (each.item, each.host, each.mac, each.ip, f"named by MAC address {each.mac}")
        for each in named
    ]
    for choice, item in _with_items(instance, choices):
        mac, ip = address_of(instance.hosts[choice.host])
        why = _why(instance, choice, sources[choice.host])
        given.append((item, choice.host, mac or "", ip, why))
    order = {item: position for position, item in enumerate(question.request.items)}
    given.sort(key=lambda entry: (order[entry[0]], entry[1]))
    labels = _labels(instance, [(entry[0], entry[1]) for entry in given])
    assignments = [
        Assigned(role, labels[host], instance.hosts[host], ip, mac or None, why)
        for role in ("master", "worker")
        for item, host, mac, ip, why in given
        if item.role == role or (role == "worker" and item.also_worker)
    ]
    return Answer(
        "assigned",
        tuple(assignments),
        tuple(
            _unassigned(
                instance, {host for _item, host, *_rest in given}, "every role has its hosts"
            )
        ),
        tuple(map(_told, counts.levels)),
        counts.is_proven,
        warnings=tuple(warnings),
    )


def _told(level: Level) -> Level:
    """The value of a level for people."""
    sign = -1 if level.name in MAXIMISED else 1
    scale = TENTHS if level.name == IDLE else 1
    value, bound = sign * level.value, sign * level.bound
    if scale != 1:
        return Level(level.name, round(value / scale), bound / scale)
    return Level(level.name, value, bound)


def _with_items(
    instance: Instance, choices: t.Sequence[_Choice]
) -> t.Iterator[tuple[_Choice, Item]]:
    """Each choice with its item: hosts keep their labels, else labels go by name."""
    by_group: dict[Group, list[_Choice]] = {}
    for choice in sorted(choices, key=lambda choice: choice.host):
        by_group.setdefault(choice.group, []).append(choice)
    for group, members in by_group.items():
        if not group.items[0].label:
            yield from ((choice, group.items[0]) for choice in members)
            continue
        left = {item.label: item for item in group.items}
        others = []
        for choice in members:
            had = instance.former.get(key_of(instance.hosts[choice.host]), ())
            label = next((each.label for each in had if each.label in left), None)
            if label is None:
                others.append(choice)
            else:
                yield choice, left.pop(label)
        yield from zip(others, left.values())


def _labels(instance: Instance, given: t.Sequence[tuple[Item, int]]) -> dict[int, str]:
    """Names in the inventory: the item's label, else the former label, else the host's name.

    Former labels go first, because a new host must not get the name of a running node.
    """
    labels = {host: item.label for item, host in given if item.label}
    used = set(labels.values())
    rest = sorted({host for _item, host in given} - labels.keys())
    for host in rest:
        had = instance.former.get(key_of(instance.hosts[host]), ())
        label = next((each.label for each in had if each.label not in used), None)
        if label is not None:
            labels[host] = label
            used.add(label)
    for host in rest:
        if host in labels:
            continue
        facts = instance.hosts[host]
        qualified = f"{facts.name}-{facts.namespace}" if facts.namespace else facts.name
        numbered = (f"{qualified}-{number}" for number in range(2, len(given) + 3))
        label = next(name for name in (facts.name, qualified, *numbered) if name not in used)
        labels[host] = label
        used.add(label)
    return {host: label for host, label in labels.items() if label}


def _why(instance: Instance, choice: _Choice, source: str) -> str:
    facts = instance.hosts[choice.host]
    verdicts = instance.judge.verdicts(choice.group.requirements)[choice.host]
    parts = [verdict.reason for verdict in verdicts] or ["no requirement"]
    if facts.rack and choice.group.role == "master":
        parts.append(f"rack {facts.rack}")
    if source and choice.group.count is not None:
        parts.append(source)
    roles = {each.role for each in instance.former.get(key_of(facts), ())}
    if choice.group.role in roles:
        parts.append("had this role before")
    return f"fits {choice.group.where}: {'; '.join(parts)}"[:1000]


def _unknown(instance: Instance, named: t.Sequence[Named], warnings: tuple[str, ...]) -> Answer:
    unassigned = _all_unassigned(instance, named, "the time was over")
    return Answer("unknown", unassigned=unassigned, is_proven=False, warnings=warnings)


def _all_unassigned(
    instance: Instance, named: t.Sequence[Named], why: str
) -> tuple[Unassigned, ...]:
    """All hosts, for an answer without roles."""
    taken = {each.host for each in named}
    return (
        *(Unassigned(instance.hosts[n], f"is named by its MAC address, but {why}") for n in taken),
        *_unassigned(instance, taken, why),
    )


def _unassigned(instance: Instance, taken: set[int], why: str) -> t.Iterator[Unassigned]:
    """The hosts without a role; ``why`` is the reason of a fitting host."""
    for index, host in enumerate(instance.hosts):
        if index in taken:
            continue
        refusal = instance.refusals[index]
        reason = refusal.detail if refusal else _not_needed(instance, index, why)
        yield Unassigned(host, reason)


def _not_needed(instance: Instance, host: int, why: str) -> str:
    """The failing requirement, or the reason of a fitting host."""
    failing = []
    for group in instance.groups:
        verdicts = instance.judge.verdicts(group.requirements)[host]
        if is_met(verdicts) is True:
            return f"fits, but {why}"
        reasons = [verdict.reason for verdict in verdicts if verdict.answer is not True]
        failing.append(f"{group.where}: {', '.join(reasons)}")
    return "; ".join(failing)[:1000] or "no role is left"
