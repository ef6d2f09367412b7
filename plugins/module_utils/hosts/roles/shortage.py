# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Shortages of roles: number of hosts that fail each requirement, and possible remedies."""

from __future__ import annotations

import dataclasses
import typing as t
from collections import Counter
from dataclasses import asdict, dataclass

from ...base.json_types import Object
from ...solving.limits import Limits
from ..provisioning import Requirements
from .assignment_model import shortages
from .instance import Group, Instance
from .requirements import MEBIBYTE, is_met, size_text

_MAX_TOLD = 3
_MAX_CHANGES = 10


@dataclass(frozen=True)
class Failing:
    """A requirement with the counts of free hosts that fail it, and of unknown ones."""

    requirement: str
    hosts: int
    unknown: int

    @property
    def text(self) -> str:
        """The counts that are not zero, in words."""
        failing = f"fails on {self.hosts}" if self.hosts else ""
        unknown = f"is unknown for {self.unknown}" if self.unknown else ""
        return " and ".join(filter(None, (failing, unknown)))


@dataclass(frozen=True)
class Shortage:
    """An item that lacks hosts; ``fitting`` hosts meet it, but other items may need them too."""

    where: str
    role: str
    wanted: int
    missing: int
    fitting: int
    failing: tuple[Failing, ...]

    def as_dict(self) -> dict[str, t.Any]:
        """The entry of results."""
        found = asdict(self)
        return {"item": found.pop("where"), **found, "failing": list(map(asdict, self.failing))}


@dataclass(frozen=True)
class Change:
    """A change of the spec or the fleet by which every role gets a host.

    ``size`` is the reduced part of a number; 1 for a dropped requirement.
    """

    text: str
    size: float


@dataclass(frozen=True)
class Explanation:
    """Shortages, and alternative sufficient changes, the smallest first."""

    shortages: tuple[Shortage, ...]
    changes: tuple[Change, ...]
    message: str


def explain(instance: Instance, lacking: t.Sequence[int], limits: Limits) -> Explanation:
    """The explanation of an instance whose groups lack hosts."""
    short = tuple(
        _shortage(instance, group, missing)
        for group, missing in zip(instance.groups, lacking)
        if missing
    )
    changes = [
        *_fewer(instance.groups, lacking),
        *_weaker(instance, limits),
        *_more(instance, limits),
    ]
    changes.sort(key=lambda change: change.size)
    return Explanation(short, tuple(changes[:_MAX_CHANGES]), _message(instance, short, changes))


def _shortage(instance: Instance, group: Group, missing: int) -> Shortage:
    verdicts = instance.judge.verdicts(group.requirements)
    failing: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for host in instance.free:
        for verdict in verdicts[host]:
            failing[verdict.requirement] += verdict.answer is False
            unknown[verdict.requirement] += verdict.answer is None
    told = tuple(
        Failing(name, failing[name], unknown[name])
        for name in failing
        if failing[name] or unknown[name]
    )
    fitting = sum(is_met(verdicts[host]) is True for host in instance.free)
    return Shortage(group.where, group.role, group.count or 1, missing, fitting, told)


def _message(instance: Instance, short: t.Sequence[Shortage], changes: t.Sequence[Change]) -> str:
    parts = [_sentence(each, len(instance.free)) for each in short[:_MAX_TOLD]]
    refused = Counter(each.reason for each in instance.refusals if each is not None)
    if refused:
        told = ", ".join(f"{reason}: {count}" for reason, count in sorted(refused.items()))
        parts.append(f"{_hosts(sum(refused.values()))} unavailable ({told})")
    if instance.request.rack_spread == "required":
        parts.append("no rack may have two masters")
    if changes:
        parts.append(f"the smallest change that helps: {changes[0].text}")
    return "; ".join(parts)


def _sentence(short: Shortage, free: int) -> str:
    told = [f"{each.requirement} {each.text}" for each in short.failing]
    reasons = f" ({', '.join(told)})" if told else ""
    return (
        f"{short.where} needs {_hosts(short.wanted)} and lacks {short.missing}: {short.fitting} of "
        f"{free} free hosts fit{reasons}"
    )


