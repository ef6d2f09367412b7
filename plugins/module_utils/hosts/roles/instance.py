# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Input of the solver: the possible roles of hosts, and the cost of each choice.

The idle power draw of a host comes from its own power curve or its processor.
"""

from __future__ import annotations

import functools
import typing as t
from collections import Counter
from dataclasses import dataclass

from ...base import documents
from ...published.curves import rows_of
from ...scheduling.curve import Curve, Curves
from ..host import Host
from ..provisioning import Item, Request, Requirements, Role
from .assignment_model import SPREAD, Costs, Demand, HostClass, Problem
from .availability import PROVISIONED, Addresses, Former, NamedHost, Refusal, key_of
from .ip_versions import Versions
from .requirements import MEBIBYTE, Judge, is_met

# Levels, each a sum over the hosts that get a role. Maximised ones are negative in the model.
KEPT, WORKERS, WASTE, IDLE, UNPROVISIONED = (
    "kept",
    "workers",
    "waste",
    "idle_watts",
    "unprovisioned",
)
MAXIMISED = frozenset((KEPT, WORKERS))
# The model counts tenths of a watt, and thousandths of the largest host.
TENTHS = 10
_WHOLE = 1000


@dataclass(frozen=True)
class Group:
    """Equal items, which get hosts together; ``count`` None for all that fit."""

    role: Role
    count: int | None
    requirements: Requirements
    items: tuple[Item, ...]

    @property
    def where(self) -> str:
        """The place of the items in the spec."""
        more = len(self.items) - 1
        return self.items[0].where + (f" and {more} more" if more else "")


@dataclass(frozen=True)
class Instance:
    """Input data of the search for hosts that have an address of each of the IP ``versions``.

    Hosts are sorted by name and identified by position, also in ``addresses``, ``refusals``,
    ``idle`` and ``sources``. ``named`` are the hosts that items name. ``idle`` has the idle power
    draw of each host in tenths of watts, and ``sources`` say where each figure comes from.
    """

    request: Request
    hosts: t.Sequence[Host]
    judge: Judge
    named: t.Sequence[NamedHost]
    addresses: t.Sequence[Addresses]
    refusals: t.Sequence[Refusal | None]
    groups: tuple[Group, ...]
    idle: t.Sequence[int]
    sources: t.Sequence[str]
    former: Former
    versions: Versions = frozenset()

    @functools.cached_property
    def free(self) -> tuple[int, ...]:
        """The available hosts that no item names."""
        taken = {each.host for each in self.named}
        refusals = enumerate(self.refusals)
        return tuple(n for n, refusal in refusals if refusal is None and n not in taken)

    @property
    def racks_of_named(self) -> t.Mapping[str | None, int]:
        """The number of named masters in each rack."""
        masters = (each.host for each in self.named if each.item.role == "master")
        return Counter(self.hosts[host].rack for host in masters)

    def fits(self, group: Group, requirements: Requirements | None = None) -> list[bool]:
        """Whether each host meets the requirements of the group; unknown counts as no."""
        verdicts = self.judge.verdicts(requirements or group.requirements)
        return [is_met(each) is True for each in verdicts]

    def feasibility_problem(
        self,
        replaced: t.Mapping[int, Requirements] | None = None,
        free: t.Sequence[int] | None = None,
    ) -> Problem:
        """The possible roles without costs; optionally with other requirements or hosts."""
        given = replaced or {}
        fits = [self.fits(group, given.get(n)) for n, group in enumerate(self.groups)]
        bounded = self.request.rack_spread == "required"
        kinds: Counter[tuple[str | None, tuple[int, ...]]] = Counter()
        for host in self.free if free is None else free:
            demands = tuple(n for n, each in enumerate(fits) if each[host])
            kinds[self.hosts[host].rack if bounded else None, demands] += 1
        classes = (
            HostClass(size, rack, {demand: {} for demand in demands})
            for (rack, demands), size in kinds.items()
            if demands
        )
        return self._problem(tuple(classes), ())

    def problem(self) -> tuple[Problem, list[list[int]]]:
        """The problem with costs, and the hosts of each class in the order of their names."""
        fits = [self.fits(group) for group in self.groups]
        scale = self._scale()
        members: dict[t.Hashable, list[int]] = {}
        costs_of: dict[t.Hashable, dict[int, Costs]] = {}
        for host in self.free:
            costs = {
                n: self._costs(host, group, scale)
                for n, group in enumerate(self.groups)
                if fits[n][host]
            }
            if costs:
                told = tuple((n, tuple(sorted(each.items()))) for n, each in costs.items())
                key = (self.hosts[host].rack, told)
                members.setdefault(key, []).append(host)
                costs_of[key] = costs
        classes = tuple(
            HostClass(len(hosts), self.hosts[hosts[0]].rack, costs_of[key])
            for key, hosts in members.items()
        )
        return self._problem(classes, self._levels()), list(members.values())

    def _problem(self, classes: tuple[HostClass, ...], levels: tuple[str, ...]) -> Problem:
        bounded = self.request.rack_spread == "required"
        demands = tuple(Demand(group.role == "master", group.count) for group in self.groups)
        return Problem(demands, classes, levels, self.racks_of_named, 1 if bounded else None)

    def _levels(self) -> tuple[str, ...]:
        spread = () if self.request.rack_spread == "none" else (SPREAD,)
        first = (KEPT,) if self.request.keeps_roles else ()
        last = () if self.request.keeps_roles else (KEPT,)
        return (*first, *spread, WORKERS, WASTE, IDLE, UNPROVISIONED, *last)

    def _scale(self) -> tuple[int, int]:
        """The threads and the MiB of the largest free hosts."""
        hardware = [self.hosts[host].hardware for host in self.free]
        threads = max((each.processors.count or 0 for each in hardware), default=0)
        return max(1, threads), max(1, max((each.memory_mib or 0 for each in hardware), default=0))

    def _costs(self, host: int, group: Group, scale: tuple[int, int]) -> Costs:
        facts = self.hosts[host]
        had = {former.role for former in self.former.get(key_of(facts), ())}
        costs = {
            KEPT: -int(group.role in had),
            WORKERS: -int(group.count is None),
            # An item for all fitting hosts wastes none.
            WASTE: 0 if group.count is None else waste(facts, group.requirements, scale),
            IDLE: self.idle[host],
            UNPROVISIONED: int(facts.state not in PROVISIONED),
        }
        return {level: cost for level, cost in costs.items() if cost}


def waste(host: Host, requirements: Requirements, scale: tuple[int, int]) -> int:
    """Capacity of the host beyond the requirements, in thousandths of the largest host.

    Threads and memory count 1000 each for a whole host, or if unknown; SR-IOV, QAT and GPUs without
    a requirement count 1000 each.
    """
    hardware = host.hardware
    unused = (
        hardware.has_sriov and not requirements.sriov,
        hardware.has_qat and not requirements.qat,
        hardware.gpus and not requirements.gpu,
    )
    return (
        _beyond(hardware.processors.count, requirements.cpu, scale[0])
        + _beyond(hardware.memory_mib, -(-requirements.memory // MEBIBYTE), scale[1])
        + _WHOLE * sum(map(bool, unused))
    )


def _beyond(has: int | None, wanted: int, largest: int) -> int:
    return _WHOLE if has is None else round(_WHOLE * max(0, has - wanted) / largest)


def groups_of(items: t.Sequence[Item]) -> tuple[Group, ...]:
    """Groups of the items that name no host; equal labelled items are one group."""
    found: dict[t.Hashable, list[Item]] = {}
    for item in items:
        if item.mac is None:
            kind = (item.role, item.requirements, item.also_worker)
            found.setdefault((*kind, None if item.label else item.where), []).append(item)
    return tuple(
        Group(
            members[0].role,
            len(members) if members[0].label else members[0].count,
            members[0].requirements,
            tuple(members),
        )
        for members in found.values()
    )


def idle_watts(host: Host, curves: t.Mapping[str, Curve]) -> tuple[float, str] | None:
    """Power draw of the idle host and its source; None without published values."""
    curve = curves.get(host.name)
    if curve is not None:
        return curve.watts_at(0.0), "by its power curve"
    model, count = host.hardware.processors.model, host.hardware.processors.count
    rows = rows_of(model) if model else []
    if not rows:
        return None
    # Servers run two threads per core, and servers with one processor model differ in its count.
    nearest = min(rows, key=lambda row: (abs(2 * row.cores - (count or 0)), row.cores))
    return nearest.watts[0], "by published measurements of its processor"


def read_curves(path: str | None) -> Curves:
    """Power curves of a document, by the name of the host; a host's curve may be defective."""
    if path is None:
        return Curves()
    return Curves.from_document(documents.load(path, "curves")["curves"], "Curve", path)
