# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Assignment of roles: hosts named by MAC address first, then the best of the others.

The levels of the objective, in order of precedence, are: masters spread over racks, all hosts that
fit an item without a count, least waste, least idle power, provisioned hosts, former roles.
"""

from __future__ import annotations

import typing as t
from collections import Counter
from dataclasses import dataclass, field, replace

from ...base.boundary import InvalidField
from ...base.errors import InvalidInput
from ...scheduling.curve import Curve
from ...solving.limits import Limits
from ..host import Host
from ..provisioning import Item, Request, Role
from . import ip_versions
from .assignment_model import Counts, Level, best_counts, shortages
from .availability import (
    Owner,
    Refusal,
    addresses_of,
    host_text,
    key_of,
    mac_of,
    named_hosts,
    refusals,
)
from .instance import IDLE, MAXIMISED, TENTHS, Group, Instance, groups_of, idle_watts
from .requirements import Judge, is_met
from .shortage import Explanation, explain

Outcome = t.Literal["assigned", "infeasible", "unknown"]


@dataclass(frozen=True)
class Assigned:
    """One host in one role. A host that is master and worker has two entries.

    ``ip6`` is the IPv6 address in a cluster that uses both versions; there ``ip`` is of IPv4.
    """

    role: Role
    label: str
    host: Host
    ip: str | None
    mac: str | None
    why: str
    ip6: str | None = None

    def as_dict(self) -> dict[str, t.Any]:
        """The entry of results and of status.assignments; ``ip6`` only beside an ``ip``."""
        return {
            "role": self.role,
            "label": self.label,
            "host": self.host.name,
            "namespace": self.host.namespace,
            "ip": self.ip,
            **({"ip6": self.ip6} if self.ip6 else {}),
            "mac": self.mac,
            "why": self.why,
        }


@dataclass(frozen=True)
class Unassigned:
    """A host without a role, and the reason."""

    host: Host
    reason: str

    def as_dict(self) -> dict[str, str]:
        """The entry of results."""
        return {"host": self.host.name, "namespace": self.host.namespace, "reason": self.reason}


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

    def as_dict(self) -> dict[str, t.Any]:
        """The results of the module."""
        explanation = self.explanation or Explanation((), (), "")
        message = explanation.message
        if self.outcome == "unknown":
            message = "the time limit ended the search before an answer was found; raise time_limit"
        return {
            "outcome": self.outcome,
            "message": message,
            "assignments": [each.as_dict() for each in self.assignments],
            "unassigned": [each.as_dict() for each in self.unassigned],
            "proven": self.is_proven,
            "objective": [each.as_dict() for each in self.objective],
            "shortages": [each.as_dict() for each in explanation.shortages],
            "changes": [each.text for each in explanation.changes],
        }


@dataclass(frozen=True)
class Question:
    """Request, hosts and known facts about them.

    ``curves`` are power curves by the name of the host.
    """

    request: Request
    hosts: t.Sequence[Host]
    owner: Owner = field(default_factory=Owner)
    curves: t.Mapping[str, Curve] = field(default_factory=dict)
    needs_address: bool = True


# A host, by position, in a group.
_Choice = tuple[int, Group]
_NO_COUNTS = Counts({}, (), True)
_ROLES: tuple[Role, Role] = ("master", "worker")


def assign(question: Question, limits: Limits) -> Answer:
    """The best assignment. Raises InvalidInput if the request itself is impossible."""
    instance, former = _instance(question), question.owner.former
    of_hosts = list(zip(instance.hosts, instance.addresses, instance.refusals))
    choices = ip_versions.choices(
        question.request,
        [addresses for _host, addresses, refusal in of_hosts if refusal is None],
        [instance.addresses[each.host] for each in instance.named],
        [addresses for host, addresses, _refusal in of_hosts if key_of(host) in former],
    )
    answers = (_answer_with(_of_versions(instance, versions), limits) for versions in choices)
    first = next(answers)
    if first.outcome == "assigned":
        return first
    return next((each for each in answers if each.outcome == "assigned"), first)


def _instance(question: Question) -> Instance:
    """The instance before a choice of IP versions; hosts that the request names are not refused."""
    request, owner, needs_address = question.request, question.owner, question.needs_address
    hosts = sorted(question.hosts, key=key_of)
    twice = [key for key, count in Counter(map(key_of, hosts)).items() if count > 1]
    if twice:
        raise InvalidInput(f"hosts: {'/'.join(filter(None, twice[0]))} is listed twice")
    judge, selector = Judge(hosts), request.host_selector
    judge.check(request.items)
    named = named_hosts(request.items, hosts, owner, judge, needs_address, selector)
    addresses = [addresses_of(host) for host in hosts]
    refused = refusals(hosts, owner, needs_address, selector)
    for each in named:
        addresses[each.host], refused[each.host] = each.addresses, None
    idle = [idle_watts(host, question.curves) for host in hosts]
    # A host without known facts counts as the worst.
    worst = max((known[0] for known in idle if known), default=0.0)
    return Instance(
        request,
        hosts,
        judge,
        named,
        addresses,
        refused,
        groups_of(request.items),
        [round(TENTHS * (known[0] if known else worst)) for known in idle],
        [f"idles at {known[0]:.0f} W {known[1]}" if known else "" for known in idle],
        owner.former,
    )


def _of_versions(instance: Instance, versions: ip_versions.Versions) -> Instance:
    """The instance of hosts that have an address of each of these IP versions.

    Raises InvalidField for a host in the request whose addresses do not suit the cluster.
    """
    request, named = instance.request, {each.host: each for each in instance.named}
    of_named = {each.ip for own in instance.named for each in own.addresses.values()}
    refused = list(instance.refusals)
    for index, addresses in enumerate(instance.addresses):
        if refused[index] is not None:
            continue
        refusal = ip_versions.refusal_of(request, versions, addresses)
        if index in named:
            if refusal is not None and refusal.reason != "address":
                host = host_text(instance.hosts[index])
                raise InvalidField(named[index].item.where, f"host {host} {refusal.detail}")
            continue
        shared = next((each.ip for each in addresses.values() if each.ip in of_named), None)
        if shared is not None:
            refusal = Refusal("address", f"shares its address {shared} with another host")
        refused[index] = refusal
    return replace(instance, versions=versions, refusals=refused)


def _answer_with(instance: Instance, limits: Limits) -> Answer:
    """The best assignment of the instance."""
    if not instance.groups:
        return _answer(instance, [], _NO_COUNTS)
    lacking = shortages(instance.feasibility_problem(), limits)
    if lacking is not None and any(lacking):
        explanation = explain(instance, lacking, limits)
        return _unanswered(instance, "infeasible", "others are lacking", explanation)
    problem, members = instance.problem()
    counts = None if lacking is None else best_counts(problem, limits)
    if counts is None:
        return _unanswered(instance, "unknown", "the time was over")
    return _answer(instance, _choices(instance, counts, members), counts)


def _unanswered(
    instance: Instance, outcome: Outcome, why: str, explanation: Explanation | None = None
) -> Answer:
    """An answer without roles; ``why`` says of a fitting host why it has none."""
    taken = {each.host for each in instance.named}
    named = f"is named by its MAC address, but {why}"
    return Answer(
        outcome,
        unassigned=(
            *(Unassigned(instance.hosts[index], named) for index in sorted(taken)),
            *_unassigned(instance, taken, why),
        ),
        is_proven=outcome != "unknown",
        explanation=explanation,
        warnings=_warnings(instance),
    )


def _warnings(instance: Instance) -> tuple[str, ...]:
    """Sentences on the request, and on hosts that it names."""
    return (*instance.request.warnings, *_doubts(instance))


def _doubts(instance: Instance) -> t.Iterator[str]:
    for each in instance.named:
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
        choices.extend((host, instance.groups[demand]) for host in hosts)
    return choices


def _answer(instance: Instance, choices: t.Sequence[_Choice], counts: Counts) -> Answer:
    given = [
        (each.item, each.host, each.mac, f"named by MAC address {each.mac}")
        for each in instance.named
    ]
    for (host, group), item in _with_items(instance, choices):
        given.append((item, host, "", _why(instance, host, group)))
    order = {item: position for position, item in enumerate(instance.request.items)}
    given.sort(key=lambda entry: (order[entry[0]], entry[1]))
    members = {host for _item, host, *_rest in given}
    return Answer(
        "assigned",
        tuple(_assignments(instance, given)),
        tuple(_unassigned(instance, members, "every role has its hosts")),
        tuple(map(_told, counts.levels)),
        counts.is_proven,
        warnings=_warnings(instance),
    )


def _assignments(
    instance: Instance, given: t.Sequence[tuple[Item, int, str, str]]
) -> t.Iterator[Assigned]:
    """The masters, then the workers, from items, hosts, MAC addresses of the request and reasons."""
    labels = _labels(instance, [(item, host) for item, host, _mac, _why in given])
    of_members = [instance.addresses[host] for _item, host, *_rest in given]
    first, *more = sorted(ip_versions.used(instance.versions, of_members))
    for role in _ROLES:
        for item, host, mac, why in given:
            if item.role == role or (role == "worker" and item.also_worker):
                facts, own = instance.hosts[host], instance.addresses[host]
                if first in own:
                    ip, own_mac = own[first].ip, own[first].mac
                    ip6 = own[more[0]].ip if more else None
                else:
                    ip, own_mac, ip6 = None, mac_of(facts), None
                yield Assigned(role, labels[host], facts, ip, mac or own_mac, why, ip6)


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
    for choice in sorted(choices, key=lambda choice: choice[0]):
        by_group.setdefault(choice[1], []).append(choice)
    for group, members in by_group.items():
        if not group.items[0].label:
            yield from ((choice, group.items[0]) for choice in members)
            continue
        left = {item.label: item for item in group.items}
        others = []
        for choice in members:
            had = instance.former.get(key_of(instance.hosts[choice[0]]), ())
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


def _why(instance: Instance, host: int, group: Group) -> str:
    facts, source = instance.hosts[host], instance.sources[host]
    verdicts = instance.judge.verdicts(group.requirements)[host]
    parts = [verdict.reason for verdict in verdicts] or ["no requirement"]
    if facts.rack and group.role == "master":
        parts.append(f"rack {facts.rack}")
    if source and group.count is not None:
        parts.append(source)
    roles = {each.role for each in instance.former.get(key_of(facts), ())}
    if group.role in roles:
        parts.append("had this role before")
    return f"fits {group.where}: {'; '.join(parts)}"[:1000]


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