def _hosts(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"


def _fewer(groups: t.Sequence[Group], lacking: t.Sequence[int]) -> t.Iterator[Change]:
    """Fewer hosts, with at least one left for every group."""
    pairs = [(group, missing) for group, missing in zip(groups, lacking) if missing]
    if all((group.count or 1) > missing for group, missing in pairs):
        told = " and ".join(
            f"{(group.count or 1) - missing} instead of {_hosts(group.count or 1)} for {group.where}"
            for group, missing in pairs
        )
        size = max(missing / (group.count or 1) for group, missing in pairs)
        yield Change(f"request {told}", size)


_AMOUNTS = ("cpu", "memory", "gpu", "disk")
_WORDS = {"disk": "minDisk", "cpu_model": "cpuModel"}


def _weaker(instance: Instance, limits: Limits) -> t.Iterator[Change]:
    """One requirement of one group, lowered or dropped."""
    for index, group in enumerate(instance.groups):
        for name in _AMOUNTS:
            yield from _lower(instance, index, group, name, limits)
        for name, without in _dropped(group.requirements):
            if _is_feasible(instance, limits, {index: without}):
                yield Change(f"drop {name} of {group.where}", 1.0)


def _dropped(requirements: Requirements) -> t.Iterator[tuple[str, Requirements]]:
    if requirements.sriov:
        yield "sriov", dataclasses.replace(requirements, sriov=False)
    if requirements.qat:
        yield "qat", dataclasses.replace(requirements, qat=False)
    if requirements.cpu_model:
        yield "cpuModel", dataclasses.replace(requirements, cpu_model="")
    for expression in requirements.expressions:
        others = tuple(each for each in requirements.expressions if each != expression)
        yield (
            f"the expression {expression[:80]!r}",
            dataclasses.replace(requirements, expressions=others),
        )


def _lower(
    instance: Instance, index: int, group: Group, name: str, limits: Limits
) -> t.Iterator[Change]:
    """The highest lower amount that helps, by bisection over the amounts of hosts."""
    wanted = getattr(group.requirements, name)
    if not wanted:
        return
    has = sorted({0} | {n for host in instance.free if (n := _has(instance, host, name)) < wanted})

    def helps(amount: int) -> bool:
        changes: Object = {name: amount}
        weaker = dataclasses.replace(group.requirements, **changes)
        return _is_feasible(instance, limits, {index: weaker})

    if not helps(has[0]):
        return
    low, high = 0, len(has) - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if helps(has[middle]) else (low, middle - 1)
    amount, word = has[low], _WORDS.get(name, name)
    text = str(amount) if name in ("cpu", "gpu") else size_text(amount)
    what = f"lower {word} of {group.where} to {text}" if amount else f"drop {word} of {group.where}"
    yield Change(what, (wanted - amount) / wanted)


def _has(instance: Instance, host: int, name: str) -> int:
    hardware = instance.hosts[host].hardware
    if name == "cpu":
        return hardware.processors.count or 0
    if name == "memory":
        return (hardware.memory_mib or 0) * MEBIBYTE
    if name == "gpu":
        return hardware.gpus or 0
    return max((disk.size_bytes or 0 for disk in hardware.disks or ()), default=0)


def _more(instance: Instance, limits: Limits) -> t.Iterator[Change]:
    """Hosts that exist but are unavailable now."""
    for reason in sorted({each.reason for each in instance.refusals if each is not None}):
        freed = [n for n, each in enumerate(instance.refusals) if each and each.reason == reason]
        if _is_feasible(instance, limits, free=[*instance.free, *freed]):
            yield Change(f"make {_hosts(len(freed))} available (now: {reason})", 1.0)


def _is_feasible(
    instance: Instance,
    limits: Limits,
    replaced: t.Mapping[int, Requirements] | None = None,
    free: t.Sequence[int] | None = None,
) -> bool:
    lacking = shortages(instance.feasibility_problem(replaced, free), limits)
    return lacking is not None and not any(lacking)
