# Copyright: Contributors to the wattwise.kube project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles of hosts by brute force, and a check of answers that shares no code with the library.

Both read Host and the plain spec; the rules are restated here on purpose.
"""

from __future__ import annotations

import itertools
import typing as t
from collections import Counter

from ansible_collections.wattwise.kube.plugins.module_utils.hosts.host import Host
from ansible_collections.wattwise.kube.plugins.module_utils.hosts.roles.assignment import Answer

Json = dict[str, t.Any]
Value = tuple[float, ...]

GIB = 1 << 30


def fits(host: Host, item: Json) -> bool:
    """Whether the host certainly meets an item of master or worker; memory is in whole Gi."""
    facts = host.hardware
    ports = facts.network_interfaces
    memory = int(str(item.get("memory", "0Gi")).removesuffix("Gi")) * GIB
    return all(
        (
            (facts.processors.count or 0) >= item.get("cpu", 0),
            (facts.memory_mib or 0) * (1 << 20) >= memory,
            (facts.gpus or 0) >= item.get("gpu", 0),
            facts.has_qat or not item.get("qat"),
            any(port.can_sriov for port in ports) or not item.get("sriov"),
        )
    )


def is_free(host: Host) -> bool:
    return host.operational_status != "error" and bool(host.hardware.network_interfaces[0].ip)


def waste(host: Host, item: Json, free: t.Sequence[Host]) -> int:
    facts = host.hardware
    most_threads = max(each.hardware.processors.count or 0 for each in free) or 1
    most_memory = max(each.hardware.memory_mib or 0 for each in free) or 1
    wanted = int(str(item.get("memory", "0Gi")).removesuffix("Gi")) * 1024
    threads = facts.processors.count
    total = (
        1000
        if threads is None
        else round(1000 * max(0, threads - item.get("cpu", 0)) / most_threads)
    )
    total += round(1000 * max(0, (facts.memory_mib or 0) - wanted) / most_memory)
    total += 1000 * (any(p.can_sriov for p in facts.network_interfaces) and not item.get("sriov"))
    total += 1000 * (bool(facts.has_qat) and not item.get("qat"))
    return total + 1000 * (bool(facts.gpus) and not item.get("gpu"))


def best_value(
    masters: t.Sequence[Json],
    workers: t.Sequence[Json],
    hosts: t.Sequence[Host],
    watts: t.Mapping[str, float],
    former: t.Mapping[str, str],
) -> Value | None:
    """The best objective over all assignments of roles; None if there is none."""
    free = [each for each in hosts if is_free(each)]
    items = [("master", each) for each in masters] + [("worker", each) for each in workers]
    choices = [
        [None, *(n for n, (_role, item) in enumerate(items) if fits(each, item))] for each in free
    ]
    best: Value | None = None
    for chosen in itertools.product(*choices):
        counts = Counter(chosen)
        if all(
            counts[n] == item.get("count", 1) if role == "master" or "count" in item else counts[n]
            for n, (role, item) in enumerate(items)
        ):
            pairs = [
                (each, *items[n]) for each, n in zip(free, chosen, strict=True) if n is not None
            ]
            value = value_of(pairs, free, watts, former)
            best = value if best is None else min(best, value)
    return best


def value_of(
    pairs: t.Sequence[tuple[Host, str, Json]],
    free: t.Sequence[Host],
    watts: t.Mapping[str, float],
    former: t.Mapping[str, str],
) -> Value:
    """Spread, workers, waste, watts, unprovisioned hosts and kept roles, all to be minimised."""
    racks = Counter(each.rack for each, role, _item in pairs if role == "master")
    is_open = [role == "worker" and "count" not in item for _each, role, item in pairs]
    return (
        sum(count * (count - 1) // 2 for count in racks.values()),
        -sum(is_open),
        sum(
            0 if o else waste(each, item, free)
            for o, (each, _r, item) in zip(is_open, pairs, strict=True)
        ),
        round(sum(watts[each.name] for each, _role, _item in pairs), 1),
        sum(each.state != "provisioned" for each, _role, _item in pairs),
        -sum(former.get(each.name) == role for each, role, _item in pairs),
    )


def problems(answer: Answer, masters: t.Sequence[Json], workers: t.Sequence[Json]) -> list[str]:
    """Errors in an answer, without its labels, by the rules alone."""
    found = []
    by_role = {role: [] for role in ("master", "worker")}  # type: dict[str, list[Host]]
    for each in answer.assignments:
        by_role[each.role].append(each.host)
        if not is_free(each.host):
            found.append(f"{each.host.name} is not free")
        if each.ip not in [port.ip for port in each.host.hardware.network_interfaces]:
            found.append(f"{each.host.name} has no address {each.ip}")
    for role, items in (("master", masters), ("worker", workers)):
        names = [each.name for each in by_role[role]]
        if len(set(names)) != len(names):
            found.append(f"a host is twice a {role}")
        if items and not _can_be_filled(by_role[role], items, role):
            found.append(f"the hosts that are {role} do not fill their items")
    both = {each.name for each in by_role["master"]} & {each.name for each in by_role["worker"]}
    if workers and both:
        found.append(f"{both} have two roles")
    labels = {each.label: each.host.name for each in answer.assignments}
    if len(labels) != len({each.host.name for each in answer.assignments}):
        found.append("two hosts have one label")
    return found


def _can_be_filled(hosts: t.Sequence[Host], items: t.Sequence[Json], role: str) -> bool:
    """Whether each host can be put under an item that it fits, with the counts of the items.

    By Hall's theorem for hosts and for slots; both matchings together are one (Mendelsohn and
    Dulmage).
    """
    needs = [item.get("count", 1) for item in items]
    is_open = [role == "worker" and "count" not in item for item in items]
    kinds = Counter(
        frozenset(n for n, item in enumerate(items) if fits(host, item)) for host in hosts
    )
    for size in range(len(items) + 1):
        for chosen in map(frozenset, itertools.combinations(range(len(items)), size)):
            only = sum(count for kind, count in kinds.items() if kind <= chosen)
            some = sum(count for kind, count in kinds.items() if kind & chosen)
            need = sum(needs[n] for n in chosen)
            if some < need or (only > need and not any(is_open[n] for n in chosen)):
                return False
    return True
