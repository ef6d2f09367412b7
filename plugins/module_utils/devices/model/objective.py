# Copyright: Contributors to the wattwise.kube project
# BSD-2-Clause (see LICENSES/BSD-2-Clause.txt or https://opensource.org/licenses/BSD-2-Clause)
# SPDX-License-Identifier: BSD-2-Clause
"""Objective of an allocation: levels in order of precedence.

1. satisfied: claims that get devices, a level for each priority, the highest first.
2. rank: sum of the positions of the taken alternatives; 0 if all get their first choice.
3. watts: of nodes that were unused, and of devices that were idle.
4. fragmentation: for each set of counters the share that its largest available device takes, and 1
   for each free device without counters.
5. closeness: values of PCIe root and NUMA node over the devices of a unit, less one of each.
6. names: sum of the positions of nodes and devices in their order, so that the first are taken
   first.

All values are integers, less is better; ``levels`` turns them into values for the reader.
"""

from __future__ import annotations

import itertools
import typing as t

from ...cel.values import Scalar, identities
from .model import ClaimAllocation, Device, Instance, Level
from .usage import Usage

Claims = t.Sequence[t.Optional[ClaimAllocation]]
Value = tuple[str, Scalar]
CounterSet = tuple[str, str, str]

# A device without counters, or a whole set of counters.
WHOLE = 1000
# Names of attributes, without their domain, with the place of a device in a machine.
LOCALITIES: t.Mapping[str, str] = {
    "pcieroot": "pcie",
    "numa": "numa",
    "numanode": "numa",
    "numanodeid": "numa",
}


class Objective:
    """The levels of an instance, and the value of an allocation on each of them."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self.priorities = sorted({unit.priority for unit in instance.units}, reverse=True) or [0]
        self.node_rank = {node.name: index for index, node in enumerate(instance.nodes)}
        self.wake = {node.name: node.wake_milliwatts for node in instance.nodes}
        self.counters_of: dict[CounterSet, list[int]] = {}
        for index, counter in enumerate(instance.counters):
            key = counter.driver, counter.pool, counter.counter_set
            self.counters_of.setdefault(key, []).append(index)
        self.partitions: dict[CounterSet, list[int]] = {}
        self.shares: dict[tuple[CounterSet, int], int] = {}
        for number, device in enumerate(instance.devices):
            for key in self.sets_of(device):
                self.partitions.setdefault(key, []).append(number)
                self.shares[key, number] = self._share(device, key)

    def levels(self, values: t.Sequence[int], bounds: t.Sequence[int]) -> tuple[Level, ...]:
        """Values and bounds for the reader: more is better for satisfied and fragmentation."""
        satisfied = [f"satisfied, priority {priority}" for priority in self.priorities]
        units = dict.fromkeys(satisfied if len(satisfied) > 1 else ["satisfied"], -1)
        units |= {"rank": 1, "watts": 1000, "fragmentation": -WHOLE, "closeness": 1, "names": 1}
        return tuple(
            Level(name, value / unit + 0.0, bound / unit + 0.0)
            for (name, unit), value, bound in zip(units.items(), values, bounds)
        )

    def values(self, claims: Claims) -> list[int]:
        """The integers of all levels, less is better."""
        usage, before = Usage(self._instance), Usage(self._instance)
        satisfied = dict.fromkeys(self.priorities, 0)
        rank = watts = closeness = names = 0
        awake: set[str] = set()
        for unit in self._instance.units:
            found = [claims[claim] for claim in unit.claims]
            given = [allocation for allocation in found if allocation is not None]
            if not given:
                continue
            satisfied[unit.priority] -= len(given)
            awake.add(given[0].node)
            names += self.node_rank[given[0].node]
            closeness += self._spread(given)
            for claim in unit.claims:
                usage.change(self._instance.claims[claim], claims[claim], taken=True)
            names += sum(chosen.device + 1 for one in given for chosen in one.chosen)
            rank += sum(
                sum({chosen.request: chosen.alternative for chosen in one.chosen}.values())
                for one in given
            )
        watts = sum(self.wake[node] for node in awake) + sum(
            device.milliwatts
            for number, device in enumerate(self._instance.devices)
            if device.milliwatts and usage.holders(number) and not before.holders(number)
        )
        return [*satisfied.values(), rank, watts, self.left_whole(usage), closeness, names]

    def left_whole(self, usage: Usage) -> int:
        """Negated capacity that is still available in large pieces."""
        untouched = sum(
            1
            for number, device in enumerate(self._instance.devices)
            if not device.consumes and not usage.holders(number)
        )
        return -WHOLE * untouched - sum(self.largest(key, usage) for key in self.partitions)

    def largest(self, key: CounterSet, usage: Usage) -> int:
        """The share of a set of counters that its largest available device takes."""
        return max(
            (
                self.shares[key, number]
                for number in self.partitions[key]
                if not usage.holders(number) and usage.counters_allow(number)
            ),
            default=0,
        )

    def sets_of(self, device: Device) -> set[CounterSet]:
        """The sets of counters that a device consumes."""
        counters = [self._instance.counters[position] for position, _amount in device.consumes]
        return {(counter.driver, counter.pool, counter.counter_set) for counter in counters}

    def _share(self, device: Device, key: CounterSet) -> int:
        """The mean part of the counters of a set that a device takes, of WHOLE."""
        capacities = {
            position: self._instance.counters[position].capacity
            for position in self.counters_of[key]
        }
        there = {position: capacity for position, capacity in capacities.items() if capacity > 0}
        taken = sum(
            min(WHOLE, WHOLE * amount // there[position])
            for position, amount in device.consumes
            if position in there
        )
        return taken // len(there) if there else 0

    def _spread(self, given: t.Sequence[ClaimAllocation]) -> int:
        by_kind: dict[str, set[frozenset[Value]]] = {}
        for allocation in given:
            for chosen in allocation.chosen:
                for kind, values in localities(self._instance.devices[chosen.device]).items():
                    by_kind.setdefault(kind, set()).add(values)
        return sum(_fewest_values(sets) - 1 for sets in by_kind.values())


def localities(device: Device) -> dict[str, frozenset[Value]]:
    """Place of a device in its machine, by kind; several values if it is near to several."""
    found: dict[str, frozenset[Value]] = {}
    for name, value in sorted(device.attributes.items()):
        kind = LOCALITIES.get(name.rpartition("/")[2].lower())
        if kind and kind not in found and identities(value):
            found[kind] = identities(value)
    return found


def _fewest_values(sets: t.Collection[frozenset[Value]]) -> int:
    """Size of the smallest set of values that has one of each set."""
    certain = frozenset().union(*(values for values in sets if len(values) == 1))
    open_sets = [values for values in sets if not values & certain]
    candidates = sorted(frozenset().union(*open_sets), key=str)
    for more in range(len(open_sets) + 1):
        for chosen in itertools.combinations(candidates, more):
            if all(not values.isdisjoint(chosen) for values in open_sets):
                return len(certain) + more
    return len(certain) + len(open_sets)
